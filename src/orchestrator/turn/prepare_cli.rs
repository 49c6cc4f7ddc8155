//! What an agent CLI needs besides: its program, its home, its configuration, the skill with its contract, a prompt.

use std::path::Path;

use serde_json::{Value, json};

use crate::bounded;
use crate::domain::codes::{ErrorCode, WarningCode};
use crate::domain::outcome::{RunError, Warning};
use crate::domain::run_file::{RunFile, RunFolder};
use crate::domain::state::RunState;
use crate::engine;
use crate::engine::{Adapter, ConfigFile, LINE_MAX, LaunchPlan, OutputSchema, Turn, config};
use crate::files;
use crate::installed_engines::operator_config;
use crate::orchestrator::error::Error;
use crate::orchestrator::results::pretty;
use crate::orchestrator::shared::Shared;
use crate::orchestrator::turn::confine::{self, CliPlaces};
use crate::orchestrator::turn::process::Stage;
use crate::orchestrator::turn::reader::TurnReader;
use crate::orchestrator::turn::start::{Inputs, Start};
use crate::prompt::{self, contract, sections};
use crate::settings::Sandbox;
use crate::skill::Skill;
use crate::skill::automation::Network;
use crate::skill::manifest::Template;
use crate::workspace::{self, EngineHome, RunPaths};

/// Longest text that is read of a skill; the lint refuses longer ones.
const COPIED_MAX: u64 = 1024 * 1024;
/// The run's copy of SKILL.md tells how to answer, too.
const SKILL_MD: &str = "SKILL.md";
const SKILL_MD_MAX: u64 = COPIED_MAX + 64 * 1024;
/// Longest collection of prompts that is continued.
const PROMPTS_MAX: u64 = 64 * 1024 * 1024;

