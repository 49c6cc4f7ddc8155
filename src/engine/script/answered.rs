//! Whether a script has written its whole answer: most scripts exit right after it.

use serde::Deserialize;

use crate::bounded;

/// Longest answer that is looked at.
const LENGTH_MAX: usize = 64 * 1024;
/// How often an answer of several lines is looked at.
const LOOKS_MAX: usize = 8;

/// What a script has written to standard output so far.
#[derive(Debug)]
pub(super) enum AnswerSoFar {
    /// The beginning of an answer, or nothing.
    Begun { text: String, looks: usize },
    /// One whole envelope, and nothing behind it.
    Whole,
    /// Something else, or too much to tell.
    Unclear,
}

impl Default for AnswerSoFar {
    fn default() -> Self {
        Self::Begun { text: String::new(), looks: 0 }
    }
}

/// What makes a JSON object an answer.
#[derive(Deserialize)]
struct Envelope {
    #[serde(rename = "success")]
    _success: bool,
}

impl AnswerSoFar {
    /// One more line, without its end.
    pub(super) fn add(&mut self, line: &str) {
        if line.trim().is_empty() {
            return;
        }
        *self = match std::mem::replace(self, Self::Unclear) {
            Self::Begun { text, looks } => with_line(text, looks, line),
            Self::Whole | Self::Unclear => Self::Unclear,
        };
    }

    pub(super) fn is_whole(&self) -> bool {
        matches!(self, Self::Whole)
    }
}

fn with_line(mut text: String, mut looks: usize, line: &str) -> AnswerSoFar {
    let (first, closes) = (text.is_empty(), line.trim_end().ends_with('}'));
    if text.len() + line.len() >= LENGTH_MAX || (first && !line.trim_start().starts_with('{')) {
        return AnswerSoFar::Unclear;
    }
    text.push_str(line);
    text.push('\n');
    // An object of several lines ends with a brace at the beginning of a line.
    if closes && (first || line.starts_with('}')) {
        looks += 1;
        match bounded::json::from_str::<Envelope>(&text) {
            Ok(_) => return AnswerSoFar::Whole,
            Err(error) if error.is_eof() && looks < LOOKS_MAX => {}
            Err(_) => return AnswerSoFar::Unclear,
        }
    }
    AnswerSoFar::Begun { text, looks }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn whole_after(lines: &[&str]) -> Vec<bool> {
        let mut answer = AnswerSoFar::default();
        lines
            .iter()
            .map(|line| {
                answer.add(line);
                answer.is_whole()
            })
            .collect()
    }

    #[test]
    fn an_envelope_of_one_line_or_several_is_whole_when_its_last_brace_is_there() {
        assert_eq!(whole_after(&[r#"{"success":true,"data":{}}"#]), [true]);
        assert_eq!(whole_after(&["", r#"{"success": false, "error": {"code": "X"}}"#, " "]), [false, true, true]);
        let pretty = ["{", r#"  "data": {"#, r#"    "a": "}""#, "  },", r#"  "success": true"#, "}"];
        assert_eq!(whole_after(&pretty), [false, false, false, false, false, true]);
    }

    #[test]
    fn a_script_that_prints_something_else_or_goes_on_has_not_given_its_answer() {
        assert_eq!(whole_after(&["starting", r#"{"success":true}"#]), [false, false]);
        assert_eq!(whole_after(&[r#"{"step":1}"#, r#"{"success":true}"#]), [false, false]);
        assert_eq!(whole_after(&[r#"{"success":true}"#, "more"]), [true, false]);
        assert_eq!(whole_after(&["{", "}}"]), [false, false]);
        let long = format!(r#"{{"success":true,"data":"{}"}}"#, "x".repeat(LENGTH_MAX));
        assert_eq!(whole_after(&[&long]), [false]);
    }

    #[test]
    fn an_answer_is_parsed_a_few_times_at_most() {
        let mut answer = AnswerSoFar::default();
        answer.add("{");
        for _ in 0..LOOKS_MAX {
            answer.add("\"a\":{");
            answer.add("},");
            answer.add("\"b\":{");
            answer.add("}");
            answer.add(",");
        }
        assert!(matches!(answer, AnswerSoFar::Unclear));
    }
}
