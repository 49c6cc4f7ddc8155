//! What can go wrong with shared files.

use std::sync::Arc;

use crate::files;

#[derive(Debug, Clone, thiserror::Error)]
pub enum Error {
    /// There is no file with this hash.
    #[error("the shared file {sha256} does not exist")]
    NotFound { sha256: String },
    /// Its content does not fit its hash or its size.
    #[error("the shared file {sha256} is damaged: {reason}")]
    Damaged { sha256: String, reason: String },
    /// The file to be put changed while it was read.
    #[error("{path} changed while it was read")]
    Changed { path: String },
    /// The place cannot be used as it is, or as it was named.
    #[error("the shared files {place} cannot be used: {reason}")]
    Unusable { place: String, reason: String },
    /// The place is away or refuses. Later it may answer again.
    #[error("the shared files cannot be reached: {reason}")]
    Unreachable { reason: String },
    /// A file of this machine could not be read or written.
    #[error(transparent)]
    Local(Arc<files::Error>),
}

impl From<files::Error> for Error {
    fn from(error: files::Error) -> Self {
        Error::Local(Arc::new(error))
    }
}
