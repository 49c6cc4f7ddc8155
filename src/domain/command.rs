//! The commands a run accepts, and the reasons for which one is refused.

use serde_json::Value;

use super::codes::ErrorCode;
use super::event::{Started, UploadedPackage};
use super::fact::Fact;
use super::ids::RunId;
use super::interaction::{Interaction, InteractionId};
use super::outcome::Warning;
use super::outcome::{Completion, Evidence, RunError};
use super::request::{Passed, UploadedFile};
use super::resources::ResourceLimits;
use super::statechart::Status;
use super::validation::ValidationError;
use crate::domain::isolation::Isolation;

/// What becomes of runs that were queued when the service died.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RestartQueued {
    Fail,
    /// They are queued again.
    Requeue,
}

/// The outcome of an engine's turn.
#[derive(Debug, Clone, PartialEq)]
pub enum Conclusion {
    /// A result, and how it was recognised as complete.
    Succeeded(Completion),
    Failed(RunError),
    /// A question; `decide` gives it its number.
    NeedsInput(Interaction),
    /// A failure after which the turn can be begun again; it fails the run that was not asked to, or not so often.
    Transient {
        error: RunError,
        /// How long the model's service asks to wait.
        retry_after_seconds: Option<u64>,
    },
}

/// Something asked of a run.
#[derive(Debug, Clone, PartialEq)]
pub enum Command {
    Create(Box<Started>),
    /// Take the uploaded files.
    Upload {
        files: Vec<UploadedFile>,
        /// Hash of their list.
        manifest_sha256: String,
        /// The run's cache key.
        cache_key: String,
        /// The run's own skill, if it has one.
        package: Option<UploadedPackage>,
        /// What is to be told about them.
        warnings: Vec<Warning>,
    },
    /// Take an equal run's result.
    TakeFromCache {
        source: RunId,
        /// The key both share.
        cache_key: String,
    },
    /// An engine process was started.
    StartTurn {
        /// Program and arguments, without secrets.
        command: Vec<String>,
        pid: u32,
        /// What the engine calls itself.
        engine_version: String,
        /// Which parser reads it.
        parser_version: String,
        /// The tier of isolation in force.
        isolation: Isolation,
        /// What its processes may use of the machine.
        limits: Option<ResourceLimits>,
        /// What the engine is told besides its prompt.
        passed: Passed,
    },
    /// Log what the engine wrote.
    Record(Vec<Fact>),
    /// The engine's turn is over.
    EndTurn {
        /// What is to be logged before the end: validation, artifacts, warnings.
        facts: Vec<Fact>,
        /// What it came to.
        conclusion: Conclusion,
    },
    /// The run cannot start.
    Reject {
        error: RunError,
    },
    Reply {
        interaction_id: InteractionId,
        response: Value,
        idempotency_key: Option<String>,
        /// The name of the token it came with, if one did.
        requested_by: Option<String>,
    },
    /// The deadline of the open question has passed.
    AutoDecide,
    Cancel {
        requested_by: String,
        reason: String,
    },
    /// The service was started again, or ends now: decide what becomes of the run.
    Reconcile {
        /// What becomes of queued runs.
        restart_queued: RestartQueued,
        /// Raw output that reached its file but not the log, for a run that ends.
        facts: Vec<Fact>,
    },
}

impl Command {
    /// Its name, for logs.
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Command::Create(_) => "create",
            Command::Upload { .. } => "upload",
            Command::TakeFromCache { .. } => "take_from_cache",
            Command::StartTurn { .. } => "start_turn",
            Command::Record(_) => "record",
            Command::EndTurn { .. } => "end_turn",
            Command::Reject { .. } => "reject",
            Command::Reply { .. } => "reply",
            Command::AutoDecide => "auto_decide",
            Command::Cancel { .. } => "cancel",
            Command::Reconcile { .. } => "reconcile",
        }
    }
}

/// A run's last files; they are on disk before the terminal event is logged.
#[derive(Debug, Clone, PartialEq)]
pub struct LastFiles {
    /// What was found in them, to be logged before the end: artifacts, warnings.
    pub facts: Vec<Fact>,
    pub evidence: Evidence,
}

/// The command is not allowed now; nothing was written.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum Refusal {
    /// The run is over.
    #[error("the run is final ({})", status.as_str())]
    RunFinal { status: Status },
    /// Its files are there already.
    #[error("this run does not wait for an upload: its files are there already or it needs none")]
    AlreadyUploaded,
    /// The run asks no questions.
    #[error("the run is not interactive: create it with runtime_options.execution_mode = \"interactive\"")]
    NotInteractive,
    /// Another question is open.
    #[error("interaction {given} is not open; the run waits for interaction {open}")]
    InteractionStale { given: InteractionId, open: InteractionId },
    /// No question is open.
    #[error("no interaction is open (the run is {})", status.as_str())]
    InteractionNotPending {
        /// Where the run is.
        status: Status,
    },
    /// The answer does not fit its question.
    #[error("the response does not fit interaction {id}: {}", flaws.first().map(|flaw| flaw.message.as_str()).unwrap_or_default())]
    ResponseInvalid { id: InteractionId, flaws: Vec<ValidationError> },
    /// The key was used with another body.
    #[error("the idempotency key was used before with a different body")]
    IdempotencyConflict,
    /// The run has not begun.
    #[error("the run has not begun")]
    NotCreated,
    /// The run has begun already.
    #[error("the run exists already")]
    AlreadyCreated,
    /// The command ends the run, but its last files are not written.
    #[error("the run would end here, but its last files are not written")]
    LastFilesMissing,
    /// The statechart has no such transition.
    #[error("a run that is {} cannot do this", status.as_str())]
    Illegal {
        /// Where the run is.
        status: Status,
    },
}

impl Refusal {
    /// The code that clients see.
    pub(crate) fn code(&self) -> ErrorCode {
        match self {
            Self::RunFinal { .. } => ErrorCode::RunFinal,
            Self::AlreadyUploaded => ErrorCode::AlreadyUploaded,
            Self::NotInteractive => ErrorCode::NotInteractive,
            Self::InteractionStale { .. } => ErrorCode::InteractionStale,
            Self::InteractionNotPending { .. } => ErrorCode::InteractionNotPending,
            Self::ResponseInvalid { .. } => ErrorCode::InputValidationFailed,
            Self::IdempotencyConflict => ErrorCode::IdempotencyConflict,
            // No client can cause these: only transitions that exist are asked for.
            Self::NotCreated | Self::AlreadyCreated | Self::LastFilesMissing | Self::Illegal { .. } => {
                ErrorCode::Internal
            }
        }
    }
}
