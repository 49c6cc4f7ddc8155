//! The error of a file operation: what was tried, on which path, and why it failed.

use std::io;
use std::path::{Path, PathBuf};

/// A file operation failed.
#[derive(Debug, thiserror::Error)]
#[error("{action} {}", path.display())]
pub struct Error {
    /// What was tried, such as `rename to`.
    pub(crate) action: &'static str,
    pub(crate) path: PathBuf,
    #[source]
    pub(crate) source: io::Error,
}

impl Error {
    /// For `map_err`: adds the action and the path to the cause.
    pub(crate) fn on<E: Into<io::Error>>(action: &'static str, path: &Path) -> impl FnOnce(E) -> Self {
        move |source| Self { action, path: path.to_owned(), source: source.into() }
    }

    pub(crate) fn kind(&self) -> io::ErrorKind {
        self.source.kind()
    }
}

impl From<Error> for io::Error {
    fn from(error: Error) -> Self {
        io::Error::new(error.source.kind(), error)
    }
}
