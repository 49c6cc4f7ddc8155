//! JSON of others, looked at before it is read: in memory, a small value takes many times the bytes of its text, and some names mean
//! something else to serde_json.

use memchr::{memchr, memmem};
use serde::Deserialize;
use serde::de::Error as _;

/// What the names begin with by which serde_json hands numbers and raw texts on to itself. It takes an object of others whose first name
/// is such a one for what the name says: a text in it is read as JSON again, with such a text in it again, and so on until the stack
/// is full, whatever its limit of nesting.
const RESERVED: &str = "$serde_json::private::";

/// Why a text with such a name is not read.
const HAS_RESERVED: &str = "a name begins with \"$serde_json::private::\", which is reserved: choose another name";

/// JSON of others as a value, like [`serde_json::from_str`].
pub(crate) fn from_str<'a, T: Deserialize<'a>>(text: &'a str) -> serde_json::Result<T> {
    check_names(text.as_bytes())?;
    serde_json::from_str(text)
}

/// JSON of others as a value, like [`serde_json::from_slice`].
pub(crate) fn from_slice<'a, T: Deserialize<'a>>(text: &'a [u8]) -> serde_json::Result<T> {
    check_names(text)?;
    serde_json::from_slice(text)
}

/// Refuses a text with a name that serde_json reserves for itself.
pub(crate) fn check_names(text: &[u8]) -> serde_json::Result<()> {
    if has_reserved_name(text) { Err(serde_json::Error::custom(HAS_RESERVED)) } else { Ok(()) }
}

/// Whether a name, in whichever format, is one of those.
pub(crate) fn is_reserved(name: &str) -> bool {
    name.starts_with(RESERVED)
}

fn has_reserved_name(text: &[u8]) -> bool {
    // Such a name stands there as it is, or with escapes. Most texts have neither.
    let found = |words: &[u8]| memmem::find(text, words).is_some();
    if text.len() < RESERVED.len() || !(found(RESERVED.as_bytes()) || found(b"\\u")) {
        return false;
    }
    let mut rest = text;
    while let Some(at) = memchr(b'"', rest) {
        let string = rest.get(at + 1..).unwrap_or_default();
        let mut bytes = string.iter();
        skip_string(&mut bytes);
        rest = bytes.as_slice();
        let is_name = || rest.iter().find(|byte| !byte.is_ascii_whitespace()) == Some(&b':');
        if begins_reserved(string) && is_name() {
            return true;
        }
    }
    false
}

/// Whether the content of a string begins so, whichever of its characters are escaped.
fn begins_reserved(mut string: &[u8]) -> bool {
    RESERVED.bytes().all(|expected| {
        let (found, length) = match string {
            [b'\\', b'u', digits @ ..] => (escaped(digits), 6),
            [byte, ..] => (Some(u32::from(*byte)), 1),
            [] => return false,
        };
        string = string.get(length..).unwrap_or_default();
        found == Some(u32::from(expected))
    })
}

fn escaped(digits: &[u8]) -> Option<u32> {
    digits.get(..4)?.iter().try_fold(0, |code, digit| Some(code * 16 + char::from(*digit).to_digit(16)?))
}

/// Whether a text has at most so many values, as far as it is JSON: every comma and every opening bracket begins one.
pub(crate) fn has_at_most(text: &[u8], values: usize) -> bool {
    let mut left = values.saturating_sub(1);
    let mut bytes = text.iter();
    while let Some(byte) = bytes.next() {
        match byte {
            b',' | b'[' | b'{' => match left.checked_sub(1) {
                Some(rest) => left = rest,
                None => return false,
            },
            b'"' => skip_string(&mut bytes),
            _ => {}
        }
    }
    true
}

/// Where a text that is JSON first has more than so many arrays and objects inside each other.
pub(crate) fn too_deep_at(text: &[u8], levels: usize) -> Option<usize> {
    let mut open: usize = 0;
    let mut bytes = text.iter();
    while let Some(byte) = bytes.next() {
        match byte {
            b'[' | b'{' if open == levels => return Some(text.len() - bytes.len() - 1),
            b'[' | b'{' => open += 1,
            b']' | b'}' => open = open.saturating_sub(1),
            b'"' => skip_string(&mut bytes),
            _ => {}
        }
    }
    None
}

