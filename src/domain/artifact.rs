//! An artifact as the log, the manifest and the result name it.

use serde::{Deserialize, Serialize};

/// One file of a run's `artifacts/`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct ArtifactEntry {
    /// What it is for.
    pub role: String,
    /// Path in the run's folder; begins with `artifacts/`.
    pub path_rel: String,
    /// Last part of the path.
    pub filename: String,
    pub mime: String,
    pub size: u64,
    /// Hash of its bytes, in hexadecimal.
    pub sha256: String,
    /// Whether the skill promised it.
    pub required: bool,
}
