//! The outcome of an interactive turn: completed, a question, or a failure, in the contract's order.

use serde_json::Value;

use super::parse::{Parsed, Validity, parse, validate};
use super::question::{Question, question, split_block};
use crate::domain::event::ValidationError;
use crate::skill::schema::{TooCostly, Validator};

/// The marker of completion.
pub(crate) const DONE_MARKER: &str = "__SKILL_DONE__";

/// The output of a turn, from which its outcome is decided.
#[derive(Debug)]
pub(crate) struct TurnWords<'a> {
    /// The assistant's last message. Tool calls and their output are no part of it.
    pub(crate) text: &'a str,
    /// The engine's structured output, as text.
    pub(crate) structured: Option<&'a str>,
    /// The result file, when the skill wrote one in this turn.
    pub(crate) result_file: Option<&'a str>,
    pub(crate) output: &'a Validator,
    pub(crate) attempt: u32,
    pub(crate) max_attempt: Option<u32>,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) enum TurnVerdict {
    Completed {
        value: Value,
        /// How it was read.
        parsed: Parsed,
        source: &'static str,
        /// Whether the marker said so.
        marked: bool,
    },
    /// The user is asked.
    Ask(Box<Question>),
    /// The marker is there, but the output is not valid.
    Invalid {
        /// How it was read.
        parsed: Parsed,
        source: &'static str,
        errors: Vec<ValidationError>,
        /// Whether there is any JSON at all.
        outcome: Validity,
    },
    /// There is an output, but to check it would take too long.
    TooCostly {
        /// How it was read.
        parsed: Parsed,
        source: &'static str,
        costly: TooCostly,
    },
    /// The attempts are used up.
    AttemptsUsedUp,
    /// The engine said nothing at all.
    Silent,
}

/// Decide on a turn.
pub(crate) fn judge_turn(words: &TurnWords<'_>) -> TurnVerdict {
    // An ask block describes a question; its content is neither output nor a marker.
    let (around, _) = split_block(words.text);
    let (text, marked_line) = without_marker_line(&around);
    let mut said = parse(&text);
    let said_member = take_marker(&mut said);
    let (source, mut parsed) = match (words.result_file, words.structured) {
        // An explicit question is never taken for output, and neither is anything next to it.
        _ if said_member == Some(Value::Bool(false)) => ("assistant_message", said),
        (Some(written), _) => ("result_file", parse(written)),
        (None, Some(structured)) => ("structured_output", parse(structured)),
        (None, None) => ("assistant_message", said),
    };
    let member = take_marker(&mut parsed).or(said_member);
    if member == Some(Value::Bool(false)) {
        let explicit = parsed.value.as_ref().and_then(Value::as_object);
        return ask(words, question(words.text, explicit));
    }
    let marked = marked_line || member == Some(Value::Bool(true));
    let errors = match parsed.value.as_ref().map(|value| validate(value, words.output).1).transpose() {
        Ok(errors) => errors,
        Err(costly) => return TurnVerdict::TooCostly { parsed, source, costly },
    };
    match (parsed.value.clone(), errors) {
        (Some(value), Some(errors)) if errors.is_empty() => TurnVerdict::Completed { value, parsed, source, marked },
        (_, errors) if marked => {
            let outcome = if errors.is_some() { Validity::Invalid } else { Validity::Missing };
            TurnVerdict::Invalid { parsed, source, errors: errors.unwrap_or_default(), outcome }
        }
        (_, _) => ask(words, question(words.text, None)),
    }
}

fn ask(words: &TurnWords<'_>, asked: Option<Question>) -> TurnVerdict {
    if used_up(words.attempt, words.max_attempt) {
        return TurnVerdict::AttemptsUsedUp;
    }
    asked.map_or(TurnVerdict::Silent, |question| TurnVerdict::Ask(Box::new(question)))
}

fn used_up(attempt: u32, max_attempt: Option<u32>) -> bool {
    max_attempt.is_some_and(|most| attempt >= most)
}

/// The outcome of a turn whose message is not the result itself.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum WordsVerdict {
    /// The engine says that it is done; its message, without the marker.
    Done(String),
    /// The user is asked.
    Ask(Box<Question>),
    /// The attempts are used up.
    AttemptsUsedUp,
    /// The engine said nothing at all.
    Silent,
}

/// Decide on a turn from whose message a script makes the result. Only the marker completes it: the schema does not
/// describe the message.
pub(crate) fn judge_words(text: &str, attempt: u32, max_attempt: Option<u32>) -> WordsVerdict {
    let (around, _) = split_block(text);
    let (words, marked) = without_marker_line(&around);
    let mut said = parse(&words);
    let member = take_marker(&mut said);
    if member == Some(Value::Bool(true)) {
        return WordsVerdict::Done(said.value.map(|value| value.to_string()).unwrap_or_default());
    }
    if marked && member.is_none() {
        return WordsVerdict::Done(words.trim().to_owned());
    }
    if used_up(attempt, max_attempt) {
        return WordsVerdict::AttemptsUsedUp;
    }
    let explicit = said.value.as_ref().and_then(Value::as_object).filter(|_| member.is_some());
    question(text, explicit).map_or(WordsVerdict::Silent, |asked| WordsVerdict::Ask(Box::new(asked)))
}