/// Prepare a turn of an agent CLI; the inner error is the run's, the outer the runner's.
pub(crate) fn prepare_cli(
    shared: &Shared,
    state: &RunState,
    skill: &Skill,
    paths: &RunPaths,
    given: &Inputs,
) -> Result<Result<Start, RunError>, Error> {
    let adapter = match adapter_of(state) {
        Ok(adapter) => adapter,
        Err(error) => return Ok(Err(error)),
    };
    let copy = paths.skill_copy(&state.engine, &state.skill.id);
    if let Err(error) = install_contract(paths, &copy, adapter, state, skill)? {
        return Ok(Err(error));
    }
    let resume = state.session_handle.as_deref().filter(|_| state.resumes());
    if state.resumes() && resume.is_none() {
        return Ok(Err(no_session()));
    }
    let prompt = match resume {
        None => prompt_text(shared, adapter, state, skill, paths, &copy, given)?,
        Some(_) => Ok(answer_text(state)),
    };
    let text = match prompt {
        Ok(text) => text,
        Err(error) => return Ok(Err(error)),
    };
    let told = Told { resume, text: &text, heading: (state.turns > 0).then(|| sections::of_turn(state.turns + 1)) };
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
    let heading = Some(format!("{}, repair", sections::of_turn(state.turns)));
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
pub(crate) fn adapter_of(state: &RunState) -> Result<&'static Adapter, RunError> {
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
            return Ok(Err(match missing.install_command {
                Some(command) => error.with("install_command", command),
                None => error,
            }));
        }
    };
    let configured = match configuration(shared, adapter, state, skill, paths)? {
        Ok(configured) => configured,
        Err(error) => return Ok(Err(error)),
    };
    keep_prompt(paths, told)?;
    let operators_home = shared.settings.paths.agent_home.join(adapter.name());
    let home = run_home(state, paths, adapter, &operators_home);
    match &home {
        Some(home) => home.prepare()?,
        None => files::create_private_folder(&operators_home)?,
    }
    if state.turns > 0 {
        forget_configuration(paths, adapter, state)?;
    }
    let operator = read_operators(&operators_home, adapter.config.operator_file);
    let schema_path = paths.file(RunFile::OutputSchema);
    let env = passed_variables(shared, adapter);
    let secrets = shared.installed_engines.secrets(adapter, &env);
    let places = CliPlaces {
        adapter,
        home: home.as_ref().map_or(&operators_home, EngineHome::path),
        operators_home: &operators_home,
        program: &found.program,
        env: &env,
        operators_config: operator.as_deref(),
    };
    let sandbox = confine::sandbox(shared, paths, skill, &found.path, Some(&places));
    // An engine's own sandbox cannot be made in another one.
    let own_sandbox = shared.settings.runs.sandbox != Sandbox::Off && sandbox.is_none();
    let output_schema = match answer_of(adapter, state, skill) {
        contract::Answer::Message | contract::Answer::Tool(_) => {
            Some(OutputSchema { value: &skill.output_schema, path: &schema_path })
        }
        // The result is the script's, or in a file: the engine's own answer is not held to the schema.
        contract::Answer::Words | contract::Answer::Text | contract::Answer::File(_) => None,
    };
    let (configured, shown) = (configured.in_force, configured.shown);
    let tools = skill.allowed_tools();
    let plan = adapter.launch(&Turn {
        program: &found.program,
        run_dir: &paths.root,
        engine_home: home.as_ref().map_or(&operators_home, EngineHome::path),
        tmp: &paths.tmp,
        path: &found.path,
        env: &env,
        has_login: operators_home.join(adapter.login.file).is_file(),
        secrets: &secrets,
        prompt: told.text,
        resume: told.resume,
        config: &configured,
        shown_config: &shown,
        mode: state.options.execution_mode,
        output_schema,
        own_sandbox,
        network: skill.manifest.automation.network != Some(Network::Off),
        tools: tools.as_deref(),
    });
    let LaunchPlan { mut launch, shown_argv, files } = match plan {
        Ok(plan) => plan,
        Err(refused) => return Ok(Err(refused.into())),
    };
    // A configuration may be written there; its own folder would be for the owner alone.
    files::ensure_folder(&paths.folder(RunFolder::Raw))?;
    files.iter().try_for_each(write_config)?;
    let needed = [paths.root.as_path(), &operators_home].into_iter().chain(found.program.iter().map(Path::new));
    launch.env.extend(confine::variables(sandbox.as_ref()));
    launch.own_tmp = !launch.names_tmp() && !needed.into_iter().any(in_tmp);
    let passed = config::passed(&adapter.config, (&configured, &shown), operator.as_deref(), &env);
    files::write_own(&paths.file(RunFile::EngineConfig), &pretty(&json!(passed)))?;
    let unlisted = passed.model.as_deref().and_then(|model| not_in_catalog(shared, adapter, &found.version, model));
    let longest_wait = shared.settings.times.rate_limit_wait_seconds;
    let mut parser = Box::new(adapter.parser(told.resume, state.usage).with_longest_wait(longest_wait));
    parser.mask(secrets);
    let isolation = confine::in_force(sandbox.as_ref(), skill, true, own_sandbox && adapter.has_sandbox);
    let unenforced = confine::not_enforced(shared, skill, &isolation)
        .into_iter()
        .chain(confine::tools_not_enforced(adapter, tools.as_deref()));
    Ok(Ok(Start {
        stage: Stage {
            launch,
            reader: TurnReader::Cli(parser, adapter),
            stdout_max: None,
            line_max: LINE_MAX,
            home,
            sandbox,
            fills: Vec::new(),
        },
        shown_argv,
        engine_version: found.version,
        parser_version: adapter.parser_version,
        passed,
        warnings: adapter.warning().into_iter().chain(unlisted).chain(unenforced).collect(),
        isolation,
    }))
}

/// What an earlier turn may have left in the run's folder to configure this one: nothing of it counts.
fn forget_configuration(paths: &RunPaths, adapter: &Adapter, state: &RunState) -> Result<(), Error> {
    for file in adapter.configured_by {
        files::remove_tree(&paths.root.join(file))?;
    }
    let Some((own, skills)) = adapter.skills_folder.split_once('/') else { return Ok(()) };
    let own = paths.root.join(own);
    match own.symlink_metadata() {
        Ok(found) if found.is_dir() => Ok(workspace::keep_only(&own, &[&format!("{skills}/{}", state.skill.id)])?),
        Ok(_) => Ok(files::remove_tree(&own).map(drop)?),
        Err(_) => Ok(()),
    }
}

/// Whether this is in `/tmp`, also by a link.
fn in_tmp(path: &Path) -> bool {
    path.canonicalize().is_ok_and(|path| path.starts_with("/tmp"))
}

