//! How a skill's script is called.

use serde_json::{Map, Value};

use crate::domain::state::RunState;
use crate::engine::script;
use crate::orchestrator::turn::process::Stage;
use crate::orchestrator::turn::reader::TurnReader;
use crate::workspace::RunPaths;

/// Where programs are looked for when the service itself was started without a PATH.
const DEFAULT_PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// A script's call, as far as it is known before the engine runs.
pub(crate) struct ScriptCall {
    pub argv: Vec<String>,
    pub action: String,
    pub params: Map<String, Value>,
}

impl ScriptCall {
    /// The process of the script.
    pub(crate) fn stage(self, state: &RunState, paths: &RunPaths, engine: Option<script::EngineWords<'_>>) -> Stage {
        let launch = script::launch(script::Invocation {
            argv: self.argv,
            action: self.action,
            params: self.params,
            skill_id: &state.skill.id,
            request_id: state.request_id.to_string(),
            run_id: state.run_id.to_string(),
            run_dir: &paths.root,
            home: &paths.tmp,
            path: &path_variable(),
            debug: state.options.debug,
            engine,
        });
        Stage {
            launch,
            reader: TurnReader::Script(script::ScriptParser::default()),
            stdout_max: Some(script::STDOUT_MAX),
            line_max: script::LINE_MAX,
            home: None,
        }
    }
}

/// The service's own PATH.
pub(crate) fn path_variable() -> String {
    std::env::var("PATH").unwrap_or_else(|_| DEFAULT_PATH.to_owned())
}
