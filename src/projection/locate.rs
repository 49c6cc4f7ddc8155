//! Locates a value in the raw output it came from: as JSON among other text, or as JSON inside a JSON string.

use std::ops::Range;

use serde::de::IgnoredAny;
use serde_json::Value;
use serde_json::value::RawValue;

use super::pointer::{Pointer, span};
use crate::bounded;

/// Longest line of JSON whose strings are looked into: so many places are held for each of them.
const LINE_MAX: usize = 8 * 1024 * 1024;

/// How many bytes may still be parsed as JSON in the searches for one answer; nested brackets are parsed again at each level.
pub(crate) struct Work(usize);

impl Default for Work {
    fn default() -> Self {
        Self(64 * 1024 * 1024)
    }
}

/// Every place of a field in a raw text where the whole value is around it, in the order of the text. A value whose syntax
/// had to be repaired is not found.
pub(crate) fn places(raw: &str, value: &Value, field: &Pointer, work: &mut Work) -> Vec<Range<usize>> {
    let mut search = Search { value, field, work };
    let mut found = search.plain(raw);
    let mut line_at = 0;
    for line in raw.split_inclusive('\n') {
        found.extend(search.inside_strings(line).into_iter().map(|place| line_at + place.start..line_at + place.end));
        line_at += line.len();
    }
    found.sort_by_key(|place| place.start);
    found
}

struct Search<'a> {
    value: &'a Value,
    field: &'a Pointer,
    work: &'a mut Work,
}

impl Search<'_> {
    /// Places where the value is written as plain JSON.
    fn plain(&mut self, text: &str) -> Vec<Range<usize>> {
        let opens = match self.value {
            Value::Object(_) => b'{',
            Value::Array(_) => b'[',
            // A single scalar occurs in too many places to mean anything, unless it is the whole text.
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {
                let same = bounded::json::from_str::<Value>(text).is_ok_and(|found| found == *self.value);
                return same.then(|| span(text, self.field)).flatten().into_iter().collect();
            }
        };
        let mut found = Vec::new();
        for (at, _) in text.bytes().enumerate().filter(|(_, byte)| *byte == opens) {
            if self.work.0 == 0 {
                break;
            }
            let Some(document) = self.document(&text[at..]) else { continue };
            if bounded::json::from_str(document).is_ok_and(|other: Value| self.is_it(&other)) {
                found.extend(span(document, self.field).map(|place| at + place.start..at + place.end));
            }
        }
        found
    }

    /// The JSON document that a text begins with.
    fn document<'t>(&mut self, text: &'t str) -> Option<&'t str> {
        let first = serde_json::Deserializer::from_str(text).into_iter::<&RawValue>().next()?;
        let (read, document) = match first {
            Ok(document) => (document.get().len(), Some(document.get())),
            Err(error) => {
                let lines = text.split_inclusive('\n').take(error.line().saturating_sub(1));
                (lines.map(str::len).sum::<usize>() + error.column(), None)
            }
        };
        self.work.0 = self.work.0.saturating_sub(read.max(1));
        document
    }

    /// The same value; members that the runner removed, such as the completion marker, may be there too.
    fn is_it(&self, other: &Value) -> bool {
        match (self.value, other) {
            (Value::Object(value), Value::Object(other)) => {
                let same = value.iter().all(|(name, member)| other.get(name) == Some(member));
                same && other.len() <= value.len() + 1 && (!value.is_empty() || other.is_empty())
            }
            (value, other) => value == other,
        }
    }

    /// Places where the value is inside the strings of a line of JSON.
    fn inside_strings(&mut self, line: &str) -> Vec<Range<usize>> {
        let mut found = Vec::new();
        if line.len() > LINE_MAX || !line.contains('\\') || bounded::json::from_str::<IgnoredAny>(line).is_err() {
            return found;
        }
        for literal in literals(line) {
            let Some((text, from)) = unescaped(&line[literal.clone()]) else { continue };
            let places = self.plain(&text).into_iter();
            found.extend(places.map(|place| literal.start + from[place.start]..literal.start + from[place.end]));
        }
        found
    }
}

/// The string literals of a text that is JSON, with their quotes.
fn literals(json: &str) -> Vec<Range<usize>> {
    let (mut found, mut begun, mut escaped) = (Vec::new(), None, false);
    for (at, byte) in json.bytes().enumerate() {
        match (begun, byte) {
            (None, b'"') => begun = Some(at),
            (None, _) => {}
            (Some(_), _) if escaped => escaped = false,
            (Some(_), b'\\') => escaped = true,
            (Some(from), b'"') => {
                found.push(from..at + 1);
                begun = None;
            }
            (Some(_), _) => {}
        }
    }
    found
}

