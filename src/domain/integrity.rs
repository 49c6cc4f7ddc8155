//! What is known to be damaged of a run.

use serde::{Deserialize, Serialize};

use super::time::Timestamp;

/// A stored file that is not what it was.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DamagedFile {
    /// Its path in the run's folder, or in the data folder for what is outside of it.
    pub file: String,
    pub message: String,
    pub found_at: Timestamp,
}

/// The damage that was found in a run's stored files.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Integrity {
    pub damaged: Vec<DamagedFile>,
}
