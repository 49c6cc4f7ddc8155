//! The invocation of a script: its command, its one JSON object, its least environment.

use std::path::Path;

use serde_json::{Map, Value, json};

use crate::engine::launch::{Launch, PoliteSignal};

/// Everything an invocation depends on.
#[derive(Debug)]
pub struct Invocation<'a> {
    /// Program and arguments, already resolved against the run's copy of the package.
    pub argv: Vec<String>,
    /// What the script is to do.
    pub action: String,
    /// Input and parameter values together.
    pub params: Map<String, Value>,
    /// The skill.
    pub skill_id: &'a str,
    /// The client's name for the run.
    pub request_id: String,
    /// The run.
    pub run_id: String,
    /// Its folder; the working directory.
    pub run_dir: &'a Path,
    /// Home for this run only.
    pub home: &'a Path,
    /// Where programs are looked for.
    pub path: &'a str,
    /// Whether to set SKILL_DEBUG.
    pub debug: bool,
    /// What the engine before it said, for a script that stands behind one.
    pub engine: Option<EngineWords<'a>>,
}

/// An engine's last words, and the file that holds them.
#[derive(Debug, Clone, Copy)]
pub struct EngineWords<'a> {
    /// The words.
    pub text: &'a str,
    /// The file.
    pub path: &'a Path,
}

/// The process to start.
pub fn launch(invocation: Invocation<'_>) -> Launch {
    let mut stdin = json!({
        "action": invocation.action,
        "params": invocation.params,
        "context": {
            "agent_id": invocation.skill_id,
            "user_id": null,
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
    }
}

/// A command of the package that is told everything by its arguments.
#[derive(Debug)]
pub struct Helper<'a> {
    /// Program and arguments, already resolved against the run's copy of the package.
    pub argv: Vec<String>,
    /// The run's folder; the working directory.
    pub run_dir: &'a Path,
    /// Home for this run only.
    pub home: &'a Path,
    /// Where programs are looked for.
    pub path: &'a str,
    /// Whether to set SKILL_DEBUG.
    pub debug: bool,
}

/// The process of such a command: as a script's, with nothing to read.
pub fn launch_helper(helper: Helper<'_>) -> Launch {
    Launch {
        argv: helper.argv,
        env: environment(helper.home, helper.path, helper.debug),
        cwd: helper.run_dir.to_owned(),
        stdin: Vec::new(),
        polite: PoliteSignal::TerminateAll,
    }
}

fn environment(home: &Path, path: &str, debug: bool) -> Vec<(String, String)> {
    let mut env = vec![
        ("PATH".to_owned(), path.to_owned()),
        ("HOME".to_owned(), home.to_string_lossy().into_owned()),
        ("LANG".to_owned(), "C.UTF-8".to_owned()),
        // The run's copy of the package stays as it was copied.
        ("PYTHONDONTWRITEBYTECODE".to_owned(), "1".to_owned()),
    ];
    if debug {
        env.push(("SKILL_DEBUG".to_owned(), "1".to_owned()));
    }
    env
}
