//! Everything an engine needs before it starts: files in place, inputs resolved, a launch.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

use serde_json::{Map, Value};

use crate::domain::fact::Stream;
use crate::domain::outcome::{RunError, Warning, code};
use crate::domain::run_file::{RunFile, RunFolder};
use crate::domain::state::RunState;
use crate::engine::script;
use crate::orchestrator::error::Error;
use crate::orchestrator::handle::Shared;
use crate::orchestrator::turn::hybrid::ScriptCall;
use crate::orchestrator::turn::last_files;
use crate::orchestrator::turn::prepare_cli::prepare_cli;
use crate::orchestrator::turn::process::Stage;
use crate::orchestrator::turn::result_file;
use crate::orchestrator::turn::result_file::FileMark;
use crate::skill::manifest::EntrypointKind;
use crate::skill::{Skill, command, inputs};
use crate::workspace;
use crate::workspace::RunPaths;

/// Where programs are looked for when the service itself was started without a PATH.
const DEFAULT_PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// An engine about to start.
pub(crate) struct Prepared {
    pub start: Start,
    pub skill: Skill,
    /// The script that is to run behind the engine.
    pub script: Option<ScriptCall>,
    /// Where this turn's bytes begin in the files of standard output and standard error.
    pub from: (u64, u64),
    /// The result file as this turn finds it.
    pub result_before: Option<FileMark>,
}

/// A turn's inputs.
pub(crate) struct Inputs {
    pub input: Map<String, Value>,
    pub parameter: Map<String, Value>,
}

/// What a kind of engine adds to the common preparations.
pub(crate) struct Start {
    pub stage: Stage,
    /// Program and arguments as they may be shown.
    pub shown_argv: Vec<String>,
    pub engine_version: String,
    pub parser_version: &'static str,
    pub isolation: &'static str,
    /// What a user of this engine has to be told.
    pub warning: Option<Warning>,
}

/// Prepare a turn; the inner error is the run's, the outer the runner's.
pub(crate) async fn prepare(shared: &Arc<Shared>, state: &RunState) -> Result<Result<Prepared, RunError>, Error> {
    let shared = shared.clone();
    let state = state.clone();
    shared.blocking.clone().run("prepare the run", move || prepare_blocking(&shared, &state)).await?
}

fn prepare_blocking(shared: &Shared, state: &RunState) -> Result<Result<Prepared, RunError>, Error> {
    let skill = match shared.skill_of(state) {
        Ok(skill) => skill,
        Err(Error::Corrupt { message, .. }) => return Ok(Err(RunError::new(code::INTERNAL, message))),
        Err(error) => return Err(error),
    };
    let paths = shared.layout.run(state.run_id);
    last_files::forget_unlogged_start(&paths, state)?;
    workspace::create_run(&paths)?;
    if state.turns > 0 {
        // Only a result written in this turn counts.
        result_file::clear(&paths)?;
    }
    // A crash may have come between the upload's event and the move of its files.
    let staging = shared.layout.request_uploads(state.request_id);
    if staging.exists() {
        workspace::promote_uploads(&staging, &paths.folder(RunFolder::Uploads))?;
    }
    let started = shared.started(state.run_id)?;
    let uploaded = file_names(&paths.folder(RunFolder::Uploads))?;
    let input = match inputs::resolve(
        &skill,
        Some(&Value::Object(started.input)),
        &paths.folder(RunFolder::Uploads),
        &uploaded,
    ) {
        Ok(input) => input,
        Err(missing) => {
            let message = format!("required input files are missing: {}", missing.keys.join(", "));
            return Ok(Err(RunError::new(code::MISSING_INPUT_FILES, message).with("missing", missing.keys)));
        }
    };
    let given = Inputs { input, parameter: started.parameter };
    let (start, script) = match skill.manifest.entrypoint.kind {
        EntrypointKind::Script => {
            (script_call(state, &skill, &paths, &given).map(|call| script_start(state, &paths, call)), None)
        }
        EntrypointKind::Prompt => (prepare_cli(shared, state, &skill, &paths, &given)?, None),
        // A script that cannot be called is known before the engine costs anything.
        EntrypointKind::Hybrid => match script_call(state, &skill, &paths, &given) {
            Ok(call) => (prepare_cli(shared, state, &skill, &paths, &given)?, Some(call)),
            Err(error) => (Err(error), None),
        },
    };
    let start = match start {
        Ok(start) => start,
        Err(error) => return Ok(Err(error)),
    };
    let from = (
        begin_stream(shared, state, Stream::Stdout, &paths.file(RunFile::Stdout))?,
        begin_stream(shared, state, Stream::Stderr, &paths.file(RunFile::Stderr))?,
    );
    // A file of that name may be an earlier turn's: only one written in this turn counts.
    let named = skill.manifest.entrypoint.prompt.result_file.as_deref();
    let result_before = named.and_then(|named| result_file::mark(&paths, Some(named)));
    Ok(Ok(Prepared { start, skill, script, from, result_before }))
}

