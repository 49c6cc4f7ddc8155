//! Why an export could not be made.

use std::io;

/// An export could not be made.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A file cannot be part of an export.
    #[error("{name:?} cannot be exported: {reason}")]
    Name { name: String, reason: &'static str },
    /// A file was written to meanwhile.
    #[error("{name:?} was changed while it was exported")]
    Changed { name: String },
    /// A file operation failed.
    #[error("{doing}")]
    Io {
        doing: String,
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
