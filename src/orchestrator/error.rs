//! Why the orchestrator says no, or broke.

use std::path::PathBuf;

use crate::domain::codes::{ErrorCode, Hint};
use crate::domain::command::Refusal;
use crate::domain::event::ValidationError;
use crate::domain::ids::{RunId, Seq};
use crate::domain::statechart::Status;
use crate::fcmp::SchemaViolation;
use crate::files::{self, Shortage};
use crate::skill::Finding;
use crate::{artifact, blobs, export, store, workspace};

/// Everything that is not a yes.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// The request itself is wrong; nothing was created.
    #[error("{message}")]
    Rejected {
        /// The code that clients see.
        code: ErrorCode,
        /// What was wrong and what to do.
        message: String,
        /// Where, by JSON pointer.
        details: Vec<ValidationError>,
    },
    /// No run has this id.
    #[error("no run has the request id or run id {id:?}")]
    RunNotFound {
        /// What was asked for.
        id: String,
    },
    /// No skill has this id.
    #[error("no skill {id:?} is installed{reason}{}", did_you_mean(similar))]
    SkillNotFound {
        /// What was asked for.
        id: String,
        /// Why a folder of that name does not count, if there is one.
        reason: String,
        /// The skill that was probably meant.
        similar: Option<String>,
    },
    /// The package that came with a run breaks the rules; nothing was changed.
    #[error("the package breaks {} rules; correct what the findings name and upload it again", findings.len())]
    PackageInvalid {
        /// All that is wrong with it.
        findings: Vec<Finding>,
    },
    /// The idempotency key was used with another body.
    #[error("the Idempotency-Key was used before with a different request body")]
    IdempotencyConflict,
    /// The queue is full.
    #[error("the queue is full ({limit} runs); try again later")]
    QueueFull { limit: usize },
    /// Too many runs wait for their files.
    #[error("{limit} runs wait for their upload (max_awaiting_upload); upload their files or cancel some")]
    TooManyAwaitUpload { limit: usize },
    /// Too many packages are on their way.
    #[error("{limit} packages are being installed; try again when one is")]
    InstallsBusy {
        /// How many there may be.
        limit: usize,
    },
    /// Others' files are being unpacked, and that took too long.
    #[error("the files of other requests are being unpacked or copied; try again later")]
    FilesBusy,
    /// Others' requests wait to be checked, and there are too many of them, or that took too long.
    #[error("too many other requests wait to be checked; try again later")]
    RequestsBusy,
    /// For longer than somebody waits, others were faster or the run was being recovered. Nothing is damaged.
    #[error("others write to run {run} at present, or it is being recovered; try again later")]
    RunBusy { run: String },
    #[error("the service is shutting down and takes no new work")]
    ShuttingDown,
    /// The disk is nearly full.
    #[error("the file system at {} has {free} bytes left, below the floor of {floor} (min_free_bytes)", file_system.display())]
    InsufficientStorage { file_system: PathBuf, free: u64, floor: u64 },
    /// A seq beyond the log's head.
    #[error("seq {seq} is not in the log, which goes from 1 to {head}")]
    SeqOutOfRange { seq: Seq, head: Seq },
    /// The run went on when an earlier service ended, and its log is long.
    #[error(
        "run {run} was at work when the service ended, and its output is still being read; ask again in a few seconds"
    )]
    NotRecovered { run: RunId },
    /// The run is not over yet.
    #[error("the run is not final yet; its result comes with its end")]
    NotReady,
    /// The result has no such field.
    #[error("the result of this {} run has no field {path:?}", status.as_str())]
    FieldNotFound {
        path: String,
        /// How the run ended.
        status: Status,
    },
    /// The runner tried to log something that breaks the contract.
    #[error(transparent)]
    Contract(#[from] SchemaViolation),
    #[error("the event store failed")]
    Store(#[from] store::Error),
    /// A stored row or event cannot be read.
    #[error("the log of run {run} cannot be read: {message}")]
    Corrupt { run: String, message: String },
    /// A stored file is not what it was when the run ended.
    #[error("the stored file {file} of run {run} is damaged: {message}")]
    Damaged { run: RunId, file: String, message: String },
    /// The files of a finished run are not there any more.
    #[error("the files of run {run} are gone: its folder was removed from the data directory")]
    FilesGone { run: RunId },
    /// The files of a run that goes on are more than is shared with other services.
    #[error("{reason}: that is more than is shared with other services")]
    FilesTooLarge { reason: String },
    #[error("the shared files failed")]
    Blobs(#[from] blobs::Error),
    /// The operator wants runs to be confined, and the machine cannot.
    #[error("sandbox is on, but {reason}")]
    SandboxMissing { reason: String },
    /// A file operation failed.
    #[error("{doing}")]
    Io {
        doing: String,
        #[source]
        source: std::io::Error,
    },
}

impl From<files::Error> for Error {
    fn from(error: files::Error) -> Self {
        Error::Io { doing: format!("{} {}", error.action, error.path.display()), source: error.source }
    }
}

impl From<Shortage> for Error {
    fn from(shortage: Shortage) -> Self {
        Error::Io { doing: "read the skills".into(), source: shortage.into() }
    }
}

impl From<artifact::Error> for Error {
    fn from(error: artifact::Error) -> Self {
        match error {
            artifact::Error::Io(error) => error.into(),
            pattern @ artifact::Error::Pattern { .. } => {
                Error::Io { doing: "index the artifacts".into(), source: std::io::Error::other(pattern) }
            }
        }
    }
}

impl From<export::Error> for Error {
    fn from(error: export::Error) -> Self {
        match error {
            export::Error::Io { doing, source } => Error::Io { doing, source },
            other @ (export::Error::Name { .. } | export::Error::Changed { .. }) => {
                Error::Io { doing: "export the run".into(), source: std::io::Error::other(other) }
            }
        }
    }
}

impl From<workspace::UploadError> for Error {
    fn from(error: workspace::UploadError) -> Self {
        match error {
            workspace::UploadError::Io(error) => error.into(),
            refused => Error::Rejected { code: refused.code(), message: refused.to_string(), details: Vec::new() },
        }
    }
}

impl Error {
    /// The code that clients see.
    pub fn code(&self) -> ErrorCode {
        match self {
            Self::Refused(refusal) => refusal.code(),
            Self::Rejected { code, .. } => *code,
            Self::RunNotFound { .. } => ErrorCode::RequestNotFound,
            Self::SkillNotFound { .. } => ErrorCode::SkillNotFound,
            Self::PackageInvalid { .. } => ErrorCode::SkillPackageInvalid,
            Self::IdempotencyConflict => ErrorCode::IdempotencyConflict,
            Self::QueueFull { .. } | Self::TooManyAwaitUpload { .. } | Self::InstallsBusy { .. } => {
                ErrorCode::QueueFull
            }
            Self::FilesBusy | Self::RequestsBusy => ErrorCode::ResourceLimitExceeded,
            Self::RunBusy { .. } => ErrorCode::RunBusy,
            Self::ShuttingDown => ErrorCode::ShuttingDown,
            Self::InsufficientStorage { .. } => ErrorCode::InsufficientStorage,
            Self::SeqOutOfRange { .. } => ErrorCode::SeqOutOfRange,
            Self::NotRecovered { .. } => ErrorCode::RunNotRecovered,
            Self::NotReady => ErrorCode::ResultNotReady,
            Self::FieldNotFound { .. } => ErrorCode::FieldNotFound,
            Self::Store(error) => match Shortage::behind(error) {
                // The outcome of a failed write is unknown, whatever the cause.
                Some(shortage) if !matches!(error, store::Error::Unavailable { .. }) => of_shortage(shortage),
                Some(_) | None => of_store(error),
            },
            Self::Io { source, .. } => Shortage::behind(source).map_or(ErrorCode::Internal, of_shortage),
            Self::Corrupt { .. } | Self::Damaged { .. } => ErrorCode::DataCorrupt,
            Self::FilesGone { .. } => ErrorCode::RunFilesGone,
            Self::FilesTooLarge { .. } => ErrorCode::InsufficientStorage,
            Self::Blobs(error) => of_blobs(error),
            Self::Contract(_) | Self::SandboxMissing { .. } => ErrorCode::Internal,
        }
    }

    /// The message for a client. What the API and the command line say differently has no advice of its own: it is added
    /// from the table of codes, in the words that the caller chooses.
    pub(crate) fn told(&self, advice: impl FnOnce(Hint) -> &'static str) -> String {
        if let (Self::Io { .. } | Self::Store(_), Some(shortage)) = (self, Shortage::behind(self)) {
            return shortage.told().to_owned();
        }
        match self {
            Self::RunNotFound { .. } | Self::SkillNotFound { .. } | Self::FieldNotFound { .. } => {
                let told = self.to_string();
                let end = if told.ends_with('?') { "" } else { ";" };
                format!("{told}{end} {}", advice(self.code().info().hint))
            }
            Self::Refused(_)
            | Self::Rejected { .. }
            | Self::PackageInvalid { .. }
            | Self::IdempotencyConflict
            | Self::QueueFull { .. }
            | Self::TooManyAwaitUpload { .. }
            | Self::InstallsBusy { .. }
            | Self::FilesBusy
            | Self::RequestsBusy
            | Self::RunBusy { .. }
            | Self::ShuttingDown
            | Self::InsufficientStorage { .. }
            | Self::SeqOutOfRange { .. }
            | Self::NotRecovered { .. }
            | Self::NotReady
            | Self::Contract(_)
            | Self::SandboxMissing { .. }
            | Self::Store(_)
            | Self::Corrupt { .. }
            | Self::Damaged { .. }
            | Self::FilesGone { .. }
            | Self::FilesTooLarge { .. }
            | Self::Blobs(_)
            | Self::Io { .. } => self.to_string(),
        }
    }

    /// A failed file operation.
    pub fn io(doing: impl Into<String>) -> impl FnOnce(std::io::Error) -> Error {
        let doing = doing.into();
        move |source| Error::Io { doing, source }
    }
}

fn did_you_mean(similar: &Option<String>) -> String {
    similar.as_ref().map(|similar| format!("; did you mean {similar:?}?")).unwrap_or_default()
}

fn of_shortage(shortage: Shortage) -> ErrorCode {
    match shortage {
        Shortage::OpenFiles | Shortage::OpenFilesOfMachine | Shortage::Memory | Shortage::Processes => {
            ErrorCode::ResourceLimitExceeded
        }
        Shortage::Disk => ErrorCode::InsufficientStorage,
    }
}

fn of_blobs(error: &blobs::Error) -> ErrorCode {
    match error {
        blobs::Error::NotFound { .. } | blobs::Error::Damaged { .. } => ErrorCode::DataCorrupt,
        blobs::Error::Unreachable { .. } => ErrorCode::StoreUnreachable,
        blobs::Error::Local(_) => Shortage::behind(error).map_or(ErrorCode::Internal, of_shortage),
        blobs::Error::Changed { .. } | blobs::Error::Unusable { .. } => ErrorCode::Internal,
    }
}

fn of_store(error: &store::Error) -> ErrorCode {
    match error {
        store::Error::TooLarge { .. } => ErrorCode::PayloadTooLarge,
        store::Error::Full { .. } => ErrorCode::InsufficientStorage,
        store::Error::Closed => ErrorCode::ShuttingDown,
        store::Error::Unreachable { .. } | store::Error::FilesRemoved => ErrorCode::StoreUnreachable,
        store::Error::Corrupt { .. } | store::Error::CorruptFile { .. } => ErrorCode::DataCorrupt,
        store::Error::Conflict { .. }
        | store::Error::NotOwner
        | store::Error::Taken { .. }
        | store::Error::Deleted
        | store::Error::Malformed { .. }
        | store::Error::Unavailable { .. }
        | store::Error::Locked { .. }
        | store::Error::InUse { .. }
        | store::Error::Unusable { .. }
        | store::Error::Format { .. }
        | store::Error::Io { .. }
        | store::Error::Engine { .. } => ErrorCode::Internal,
    }
}