/// The text of a string literal, and for each of its bytes the offset in the literal.
fn unescaped(literal: &str) -> Option<(String, Vec<usize>)> {
    let text: String = bounded::json::from_str(literal).ok()?;
    if !text.contains(['{', '[']) {
        return None;
    }
    let mut from = Vec::with_capacity(text.len() + 1);
    let mut at = 1;
    for character in text.chars() {
        from.extend(std::iter::repeat_n(at, character.len_utf8()));
        at += written(&literal[at..], character);
    }
    from.push(at);
    Some((text, from))
}

/// How many bytes of a literal encode its next character.
fn written(literal: &str, character: char) -> usize {
    match literal.as_bytes() {
        [b'\\', b'u', ..] if u32::from(character) > 0xffff => 12,
        [b'\\', b'u', ..] => 6,
        [b'\\', ..] => 2,
        _ => character.len_utf8(),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn found<'a>(raw: &'a str, value: &Value, pointer: &str) -> Vec<&'a str> {
        places(raw, value, &Pointer::parse(pointer).unwrap(), &mut Work::default())
            .into_iter()
            .map(|place| &raw[place])
            .collect()
    }

    #[test]
    fn a_value_is_found_among_other_text_in_an_envelope_and_in_a_string() {
        let value = json!({"name": "Ann", "n": [1, 2]});
        let fenced = "Here {it} is:\n```json\n{\"name\": \"Ann\", \"n\": [1,2]}\n```\n";
        assert_eq!(found(fenced, &value, "/n/1"), ["2"]);
        let envelope = "{\"success\":true,\"data\":{\"n\":[1,2],\"name\":\"Ann\"}}\n";
        assert_eq!(found(envelope, &value, "/name"), ["\"Ann\""]);
        let line =
            r#"{"type":"x","text":"é \ud83d\ude00 {\"name\": \"Ann\",\n \"n\": [1, 2], \"__SKILL_DONE__\": true}"}"#;
        assert_eq!(found(&format!("noise\n{line}\n"), &value, "/name"), [r#"\"Ann\""#]);
        assert_eq!(found(line, &value, "/n"), ["[1, 2]"]);
        assert_eq!(found(&format!("{line}\n{line}"), &value, "/n").len(), 2);
        assert_eq!(found("{\"name\": \"Ann\", \"n\": [1, 3]}", &value, "/name"), [""; 0]);
        assert_eq!(found("{\"name\": \"Ann\", \"n\": [1, 2],}", &value, "/name"), [""; 0], "its syntax was repaired");
    }

    #[test]
    fn text_that_is_read_again_and_again_is_given_up_in_time() {
        // From each bracket on, all brackets up to the depth at which JSON ends are read before it is known to be broken.
        let hostile = "[1,1,1,1,1,1,1,1,1,1,1,1,1,1,".repeat(1 << 18);
        let mut work = Work::default();
        assert_eq!(places(&hostile, &json!([2]), &Pointer::parse("").unwrap(), &mut work).len(), 0);
        assert_eq!(work.0, 0);
        let whole = "[2]".to_owned() + &hostile;
        let found = places(&whole, &json!([2]), &Pointer::parse("").unwrap(), &mut Work::default());
        assert_eq!(found.iter().map(|place| &whole[place.clone()]).collect::<Vec<_>>(), ["[2]"]);
    }

    proptest! {
        #[test]
        fn wherever_a_value_is_put_it_is_found_again(
            text in ".{0,8}", number: i32, before in "[^{\\[\"]{0,9}", escape: bool,
        ) {
            let value = json!({"text": text, "list": [number, {"deep": text}]});
            let plain = value.to_string();
            let raw = if escape {
                json!({"before": before, "text": format!("{before}{plain}")}).to_string()
            } else {
                format!("{before}{plain}")
            };
            for pointer in ["/text", "/list/0", "/list/1/deep", "/list"] {
                let found = found(&raw, &value, pointer);
                prop_assert_eq!(found.len(), 1, "{} in {}", pointer, raw);
                let literal = if escape { serde_json::from_str(&format!("\"{}\"", found[0])).unwrap() } else { found[0].to_owned() };
                let read: Value = serde_json::from_str(&literal).unwrap();
                prop_assert_eq!(Some(&read), value.pointer(pointer));
            }
        }
    }
}
