//! A run's artifacts: index, manifest, bundle.

mod bundle;
mod content;
mod index;
mod manifest;
mod walk;

pub use bundle::{Bundle, BundleFile, Contents, bundle};
pub use index::{Indexed, index};
pub use manifest::{artifacts_sha256, manifest_json, write_manifest};
pub use walk::Refused;

use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

/// What a skill promises to produce.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ContractEntry {
    /// What the file is for.
    pub role: String,
    /// A glob below `artifacts/`; it may begin with `artifacts/` or not.
    pub pattern: String,
    /// Its media type, where the skill states one.
    pub mime: Option<String>,
    /// Whether a run without it has failed.
    pub required: bool,
}

/// A file a run produced.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ArtifactEntry {
    /// What the file is for; `output` where the contract does not say.
    pub role: String,
    /// Its path in the run's folder, beginning with `artifacts/`.
    pub path_rel: String,
    /// The last part of the path.
    pub filename: String,
    /// Its media type.
    pub mime: String,
    /// Its length.
    pub size: u64,
    /// Its sha256 in hex.
    pub sha256: String,
    /// Whether the contract requires it.
    pub required: bool,
}

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
