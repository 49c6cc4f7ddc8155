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
    /// The endings that its name is expected to have, without the dot; any when empty.
    pub(crate) extensions: Vec<String>,
}

/// The fields of an input schema that are one file each: all that say neither `inline` nor `files`.
pub(crate) fn file_fields(input_schema: &Value) -> Vec<FileField> {
    fields_from(input_schema, |source| !matches!(source, Some("inline" | "files")))
}

/// The field that takes every uploaded file that is no other field's.
pub(crate) fn rest_field(input_schema: &Value) -> Option<FileField> {
    fields_from(input_schema, |source| source == Some("files")).into_iter().next()
}

fn fields_from(input_schema: &Value, wanted: impl Fn(Option<&str>) -> bool) -> Vec<FileField> {
    let required = input_schema.get("required").and_then(Value::as_array);
    let is_required = |name: &String| required.is_some_and(|names| names.iter().any(|other| other == name));
    let of = |(name, field): (&String, &Value)| FileField {
        name: name.clone(),
        required: is_required(name),
        extensions: extensions(field),
    };
    let source = |field: &Value| field.get("x-input-source").and_then(Value::as_str).map(str::to_owned);
    properties(input_schema).filter(|(_, field)| wanted(source(field).as_deref())).map(of).collect()
}

/// The endings that files of a field are expected to have: `txt` and `.txt` mean the same.
fn extensions(field: &Value) -> Vec<String> {
    let listed = field.get("extensions").and_then(Value::as_array).into_iter().flatten();
    listed.filter_map(Value::as_str).map(|text| text.trim_start_matches('.').to_ascii_lowercase()).collect()
}

/// The input schema for inline values only: files are not part of the JSON, so they cannot be required in it.
pub(crate) fn inline_schema(input_schema: &Value) -> Value {
    let mut schema = input_schema.clone();
    let fields = file_fields(input_schema).into_iter().chain(rest_field(input_schema));
    let files: BTreeSet<String> = fields.map(|field| field.name).collect();
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
