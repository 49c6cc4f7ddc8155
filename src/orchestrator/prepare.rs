//! Everything an engine needs before it starts: files in place, inputs resolved, a launch.

use std::collections::BTreeSet;
use std::sync::Arc;

use serde_json::Value;

use super::error::Error;
use super::handle::Shared;
use crate::domain::outcome::{RunError, code};
use crate::domain::state::RunState;
use crate::engine::{Launch, script};
use crate::skill::{Skill, command, inputs};
use crate::workspace;

/// Where programs are looked for when the service itself was started without a PATH.
const DEFAULT_PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// An engine about to start.
pub(super) struct Prepared {
    pub launch: Launch,
    pub skill: Skill,
    pub engine_version: String,
    pub parser_version: &'static str,
}

/// Prepare a turn; the inner error is the run's, the outer the runner's.
pub(super) async fn prepare(shared: &Arc<Shared>, state: &RunState) -> Result<Result<Prepared, RunError>, Error> {
    let shared = shared.clone();
    let state = state.clone();
    tokio::task::spawn_blocking(move || prepare_blocking(&shared, &state))
        .await
        .map_err(|error| Error::io("prepare the run")(error.into()))?
}

fn prepare_blocking(shared: &Shared, state: &RunState) -> Result<Result<Prepared, RunError>, Error> {
    if state.engine != script::ENGINE {
        let message = format!("engine {:?} is not available in this build", state.engine);
        return Ok(Err(RunError::new(code::ENGINE_NOT_INSTALLED, message)));
    }
    let skill = match shared.skill_of(state) {
        Ok(skill) => skill,
        Err(Error::Corrupt { message, .. }) => return Ok(Err(RunError::new(code::INTERNAL, message))),
        Err(error) => return Err(error),
    };
    let paths = shared.layout.run(state.run_id);
    if state.turns == 0 && paths.stdout().exists() {
        // A service that died between the start of the engine and its event left bytes that no event will ever name.
        for left in [paths.logs(), paths.artifacts(), paths.result(), paths.raw()] {
            workspace::remove_tree(&left)?;
        }
    }
    workspace::create_run(&paths)?;
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
    let Some(entry) = &skill.manifest.entrypoint.script else {
        return Ok(Err(RunError::new(code::INTERNAL, "the skill has no entrypoint.script")));
    };
    let words = match command::split(&entry.command) {
        Ok(words) => words,
        Err(error) => {
            return Ok(Err(RunError::new(code::ENGINE_FAILED, format!("entrypoint.script.command: {error}"))));
        }
    };
    let copy = paths.skill_copy(&state.engine, &state.skill.id);
    let launch = script::launch(script::Invocation {
        argv: command::in_copy(&words, |word| copy.join(word).is_file(), &copy),
        default_action: entry.action.as_deref(),
        params: inputs::script_params(&input, Some(&Value::Object(started.parameter))),
        skill_id: &state.skill.id,
        request_id: state.request_id.to_string(),
        run_id: state.run_id.to_string(),
        run_dir: &paths.root,
        home: &paths.tmp,
        path: &std::env::var("PATH").unwrap_or_else(|_| DEFAULT_PATH.to_owned()),
        debug: state.options.debug,
    });
    Ok(Ok(Prepared {
        launch,
        skill,
        engine_version: script::PROTOCOL.to_owned(),
        parser_version: script::PARSER_VERSION,
    }))
}

fn file_names(folder: &std::path::Path) -> Result<BTreeSet<String>, Error> {
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
