//! Whether a turn succeeded: judged by the engine's own report and its exit, never by the exit alone.

use serde_json::{Value, json};

use super::adapter::Adapter;
use super::failure::Failure;
use super::process_exit::ProcessExit;
use super::report::{TurnEnd, TurnReport};
use crate::domain::outcome::{RunError, code};

/// The end of an engine's process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EngineExit {
    /// It ended by itself, or something else ended it.
    Ended(ProcessExit),
    /// It had reported the end of its turn but did not exit in time, and the runner stopped it.
    Dismissed,
}

/// The verdict on a turn.
#[derive(Debug, Clone, PartialEq)]
pub enum EngineVerdict {
    /// The engine finished its turn. Its output is not judged yet.
    Succeeded {
        /// The assistant's last message.
        text: String,
        /// The engine's own structured output.
        structured: Option<Value>,
    },
    /// The engine did not finish its turn.
    Failed(RunError),
}

/// Judges a turn by its report and by the end of its process.
pub fn verdict(adapter: &Adapter, report: &TurnReport, exit: EngineExit) -> EngineVerdict {
    let failure = match (&report.end, exit) {
        (Some(TurnEnd::Succeeded), EngineExit::Ended(ProcessExit::Code(0)) | EngineExit::Dismissed) => {
            let text = report.final_text.clone().unwrap_or_default();
            return EngineVerdict::Succeeded { text, structured: report.structured.clone() };
        }
        (Some(TurnEnd::Failed(failure)), _) => failure.clone(),
        (Some(TurnEnd::Succeeded), EngineExit::Ended(exit)) => {
            let message = format!("{} said that it finished, but it {exit}", adapter.name());
            Failure::new(code::ENGINE_FAILED, &message)
        }
        (None, _) => unfinished(adapter, report, exit),
    };
    // A lost session is the cause of whatever else went wrong.
    let failure = match lost_session(adapter, report) {
        Some(words) => Failure::new(code::SESSION_RESUME_FAILED, &format!("the session could not be resumed: {words}")),
        None => failure,
    };
    let exit_code = match exit {
        EngineExit::Ended(exit) => exit.code(),
        EngineExit::Dismissed => None,
    };
    let error = failure.with_status(exit_code.and_then(adapter.http_status_of_exit)).into_error();
    EngineVerdict::Failed(error.with("exit_code", json!(exit_code)).with("stderr", report.stderr_tail.trim_end()))
}

/// The engine's message about a session it does not know, on standard error or in its final error.
fn lost_session(adapter: &Adapter, report: &TurnReport) -> Option<String> {
    report.resumed_from.as_ref()?;
    let on_stderr = report.lost_session.clone();
    on_stderr.or_else(|| match &report.end {
        Some(TurnEnd::Failed(failure)) => {
            let known = adapter.lost_session_words.iter().any(|words| failure.message.contains(words));
            known.then(|| failure.message.clone())
        }
        Some(TurnEnd::Succeeded) | None => None,
    })
}

/// A turn whose end the engine did not report has failed, even with exit code 0.
fn unfinished(adapter: &Adapter, report: &TurnReport, exit: EngineExit) -> Failure {
    let how = match exit {
        EngineExit::Ended(exit) => format!("{} did not finish its turn: it {exit}", adapter.name()),
        EngineExit::Dismissed => format!("{} did not finish its turn: it was stopped", adapter.name()),
    };
    match &report.last_error {
        Some(error) => Failure { message: format!("{how}; its last error was: {}", error.message), ..error.clone() },
        None => {
            let message = match (exit, complaint(&report.stderr_tail)) {
                (EngineExit::Ended(ProcessExit::Code(code)), Some(line)) if code != 0 => {
                    format!("{how}; on standard error it said: {line}")
                }
                _ => how,
            };
            // Standard error is full of harmless remarks: it may tell the kind of a failure, but not that there is one.
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
