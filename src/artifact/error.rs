//! Why a run's artifacts could not be listed or bundled.

use crate::files;

/// The runner could not list or bundle a run's files.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The contract holds a pattern that is no glob, or one too long.
    #[error("the artifact pattern {pattern:?} cannot be used: {reason}")]
    Pattern { pattern: String, reason: String },
    /// A file operation failed.
    #[error(transparent)]
    Io(#[from] files::Error),
}
