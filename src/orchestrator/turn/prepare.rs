//! Everything an engine needs before it starts: files in place, inputs resolved, a launch.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

use serde_json::Value;

use crate::domain::codes::ErrorCode;
use crate::domain::event::Started;
use crate::domain::outcome::RunError;
use crate::domain::request::Passed;
use crate::domain::run_file::RunFolder;
use crate::domain::state::RunState;
use crate::engine::script;
use crate::files;
use crate::orchestrator::error::Error;
use crate::orchestrator::log::coverage::Coverage;
use crate::orchestrator::shared::Shared;
use crate::orchestrator::shared::skills::SkillPlace;
use crate::orchestrator::turn::confine;
use crate::orchestrator::turn::dependencies::Dependencies;
use crate::orchestrator::turn::last_files::forget_unlogged_start;
use crate::orchestrator::turn::prepare_cli::prepare_cli;
use crate::orchestrator::turn::process::Stage;
use crate::orchestrator::turn::result_file::{self, FileMark};
use crate::orchestrator::turn::script_call::{PythonOf, ScriptCall};
use crate::orchestrator::turn::start::{Inputs, Start};
use crate::skill::manifest::EntrypointKind;
use crate::skill::python::Command;
use crate::skill::{Skill, command, inputs};
use crate::workspace::{self, RunPaths};

/// An engine about to start.
pub(crate) struct Prepared {
    pub start: Start,
    pub skill: Arc<Skill>,
    pub skill_place: SkillPlace,
    /// The script that is to run behind the engine.
    pub script: Option<ScriptCall>,
    /// Where this turn's bytes begin in the files of standard output and standard error.
    pub from: Coverage,
    /// The result file as this turn finds it.
    pub result_before: Option<FileMark>,
    /// The Python packages of its commands.
    pub dependencies: Dependencies,
    /// The process that installs those that are missing.
    pub making: Option<Stage>,
}

/// Prepare a turn; the inner error is the run's, the outer the runner's.
pub(crate) async fn prepare(shared: &Arc<Shared>, state: &RunState) -> Result<Result<Prepared, RunError>, Error> {
    // Until the turn has ended, the run's files on this disk are newer than those that are shared.
    shared.ensure_files(state).await?.keep();
    let started = shared.log.first(state.run_id).await?;
    // This turn's bytes begin behind those that the log covers.
    let from = match state.turns {
        0 => None,
        _ => Some(Coverage::of(&shared.log, state.run_id).await?),
    };
    let (owned, state) = (shared.clone(), state.clone());
    shared.blocking.run("prepare the run", move || prepare_blocking(&owned, &state, started, from)).await?
}

