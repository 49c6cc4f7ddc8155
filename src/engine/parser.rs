//! Reads the lines of one turn: the engine's dialect interprets a line, the rest is common to all engines.

use serde_json::{Map, Value};

use super::excerpt;
use super::reader::{LineParser, Reading};
use super::report::TurnReport;
use crate::bounded;
use crate::bounded::json::has_at_most;
use crate::domain::codes::WarningCode;
use crate::domain::event::{CommandExecution, Event, ToolCall};
use crate::domain::fact::Stream;
use crate::domain::outcome::Warning;

/// Longest line that is parsed; a longer one is kept as raw text.
pub const LINE_MAX: usize = 8 * 1024 * 1024;

/// What a line of an engine means.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Line {
    /// These events; an empty list is the same as `Quiet`.
    Says(Vec<Event>),
    /// A known line without a meaning for clients; it is kept as raw text.
    Quiet,
    /// A part of a message that a later line ends.
    Part,
    /// The end of the message of the parts before, and the meaning of the line itself.
    Whole(Box<Event>, Box<Line>),
    /// An unknown kind of line, by its name: raw text, and a warning at the end of the turn.
    Unknown(String),
}

/// The format of one engine's output.
pub(crate) trait Dialect: Send {
    /// One line of standard output.
    fn stdout(&mut self, line: &str, turn: &mut TurnReport) -> Line;

    /// One line of standard error. A line without a meaning is `Quiet`, since engines may print anything there.
    fn stderr(&mut self, _line: &str, _turn: &mut TurnReport) -> Line {
        Line::Quiet
    }

    /// Both streams are over.
    fn finish(&mut self, _turn: &mut TurnReport) -> Vec<Event> {
        Vec::new()
    }
}

/// Reads the lines of one turn and keeps its report.
pub struct TurnParser {
    dialect: Box<dyn Dialect>,
    lost_session_words: &'static [&'static str],
    report: TurnReport,
}

impl TurnParser {
    pub(crate) fn new(
        dialect: Box<dyn Dialect>,
        lost_session_words: &'static [&'static str],
        report: TurnReport,
    ) -> Self {
        Self { dialect, lost_session_words, report }
    }

    /// Masks secrets that come in parts.
    pub(crate) fn mask(&mut self, secrets: Vec<String>) {
        self.report.mask(secrets);
    }

    /// What is known about the turn so far.
    pub fn report(&self) -> &TurnReport {
        &self.report
    }

    /// The same parser, for an engine that may wait at most so long for its service.
    #[must_use]
    pub(crate) fn with_longest_wait(mut self, seconds: u64) -> Self {
        self.report.longest_wait = Some(seconds);
        self
    }

    /// The engine has so many seconds left.
    pub(crate) fn has_seconds(&mut self, seconds: u64) {
        self.report.seconds_left = Some(seconds);
    }

    /// Whether the engine reported the end of its turn; what it still does is cleaning up.
    pub(crate) fn ended(&self) -> bool {
        self.report.end.is_some()
    }

    /// The last events, which refer to no bytes. To be called when the process is gone and both streams are read.
    pub fn finish(&mut self) -> Vec<Event> {
        let mut events = self.dialect.finish(&mut self.report);
        if !self.report.denials.is_empty() {
            events.push(Event::Warned(Box::new(denied(&self.report))));
        }
        if !self.report.unrecognized.is_empty() {
            events.push(Event::Warned(Box::new(unrecognized(&self.report.unrecognized))));
        }
        events
    }

    fn read_stderr(&mut self, line: &str) -> Line {
        let plain = without_colours(line);
        self.report.wrote_stderr(&plain);
        let resumed = self.report.resumed_from.is_some();
        if resumed && self.lost_session_words.iter().any(|words| plain.contains(words)) {
            self.report.lost_session.get_or_insert_with(|| plain.trim().to_owned());
        }
        self.dialect.stderr(&plain, &mut self.report)
    }

    /// The events of a line; without any it is kept as raw text.
    fn events(&mut self, line: Line) -> Vec<Event> {
        match line {
            Line::Says(events) => {
                let is_tool = |event: &Event| matches!(event, Event::ToolCall(_) | Event::CommandExecution(_));
                self.report.used_tools |= events.iter().any(is_tool);
                events
            }
            Line::Quiet | Line::Part => Vec::new(),
            Line::Whole(event, rest) => std::iter::once(*event).chain(self.events(*rest)).collect(),
            Line::Unknown(name) => {
                self.report.does_not_know(name);
                Vec::new()
            }
        }
    }
}

