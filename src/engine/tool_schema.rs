//! Output schemas for engines that turn them into a tool (claude, qwen), which refuse every keyword they do not know.

use serde_json::{Map, Value};

/// Keywords that say nothing about validity, or nothing that these engines check. They know no formats.
const NOTES: [&str; 10] = [
    "$schema",
    "$id",
    "$comment",
    "default",
    "examples",
    "deprecated",
    "readOnly",
    "writeOnly",
    "format",
    "extensions",
];

/// Keywords whose value is not a schema.
const PLAIN: [&str; 19] = [
    "type",
    "title",
    "description",
    "enum",
    "const",
    "required",
    "minimum",
    "maximum",
    "exclusiveMinimum",
    "exclusiveMaximum",
    "multipleOf",
    "minLength",
    "maxLength",
    "pattern",
    "minItems",
    "maxItems",
    "uniqueItems",
    "minProperties",
    "maxProperties",
];

/// The schema without notes and extensions, if it describes an object with keywords of draft 7. The engine does not start
/// with any other schema, so it then gets none; the runner validates the output in any case.
pub(crate) fn for_tool(schema: &Value) -> Option<Value> {
    if schema["type"] != "object" {
        return None;
    }
    known(schema)
}

fn known(schema: &Value) -> Option<Value> {
    let entries = match schema {
        Value::Bool(_) => return Some(schema.clone()),
        Value::Object(entries) => entries,
        Value::Null | Value::Number(_) | Value::String(_) | Value::Array(_) => return None,
    };
    let mut kept = Map::new();
    for (keyword, value) in entries {
        let value = match keyword.as_str() {
            note if NOTES.contains(&note) || note.starts_with("x-") => continue,
            plain if PLAIN.contains(&plain) => value.clone(),
            // The engines do not fetch schemas from elsewhere.
            "$ref" if value.as_str().is_some_and(|place| place.starts_with('#')) => value.clone(),
            "items" | "additionalProperties" | "propertyNames" | "contains" | "not" => known(value)?,
            "allOf" | "anyOf" | "oneOf" => value.as_array()?.iter().map(known).collect::<Option<Vec<_>>>()?.into(),
            "properties" | "$defs" | "definitions" => {
                let named = value.as_object()?.iter();
                named.map(|(name, schema)| Some((name.clone(), known(schema)?))).collect::<Option<Map<_, _>>>()?.into()
            }
            _ => return None,
        };
        kept.insert(keyword.clone(), value);
    }
    Some(Value::Object(kept))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn notes_and_extensions_are_left_out_at_every_depth() {
        let schema = json!({
            "$schema": "https://json-schema.org/draft/2020-12/schema", "type": "object", "required": ["x-file"],
            "properties": {
                "x-file": { "type": "string", "x-type": "artifact", "format": "uri", "description": "d" },
                "rest": { "type": "array", "items": { "$ref": "#/$defs/one" } },
            },
            "$defs": { "one": { "anyOf": [{ "const": 1, "default": 1 }, true] } },
            "additionalProperties": false,
        });
        let expected = json!({
            "type": "object", "required": ["x-file"],
            "properties": {
                "x-file": { "type": "string", "description": "d" },
                "rest": { "type": "array", "items": { "$ref": "#/$defs/one" } },
            },
            "$defs": { "one": { "anyOf": [{ "const": 1 }, true] } },
            "additionalProperties": false,
        });
        assert_eq!(for_tool(&schema), Some(expected));
    }

    #[test]
    fn a_schema_with_a_word_the_engines_do_not_know_is_not_handed_over() {
        for unknown in [
            json!({ "type": "array" }),
            json!({ "properties": {} }),
            json!({ "type": "object", "unevaluatedProperties": false }),
            json!({ "type": "object", "properties": { "a": { "prefixItems": [] } } }),
            json!({ "type": "object", "properties": { "a": { "$ref": "https://elsewhere.example/x" } } }),
            json!({ "type": "object", "properties": { "a": { "items": [{}] } } }),
            json!(true),
        ] {
            assert_eq!(for_tool(&unknown), None, "{unknown}");
        }
    }
}