/// Removes the marker from the output's members and returns it.
fn take_marker(parsed: &mut Parsed) -> Option<Value> {
    parsed.value.as_mut()?.as_object_mut()?.shift_remove(DONE_MARKER)
}

/// The text without marker lines, and whether there was one.
fn without_marker_line(text: &str) -> (String, bool) {
    let is_marker = |line: &&str| line.trim().trim_matches(['`', '*']) == DONE_MARKER;
    let marked = text.lines().any(|line| is_marker(&line));
    let rest: Vec<&str> = text.lines().filter(|line| !is_marker(line)).collect();
    (rest.join("\n"), marked)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn decide(text: &str, attempt: u32) -> TurnVerdict {
        let output = Validator::new(
            &json!({"type": "object", "required": ["name"], "properties": {"name": {"type": "string"}}}),
        )
        .unwrap();
        judge_turn(&TurnWords {
            text,
            structured: None,
            result_file: None,
            output: &output,
            attempt,
            max_attempt: Some(3),
        })
    }

    fn completed(text: &str) -> Option<(Value, bool)> {
        match decide(text, 1) {
            TurnVerdict::Completed { value, marked, .. } => Some((value, marked)),
            _ => None,
        }
    }

    #[test]
    fn a_marker_with_valid_output_completes_and_is_no_part_of_it() {
        let ann = json!({"name": "Ann"});
        assert_eq!(completed("Done.\n{\"name\": \"Ann\"}\n__SKILL_DONE__\n"), Some((ann.clone(), true)));
        assert_eq!(completed(r#"{"__SKILL_DONE__": true, "name": "Ann"}"#), Some((ann.clone(), true)));
        assert_eq!(completed(r#"{"name": "Ann"}"#), Some((ann, false)), "soft completion");
    }

    #[test]
    fn words_for_a_script_are_done_by_the_marker_alone() {
        let done = |words: &str| WordsVerdict::Done(words.to_owned());
        assert_eq!(judge_words("Ann, 41\n__SKILL_DONE__\n", 1, None), done("Ann, 41"));
        assert_eq!(judge_words(r#"{"__SKILL_DONE__": true, "a": 1}"#, 1, None), done(r#"{"a":1}"#));
        for asks in ["Who?", r#"{"name": "Ann"}"#, "{\"__SKILL_DONE__\": false, \"message\": \"Who?\"}\n__SKILL_DONE__"]
        {
            assert!(matches!(judge_words(asks, 1, Some(2)), WordsVerdict::Ask(_)), "{asks}");
            assert_eq!(judge_words(asks, 2, Some(2)), WordsVerdict::AttemptsUsedUp);
        }
        assert_eq!(judge_words(" ", 1, None), WordsVerdict::Silent);
    }

    #[test]
    fn a_marker_inside_a_sentence_is_none() {
        assert!(matches!(decide("I will write __SKILL_DONE__ when I know your name.", 1), TurnVerdict::Ask(_)));
    }

    #[test]
    fn an_explicit_question_is_never_output_even_if_it_would_pass() {
        let TurnVerdict::Ask(asked) = decide(r#"{"__SKILL_DONE__": false, "name": "x", "message": "Who are you?"}"#, 1)
        else {
            panic!("not asked")
        };
        assert_eq!(asked.interaction.prompt, "Who are you?");
    }

    #[test]
    fn the_assistants_word_stands_above_a_file_that_it_left() {
        let output = Validator::new(&json!({"type": "object"})).unwrap();
        let decide = |text| {
            judge_turn(&TurnWords {
                text,
                structured: None,
                result_file: Some(r#"{"name": "draft"}"#),
                output: &output,
                attempt: 1,
                max_attempt: None,
            })
        };
        assert!(matches!(decide(r#"{"__SKILL_DONE__": false, "message": "Is it good?"}"#), TurnVerdict::Ask(_)));
        let done = decide(r#"{"__SKILL_DONE__": true}"#);
        assert!(matches!(done, TurnVerdict::Completed { marked: true, source: "result_file", .. }), "{done:?}");
    }

    #[test]
    fn what_stands_in_an_ask_block_is_neither_output_nor_marker() {
        let text = "Which?\n<ASK_USER_YAML>\noptions:\n  - {\"name\": \"Ann\", \"label\": \"A\"}\nprompt: |\n  __SKILL_DONE__\n</ASK_USER_YAML>";
        assert!(matches!(decide(text, 1), TurnVerdict::Ask(_)));
    }

    #[test]
    fn a_marker_with_invalid_output_fails_and_attempts_end() {
        assert!(matches!(
            decide("{\"name\": 3}\n__SKILL_DONE__", 1),
            TurnVerdict::Invalid { outcome: Validity::Invalid, .. }
        ));
        assert!(matches!(
            decide("all done\n__SKILL_DONE__", 1),
            TurnVerdict::Invalid { outcome: Validity::Missing, .. }
        ));
        assert!(matches!(decide("What is your name?", 2), TurnVerdict::Ask(_)));
        assert_eq!(decide("What is your name?", 3), TurnVerdict::AttemptsUsedUp);
        assert!(completed("{\"name\": \"Ann\"}").is_some());
        assert_eq!(decide("  ", 1), TurnVerdict::Silent);
    }
}
