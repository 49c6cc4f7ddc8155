//! Everything an engine needs before it starts: files in place, inputs resolved, a launch.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

use serde_json::{Map, Value};

use super::close;
use super::error::Error;
use super::handle::Shared;
use super::prepare_cli::prepare_cli;
use super::surroundings::Work;
use super::turn_reader::TurnReader;
use crate::domain::fact::Stream;
use crate::domain::outcome::{RunError, Warning, code};
use crate::domain::state::RunState;
use crate::engine::{Launch, script};
use crate::skill::manifest::EntrypointKind;
use crate::skill::{Skill, command, inputs};
use crate::workspace::{self, RunPaths};

/// Where programs are looked for when the service itself was started without a PATH.
const DEFAULT_PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// An engine about to start.
pub(super) struct Prepared {
    pub launch: Launch,
    /// Program and arguments as they may be shown.
    pub shown_argv: Vec<String>,
    pub skill: Skill,
    pub reader: TurnReader,
    pub engine_version: String,
    pub parser_version: &'static str,
    pub isolation: &'static str,
    /// Most bytes of standard output, for engines that have such a limit.
    pub stdout_max: Option<u64>,
    /// Longest line that is looked at.
    pub line_max: usize,
    /// Where this turn's bytes begin in the stream files.
    pub stdout_from: u64,
    pub stderr_from: u64,
    /// What a user of this engine has to be told.
    pub warning: Option<Warning>,
}

/// A turn's inputs.
pub(super) struct Inputs {
    pub input: Map<String, Value>,
    pub parameter: Map<String, Value>,
}

/// What a kind of engine adds to the common preparations.
pub(super) struct Start {
    pub launch: Launch,
    pub shown_argv: Vec<String>,
    pub reader: TurnReader,
    pub engine_version: String,
    pub parser_version: &'static str,
    pub isolation: &'static str,
    pub stdout_max: Option<u64>,
    pub line_max: usize,
    pub warning: Option<Warning>,
}

/// Prepare a turn; the inner error is the run's, the outer the runner's.
pub(super) async fn prepare(shared: &Arc<Shared>, state: &RunState) -> Result<Result<Prepared, RunError>, Error> {
    let shared = shared.clone();
    let state = state.clone();
    Work::run(&shared.work.clone(), move || prepare_blocking(&shared, &state))
        .await
        .map_err(|error| Error::io("prepare the run")(error.into()))?
}

fn prepare_blocking(shared: &Shared, state: &RunState) -> Result<Result<Prepared, RunError>, Error> {
    let skill = match shared.skill_of(state) {
        Ok(skill) => skill,
        Err(Error::Corrupt { message, .. }) => return Ok(Err(RunError::new(code::INTERNAL, message))),
        Err(error) => return Err(error),
    };
    let paths = shared.layout.run(state.run_id);
    close::forget_unlogged_start(&paths, state)?;
    workspace::create_run(&paths)?;
    if state.turns > 0 {
        // Only a result written in this turn counts.
        let _ = std::fs::remove_file(paths.result_json());
    }
    // A crash may have come between the upload's event and the move of its files.
    let staging = shared.layout.request_uploads(state.request_id);
    if staging.exists() {
        workspace::promote_uploads(&staging, &paths.uploads())?;
    }
    let started = shared.started(state.run_id)?;
    let uploaded = file_names(&paths.uploads())?;
    let input = match inputs::resolve(&skill, Some(&Value::Object(started.input)), &paths.uploads(), &uploaded) {
        Ok(input) => input,
        Err(missing) => {
            let message = format!("required input files are missing: {}", missing.keys.join(", "));
            return Ok(Err(RunError::new(code::MISSING_INPUT_FILES, message).with("missing", missing.keys)));
        }
    };
    let given = Inputs { input, parameter: started.parameter };
    let start = match skill.manifest.entrypoint.kind {
        EntrypointKind::Script => prepare_script(state, &skill, &paths, given),
        EntrypointKind::Prompt => prepare_cli(shared, state, &skill, &paths, given)?,
        EntrypointKind::Hybrid => {
            Err(RunError::new(code::ENGINE_FAILED, "hybrid entrypoints cannot be run by this version"))
        }
    };
    let start = match start {
        Ok(start) => start,
        Err(error) => return Ok(Err(error)),
    };
    Ok(Ok(Prepared {
        stdout_from: begin_stream(shared, state, Stream::Stdout, &paths.stdout())?,
        stderr_from: begin_stream(shared, state, Stream::Stderr, &paths.stderr())?,
        launch: start.launch,
        shown_argv: start.shown_argv,
        skill,
        reader: start.reader,
        engine_version: start.engine_version,
        parser_version: start.parser_version,
        isolation: start.isolation,
        stdout_max: start.stdout_max,
        line_max: start.line_max,
        warning: start.warning,
    }))
}

fn prepare_script(state: &RunState, skill: &Skill, paths: &RunPaths, given: Inputs) -> Result<Start, RunError> {
    let Some(entry) = &skill.manifest.entrypoint.script else {
        return Err(RunError::new(code::INTERNAL, "the skill has no entrypoint.script"));
    };
    let words = command::split(&entry.command)
        .map_err(|error| RunError::new(code::ENGINE_FAILED, format!("entrypoint.script.command: {error}")))?;
    let copy = paths.skill_copy(&state.engine, &state.skill.id);
    let parameter = Value::Object(given.parameter);
    let launch = script::launch(script::Invocation {
        argv: command::in_copy(&words, |word| copy.join(word).is_file(), &copy),
        action: inputs::script_action(skill, Some(&parameter)),
        params: inputs::script_params(&given.input, Some(&parameter)),
        skill_id: &state.skill.id,
        request_id: state.request_id.to_string(),
        run_id: state.run_id.to_string(),
        run_dir: &paths.root,
        home: &paths.tmp,
        path: &path_variable(),
        debug: state.options.debug,
    });
    Ok(Start {
        shown_argv: launch.argv.clone(),
        launch,
        reader: TurnReader::Script(script::ProgressParser),
        engine_version: script::PROTOCOL.to_owned(),
        parser_version: script::PARSER_VERSION,
        isolation: "process-tree",
        stdout_max: Some(script::STDOUT_MAX),
        line_max: script::LINE_MAX,
        warning: None,
    })
}

/// The service's own PATH.
pub(super) fn path_variable() -> String {
    std::env::var("PATH").unwrap_or_else(|_| DEFAULT_PATH.to_owned())
}

/// Where a turn's bytes begin: behind what the log covers. Bytes behind that are of a start that was never logged.
pub(super) fn begin_stream(shared: &Shared, state: &RunState, stream: Stream, path: &Path) -> Result<u64, Error> {
    if state.turns == 0 {
        return Ok(0);
    }
    let covered = super::startup::covered_bytes(shared, state.run_id, stream)?;
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
