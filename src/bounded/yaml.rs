//! YAML, read only when it is certain that reading ends soon.
//!
//! The library takes time in proportion to the depth of open brackets times the length of the text, and the square of the
//! number of `%` lines. Deep values and aliases that multiply it refuses itself.

use serde::de::DeserializeOwned;

use super::plain_names::PlainNames;

/// Longest text, in bytes.
pub(crate) const LENGTH_MAX: usize = 64 * 1024;
/// Most opening brackets, wherever they stand: in a string they count too, because only a parser knows strings.
const BRACKETS_MAX: usize = 1000;
/// Most lines that may be directives.
const DIRECTIVES_MAX: usize = 10;

/// Why a text is not read.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Unreadable {
    #[error("it is longer than {LENGTH_MAX} bytes")]
    TooLong,
    #[error("it has more than {BRACKETS_MAX} opening brackets")]
    TooManyBrackets,
    #[error("it has more than {DIRECTIVES_MAX} lines that begin with %")]
    TooManyDirectives,
    #[error("{0}")]
    NotYaml(#[from] serde_norway::Error),
}

/// Reads a YAML document.
pub(crate) fn read<T: DeserializeOwned>(text: &str) -> Result<T, Unreadable> {
    if text.len() > LENGTH_MAX {
        return Err(Unreadable::TooLong);
    }
    if text.bytes().filter(|byte| matches!(byte, b'[' | b'{')).count() > BRACKETS_MAX {
        return Err(Unreadable::TooManyBrackets);
    }
    if text.lines().filter(|line| line.starts_with('%')).count() > DIRECTIVES_MAX {
        return Err(Unreadable::TooManyDirectives);
    }
    // A name that is not plain stands there as it is, or with escapes.
    if text.contains("private") || text.contains('\\') {
        serde_norway::from_str::<PlainNames>(text)?;
    }
    Ok(serde_norway::from_str(text)?)
}

#[cfg(test)]
mod tests {
    use serde_norway::Value;

    use super::*;

    fn refused(text: &str) -> String {
        read::<Value>(text).unwrap_err().to_string()
    }

    #[test]
    fn what_would_take_long_is_not_read() {
        assert_eq!(refused(&"x".repeat(LENGTH_MAX + 1)), "it is longer than 65536 bytes");
        assert_eq!(refused(&"[".repeat(60_000)), "it has more than 1000 opening brackets");
        assert_eq!(refused(&"{".repeat(60_000)), "it has more than 1000 opening brackets");
        let directives: String = (0..1000).map(|number| format!("%TAG !{number}! x\n")).collect();
        assert_eq!(refused(&(directives + "---\nx")), "it has more than 10 lines that begin with %");
    }

    /// The libraries' own limits are part of the bound.
    #[test]
    fn deep_and_swelling_values_are_refused_by_the_library() {
        assert!(refused(&"[".repeat(1000)).contains("recursion limit"));
        assert!(refused(&"- ".repeat(30_000)).contains("recursion limit"));
        let mut swelling = String::from("a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n");
        for level in 1..12 {
            let last = level - 1;
            swelling += &format!("a{level}: &a{level} [{}]\n", vec![format!("*a{last}"); 10].join(", "));
        }
        assert!(refused(&swelling).contains("repetition limit"), "{}", refused(&swelling));
    }

    /// A JSON value would read the text behind such a name as JSON, and what is in that again, however deep.
    #[test]
    fn names_that_json_values_reserve_are_refused_however_they_are_written() {
        let nested = r#"'{"$serde_json::private::RawValue":"[1]"}'"#;
        for name in ["$serde_json::private::RawValue", r#""\x24serde_json::private::RawValue""#] {
            let text = format!("a: [{{{name}: {nested}}}]");
            let refused = read::<serde_json::Value>(&text).unwrap_err().to_string();
            assert!(
                refused.contains("\"$serde_json::private::RawValue\" is reserved: choose another name"),
                "{refused}"
            );
        }
        let same = read::<serde_json::Value>("a: private\nb: \"\\x24\"\nc: [1, 1.5, true, null, -3]").unwrap();
        assert_eq!(same, serde_json::json!({"a": "private", "b": "$", "c": [1, 1.5, true, null, -3]}));
        assert!(read::<Value>("a: !tag [\"\\x24\", {b: c}]").is_ok());
    }

    #[test]
    fn the_usual_is_read() {
        assert_eq!(
            read::<Value>("a: [1, {b: c}]").unwrap(),
            serde_norway::from_str::<Value>("{a: [1, {b: c}]}").unwrap()
        );
    }
}
