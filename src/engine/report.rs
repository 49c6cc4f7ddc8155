//! What a turn has shown so far: session, last words, usage, denials, and how it says it ended.

use serde_json::{Map, Value};

use super::failure::Failure;
use crate::domain::event::{AssistantMessage, Event, SessionBound};
use crate::domain::outcome::{Usage, Warning, WarningLevel, code};

/// Most characters of standard error kept for the account of a failure.
const STDERR_KEPT: usize = 2000;
/// Longest text of a message or of reasoning in an event, in bytes: escaped it may be six times as long, and an append
/// has at most 1 MiB.
const TEXT_MAX: usize = 128 * 1024;
/// Longest name of a session, in bytes.
const HANDLE_MAX: usize = 256;
/// Most names of unrecognized output kept.
const NAMES_MAX: usize = 20;

/// The end of a turn, by the engine's own word.
#[derive(Debug, Clone, PartialEq)]
pub enum TurnEnd {
    /// It finished its turn.
    Succeeded,
    /// It gave up.
    Failed(Failure),
}

/// A tool the engine was not allowed to use.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Denial {
    /// Which tool.
    pub tool: String,
    /// The engine's name for the call.
    pub call_id: String,
}

/// Everything a turn has shown; `verdict` weighs it when the process is gone.
#[derive(Debug, Clone, PartialEq)]
pub struct TurnReport {
    /// The session the turn was to go on with.
    pub resumed_from: Option<String>,
    /// The session the engine named.
    pub handle: Option<String>,
    /// The assistant's last words.
    pub final_text: Option<String>,
    /// The engine's own structured output.
    pub structured: Option<Value>,
    /// What this turn used.
    pub usage: Option<Usage>,
    /// The end, once the engine told it.
    pub end: Option<TurnEnd>,
    /// The last error that was not said to be the end.
    pub last_error: Option<Failure>,
    /// The engine does not know the session: its words.
    pub lost_session: Option<String>,
    /// Tools the engine was not allowed to use.
    pub denials: Vec<Denial>,
    /// The end of standard error.
    pub stderr_tail: String,
    /// Names of output the parser does not know, each once.
    pub unrecognized: Vec<String>,
    handle_kind: &'static str,
    messages: usize,
}

impl TurnReport {
    pub(super) fn new(handle_kind: &'static str, resumed_from: Option<&str>) -> Self {
        Self {
            resumed_from: resumed_from.map(str::to_owned),
            handle: None,
            final_text: None,
            structured: None,
            usage: None,
            end: None,
            last_error: None,
            lost_session: None,
            denials: Vec::new(),
            stderr_tail: String::new(),
            unrecognized: Vec::new(),
            handle_kind,
            messages: 0,
        }
    }

    /// The engine named its session; nothing when it had done so before.
    pub(super) fn bind(&mut self, handle: &str) -> Option<Event> {
        if self.handle.as_deref() == Some(handle) {
            return None;
        }
        if handle.len() > HANDLE_MAX {
            let message = format!("the engine's name for its session has {} bytes, which is no name", handle.len());
            return Some(Event::Warned(Warning::new("SESSION_HANDLE_INVALID", message)));
        }
        self.handle = Some(handle.to_owned());
        if let Some(wanted) = self.resumed_from.as_deref().filter(|wanted| *wanted != handle) {
            // The engine silently began a new session: everything it does now lacks the conversation so far.
            let message = format!("the engine was to go on with session {wanted} and began {handle} instead");
            self.lost_session = Some(message.clone());
            self.end = Some(TurnEnd::Failed(Failure::new(code::SESSION_RESUME_FAILED, &message)));
            return Some(Event::Warned(Warning::new("SESSION_HANDLE_CHANGED", message)));
        }
        Some(Event::SessionBound(SessionBound { handle_kind: self.handle_kind.to_owned(), handle: handle.to_owned() }))
    }

