//! The YAML head of `SKILL.md` and the instructions below it.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::bounded;

/// The file of a package that begins with it.
pub(crate) const PATH: &str = "SKILL.md";

/// What the head of `SKILL.md` says; all but name and description is passed through.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct FrontMatter {
    pub(crate) name: String,
    /// What the skill does and when to use it.
    pub(crate) description: String,
    /// The licence, by name or file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) license: Option<String>,
    /// The environment the skill needs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) compatibility: Option<String>,
    /// Whatever the author notes.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) metadata: BTreeMap<String, String>,
    /// The tools the skill asks for, as written.
    #[serde(default, rename = "allowed-tools", skip_serializing_if = "Option::is_none")]
    pub(crate) allowed_tools: Option<Value>,
}

/// Why `SKILL.md` has no readable front matter.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Unreadable {
    /// It does not begin with `---`.
    #[error("the file does not begin with front matter between two lines of ---")]
    NoFrontMatter,
    /// The closing `---` is missing.
    #[error("the front matter has no closing line of ---")]
    Unclosed,
    /// The lines between are not YAML.
    #[error("the front matter is not YAML: {reason}")]
    NotYaml { reason: String },
    /// It is YAML, but not keys and values.
    #[error("the front matter is not a mapping of keys to values")]
    NotAMapping,
}

/// `SKILL.md` in two parts: the front matter's keys, and the instructions.
pub(crate) fn split(text: &str) -> Result<(Value, &str), Unreadable> {
    let (yaml, body) = parts(text)?;
    Ok((read(yaml)?, body))
}

/// The same for a skill that was written for other tools, some of which read a head line by line: values that would be YAML
/// in quotes are put in quotes. The keys of those come last.
pub(crate) fn split_leniently(text: &str) -> Result<(Value, &str, Vec<String>), Unreadable> {
    let (yaml, body) = parts(text)?;
    match read(yaml) {
        Ok(head) => Ok((head, body, Vec::new())),
        Err(error) => {
            let (mended, keys) = in_quotes(yaml);
            read(&mended).map(|head| (head, body, keys)).map_err(|_| error)
        }
    }
}

fn parts(text: &str) -> Result<(&str, &str), Unreadable> {
    // Editors on some systems put a byte order mark first; it means nothing here.
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let mut lines = text.split_inclusive('\n');
    let first = lines.next().filter(|line| line.trim_end() == "---").ok_or(Unreadable::NoFrontMatter)?;
    let mut end = first.len();
    for line in lines {
        if line.trim_end() == "---" {
            return Ok((&text[first.len()..end], text[end + line.len()..].trim_start_matches(['\r', '\n'])));
        }
        end += line.len();
    }
    Err(Unreadable::Unclosed)
}

/// Longest head that is mended.
const MENDED_MAX: usize = 16 * 1024;

/// The head with every value in quotes that is text on the line of its key, and no YAML as it is; and the keys of those.
fn in_quotes(yaml: &str) -> (String, Vec<String>) {
    let (mut mended, mut keys) = (String::new(), Vec::new());
    if yaml.len() > MENDED_MAX {
        return (mended, keys);
    }
    for entry in entries(yaml) {
        let (key, value) = entry.split_once(':').unwrap_or((entry, ""));
        let on_its_line = value.lines().next().is_some_and(|line| !line.trim().is_empty());
        let bare = on_its_line && !value.trim_start().starts_with(['"', '\'', '|', '>']);
        if bare && matches!(read(entry), Err(Unreadable::NotYaml { .. })) {
            let text = value.split_whitespace().collect::<Vec<_>>().join(" ");
            mended += &format!("{key}: {}\n", Value::from(text));
            keys.push(key.to_owned());
        } else {
            mended += entry;
        }
    }
    (mended, keys)
}

