//! The lines of `gemini --output-format stream-json`.

use serde_json::{Map, Value};

use crate::domain::event::Event;
use crate::domain::outcome::Usage;
use crate::engine::calls::{Call, Calls};
use crate::engine::failure::Failure;
use crate::engine::parser::{Dialect, Line, Progress, command, count, object, text, tool_call};
use crate::engine::report::{TurnReport, remark};

/// Longest message joined from parts; what is longer stays in the raw text.
const MESSAGE_MAX: usize = 8 * 1024 * 1024;

pub(crate) fn dialect(_: Usage) -> Box<dyn Dialect> {
    Box::new(Gemini::default())
}

#[derive(Default)]
struct Gemini {
    /// The message under way.
    message: String,
    calls: Calls,
    /// The error with which the answer under way broke off.
    broken: Option<String>,
}

impl Dialect for Gemini {
    fn stdout(&mut self, line: &str, turn: &mut TurnReport) -> Line {
        let event = match object(line) {
            Ok(event) => event,
            // The message stays open: the next part continues it.
            Err(unreadable) => return unreadable,
        };
        if let Some(part) = part(&event) {
            self.broken = None;
            if self.message.len() + part.len() <= MESSAGE_MAX {
                self.message.push_str(part);
            }
            return Line::Part;
        }
        let unknown = || Line::Unknown(text(&event, "type").to_owned());
        // The message ends before the line after it is read: only a message after the last call is the final text.
        let whole = self.whole(turn);
        let line = self.event(&event, turn).unwrap_or_else(unknown);
        match whole {
            Some(message) => Line::Whole(Box::new(message), Box::new(line)),
            None => line,
        }
    }

    fn stderr(&mut self, line: &str, turn: &mut TurnReport) -> Line {
        let retry = line.starts_with("Attempt ") && line.contains("Retrying with backoff");
        if retry { Line::Says(vec![turn.retrying(None, line)]) } else { Line::Quiet }
    }
}

/// The text of a message's part.
fn part(event: &Map<String, Value>) -> Option<&str> {
    let is_part = text(event, "type") == "message"
        && text(event, "role") == "assistant"
        && event.get("delta") == Some(&Value::Bool(true));
    if is_part { event.get("content")?.as_str() } else { None }
}

impl Gemini {
    fn whole(&mut self, turn: &mut TurnReport) -> Option<Event> {
        let message = std::mem::take(&mut self.message);
        turn.said(None, &message)
    }

    fn event(&mut self, event: &Map<String, Value>, turn: &mut TurnReport) -> Option<Line> {
        let says = match text(event, "type") {
            "init" => turn.bind(event.get("session_id")?.as_str()?),
            "message" => match text(event, "role") {
                "assistant" => turn.said(None, event.get("content")?.as_str()?),
                "user" => None,
                _ => return None,
            },
            "tool_use" => Some(self.called(event, turn)?),
            "tool_result" => Some(self.answered(event)?),
            "error" => {
                let message = event.get("message")?.as_str()?;
                if text(event, "severity") == "error" {
                    self.broken = Some(message.to_owned());
                    turn.engine_error(message)
                } else {
                    Some(remark(message))
                }
            }
            "result" => return self.result(event, turn),
            _ => return None,
        };
        Some(Line::Says(says.into_iter().collect()))
    }

    fn called(&mut self, event: &Map<String, Value>, turn: &mut TurnReport) -> Option<Event> {
        let id = event.get("tool_id")?.as_str()?;
        let tool = event.get("tool_name")?.as_str()?;
        let parameters = event.get("parameters").cloned().unwrap_or_default();
        turn.goes_on();
        let started = call(id, tool, &parameters, "", Progress::Started);
        self.calls.begin(id, Call { tool: tool.to_owned(), input: parameters });
        Some(started)
    }

    fn answered(&mut self, event: &Map<String, Value>) -> Option<Event> {
        let id = event.get("tool_id")?.as_str()?;
        let Call { tool, input: parameters } = self.calls.end(id);
        let failure = event.get("error").and_then(|error| error.get("message")).and_then(Value::as_str);
        let output = failure.unwrap_or_else(|| text(event, "output"));
        Some(call(id, &tool, &parameters, output, Progress::ended(text(event, "status") == "success")))
    }

    fn result(&mut self, event: &Map<String, Value>, turn: &mut TurnReport) -> Option<Line> {
        let mut events = Vec::new();
        let broken = self.broken.take();
        match (text(event, "status"), &broken) {
            ("success", None) => turn.succeeded(),
            // An answer that broke off is no answer, whatever the status says.
            ("success" | "error", broken) => {
                let message = event.get("error").and_then(|error| error.get("message")).and_then(Value::as_str);
                let message = message.or(broken.as_deref()).unwrap_or("gemini failed without a reason");
                events.extend(turn.engine_error(message));
                turn.failed(Failure::classify(None, message));
            }
            _ => return None,
        }
        if let Some(stats) = event.get("stats") {
            events.extend(turn.spent(Usage {
                input_tokens: count(stats, "/input_tokens"),
                cached_input_tokens: count(stats, "/cached"),
                output_tokens: count(stats, "/output_tokens"),
                cost_usd: None,
            }));
        }
        Some(Line::Says(events))
    }
}

/// Gemini does not tell a command's exit code.
fn call(id: &str, tool: &str, parameters: &Value, output: &str, progress: Progress) -> Event {
    match (tool, parameters.get("command").and_then(Value::as_str)) {
        ("run_shell_command", Some(line)) => command(line, None, output, progress),
        _ => tool_call(id, tool, parameters, output, progress),
    }
}