impl LineParser for TurnParser {
    fn read(&mut self, stream: Stream, line: &str) -> Reading {
        let read = match stream {
            _ if line.trim().is_empty() => Line::Quiet,
            Stream::Stdout | Stream::Pty => self.dialect.stdout(line, &mut self.report),
            Stream::Stderr => self.read_stderr(line),
        };
        match read {
            Line::Part => Reading::Held,
            Line::Whole(held, line) => Reading::Closed { held, line: self.events(*line) },
            line @ (Line::Says(_) | Line::Quiet | Line::Unknown(_)) => Reading::Events(self.events(line)),
        }
    }

    fn passed_by(&mut self, stream: Stream) {
        match stream {
            Stream::Stdout | Stream::Pty => self.report.does_not_know("(not readable)".to_owned()),
            // Engines may write anything to standard error.
            Stream::Stderr => {}
        }
    }

    fn reads_unfinished_lines(&self) -> bool {
        false
    }
}

fn unrecognized(names: &[String]) -> Warning {
    let message = format!(
        "some output of the engine was not recognized and is kept as raw text: {}; its version may be newer than the parser",
        names.join(", ")
    );
    let mut warning = Warning::new(WarningCode::EngineOutputUnrecognized, message);
    warning.details.insert("types".into(), names.into());
    warning
}

fn denied(report: &TurnReport) -> Warning {
    let mut tools: Vec<&str> = report.denials.iter().map(|denial| denial.tool.as_str()).collect();
    tools.dedup();
    let message = format!("the engine was not allowed to use: {}", tools.join(", "));
    let mut warning = Warning::new(WarningCode::EnginePermissionDenied, message);
    let calls: Vec<&str> = report.denials.iter().map(|denial| denial.call_id.as_str()).collect();
    warning.details.insert("tools".into(), tools.into());
    warning.details.insert("call_ids".into(), calls.into());
    warning
}

/// The line without terminal colour codes.
fn without_colours(line: &str) -> String {
    let mut plain = String::with_capacity(line.len());
    let mut rest = line;
    while let Some(at) = rest.find("\u{1b}[") {
        plain.push_str(&rest[..at]);
        let code = &rest[at + 2..];
        let end = code.find(|c: char| c.is_ascii_alphabetic()).map_or(code.len(), |end| end + 1);
        rest = &code[end..];
    }
    plain + rest
}

/// Most values of JSON in one line: each takes many times its bytes in memory. What engines tell are texts.
const VALUES_MAX: usize = 300_000;

/// A line as a JSON object, else as an unknown line.
pub(crate) fn object(line: &str) -> Result<Map<String, Value>, Line> {
    if !has_at_most(line.as_bytes(), VALUES_MAX) {
        return Err(Line::Unknown("(too many values)".to_owned()));
    }
    match bounded::json::from_str(line) {
        Ok(Value::Object(object)) => Ok(object),
        Ok(_) | Err(_) => Err(Line::Unknown("(not a JSON object)".to_owned())),
    }
}

/// The text of a key; empty when there is none.
pub(crate) fn text<'a>(object: &'a Map<String, Value>, key: &str) -> &'a str {
    object.get(key).and_then(Value::as_str).unwrap_or_default()
}

/// A count at a JSON pointer; 0 when there is none.
pub(crate) fn count(value: &Value, pointer: &str) -> u64 {
    value.pointer(pointer).and_then(Value::as_u64).unwrap_or_default()
}

/// The state of a tool call or command, as events name it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Progress {
    Started,
    Completed,
    Failed,
}

impl Progress {
    pub(crate) fn ended(ok: bool) -> Self {
        if ok { Self::Completed } else { Self::Failed }
    }

    fn as_str(self) -> &'static str {
        match self {
            Self::Started => "started",
            Self::Completed => "completed",
            Self::Failed => "failed",
        }
    }
}

pub(crate) fn tool_call(call_id: &str, tool: &str, input: &Value, output: &str, progress: Progress) -> Event {
    Event::ToolCall(Box::new(ToolCall {
        call_id: excerpt::name(call_id),
        tool: excerpt::name(tool),
        input: excerpt::value(input),
        output: excerpt::text(output),
        status: progress.as_str().to_owned(),
    }))
}

pub(crate) fn command(command: &str, exit_code: Option<i64>, output: &str, progress: Progress) -> Event {
    Event::CommandExecution(CommandExecution {
        command: excerpt::text(command),
        exit_code,
        output: excerpt::text(output),
        status: progress.as_str().to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colour_codes_are_removed_and_nothing_else() {
        assert_eq!(without_colours("\u{1b}[91m\u{1b}[1mError: \u{1b}[0mSession [x]"), "Error: Session [x]");
        assert_eq!(without_colours("cut \u{1b}[3"), "cut ");
    }
}
