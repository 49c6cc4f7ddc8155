//! The lines of `opencode run --format json`.

use serde_json::{Map, Value};

use crate::domain::codes::ErrorCode;
use crate::domain::event::{AssistantReasoning, Event};
use crate::domain::outcome::Usage;
use crate::engine::failure::Failure;
use crate::engine::parser::{Dialect, Line, Progress, command, count, object, text, tool_call};
use crate::engine::report::{TurnReport, shown};

/// After so many steps in a row without a reason for their end the turn has failed: opencode itself would never stop.
const BROKEN_STEPS_MAX: usize = 10;

pub(crate) fn dialect(_: Usage) -> Box<dyn Dialect> {
    Box::new(OpenCode::default())
}

#[derive(Default)]
struct OpenCode {
    broken_steps: usize,
}

impl Dialect for OpenCode {
    fn stdout(&mut self, line: &str, turn: &mut TurnReport) -> Line {
        let event = match object(line) {
            Ok(event) => event,
            Err(unreadable) => return unreadable,
        };
        let bound = event.get("sessionID").and_then(Value::as_str).and_then(|handle| turn.bind(handle));
        let line = self.event(&event, turn).unwrap_or_else(|| Line::Unknown(text(&event, "type").to_owned()));
        match bound {
            Some(bound) => first(bound, line, turn),
            None => line,
        }
    }
}

/// The first line also names the session, whatever its own meaning is.
fn first(bound: Event, line: Line, turn: &mut TurnReport) -> Line {
    let mut events = vec![bound];
    match line {
        Line::Says(more) => events.extend(more),
        Line::Unknown(name) => turn.does_not_know(name),
        Line::Quiet | Line::Part | Line::Whole(..) => {}
    }
    Line::Says(events)
}

impl OpenCode {
    fn event(&mut self, event: &Map<String, Value>, turn: &mut TurnReport) -> Option<Line> {
        let part = || event.get("part").and_then(Value::as_object);
        let says = match text(event, "type") {
            "step_start" => {
                turn.goes_on();
                return Some(Line::Quiet);
            }
            "text" => return said(part()?, turn),
            "reasoning" => {
                Event::AssistantReasoning(AssistantReasoning { text: shown(part()?.get("text")?.as_str()?) })
            }
            "tool_use" => tool(part()?)?,
            "step_finish" => return self.step_finish(part()?, turn),
            "error" => return Some(Line::Says(error(event.get("error")?, turn).into_iter().collect())),
            _ => return None,
        };
        Some(Line::Says(vec![says]))
    }

    fn step_finish(&mut self, part: &Map<String, Value>, turn: &mut TurnReport) -> Option<Line> {
        match part.get("reason")?.as_str()? {
            "unknown" => self.broken_steps += 1,
            "stop" => turn.succeeded(),
            // Tool calls, and any other reason to continue.
            _ => self.broken_steps = 0,
        }
        if self.broken_steps >= BROKEN_STEPS_MAX {
            let message = format!("the model's answers broke off {BROKEN_STEPS_MAX} times in a row");
            turn.failed(Failure::new(ErrorCode::EngineFailed, &message));
        }
        Some(Line::Says(turn.spent(usage(part)).into_iter().collect()))
    }
}

/// What is said in a step is one text.
fn said(part: &Map<String, Value>, turn: &mut TurnReport) -> Option<Line> {
    let event = turn.says_on(part.get("id").and_then(Value::as_str), part.get("text")?.as_str()?);
    Some(Line::Says(event.into_iter().collect()))
}

/// OpenCode reports input tokens read from and written to the cache apart; they count as input.
fn usage(part: &Map<String, Value>) -> Usage {
    let tokens = part.get("tokens").unwrap_or(&Value::Null);
    let cached = count(tokens, "/cache/read");
    let input = count(tokens, "/input").saturating_add(cached).saturating_add(count(tokens, "/cache/write"));
    let output = count(tokens, "/output").saturating_add(count(tokens, "/reasoning"));
    Usage {
        input_tokens: input,
        cached_input_tokens: cached,
        output_tokens: output,
        // A price it does not know is reported as 0.
        cost_usd: part.get("cost").and_then(Value::as_f64).filter(|cost| *cost > 0.0),
    }
}

fn tool(part: &Map<String, Value>) -> Option<Event> {
    let state = part.get("state")?;
    let tool = part.get("tool")?.as_str()?;
    let input = state.get("input").unwrap_or(&Value::Null);
    let exit_code = state.pointer("/metadata/exit").and_then(Value::as_i64);
    let output = state.get("output").or_else(|| state.get("error")).and_then(Value::as_str).unwrap_or_default();
    let completed = state.get("status")?.as_str()? == "completed";
    let progress = Progress::ended(completed && exit_code.unwrap_or(0) == 0);
    match (tool, input.get("command").and_then(Value::as_str)) {
        ("bash", Some(line)) => Some(command(line, exit_code, output, progress)),
        _ => Some(tool_call(text(part, "callID"), tool, input, output, progress)),
    }
}

/// An error is the end only if nothing follows it: opencode recovers from some.
fn error(error: &Value, turn: &mut TurnReport) -> Option<Event> {
    let data = error.get("data").unwrap_or(&Value::Null);
    let status = data.get("statusCode").and_then(Value::as_u64).and_then(|status| u16::try_from(status).ok());
    let name = error.get("name").and_then(Value::as_str).unwrap_or("error");
    let message = data.get("message").and_then(Value::as_str).unwrap_or(name);
    turn.last_error = Some(Failure::classify(status, message));
    turn.undecided();
    turn.engine_error(message)
}
