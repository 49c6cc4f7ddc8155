//! What an agent CLI needs besides: its program, its home, its configuration, the skill with its contract, a prompt.

use std::fs;
use std::path::Path;

use serde_json::Value;

use crate::domain::codes::ErrorCode;
use crate::domain::outcome::RunError;
use crate::domain::run_file::{RunFile, RunFolder};
use crate::domain::state::RunState;
use crate::engine;
use crate::engine::{Adapter, ConfigFile, LINE_MAX, LaunchPlan, OutputSchema, Turn, config};
use crate::files;
use crate::orchestrator::error::Error;
use crate::orchestrator::results::pretty;
use crate::orchestrator::shared::Shared;
use crate::orchestrator::turn::process::Stage;
use crate::orchestrator::turn::reader::TurnReader;
use crate::orchestrator::turn::start::{Inputs, Start};
use crate::prompt::{self, contract};
use crate::settings::Sandbox;
use crate::skill::Skill;
use crate::skill::manifest::{Network, Template};
use crate::workspace::RunPaths;

/// Longest configuration in a skill; the lint refuses longer ones.
const CONFIG_MAX: u64 = 1024 * 1024;

/// Prepare a turn of an agent CLI; the inner error is the run's, the outer the runner's.
pub(crate) fn prepare_cli(
    shared: &Shared,
    state: &RunState,
    skill: &Skill,
    paths: &RunPaths,
    given: &Inputs,
) -> Result<Result<Start, RunError>, Error> {
    let copy = paths.skill_copy(&state.engine, &state.skill.id);
    install_contract(&copy.join("SKILL.md"), state, skill)?;
    let resume = if state.turns == 0 { None } else { state.session_handle.as_deref() };
    if state.turns > 0 && resume.is_none() {
        return Ok(Err(no_session()));
    }
    let prompt = match resume {
        None => prompt_text(shared, state, skill, paths, &copy, given)?,
        Some(_) => Ok(answer_text(state)),
    };
    let text = match prompt {
        Ok(text) => text,
        Err(error) => return Ok(Err(error)),
    };
    let told = Told { resume, text: &text, heading: (state.turns > 0).then(|| format!("turn {}", state.turns + 1)) };
    start_cli(shared, state, skill, paths, &told)
}

/// Prepare to ask the session of the turn under way once more.
pub(crate) fn prepare_repair(
    shared: &Shared,
    state: &RunState,
    skill: &Skill,
    paths: &RunPaths,
    text: &str,
) -> Result<Result<Start, RunError>, Error> {
    let Some(handle) = state.session_handle.as_deref() else { return Ok(Err(no_session())) };
    let heading = Some(format!("turn {}, repair", state.turns));
    start_cli(shared, state, skill, paths, &Told { resume: Some(handle), text, heading })
}

fn no_session() -> RunError {
    let message = "the engine never named its session, so it cannot be resumed";
    RunError::new(ErrorCode::SessionResumeFailed, message)
}

/// What an engine is told.
struct Told<'a> {
    /// The session to go on with.
    resume: Option<&'a str>,
    text: &'a str,
    /// The heading of this text among the prompts; the first has none.
    heading: Option<String>,
}

/// The adapter of the run's engine; the run may be of a version that knew another one.
fn adapter_of(state: &RunState) -> Result<&'static Adapter, RunError> {
    engine::adapter_named(&state.engine).ok_or_else(|| {
        let message = format!("there is no engine {:?}", state.engine);
        RunError::new(ErrorCode::EngineNotInstalled, message)
    })
}

