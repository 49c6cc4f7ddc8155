//! The outcome of an interactive turn: completed, a question, or a failure, in the contract's order.

use serde_json::Value;

use super::offer::{Choice, DONE_MARKER, Offer, Source, choose};
use super::question::{Question, blocks, has_block, question};
use crate::domain::event::ValidationError;
use crate::domain::outcome::Warning;
use crate::skill::schema::{TooCostly, Validator};

/// The output of a turn, from which its outcome is decided.
#[derive(Debug)]
pub(crate) struct TurnWords<'a> {
    /// Every message of the assistant, in order. Tool calls and their output are no part of them.
    pub(crate) messages: &'a [String],
    /// The engine's structured output, as text.
    pub(crate) structured: Option<&'a str>,
    /// The result file, when the skill wrote one in this turn.
    pub(crate) result_file: Option<&'a str>,
}

/// Most values of JSON in the offers of all messages together: each takes many times its bytes in memory. Those of the oldest messages
/// are forgotten first.
const VALUES_MAX: usize = 2_000_000;
/// How many values an offer counts besides its own.
const AROUND_OFFER: usize = 8;

/// What may be the result of a turn, and whether anything says that it is done.
#[derive(Debug, Default)]
pub(crate) struct Offers {
    /// In the order in which they were made.
    pub(crate) offers: Vec<Offer>,
    marked_line: bool,
    marked_object: bool,
}

/// Everything in a turn that may be its result. An ask block describes a question: its content is neither output nor a
/// marker.
pub(crate) fn offers(words: &TurnWords<'_>) -> Offers {
    let mut made = Offers::default();
    let (mut newest_first, mut left, mut stated) = (Vec::new(), VALUES_MAX, false);
    for (index, message) in words.messages.iter().enumerate().rev() {
        let (text, marked) = bare(message);
        made.marked_line |= marked;
        let mut of_message = Offer::all_in(Source::Message(index + 1), &text);
        made.marked_object |= of_message.iter().any(says_done);
        let values: usize = of_message.iter().map(|offer| AROUND_OFFER + offer.values()).sum();
        if values > left {
            // Only the last word on whether it is done counts.
            of_message.retain(|offer| offer.marker.is_some() && !stated);
            of_message.drain(..of_message.len().saturating_sub(1));
        }
        left = left.saturating_sub(values);
        stated |= of_message.iter().any(|offer| offer.marker.is_some());
        newest_first.push(of_message);
    }
    made.offers = newest_first.into_iter().rev().flatten().collect();
    let others = [(Source::StructuredOutput, words.structured), (Source::ResultFile, words.result_file)];
    for (source, text) in others {
        made.offers.extend(text.into_iter().flat_map(|text| Offer::all_in(source, text)));
    }
    made.marked_object |= made.offers.iter().any(says_done);
    made
}

fn says_done(offer: &Offer) -> bool {
    offer.marker == Some(Value::Bool(true))
}

impl Offers {
    /// The last object with a marker: what the assistant said comes before what it left in a file.
    fn statement(&self) -> Option<&Offer> {
        let of = |said: bool| {
            let from = move |offer: &&Offer| matches!(offer.source, Source::Message(_)) == said;
            self.offers.iter().rev().filter(from).find(|offer| offer.marker.is_some())
        };
        of(true).filter(|offer| offer.is_question()).or_else(|| of(false)).or_else(|| of(true))
    }

    /// Whether anything says that the work is done.
    fn marked(&self) -> bool {
        self.marked_line || self.marked_object
    }
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) enum TurnVerdict {
    Completed {
        offer: Offer,
        /// What is to be told about the choice.
        warning: Option<Warning>,
        /// Whether the marker said so.
        marked: bool,
    },
    /// The user is asked.
    Ask(Box<Question>),
    /// The marker is there, but the output is not valid.
    Invalid { offer: Offer, errors: Vec<ValidationError> },
    /// The marker is there, but no output.
    Missing,
    /// There is an output, but to check it would take too long.
    TooCostly { offer: Offer, costly: TooCostly },
    /// The attempts are used up.
    AttemptsUsedUp,
    /// The engine said nothing at all.
    Silent,
}

