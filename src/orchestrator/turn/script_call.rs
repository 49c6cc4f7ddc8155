//! How a skill's script is called.

use serde_json::{Map, Value};

use crate::domain::request::Caller;
use crate::domain::state::RunState;
use crate::engine::{Launch, script};
use crate::orchestrator::shared::Shared;
use crate::orchestrator::turn::confine;
use crate::orchestrator::turn::process::Stage;
use crate::orchestrator::turn::reader::TurnReader;
use crate::skill::Skill;
use crate::skill::python::Command;
use crate::workspace::RunPaths;

/// Where programs are looked for when the service itself was started without a PATH.
const DEFAULT_PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// A script's call, as far as it is known before the engine runs.
pub(crate) struct ScriptCall {
    pub argv: Vec<String>,
    pub python: PythonOf,
    pub action: String,
    pub params: Map<String, Value>,
    pub caller: Caller,
}

impl ScriptCall {
    /// The process of the script.
    pub(crate) fn stage(
        self,
        shared: &Shared,
        skill: &Skill,
        state: &RunState,
        paths: &RunPaths,
        engine: Option<script::EngineWords<'_>>,
    ) -> Stage {
        let mut launch = script::launch(script::Invocation {
            argv: self.argv,
            action: self.action,
            params: self.params,
            caller: self.caller,
            skill_id: &state.skill.id,
            request_id: state.request_id.to_string(),
            run_id: state.run_id.to_string(),
            run_dir: &paths.root,
            home: &paths.tmp,
            path: &path_variable(),
            debug: state.options.debug,
            engine,
        });
        self.python.apply(&mut launch);
        script_stage(shared, skill, paths, launch)
    }
}

/// A process of the skill's own, confined as the skill and the operator want it.
pub(crate) fn script_stage(shared: &Shared, skill: &Skill, paths: &RunPaths, mut launch: Launch) -> Stage {
    let sandbox = confine::sandbox(shared, paths, skill, &path_variable(), None);
    launch.env.extend(confine::variables(sandbox.as_ref()));
    Stage {
        launch,
        reader: TurnReader::Script(script::ScriptParser::default()),
        stdout_max: Some(script::STDOUT_MAX),
        line_max: script::LINE_MAX,
        home: None,
        sandbox,
        fills: Vec::new(),
    }
}

/// The Python environment of a command, if it has one.
#[derive(Debug, Clone, Default)]
pub(crate) struct PythonOf(Option<Environment>);

#[derive(Debug, Clone)]
struct Environment {
    python: String,
    variables: [(String, String); 2],
}

impl PythonOf {
    pub(crate) fn command(shared: &Shared, skill: &Skill, command: Command) -> Self {
        Self(skill.python.command(command).map(|needs| Environment {
            python: shared.environments.python(&needs.id).to_string_lossy().into_owned(),
            variables: shared.environments.variables(&needs.id, &path_variable()),
        }))
    }

    /// Makes a process use it: by its own name for Python, and by its PATH for whatever it starts.
    pub(crate) fn apply(self, launch: &mut Launch) {
        let Some(Environment { python, variables }) = self.0 else { return };
        if let Some(program) =
            launch.argv.first_mut().filter(|program| matches!(program.as_str(), "python" | "python3"))
        {
            *program = python;
        }
        launch.env.retain(|(name, _)| variables.iter().all(|(own, _)| own != name));
        launch.env.extend(variables);
    }
}

/// The service's own PATH.
pub(crate) fn path_variable() -> String {
    std::env::var("PATH").unwrap_or_else(|_| DEFAULT_PATH.to_owned())
}