/// The home of the run's engine; none for a run that began when all runs shared one, and whose session is there.
fn run_home(state: &RunState, paths: &RunPaths, adapter: &Adapter, operators_home: &Path) -> Option<EngineHome> {
    let began_in_the_shared_one = state.turns > 0 && !paths.home.exists();
    (!began_in_the_shared_one).then(|| EngineHome::new(paths.home.clone(), operators_home, adapter.home))
}

/// How the engine is to hand over its answer.
pub(crate) fn answer_of<'a>(adapter: &Adapter, state: &RunState, skill: &'a Skill) -> contract::Answer<'a> {
    let tool = adapter.result_tool(state.options.execution_mode, &skill.output_schema);
    contract::Answer::of(&skill.manifest.entrypoint, tool)
}

/// The warning for a model that this version of the CLI is not known to have.
fn not_in_catalog(shared: &Shared, adapter: &Adapter, version: &str, model: &str) -> Option<Warning> {
    if shared.installed_engines.lists(adapter, version, model)? {
        return None;
    }
    let message = format!("{model:?} is not in the list of models of {} {version}", adapter.name());
    let mut warning = Warning::new(WarningCode::ModelNotInCatalog, message);
    warning.details.insert("model".into(), model.into());
    Some(warning)
}

/// The operator's own configuration of the engine, as far as it can be read.
fn read_operators(home: &Path, file: &str) -> Option<String> {
    let bytes = files::read_beneath(home, Path::new(file), COPIED_MAX).ok().flatten()?;
    String::from_utf8(bytes).ok()
}

/// The run's copy of SKILL.md tells the engine how to answer, once.
fn install_contract(
    paths: &RunPaths,
    copy: &Path,
    adapter: &Adapter,
    state: &RunState,
    skill: &Skill,
) -> Result<Result<(), RunError>, Error> {
    if !prompt::has_contract(&skill.manifest.entrypoint, adapter.engine) {
        return Ok(Ok(()));
    }
    let written = match copied_text(paths, copy, SKILL_MD, SKILL_MD_MAX) {
        Ok(Some(text)) => text,
        Ok(None) => return Ok(Err(changed_copy(&format!("{SKILL_MD}: there is no such file")))),
        Err(reason) => return Ok(Err(changed_copy(&reason))),
    };
    let told = contract::append(&written, state.options.execution_mode, answer_of(adapter, state, skill));
    if told != written {
        files::write_whole(&copy.join(SKILL_MD), told.as_bytes())?;
    }
    Ok(Ok(()))
}

/// A file of the run's copy of its skill; none when there is no such file. An engine may have put anything in its place in an
/// earlier turn: a pipe, a link, a file without end.
fn copied_text(paths: &RunPaths, copy: &Path, path: &str, max: u64) -> Result<Option<String>, String> {
    let below = copy.strip_prefix(&paths.root).unwrap_or(copy).join(path);
    match files::read_beneath(&paths.root, &below, max) {
        Ok(Some(bytes)) => String::from_utf8(bytes).map(Some).map_err(|_| format!("{path}: it is not UTF-8")),
        Ok(None) => Err(format!("{path}: it is longer than {max} bytes")),
        Err(files::LookupError::NotFound) => Ok(None),
        Err(error) => Err(format!("{path}: {error}")),
    }
}

fn changed_copy(reason: &str) -> RunError {
    RunError::new(ErrorCode::EngineFailed, format!("the run's copy of its skill cannot be used: {reason}"))
}

/// The configuration of an engine for one turn.
struct Configured {
    in_force: Value,
    /// As it may be shown.
    shown: Value,
}

