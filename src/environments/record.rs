//! The record of an environment: what is in it and what it was made with.

use std::fs::{self, File, FileTimes};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use serde::{Deserialize, Serialize};

use crate::bounded;
use crate::files;

const NAME: &str = "environment.json";
/// Longest record that is read.
const LENGTH_MAX: u64 = 4 * 1024 * 1024;
/// How exactly the last use is known: a use is written down at most so often.
const USE_NOTED: Duration = Duration::from_secs(3600);

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Record {
    pub(super) id: String,
    pub(super) requirements: Vec<String>,
    pub(super) requires_python: Option<String>,
    /// The version of its Python.
    pub(super) python: String,
    /// The program that its Python leads to: another one, or none, makes the environment unusable.
    pub(super) interpreter: PathBuf,
    pub(super) installer: String,
    /// What is installed, as `name==version`.
    pub(super) packages: Vec<String>,
    pub(super) bytes: u64,
}

impl Record {
    /// The record of an environment that can be used.
    pub(super) fn usable(folder: &Path) -> Option<Self> {
        let record = Self::read(folder)?;
        let whole = folder.file_name().is_some_and(|name| name == record.id.as_str());
        let leads_to = python(folder).canonicalize().ok()?;
        (whole && leads_to == record.interpreter).then_some(record)
    }

    pub(super) fn read(folder: &Path) -> Option<Self> {
        let bytes = files::read_regular(&folder.join(NAME), LENGTH_MAX).ok().flatten()?;
        bounded::json::from_slice(&bytes).ok()
    }

    /// From now on the environment counts.
    pub(super) fn write(&self, folder: &Path) -> Result<(), files::Error> {
        let text = serde_json::to_vec_pretty(self).unwrap_or_default();
        files::write_durably(&folder.join(NAME), &text)
    }
}

/// The folder that holds the environment's programs.
pub(super) fn programs(folder: &Path) -> PathBuf {
    virtual_environment(folder).join("bin")
}

/// The environment itself, beside its record.
pub(super) fn virtual_environment(folder: &Path) -> PathBuf {
    folder.join("venv")
}

/// Its Python.
pub(super) fn python(folder: &Path) -> PathBuf {
    programs(folder).join("python")
}

/// When the environment was last used, about.
pub(super) fn last_used(folder: &Path) -> Option<SystemTime> {
    fs::symlink_metadata(folder.join(NAME)).and_then(|found| found.modified()).ok()
}

/// Notes that the environment is used now.
pub(super) fn note_use(folder: &Path) {
    let now = SystemTime::now();
    let recent = |used: SystemTime| now.duration_since(used).is_ok_and(|age| age < USE_NOTED);
    if !last_used(folder).is_some_and(recent) {
        // If it fails, the environment is removed earlier and made again.
        let _ = File::options()
            .append(true)
            .open(folder.join(NAME))
            .and_then(|record| record.set_times(FileTimes::new().set_modified(now)));
    }
}