/// Which turn this is, and how many there may be.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Attempts {
    pub(crate) attempt: u32,
    pub(crate) max_attempt: Option<u32>,
}

/// Decide on a turn.
pub(crate) fn judge_turn(words: &TurnWords<'_>, output: &Validator, attempts: Attempts) -> TurnVerdict {
    let made = offers(words);
    // An explicit question is never taken for output, and neither is anything next to it.
    if let Some(asks) = made.statement().filter(|offer| offer.is_question()) {
        let text = match asks.source {
            Source::Message(number) => words.messages.get(number - 1).map(String::as_str),
            Source::ResultFile | Source::StructuredOutput => Some(asking(words.messages)),
        };
        return ask(
            attempts,
            question(text.unwrap_or_default(), asks.parsed.value.as_ref().and_then(Value::as_object)),
        );
    }
    let marked = made.marked();
    match choose(&made.offers, output) {
        Choice::Valid(offer, warning) => TurnVerdict::Completed { offer, warning, marked },
        Choice::TooCostly(offer, costly) => TurnVerdict::TooCostly { offer, costly },
        Choice::Invalid(offer, errors) if marked => TurnVerdict::Invalid { offer, errors },
        Choice::Nothing if marked => TurnVerdict::Missing,
        Choice::Invalid(..) | Choice::Nothing => ask(attempts, question(asking(words.messages), None)),
    }
}

/// The message that asks: the last one with an ask block, else the last one.
fn asking(messages: &[String]) -> &str {
    let spoken = || messages.iter().rev().map(String::as_str).filter(|text| !text.trim().is_empty());
    spoken().find(|text| has_block(text)).or_else(|| spoken().next()).unwrap_or_default()
}

fn ask<V: From<Asked>>(attempts: Attempts, asked: Option<Question>) -> V {
    if attempts.max_attempt.is_some_and(|most| attempts.attempt >= most) {
        return Asked::AttemptsUsedUp.into();
    }
    asked.map_or(Asked::Silent, |question| Asked::Ask(Box::new(question))).into()
}

/// What a turn without a result came to.
enum Asked {
    Ask(Box<Question>),
    AttemptsUsedUp,
    Silent,
}

impl From<Asked> for TurnVerdict {
    fn from(asked: Asked) -> Self {
        match asked {
            Asked::Ask(question) => Self::Ask(question),
            Asked::AttemptsUsedUp => Self::AttemptsUsedUp,
            Asked::Silent => Self::Silent,
        }
    }
}

