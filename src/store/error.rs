//! What can go wrong in the store, and what the caller may conclude from it.

use std::path::PathBuf;
use std::sync::Arc;

use bytes::Bytes;

use crate::domain::ids::{RunId, Seq};
use crate::files;

/// The cause of a failure; shared, because many callers get the same one.
pub(crate) type Cause = Arc<dyn std::error::Error + Send + Sync>;

/// Why the store did not do what was asked.
///
/// After every variant but [`Error::Unavailable`], an append has written nothing.
#[derive(Debug, Clone, thiserror::Error)]
pub enum Error {
    /// The log's head is not the expected one: somebody else writes to this run.
    #[error("the head of the log is {actual}, not the expected one")]
    Conflict {
        /// The head the log has.
        actual: Seq,
    },
    /// Another service works on this run, or this one's lease has ended.
    #[error("another service works on this run")]
    NotOwner,
    /// A shared file that the append names was removed since it was put, or is being removed: put it again.
    #[error("a shared file was removed since it was put")]
    FilesRemoved,
    /// The row that had to be absent exists.
    #[error("the index row exists already")]
    Taken {
        /// What the row holds.
        value: Bytes,
    },
    /// The run's events were deleted: its log takes no more.
    #[error("the events of this run were deleted")]
    Deleted,
    /// The append carries more than `MAX_APPEND_BYTES`.
    #[error("an append of {bytes} bytes is over the limit of {limit}")]
    TooLarge {
        /// The size of its events and rows.
        bytes: usize,
        limit: usize,
    },
    /// The batches of an append do not fit together: a mistake of the caller.
    #[error("malformed append: {reason}")]
    Malformed {
        /// What does not fit.
        reason: String,
    },
    /// The disk is so full that a write might fail half-way, so none was tried.
    #[error("only {available} bytes are free on the disk of {path}")]
    Full {
        /// The folder whose disk is full.
        path: PathBuf,
        /// What is left of it.
        available: u64,
    },
    /// A write, flush or sync failed. Whether the append is on the disk is unknown until the store is
    /// opened again.
    #[error("the store failed: the outcome of the write is unknown")]
    Unavailable {
        #[source]
        source: Cause,
    },
    /// Stored bytes are not what this program writes.
    #[error("the log of run {run} is damaged: {reason}")]
    Corrupt { run: RunId, reason: String },
    /// A file's content is not what this program writes.
    #[error("{path} is damaged: {reason}")]
    CorruptFile { path: PathBuf, reason: String },
    /// Another process has the data directory open.
    #[error("another skill-runner uses this data directory: {path}")]
    Locked { path: PathBuf },
    /// Another process writes to the store, or has taken it over.
    #[error("another skill-runner uses this store: {store}")]
    InUse {
        /// The store, as its operator knows it.
        store: String,
    },
    /// The store cannot be used as it is, or as it was named.
    #[error("the store {store} cannot be used: {reason}")]
    Unusable {
        /// The store, without any password.
        store: String,
        reason: String,
    },
    /// The data directory belongs to another store or a later version.
    #[error("{path} says {found:?}, but this program reads {expected:?}")]
    Format {
        /// The file that names the format.
        path: PathBuf,
        found: String,
        /// What it would have to say.
        expected: &'static str,
    },
    /// A file could not be opened, read or written.
    #[error("{action} {path}")]
    Io {
        action: &'static str,
        path: PathBuf,
        #[source]
        source: Arc<std::io::Error>,
    },
    /// The database could not be opened or read.
    #[error("{action} the event store")]
    Engine {
        action: &'static str,
        #[source]
        source: Cause,
    },
    /// What holds the store is away, and has been for so long that nobody waits for it. Later it may answer again.
    #[error("the event store cannot be reached")]
    Unreachable {
        #[source]
        source: Cause,
    },
    /// The store has stopped and accepts nothing more.
    #[error("the event store is closed")]
    Closed,
}

impl Error {
    /// A cause that is known only as text.
    pub(crate) fn cause(text: impl Into<String>) -> Cause {
        Arc::from(Box::<dyn std::error::Error + Send + Sync>::from(text.into()))
    }

    /// For `map_err`: an IO error that names what was done to which file.
    pub(super) fn io(action: &'static str, path: &std::path::Path) -> impl FnOnce(std::io::Error) -> Error {
        let path = path.to_path_buf();
        move |source| Error::Io { action, path, source: Arc::new(source) }
    }
}

impl From<files::Error> for Error {
    fn from(error: files::Error) -> Self {
        Error::io(error.action, &error.path)(error.source)
    }
}
