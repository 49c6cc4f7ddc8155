//! JSON pointers, and the bytes of a text that one points at.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::ops::Range;

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::bounded;

/// A path into a JSON document, as RFC 6901 writes it: `/data/items/0`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Pointer(Vec<String>);

/// Text that is no pointer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum NotAPointer {
    /// It does not begin as one.
    #[error("a JSON pointer begins with a slash, such as /data/items/0")]
    NoSlash,
    /// `~` is followed by something other than 0 or 1.
    #[error("in a JSON pointer, ~ is written ~0 and / in a name is written ~1")]
    Escape,
}

impl Pointer {
    pub(crate) fn parse(text: &str) -> Result<Self, NotAPointer> {
        let Some(path) = text.strip_prefix('/') else {
            return if text.is_empty() { Ok(Self(Vec::new())) } else { Err(NotAPointer::NoSlash) };
        };
        path.split('/').map(name).collect::<Result<_, _>>().map(Self)
    }

    /// The first name, and the pointer from there on.
    pub(crate) fn split_first(&self) -> Option<(&str, Pointer)> {
        self.0.split_first().map(|(first, rest)| (first.as_str(), Self(rest.to_vec())))
    }
}

fn name(escaped: &str) -> Result<String, NotAPointer> {
    let mut parts = escaped.split('~');
    let mut name = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let (character, rest) = match (part.strip_prefix('0'), part.strip_prefix('1')) {
            (Some(rest), _) => ('~', rest),
            (None, Some(rest)) => ('/', rest),
            (None, None) => return Err(NotAPointer::Escape),
        };
        name.push(character);
        name.push_str(rest);
    }
    Ok(name)
}

/// The bytes of the value that the pointer names, in a text that is one JSON document; none if there is no such value,
/// or the text is not JSON.
pub(crate) fn span(text: &str, pointer: &Pointer) -> Option<Range<usize>> {
    let mut at: &RawValue = bounded::json::from_str(text).ok()?;
    for name in &pointer.0 {
        at = member(at.get(), name)?;
    }
    // Every value borrows from the text it was read from.
    let from = (at.get().as_ptr() as usize).checked_sub(text.as_ptr() as usize)?;
    Some(from..from + at.get().len())
}

#[derive(Deserialize)]
struct Members<'a>(#[serde(borrow)] BTreeMap<Cow<'a, str>, &'a RawValue>);

fn member<'a>(text: &'a str, name: &str) -> Option<&'a RawValue> {
    match text.as_bytes().first()? {
        // If members have the same name the last one counts, as for every reader of the result.
        b'{' => bounded::json::from_str::<Members<'a>>(text).ok()?.0.get(name).copied(),
        b'[' => {
            let canonical = name == "0" || !name.starts_with('0');
            let index: usize = name.parse().ok().filter(|_| canonical && !name.starts_with('+'))?;
            bounded::json::from_str::<Vec<&RawValue>>(text).ok()?.get(index).copied()
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::{Value, json};

    use super::*;

    fn pointed<'a>(text: &'a str, pointer: &str) -> Option<&'a str> {
        span(text, &Pointer::parse(pointer).unwrap()).map(|range| &text[range])
    }

    #[test]
    fn the_bytes_of_a_value_are_found_as_they_stand() {
        let text = "  {\"a\" : [1, {\"b\":\"x\\u00e9\"} ],\"\":0, \"m~n/o\": null, \"a\\u0062\": 1.50}\n";
        assert_eq!(pointed(text, ""), Some(text.trim()));
        assert_eq!(pointed(text, "/a"), Some("[1, {\"b\":\"x\\u00e9\"} ]"));
        assert_eq!(pointed(text, "/a/1/b"), Some("\"x\\u00e9\""));
        assert_eq!(pointed(text, "/"), Some("0"));
        assert_eq!(pointed(text, "/m~0n~1o"), Some("null"));
        assert_eq!(pointed(text, "/ab"), Some("1.50"));
        for nowhere in ["/b", "/a/2", "/a/01", "/a/+1", "/a/-", "/a/1/b/c", "/m~0n~1o/x"] {
            assert_eq!(pointed(text, nowhere), None, "{nowhere}");
        }
        assert_eq!(pointed("{\"a\":1,\"a\":22}", "/a"), Some("22"));
        assert_eq!(pointed("no JSON", ""), None);
    }

    #[test]
    fn what_is_no_pointer_is_told_why() {
        assert_eq!(Pointer::parse("data"), Err(NotAPointer::NoSlash));
        for wrong in ["/~", "/a~2", "/~/b"] {
            assert_eq!(Pointer::parse(wrong), Err(NotAPointer::Escape), "{wrong}");
        }
    }

    fn documents() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            ".{0,6}".prop_map(Value::from),
        ];
        leaf.prop_recursive(4, 24, 4, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
                prop::collection::hash_map("[a-c~/\"é]{0,3}", inner, 0..4).prop_map(|members| json!(members)),
            ]
        })
    }

    fn pointers(value: &Value, at: &str, found: &mut Vec<String>) {
        found.push(at.to_owned());
        for (name, member) in value.as_object().into_iter().flatten() {
            pointers(member, &format!("{at}/{}", name.replace('~', "~0").replace('/', "~1")), found);
        }
        for (index, item) in value.as_array().into_iter().flatten().enumerate() {
            pointers(item, &format!("{at}/{index}"), found);
        }
    }

    proptest! {
        #[test]
        fn every_value_of_a_document_is_found_where_it_stands(document in documents(), pretty: bool) {
            let text = if pretty { format!("{document:#}") } else { document.to_string() };
            let mut all = Vec::new();
            pointers(&document, "", &mut all);
            for pointer in all {
                let found = pointed(&text, &pointer);
                let value: Option<Value> = found.and_then(|found| serde_json::from_str(found).ok());
                prop_assert_eq!(value.as_ref(), document.pointer(&pointer), "{}", pointer);
            }
        }

        #[test]
        fn no_text_and_no_pointer_make_it_break(text in ".{0,40}", pointer in "(/[a-z0-9~]{0,3}){0,3}") {
            if let Ok(pointer) = Pointer::parse(&pointer) && let Some(found) = span(&text, &pointer) {
                prop_assert!(serde_json::from_str::<Value>(&text[found]).is_ok());
            }
        }
    }
}