impl From<Asked> for WordsVerdict {
    fn from(asked: Asked) -> Self {
        match asked {
            Asked::Ask(question) => Self::Ask(question),
            Asked::AttemptsUsedUp => Self::AttemptsUsedUp,
            Asked::Silent => Self::Silent,
        }
    }
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
pub(crate) fn judge_words(messages: &[String], attempts: Attempts) -> WordsVerdict {
    let made = offers(&TurnWords { messages, structured: None, result_file: None });
    match made.statement() {
        Some(asks) if asks.is_question() => {
            let explicit = asks.parsed.value.as_ref().and_then(Value::as_object);
            return ask(attempts, question(asking(messages), explicit));
        }
        Some(done) if done.marker == Some(Value::Bool(true)) => {
            return WordsVerdict::Done(done.parsed.value.as_ref().map(Value::to_string).unwrap_or_default());
        }
        Some(_) | None => {}
    }
    if !made.marked_line {
        return ask(attempts, question(asking(messages), None));
    }
    let marked = messages.iter().rposition(|message| bare(message).1).unwrap_or_default();
    // A marker that stands alone speaks of the message before it.
    let words = messages[..=marked].iter().rev().map(|message| without_marker_line(message));
    WordsVerdict::Done(words.map(|words| words.trim().to_owned()).find(|words| !words.is_empty()).unwrap_or_default())
}

fn is_marker(line: &str) -> bool {
    line.trim().trim_matches(['`', '*']) == DONE_MARKER
}

fn without_marker_line(text: &str) -> String {
    let rest: Vec<&str> = text.lines().filter(|line| !is_marker(line)).collect();
    rest.join("\n")
}

/// The text with blanks for its ask blocks and marker lines, so that everything else keeps its place; and whether there was such a
/// line.
fn bare(text: &str) -> (String, bool) {
    let mut bytes = text.as_bytes().to_vec();
    let mut blank = |from: usize, to: usize| {
        bytes[from..to].iter_mut().filter(|byte| **byte != b'\n').for_each(|byte| *byte = b' ');
    };
    let asked: Vec<_> = blocks(text).collect();
    asked.iter().for_each(|block| blank(block.start, block.end));
    let (mut marked, mut at) = (false, 0);
    // Both stand in the order of the text: each block is passed once.
    let mut ahead = asked.iter().peekable();
    for line in text.split_inclusive('\n') {
        while ahead.next_if(|block| block.end <= at).is_some() {}
        if is_marker(line) && !ahead.peek().is_some_and(|block| block.contains(&at)) {
            marked = true;
            blank(at, at + line.len());
        }
        at += line.len();
    }
    (String::from_utf8_lossy(&bytes).into_owned(), marked)
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
        let words = TurnWords { messages: &said(&[text]), structured: None, result_file: None };
        judge_turn(&words, &output, Attempts { attempt, max_attempt: Some(3) })
    }

    fn said(messages: &[&str]) -> Vec<String> {
        messages.iter().map(|message| (*message).to_owned()).collect()
    }