fn start_cli(
    shared: &Shared,
    state: &RunState,
    skill: &Skill,
    paths: &RunPaths,
    told: &Told<'_>,
) -> Result<Result<Start, RunError>, Error> {
    let adapter = match adapter_of(state) {
        Ok(adapter) => adapter,
        Err(error) => return Ok(Err(error)),
    };
    let found = match shared.installed_engines.find(adapter) {
        Ok(found) => found,
        Err(missing) => {
            let error = RunError::new(ErrorCode::EngineNotInstalled, missing.to_string());
            return Ok(Err(error.with("install_command", missing.install_command)));
        }
    };
    let copy = paths.skill_copy(&state.engine, &state.skill.id);
    let configured = match configuration(shared, adapter, state, skill, &copy)? {
        Ok(configured) => configured,
        Err(error) => return Ok(Err(error)),
    };
    keep_prompt(&paths.file(RunFile::Prompt), told)?;
    let home = shared.settings.paths.agent_home.join(adapter.name());
    files::create_private_folder(&home)?;
    let own_sandbox = shared.settings.runs.sandbox != Sandbox::Off;
    let schema_path = paths.file(RunFile::OutputSchema);
    let env = passed_variables(shared, adapter);
    // The result of a hybrid skill is its script's: the engine is not held to the schema.
    let output_schema = match answer_of(skill) {
        contract::Answer::Result => Some(OutputSchema { value: &skill.output_schema, path: &schema_path }),
        contract::Answer::Words => None,
    };
    let plan = adapter.launch(&Turn {
        program: &found.program,
        run_dir: &paths.root,
        engine_home: &home,
        tmp: &paths.tmp,
        path: &found.path,
        env: &env,
        prompt: told.text,
        model: state.model.as_deref(),
        resume: told.resume,
        config: &configured,
        mode: state.options.execution_mode,
        output_schema,
        own_sandbox,
        network: skill.manifest.automation.network != Some(Network::Off),
    });
    let LaunchPlan { launch, shown_argv, files, recorded_config } = match plan {
        Ok(plan) => plan,
        Err(refused) => return Ok(Err(refused.into())),
    };
    // A configuration may be written there; its own folder would be for the owner alone.
    files::ensure_folder(&paths.folder(RunFolder::Raw))?;
    files.iter().try_for_each(write_config)?;
    files::write_own(&paths.file(RunFile::EngineConfig), &pretty(&recorded_config))?;
    let parser = Box::new(adapter.parser(told.resume, state.usage));
    Ok(Ok(Start {
        stage: Stage { launch, reader: TurnReader::Cli(parser, adapter), stdout_max: None, line_max: LINE_MAX },
        shown_argv,
        engine_version: found.version,
        parser_version: adapter.parser_version,
        isolation: isolation(own_sandbox && adapter.has_sandbox, skill),
        warning: adapter.warning(),
    }))
}

/// What confines every process of the turn. The engine's sandbox holds its own commands, not the scripts of the skill that run
/// behind it.
fn isolation(engine_sandbox: bool, skill: &Skill) -> &'static str {
    if engine_sandbox && !skill.manifest.has_scripts() { "process-tree+engine-sandbox" } else { "process-tree" }
}

/// What the engine is to answer with.
fn answer_of(skill: &Skill) -> contract::Answer {
    contract::Answer::of(skill.manifest.entrypoint.kind)
}

/// The run's copy of SKILL.md tells the engine how to answer, once.
fn install_contract(skill_md: &Path, state: &RunState, skill: &Skill) -> Result<(), Error> {
    let doing = || format!("read {}", skill_md.display());
    let written = fs::read_to_string(skill_md).map_err(Error::io(doing()))?;
    let told = contract::append(&written, state.options.execution_mode, answer_of(skill));
    if told != written {
        files::write_whole(skill_md, told.as_bytes())?;
    }
    Ok(())
}

fn configuration(
    shared: &Shared,
    adapter: &Adapter,
    state: &RunState,
    skill: &Skill,
    copy: &Path,
) -> Result<Result<Value, RunError>, Error> {
    let named = skill.manifest.engine_configs.get(&adapter.engine).map(String::as_str);
    let skill_file = match skill_file(copy, named.unwrap_or(adapter.config.skill_file)) {
        Ok(text) => text,
        Err(invalid) => return Ok(Err(invalid.into())),
    };
    let request = match read_optional(&shared.layout.request_engine_config(state.request_id))? {
        None => None,
        Some(text) => Some(serde_json::from_str(&text).map_err(|error| Error::Corrupt {
            run: state.run_id.to_string(),
            message: format!("its engine configuration cannot be read: {error}"),
        })?),
    };
    let layers = config::Layers {
        skill_file: skill_file.as_deref(),
        request: request.as_ref(),
        model: state.model.as_deref(),
        mode: state.options.execution_mode,
    };
    Ok(config::merge(&adapter.config, &layers).map_err(RunError::from))
}

