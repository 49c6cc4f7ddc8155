//! How many steps a validator may take on a value: found by walking both, before the validator does.
//!
//! Every part is counted where it may apply, whether or not the validator would stop earlier. So the count is the same on
//! every machine and at every load, and a value that is too costly once is so for ever.

use serde_json::Value;

use super::graph::{Graph, Id, Part};

/// Most parts and places inside each other: values are checked by recursion.
const DEPTH_MAX: usize = 400;

/// The walk needs more than it may.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Exceeded {
    Steps,
    Depth,
}

/// Steps to check a value, if they are at most so many.
pub(super) fn measure(graph: &Graph, value: &Value, steps_max: u64) -> Result<u64, Exceeded> {
    let mut meter = Meter { graph, left: steps_max, depth: 0 };
    meter.visit(0, value, true)?;
    Ok(steps_max - meter.left)
}

struct Meter<'g> {
    graph: &'g Graph,
    left: u64,
    depth: usize,
}

impl Meter<'_> {
    fn spend(&mut self, steps: u64) -> Result<(), Exceeded> {
        self.left = self.left.checked_sub(steps).ok_or(Exceeded::Steps)?;
        Ok(())
    }

    fn deeper(&mut self, walk: impl FnOnce(&mut Self) -> Result<(), Exceeded>) -> Result<(), Exceeded> {
        if self.depth == DEPTH_MAX {
            return Err(Exceeded::Depth);
        }
        self.depth += 1;
        walk(self)?;
        self.depth -= 1;
        Ok(())
    }

    /// A part at a place. `telling`: violations are collected, for which alternatives are looked at a second time.
    fn visit(&mut self, id: Id, value: &Value, telling: bool) -> Result<(), Exceeded> {
        let graph = self.graph;
        let Some(part) = graph.parts.get(id) else { return Ok(()) };
        self.spend(part.flat)?;
        self.deeper(|meter| {
            for next in &part.all {
                meter.visit(*next, value, telling)?;
            }
            for next in &part.tried {
                meter.twice(*next, value, telling)?;
            }
            match value {
                Value::String(text) => meter.text(part, text),
                Value::Object(fields) => {
                    meter.spend(count(fields.len()))?;
                    for (name, field) in fields {
                        meter.field(part, name, field, telling)?;
                    }
                    meter.unevaluated(part.unevaluated_properties, part, value, telling)
                }
                Value::Array(items) => {
                    meter.spend(count(items.len()))?;
                    meter.items(part, items, telling)?;
                    if part.unique {
                        meter.compare(value)?;
                    }
                    meter.unevaluated(part.unevaluated_items, part, value, telling)
                }
                Value::Null | Value::Bool(_) | Value::Number(_) => Ok(()),
            }
        })
    }

    fn twice(&mut self, id: Id, value: &Value, telling: bool) -> Result<(), Exceeded> {
        self.visit(id, value, false)?;
        if telling { self.visit(id, value, true) } else { Ok(()) }
    }

    fn text(&mut self, part: &Part, text: &str) -> Result<(), Exceeded> {
        let length = count(text.len());
        self.spend(length.saturating_mul(part.per_byte) / 64)?;
        if part.is_pattern {
            self.spend(length.saturating_add(length.saturating_mul(length) / 1024))?;
        }
        part.pattern.map_or(Ok(()), |pattern| self.spend(pattern.steps(text.len())))
    }

    fn field(&mut self, part: &Part, name: &str, field: &Value, telling: bool) -> Result<(), Exceeded> {
        if let Some(names) = part.names {
            self.spend(1 + count(name.len()) / 64)?;
            self.twice(names, &Value::String(name.to_owned()), telling)?;
        }
        for (pattern, next) in &part.patterns {
            self.spend(pattern.steps(name.len()))?;
            self.visit(*next, field, telling)?;
        }
        let next = part.properties.get(name).copied().or(part.additional);
        next.map_or(Ok(()), |next| self.visit(next, field, telling))
    }

    fn items(&mut self, part: &Part, items: &[Value], telling: bool) -> Result<(), Exceeded> {
        for (index, item) in items.iter().enumerate() {
            if let Some(next) = part.prefix.get(index).copied().or(part.items) {
                self.visit(next, item, telling)?;
            }
            if let Some(next) = part.contains {
                self.twice(next, item, telling)?;
            }
        }
        Ok(())
    }

    /// `unevaluated…`: the parts that apply to the place are asked again which of its members they know.
    fn unevaluated(&mut self, next: Option<Id>, part: &Part, value: &Value, telling: bool) -> Result<(), Exceeded> {
        let Some(next) = next else { return Ok(()) };
        self.mark(part, value)?;
        for member in members(value) {
            self.twice(next, member, telling)?;
        }
        Ok(())
    }

    fn mark(&mut self, part: &Part, value: &Value) -> Result<(), Exceeded> {
        let graph = self.graph;
        self.spend(1 + count(members(value).count()))?;
        if let Value::Object(fields) = value {
            for (pattern, _) in &part.patterns {
                for name in fields.keys() {
                    self.spend(pattern.steps(name.len()))?;
                }
            }
        }
        for next in [part.unevaluated_properties, part.unevaluated_items, part.contains].into_iter().flatten() {
            for member in members(value) {
                self.visit(next, member, false)?;
            }
        }
        for id in part.here() {
            self.visit(id, value, false)?;
            let Some(next) = graph.parts.get(id) else { continue };
            self.deeper(|meter| meter.mark(next, value))?;
        }
        Ok(())
    }

    /// Hashes and compares everything in an array.
    fn compare(&mut self, value: &Value) -> Result<(), Exceeded> {
        let length = if let Value::String(text) = value { text.len() } else { 0 };
        self.spend(16 + count(length) / 16)?;
        members(value).try_for_each(|member| self.compare(member))
    }
}

fn members(value: &Value) -> Box<dyn Iterator<Item = &Value> + '_> {
    match value {
        Value::Object(fields) => Box::new(fields.values()),
        Value::Array(items) => Box::new(items.iter()),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => Box::new(std::iter::empty()),
    }
}

fn count(length: usize) -> u64 {
    u64::try_from(length).unwrap_or(u64::MAX)
}
