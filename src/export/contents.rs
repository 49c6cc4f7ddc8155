//! `export.json`: what an export holds, each file with its length and hash.

use serde::{Deserialize, Serialize};

use crate::domain::ids::{RequestId, RunId};
use crate::domain::statechart::Status;

/// The format's name, which every export states.
pub(crate) const FORMAT: &str = "skill-runner-export/1";
/// The list's own name; it is the last file of an export.
pub(crate) const CONTENTS: &str = "export.json";

/// The run that is exported.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct About {
    pub(crate) run_id: RunId,
    /// The client's name for it.
    pub(crate) request_id: RequestId,
    pub(crate) status: Status,
    /// Events in its log.
    pub(crate) events: u64,
}

/// What an export holds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Contents {
    /// [`FORMAT`].
    pub(crate) format: String,
    pub(crate) run_id: RunId,
    /// The client's name for it.
    pub(crate) request_id: RequestId,
    pub(crate) status: Status,
    /// Events in its log.
    pub(crate) events: u64,
    /// Every file but this one, sorted by path.
    pub(crate) files: Vec<Listed>,
}

/// A file of an export.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Listed {
    /// Its path in the run's folder.
    pub(crate) path: String,
    pub(crate) size: u64,
    /// Its sha256 in hex.
    pub(crate) sha256: String,
}

impl Contents {
    pub(crate) fn new(about: About, files: Vec<Listed>) -> Self {
        let About { run_id, request_id, status, events } = about;
        Self { format: FORMAT.to_owned(), run_id, request_id, status, events, files }
    }

    /// The list as text; the same list gives the same bytes.
    pub(crate) fn to_bytes(&self) -> Vec<u8> {
        // A list of texts and numbers always becomes JSON.
        let mut text = serde_json::to_vec_pretty(self).unwrap_or_default();
        text.push(b'\n');
        text
    }
}