/// The text of the skill's configuration. An engine may have put anything in its place in an earlier turn.
fn skill_file(copy: &Path, path: &str) -> Result<Option<String>, config::Invalid> {
    let unusable =
        |reason: String| config::Invalid::Unusable { layer: "the skill", reason: format!("{path}: {reason}") };
    match files::read_beneath(copy, Path::new(path), CONFIG_MAX) {
        Ok(Some(bytes)) => String::from_utf8(bytes).map(Some).map_err(|_| unusable("it is not UTF-8".to_owned())),
        Ok(None) => Err(unusable(format!("it is longer than {CONFIG_MAX} bytes"))),
        Err(files::LookupError::NotFound) => Ok(None),
        Err(error) => Err(unusable(error.to_string())),
    }
}

fn prompt_text(
    shared: &Shared,
    state: &RunState,
    skill: &Skill,
    paths: &RunPaths,
    copy: &Path,
    given: &Inputs,
) -> Result<Result<String, RunError>, Error> {
    let failed = |reason: String| RunError::from(prompt::TemplateFailed { reason });
    let adapter = match adapter_of(state) {
        Ok(adapter) => adapter,
        Err(error) => return Ok(Err(error)),
    };
    let template = match prompt::template(&skill.manifest.entrypoint, adapter.engine) {
        Template::Inline(text) => text.to_owned(),
        Template::Path(path) => match read_optional(&copy.join(path))? {
            Some(text) => text,
            None => return Ok(Err(failed(format!("the package has no file {path:?}")))),
        },
    };
    let values = prompt::Values {
        skill,
        skill_dir: copy,
        run_dir: &paths.root,
        input: &given.input,
        parameter: &given.parameter,
        mode: state.options.execution_mode,
    };
    let evaluate = |template: &str, values: &Value| match prompt::is_built_in(template) {
        true => prompt::evaluate(template, values),
        false => shared.renderer.render(template, values),
    };
    Ok(prompt::render(&template, &values, evaluate).map_err(RunError::from))
}

/// What a resumed session is told: the user's answer, or that nobody gave one.
fn answer_text(state: &RunState) -> String {
    match &state.answer {
        Some(Value::String(text)) => text.clone(),
        Some(other) => other.to_string(),
        None => "Nobody answered in time. Decide yourself, by the policy you named or else by your own judgement, and go on without asking the same again.".to_owned(),
    }
}

/// Every prompt of the run, the first as it is, later ones under a line that tells them apart.
fn keep_prompt(path: &Path, told: &Told<'_>) -> Result<(), Error> {
    let Some(heading) = &told.heading else { return Ok(files::write_own(path, told.text.as_bytes())?) };
    let section = format!("\n\n----- {heading} -----\n\n{}", told.text);
    let whole = match read_optional(path)? {
        // A start that a crash undid has left its prompt.
        Some(earlier) if earlier.ends_with(&section) => return Ok(()),
        Some(earlier) => format!("{}{section}", earlier.trim_end()),
        None => told.text.to_owned(),
    };
    Ok(files::write_own(path, whole.as_bytes())?)
}

fn read_optional(path: &Path) -> Result<Option<String>, Error> {
    let Some(bytes) = files::read_optional(path)? else { return Ok(None) };
    String::from_utf8(bytes)
        .map(Some)
        .map_err(|error| Error::io(format!("read {}", path.display()))(std::io::Error::other(error)))
}

/// Variables the operator lets through to this engine, by name.
fn passed_variables(shared: &Shared, adapter: &Adapter) -> Vec<(String, String)> {
    let names =
        shared.settings.engines.get(&adapter.engine).map(|engine| engine.env_pass.as_slice()).unwrap_or_default();
    names.iter().filter_map(|name| Some((name.clone(), std::env::var(name).ok()?))).collect()
}

/// A configuration may hold secrets: it is for the owner alone.
fn write_config(file: &ConfigFile) -> Result<(), Error> {
    if file.keep_existing && file.path.exists() {
        return Ok(());
    }
    Ok(files::write_private(&file.path, &file.bytes)?)
}