/// The skill's script with what it is to be told.
fn script_call(state: &RunState, skill: &Skill, paths: &RunPaths, given: &Inputs) -> Result<ScriptCall, RunError> {
    let Some(entry) = &skill.manifest.entrypoint.script else {
        return Err(RunError::new(code::INTERNAL, "the skill has no entrypoint.script"));
    };
    let words = command::split(&entry.command)
        .map_err(|error| RunError::new(code::ENGINE_FAILED, format!("entrypoint.script.command: {error}")))?;
    let copy = paths.skill_copy(&state.engine, &state.skill.id);
    let parameter = Value::Object(given.parameter.clone());
    Ok(ScriptCall {
        argv: command::in_copy(&words, |word| copy.join(word).is_file(), &copy),
        action: inputs::script_action(skill, Some(&parameter)),
        params: inputs::script_params(&given.input, Some(&parameter)),
    })
}

fn script_start(state: &RunState, paths: &RunPaths, call: ScriptCall) -> Start {
    let stage = call.stage(state, paths, None);
    Start {
        shown_argv: stage.launch.argv.clone(),
        stage,
        engine_version: script::PROTOCOL.to_owned(),
        parser_version: script::PARSER_VERSION,
        isolation: "process-tree",
        warning: None,
    }
}

/// The service's own PATH.
pub(crate) fn path_variable() -> String {
    std::env::var("PATH").unwrap_or_else(|_| DEFAULT_PATH.to_owned())
}

/// Where a turn's bytes begin: behind what the log covers. Bytes behind that are of a start that was never logged.
pub(crate) fn begin_stream(shared: &Shared, state: &RunState, stream: Stream, path: &Path) -> Result<u64, Error> {
    if state.turns == 0 {
        return Ok(0);
    }
    let covered = crate::orchestrator::runs::recovery::covered_bytes(shared, state.run_id, stream)?;
    let doing = || format!("open {}", path.display());
    let file = match std::fs::OpenOptions::new().write(true).open(path) {
        // A stream that never said anything may have gone with a start that was taken back.
        Err(error) if error.kind() == std::io::ErrorKind::NotFound && covered == 0 => return Ok(0),
        opened => opened.map_err(Error::io(doing()))?,
    };
    if file.metadata().map_err(Error::io(doing()))?.len() > covered {
        file.set_len(covered).map_err(Error::io(doing()))?;
    }
    Ok(covered)
}

fn file_names(folder: &Path) -> Result<BTreeSet<String>, Error> {
    let doing = || format!("list {}", folder.display());
    let entries = match std::fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(BTreeSet::new()),
        Err(error) => return Err(Error::io(doing())(error)),
    };
    let mut names = BTreeSet::new();
    for entry in entries {
        let entry = entry.map_err(Error::io(doing()))?;
        if let Ok(name) = entry.file_name().into_string() {
            names.insert(name);
        }
    }
    Ok(names)
}
