//! Everything the runner knows about one agent CLI, as a value.

use serde_json::Value;

use super::config;
use super::home::SharedHome;
use super::launch::{Launch, LaunchPlan, PoliteSignal, Streams, path_text};
use super::login::Login;
use super::model_name::is_model_name;
use super::models::ModelCatalog;
use super::parser::{Dialect, TurnParser};
use super::report::TurnReport;
use super::session::HandleKind;
use super::structured::Structured;
use super::tools::{AllowedTool, NotKept, ToolControl};
use super::turn::{Turn, TurnRefused};
use crate::domain::codes::WarningCode;
use crate::domain::engine::Engine;
use crate::domain::outcome::{Usage, Warning};
use crate::domain::request::ExecutionMode;

/// Whether the service behind an engine still exists.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum State {
    Active,
    /// The service is closed; the engine runs only where a program is configured.
    Sunset,
}

impl State {
    /// The name in answers of the API.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Active => "active",
            Self::Sunset => "sunset",
        }
    }
}

/// The npm package of an engine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Install {
    pub package: &'static str,
    /// The version this adapter was measured with, which an upgrade installs.
    pub version: &'static str,
    /// The words that start it, before its arguments; `{prefix}` stands for the folder that holds `node_modules`.
    pub(crate) program: &'static [&'static str],
}

impl Install {
    /// The words that start the engine installed below `prefix`.
    pub fn program_in(&self, prefix: &str) -> Vec<String> {
        self.program.iter().map(|word| word.replace("{prefix}", prefix)).collect()
    }
}

#[derive(Debug)]
pub struct Adapter {
    pub(crate) engine: Engine,
    pub(crate) state: State,
    /// The package, when it can be installed.
    pub install: Option<Install>,
    /// Version of the parser, for `turn.started`.
    pub(crate) parser_version: &'static str,
    /// How to ask it to stop.
    pub(crate) polite: PoliteSignal,
    /// What it writes to: files, unless it is known to wait for its pipes.
    pub(crate) streams: Streams,
    /// The folder of the run from which it reads skills.
    pub(crate) skills_folder: &'static str,
    /// Files of the run's folder, besides those in its own, that it takes for its configuration.
    pub(crate) configured_by: &'static [&'static str],
    pub(crate) handle: HandleKind,
    pub(crate) config: config::Kind,
    pub(crate) login: Login,
    /// What of its home is the operator's.
    pub(crate) home: SharedHome,
    pub(crate) models: ModelCatalog,
    /// Its own structured output, where it has one.
    pub(crate) structured: Option<Structured>,
    /// The hosts of its model and its login, where the operator names no others.
    pub(crate) endpoints: &'static [&'static str],
    /// Whether it can confine its commands itself.
    pub(crate) has_sandbox: bool,
    /// How it is held to some of its tools.
    pub(crate) tools: ToolControl,
    /// Variables set whenever it is started: they switch off updates, telemetry and second processes.
    pub(crate) switches: &'static [(&'static str, &'static str)],
    pub(crate) launch: fn(&Adapter, &Turn<'_>) -> Result<LaunchPlan, TurnRefused>,
    pub(crate) dialect: fn(Usage) -> Box<dyn Dialect>,
    /// Parts of the messages with which it says that it does not know a session.
    pub(crate) lost_session_words: &'static [&'static str],
    /// The HTTP status of the model's service that an exit code stands for.
    pub(crate) http_status_of_exit: fn(i32) -> Option<u16>,
}

