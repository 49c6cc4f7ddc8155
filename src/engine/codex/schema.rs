//! Output schemas for codex, whose model service takes only the strict subset of JSON Schema.

use serde_json::{Map, Value};

/// Keywords that say nothing about validity.
const NOTES: [&str; 8] = ["$schema", "$id", "title", "default", "examples", "extensions", "$comment", "deprecated"];
/// Keywords that only restrict a value further and that the service does not take. The runner checks them itself.
const LEFT_OUT: [&str; 5] = ["minLength", "maxLength", "uniqueItems", "minProperties", "maxProperties"];
/// Formats that the service takes; another one is left out.
const FORMATS: [&str; 9] = ["date-time", "time", "date", "duration", "email", "hostname", "ipv4", "ipv6", "uuid"];
/// Most levels of objects and arrays inside each other.
const DEPTH_MAX: usize = 10;
/// Most fields of all objects together.
const FIELDS_MAX: usize = 5000;

/// The schema as the service takes it: of an object, every object closed and with all its fields required, without notes and
/// extensions. The service refuses a request with any other schema, so then codex is given none.
pub(crate) fn strict(schema: &Value) -> Option<Value> {
    if schema.get("type")? != "object" || schema.get("anyOf").is_some() {
        return None;
    }
    let mut fields = 0;
    part(schema, 0, &mut fields)
}

fn part(schema: &Value, depth: usize, fields: &mut usize) -> Option<Value> {
    let Value::Object(schema) = schema else { return None };
    if depth > DEPTH_MAX {
        return None;
    }
    // Nothing may stand beside a reference.
    if let Some(place) = schema.get("$ref") {
        let inside = place.as_str().is_some_and(|place| place.starts_with('#'));
        return inside.then(|| Value::Object(Map::from_iter([("$ref".to_owned(), place.clone())])));
    }
    let mut kept = Map::new();
    for (keyword, value) in schema {
        let value = match keyword.as_str() {
            note if NOTES.contains(&note) || LEFT_OUT.contains(&note) || note.starts_with("x-") => continue,
            "format" if !value.as_str().is_some_and(|format| FORMATS.contains(&format)) => continue,
            "type"
            | "enum"
            | "const"
            | "description"
            | "required"
            | "additionalProperties"
            | "pattern"
            | "format"
            | "minimum"
            | "maximum"
            | "exclusiveMinimum"
            | "exclusiveMaximum"
            | "multipleOf"
            | "minItems"
            | "maxItems" => value.clone(),
            "items" => part(value, depth + 1, fields)?,
            "anyOf" => {
                let parts = value.as_array()?.iter().map(|value| part(value, depth, fields));
                parts.collect::<Option<Vec<_>>>()?.into()
            }
            "properties" => {
                let named = value.as_object()?;
                *fields += named.len();
                parts_of(named, depth + 1, fields)?
            }
            "$defs" | "definitions" => parts_of(value.as_object()?, depth, fields)?,
            _ => return None,
        };
        kept.insert(keyword.clone(), value);
    }
    let is_object = kept.get("type").is_some_and(|kind| kind == "object") || kept.contains_key("properties");
    let fits = !is_object || is_closed(&kept);
    (fits && *fields <= FIELDS_MAX).then_some(Value::Object(kept))
}

fn parts_of(named: &Map<String, Value>, depth: usize, fields: &mut usize) -> Option<Value> {
    let parts = named.iter().map(|(name, value)| Some((name.clone(), part(value, depth, fields)?)));
    parts.collect::<Option<Map<_, _>>>().map(Value::Object)
}

fn is_closed(schema: &Map<String, Value>) -> bool {
    let no_fields = Map::new();
    let fields = schema.get("properties").and_then(Value::as_object).unwrap_or(&no_fields);
    let required = schema.get("required").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    let all_required = fields.keys().all(|name| required.iter().any(|required| required == name));
    all_required && schema.get("additionalProperties") == Some(&Value::Bool(false))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_closed_schema_is_handed_over_without_its_notes() {
        let schema = json!({
            "$schema": "x", "type": "object", "additionalProperties": false, "required": ["a"],
            "properties": { "a": { "type": "string", "x-type": "artifact", "description": "d" } },
        });
        let expected = json!({
            "type": "object", "additionalProperties": false, "required": ["a"],
            "properties": { "a": { "type": "string", "description": "d" } },
        });
        assert_eq!(strict(&schema), Some(expected));
    }

    fn closed(field: Value) -> Value {
        json!({
            "type": "object", "additionalProperties": false, "required": ["a"], "properties": { "a": field },
        })
    }

    #[test]
    fn limits_patterns_and_references_are_handed_over_and_what_the_service_does_not_know_is_left_to_the_runner() {
        for (field, taken) in [
            (
                json!({ "type": "string", "pattern": "^x", "minLength": 2 }),
                json!({ "type": "string", "pattern": "^x" }),
            ),
            (json!({ "type": "string", "format": "date" }), json!({ "type": "string", "format": "date" })),
            (json!({ "type": "string", "format": "uri" }), json!({ "type": "string" })),
            (
                json!({ "type": ["integer", "null"], "minimum": 1 }),
                json!({ "type": ["integer", "null"], "minimum": 1 }),
            ),
            (
                json!({ "type": "array", "minItems": 1, "uniqueItems": true, "items": { "$ref": "#/$defs/one", "title": "x" } }),
                json!({ "type": "array", "minItems": 1, "items": { "$ref": "#/$defs/one" } }),
            ),
        ] {
            let mut schema = closed(field);
            schema["$defs"] = json!({ "one": { "anyOf": [{ "const": 1 }, { "type": "null" }] } });
            let mut expected = closed(taken);
            expected["$defs"] = schema["$defs"].clone();
            assert_eq!(strict(&schema), Some(expected), "{schema}");
        }
    }

    #[test]
    fn a_schema_the_service_would_refuse_is_not_handed_over() {
        for open in [
            json!({ "type": "object", "properties": { "a": {} }, "required": ["a"] }),
            json!({ "type": "object", "properties": { "a": {} }, "additionalProperties": false }),
            json!({ "type": "array", "items": { "type": "string" } }),
            json!({ "type": "string", "pattern": "x" }),
            closed(json!({ "type": "array", "items": { "type": "object" } })),
            closed(json!({ "oneOf": [{ "type": "string" }] })),
            closed(json!({ "$ref": "https://elsewhere.example/x" })),
            (0..12).fold(json!({ "type": "string" }), |inner, _| closed(inner)),
            json!(true),
        ] {
            assert_eq!(strict(&open), None, "{open}");
        }
    }
}
