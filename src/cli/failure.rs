//! Why a command did not succeed, how that is said, and with which exit status.

use std::error::Error;
use std::process::ExitCode;

use serde_json::{Value, json};

use crate::domain::causes::chain;
use crate::domain::command::Refusal;
use crate::settings::Problem;
use crate::{audit, orchestrator, store};

/// The run or check failed.
const FAILED: u8 = 1;
/// Wrong usage or configuration.
const WRONG: u8 = 2;

/// Why a command did not succeed.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The settings cannot stand as they are.
    Configuration(Vec<Problem>),
    /// The command line asks for something impossible.
    Usage(String),
    /// The runner says no; nothing was changed.
    Refused {
        /// For programs, as in the API.
        code: String,
        /// For people.
        message: String,
        /// The particulars.
        details: Value,
    },
    /// Something did not work.
    Broken(String),
    /// The command has said itself what is wrong.
    Said,
    /// Whoever read the output has gone.
    OutputClosed,
}

impl Failure {
    /// For `map_err`: what was tried, and the error with its causes.
    pub(crate) fn broken<E: Error>(doing: impl Into<String>) -> impl FnOnce(E) -> Self {
        let doing = doing.into();
        move |error| Self::Broken(format!("{doing}: {}", chain(&error)))
    }

    /// A run that is not there.
    pub(crate) fn unknown_run(id: &str) -> Self {
        let id: String = id.chars().take(64).collect();
        Self::Refused {
            code: "REQUEST_NOT_FOUND".to_owned(),
            message: format!("no run has the request id or run id {id:?}"),
            details: Value::Null,
        }
    }

    /// The failure as the API would answer it.
    pub(crate) fn to_json(&self) -> Option<Value> {
        let error = |code: &str, message: &str, details: &Value| json!({"error": {"code": code, "message": message, "details": details}});
        match self {
            Self::Refused { code, message, details } => Some(error(code, message, details)),
            Self::Broken(message) => Some(error("INTERNAL", message, &Value::Null)),
            Self::Configuration(_) | Self::Usage(_) | Self::Said | Self::OutputClosed => None,
        }
    }

    /// Says on standard error what is wrong; the exit status.
    pub(crate) fn say(self) -> ExitCode {
        match self {
            Self::Configuration(problems) => {
                eprintln!("error: the configuration is wrong");
                for problem in problems {
                    eprintln!("  {problem}");
                }
                WRONG
            }
            Self::Usage(message) => {
                eprintln!("error: {message}");
                WRONG
            }
            Self::Refused { code, message, details } => {
                eprintln!("error: {code}: {message}");
                for line in detail_lines(&details) {
                    eprintln!("  {line}");
                }
                FAILED
            }
            Self::Broken(message) => {
                eprintln!("error: {message}");
                FAILED
            }
            Self::Said | Self::OutputClosed => FAILED,
        }
        .into()
    }
}

/// The particulars of a refusal, one line each.
fn detail_lines(details: &Value) -> Vec<String> {
    let line = |detail: &Value| match (&detail["path"], &detail["message"]) {
        (Value::String(path), Value::String(message)) if path.is_empty() => message.clone(),
        (Value::String(path), Value::String(message)) => format!("{path}: {message}"),
        _ => detail.to_string(),
    };
    match details {
        Value::Null => Vec::new(),
        Value::Array(details) => details.iter().map(line).collect(),
        Value::Object(details) if details.is_empty() => Vec::new(),
        other => vec![other.to_string()],
    }
}

impl From<store::Error> for Failure {
    fn from(error: store::Error) -> Self {
        match error {
            store::Error::Locked { path } => Self::Broken(format!(
                "another skill-runner uses this data directory: {}\n  \
                 wait until it has ended, stop it, or name another one with --data-dir",
                path.display()
            )),
            other => Self::Broken(chain(&other)),
        }
    }
}

impl From<audit::Error> for Failure {
    fn from(error: audit::Error) -> Self {
        Self::Broken(chain(&error))
    }
}

impl From<orchestrator::Error> for Failure {
    fn from(error: orchestrator::Error) -> Self {
        use orchestrator::Error as E;
        let (code, details) = match &error {
            E::Rejected { code, details, .. } => (*code, json!(details)),
            E::RunNotFound { .. } => ("REQUEST_NOT_FOUND", Value::Null),
            E::SkillNotFound { .. } => ("SKILL_NOT_FOUND", Value::Null),
            E::PackageInvalid { findings } => ("SKILL_PACKAGE_INVALID", json!({"findings": findings})),
            E::IdempotencyConflict => ("IDEMPOTENCY_CONFLICT", Value::Null),
            E::QueueFull { .. } | E::InstallsBusy { .. } => ("QUEUE_FULL", Value::Null),
            E::ShuttingDown => ("SHUTTING_DOWN", Value::Null),
            E::InsufficientStorage { .. } => ("INSUFFICIENT_STORAGE", Value::Null),
            E::SeqOutOfRange { .. } => ("SEQ_OUT_OF_RANGE", Value::Null),
            E::FieldNotFound { .. } => ("FIELD_NOT_FOUND", Value::Null),
            E::NotReady => ("RESULT_NOT_READY", Value::Null),
            E::Refused(refusal) => refused(refusal),
            E::Contract(_) | E::Store(_) | E::Corrupt { .. } | E::Io { .. } => return Self::Broken(chain(&error)),
        };
        Self::Refused { code: code.to_owned(), message: error.to_string(), details }
    }
}

/// A refusal of the rules as the API calls it.
fn refused(refusal: &Refusal) -> (&'static str, Value) {
    match refusal {
        Refusal::RunFinal { .. } => ("RUN_FINAL", Value::Null),
        Refusal::AlreadyUploaded => ("ALREADY_UPLOADED", Value::Null),
        Refusal::NotInteractive => ("NOT_INTERACTIVE", Value::Null),
        Refusal::InteractionStale { .. } => ("INTERACTION_STALE", Value::Null),
        Refusal::InteractionNotPending { .. } => ("INTERACTION_NOT_PENDING", Value::Null),
        Refusal::ResponseInvalid { flaws, .. } => ("INPUT_VALIDATION_FAILED", json!(flaws)),
        Refusal::IdempotencyConflict => ("IDEMPOTENCY_CONFLICT", Value::Null),
        Refusal::Illegal { .. } => ("REFUSED", Value::Null),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_particulars_of_a_refusal_are_one_line_each() {
        let details = json!([{"path": "/n", "message": "must be a number"}, {"path": "", "message": "no"}, {"x": 1}]);
        assert_eq!(detail_lines(&details), ["/n: must be a number", "no", r#"{"x":1}"#]);
        assert_eq!(detail_lines(&Value::Null), Vec::<String>::new());
        assert_eq!(detail_lines(&json!({})), Vec::<String>::new());
        assert_eq!(detail_lines(&json!({"limit": 3})), [r#"{"limit":3}"#]);
    }
}
