//! How runs end: errors, warnings, usage, and the proof that makes a log checkable.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::codes::{ErrorCode, WarningCode};
use super::validation::NormalizationLevel;

/// Longest message of an error, in characters; a script may write megabytes.
const MESSAGE_MAX: usize = 4000;
/// Longest particulars of an error, in bytes of JSON.
const DETAILS_MAX: usize = 64 * 1024;

/// Longest message, in characters, and longest particulars, in bytes of JSON, of a warning in a run's row.
const BRIEF_MESSAGE_MAX: usize = 500;
const BRIEF_DETAILS_MAX: usize = 1024;

/// Why a run failed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RunError {
    /// For programs: the text of an `ErrorCode`, or a script's own.
    pub code: String,
    /// For people: what was wrong and what to do.
    pub(crate) message: String,
    pub(crate) details: Map<String, Value>,
}

impl RunError {
    /// An error without particulars.
    pub(crate) fn new(code: ErrorCode, message: impl Into<String>) -> Self {
        Self { code: code.as_str().to_owned(), message: message.into(), details: Map::new() }
    }

    /// An error that a script reported, with a code of its own, cut to what an event may carry.
    pub(crate) fn of_script(code: String, message: String, details: Map<String, Value>) -> Self {
        Self { code, message, details }.bounded()
    }

    /// The same error, cut to what an event may carry; the raw output has the rest.
    #[must_use]
    pub(crate) fn bounded(mut self) -> Self {
        if self.message.len() > MESSAGE_MAX && self.message.chars().count() > MESSAGE_MAX {
            self.message = self.message.chars().take(MESSAGE_MAX).chain(['…']).collect();
        }
        let text = Value::Object(self.details.clone()).to_string();
        if text.len() > DETAILS_MAX {
            let preview: String = text.chars().take(MESSAGE_MAX).collect();
            self.details = Map::from_iter([
                ("truncated".to_owned(), Value::Bool(true)),
                ("preview".to_owned(), Value::String(preview)),
            ]);
        }
        self
    }

    /// The same error with one more particular.
    #[must_use]
    pub(crate) fn with(mut self, key: &str, value: impl Into<Value>) -> Self {
        self.details.insert(key.to_owned(), value.into());
        self
    }
}

/// How serious a warning is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum WarningLevel {
    Info,
    Warning,
}

/// Data of `diagnostic.warning`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Warning {
    pub code: String,
    pub(crate) message: String,
    /// How serious it is.
    pub(crate) level: WarningLevel,
    /// The normalization level that caused it.
    pub(crate) normalization_level: Option<NormalizationLevel>,
    pub details: Map<String, Value>,
}

impl Warning {
    /// The same warning as a run's row keeps it, which is written with every event; the event has it whole.
    #[must_use]
    pub(crate) fn in_brief(&self) -> Self {
        let mut brief = self.clone();
        if brief.message.chars().count() > BRIEF_MESSAGE_MAX {
            brief.message = brief.message.chars().take(BRIEF_MESSAGE_MAX).chain(['…']).collect();
        }
        if Value::Object(brief.details.clone()).to_string().len() > BRIEF_DETAILS_MAX {
            brief.details = Map::from_iter([("truncated".to_owned(), Value::Bool(true))]);
        }
        brief
    }

    /// A warning outside normalization, without particulars.
    pub fn new(code: WarningCode, message: impl Into<String>) -> Self {
        Self {
            code: code.as_str().to_owned(),
            message: message.into(),
            level: WarningLevel::Warning,
            normalization_level: None,
            details: Map::new(),
        }
    }
}

/// What proved that a run succeeded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Completion {
    DoneMarker,
    /// Output that passes the schema.
    Schema,
    /// The engine's own end.
    Exit,
    /// An equal run's result.
    Cache,
}

/// Tokens and money, as the engine reports them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Usage {
    pub(crate) input_tokens: u64,
    /// Of those, from the engine's cache.
    pub(crate) cached_input_tokens: u64,
    pub(crate) output_tokens: u64,
    /// What it cost, where the engine tells.
    pub(crate) cost_usd: Option<f64>,
}

impl Usage {
    #[must_use]
    pub(crate) fn plus(self, other: Usage) -> Usage {
        Usage {
            input_tokens: self.input_tokens.saturating_add(other.input_tokens),
            cached_input_tokens: self.cached_input_tokens.saturating_add(other.cached_input_tokens),
            output_tokens: self.output_tokens.saturating_add(other.output_tokens),
            cost_usd: match (self.cost_usd, other.cost_usd) {
                (None, None) => None,
                // JSON knows no infinite number, and an event with one is no event.
                (a, b) => Some((a.unwrap_or(0.0) + b.unwrap_or(0.0)).min(f64::MAX)),
            },
        }
    }
}

/// A whole stream file, by length and hash.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StreamProof {
    /// Bytes in the file.
    pub bytes: u64,
    /// Hash of the file, in hexadecimal.
    pub sha256: String,
}

/// Who vouches for a finished run: a signature over every byte of its last event but this member.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProofSignature {
    /// The key of the data folder, in hexadecimal.
    pub public_key: String,
    /// The signature, in hexadecimal.
    pub ed25519: String,
}

/// What makes a run checkable from its export alone.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Proof {
    /// Events before the terminal one.
    pub(crate) events: u64,
    /// Hash chain over their stored bytes.
    pub(crate) chain_sha256: String,
    pub(crate) streams: BTreeMap<String, StreamProof>,
    /// Hash of the artifact manifest.
    pub(crate) artifacts_sha256: String,
    /// Hash of the list of every other file that the run is judged or served by, and of its artifacts; see
    /// [`ProvenFile`](super::proven_file::ProvenFile). Logs of older versions have none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) files_sha256: Option<String>,
    /// Hash of the result's file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) result_sha256: Option<String>,
    /// The last member, always. Logs of older versions have none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) signature: Option<ProofSignature>,
}

/// The part of a proof that comes from files; the log adds the rest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Evidence {
    pub streams: BTreeMap<String, StreamProof>,
    /// Hash of the artifact manifest.
    pub artifacts_sha256: String,
    /// Hash of the list of files.
    pub files_sha256: String,
    /// Hash of the result's file.
    pub result_sha256: String,
}