impl Adapter {
    pub fn name(&self) -> &'static str {
        self.engine.as_str()
    }

    /// What to start for a turn, and which files it needs before.
    pub(crate) fn launch(&self, turn: &Turn<'_>) -> Result<LaunchPlan, TurnRefused> {
        if let Some(handle) = turn.resume.filter(|handle| !self.handle.accepts(handle)) {
            let handle = handle.to_owned();
            return Err(TurnRefused::Handle { handle, kind: self.handle.name(), engine: self.engine });
        }
        let named = [config::model(&self.config, turn.config), config::effort(&self.config, turn.config)];
        if let Some(name) = named.into_iter().flatten().find(|name| !is_model_name(name)) {
            return Err(TurnRefused::Model { model: name.to_owned() });
        }
        (self.launch)(self, turn)
    }

    /// A plan with the environment every engine gets: the operator's variables first, then those that must hold.
    pub(crate) fn plan(&self, turn: &Turn<'_>, arguments: Vec<String>, variables: &[(&str, String)]) -> LaunchPlan {
        let argv: Vec<String> = turn.program.iter().cloned().chain(arguments).collect();
        let general = [
            ("PATH", turn.path.to_owned()),
            ("HOME", path_text(turn.engine_home)),
            ("TMPDIR", path_text(turn.tmp)),
            ("LANG", "C.UTF-8".to_owned()),
        ];
        let switches = self.switches.iter().map(|(name, value)| (*name, (*value).to_owned()));
        let mut env: Vec<(String, String)> = turn.env.to_vec();
        for (name, value) in general.into_iter().chain(switches).chain(variables.iter().cloned()) {
            env.retain(|(passed, _)| passed != name);
            env.push((name.to_owned(), value));
        }
        LaunchPlan {
            shown_argv: argv.clone(),
            launch: Launch {
                argv,
                env,
                cwd: turn.run_dir.to_owned(),
                stdin: turn.prompt.as_bytes().to_vec(),
                polite: self.polite,
                streams: self.streams,
                secrets: turn.secrets.to_vec(),
                own_tmp: false,
            },
            files: Vec::new(),
        }
    }

    /// The model that the configuration names.
    pub(crate) fn model<'a>(&self, turn: &Turn<'a>) -> Option<&'a str> {
        config::model(&self.config, turn.config)
    }

    /// A parser for one turn. `usage_before` is what the run has used in its earlier turns: some engines report the sum
    /// over the whole session, and the parser reports the difference.
    pub fn parser(&self, resumed_from: Option<&str>, usage_before: Usage) -> TurnParser {
        let report = TurnReport::new(self.handle.name(), resumed_from);
        // A new session counts from zero, whatever the run has used in another one.
        let usage_before = if resumed_from.is_some() { usage_before } else { Usage::default() };
        TurnParser::new((self.dialect)(usage_before), self.lost_session_words, report)
    }

    /// What it does not keep of the tools that a skill allows.
    pub(crate) fn does_not_keep(&self, tools: Option<&[AllowedTool]>) -> Vec<NotKept> {
        tools.map(|tools| self.tools.does_not_keep(tools)).unwrap_or_default()
    }

    /// The warning that each run on this engine gets.
    pub(crate) fn warning(&self) -> Option<Warning> {
        match self.state {
            State::Active => None,
            State::Sunset => {
                let message = format!("the service behind {} is closed; move to another engine", self.name());
                Some(Warning::new(WarningCode::EngineSunset, message))
            }
        }
    }
}

/// For engines whose exit code says nothing about the model's service.
pub(crate) fn no_http_status(_exit_code: i32) -> Option<u16> {
    None
}

impl Adapter {
    /// The schema that the engine itself is given. A turn that may ask has none: the engine would have to answer in the
    /// schema and could not ask its question.
    pub(crate) fn native_schema(&self, mode: ExecutionMode, schema: &Value) -> Option<Value> {
        match mode {
            ExecutionMode::Auto => self.structured.and_then(|structured| (structured.schema)(schema)),
            ExecutionMode::Interactive => None,
        }
    }

    /// The tool by which the model hands over a result of this schema, where there is one.
    pub(crate) fn result_tool(&self, mode: ExecutionMode, schema: &Value) -> Option<&'static str> {
        self.native_schema(mode, schema).and(self.structured).and_then(|structured| structured.tool)
    }
}
