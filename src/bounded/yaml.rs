//! YAML, read only when it is certain that reading ends soon.
//!
//! The library takes time in proportion to the depth of open brackets times the length of the text, and the square of the
//! number of `%` lines. Deep values and aliases that multiply it refuses itself.

use serde::de::DeserializeOwned;

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

    #[test]
    fn the_usual_is_read() {
        assert_eq!(
            read::<Value>("a: [1, {b: c}]").unwrap(),
            serde_norway::from_str::<Value>("{a: [1, {b: c}]}").unwrap()
        );
    }
}
