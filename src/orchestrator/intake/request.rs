//! A request for a run, as a client makes it.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::domain::request::ExecutionMode;

/// Body of `POST /v1/jobs` and, without the skill's id, of `POST /v1/temp-skill-runs`. Unknown keys are refused.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CreateRequest {
    /// Which skill.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub skill_id: Option<String>,
    /// Which engine; left out: the skill's first that is ready.
    #[serde(default)]
    pub engine: Option<String>,
    /// Inline inputs.
    #[serde(default)]
    pub input: Option<Map<String, Value>>,
    /// Parameters.
    #[serde(default)]
    pub parameter: Option<Map<String, Value>>,
    /// Which model.
    #[serde(default)]
    pub model: Option<String>,
    /// How to run it.
    #[serde(default)]
    pub runtime_options: OptionsRequest,
    /// Configuration for the engine, by engine.
    #[serde(default)]
    pub codex_config: Option<Map<String, Value>>,
    /// Configuration for the engine, by engine.
    #[serde(default)]
    pub gemini_config: Option<Map<String, Value>>,
    /// Configuration for the engine, by engine.
    #[serde(default)]
    pub opencode_config: Option<Map<String, Value>>,
    /// Configuration for the engine, by engine.
    #[serde(default)]
    pub iflow_config: Option<Map<String, Value>>,
    /// Configuration for the engine, by engine.
    #[serde(default)]
    pub claude_config: Option<Map<String, Value>>,
    /// Configuration for the engine, by engine.
    #[serde(default)]
    pub qwen_config: Option<Map<String, Value>>,
    /// Whether to wait for an upload; left out: when a file is required.
    #[serde(default)]
    pub await_upload: Option<bool>,
}

/// The options a client gave; what is left out has a default.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(
    missing_docs,
    reason = "each field is documented where its value in force is: domain::request::RuntimeOptions"
)]
pub struct OptionsRequest {
    #[serde(default)]
    pub execution_mode: Option<ExecutionMode>,
    #[serde(default)]
    pub no_cache: Option<bool>,
    #[serde(default)]
    pub debug: Option<bool>,
    #[serde(default)]
    pub debug_keep_temp: Option<bool>,
    #[serde(default)]
    pub verbose: Option<bool>,
    #[serde(default)]
    pub interactive_auto_reply: Option<bool>,
    #[serde(default)]
    pub interactive_reply_timeout_sec: Option<u64>,
    #[serde(default)]
    pub hard_timeout_seconds: Option<u64>,
    #[serde(default)]
    pub stall_timeout_seconds: Option<u64>,
}

impl CreateRequest {
    /// The configuration for an engine.
    pub fn engine_config(&self, engine: &str) -> Option<&Map<String, Value>> {
        match engine {
            "codex" => self.codex_config.as_ref(),
            "gemini" => self.gemini_config.as_ref(),
            "opencode" => self.opencode_config.as_ref(),
            "iflow" => self.iflow_config.as_ref(),
            "claude" => self.claude_config.as_ref(),
            "qwen" => self.qwen_config.as_ref(),
            _ => None,
        }
    }
}
