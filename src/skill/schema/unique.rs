//! `uniqueItems`, in time proportional to the value.
//!
//! The library's own hashes numbers by the nearest float, and arrays without their brackets: items that differ beyond that are
//! compared each with each, and a request of some megabytes takes hours.

use std::collections::HashMap;

use jsonschema::{Keyword, ValidationError};
use serde_json::Value;

use super::number;

pub(super) struct UniqueItems {
    asked: bool,
}

impl UniqueItems {
    pub(super) fn new(asked: &Value) -> Self {
        Self { asked: asked == &Value::Bool(true) }
    }

    /// The places of two items that are equal.
    fn equal_items(&self, value: &Value) -> Option<(usize, usize)> {
        let Value::Array(items) = value else { return None };
        if !self.asked || items.len() < 2 {
            return None;
        }
        let mut known = HashMap::with_capacity(items.len());
        items.iter().enumerate().find_map(|(place, item)| {
            let mut form = Vec::new();
            add_canonical(item, &mut form);
            known.insert(form, place).map(|earlier| (earlier, place))
        })
    }
}

impl<'i> Keyword<'i> for UniqueItems {
    fn validate(&self, value: &'i Value) -> Result<(), ValidationError<'i>> {
        self.equal_items(value).map_or(Ok(()), |(earlier, later)| {
            Err(ValidationError::custom(format!("items {earlier} and {later} are equal; each may be there once")))
        })
    }

    fn is_valid(&self, value: &'i Value) -> bool {
        self.equal_items(value).is_none()
    }
}

/// Adds the one form that a value has in common with all that are equal to it.
fn add_canonical(value: &Value, to: &mut Vec<u8>) {
    match value {
        Value::Null => to.push(b'n'),
        Value::Bool(true) => to.push(b't'),
        Value::Bool(false) => to.push(b'f'),
        Value::Number(number) => number::add_canonical(number, to),
        Value::String(text) => add_text(text, to),
        Value::Array(items) => {
            to.push(b'[');
            for item in items {
                add_canonical(item, to);
                to.push(b',');
            }
            to.push(b']');
        }
        Value::Object(fields) => {
            let mut fields: Vec<(&String, &Value)> = fields.iter().collect();
            fields.sort_unstable_by_key(|(name, _)| *name);
            to.push(b'{');
            for (name, field) in fields {
                add_text(name, to);
                add_canonical(field, to);
                to.push(b',');
            }
            to.push(b'}');
        }
    }
}

/// No text is the beginning of another: a quote cannot be told from one inside, but the length can.
fn add_text(text: &str, to: &mut Vec<u8>) {
    to.extend_from_slice(format!("\"{}:", text.len()).as_bytes());
    to.extend_from_slice(text.as_bytes());
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn equal_items(text: &str) -> Option<(usize, usize)> {
        UniqueItems::new(&json!(true)).equal_items(&serde_json::from_str(text).unwrap())
    }

    #[test]
    fn items_that_mean_the_same_are_equal_and_no_others() {
        for (text, expected) in [
            ("[]", None),
            ("[1]", None),
            ("[1, 2, 1.0]", Some((0, 2))),
            ("[0, -0.0]", Some((0, 1))),
            ("[1e400, 10e399]", Some((0, 1))),
            ("[1e400, 1e401, 9007199254740993, 9007199254740992]", None),
            (r#"[{"a": 1, "b": [2]}, {"b": [2.0], "a": 1}]"#, Some((0, 1))),
            (r#"[{"a": 1}, {"a": "1"}, {"a": true}, {"b": 1}, {}, []]"#, None),
            (r#"["1", 1, "n", null, "t", true, "[]", []]"#, None),
            (r#"[["a", "b"], ["a,\"1:b"], [["a"], "b"], [[], []], [[[]]]]"#, None),
            (r#"{"a": [1, 1]}"#, None),
        ] {
            assert_eq!(equal_items(text), expected, "{text}");
        }
        let unasked = UniqueItems::new(&json!(false));
        assert_eq!(unasked.equal_items(&json!([1, 1])), None);
    }
}