fn configuration(
    shared: &Shared,
    adapter: &Adapter,
    state: &RunState,
    skill: &Skill,
    paths: &RunPaths,
) -> Result<Result<Configured, RunError>, Error> {
    let copy = paths.skill_copy(&state.engine, &state.skill.id);
    let operator = match operator_config::read(&shared.settings.paths.configs_dir, adapter) {
        Ok(operator) => operator,
        Err(invalid) => return Ok(Err(invalid.into())),
    };
    let skill_file = match copied_text(paths, &copy, skill.config_file(adapter), COPIED_MAX) {
        Ok(text) => text,
        Err(reason) => return Ok(Err(config::Invalid::Unusable { layer: config::SKILL.to_owned(), reason }.into())),
    };
    let request = match read_optional(&shared.layout.request_engine_config(state.request_id))? {
        None => None,
        Some(text) => Some(bounded::json::from_str(&text).map_err(|error| Error::Corrupt {
            run: state.run_id.to_string(),
            message: format!("its engine configuration cannot be read: {error}"),
        })?),
    };
    let layers = config::Layers {
        operator: &operator,
        skill_file: skill_file.as_deref(),
        request: request.as_ref(),
        model: state.model.as_deref(),
        mode: state.options.execution_mode,
    };
    Ok(match config::merge(&adapter.config, &layers) {
        Ok(in_force) => Ok(Configured { shown: operator.shown(&adapter.config, &in_force), in_force }),
        Err(invalid) => Err(invalid.into()),
    })
}

fn prompt_text(
    shared: &Shared,
    adapter: &Adapter,
    state: &RunState,
    skill: &Skill,
    paths: &RunPaths,
    copy: &Path,
    given: &Inputs,
) -> Result<Result<String, RunError>, Error> {
    let failed = |reason: String| RunError::from(prompt::TemplateFailed { reason });
    let template = match prompt::template(&skill.manifest.entrypoint, adapter.engine) {
        Template::Inline(text) => text.to_owned(),
        Template::Path(path) => match copied_text(paths, copy, path, COPIED_MAX) {
            Ok(Some(text)) => text,
            Ok(None) => return Ok(Err(failed(format!("the package has no file {path:?}")))),
            Err(reason) => return Ok(Err(failed(reason))),
        },
    };
    let values = prompt::Values {
        skill,
        skill_dir: copy,
        run_dir: &paths.root,
        input: &given.input,
        parameter: &given.parameter,
        mode: state.options.execution_mode,
        answer: answer_of(adapter, state, skill),
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
        // No engine takes an empty prompt.
        Some(Value::String(text)) if text.trim().is_empty() => "The answer is empty: the user sent a text with nothing in it.".to_owned(),
        Some(Value::String(text)) => text.clone(),
        Some(other) => other.to_string(),
        None if state.answered_null => "The answer is null: the user has nothing to say to this.".to_owned(),
        None => "Nobody answered in time. Decide yourself, by the policy you named or else by your own judgement, and go on without asking the same again.".to_owned(),
    }
}

/// Every prompt of the run, the first as it is, later ones under a line that tells them apart.
fn keep_prompt(paths: &RunPaths, told: &Told<'_>) -> Result<(), Error> {
    let path = paths.file(RunFile::Prompt);
    let Some(heading) = &told.heading else { return Ok(files::write_own(&path, told.text.as_bytes())?) };
    let section = format!("{}{}", sections::heading(heading), told.text);
    let earlier = match files::read_beneath(&paths.root, Path::new(RunFile::Prompt.name()), PROMPTS_MAX) {
        Ok(earlier) => earlier.and_then(|bytes| String::from_utf8(bytes).ok()),
        Err(files::LookupError::Io { source }) => return Err(Error::io(format!("read {}", path.display()))(source)),
        // An engine has put something else in its place: what it was told before stands in the log.
        Err(_) => None,
    };
    let whole = match earlier {
        // A start that a crash undid has left its prompt.
        Some(earlier) if earlier.ends_with(&section) => return Ok(()),
        Some(earlier) => format!("{}{section}", earlier.trim_end()),
        None => told.text.to_owned(),
    };
    Ok(files::write_own(&path, whole.as_bytes())?)
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
    let names = names.iter().filter(|name| !changes_programs(name));
    names.filter_map(|name| Some((name.clone(), std::env::var(name).ok()?))).collect()
}

/// Whether a variable changes how programs are loaded: such a one could take an engine out of its adapter's hands.
fn changes_programs(name: &str) -> bool {
    name.starts_with("LD_") || ["GLIBC_TUNABLES", "GCONV_PATH", "BASH_ENV", "ENV", "PYTHONSTARTUP"].contains(&name)
}

/// A configuration may hold secrets: it is for the owner alone.
fn write_config(file: &ConfigFile) -> Result<(), Error> {
    if file.keep_existing && file.path.exists() {
        return Ok(());
    }
    Ok(files::write_private(&file.path, &file.bytes)?)
}
