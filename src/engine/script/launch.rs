//! The invocation of a script: its command, one JSON object on standard input, and a minimal environment.

use std::path::Path;

use serde_json::{Map, Value, json};

use crate::domain::request::Caller;
use crate::engine::launch::{Launch, PoliteSignal, Streams};

/// Everything an invocation depends on.
#[derive(Debug)]
pub(crate) struct Invocation<'a> {
    /// Program and arguments, already resolved against the run's copy of the package.
    pub(crate) argv: Vec<String>,
    /// What the script is to do.
    pub(crate) action: String,
    /// Input and parameter values together.
    pub(crate) params: Map<String, Value>,
    pub(crate) skill_id: &'a str,
    /// Who the run is for; the agent is the skill where nobody said.
    pub(crate) caller: Caller,
    /// The client's name for the run.
    pub(crate) request_id: String,
    pub(crate) run_id: String,
    /// Its folder; the working directory.
    pub(crate) run_dir: &'a Path,
    /// Home for this run only.
    pub(crate) home: &'a Path,
    /// The PATH of the script.
    pub(crate) path: &'a str,
    /// Whether to set SKILL_DEBUG.
    pub(crate) debug: bool,
    /// The output of the engine, for a script that runs after one.
    pub(crate) engine: Option<EngineWords<'a>>,
}

/// The last message of an engine, and the file that holds it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct EngineWords<'a> {
    pub(crate) text: &'a str,
    pub(crate) path: &'a Path,
}

/// The process to start.
pub(crate) fn launch(invocation: Invocation<'_>) -> Launch {
    let mut stdin = json!({
        "action": invocation.action,
        "params": invocation.params,
        "context": {
            "agent_id": invocation.caller.agent_id.as_deref().unwrap_or(invocation.skill_id),
            "user_id": invocation.caller.user_id,
            "request_id": invocation.request_id,
            "run_id": invocation.run_id,
            "run_dir": invocation.run_dir,
        },
    });
    if let Some(EngineWords { text, path }) = invocation.engine {
        stdin["context"]["engine_text"] = text.into();
        stdin["context"]["engine_output_path"] = json!(path);
    }
    let env = environment(invocation.home, invocation.path, invocation.debug);
    Launch {
        argv: invocation.argv,
        env,
        cwd: invocation.run_dir.to_owned(),
        stdin: stdin.to_string().into_bytes(),
        polite: PoliteSignal::TerminateAll,
        streams: Streams::Pipes,
        secrets: Vec::new(),
        own_tmp: false,
    }
}

/// A command of the package that gets everything by its arguments.
#[derive(Debug)]
pub(crate) struct Helper<'a> {
    /// Program and arguments, already resolved against the run's copy of the package.
    pub(crate) argv: Vec<String>,
    /// The run's folder; the working directory.
    pub(crate) run_dir: &'a Path,
    /// Home for this run only.
    pub(crate) home: &'a Path,
    /// The PATH of the script.
    pub(crate) path: &'a str,
    /// Whether to set SKILL_DEBUG.
    pub(crate) debug: bool,
}

/// The process of such a command: like a script's, with an empty standard input.
pub(crate) fn launch_helper(helper: Helper<'_>) -> Launch {
    Launch {
        argv: helper.argv,
        env: environment(helper.home, helper.path, helper.debug),
        cwd: helper.run_dir.to_owned(),
        stdin: Vec::new(),
        polite: PoliteSignal::TerminateAll,
        streams: Streams::Pipes,
        secrets: Vec::new(),
        own_tmp: false,
    }
}

fn environment(home: &Path, path: &str, debug: bool) -> Vec<(String, String)> {
    let mut env = vec![
        ("PATH".to_owned(), path.to_owned()),
        ("HOME".to_owned(), home.to_string_lossy().into_owned()),
        ("LANG".to_owned(), "C.UTF-8".to_owned()),
        // Python must not write into the run's copy of the package.
        ("PYTHONDONTWRITEBYTECODE".to_owned(), "1".to_owned()),
    ];
    if debug {
        env.push(("SKILL_DEBUG".to_owned(), "1".to_owned()));
    }
    env
}
