//! One turn of an engine: what it depends on, what is to be started, and why it may be refused.

use std::path::{Path, PathBuf};

use serde_json::Value;

use super::adapter::Adapter;
use super::config;
use super::launch::Launch;
use crate::domain::outcome::{RunError, code};
use crate::domain::request::ExecutionMode;

/// A configuration the engine cannot be given.
pub const ENGINE_CONFIG_INVALID: &str = "ENGINE_CONFIG_INVALID";

/// Everything a turn depends on. Nothing else is read: no file, no clock, no environment.
#[derive(Debug, Clone)]
pub struct Turn<'a> {
    /// The words that start the engine, before its arguments.
    pub program: &'a [String],
    /// The run's folder; the working directory.
    pub run_dir: &'a Path,
    /// The engine's own home; it holds its login and its sessions, and is the same in every turn.
    pub engine_home: &'a Path,
    /// Temporary files of this turn; it must not lie above `engine_home`.
    pub tmp: &'a Path,
    /// Where programs are looked for.
    pub path: &'a str,
    /// Variables passed through by the operator: keys and endpoints. They win over nothing set here.
    pub env: &'a [(String, String)],
    /// What the engine is told.
    pub prompt: &'a str,
    /// The model asked for.
    pub model: Option<&'a str>,
    /// The session to go on with.
    pub resume: Option<&'a str>,
    /// The merged configuration, see [`config::merge`].
    pub config: &'a Value,
    /// With or without questions.
    pub mode: ExecutionMode,
    /// What the output must be, and where to put the file for engines that read it from one.
    pub output_schema: Option<OutputSchema<'a>>,
    /// Whether the engine's own sandbox, where it has one, is to be used.
    pub own_sandbox: bool,
    /// Whether commands may use the network, where the engine's own sandbox can tell.
    pub network: bool,
}

/// An output schema and a place for its file.
#[derive(Debug, Clone, Copy)]
pub struct OutputSchema<'a> {
    /// The schema.
    pub value: &'a Value,
    /// Where its file goes, when the engine wants one.
    pub path: &'a Path,
}

/// A file the engine needs before it starts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfigFile {
    /// Where.
    pub path: PathBuf,
    /// What.
    pub bytes: Vec<u8>,
    /// Whether a file that is already there stays: the operator's own choices live there.
    pub keep_existing: bool,
}

impl ConfigFile {
    /// A file of the run, written anew.
    pub(super) fn of_run(path: PathBuf, value: &Value) -> Self {
        Self { path, bytes: format!("{value:#}\n").into_bytes(), keep_existing: false }
    }

    /// A file of the engine's home, written only when there is none.
    pub(super) fn of_home(path: PathBuf, value: &Value) -> Self {
        Self { keep_existing: true, ..Self::of_run(path, value) }
    }
}

/// What to start, and what to write before.
#[derive(Debug, Clone, PartialEq)]
pub struct LaunchPlan {
    /// The process.
    pub launch: Launch,
    /// Program and arguments as they may be logged.
    pub shown_argv: Vec<String>,
    /// Files to write first.
    pub files: Vec<ConfigFile>,
    /// The configuration in force, secrets masked, for the run's records.
    pub recorded_config: Value,
}

/// A turn that cannot be started as asked.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TurnRefused {
    /// The session's handle is not one of this engine's.
    #[error("{handle:?} cannot be a {kind} of {engine}")]
    Handle {
        /// The handle.
        handle: String,
        /// What it should be.
        kind: &'static str,
        /// Whose.
        engine: &'static str,
    },
    /// The model's name cannot be handed over.
    #[error("{model:?} cannot be the name of a model")]
    Model {
        /// The name.
        model: String,
    },
    /// The configuration cannot be handed over.
    #[error("{key}: {reason}")]
    Config {
        /// Where.
        key: String,
        /// Why.
        reason: String,
    },
}

impl From<TurnRefused> for RunError {
    fn from(refused: TurnRefused) -> Self {
        let code = match &refused {
            TurnRefused::Handle { .. } => code::SESSION_RESUME_FAILED,
            TurnRefused::Model { .. } | TurnRefused::Config { .. } => ENGINE_CONFIG_INVALID,
        };
        RunError::new(code, refused.to_string())
    }
}

impl Turn<'_> {
    pub(super) fn check(&self, adapter: &Adapter) -> Result<(), TurnRefused> {
        if let Some(handle) = self.resume.filter(|handle| !adapter.handle.accepts(handle)) {
            let handle = handle.to_owned();
            return Err(TurnRefused::Handle { handle, kind: adapter.handle.name(), engine: adapter.name });
        }
        if let Some(model) = self.model.filter(|model| !is_model_name(model)) {
            return Err(TurnRefused::Model { model: model.to_owned() });
        }
        Ok(())
    }

    /// The schema for the engine's own structured output. A turn that may ask has none: the engine would be
    /// held to the schema and could not put its question.
    pub(super) fn native_schema(&self) -> Option<OutputSchema<'_>> {
        match self.mode {
            ExecutionMode::Auto => self.output_schema,
            ExecutionMode::Interactive => None,
        }
    }

    /// A plan with the environment every engine gets: the operator's variables first, then what must hold.
    pub(super) fn plan(&self, adapter: &Adapter, arguments: Vec<String>, variables: &[(&str, String)]) -> LaunchPlan {
        let argv: Vec<String> = self.program.iter().cloned().chain(arguments).collect();
        let own = [
            ("PATH", self.path.to_owned()),
            ("HOME", shown(self.engine_home)),
            ("TMPDIR", shown(self.tmp)),
            ("LANG", "C.UTF-8".to_owned()),
        ];
        let mut env: Vec<(String, String)> = self.env.to_vec();
        for (name, value) in own.iter().chain(variables) {
            env.retain(|(passed, _)| passed != name);
            env.push(((*name).to_owned(), value.clone()));
        }
        LaunchPlan {
            shown_argv: argv.clone(),
            launch: Launch {
                argv,
                env,
                cwd: self.run_dir.to_owned(),
                stdin: self.prompt.as_bytes().to_vec(),
                polite: adapter.polite,
            },
            files: Vec::new(),
            recorded_config: config::masked(self.config),
        }
    }
}

/// A path as an argument; paths of the runner are UTF-8.
pub(super) fn shown(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}

fn is_model_name(model: &str) -> bool {
    !model.is_empty() && model.len() <= 200 && !model.starts_with('-') && !model.chars().any(char::is_control)
}

/// Words as arguments.
pub(super) fn words(words: &[&str]) -> Vec<String> {
    words.iter().map(|word| (*word).to_owned()).collect()
}
