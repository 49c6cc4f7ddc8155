//! What is known about a turn: session, last message, usage, denials, and the end that the engine reported.

use std::collections::VecDeque;

use serde_json::{Map, Value};

use super::excerpt;
use super::failure::Failure;
use crate::domain::codes::{ErrorCode, WarningCode};
use crate::domain::event::{AssistantMessage, Event, SessionBound};
use crate::domain::json_text::{JSON_TEXT_MAX, beginning};
use crate::domain::outcome::{Usage, Warning, WarningLevel};

/// Characters of standard error kept for the error of a failed turn.
const STDERR_KEPT: usize = 2000;
/// Bytes of it from which on what is too much is cut off: after each line, that would take longer than reading the line.
const STDERR_HELD: usize = 32 * STDERR_KEPT;
/// Longest text of a message or of reasoning in an event, in bytes: escaped it can be six times as long, and an append
/// to the store takes at most 1 MiB.
const TEXT_MAX: usize = 128 * 1024;
/// Longest session handle, in bytes.
const HANDLE_MAX: usize = 256;
/// Most bytes of messages that are kept to look for the result in them; the oldest are forgotten first.
const MESSAGES_KEPT: usize = 32 * 1024 * 1024;
/// How many names of unrecognized output are kept.
const NAMES_MAX: usize = 20;
/// Longest of them, in bytes of JSON.
const NAME_MAX: usize = 200;

/// Most tokens of one turn, and most US dollars: an engine that reports more is mistaken, and one such number would spoil every sum.
const TOKENS_MAX: u64 = 1_000_000_000_000;
const COST_MAX: f64 = 1_000_000.0;
/// So much of an error is compared with the one before.
const TOLD_MAX: usize = 1000;

/// The end of a turn as the engine reported it.
#[derive(Debug, Clone, PartialEq)]
pub enum ReportedEnd {
    /// It finished its turn.
    Succeeded,
    /// It finished its turn, and calls that a failure because its model answered in plain text. The text counts all the same.
    InPlainText,
    Failed(Failure),
}

/// A tool the engine was not allowed to use.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Denial {
    pub(crate) tool: String,
    /// The engine's id of the call.
    pub(crate) call_id: String,
}

/// What the turn's answer is read from.
#[derive(Debug, Clone, Default, PartialEq)]
enum FinalText {
    #[default]
    None,
    /// The last message that is kept.
    LastMessage,
    Own(String),
}

/// Everything known about a turn; `verdict` judges it when the process is gone.
#[derive(Debug, Clone, PartialEq)]
pub struct TurnReport {
    /// The session that the turn was to continue.
    pub(crate) resumed_from: Option<String>,
    /// The session the engine named.
    pub handle: Option<String>,
    /// The engine's own structured output.
    pub(crate) structured: Option<Value>,
    /// The tokens and cost of this turn.
    pub usage: Option<Usage>,
    /// The end, once the engine reported it.
    pub end: Option<ReportedEnd>,
    /// The last error that the engine did not report as the end.
    pub(crate) last_error: Option<Failure>,
    /// The engine's message that it does not know the session.
    pub(crate) lost_session: Option<String>,
    /// Tools the engine was not allowed to use.
    pub(crate) denials: Vec<Denial>,
    /// What the engine wrote to standard error last, or more of it.
    stderr: String,
    /// Names of output the parser does not know, each once.
    pub(crate) unrecognized: Vec<String>,
    final_text: FinalText,
    handle_kind: &'static str,
    messages: usize,
    /// The messages so far, the oldest first.
    kept: VecDeque<String>,
    /// How many bytes they have.
    kept_bytes: usize,
    /// What is masked in messages.
    secrets: Vec<String>,
    /// The error that was told last.
    told_error: Option<String>,
    /// Most seconds that the engine may wait for its service; any, when there is no limit.
    pub(crate) longest_wait: Option<u64>,
    /// Seconds until the turn would be stopped, where that is known.
    pub(crate) seconds_left: Option<u64>,
    /// Whether the engine waits longer than either: nothing more is expected of it.
    pub(crate) waits_too_long: bool,
    /// Whether the engine used any tool in this turn.
    pub(crate) used_tools: bool,
}

impl TurnReport {
    pub(crate) fn new(handle_kind: &'static str, resumed_from: Option<&str>) -> Self {
        Self {
            resumed_from: resumed_from.map(str::to_owned),
            handle: None,
            structured: None,
            usage: None,
            end: None,
            last_error: None,
            lost_session: None,
            denials: Vec::new(),
            stderr: String::new(),
            unrecognized: Vec::new(),
            final_text: FinalText::None,
            handle_kind,
            messages: 0,
            kept: VecDeque::new(),
            kept_bytes: 0,
            secrets: Vec::new(),
            told_error: None,
            longest_wait: None,
            seconds_left: None,
            waits_too_long: false,
            used_tools: false,
        }
    }