fn skip_string(bytes: &mut std::slice::Iter<'_, u8>) {
    loop {
        let rest = bytes.as_slice();
        let Some(at) = memchr::memchr2(b'"', b'\\', rest) else {
            *bytes = [].iter();
            return;
        };
        let is_end = rest.get(at) == Some(&b'"');
        // What is escaped is skipped, too.
        *bytes = rest.get(at + if is_end { 1 } else { 2 }..).unwrap_or_default().iter();
        if is_end {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_counted_outside_of_strings() {
        for (text, values) in [
            ("1", 1),
            ("[]", 2),
            ("[1,2,[3]]", 5),
            (r#"{"a":1,"b":[",,[[{"]}"#, 4),
            (r#"["\",[\\",1]"#, 3),
            (r#"["unfinished,[\"#, 2),
            (r#"["unfinished,["#, 2),
        ] {
            assert!(has_at_most(text.as_bytes(), values), "{text}");
            assert!(values == 1 || !has_at_most(text.as_bytes(), values - 1), "{text}");
        }
    }

    #[test]
    fn a_text_is_too_deep_where_the_first_bracket_is_one_too_many() {
        for (text, levels, at) in [
            ("1", 0, None),
            ("[]", 0, Some(0)),
            (r#"[{"a":[]},[[]]]"#, 3, None),
            (r#"[{"a":[]},[[]]]"#, 2, Some(6)),
            (r#"["[[\"[[",{}]"#, 2, None),
            (r#"["[[\"[[",{}]"#, 1, Some(10)),
        ] {
            assert_eq!(too_deep_at(text.as_bytes(), levels), at, "{text}");
        }
    }

    /// Texts inside texts, each with as much nesting as the library allows; quotes are escaped once more at each level.
    fn nested(levels: usize) -> String {
        let token = format!("{RESERVED}RawValue");
        let quote =
            |level: usize| if level == 0 { "\"".to_owned() } else { format!("\\{}u0022", "u005c".repeat(level - 1)) };
        let (open, close) = ("[".repeat(120), "]".repeat(120));
        let mut text = String::new();
        for level in 0..levels {
            text += &format!("{open}{{{q}{token}{q}:{q}", q = quote(level));
        }
        text += "1";
        for level in (0..levels).rev() {
            text += &format!("{q}}}{close}", q = quote(level));
        }
        text
    }

    #[test]
    fn a_text_that_holds_texts_to_be_read_again_is_refused_before_the_stack_is_full() {
        let few: serde_json::Value = serde_json::from_str(&nested(2)).unwrap();
        assert_eq!(few.to_string(), format!("{}1{}", "[".repeat(240), "]".repeat(240)), "the library reads them");
        let refused = from_str::<serde_json::Value>(&nested(250)).unwrap_err();
        assert_eq!((refused.to_string().as_str(), refused.is_data()), (HAS_RESERVED, true));
        assert_eq!(from_slice::<serde_json::Value>(nested(250).as_bytes()).unwrap_err().to_string(), HAS_RESERVED);
    }

    #[test]
    fn names_that_the_library_reserves_are_refused_however_they_are_written_and_wherever_they_stand() {
        for text in [
            r#"{"$serde_json::private::Number":"1"}"#,
            r#"{"a":[{"b":"\"","$serde_json::private::RawValue" : "[]"}]}"#,
            r#"{"\u0024serde_json::private::Number":"1"}"#,
            r#"{"$serde_json::\u0070\u0072\u0069\u0076\u0061\u0074\u0065::RawValue":"1"}"#,
            r#"{"$serde_json\u003A\u003aprivate::other":1}"#,
        ] {
            assert_eq!(from_str::<serde_json::Value>(text).unwrap_err().to_string(), HAS_RESERVED, "{text}");
        }
        for text in [
            r#"{"a":"$serde_json::private::Number"}"#,
            r#"["$serde_json::private::Number"]"#,
            r#"{"a":"{\"$serde_json::private::Number\":\"1\"}","b":"\u0024serde_json::private::Number"}"#,
            r#"{"$serde_json::public":1,"\u0024serde_json::private":2,"\u":3"#,
        ] {
            assert!(!has_reserved_name(text.as_bytes()), "{text}");
        }
    }
}
