//! What a client asked for: skill, mode, options, files.

use std::collections::BTreeMap;

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

/// Who a run is for, as its script is told; what is left out has the runner's own value.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Caller {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) user_id: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) agent_id: Option<String>,
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
    /// Whether and how often a turn that its model's service refused is begun again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) retry: Option<Retry>,
}

/// How a turn is begun again that failed before its engine used any tool, because the model's service takes no more requests or
/// cannot be reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Retry {
    /// Most times.
    pub(crate) times: u32,
    /// Seconds before the first time; twice as many before each further one, and never fewer than the service asks for.
    #[serde(default = "thirty")]
    pub(crate) backoff_seconds: u64,
}

fn thirty() -> u64 {
    30
}

impl Retry {
    pub(crate) fn new(times: u32, backoff_seconds: Option<u64>) -> Self {
        Self { times, backoff_seconds: backoff_seconds.unwrap_or_else(thirty) }
    }

    /// Seconds to wait, after so many retries, if the service asks for so many.
    pub(crate) fn wait_seconds(self, retries: u32, asked: Option<u64>) -> u64 {
        let doubled = self.backoff_seconds.saturating_mul(1u64 << retries.min(32));
        doubled.min(WAIT_MAX_SECONDS).max(asked.unwrap_or(0))
    }
}

/// The longest pause before a turn is begun again: a week.
pub(crate) const WAIT_MAX_SECONDS: u64 = 7 * 24 * 3600;

/// Values that a request left out and the skill's schemas supplied, each by its JSON pointer.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Defaults {
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) input: BTreeMap<String, Value>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) parameter: BTreeMap<String, Value>,
}

impl Defaults {
    pub(crate) fn is_empty(&self) -> bool {
        self.input.is_empty() && self.parameter.is_empty()
    }

    /// Supplies them.
    pub(crate) fn fill(&self, input: &mut Map<String, Value>, parameter: &mut Map<String, Value>) {
        for (fields, values) in [(input, &self.input), (parameter, &self.parameter)] {
            let mut whole = Value::Object(std::mem::take(fields));
            for (pointer, value) in values {
                let Some((parent, name)) = pointer.rsplit_once('/') else { continue };
                if let Some(Value::Object(parent)) = whole.pointer_mut(parent) {
                    parent.insert(name.replace("~1", "/").replace("~0", "~"), value.clone());
                }
            }
            if let Value::Object(filled) = whole {
                *fields = filled;
            }
        }
    }
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
    /// The name that the client's file had, where that is another one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file_name: Option<String>,
}
