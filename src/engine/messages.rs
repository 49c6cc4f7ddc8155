//! The message format that claude and qwen share: `system`, `assistant`, `user` and `result` lines.

use serde_json::{Map, Value};

use super::calls::{Call, Calls};
use super::excerpt;
use super::failure::Failure;
use super::parser::{Dialect, Line, Progress, command, count, object, text, tool_call};
use super::report::{Denial, TurnReport, remark, shown, since};
use crate::domain::event::{AssistantReasoning, Event};
use crate::domain::outcome::Usage;

/// Kinds of lines without a meaning for clients.
const QUIET: [&str; 3] = ["stream_event", "rate_limit_event", "tool_progress"];

/// Most blocks in one message: each becomes an event, and all of them are made at once.
const BLOCKS_MAX: usize = 4096;
/// How many denials of one turn are told.
const DENIALS_MAX: usize = 100;

/// The differences between the engines.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Idiom {
    /// The tool that runs commands.
    pub(crate) shell: &'static str,
    /// The member of `result` that holds structured output.
    pub(crate) structured: &'static str,
    /// What it says of a turn that it calls failed because its model did not use the tool for structured output.
    pub(crate) in_plain_text: Option<&'static str>,
    /// Whether tokens are counted over the whole session; the cost always is.
    pub(crate) tokens_of_session: bool,
}

/// The dialect, and what the session has used before this turn.
pub(crate) fn dialect(idiom: Idiom, usage_before: Usage) -> Box<dyn Dialect> {
    let usage_before = match idiom.tokens_of_session {
        true => usage_before,
        false => Usage { cost_usd: usage_before.cost_usd, ..Usage::default() },
    };
    Box::new(Messages { idiom, usage_before, calls: Calls::default(), unanswered: false })
}

struct Messages {
    idiom: Idiom,
    usage_before: Usage,
    calls: Calls,
    /// Whether the last thing was a text of the request under way, which a retry takes back.
    unanswered: bool,
}

impl Dialect for Messages {
    fn stdout(&mut self, line: &str, turn: &mut TurnReport) -> Line {
        let event = match object(line) {
            Ok(event) => event,
            Err(unreadable) => return unreadable,
        };
        let read = match text(&event, "type") {
            "system" => self.system(&event, turn),
            "assistant" => self.assistant(&event, turn),
            "user" => self.user(&event),
            "result" => self.result(&event, turn),
            quiet if QUIET.contains(&quiet) => Some(Line::Quiet),
            _ => None,
        };
        read.unwrap_or_else(|| Line::Unknown(name(&event)))
    }
}

fn name(event: &Map<String, Value>) -> String {
    match text(event, "subtype") {
        "" => text(event, "type").to_owned(),
        subtype => format!("{}/{subtype}", text(event, "type")),
    }
}

fn status(event: &Map<String, Value>, key: &str) -> Option<u16> {
    event.get(key).and_then(Value::as_u64).and_then(|status| u16::try_from(status).ok())
}

fn count_of(event: &Map<String, Value>, key: &str) -> u64 {
    event.get(key).and_then(Value::as_u64).unwrap_or_default()
}

impl Messages {
    fn system(&mut self, event: &Map<String, Value>, turn: &mut TurnReport) -> Option<Line> {
        let says = match text(event, "subtype") {
            "init" => turn.bind(event.get("session_id")?.as_str()?),
            "api_retry" => {
                let attempt = format!("retry {} of {}", count_of(event, "attempt"), count_of(event, "max_retries"));
                let status = status(event, "error_status");
                let shown = status.map_or_else(String::new, |status| format!(" (status {status})"));
                let message = format!("{}{shown}, {attempt}", text(event, "error"));
                Some(turn.retrying_in(status, &message, count_of(event, "retry_delay_ms").div_ceil(1000)))
            }
            // The request is sent again, and what was said of its answer so far may not count.
            "retry" => {
                let kept = event.get("data").and_then(|data| data.get("preserveText")) == Some(&Value::Bool(true));
                if std::mem::take(&mut self.unanswered) && !kept {
                    turn.take_back();
                }
                Some(turn.retrying(None, "the request to the model is sent again"))
            }
            "permission_denied" => Some(remark(&format!("not allowed to use {}", text(event, "tool_name")))),
            _ => return None,
        };
        Some(Line::Says(says.into_iter().collect()))
    }

    fn assistant(&mut self, event: &Map<String, Value>, turn: &mut TurnReport) -> Option<Line> {
        let message = event.get("message")?.as_object()?;
        let blocks = message.get("content")?.as_array()?;
        if blocks.len() > BLOCKS_MAX {
            return Some(too_many_blocks());
        }
        let mut events = Vec::new();
        for block in blocks {
            let block = block.as_object()?;
            match text(block, "type") {
                "text" => {
                    self.unanswered = true;
                    events.extend(said(event, message, block.get("text")?.as_str()?, turn));
                }
                "thinking" => {
                    let text = shown(block.get("thinking")?.as_str()?);
                    events.push(Event::AssistantReasoning(AssistantReasoning { text }));
                }
                "tool_use" => events.push(self.called(block)?),
                "redacted_thinking" => {}
                _ => return None,
            }
        }
        Some(Line::Says(events))
    }

    fn called(&mut self, block: &Map<String, Value>) -> Option<Event> {
        self.unanswered = false;
        let id = block.get("id")?.as_str()?;
        let tool = block.get("name")?.as_str()?;
        let input = block.get("input").cloned().unwrap_or_default();
        let started = self.call(id, tool, &input, None, "", Progress::Started);
        self.calls.begin(id, Call { tool: tool.to_owned(), input });
        Some(started)
    }

