//! What a client asked for: skill, mode, options, files.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// Which skill, and which content of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SkillRef {
    pub(crate) id: String,
    pub(crate) version: String,
    /// Hash of the package's content.
    pub(crate) fingerprint: String,
}

/// With or without questions to the user.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ExecutionMode {
    /// From start to end on its own.
    Auto,
    /// The engine may ask.
    Interactive,
}

impl ExecutionMode {
    /// As it is written.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            ExecutionMode::Auto => "auto",
            ExecutionMode::Interactive => "interactive",
        }
    }
}

/// All options of a run, with their values in force.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RuntimeOptions {
    /// With or without questions.
    pub(crate) execution_mode: ExecutionMode,
    /// Neither read nor write the cache.
    pub(crate) no_cache: bool,
    /// Keep and bundle everything.
    pub debug: bool,
    /// Keep a temporary skill.
    pub(crate) debug_keep_temp: bool,
    pub(crate) verbose: bool,
    /// Decide by policy when nobody answers in time.
    pub interactive_auto_reply: bool,
    /// How long that is.
    pub interactive_reply_timeout_sec: u64,
    /// Wall clock of one turn.
    pub(crate) hard_timeout_seconds: u64,
    /// Longest silence of an engine; 0 = any.
    pub(crate) stall_timeout_seconds: u64,
}

/// What an engine was told besides its prompt, whoever chose it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Passed {
    /// The model; none when the engine chose it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) model: Option<String>,
    /// How hard the model is to think.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) effort: Option<String>,
    /// The rest of its configuration.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub(crate) options: Map<String, Value>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct UploadedFile {
    /// The input field it is for.
    pub name: String,
    pub size: u64,
    /// Hash of its bytes, in hexadecimal.
    pub sha256: String,
}
