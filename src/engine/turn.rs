//! One turn of an agent CLI: everything it depends on, and why it may be refused.

use std::path::Path;

use serde_json::Value;

use crate::domain::codes::ErrorCode;
use crate::domain::engine::Engine;
use crate::domain::outcome::RunError;
use crate::domain::request::ExecutionMode;
use crate::engine::tools::AllowedTool;

/// Everything a turn depends on. Nothing else is read: no file, no clock, no environment.
#[derive(Debug, Clone)]
pub(crate) struct Turn<'a> {
    /// The words that start the engine, before its arguments.
    pub(crate) program: &'a [String],
    /// The run's folder; the working directory.
    pub(crate) run_dir: &'a Path,
    /// The engine's own home; it holds its login and its sessions, and is the same in every turn.
    pub(crate) engine_home: &'a Path,
    /// Temporary files of this turn; it must not lie above `engine_home`.
    pub(crate) tmp: &'a Path,
    /// The PATH of the engine.
    pub(crate) path: &'a str,
    /// Variables the operator passes through: keys and endpoints. The adapter's own variables win over them.
    pub(crate) env: &'a [(String, String)],
    /// Whether a login by hand has left its file in the engine's home.
    pub(crate) has_login: bool,
    /// Secrets among these and in the engine's home, to be masked in its output.
    pub(crate) secrets: &'a [String],
    pub(crate) prompt: &'a str,
    /// The session to continue.
    pub(crate) resume: Option<&'a str>,
    /// The merged configuration with the model in it, see [`super::config::merge`].
    pub(crate) config: &'a Value,
    /// The same as it may be shown: see [`super::config::Operator::shown`].
    pub(crate) shown_config: &'a Value,
    pub(crate) mode: ExecutionMode,
    pub(crate) output_schema: Option<OutputSchema<'a>>,
    /// Whether to use the engine's own sandbox, where it has one.
    pub(crate) own_sandbox: bool,
    /// Whether commands may use the network, where the engine's own sandbox can restrict it.
    pub(crate) network: bool,
    /// The tools that its model may use, where the skill names some.
    pub(crate) tools: Option<&'a [AllowedTool]>,
}

/// The schema of the output.
#[derive(Debug, Clone, Copy)]
pub(crate) struct OutputSchema<'a> {
    pub(crate) value: &'a Value,
    /// Where its file goes, for an engine that reads it from one.
    pub(crate) path: &'a Path,
}

/// A turn that cannot be started as asked.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum TurnRefused {
    #[error("{handle:?} cannot be a {kind} of {engine}")]
    Handle { handle: String, kind: &'static str, engine: Engine },
    #[error("{model:?} cannot be the name of a model")]
    Model { model: String },
    #[error("{key}: {reason}")]
    Config { key: String, reason: String },
}

impl From<TurnRefused> for RunError {
    fn from(refused: TurnRefused) -> Self {
        let code = match &refused {
            TurnRefused::Handle { .. } => ErrorCode::SessionResumeFailed,
            TurnRefused::Model { .. } | TurnRefused::Config { .. } => ErrorCode::EngineConfigInvalid,
        };
        RunError::new(code, refused.to_string())
    }
}
