//! How often a schema checks one place of a value: references that multiply could make a small schema run for ever.

use std::collections::{HashMap, HashSet};

use serde_json::{Map, Value};

/// Most checks of one place of a value.
const COST_MAX: u64 = 100_000;
/// Longest path through the schema, references followed.
const DEPTH_MAX: usize = 300;

/// Why a schema is not used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum TooCostly {
    /// Its parts apply to the same place again and again.
    Multiplies,
    /// One reference leads to the next too often.
    Deep,
}

/// Estimates the cost of a schema; only references within it are followed.
pub(crate) fn check(schema: &Value) -> Result<(), TooCostly> {
    let mut scale = Scale { root: schema, anchors: HashMap::new(), weighed: HashMap::new(), entered: HashSet::new() };
    find_anchors(schema, &mut scale.anchors);
    match scale.cost(schema, 0)? {
        cost if cost > COST_MAX => Err(TooCostly::Multiplies),
        _ => Ok(()),
    }
}

struct Scale<'a> {
    root: &'a Value,
    anchors: HashMap<&'a str, &'a Value>,
    weighed: HashMap<*const Value, u64>,
    /// The schemas being visited. A recursive schema counts once: the value decides how often it recurs.
    entered: HashSet<*const Value>,
}

impl<'a> Scale<'a> {
    fn cost(&mut self, schema: &'a Value, depth: usize) -> Result<u64, TooCostly> {
        let Value::Object(keywords) = schema else { return Ok(1) };
        let place = std::ptr::from_ref(schema);
        if let Some(cost) = self.weighed.get(&place) {
            return Ok(*cost);
        }
        if depth > DEPTH_MAX {
            return Err(TooCostly::Deep);
        }
        if !self.entered.insert(place) {
            return Ok(1);
        }
        let cost = self.keywords(keywords, depth + 1)?;
        self.entered.remove(&place);
        self.weighed.insert(place, cost);
        Ok(cost)
    }

    fn keywords(&mut self, keywords: &'a Map<String, Value>, depth: usize) -> Result<u64, TooCostly> {
        let mut sum: u64 = 1;
        for (keyword, value) in keywords {
            let cost = match (keyword.as_str(), value) {
                ("$ref" | "$dynamicRef" | "$recursiveRef", Value::String(reference)) => match self.target(reference) {
                    Some(target) => self.cost(target, depth)?,
                    None => 1,
                },
                // One of these applies to a place at a time.
                ("properties", Value::Object(each)) => self.largest(each.values(), depth)?,
                ("prefixItems", Value::Array(each)) => self.largest(each.iter(), depth)?,
                // Reached by references only.
                ("$defs" | "definitions" | "enum" | "const" | "default" | "examples", _) => 0,
                (_, Value::Object(each)) if is_map_of_schemas(keyword) => self.total(each.values(), depth)?,
                (_, Value::Object(_)) => self.cost(value, depth)?,
                (_, Value::Array(each)) => self.total(each.iter(), depth)?,
                _ => 0,
            };
            sum = sum.saturating_add(cost);
        }
        Ok(sum)
    }

    fn total(&mut self, each: impl Iterator<Item = &'a Value>, depth: usize) -> Result<u64, TooCostly> {
        let mut sum: u64 = 0;
        for schema in each.filter(|value| value.is_object()) {
            sum = sum.saturating_add(self.cost(schema, depth)?);
        }
        Ok(sum)
    }

    fn largest(&mut self, each: impl Iterator<Item = &'a Value>, depth: usize) -> Result<u64, TooCostly> {
        let mut largest = 0;
        for schema in each {
            largest = self.cost(schema, depth)?.max(largest);
        }
        Ok(largest)
    }

    fn target(&self, reference: &str) -> Option<&'a Value> {
        // The part before the `#` may be the schema's own id.
        let (_, fragment) = reference.split_once('#')?;
        if fragment.is_empty() || fragment.starts_with('/') {
            return self.root.pointer(&fragment.replace("%25", "%"));
        }
        self.anchors.get(fragment).copied()
    }
}

fn is_map_of_schemas(keyword: &str) -> bool {
    matches!(keyword, "patternProperties" | "dependentSchemas" | "dependencies")
}

fn find_anchors<'a>(value: &'a Value, anchors: &mut HashMap<&'a str, &'a Value>) {
    match value {
        Value::Object(fields) => {
            for name in ["$anchor", "$dynamicAnchor"] {
                anchors.extend(fields.get(name).and_then(Value::as_str).map(|name| (name, value)));
            }
            fields.values().for_each(|field| find_anchors(field, anchors));
        }
        Value::Array(items) => items.iter().for_each(|item| find_anchors(item, anchors)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn chain(levels: usize, level: impl Fn(Value) -> Value) -> Value {
        let next = |number: usize| json!({ "$ref": format!("#/$defs/a{number}") });
        let each = (0..levels).map(|number| (format!("a{number}"), level(next(number + 1))));
        let last = (format!("a{levels}"), json!({ "type": "object" }));
        let defs: Map<String, Value> = each.chain([last]).collect();
        json!({ "type": "object", "$ref": "#/$defs/a0", "$defs": defs })
    }

    #[test]
    fn references_that_multiply_are_found_however_they_do() {
        let twice = |next: Value| json!({ "allOf": [next.clone(), next] });
        assert_eq!(check(&chain(10, twice)), Ok(()));
        assert_eq!(check(&chain(40, twice)), Err(TooCostly::Multiplies));
        let either = |next: Value| json!({ "if": next.clone(), "then": next });
        assert_eq!(check(&chain(40, either)), Err(TooCostly::Multiplies));
        let below = |next: Value| {
            let field = json!({ "properties": { "x": next } });
            json!({ "allOf": [field.clone(), field] })
        };
        assert_eq!(check(&chain(40, below)), Err(TooCostly::Multiplies));
    }

    #[test]
    fn a_tree_of_fields_is_no_burden_and_neither_is_a_schema_that_comes_back_to_itself() {
        let tree = |next: Value| json!({ "properties": { "left": next.clone(), "right": next } });
        assert_eq!(check(&chain(40, tree)), Ok(()));
        let list = json!({ "$anchor": "list", "properties": { "head": {}, "tail": { "$ref": "#list" } } });
        assert_eq!(check(&list), Ok(()));
        assert_eq!(check(&json!({ "oneOf": [{ "type": "string" }, { "items": { "$ref": "#" } }] })), Ok(()));
    }

    #[test]
    fn a_way_without_an_end_in_sight_is_refused() {
        assert_eq!(check(&chain(10_000, |next| next)), Err(TooCostly::Deep));
    }
}
