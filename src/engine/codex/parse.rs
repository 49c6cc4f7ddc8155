//! The lines of `codex exec --json`.

use serde_json::{Map, Value};

use crate::domain::event::{AssistantReasoning, Event};
use crate::domain::outcome::Usage;
use crate::engine::failure::Failure;
use crate::engine::parser::{Dialect, Line, Progress, command, count, object, text, tool_call};
use crate::engine::report::{TurnReport, remark, shown, since};

pub(crate) fn dialect(usage_before: Usage) -> Box<dyn Dialect> {
    Box::new(Codex { usage_before })
}

struct Codex {
    /// Codex counts the whole thread; the turn is the difference.
    usage_before: Usage,
}

impl Dialect for Codex {
    fn stdout(&mut self, line: &str, turn: &mut TurnReport) -> Line {
        let event = match object(line) {
            Ok(event) => event,
            Err(unreadable) => return unreadable,
        };
        let kind = text(&event, "type");
        let read = match kind {
            "thread.started" => event.get("thread_id").and_then(Value::as_str).map(|id| says(turn.bind(id))),
            "turn.started" | "item.updated" => Some(Line::Quiet),
            "item.started" => event.get("item").and_then(Value::as_object).and_then(started),
            "item.completed" => event.get("item").and_then(Value::as_object).and_then(|item| completed(item, turn)),
            "error" => event.get("message").and_then(Value::as_str).map(|message| error(message, turn)),
            "turn.completed" => Some(self.turn_completed(event.get("usage"), turn)),
            "turn.failed" => {
                let message = event.get("error").and_then(|error| error.get("message")).and_then(Value::as_str);
                message.map(|message| {
                    turn.failed(Failure::classify(None, message));
                    says(turn.engine_error(message))
                })
            }
            _ => None,
        };
        read.unwrap_or_else(|| Line::Unknown(name(&event)))
    }

    fn stderr(&mut self, line: &str, turn: &mut TurnReport) -> Line {
        // Standard output says that it tries again, and only this how long it waits before.
        if let Some((seconds, message)) = waits(line) {
            turn.retrying_in(None, message, seconds);
        }
        Line::Quiet
    }
}

/// How many seconds codex waits before it sends a request again, and why, from a line such as
/// `… retrying sampling request (1/1 in 3599.9s)... … sampling_error=…`.
fn waits(line: &str) -> Option<(u64, &str)> {
    let (_, rest) = line.split_once("retrying sampling request (")?;
    let (counted, rest) = rest.split_once(')')?;
    let (_, time) = counted.split_once(" in ")?;
    let seconds: f64 = time.strip_suffix('s')?.parse().ok()?;
    let message = rest.split_once("sampling_error=").map_or(rest, |(_, message)| message);
    Some((seconds.ceil() as u64, message))
}

impl Codex {
    fn turn_completed(&self, usage: Option<&Value>, turn: &mut TurnReport) -> Line {
        turn.succeeded();
        let Some(usage) = usage else { return Line::Quiet };
        let total = Usage {
            input_tokens: count(usage, "/input_tokens"),
            cached_input_tokens: count(usage, "/cached_input_tokens"),
            output_tokens: count(usage, "/output_tokens"),
            cost_usd: None,
        };
        says(turn.spent(since(self.usage_before, total)))
    }
}

fn says(event: Option<Event>) -> Line {
    Line::Says(event.into_iter().collect())
}

/// `item.completed/agent_message`, or the type alone.
fn name(event: &Map<String, Value>) -> String {
    match event.get("item").and_then(|item| item.get("type")).and_then(Value::as_str) {
        Some(item) => format!("{}/{item}", text(event, "type")),
        None => text(event, "type").to_owned(),
    }
}

fn error(message: &str, turn: &mut TurnReport) -> Line {
    if message.starts_with("Reconnecting...") {
        return Line::Says(vec![turn.retrying(None, message)]);
    }
    turn.last_error = Some(Failure::classify(None, message));
    says(turn.engine_error(message))
}

fn started(item: &Map<String, Value>) -> Option<Line> {
    match text(item, "type") {
        "command_execution" => {
            let line = item.get("command")?.as_str()?;
            Some(Line::Says(vec![command(line, None, "", Progress::Started)]))
        }
        "file_change" | "mcp_tool_call" | "web_search" => Some(Line::Says(vec![tool(item, Progress::Started)])),
        "agent_message" | "reasoning" | "todo_list" => Some(Line::Quiet),
        _ => None,
    }
}

fn completed(item: &Map<String, Value>, turn: &mut TurnReport) -> Option<Line> {
    let said = || item.get("text").and_then(Value::as_str);
    let event = match text(item, "type") {
        "agent_message" => return Some(says(turn.said(item.get("id").and_then(Value::as_str), said()?))),
        "reasoning" => Event::AssistantReasoning(AssistantReasoning { text: shown(said()?) }),
        "command_execution" => {
            let exit_code = item.get("exit_code").and_then(Value::as_i64);
            let progress = Progress::ended(text(item, "status") == "completed");
            command(item.get("command")?.as_str()?, exit_code, text(item, "aggregated_output"), progress)
        }
        "file_change" | "mcp_tool_call" | "web_search" => {
            // A search has no status; it is only known to be over.
            let ok = matches!(text(item, "status"), "completed" | "");
            tool(item, Progress::ended(ok))
        }
        // A remark such as missing metadata of a model, not a failure.
        "error" => remark(item.get("message")?.as_str()?),
        "todo_list" => return Some(Line::Quiet),
        _ => return None,
    };
    Some(Line::Says(vec![event]))
}

/// File changes, MCP calls and searches: whatever describes the call is its input.
fn tool(item: &Map<String, Value>, progress: Progress) -> Event {
    let kind = text(item, "type");
    let tool = match kind {
        "mcp_tool_call" => format!("{}.{}", text(item, "server"), text(item, "tool")),
        kind => kind.to_owned(),
    };
    let described = ["changes", "arguments", "query"];
    let input = item.iter().filter(|(key, _)| described.contains(&key.as_str()));
    let input: Map<String, Value> = input.map(|(key, value)| (key.clone(), value.clone())).collect();
    let answered = ["result", "error"].iter().filter_map(|key| item.get(*key)).find(|answer| !answer.is_null());
    let output = answered.map(Value::to_string).unwrap_or_default();
    tool_call(text(item, "id"), &tool, &input.into(), &output, progress)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn how_long_codex_waits_is_read_from_its_log() {
        let line = "2026-11-17T02:34:01Z  WARN codex_core::responses_retry: stream disconnected - retrying sampling request \
            (1/1 in 3599.99s)... turn_id=1 sampling_error=exceeded retry limit, last status: 429 Too Many Requests";
        assert_eq!(waits(line), Some((3600, "exceeded retry limit, last status: 429 Too Many Requests")));
        assert_eq!(waits("retrying sampling request (1/1 in 200ms)..."), None);
        assert_eq!(waits("nothing of the kind"), None);
    }
}
