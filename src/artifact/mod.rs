//! A run's artifacts: index, manifest, bundle.

mod bundle;
mod content;
mod index;
mod manifest;
mod walk;

pub use bundle::{Bundle, BundleFile, Contents, bundle};
pub use index::{Indexed, index};
pub use manifest::{artifacts_sha256, manifest_json, write_manifest};
pub use walk::{Refused, files_below};

use std::io;
use std::path::{Path, PathBuf};

pub use crate::skill::ArtifactRule as ContractEntry;

pub use crate::domain::artifact::ArtifactEntry;

/// The runner could not do its part.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The contract holds a pattern that is no glob.
    #[error("the artifact pattern {pattern:?} is not a glob")]
    Pattern {
        /// The pattern.
        pattern: String,
        /// Why not.
        #[source]
        source: globset::Error,
    },
    /// The file system did not do what it was asked.
    #[error("{action} {}", path.display())]
    Io {
        /// What was tried.
        action: &'static str,
        /// On which path.
        path: PathBuf,
        /// Why it failed.
        #[source]
        source: io::Error,
    },
}

impl Error {
    /// For `map_err`: the failed action and its path around the cause.
    fn on<E: Into<io::Error>>(action: &'static str, path: &Path) -> impl FnOnce(E) -> Error {
        move |source| Error::Io { action, path: path.to_owned(), source: source.into() }
    }
}
