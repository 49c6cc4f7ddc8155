//! JSON Schema: draft 2020-12 unless the schema names another; references to remote schemas are refused.

use std::sync::Arc;

use serde_json::Value;

use super::schema_cost::{self, TooCostly};

/// No list of violations is longer than this.
pub(crate) const MAX_VIOLATIONS: usize = 50;

/// Longest message, in characters: one that quotes a huge value would hide the others.
const MAX_MESSAGE_CHARS: usize = 400;

pub(crate) use crate::domain::event::ValidationError as Violation;

/// A value that is no usable JSON Schema.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("not a usable JSON Schema: at {path:?}: {message}")]
pub(crate) struct NotASchema {
    /// The place in the schema, as a JSON pointer.
    pub(crate) path: String,
    /// What is wrong there.
    pub(crate) message: String,
}

/// A compiled schema; cheap to clone.
#[derive(Debug, Clone)]
pub struct Validator(Arc<jsonschema::Validator>);

impl Validator {
    /// Compiles a schema. `format` is asserted only where the schema's draft says so.
    pub(crate) fn new(schema: &Value) -> Result<Self, NotASchema> {
        let costly = |message: &str| NotASchema { path: String::new(), message: message.into() };
        schema_cost::check(schema).map_err(|reason| match reason {
            TooCostly::Multiplies => costly("its parts apply to one place of a value more than 100000 times"),
            TooCostly::Deep => costly("its references lead on and on, more than 300 deep"),
        })?;
        match jsonschema::options().offline().build(schema) {
            Ok(compiled) => Ok(Self(Arc::new(compiled))),
            Err(error) => {
                Err(NotASchema { path: error.instance_path().as_str().into(), message: shortened(error.to_string()) })
            }
        }
    }

    /// The places where the value breaks the schema, at most `MAX_VIOLATIONS`.
    pub fn errors(&self, value: &Value) -> Vec<Violation> {
        self.0
            .iter_errors(value)
            .take(MAX_VIOLATIONS)
            .map(|error| Violation {
                path: error.instance_path().as_str().into(),
                message: shortened(error.to_string()),
            })
            .collect()
    }
}

fn shortened(message: String) -> String {
    match message.char_indices().nth(MAX_MESSAGE_CHARS) {
        Some((end, _)) => format!("{}…", &message[..end]),
        None => message,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn every_violation_is_named_by_its_place() {
        let schema = json!({ "type": "object", "required": ["a"], "properties": { "b": { "type": "integer" } } });
        let validator = Validator::new(&schema).unwrap();
        assert_eq!(
            validator.errors(&json!({ "b": "x" })),
            [
                Violation { path: String::new(), message: "\"a\" is a required property".into() },
                Violation { path: "/b".into(), message: "\"x\" is not of type \"integer\"".into() },
            ]
        );
        assert_eq!(validator.errors(&json!({ "a": 1 })), []);
    }

    #[test]
    fn violations_are_bounded_in_number_and_length() {
        let validator = Validator::new(&json!({ "items": { "type": "string" } })).unwrap();
        assert_eq!(validator.errors(&json!(vec![1; 1000])).len(), MAX_VIOLATIONS);
        let long = Validator::new(&json!({ "type": "integer" })).unwrap().errors(&json!("x".repeat(10_000)));
        assert_eq!(long[0].message.chars().count(), MAX_MESSAGE_CHARS + 1);
    }

    #[test]
    fn a_schema_from_elsewhere_is_refused_and_not_fetched() {
        for reference in ["http://127.0.0.1:9/schema.json", "file:///etc/hostname", "https://example.com/x"] {
            assert!(Validator::new(&json!({ "$ref": reference })).is_err(), "{reference}");
        }
        assert!(Validator::new(&json!({ "type": "objekt" })).is_err());
    }

    #[test]
    fn a_schema_that_refers_to_itself_for_ever_does_no_harm() {
        for schema in [
            json!({ "$ref": "#" }),
            json!({ "type": "object", "allOf": [{ "$ref": "#" }] }),
            json!({ "anyOf": [{ "$ref": "#/$defs/a" }], "$defs": { "a": { "$ref": "#/$defs/b" }, "b": { "$ref": "#/$defs/a" } } }),
            json!({ "not": { "$ref": "#" } }),
        ] {
            if let Ok(validator) = Validator::new(&schema) {
                validator.errors(&json!({}));
            }
        }
    }

    #[test]
    fn a_pattern_made_to_backtrack_for_ever_gives_up() {
        let text = json!("a".repeat(5000) + "!");
        for pattern in ["^(a+)+$", "^(?=(a+)+$)b", "^(a|a)*\\1$", "(.*)*(.*)*(.*)*x"] {
            assert_eq!(Validator::new(&json!({ "pattern": pattern })).unwrap().errors(&text).len(), 1, "{pattern}");
        }
    }

    #[test]
    fn formats_are_asserted_where_the_draft_says_so() {
        let value = json!("not a date");
        assert_eq!(Validator::new(&json!({ "format": "date" })).unwrap().errors(&value), []);
        let draft7 = json!({ "$schema": "http://json-schema.org/draft-07/schema#", "format": "date" });
        assert_eq!(Validator::new(&draft7).unwrap().errors(&value).len(), 1);
    }
}
