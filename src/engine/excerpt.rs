//! Long outputs in events: cut at a stated bound and marked; the whole stays in the stream's file.

use serde_json::Value;

use crate::domain::json_text::{JSON_TEXT_MAX, beginning};

/// Most bytes of a tool's input or output that one event carries.
pub(crate) const EXCERPT_MAX: usize = 64 * 1024;
/// The same as JSON, in which control characters take six bytes. One event may carry two of them.
const EXCERPT_JSON_MAX: usize = JSON_TEXT_MAX / 2;

/// Longest id or name, in bytes of JSON.
const NAME_MAX: usize = 256;

/// The text, or its beginning with a mark that says how much is missing.
pub(crate) fn text(text: &str) -> String {
    let kept = beginning(&text[..text.floor_char_boundary(EXCERPT_MAX)], EXCERPT_JSON_MAX);
    if kept.len() == text.len() {
        return text.to_owned();
    }
    format!("{kept}\n[cut: {} of {} bytes shown]", kept.len(), text.len())
}

/// An id or the name of a tool, cut when it is too long. It is no text that anybody reads, and one message may repeat it many times.
pub(crate) fn name(name: &str) -> String {
    beginning(name, NAME_MAX).to_owned()
}

/// The value with its long strings cut; one that is still too large becomes a cut text.
pub(crate) fn value(value: &Value) -> Value {
    let shortened = shorten(value);
    let written = shortened.to_string();
    // Twice the bound allows for the marks of a value with one long string.
    if written.len() <= 2 * EXCERPT_MAX { shortened } else { Value::String(text(&written)) }
}

fn shorten(value: &Value) -> Value {
    match value {
        Value::String(long) => Value::String(text(long)),
        Value::Array(items) => items.iter().map(shorten).collect(),
        Value::Object(entries) => {
            Value::Object(entries.iter().map(|(key, value)| (key.clone(), shorten(value))).collect())
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => value.clone(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_long_text_is_cut_between_characters_and_says_so() {
        assert_eq!(text("short"), "short");
        let long = format!("{}ä{}", "x".repeat(EXCERPT_MAX - 1), "y".repeat(10));
        let cut = text(&long);
        assert_eq!(cut, format!("{}\n[cut: 65535 of 65547 bytes shown]", "x".repeat(EXCERPT_MAX - 1)));
    }

    #[test]
    fn only_the_long_strings_of_a_value_are_cut_unless_there_are_too_many() {
        let long = "x".repeat(EXCERPT_MAX + 1);
        let cut = text(&long);
        assert_eq!(value(&json!({ "path": "a", "content": long })), json!({ "path": "a", "content": cut }));
        let many = value(&json!(vec![long; 3]));
        assert!(many.as_str().unwrap().contains("[cut: "));
    }
}
