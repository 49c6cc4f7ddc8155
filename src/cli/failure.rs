//! Why a command failed, the message for it, and the exit status.

use std::error::Error;
use std::process::ExitCode;

use serde_json::{Value, json};

use crate::domain::causes::chain;
use crate::domain::command::Refusal;
use crate::settings::Problem;
use crate::{audit, orchestrator, store};

/// The exit status of the program, apart from 0 for success.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Exit {
    /// The run or the check failed, or something broke.
    Failed,
    /// The command line or the configuration is wrong.
    Usage,
    /// The service cannot be reached, or is shutting down.
    Unreachable,
    NotFound,
    Refused,
    Interrupted,
}

impl Exit {
    pub(crate) const fn status(self) -> u8 {
        match self {
            Self::Failed => 1,
            Self::Usage => 2,
            Self::Unreachable => 3,
            Self::NotFound => 4,
            Self::Refused => 5,
            // As shells number the end by SIGINT.
            Self::Interrupted => 130,
        }
    }

    /// The exit status for an error code of the API.
    fn of_code(code: &str) -> Self {
        match code {
            "ARTIFACT_NOT_FOUND" | "ENGINE_NOT_FOUND" | "FIELD_NOT_FOUND" | "FILE_NOT_FOUND" | "INSTALL_NOT_FOUND"
            | "REQUEST_NOT_FOUND" | "ROUTE_NOT_FOUND" | "SKILL_NOT_FOUND" | "UPGRADE_NOT_FOUND" => Self::NotFound,
            "FORBIDDEN_HOST" | "FORBIDDEN_ORIGIN" | "UNAUTHORIZED" => Self::Usage,
            "SHUTTING_DOWN" => Self::Unreachable,
            // The input was fine: it was too early, too much, or the service broke.
            "BUNDLE_NOT_READY" | "INSUFFICIENT_STORAGE" | "INTERNAL" | "QUEUE_FULL" | "RESULT_NOT_READY" => {
                Self::Failed
            }
            _ => Self::Refused,
        }
    }
}

/// Why a command did not succeed.
#[derive(Debug)]
pub(crate) enum Failure {
    Configuration(Vec<Problem>),
    /// The command line asks for something impossible.
    Usage(String),
    /// The runner refuses; nothing was changed.
    Refused {
        /// For programs, as in the API.
        code: String,
        message: String,
        details: Value,
    },
    Unreachable(String),
    NotFound(String),
    /// A file that was given was read, and cannot be used.
    Unusable(String),
    Broken(String),
    /// The command has printed what is wrong.
    Reported(Exit),
    /// The reader of the output has closed it.
    OutputClosed,
}

impl Failure {
    /// For `map_err`: what was tried, and the error with its causes.
    pub(crate) fn broken<E: Error>(doing: impl Into<String>) -> impl FnOnce(E) -> Self {
        let doing = doing.into();
        move |error| Self::Broken(format!("{doing}: {}", chain(&error)))
    }

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
            Self::Unreachable(message) => Some(error("SERVICE_UNREACHABLE", message, &Value::Null)),
            Self::Broken(message) => Some(error("INTERNAL", message, &Value::Null)),
            Self::Configuration(_)
            | Self::Usage(_)
            | Self::NotFound(_)
            | Self::Unusable(_)
            | Self::Reported(_)
            | Self::OutputClosed => None,
        }
    }

    /// The one place that gives a failure its exit status.
    pub(crate) fn exit(&self) -> Exit {
        match self {
            Self::Configuration(_) | Self::Usage(_) => Exit::Usage,
            Self::Refused { code, .. } => Exit::of_code(code),
            Self::Unreachable(_) => Exit::Unreachable,
            Self::NotFound(_) => Exit::NotFound,
            Self::Unusable(_) => Exit::Refused,
            Self::Broken(_) | Self::OutputClosed => Exit::Failed,
            Self::Reported(exit) => *exit,
        }
    }

    /// Prints on standard error what is wrong; the exit status.
    pub(crate) fn report(self) -> ExitCode {
        let exit = self.exit();
        match self {
            Self::Configuration(problems) => {
                eprintln!("error: the configuration is wrong");
                for problem in problems {
                    eprintln!("  {problem}");
                }
            }
            Self::Refused { code, message, details } => {
                eprintln!("error: {code}: {message}");
                for line in detail_lines(&details) {
                    eprintln!("  {line}");
                }
            }
            Self::Usage(message)
            | Self::Unreachable(message)
            | Self::NotFound(message)
            | Self::Unusable(message)
            | Self::Broken(message) => {
                eprintln!("error: {message}");
            }
            Self::Reported(_) | Self::OutputClosed => {}
        }
        exit.status().into()
    }
}

/// The details of a refusal, one line each.
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
                 wait until it has ended, stop it, or choose another folder with --data-dir",
                path.display()
            )),
            other => Self::Broken(chain(&other)),
        }
    }
}

impl From<audit::Error> for Failure {
    fn from(error: audit::Error) -> Self {
        match error {
            audit::Error::NoLog { .. } => Self::Usage(error.to_string()),
            audit::Error::Read { .. } | audit::Error::Artifacts(_) => Self::Broken(chain(&error)),
        }
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
        Refusal::Illegal { .. } | Refusal::NotCreated | Refusal::AlreadyCreated | Refusal::LastFilesMissing => {
            ("REFUSED", Value::Null)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_of_failure_has_its_exit_status() {
        let refused = |code: &str| Failure::Refused { code: code.into(), message: String::new(), details: Value::Null };
        for (failure, status) in [
            (Failure::Configuration(Vec::new()), 2),
            (Failure::Usage(String::new()), 2),
            (Failure::Unreachable(String::new()), 3),
            (Failure::NotFound(String::new()), 4),
            (Failure::Unusable(String::new()), 5),
            (Failure::Broken(String::new()), 1),
            (Failure::OutputClosed, 1),
            (Failure::Reported(Exit::Interrupted), 130),
            (Failure::unknown_run("x"), 4),
            (refused("SKILL_NOT_FOUND"), 4),
            (refused("INPUT_VALIDATION_FAILED"), 5),
            (refused("UNKNOWN_INPUT_KEY"), 5),
            (refused("INTERACTION_STALE"), 5),
            (refused("SHUTTING_DOWN"), 3),
            (refused("UNAUTHORIZED"), 2),
            (refused("QUEUE_FULL"), 1),
            (refused("RESULT_NOT_READY"), 1),
            (refused("INTERNAL"), 1),
        ] {
            assert_eq!(failure.exit().status(), status, "{failure:?}");
        }
    }

    #[test]
    fn the_details_of_a_refusal_are_one_line_each() {
        let details = json!([{"path": "/n", "message": "must be a number"}, {"path": "", "message": "no"}, {"x": 1}]);
        assert_eq!(detail_lines(&details), ["/n: must be a number", "no", r#"{"x":1}"#]);
        assert_eq!(detail_lines(&Value::Null), Vec::<String>::new());
        assert_eq!(detail_lines(&json!({})), Vec::<String>::new());
        assert_eq!(detail_lines(&json!({"limit": 3})), [r#"{"limit":3}"#]);
    }
}