    /// The assistant said something whole, unless it said nothing; an engine without names for messages has them
    /// numbered.
    pub(super) fn said(&mut self, message_id: Option<&str>, text: &str) -> Option<Event> {
        if text.trim().is_empty() {
            return None;
        }
        self.messages += 1;
        // Whatever went wrong before, the model has answered since.
        self.last_error = None;
        self.final_text = Some(text.to_owned());
        let message_id = message_id.map_or_else(|| format!("message-{}", self.messages), str::to_owned);
        Some(Event::AssistantMessage(AssistantMessage { message_id, text: shown(text) }))
    }

    /// The engine reports what it used; reports of one turn add up, and one of nothing says nothing.
    pub(super) fn spent(&mut self, usage: Usage) -> Option<Event> {
        if usage.input_tokens == 0 && usage.output_tokens == 0 {
            return None;
        }
        self.usage = Some(self.usage.map_or(usage, |before| before.plus(usage)));
        Some(Event::UsageReported(usage))
    }

    /// The engine says it finished its turn.
    pub(super) fn succeeded(&mut self) {
        // A turn in the wrong session cannot succeed any more.
        if self.lost_session.is_none() {
            self.end = Some(TurnEnd::Succeeded);
        }
    }

    /// The engine says it gave up.
    pub(super) fn failed(&mut self, failure: Failure) {
        if self.lost_session.is_none() {
            self.end = Some(TurnEnd::Failed(failure));
        }
    }

    /// What the engine said of its end holds no longer.
    pub(super) fn undecided(&mut self) {
        if self.lost_session.is_none() {
            self.end = None;
        }
    }

    /// Something went wrong that the engine means to overcome.
    pub(super) fn retrying(&mut self, http_status: Option<u16>, message: &str) -> Event {
        self.last_error = Some(Failure::classify(http_status, message));
        warned("ENGINE_RETRYING", message, WarningLevel::Info)
    }

    /// A line is of a kind that has no meaning yet.
    pub(super) fn does_not_know(&mut self, name: String) {
        if self.unrecognized.len() < NAMES_MAX && !self.unrecognized.contains(&name) {
            self.unrecognized.push(name);
        }
    }

    pub(super) fn wrote_stderr(&mut self, line: &str) {
        self.stderr_tail.push_str(line);
        self.stderr_tail.push('\n');
        let excess = self.stderr_tail.chars().count().saturating_sub(STDERR_KEPT);
        if excess > 0 {
            self.stderr_tail = self.stderr_tail.chars().skip(excess).collect();
        }
    }
}

/// A text as an event shows it; the stream's file has it whole, and the verdict is about the whole.
pub(super) fn shown(text: &str) -> String {
    if text.len() <= TEXT_MAX {
        return text.to_owned();
    }
    let end = (0..=TEXT_MAX).rev().find(|end| text.is_char_boundary(*end)).unwrap_or_default();
    format!("{}…", &text[..end])
}

/// What was used since `before`, for engines that report the sum over a whole session.
pub(super) fn since(before: Usage, total: Usage) -> Usage {
    Usage {
        input_tokens: total.input_tokens.saturating_sub(before.input_tokens),
        cached_input_tokens: total.cached_input_tokens.saturating_sub(before.cached_input_tokens),
        output_tokens: total.output_tokens.saturating_sub(before.output_tokens),
        cost_usd: total.cost_usd.map(|cost| (cost - before.cost_usd.unwrap_or(0.0)).max(0.0)),
    }
}

/// The engine reports an error that need not be its end.
pub(super) fn engine_error(message: &str) -> Event {
    warned("ENGINE_ERROR", message, WarningLevel::Warning)
}

/// The engine remarks on something.
pub(super) fn remark(message: &str) -> Event {
    warned("ENGINE_REMARK", message, WarningLevel::Info)
}

fn warned(code: &str, message: &str, level: WarningLevel) -> Event {
    Event::Warned(Warning {
        code: code.to_owned(),
        message: super::excerpt::text(message),
        level,
        normalization_level: None,
        details: Map::new(),
    })
}
