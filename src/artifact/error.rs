//! Why a run's artifacts could not be listed or bundled.

use crate::files;

/// The runner could not list or bundle a run's files.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The contract holds a pattern that is no glob.
    #[error("the artifact pattern {pattern:?} is not a glob")]
    Pattern {
        pattern: String,
        #[source]
        source: globset::Error,
    },
    /// A file operation failed.
    #[error(transparent)]
    Io(#[from] files::Error),
}
