//! Why an export could not be made.

use std::io;

/// An export could not be made.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A file cannot be part of an export.
    #[error("{name:?} cannot be exported: {reason}")]
    Name {
        /// Its path.
        name: String,
        /// Why.
        reason: &'static str,
    },
    /// A file was written to meanwhile.
    #[error("{name:?} was changed while it was exported")]
    Changed {
        /// Its path.
        name: String,
    },
    /// A file operation failed.
    #[error("{doing}")]
    Io {
        /// What was tried.
        doing: String,
        /// Why it failed.
        #[source]
        source: io::Error,
    },
}

impl Error {
    pub(crate) fn io(doing: impl Into<String>) -> impl FnOnce(io::Error) -> Self {
        let doing = doing.into();
        move |source| Self::Io { doing, source }
    }
}
