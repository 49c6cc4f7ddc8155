//! How many steps a validator may take on a value: found by walking both, before the validator does.
//!
//! Every part is counted where it may apply, whether or not the validator would stop earlier. So the count is the same on
//! every machine and at every load, and a value that is too costly once is so for ever.

use serde_json::Value;

use super::graph::{Graph, Id, Part};
use super::number;

/// Most parts and places inside each other: values are checked by recursion.
const DEPTH_MAX: usize = 400;

/// Digits of the place of an item, at most.
const DIGITS: usize = 7;
/// Bytes of a violation besides what it quotes.
const VIOLATION_BYTES: u64 = 256;
/// Bytes of a value besides its text.
const VALUE_BYTES: u64 = 64;

/// What it takes to check a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Cost {
    pub(super) steps: u64,
    /// Bytes of all violations that there may be, if all are told. Of one that is far too large, at least `TOLD_MAX` is known.
    pub(super) told: u64,
}

/// No more bytes of violations are counted.
pub(super) const TOLD_MAX: u64 = 256 * 1024 * 1024;

/// Whether the violations at a place are collected.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Telling {
    No,
    /// Each refers to the value.
    Lent,
    /// Each holds a copy of the value at its place: they are part of the violation of an alternative.
    Owned,
}

/// The walk needs more than it may.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Exceeded {
    Steps,
    Depth,
}

/// What it takes to check a value, if it is at most so many steps.
pub(super) fn measure(graph: &Graph, value: &Value, steps_max: u64) -> Result<Cost, Exceeded> {
    let mut meter = Meter { graph, left: steps_max, depth: 0, path: 0, told: 0 };
    meter.visit(0, value, Telling::Lent)?;
    Ok(Cost { steps: steps_max - meter.left, told: meter.told })
}

struct Meter<'g> {
    graph: &'g Graph,
    left: u64,
    depth: usize,
    /// Bytes of the path to the place.
    path: u64,
    told: u64,
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

    /// Walks one member of the place.
    fn below(
        &mut self,
        name_length: usize,
        walk: impl FnOnce(&mut Self) -> Result<(), Exceeded>,
    ) -> Result<(), Exceeded> {
        let path = self.path;
        self.path = path.saturating_add(1 + count(name_length));
        walk(self)?;
        self.path = path;
        Ok(())
    }

    /// Counts the memory of all violations of a part at a place.
    fn tell(&mut self, part: &Part, value: &Value, telling: Telling) {
        if telling == Telling::No || self.told >= TOLD_MAX {
            return;
        }
        let copied = if telling == Telling::Owned && part.violations > 0 { size(value) } else { 0 };
        let each = VIOLATION_BYTES.saturating_add(self.path).saturating_add(copied);
        // Members that nothing allows are listed, items as their text.
        let listed = match value {
            Value::Object(fields) if part.additional.is_some() || part.unevaluated_properties.is_some() => {
                fields.keys().fold(0, |sum, name| sum + VALUE_BYTES + count(name.len()))
            }
            Value::Array(_) if part.unevaluated_items.is_some() => size(value),
            _ => 0,
        };
        let all = part.violations.saturating_mul(each).saturating_add(listed).saturating_add(part.forbidden);
        self.told = self.told.saturating_add(all).min(TOLD_MAX);
    }

    /// A part at a place. Alternatives are looked at a second time when violations are collected.
    fn visit(&mut self, id: Id, value: &Value, telling: Telling) -> Result<(), Exceeded> {
        let graph = self.graph;
        let Some(part) = graph.parts.get(id) else { return Ok(()) };
        self.spend(part.flat)?;
        self.tell(part, value, telling);
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
                Value::Number(number) => meter.spend(part.flat.saturating_mul(number::steps(number))),
                Value::Null | Value::Bool(_) => Ok(()),
            }
        })
    }

    fn twice(&mut self, id: Id, value: &Value, telling: Telling) -> Result<(), Exceeded> {
        self.visit(id, value, Telling::No)?;
        if telling == Telling::No { Ok(()) } else { self.visit(id, value, Telling::Owned) }
    }

    fn text(&mut self, part: &Part, text: &str) -> Result<(), Exceeded> {
        let length = count(text.len());
        self.spend(length.saturating_mul(part.per_byte) / 64)?;
        if part.is_pattern {
            self.spend(length.saturating_add(length.saturating_mul(length) / 1024))?;
        }
        part.pattern.map_or(Ok(()), |pattern| self.spend(pattern.steps(text.len())))
    }

    fn field(&mut self, part: &Part, name: &str, field: &Value, telling: Telling) -> Result<(), Exceeded> {
        if let Some(names) = part.names {
            self.spend(1 + count(name.len()) / 64)?;
            self.twice(names, &Value::String(name.to_owned()), telling)?;
        }
        self.below(name.len(), |meter| {
            for (pattern, next) in &part.patterns {
                meter.spend(pattern.steps(name.len()))?;
                meter.visit(*next, field, telling)?;
            }
            let next = part.properties.get(name).copied().or(part.additional);
            next.map_or(Ok(()), |next| meter.visit(next, field, telling))
        })
    }

    fn items(&mut self, part: &Part, items: &[Value], telling: Telling) -> Result<(), Exceeded> {
        for (index, item) in items.iter().enumerate() {
            self.below(DIGITS, |meter| {
                if let Some(next) = part.prefix.get(index).copied().or(part.items) {
                    meter.visit(next, item, telling)?;
                }
                part.contains.map_or(Ok(()), |next| meter.twice(next, item, telling))
            })?;
        }
        Ok(())
    }

    /// `unevaluated…`: the parts that apply to the place are asked again which of its members they know.
    fn unevaluated(&mut self, next: Option<Id>, part: &Part, value: &Value, telling: Telling) -> Result<(), Exceeded> {
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
                self.visit(next, member, Telling::No)?;
            }
        }
        for id in part.here() {
            self.visit(id, value, Telling::No)?;
            let Some(next) = graph.parts.get(id) else { continue };
            self.deeper(|meter| meter.mark(next, value))?;
        }
        Ok(())
    }

    /// Hashes and compares everything in an array.
    fn compare(&mut self, value: &Value) -> Result<(), Exceeded> {
        let length = match value {
            Value::String(text) => text.len(),
            Value::Number(number) => number.as_str().len(),
            Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => 0,
        };
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

/// Bytes of a value in memory.
pub(super) fn size(value: &Value) -> u64 {
    let text = match value {
        Value::String(text) => text.len(),
        Value::Number(number) => number.as_str().len(),
        Value::Object(fields) => fields.keys().map(String::len).sum(),
        Value::Null | Value::Bool(_) | Value::Array(_) => 0,
    };
    members(value).fold(VALUE_BYTES + count(text), |sum, member| sum.saturating_add(size(member)))
}

fn count(length: usize) -> u64 {
    u64::try_from(length).unwrap_or(u64::MAX)
}
