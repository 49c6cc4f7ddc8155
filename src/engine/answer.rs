//! What an engine answered: its own report counts, and its exit, never the exit alone.

use serde_json::{Value, json};

use super::adapter::Adapter;
use super::failure::Failure;
use super::process_exit::ProcessExit;
use super::report::{ReportedEnd, TurnReport};
use super::way_out::WayOut;
use crate::domain::codes::ErrorCode;
use crate::domain::outcome::RunError;

/// What an engine answered in a turn that it finished. Whether this is good output is judged elsewhere.
#[derive(Debug, Clone, PartialEq)]
pub struct EngineAnswer {
    /// The assistant's last message.
    pub text: String,
    /// The engine's own structured output.
    pub structured: Option<Value>,
}

/// The engine's answer, or why it did not finish its turn. `way_out` tells whom it reached, where the runner knows it.
pub fn answer(
    adapter: &Adapter,
    report: &TurnReport,
    exit: ProcessExit,
    way_out: &WayOut,
) -> Result<EngineAnswer, RunError> {
    let failure = match (&report.end, exit) {
        (Some(ReportedEnd::Succeeded), ProcessExit::Code(0) | ProcessExit::Dismissed)
        | (Some(ReportedEnd::InPlainText), ProcessExit::Code(_) | ProcessExit::Dismissed) => {
            let text = report.final_text().unwrap_or_default().to_owned();
            return Ok(EngineAnswer { text, structured: report.structured.clone() });
        }
        (Some(ReportedEnd::Failed(failure)), _) => failure.clone(),
        (Some(ReportedEnd::Succeeded | ReportedEnd::InPlainText), exit) => {
            let message = format!("{} said that it finished, but it {exit}", adapter.name());
            Failure::new(ErrorCode::EngineFailed, &message)
        }
        (None, _) => unfinished(adapter, report, exit),
    };
    // A lost session is the cause of whatever else went wrong.
    let failure = match lost_session(adapter, report) {
        Some(words) => {
            Failure::new(ErrorCode::SessionResumeFailed, &format!("the session could not be resumed: {words}"))
        }
        None => failure,
    };
    let exit_code = exit.code();
    let failure = failure.with_status(exit_code.and_then(adapter.http_status_of_exit));
    let error = match way_out.explains(adapter.name(), &failure, report.used_tools) {
        Some(unreached) => unreached.into_error().with("engine_message", failure.message),
        None => failure.into_error(),
    };
    Err(error.with("exit_code", json!(exit_code)).with("stderr", report.stderr_tail().trim_end()))
}

/// The engine's message about a session it does not know, on standard error or in its final error.
fn lost_session(adapter: &Adapter, report: &TurnReport) -> Option<String> {
    report.resumed_from.as_ref()?;
    let on_stderr = report.lost_session.clone();
    on_stderr.or_else(|| match &report.end {
        Some(ReportedEnd::Failed(failure)) => {
            let known = adapter.lost_session_words.iter().any(|words| failure.message.contains(words));
            known.then(|| failure.message.clone())
        }
        Some(ReportedEnd::Succeeded | ReportedEnd::InPlainText) | None => None,
    })
}

/// A turn whose end the engine did not report has failed, even with exit code 0.
fn unfinished(adapter: &Adapter, report: &TurnReport, exit: ProcessExit) -> Failure {
    let how = format!("{} did not finish its turn: it {exit}", adapter.name());
    match &report.last_error {
        Some(error) => Failure { message: format!("{how}; its last error was: {}", error.message), ..error.clone() },
        None => {
            let message = match (exit, complaint(report.stderr_tail())) {
                (ProcessExit::Code(code), Some(line)) if code != 0 => {
                    format!("{how}; on standard error it said: {line}")
                }
                _ => how,
            };
            // Standard error is full of harmless remarks: it may tell the kind of a failure, but not that there is one.
            let connection = Failure::classify(None, &message).connection;
            Failure { message, connection, ..Failure::classify(None, report.stderr_tail()) }
        }
    }
}

/// The last line that speaks of an error, else the last line.
fn complaint(stderr: &str) -> Option<&str> {
    let mut lines = stderr.lines().rev().map(str::trim).filter(|line| !line.is_empty());
    let last = lines.clone().next();
    lines.find(|line| line.to_lowercase().contains("error")).or(last)
}