/// Each key with its value: a line, and the lines behind it that are indented or empty.
fn entries(yaml: &str) -> impl Iterator<Item = &str> {
    let mut rest = yaml;
    std::iter::from_fn(move || {
        let mut lines = rest.split_inclusive('\n');
        let mut end = lines.next()?.len();
        for line in lines.take_while(|line| line.starts_with([' ', '\t', '\r', '\n'])) {
            end += line.len();
        }
        let (entry, after) = rest.split_at(end);
        rest = after;
        Some(entry)
    })
}

fn read(yaml: &str) -> Result<Value, Unreadable> {
    let not_yaml = |reason: String| Unreadable::NotYaml { reason };
    // Read as a YAML value first, because that refuses duplicate keys.
    let yaml: serde_norway::Value = bounded::yaml::read(yaml).map_err(|error| not_yaml(error.to_string()))?;
    let json = serde_json::to_value(yaml).map_err(|error| not_yaml(error.to_string()))?;
    if json.is_object() { Ok(json) } else { Err(Unreadable::NotAMapping) }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_head_is_read_and_the_body_kept_as_it_is() {
        let text = "---\nname: demo\ndescription: >\n  Two\n  lines\n---\n\n# Title\n\n---\nrest\n";
        assert_eq!(
            split(text),
            Ok((json!({ "name": "demo", "description": "Two lines\n" }), "# Title\n\n---\nrest\n"))
        );
        let windows = "\u{feff}---\r\nname: demo\r\n---\r\nbody";
        assert_eq!(split(windows), Ok((json!({ "name": "demo" }), "body")));
    }

    #[test]
    fn a_head_that_cannot_be_read_says_why() {
        assert_eq!(split("# Title\n"), Err(Unreadable::NoFrontMatter));
        assert_eq!(split(""), Err(Unreadable::NoFrontMatter));
        assert_eq!(split("---\nname: demo\n"), Err(Unreadable::Unclosed));
        assert_eq!(split("---\n- a\n---\n"), Err(Unreadable::NotAMapping));
        for broken in ["name: [", "name: a\nname: b", "a: &x [*x]"] {
            assert!(matches!(split(&format!("---\n{broken}\n---\n")), Err(Unreadable::NotYaml { .. })), "{broken}");
        }
    }

    #[test]
    fn a_head_for_readers_that_go_by_lines_is_read_with_its_values_in_quotes() {
        let text = "---\r\nname: demo\ndescription: Use when: the user \"asks\"\n  for more: things\nargument-hint: [file] [more]\n\
            hint: `x`\nmetadata:\n  a: 1\nallowed-tools:\n- Read\n---\nbody";
        let head = json!({"name": "demo", "description": "Use when: the user \"asks\" for more: things", "hint": "`x`",
            "argument-hint": "[file] [more]", "metadata": {"a": 1}, "allowed-tools": ["Read"]});
        let keys = ["description", "argument-hint", "hint"].map(str::to_owned).to_vec();
        assert_eq!(split_leniently(text), Ok((head, "body", keys)));
        assert!(matches!(split(text), Err(Unreadable::NotYaml { .. })));
        assert_eq!(split_leniently("---\na: 1\n---\n"), Ok((json!({"a": 1}), "", vec![])));
        for broken in ["a: b: c\na: d", "- a: b: c", "a: \"b\nc: d", "a:\n  b: c: d", "just: text\nand more"] {
            let text = format!("---\n{broken}\n---\n");
            assert_eq!(split_leniently(&text).map(|(head, body, _)| (head, body)), split(&text), "{broken}");
            assert!(split(&text).is_err(), "{broken}");
        }
    }

    #[test]
    fn a_head_made_to_swell_is_refused() {
        let mut yaml = String::from("a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n");
        for level in 1..12 {
            let last = level - 1;
            yaml += &format!("a{level}: &a{level} [{}]\n", vec![format!("*a{last}"); 10].join(", "));
        }
        assert!(matches!(split(&format!("---\n{yaml}---\n")), Err(Unreadable::NotYaml { .. })));
    }
}
