//! How an engine is configured: the format of its files, its own layers, and what others may set.

use serde_json::Value;

use super::keys::Key;
use crate::bounded;
use crate::bounded::plain_names::PlainNames;
use crate::domain::request::ExecutionMode;

/// How an engine's configuration is written, and its lowest and highest layer.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Kind {
    pub(crate) format: Format,
    /// The skill's file when its manifest names none.
    pub(crate) skill_file: &'static str,
    /// What a skill or a request may set.
    pub(crate) allowed: &'static [Key],
    pub(crate) defaults: fn() -> Value,
    /// What stands in the engine's home until the operator writes something else there.
    pub(crate) home: fn() -> Value,
    pub(crate) enforced: fn(ExecutionMode) -> Value,
    /// The key of the model's name, with dots between its parts.
    pub(crate) model_key: &'static str,
    /// How hard the model thinks, for engines that can be told.
    pub(crate) effort: Option<Effort>,
    /// The operator's own configuration, below the engine's home.
    pub(crate) operator_file: &'static str,
    /// Variables by which an operator may name a model.
    pub(crate) model_variables: ModelVariables,
}

/// Variables that name a model, the first that is set counts, and what they are worth beside the operator's own configuration.
#[derive(Debug, Clone, Copy)]
pub(crate) enum ModelVariables {
    AboveTheFile(&'static [&'static str]),
    BelowTheFile(&'static [&'static str]),
    None,
}

/// Where the effort of a model stands.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Effort {
    pub(crate) key: &'static str,
    /// Whether a request may write it behind the model's name: `name@effort`.
    pub(crate) in_model: bool,
    /// A variable that stands above every configuration.
    pub(crate) variable: Option<&'static str>,
}

/// The format of a configuration file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Format {
    Toml,
    Json,
}

impl Format {
    /// What the name of such a file ends with.
    pub(crate) fn extension(self) -> &'static str {
        match self {
            Self::Toml => "toml",
            Self::Json => "json",
        }
    }

    /// The text of a file of this format as a JSON value.
    pub(crate) fn read(self, text: &str) -> Result<Value, String> {
        match self {
            Self::Toml => toml::from_str::<PlainNames>(text)
                .and_then(|PlainNames| toml::from_str(text))
                .map_err(|error| format!("it is not TOML: {error}")),
            Self::Json => bounded::json::from_str(text).map_err(|error| format!("it is not JSON: {error}")),
        }
    }
}
