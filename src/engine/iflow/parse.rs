//! What iflow prints: plain text, and on either stream a block of information about the execution.

use serde_json::Value;

use crate::bounded;
use crate::domain::codes::ErrorCode;
use crate::domain::event::Event;
use crate::domain::outcome::Usage;
use crate::engine::failure::Failure;
use crate::engine::parser::{Dialect, Line, count};
use crate::engine::report::TurnReport;

const OPEN: &str = "<Execution Info>";
const CLOSE: &str = "</Execution Info>";
/// Longest answer and longest block kept.
const KEPT_MAX: usize = 8 * 1024 * 1024;
/// Messages on standard error after which there is no answer, whatever the exit code is.
const FAILED_WORDS: [&str; 2] = ["Error when talking to iFlow API", "generate data error"];

pub(crate) fn dialect(_: Usage) -> Box<dyn Dialect> {
    Box::new(IFlow::default())
}

#[derive(Default)]
struct IFlow {
    answer: String,
    on_stdout: Block,
    on_stderr: Block,
}

impl Dialect for IFlow {
    fn stdout(&mut self, line: &str, turn: &mut TurnReport) -> Line {
        match self.on_stdout.take(line) {
            Taken::Outside => {
                if self.answer.len() + line.len() < KEPT_MAX {
                    self.answer.push_str(line);
                    self.answer.push('\n');
                }
                // The answer is one event at the end; its lines stay raw text.
                Line::Quiet
            }
            taken => information(taken, turn),
        }
    }

    fn stderr(&mut self, line: &str, turn: &mut TurnReport) -> Line {
        if FAILED_WORDS.iter().any(|words| line.contains(words)) {
            turn.last_error = Some(Failure::classify(None, line));
        }
        match self.on_stderr.take(line) {
            Taken::Outside if line.contains("retrying with backoff") => Line::Says(vec![turn.retrying(None, line)]),
            taken => information(taken, turn),
        }
    }

    /// iflow does not report the end: an answer without an error is a success.
    fn finish(&mut self, turn: &mut TurnReport) -> Vec<Event> {
        let answer = self.answer.trim();
        if let Some(error) = turn.last_error.clone() {
            turn.failed(error);
        } else if answer.is_empty() {
            turn.failed(Failure::new(ErrorCode::EngineFailed, "iflow answered nothing"));
        } else {
            turn.succeeded();
        }
        turn.said(None, answer).into_iter().collect()
    }
}

fn information(taken: Taken, turn: &mut TurnReport) -> Line {
    match taken {
        Taken::Outside | Taken::Inside => Line::Quiet,
        Taken::Whole(block) => match bounded::json::from_str::<Value>(&block) {
            Ok(information) => Line::Says(read(&information, turn)),
            Err(_) => Line::Unknown("Execution Info".to_owned()),
        },
    }
}

fn read(information: &Value, turn: &mut TurnReport) -> Vec<Event> {
    let handle = information.get("session-id").and_then(Value::as_str);
    let mut events: Vec<Event> = handle.and_then(|handle| turn.bind(handle)).into_iter().collect();
    if let Some(usage) = information.get("tokenUsage") {
        events.extend(turn.spent(Usage {
            input_tokens: count(usage, "/input"),
            cached_input_tokens: 0,
            output_tokens: count(usage, "/output"),
            cost_usd: None,
        }));
    }
    events
}

/// Finds the information block in a stream of lines.
#[derive(Default)]
struct Block {
    open: bool,
    text: String,
}

enum Taken {
    Outside,
    Inside,
    Whole(String),
}

impl Block {
    fn take(&mut self, line: &str) -> Taken {
        let inside = match (self.open, line.split_once(OPEN)) {
            (false, None) => return Taken::Outside,
            (false, Some((_, after))) => after,
            (true, _) => line,
        };
        self.open = true;
        let (inside, closed) = inside.split_once(CLOSE).map_or((inside, false), |(before, _)| (before, true));
        if self.text.len() + inside.len() < KEPT_MAX {
            self.text.push_str(inside);
            self.text.push('\n');
        }
        if !closed {
            return Taken::Inside;
        }
        self.open = false;
        Taken::Whole(std::mem::take(&mut self.text))
    }
}

#[cfg(test)]
mod tests {
    use super::super::ADAPTER;
    use super::*;
    use crate::domain::event::{AssistantMessage, SessionBound};
    use crate::domain::fact::Stream;
    use crate::domain::outcome::RunError;
    use crate::engine::{EngineAnswer, LineParser, ProcessExit, Reading, WayOut, answer};

    const BLOCK: [&str; 3] = [
        "<Execution Info>",
        r#"{"session-id":"session-9353ed2b","tokenUsage":{"input":7,"output":3}}"#,
        "</Execution Info>",
    ];

    fn read(stdout: &[&str], stderr: &[&str]) -> (Vec<Event>, Result<EngineAnswer, RunError>) {
        let mut parser = ADAPTER.parser(None, Usage::default());
        let mut events = Vec::new();
        for (stream, lines) in [(Stream::Stdout, stdout), (Stream::Stderr, stderr)] {
            for line in lines {
                if let Reading::Events(read) = parser.read(stream, line) {
                    events.extend(read);
                }
            }
        }
        events.extend(parser.finish());
        (events, answer(&ADAPTER, parser.report(), ProcessExit::Code(0), &WayOut::default()))
    }

    #[test]
    fn the_session_and_the_answer_are_found_on_whichever_stream_the_block_is() {
        let handle = SessionBound { handle_kind: "session_id".into(), handle: "session-9353ed2b".into() };
        let usage = Usage { input_tokens: 7, output_tokens: 3, ..Usage::default() };
        let message = AssistantMessage { message_id: "message-1".into(), text: "Hello\nthere".into() };
        let expected = vec![Event::SessionBound(handle), Event::UsageReported(usage), Event::AssistantMessage(message)];
        let succeeded = Ok(EngineAnswer { text: "Hello\nthere".into(), structured: None });
        let answer = ["Hello", "there"];
        assert_eq!(read(&answer, &BLOCK), (expected.clone(), succeeded.clone()));
        assert_eq!(read(&[&answer[..], &BLOCK].concat(), &[]), (expected, succeeded));
    }

    #[test]
    fn an_exit_without_an_answer_or_with_a_complaint_of_its_service_is_a_failure() {
        for (stdout, stderr) in [(&[][..], &[][..]), (&["Hm"], &["Error when talking to iFlow API: fetch failed"])] {
            assert!(read(stdout, stderr).1.is_err(), "{stdout:?}");
        }
    }
}