    /// From now on these are masked in messages. Each line was masked when it was read, but of a message that comes in parts
    /// a secret may stand on two lines.
    pub(crate) fn mask(&mut self, secrets: Vec<String>) {
        self.secrets = secrets;
    }

    /// Takes the session that the engine named; no event when it is the same as before.
    pub(crate) fn bind(&mut self, handle: &str) -> Option<Event> {
        if self.handle.as_deref() == Some(handle) {
            return None;
        }
        if let Some(objection) = objection_to_handle(handle) {
            let message = format!("the engine's name for its session is not used: {objection}");
            return Some(Event::Warned(Box::new(Warning::new(WarningCode::SessionHandleInvalid, message))));
        }
        self.handle = Some(handle.to_owned());
        if let Some(wanted) = self.resumed_from.as_deref().filter(|wanted| *wanted != handle) {
            // The engine silently began a new session, which lacks the conversation so far.
            let message = format!("the engine was to continue session {wanted} but began {handle}");
            self.lost_session = Some(message.clone());
            self.end = Some(ReportedEnd::Failed(Failure::new(ErrorCode::SessionResumeFailed, &message)));
            return Some(Event::Warned(Box::new(Warning::new(WarningCode::SessionHandleChanged, message))));
        }
        Some(Event::SessionBound(SessionBound { handle_kind: self.handle_kind.to_owned(), handle: handle.to_owned() }))
    }

    /// Takes a whole message of the assistant; no event when it is empty. Messages without an id are numbered.
    pub(crate) fn said(&mut self, message_id: Option<&str>, text: &str) -> Option<Event> {
        if text.trim().is_empty() {
            return None;
        }
        let text = self.secrets.iter().fold(text.to_owned(), |text, secret| match text.contains(secret.as_str()) {
            true => text.replace(secret.as_str(), &"*".repeat(secret.len())),
            false => text,
        });
        self.messages += 1;
        // An answer of the model means that an earlier error was overcome.
        self.last_error = None;
        self.told_error = None;
        let shown = shown(&text);
        self.final_text = FinalText::LastMessage;
        self.kept_bytes += room(&text);
        self.kept.push_back(text);
        while self.kept.len() > 1 && self.kept_bytes > MESSAGES_KEPT {
            self.kept_bytes -= self.kept.pop_front().map_or(0, |oldest| room(&oldest));
        }
        let message_id = message_id.map_or_else(|| format!("message-{}", self.messages), excerpt::name);
        Some(Event::AssistantMessage(AssistantMessage { message_id, text: shown }))
    }

    /// Takes a whole message that continues the final text so far, on a line of its own.
    pub(crate) fn says_on(&mut self, message_id: Option<&str>, text: &str) -> Option<Event> {
        let before = match std::mem::take(&mut self.final_text) {
            FinalText::None => None,
            FinalText::LastMessage => self.kept.back().cloned(),
            FinalText::Own(before) => Some(before),
        };
        let event = self.said(message_id, text);
        let more = if event.is_some() { self.kept.back().map(String::as_str) } else { None };
        self.final_text = match (before, more) {
            (Some(mut before), Some(more)) if before.len() + more.len() < MESSAGES_KEPT => {
                before.push('\n');
                before.push_str(more);
                FinalText::Own(before)
            }
            (_, Some(_)) => FinalText::LastMessage,
            (Some(before), None) => FinalText::Own(before),
            (None, None) => FinalText::None,
        };
        event
    }

    /// What the turn's answer is read from: the last message, or what the engine itself says is its answer.
    pub fn final_text(&self) -> Option<&str> {
        match &self.final_text {
            FinalText::None => None,
            FinalText::LastMessage => self.kept.back().map(String::as_str),
            FinalText::Own(text) => Some(text),
        }
    }

    /// The engine says itself what its answer is.
    pub(crate) fn answered(&mut self, text: String) {
        self.final_text = FinalText::Own(text);
    }

    /// What was said so far is not the answer: the engine goes on.
    pub(crate) fn goes_on(&mut self) {
        self.final_text = FinalText::None;
    }

    /// Every message of the turn, in order; the last one as the engine reports it in the end, where that differs.
    pub(crate) fn messages(&self) -> Vec<String> {
        let own = match &self.final_text {
            FinalText::Own(text) => Some(text).filter(|text| self.kept.back() != Some(text)),
            FinalText::None | FinalText::LastMessage => None,
        };
        self.kept.iter().chain(own).cloned().collect()
    }