fn prepare_blocking(
    shared: &Shared,
    state: &RunState,
    started: Started,
    from: Option<Coverage>,
) -> Result<Result<Prepared, RunError>, Error> {
    let paths = shared.layout.run(state.run_id);
    // An earlier turn may have put a link in its place, or on the way to it.
    let copy = paths.skill_copy(&state.engine, &state.skill.id);
    files::clear_way(&paths.root, copy.strip_prefix(&paths.root).unwrap_or(&copy))?;
    let found =
        shared.skill_of(state).and_then(|skill| Ok((skill.clone(), shared.skill_place(state, &skill, &paths)?)));
    let (skill, mut skill_place) = match found {
        Ok(found) => found,
        Err(Error::Corrupt { message, .. }) => return Ok(Err(RunError::new(ErrorCode::Internal, message))),
        Err(error) => return Err(error),
    };
    forget_unlogged_start(&paths, state)?;
    let takes_files = !skill.file_fields().is_empty() || skill.rest_field().is_some();
    workspace::create_for_engine(&paths, takes_files)?;
    shared.copy_to_run(&mut skill_place, &paths, &state.skill.fingerprint)?;
    if state.turns > 0 {
        // Only a result written in this turn counts.
        result_file::clear(&paths)?;
    }
    // A crash may have come between the upload's event and the move of its files.
    let staging = shared.layout.request_uploads(state.request_id);
    if staging.exists() {
        workspace::promote_uploads(&staging, &paths.folder(RunFolder::Uploads))?;
    }
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
            return Ok(Err(RunError::new(ErrorCode::MissingInputFiles, message).with("missing", missing.keys)));
        }
    };
    let mut dependencies = match Dependencies::of(shared, state, &skill, &skill_place) {
        Ok(dependencies) => dependencies,
        Err(error) => return Ok(Err(error)),
    };
    let caller = started.context.map(|context| *context).unwrap_or_default();
    let given = Inputs { input, parameter: started.parameter, caller };
    let (start, script) = match skill.manifest.entrypoint.kind_on(&state.engine) {
        EntrypointKind::Script => {
            let call = script_call(shared, &skill, &skill_place, &given);
            (call.map(|call| script_start(shared, &skill, state, &paths, call)), None)
        }
        EntrypointKind::Prompt => (prepare_cli(shared, state, &skill, &paths, &given)?, None),
        // A script that cannot be called fails the run before the engine costs anything.
        EntrypointKind::Hybrid => match script_call(shared, &skill, &skill_place, &given) {
            Ok(call) => (prepare_cli(shared, state, &skill, &paths, &given)?, Some(call)),
            Err(error) => (Err(error), None),
        },
    };
    let start = match start {
        Ok(start) => start,
        Err(error) => return Ok(Err(error)),
    };
    if let Some(from) = from {
        from.cut_files(&paths)?;
    }
    // A file of that name may be an earlier turn's: only one written in this turn counts.
    let named = skill.manifest.entrypoint.prompt.result_file.as_deref();
    let result_before = named.and_then(|named| result_file::mark(&paths, Some(named)));
    let (from, making) = (from.unwrap_or_default(), dependencies.making(shared, &paths, &skill, &skill_place)?);
    Ok(Ok(Prepared { start, skill, skill_place, script, from, result_before, dependencies, making }))
}

/// The skill's script with what it is to be told.
fn script_call(shared: &Shared, skill: &Skill, place: &SkillPlace, given: &Inputs) -> Result<ScriptCall, RunError> {
    let Some(entry) = &skill.manifest.entrypoint.script else {
        return Err(RunError::new(ErrorCode::Internal, "the skill has no entrypoint.script"));
    };
    let words = command::split(&entry.command)
        .map_err(|error| RunError::new(ErrorCode::EngineFailed, format!("entrypoint.script.command: {error}")))?;
    let parameter = Value::Object(given.parameter.clone());
    Ok(ScriptCall {
        argv: command::in_copy(&words, |word| place.files.join(word).is_file(), &place.seen_at),
        python: PythonOf::command(shared, skill, Command::Script),
        action: inputs::script_action(skill, Some(&parameter)),
        params: inputs::script_params(&given.input, Some(&parameter)),
        caller: given.caller.clone(),
    })
}

fn script_start(shared: &Shared, skill: &Skill, state: &RunState, paths: &RunPaths, call: ScriptCall) -> Start {
    let stage = call.stage(shared, skill, state, paths, None);
    let isolation = confine::in_force(stage.sandbox.as_ref(), skill, false, false);
    Start {
        warnings: confine::not_enforced(shared, skill, &isolation),
        shown_argv: stage.launch.argv.clone(),
        stage,
        engine_version: script::PROTOCOL.to_owned(),
        parser_version: script::PARSER_VERSION,
        isolation,
        passed: Passed::default(),
    }
}

/// The files below a folder, with their paths in it.
fn file_names(folder: &Path) -> Result<BTreeSet<String>, Error> {
    let mut names = BTreeSet::new();
    let mut waiting = vec![(folder.to_owned(), String::new())];
    while let Some((folder, prefix)) = waiting.pop() {
        let doing = || format!("list {}", folder.display());
        let entries = match std::fs::read_dir(&folder) {
            Ok(entries) => entries,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => continue,
            Err(error) => return Err(Error::io(doing())(error)),
        };
        for entry in entries {
            let entry = entry.map_err(Error::io(doing()))?;
            let Ok(name) = entry.file_name().into_string() else { continue };
            let is_folder = entry.file_type().map_err(Error::io(doing()))?.is_dir();
            if is_folder {
                waiting.push((entry.path(), format!("{prefix}{name}/")));
            } else {
                names.insert(format!("{prefix}{name}"));
            }
        }
    }
    Ok(names)
}
