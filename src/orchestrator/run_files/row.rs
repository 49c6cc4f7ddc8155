//! The row of a run that names its shared files.

use std::collections::BTreeMap;

use bytes::Bytes;
use serde::{Deserialize, Serialize};

use crate::blobs::Blob;
use crate::bounded;
use crate::domain::fact::Stream;
use crate::domain::ids::RunId;
use crate::domain::run_file::RunFile;
use crate::orchestrator::error::Error;
use crate::store::{IndexChange, IndexKey};

/// Longest manifest that is read.
pub(super) const MANIFEST_MAX: u64 = 512 << 20;

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Row {
    /// An archive of the files of a run that goes on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub files: Option<Blob>,
    /// An archive of the skill that it shares with other runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub skill: Option<Blob>,
    /// The files of a run that is over.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub end: Option<EndFiles>,
    /// Its sealed log.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sealed: Option<Blob>,
}

/// The files of a finished run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct EndFiles {
    /// It lists all others but these.
    pub manifest: Blob,
    /// Raw output, by the names of the files.
    pub streams: BTreeMap<String, Blob>,
}

impl Row {
    pub(crate) fn read(run: RunId, row: &[u8]) -> Result<Self, Error> {
        let row: Self = bounded::json::from_slice(row).map_err(|error| unreadable(run, &error))?;
        match row.end.as_ref().and_then(EndFiles::flaw) {
            Some(flaw) => Err(corrupt(run, flaw)),
            None => Ok(row),
        }
    }

    pub(crate) fn put(&self, run: RunId) -> Result<IndexChange, Error> {
        let row = serde_json::to_vec(self).map_err(|error| unreadable(run, &error))?;
        Ok(IndexChange::Put(IndexKey::Snapshot(run), Bytes::from(row)))
    }
}

impl EndFiles {
    /// Each is written to the run's folder under its name, and the manifest is held in memory.
    fn flaw(&self) -> Option<String> {
        let known = [Stream::Stdout, Stream::Stderr, Stream::Pty].map(|stream| RunFile::of_stream(stream).name());
        if let Some(other) = self.streams.keys().find(|name| !known.contains(&name.as_str())) {
            let other: String = other.chars().take(100).collect();
            return Some(format!("{other:?} is no file of raw output"));
        }
        let size = self.manifest.size;
        (size > MANIFEST_MAX).then(|| format!("a manifest has no {size} bytes"))
    }
}

fn unreadable(run: RunId, error: &dyn std::error::Error) -> Error {
    corrupt(run, error)
}

fn corrupt(run: RunId, reason: impl std::fmt::Display) -> Error {
    Error::Corrupt { run: run.to_string(), message: format!("the row of its shared files: {reason}") }
}