    /// Takes a report of usage. The reports of one turn add up; one of zero tokens is no event.
    pub(crate) fn spent(&mut self, usage: Usage) -> Option<Event> {
        if usage.input_tokens == 0 && usage.output_tokens == 0 {
            return None;
        }
        let counts = [usage.input_tokens, usage.cached_input_tokens, usage.output_tokens];
        let credible = |cost: f64| (0.0..=COST_MAX).contains(&cost);
        if counts.iter().any(|count| *count > TOKENS_MAX) || !usage.cost_usd.is_none_or(credible) {
            self.does_not_know("(usage beyond belief)".to_owned());
            return None;
        }
        self.usage = Some(self.usage.map_or(usage, |before| before.plus(usage)));
        Some(Event::UsageReported(usage))
    }

    /// The engine reports that it finished its turn.
    pub(crate) fn succeeded(&mut self) {
        // A turn in the wrong session cannot succeed.
        if self.lost_session.is_none() {
            self.end = Some(ReportedEnd::Succeeded);
        }
    }

    /// The engine reports that its model answered, but not by its tool for structured output.
    pub(crate) fn answered_in_plain_text(&mut self) {
        if self.lost_session.is_none() {
            self.end = Some(ReportedEnd::InPlainText);
        }
    }

    /// The engine reports that its turn failed.
    pub(crate) fn failed(&mut self, failure: Failure) {
        if self.lost_session.is_none() {
            self.end = Some(ReportedEnd::Failed(failure));
        }
    }

    /// Takes back the reported end.
    pub(crate) fn undecided(&mut self) {
        if self.lost_session.is_none() {
            self.end = None;
        }
    }

    /// An error after which the engine tries again.
    pub(crate) fn retrying(&mut self, http_status: Option<u16>, message: &str) -> Event {
        self.last_error = Some(Failure::classify(http_status, message));
        warned(WarningCode::EngineRetrying, message, WarningLevel::Info)
    }

    /// The same, when the engine says how many seconds it waits before. Longer than it may wait is the end of the turn.
    pub(crate) fn retrying_in(&mut self, http_status: Option<u16>, message: &str, seconds: u64) -> Event {
        let event = self.retrying(http_status, message);
        let limited = self.last_error.as_ref().filter(|error| error.code == ErrorCode::EngineRateLimited);
        let too_long = [self.longest_wait, self.seconds_left].into_iter().flatten().any(|most| seconds > most);
        if let Some(error) = limited.filter(|_| too_long) {
            let failure = Failure { retry_after_seconds: Some(seconds), ..error.clone() };
            self.waits_too_long = true;
            self.failed(failure);
        }
        event
    }

    /// An error that is not necessarily the end; no event when the engine has just said the same.
    pub(crate) fn engine_error(&mut self, message: &str) -> Option<Event> {
        let told = beginning(message.trim_matches(['[', ']', ' ', '\n']), TOLD_MAX);
        let again = self.told_error.as_deref().is_some_and(|before| before.contains(told) || told.contains(before));
        if again && !told.is_empty() {
            return None;
        }
        self.told_error = Some(told.to_owned());
        Some(warned(WarningCode::EngineError, message, WarningLevel::Warning))
    }

    /// Takes back the last message: the engine asks its model again.
    pub(crate) fn take_back(&mut self) {
        self.kept_bytes -= self.kept.pop_back().map_or(0, |last| room(&last));
        self.final_text = FinalText::LastMessage;
    }

    /// Remembers the name of an unknown kind of line.
    pub(crate) fn does_not_know(&mut self, name: String) {
        let name = beginning(&name, NAME_MAX).to_owned();
        if self.unrecognized.len() < NAMES_MAX && !self.unrecognized.contains(&name) {
            self.unrecognized.push(name);
        }
    }

    pub(crate) fn wrote_stderr(&mut self, line: &str) {
        self.stderr.push_str(end_of(line, STDERR_KEPT));
        self.stderr.push('\n');
        if self.stderr.len() > STDERR_HELD {
            self.stderr = self.stderr_tail().to_owned();
        }
    }

    /// The end of what the engine wrote to standard error.
    pub(crate) fn stderr_tail(&self) -> &str {
        end_of(&self.stderr, STDERR_KEPT)
    }
}

/// The last characters of a text.
fn end_of(text: &str, characters: usize) -> &str {
    text.char_indices().rev().nth(characters.saturating_sub(1)).map_or(text, |(at, _)| &text[at..])
}

/// Why the name of a session is not given back to the engine as an argument, or nothing. One that begins with `-` would be
/// an option, and such a name says nothing about who wrote it.
fn objection_to_handle(handle: &str) -> Option<String> {
    let known = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.:".contains(&byte);
    if handle.len() > HANDLE_MAX {
        return Some(format!("it has {} bytes, more than {HANDLE_MAX}", handle.len()));
    }
    let plain = handle.starts_with(|first: char| first.is_ascii_alphanumeric()) && handle.bytes().all(known);
    (!plain).then(|| "it must begin with a letter or digit, and have only these and - _ . :".to_owned())
}

