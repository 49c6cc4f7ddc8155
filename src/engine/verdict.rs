//! The truth about a turn's success: the engine's word and its exit, never the exit alone.

use serde_json::{Value, json};

use super::adapter::Adapter;
use super::failure::Failure;
use super::report::{TurnEnd, TurnReport};
use crate::domain::outcome::{RunError, code};

/// How an engine's process ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exit {
    /// With this code.
    Code(i32),
    /// By this signal.
    Signal(i32),
    /// It had ended its turn, tidied up for too long, and was stopped by the runner.
    Dismissed,
    /// In a way that cannot be told.
    Unknown,
}

/// The verdict on a turn.
#[derive(Debug, Clone, PartialEq)]
pub enum EngineVerdict {
    /// The engine finished its turn; whether what it said is good output is another question.
    Succeeded {
        /// The assistant's last words.
        text: String,
        /// The engine's own structured output.
        structured: Option<Value>,
    },
    /// It did not.
    Failed(RunError),
}

/// Weigh what a turn has shown and how its process ended.
pub fn verdict(adapter: &Adapter, report: &TurnReport, exit: Exit) -> EngineVerdict {
    let failure = match (&report.end, exit) {
        (Some(TurnEnd::Succeeded), Exit::Code(0) | Exit::Dismissed) => {
            let text = report.final_text.clone().unwrap_or_default();
            return EngineVerdict::Succeeded { text, structured: report.structured.clone() };
        }
        (Some(TurnEnd::Failed(failure)), _) => failure.clone(),
        (Some(TurnEnd::Succeeded), Exit::Code(_) | Exit::Signal(_) | Exit::Unknown) => {
            let message = format!("{} said that it finished, but {}", adapter.name, described(exit));
            Failure::new(code::ENGINE_FAILED, &message)
        }
        (None, _) => unfinished(adapter, report, exit),
    };
    // A session that is gone explains whatever else the engine made of it.
    let failure = match lost_session(adapter, report) {
        Some(words) => Failure::new(code::SESSION_RESUME_FAILED, &format!("the session could not be resumed: {words}")),
        None => failure,
    };
    let status = match exit {
        Exit::Code(code) => (adapter.exit_status)(code),
        Exit::Signal(_) | Exit::Dismissed | Exit::Unknown => None,
    };
    let exit_code = match exit {
        Exit::Code(code) => json!(code),
        Exit::Signal(_) | Exit::Dismissed | Exit::Unknown => Value::Null,
    };
    let error = failure.with_status(status).into_error();
    EngineVerdict::Failed(error.with("exit_code", exit_code).with("stderr", report.stderr_tail.trim_end()))
}

/// The engine's words about a session it does not know, on standard error or as its end.
fn lost_session(adapter: &Adapter, report: &TurnReport) -> Option<String> {
    report.resumed_from.as_ref()?;
    let told = report.lost_session.clone();
    told.or_else(|| match &report.end {
        Some(TurnEnd::Failed(failure)) => {
            let known = adapter.lost_session_words.iter().any(|words| failure.message.contains(words));
            known.then(|| failure.message.clone())
        }
        Some(TurnEnd::Succeeded) | None => None,
    })
}

/// No word of an end is a failure, even with exit code 0.
fn unfinished(adapter: &Adapter, report: &TurnReport, exit: Exit) -> Failure {
    let how = format!("{} did not finish its turn: {}", adapter.name, described(exit));
    match &report.last_error {
        Some(error) => Failure { message: format!("{how}; its last error was: {}", error.message), ..error.clone() },
        None => {
            let message = match (exit, complaint(&report.stderr_tail)) {
                (Exit::Code(code), Some(line)) if code != 0 => format!("{how}; on standard error it said: {line}"),
                _ => how,
            };
            // Standard error is full of harmless remarks: it may tell the kind of a failure, not that there is one.
            Failure { message, ..Failure::classify(None, &report.stderr_tail) }
        }
    }
}

/// The last line that speaks of an error, else the last line.
fn complaint(stderr: &str) -> Option<&str> {
    let mut lines = stderr.lines().rev().map(str::trim).filter(|line| !line.is_empty());
    let last = lines.clone().next();
    lines.find(|line| line.to_lowercase().contains("error")).or(last)
}

fn described(exit: Exit) -> String {
    match exit {
        Exit::Code(code) => format!("it exited with status {code}"),
        Exit::Signal(signal) => format!("it was ended by signal {signal}"),
        Exit::Dismissed => "it was stopped".to_owned(),
        Exit::Unknown => "it ended in a way that cannot be told".to_owned(),
    }
}
