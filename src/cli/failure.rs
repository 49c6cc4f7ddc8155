//! Why a command failed, and its exit status.

use std::error::Error;

use serde_json::{Value, json};

use crate::domain::causes::chain;
use crate::domain::codes::{ErrorCode, Exit};
use crate::domain::command::Refusal;
use crate::files::Shortage;
use crate::settings::Problem;
use crate::{audit, orchestrator, store};

/// Why a command did not succeed.
#[derive(Debug)]
pub(crate) enum Failure {
    Configuration(Vec<Problem>),
    /// The command line asks for something impossible.
    Usage(String),
    /// The runner refuses; nothing was changed.
    Refused {
        /// For programs, as in the API. It is text because a newer service may know more codes.
        code: String,
        message: String,
        details: Value,
    },
    Unreachable(String),
    /// Another process has the data folder.
    Busy(String),
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

    pub(crate) fn refused(code: ErrorCode, message: impl Into<String>) -> Self {
        Self::Refused { code: code.as_str().to_owned(), message: message.into(), details: Value::Null }
    }

    pub(crate) fn unknown_run(id: &str) -> Self {
        let id: String = id.chars().take(64).collect();
        Self::refused(ErrorCode::RequestNotFound, format!("no run has the request id or run id {id:?}"))
    }

    /// The failure as the API would answer it.
    pub(crate) fn to_json(&self) -> Option<Value> {
        let error = |code: &str, message: &str, details: &Value| json!({"error": {"code": code, "message": message, "details": details}});
        match self {
            Self::Refused { code, message, details } => Some(error(code, message, details)),
            Self::Unreachable(message) => Some(error(ErrorCode::ServiceUnreachable.as_str(), message, &Value::Null)),
            Self::Broken(message) => Some(error(ErrorCode::Internal.as_str(), message, &Value::Null)),
            Self::Configuration(_)
            | Self::Usage(_)
            | Self::Busy(_)
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
            Self::Refused { code, .. } => ErrorCode::from_text(code).map_or(Exit::Refused, |code| code.info().exit),
            Self::Unreachable(_) => Exit::Unreachable,
            Self::NotFound(_) => Exit::NotFound,
            Self::Unusable(_) => Exit::Refused,
            Self::Broken(_) | Self::Busy(_) | Self::OutputClosed => Exit::Failed,
            Self::Reported(exit) => *exit,
        }
    }
}

impl From<Shortage> for Failure {
    fn from(shortage: Shortage) -> Self {
        Self::Broken(shortage.told().to_owned())
    }
}

impl From<store::Error> for Failure {
    fn from(error: store::Error) -> Self {
        match error {
            store::Error::Locked { path } => {
                Self::Busy(format!("another skill-runner uses this data directory: {}", path.display()))
            }
            store::Error::InUse { store } => Self::Busy(format!("another skill-runner uses this store: {store}")),
            store::Error::Unusable { store, reason } => {
                let message = format!("cannot be used: {reason}");
                Self::Configuration(vec![Problem { key: "store".to_owned(), place: store, message }])
            }
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
        let code = error.code();
        if code == ErrorCode::Internal {
            return Self::Broken(chain(&error));
        }
        let details = match &error {
            E::Rejected { details, .. } => json!(details),
            E::PackageInvalid { findings } => json!({"findings": findings}),
            E::Refused(Refusal::ResponseInvalid { flaws, .. }) => json!(flaws),
            E::Damaged { file, .. } => json!({"file": file}),
            E::Refused(_)
            | E::FilesGone { .. }
            | E::FilesTooLarge { .. }
            | E::Blobs(_)
            | E::RunNotFound { .. }
            | E::SkillNotFound { .. }
            | E::IdempotencyConflict
            | E::QueueFull { .. }
            | E::TooManyAwaitUpload { .. }
            | E::InstallsBusy { .. }
            | E::FilesBusy
            | E::RequestsBusy
            | E::NotRecovered { .. }
            | E::RunBusy { .. }
            | E::ShuttingDown
            | E::InsufficientStorage { .. }
            | E::SeqOutOfRange { .. }
            | E::NotReady
            | E::FieldNotFound { .. }
            | E::Contract(_)
            | E::SandboxMissing { .. }
            | E::Store(_)
            | E::Corrupt { .. }
            | E::Io { .. } => Value::Null,
        };
        let message = if let E::Store(_) = &error { chain(&error) } else { error.told(|hint| hint.cli) };
        Self::Refused { code: code.as_str().to_owned(), message, details }
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
}