    fn completed(text: &str) -> Option<(Value, bool)> {
        match decide(text, 1) {
            TurnVerdict::Completed { offer, marked, .. } => Some((offer.parsed.value?, marked)),
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
        let judge =
            |messages: &[&str], attempt, max_attempt| judge_words(&said(messages), Attempts { attempt, max_attempt });
        assert_eq!(judge(&["Ann, 41\n__SKILL_DONE__\n"], 1, None), done("Ann, 41"));
        assert_eq!(judge(&[r#"{"__SKILL_DONE__": true, "a": 1}"#], 1, None), done(r#"{"a":1}"#));
        assert_eq!(judge(&["Ann, 41\n__SKILL_DONE__", "Goodbye."], 1, None), done("Ann, 41"));
        assert_eq!(judge(&["Ann, 41", "`__SKILL_DONE__`"], 1, None), done("Ann, 41"));
        for asks in ["Who?", r#"{"name": "Ann"}"#, "{\"__SKILL_DONE__\": false, \"message\": \"Who?\"}\n__SKILL_DONE__"]
        {
            assert!(matches!(judge(&[asks], 1, Some(2)), WordsVerdict::Ask(_)), "{asks}");
            assert_eq!(judge(&[asks], 2, Some(2)), WordsVerdict::AttemptsUsedUp);
        }
        assert_eq!(judge(&[" "], 1, None), WordsVerdict::Silent);
    }

    #[test]
    fn a_marker_and_an_output_count_in_whichever_message_they_stand() {
        let output = Validator::new(&json!({"type": "object", "required": ["name"]})).unwrap();
        let decide = |messages: &[&str]| {
            let messages = said(messages);
            let words = TurnWords { messages: &messages, structured: None, result_file: None };
            judge_turn(&words, &output, Attempts { attempt: 1, max_attempt: None })
        };
        let completed = |messages: &[&str]| match decide(messages) {
            TurnVerdict::Completed { offer, marked, .. } => Some((offer.parsed.value?, marked)),
            _ => None,
        };
        let ann = json!({"name": "Ann"});
        assert_eq!(completed(&[r#"{"name": "Ann"}"#, "__SKILL_DONE__"]), Some((ann.clone(), true)));
        assert_eq!(completed(&["__SKILL_DONE__", r#"{"name": "Ann"}"#, "Bye."]), Some((ann.clone(), true)));
        assert_eq!(completed(&[r#"{"name": "Ann"}"#, "That is all."]), Some((ann.clone(), false)));
        let asked_before = r#"{"__SKILL_DONE__": false, "message": "Who?"}"#;
        assert_eq!(completed(&[asked_before, r#"{"name": "Ann", "__SKILL_DONE__": true}"#]), Some((ann, true)));
        let TurnVerdict::Ask(asked) = decide(&[r#"{"name": "Ann", "__SKILL_DONE__": true}"#, asked_before]) else {
            panic!("the last word was a question")
        };
        assert_eq!(asked.interaction.prompt, "Who?");
        let block = "<ASK_USER_YAML>\nkind: confirm\nprompt: Go on?\n</ASK_USER_YAML>";
        let TurnVerdict::Ask(asked) = decide(&[block, "I wait for you."]) else { panic!("not asked") };
        assert_eq!(asked.interaction.prompt, "Go on?");
    }

    #[test]
    fn values_of_many_messages_take_bounded_memory_and_no_word_on_the_end_is_lost() {
        let large = format!("[{}1]", "1,".repeat(900_000));
        let mut messages = vec![r#"{"name": "early", "__SKILL_DONE__": true}"#.to_owned()];
        messages.extend(std::iter::repeat_n(large, 5));
        let made = offers(&TurnWords { messages: &messages, structured: None, result_file: None });
        let values: usize = made.offers.iter().map(Offer::values).sum();
        assert!(values <= VALUES_MAX, "{values} values are held");
        assert_eq!(made.offers.last().map(|offer| offer.source), Some(Source::Message(6)));
        assert!(made.marked() && made.statement().is_some_and(|said| said.source == Source::Message(1)));
    }

    #[test]
    fn markers_in_and_between_very_many_ask_blocks_are_told_apart_in_time() {
        let pair = "<ASK_USER_YAML>\n__SKILL_DONE__\n</ASK_USER_YAML>\n";
        assert!(!bare(&pair.repeat(100_000)).1);
        assert!(bare(&format!("{0}__SKILL_DONE__\n{0}", pair.repeat(100_000))).1);
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
            let messages = said(&[text]);
            let words = TurnWords { messages: &messages, structured: None, result_file: Some(r#"{"name": "draft"}"#) };
            judge_turn(&words, &output, Attempts { attempt: 1, max_attempt: None })
        };
        assert!(matches!(decide(r#"{"__SKILL_DONE__": false, "message": "Is it good?"}"#), TurnVerdict::Ask(_)));
        let done = decide(r#"{"__SKILL_DONE__": true}"#);
        let TurnVerdict::Completed { marked: true, offer, .. } = done else { panic!("{done:?}") };
        assert_eq!(offer.source, Source::ResultFile);
    }

    #[test]
    fn what_stands_in_an_ask_block_is_neither_output_nor_marker() {
        let text = "Which?\n<ASK_USER_YAML>\noptions:\n  - {\"name\": \"Ann\", \"label\": \"A\"}\nprompt: |\n  __SKILL_DONE__\n</ASK_USER_YAML>";
        assert!(matches!(decide(text, 1), TurnVerdict::Ask(_)));
    }

    #[test]
    fn a_marker_with_invalid_output_fails_and_attempts_end() {
        assert!(matches!(decide("{\"name\": 3}\n__SKILL_DONE__", 1), TurnVerdict::Invalid { .. }));
        assert_eq!(decide("all done\n__SKILL_DONE__", 1), TurnVerdict::Missing);
        assert!(matches!(decide("What is your name?", 2), TurnVerdict::Ask(_)));
        assert_eq!(decide("What is your name?", 3), TurnVerdict::AttemptsUsedUp);
        assert!(completed("{\"name\": \"Ann\"}").is_some());
        assert_eq!(decide("  ", 1), TurnVerdict::Silent);
    }
}
