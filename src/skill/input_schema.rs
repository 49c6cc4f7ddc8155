//! What an input schema says about files and inline values.

use std::collections::BTreeSet;

use serde_json::Value;

/// An input that is uploaded as a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct FileField {
    /// The field, and the file's exact name in `uploads/`.
    pub(crate) name: String,
    /// Whether a run without it fails.
    pub(crate) required: bool,
}

/// The fields of an input schema that are files: all that do not say `inline`.
pub(crate) fn file_fields(input_schema: &Value) -> Vec<FileField> {
    let required = input_schema.get("required").and_then(Value::as_array);
    let is_required = |name: &String| required.is_some_and(|names| names.iter().any(|other| other == name));
    let is_file = |field: &Value| field.get("x-input-source").and_then(Value::as_str) != Some("inline");
    properties(input_schema)
        .filter(|(_, field)| is_file(field))
        .map(|(name, _)| FileField { name: name.clone(), required: is_required(name) })
        .collect()
}

/// The input schema for inline values only: files are not part of the JSON, so they cannot be required in it.
pub(crate) fn inline_schema(input_schema: &Value) -> Value {
    let mut schema = input_schema.clone();
    let files: BTreeSet<String> = file_fields(input_schema).into_iter().map(|field| field.name).collect();
    if let Some(properties) = schema.get_mut("properties").and_then(Value::as_object_mut) {
        properties.retain(|name, _| !files.contains(name));
    }
    if let Some(required) = schema.get_mut("required").and_then(Value::as_array_mut) {
        required.retain(|name| !name.as_str().is_some_and(|name| files.contains(name)));
    }
    schema
}

/// Whether a schema allows no inputs other than its properties; the default is that it does not.
pub(crate) fn is_closed(input_schema: &Value) -> bool {
    let more = input_schema.get("additionalProperties").is_some_and(|more| *more != Value::Bool(false));
    !more && input_schema.get("patternProperties").is_none()
}

pub(crate) fn properties(schema: &Value) -> impl Iterator<Item = (&String, &Value)> {
    schema.get("properties").and_then(Value::as_object).into_iter().flatten()
}