    fn user(&mut self, event: &Map<String, Value>) -> Option<Line> {
        let content = event.get("message")?.get("content")?;
        // What the engine itself tells the model is text without blocks, or a text block.
        let Value::Array(blocks) = content else { return Some(Line::Quiet) };
        if blocks.len() > BLOCKS_MAX {
            return Some(too_many_blocks());
        }
        let mut events = Vec::new();
        for block in blocks.iter().filter_map(Value::as_object).filter(|block| text(block, "type") == "tool_result") {
            let id = block.get("tool_use_id")?.as_str()?;
            let Call { tool, input } = self.calls.end(id);
            let output = block.get("content").map(flat).unwrap_or_default();
            let failed = block.get("is_error") == Some(&Value::Bool(true));
            let exit_code = if failed { exit_code(&output) } else { None };
            events.push(self.call(id, &tool, &input, exit_code, &output, Progress::ended(!failed)));
        }
        Some(Line::Says(events))
    }

    fn call(
        &self,
        id: &str,
        tool: &str,
        input: &Value,
        exit_code: Option<i64>,
        output: &str,
        progress: Progress,
    ) -> Event {
        match input.get("command").and_then(Value::as_str) {
            Some(line) if tool == self.idiom.shell => command(line, exit_code, output, progress),
            _ => tool_call(id, tool, input, output, progress),
        }
    }

    fn result(&self, event: &Map<String, Value>, turn: &mut TurnReport) -> Option<Line> {
        // `subtype` says "success" even of a request the service refused: only this member can be trusted.
        let failed = event.get("is_error")?.as_bool()?;
        let mut events = Vec::new();
        let reason = reason(event);
        if failed && self.idiom.in_plain_text.is_some_and(|words| reason.starts_with(words)) {
            events.push(remark(&reason));
            turn.answered_in_plain_text();
        } else if failed {
            let failure = Failure::classify(status(event, "api_error_status"), &reason);
            events.extend(turn.engine_error(&failure.message));
            turn.failed(failure);
        } else {
            if let Some(last_words) = event.get("result").and_then(Value::as_str) {
                turn.answered(last_words.to_owned());
            }
            turn.structured = event.get(self.idiom.structured).filter(|value| !value.is_null()).cloned();
            turn.succeeded();
        }
        turn.denials = denials(event);
        if let Some(usage) = event.get("usage") {
            let total = usage_of(usage, event.get("total_cost_usd").and_then(Value::as_f64));
            events.extend(turn.spent(since(self.usage_before, total)));
        }
        Some(Line::Says(events))
    }
}

fn too_many_blocks() -> Line {
    Line::Unknown("(too many blocks)".to_owned())
}

/// A text of the assistant, unless it is the engine's own report of an error or part of a sub-agent's work.
fn said(event: &Map<String, Value>, message: &Map<String, Value>, text: &str, turn: &mut TurnReport) -> Option<Event> {
    let of_engine = event.get("is_api_error_message") == Some(&Value::Bool(true)) || text.starts_with("[API Error: ");
    let of_sub_agent = event.get("parent_tool_use_id").is_some_and(|parent| !parent.is_null());
    if of_sub_agent {
        return None;
    }
    if of_engine {
        turn.last_error = Some(Failure::classify(None, text));
        return turn.engine_error(text);
    }
    turn.said(message.get("id").and_then(Value::as_str), text)
}

/// A tool's answer as text: itself, or the text blocks of a list.
fn flat(content: &Value) -> String {
    match content {
        Value::String(text) => text.clone(),
        Value::Array(blocks) => {
            let texts = blocks.iter().map(|block| match block.get("text").and_then(Value::as_str) {
                Some(text) => text.to_owned(),
                None => format!("[{}]", block.get("type").and_then(Value::as_str).unwrap_or("block")),
            });
            texts.collect::<Vec<_>>().join("\n")
        }
        other => other.to_string(),
    }
}

/// A failed command's answer begins with its exit code.
fn exit_code(output: &str) -> Option<i64> {
    output.strip_prefix("Exit code ")?.split_whitespace().next()?.parse().ok()
}

fn reason(event: &Map<String, Value>) -> String {
    let errors = event.get("errors").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    let errors: Vec<&str> = errors.iter().filter_map(Value::as_str).collect();
    let interrupted = text(event, "terminal_reason");
    if interrupted.starts_with("aborted") {
        return format!("it was interrupted ({interrupted})");
    }
    let said = [
        event.get("error").and_then(|error| error.get("message")).and_then(Value::as_str),
        event.get("result").and_then(Value::as_str),
    ];
    match said.into_iter().flatten().find(|said| !said.is_empty()) {
        Some(said) => said.to_owned(),
        None if errors.is_empty() => format!("it ended with {}", name(event)),
        None => errors.join("; "),
    }
}

fn denials(event: &Map<String, Value>) -> Vec<Denial> {
    let listed = event.get("permission_denials").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    let listed = listed.iter().filter_map(Value::as_object);
    let denial = |denied: &Map<String, Value>| Denial {
        tool: excerpt::name(text(denied, "tool_name")),
        call_id: excerpt::name(text(denied, "tool_use_id")),
    };
    listed.take(DENIALS_MAX).map(denial).collect()
}

/// Input tokens read from and written to the cache are reported apart; they count as input.
fn usage_of(usage: &Value, cost_usd: Option<f64>) -> Usage {
    let cached = count(usage, "/cache_read_input_tokens");
    Usage {
        input_tokens: count(usage, "/input_tokens")
            .saturating_add(cached)
            .saturating_add(count(usage, "/cache_creation_input_tokens")),
        cached_input_tokens: cached,
        output_tokens: count(usage, "/output_tokens"),
        cost_usd,
    }
}
