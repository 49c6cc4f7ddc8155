//! Output schemas for codex, whose model service takes only the strict subset of JSON Schema.

use serde_json::{Map, Value};

/// Keywords that say nothing about validity.
const NOTES: [&str; 8] = ["$schema", "$id", "title", "default", "examples", "extensions", "$comment", "deprecated"];

/// The schema without notes and extensions, if what is left is strict: every object is closed and requires all its
/// fields. The service refuses a request with any other schema, so then codex is given none.
pub(crate) fn strict(schema: &Value) -> Option<Value> {
    let Value::Object(schema) = schema else { return None };
    let mut kept = Map::new();
    for (keyword, value) in schema {
        let value = match keyword.as_str() {
            note if NOTES.contains(&note) || note.starts_with("x-") => continue,
            "type" | "enum" | "const" | "description" | "required" | "additionalProperties" => value.clone(),
            "items" => strict(value)?,
            "anyOf" => value.as_array()?.iter().map(strict).collect::<Option<Vec<_>>>()?.into(),
            "properties" => {
                let fields = value.as_object()?.iter();
                let fields = fields.map(|(name, field)| Some((name.clone(), strict(field)?)));
                fields.collect::<Option<Map<_, _>>>()?.into()
            }
            _ => return None,
        };
        kept.insert(keyword.clone(), value);
    }
    let is_object = kept.get("type").is_some_and(|kind| kind == "object") || kept.contains_key("properties");
    if is_object && !is_closed(&kept) {
        return None;
    }
    Some(Value::Object(kept))
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

    #[test]
    fn a_schema_the_service_would_refuse_is_not_handed_over() {
        for open in [
            json!({ "type": "object", "properties": { "a": {} }, "required": ["a"] }),
            json!({ "type": "object", "properties": { "a": {} }, "additionalProperties": false }),
            json!({ "type": "array", "items": { "type": "object" } }),
            json!({ "type": "string", "pattern": "x" }),
            json!(true),
        ] {
            assert_eq!(strict(&open), None, "{open}");
        }
    }
}
