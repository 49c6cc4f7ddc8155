//! The fields that a JSON Schema describes, one row each, for people who read it.

use serde_json::Value;

/// Most rows of one schema.
const ROWS_MAX: usize = 200;
/// How deep fields within fields are listed.
const DEPTH_MAX: usize = 4;

/// One field of a schema.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Field {
    /// Its name, below others with a dot between, `[]` for the items of a list.
    pub(crate) name: String,
    pub(crate) kind: String,
    pub(crate) required: bool,
    /// The value that is used where none is given, as JSON.
    pub(crate) default: Option<String>,
    /// What it is for, and what it may be.
    pub(crate) about: String,
}

/// The fields of an object, each before those within it.
pub(crate) fn fields(schema: &Value) -> Vec<Field> {
    let mut found = Vec::new();
    Walk { root: schema, found: &mut found }.object(schema, "", 0);
    found
}

struct Walk<'a> {
    root: &'a Value,
    found: &'a mut Vec<Field>,
}

impl<'a> Walk<'a> {
    fn object(&mut self, schema: &'a Value, prefix: &str, depth: usize) {
        let schema = self.target(schema);
        let required = schema["required"].as_array();
        for (name, field) in schema["properties"].as_object().into_iter().flatten() {
            if self.found.len() >= ROWS_MAX {
                return;
            }
            let field = self.target(field);
            let name_shown = format!("{prefix}{name}");
            self.found.push(Field {
                name: name_shown.clone(),
                kind: self.kind(field),
                required: required.is_some_and(|names| names.iter().any(|other| other == name)),
                default: field.get("default").map(Value::to_string),
                about: about(field),
            });
            if depth == DEPTH_MAX {
                continue;
            }
            self.object(field, &format!("{name_shown}."), depth + 1);
            if let Some(items) = field.get("items") {
                self.object(items, &format!("{name_shown}[]."), depth + 1);
            }
        }
    }

    /// What a reference within the schema leads to.
    fn target(&self, schema: &'a Value) -> &'a Value {
        let reference = schema["$ref"].as_str().and_then(|reference| reference.strip_prefix('#'));
        reference.and_then(|pointer| self.root.pointer(pointer)).unwrap_or(schema)
    }

    fn kind(&self, field: &'a Value) -> String {
        let name = |kind: &Value| kind.as_str().unwrap_or_default().to_owned();
        let plain = match &field["type"] {
            Value::String(kind) => kind.clone(),
            Value::Array(kinds) => kinds.iter().map(name).collect::<Vec<_>>().join(" or "),
            _ if field.get("enum").is_some() || field.get("const").is_some() => "one of".into(),
            _ if field.get("properties").is_some() => "object".into(),
            _ => "any".into(),
        };
        match field.get("items") {
            Some(items) if plain == "array" => format!("array of {}", self.kind(self.target(items))),
            _ => plain,
        }
    }
}

/// The description, and the limits that are easily told.
fn about(field: &Value) -> String {
    let description = field["description"].as_str().unwrap_or_default();
    let mut told: Vec<String> = Vec::new();
    if let Some(values) = field["enum"].as_array() {
        let values: Vec<String> = values.iter().map(Value::to_string).collect();
        told.push(format!("one of {}", values.join(", ")));
    }
    if let Some(value) = field.get("const") {
        told.push(format!("always {value}"));
    }
    for (key, word) in [
        ("minimum", "at least"),
        ("exclusiveMinimum", "more than"),
        ("maximum", "at most"),
        ("exclusiveMaximum", "less than"),
        ("minLength", "characters at least"),
        ("maxLength", "characters at most"),
        ("minItems", "items at least"),
        ("maxItems", "items at most"),
    ] {
        if let Some(limit) = field.get(key) {
            told.push(format!("{word} {limit}"));
        }
    }
    for (key, word) in [("pattern", "matches"), ("format", "format")] {
        if let Some(text) = field[key].as_str() {
            told.push(format!("{word} {text}"));
        }
    }
    if let Some(endings) = field["extensions"].as_array() {
        let endings: Vec<&str> = endings.iter().filter_map(Value::as_str).collect();
        told.push(format!("files {}", endings.join(", ")));
    }
    match (description, told.join(", ").as_str()) {
        (description, "") => description.to_owned(),
        ("", limits) => limits.to_owned(),
        (description, limits) => format!("{description} ({limits})"),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn every_field_is_a_row_with_its_type_its_need_its_default_and_its_limits() {
        let schema = json!({
            "type": "object", "required": ["text"],
            "properties": {
                "text": {"type": "string", "description": "The text.", "maxLength": 9},
                "size": {"type": ["integer", "null"], "minimum": 1, "default": 3},
                "mode": {"enum": ["a", "b"]},
                "people": {"type": "array", "items": {"$ref": "#/$defs/person"}},
                "free": {}
            },
            "$defs": {"person": {"type": "object", "required": ["name"], "properties": {
                "name": {"type": "string"}, "friends": {"type": "array", "items": {"$ref": "#/$defs/person"}}
            }}}
        });
        let rows: Vec<(String, String, bool, Option<String>, String)> = fields(&schema)
            .into_iter()
            .map(|field| (field.name, field.kind, field.required, field.default, field.about))
            .collect();
        let row = |name: &str, kind: &str, required: bool, default: Option<&str>, about: &str| {
            (name.to_owned(), kind.to_owned(), required, default.map(str::to_owned), about.to_owned())
        };
        assert_eq!(
            rows[..6],
            [
                row("text", "string", true, None, "The text. (characters at most 9)"),
                row("size", "integer or null", false, Some("3"), "at least 1"),
                row("mode", "one of", false, None, "one of \"a\", \"b\""),
                row("people", "array of object", false, None, ""),
                row("people[].name", "string", true, None, ""),
                row("people[].friends", "array of object", false, None, ""),
            ]
        );
        // A schema that refers to itself ends.
        assert_eq!(rows.iter().filter(|(name, ..)| name.ends_with(".name")).count(), 4);
        assert_eq!(rows.last().unwrap(), &row("free", "any", false, None, ""));
        assert_eq!(fields(&json!({"type": "object"})), []);
        assert_eq!(fields(&json!(true)), []);
    }
}