/// A text as events carry it: cut when too long. The stream's file and the verdict have it whole.
pub(crate) fn shown(text: &str) -> String {
    let kept = beginning(&text[..text.floor_char_boundary(TEXT_MAX)], JSON_TEXT_MAX);
    if kept.len() == text.len() { text.to_owned() } else { format!("{kept}…") }
}

/// About how many bytes of memory a kept message takes.
fn room(message: &str) -> usize {
    message.len() + 64
}

/// What was used since `before`, for engines that report the sum over a whole session.
pub(crate) fn since(before: Usage, total: Usage) -> Usage {
    Usage {
        input_tokens: total.input_tokens.saturating_sub(before.input_tokens),
        cached_input_tokens: total.cached_input_tokens.saturating_sub(before.cached_input_tokens),
        output_tokens: total.output_tokens.saturating_sub(before.output_tokens),
        cost_usd: total.cost_usd.map(|cost| (cost - before.cost_usd.unwrap_or(0.0)).max(0.0)),
    }
}

/// A remark of the engine.
pub(crate) fn remark(message: &str) -> Event {
    warned(WarningCode::EngineRemark, message, WarningLevel::Info)
}

fn warned(code: WarningCode, message: &str, level: WarningLevel) -> Event {
    Event::Warned(Box::new(Warning {
        code: code.as_str().to_owned(),
        message: excerpt::text(message),
        level,
        normalization_level: None,
        details: Map::new(),
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report() -> TurnReport {
        TurnReport::new("session_id", None)
    }

    #[test]
    fn the_messages_that_are_kept_take_bounded_memory_however_short_each_is() {
        let mut turn = report();
        let many = MESSAGES_KEPT / 64 + 1000;
        for _ in 0..many {
            turn.said(None, "x");
        }
        assert!(turn.kept.len() < many, "{} of {many} messages are kept", turn.kept.len());
        let sum: usize = turn.kept.iter().map(|message| room(message)).sum();
        assert_eq!(turn.kept_bytes, sum);
        assert!(sum <= MESSAGES_KEPT);
        let half = "y".repeat(MESSAGES_KEPT / 2);
        turn.said(None, &half);
        turn.said(None, &half);
        assert_eq!(turn.messages(), std::slice::from_ref(&half));
        turn.take_back();
        assert_eq!((turn.kept_bytes, turn.final_text()), (0, None));
    }

    #[test]
    fn of_standard_error_the_last_characters_stay_and_each_line_costs_little() {
        let mut turn = report();
        let mut all = String::new();
        for number in 0..100_000 {
            let line = if number % 9_000 == 0 { "ä".repeat(5000) } else { number.to_string() };
            turn.wrote_stderr(&line);
            all.push_str(&line);
            all.push('\n');
            assert!(turn.stderr.len() <= STDERR_HELD && turn.stderr.capacity() <= 4 * STDERR_HELD);
            if number % 1000 == 0 || number % 9_000 < 3 {
                assert_eq!(turn.stderr_tail(), end_of(&all, STDERR_KEPT));
            }
        }
        assert_eq!(turn.stderr_tail().chars().count(), STDERR_KEPT);
    }

    #[test]
    fn a_message_that_is_taken_back_uncovers_the_one_before_it() {
        let mut turn = report();
        turn.said(None, "first");
        turn.said(None, "second");
        turn.take_back();
        assert_eq!((turn.final_text(), turn.messages()), (Some("first"), vec!["first".to_owned()]));
    }

    #[test]
    fn texts_of_one_step_are_one_answer_in_which_secrets_are_masked() {
        let mut turn = report();
        turn.mask(vec!["secret".to_owned()]);
        turn.says_on(None, "a secret");
        turn.says_on(None, " ");
        turn.says_on(None, "and more");
        assert_eq!(turn.final_text(), Some("a ******\nand more"));
        assert_eq!(turn.messages(), ["a ******", "and more", "a ******\nand more"]);
        turn.goes_on();
        turn.says_on(None, "next");
        assert_eq!(turn.final_text(), Some("next"));
    }

    #[test]
    fn usage_beyond_belief_is_named_as_not_recognized_and_spoils_no_sum() {
        let tokens = |input_tokens, cost_usd| Usage { input_tokens, output_tokens: 1, cost_usd, ..Usage::default() };
        let mut turn = report();
        assert!(turn.spent(tokens(5, Some(0.5))).is_some());
        for absurd in [tokens(u64::MAX, None), tokens(1, Some(f64::MAX)), tokens(1, Some(-1.0))] {
            assert_eq!(turn.spent(absurd), None);
        }
        assert_eq!(turn.usage, Some(tokens(5, Some(0.5))));
        assert_eq!(turn.unrecognized, ["(usage beyond belief)"]);
    }
}
