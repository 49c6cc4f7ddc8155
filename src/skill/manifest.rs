//! `assets/runner.json`, typed: the execution contract after the lint has accepted it.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::automation::Automation;
use crate::domain::engine::Engine;

/// The path of the manifest in a package.
pub const PATH: &str = "assets/runner.json";

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Manifest {
    pub(crate) id: String,
    pub(crate) version: String,
    /// A title for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) name: Option<String>,
    /// The engines it runs on; all when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) engines: Option<Vec<Engine>>,
    /// Engines excluded from those.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) unsupported_engines: Vec<Engine>,
    /// The modes in which it can run.
    pub(crate) execution_modes: Vec<ExecutionMode>,
    /// How many attempts an interactive run may take.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) max_attempt: Option<u32>,
    pub entrypoint: Entrypoint,
    /// The paths of the schemas.
    pub(crate) schemas: SchemaPaths,
    /// The artifacts a run produces; when empty, the output schema names them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) artifacts: Vec<DeclaredArtifact>,
    #[serde(default)]
    pub(crate) automation: Automation,
    /// The skill's own N1 step.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) normalizer: Option<OutputCommand>,
    /// The skill's own N2 step.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) fallback: Option<OutputCommand>,
    /// A configuration file of the package for each engine.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) engine_configs: BTreeMap<Engine, String>,
    /// The only models that requests may name, for the engines listed here.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) models: BTreeMap<Engine, Vec<String>>,
    #[serde(default)]
    pub(crate) runtime: Runtime,
}

impl Manifest {
    /// Whether commands of the skill's own run beside an engine.
    pub(crate) fn has_scripts(&self) -> bool {
        self.entrypoint.kind != EntrypointKind::Prompt || self.normalizer.is_some() || self.fallback.is_some()
    }
}

pub(crate) use crate::domain::request::ExecutionMode;

/// What a run starts.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Entrypoint {
    /// Prompt, script or both.
    #[serde(rename = "type")]
    pub(crate) kind: EntrypointKind,
    /// The prompt for every engine.
    #[serde(default)]
    pub(crate) prompt: Prompt,
    /// Templates for single engines.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) prompts: BTreeMap<Engine, String>,
    /// The script; always there for script and hybrid.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub script: Option<Script>,
}

impl Entrypoint {
    /// Whether it says what an engine is told.
    pub(crate) fn has_prompt(&self) -> bool {
        self.prompt != Prompt::default() || !self.prompts.is_empty()
    }

    /// What is started on an engine: a script that brings a prompt is carried by that on every engine but `script`.
    pub(crate) fn kind_on(&self, engine: &str) -> EntrypointKind {
        if self.kind == EntrypointKind::Script && engine != Engine::Script.as_str() {
            EntrypointKind::Prompt
        } else {
            self.kind
        }
    }
}

/// The three kinds of skills.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum EntrypointKind {
    /// An engine does the work.
    Prompt,
    /// A script does the work, without any model.
    Script,
    /// An engine first, then a script.
    Hybrid,
}

/// How a prompt is made and where its result is found.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Prompt {
    /// A path in the package, or the text itself: see [`Template::of`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) template: Option<String>,
    /// Where the engine is told to leave its result.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) result_mode: Option<ResultMode>,
    /// The result's path in the run, when it is not `result/result.json`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) result_file: Option<String>,
    /// Whether the output contract is appended to the skill's own template; it is when this is absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) contract: Option<bool>,
}

/// Where an engine leaves its result.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum ResultMode {
    /// In a file of the run.
    File,
    /// In its last message.
    Stdout,
    /// Its last message itself, where that holds no JSON.
    Message,
}

/// The command of a script.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Script {
    /// Words without a shell.
    pub command: String,
    /// The protocol's action when the caller names none; `run` when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) action: Option<String>,
}

/// Paths of the schemas; a path left out means `assets/<kind>.schema.json`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct SchemaPaths {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) input: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) parameter: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) output: Option<String>,
}

/// One entry of `artifacts`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct DeclaredArtifact {
    /// What it is for; `output` when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) role: Option<String>,
    /// A glob, with or without `artifacts/` before it.
    pub(crate) pattern: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) mime: Option<String>,
    /// Whether a run without it has failed.
    #[serde(default)]
    pub(crate) required: bool,
}

/// A command that turns raw output into a result.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct OutputCommand {
    /// Words without a shell.
    pub(crate) command: String,
    /// Whether it is used.
    #[serde(default = "yes")]
    pub(crate) enabled: bool,
}

fn yes() -> bool {
    true
}

/// Defaults for runs of this skill.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Runtime {
    /// Runtime options, overridden by the caller's.
    #[serde(default)]
    pub(crate) default_options: Map<String, Value>,
    /// What the commands of the skill need of Python.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) python: Option<PythonPackages>,
}

/// `runtime.python`: an environment for the skill's commands.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct PythonPackages {
    /// The packages to install.
    pub(crate) requirements: Requirements,
    /// The versions of Python that fit, such as `>=3.10`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) python: Option<String>,
}

/// Requirements in the manifest, or in a file of the package.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Value", into = "Value")]
pub(crate) enum Requirements {
    Listed(Vec<String>),
    /// Its path in the package.
    File(String),
}

impl TryFrom<Value> for Requirements {
    type Error = serde_json::Error;

    fn try_from(written: Value) -> Result<Self, Self::Error> {
        match written {
            Value::String(path) => Ok(Self::File(path)),
            other => serde_json::from_value(other).map(Self::Listed),
        }
    }
}

impl From<Requirements> for Value {
    fn from(requirements: Requirements) -> Self {
        match requirements {
            Requirements::Listed(lines) => lines.into(),
            Requirements::File(path) => path.into(),
        }
    }
}

/// A template as a manifest writes it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Template<'a> {
    Inline(&'a str),
    /// A path in the package.
    Path(&'a str),
}

impl<'a> Template<'a> {
    /// Text with `{{` or a newline is the template, anything else its path.
    pub(crate) fn of(written: &'a str) -> Self {
        if written.contains("{{") || written.contains('\n') { Self::Inline(written) } else { Self::Path(written) }
    }
}
