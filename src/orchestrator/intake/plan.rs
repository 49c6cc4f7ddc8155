//! What a request means: everything in it is checked against its skill, and becomes the first event of a run.

use std::io;
use std::sync::Arc;

use serde_json::{Map, Value};

use crate::domain::cache_key::{KeyPart, KeyParts, cache_key, canonical, sha256_hex};
use crate::domain::codes::{ErrorCode, FindingCode};
use crate::domain::engine::Engine;
use crate::domain::event::{Started, ValidationError};
use crate::domain::ids::RequestId;
use crate::domain::request::{ExecutionMode, RuntimeOptions, SkillRef};
use crate::domain::resources::Beyond;
use crate::engine::{self, config};
use crate::orchestrator::error::Error;
use crate::orchestrator::intake::request::{CreateRequest, OptionsRequest};
use crate::orchestrator::intake::tags::check_tags;
use crate::orchestrator::shared::Shared;
use crate::skill::{Skill, inputs};
use crate::workspace::Manifest;

/// Most bytes of inline values: they are part of the run's first event.
const INLINE_MAX: usize = 512 * 1024;

/// The longest time an option may ask for, as in the service's own settings: a week. No clock counts without end.
const LONGEST_SECONDS: u64 = 7 * 24 * 3600;

/// Most times that a run may be begun again.
const RETRIES_MAX: u64 = 10;

/// The name of the skill, and of an engine that was not named, until the package is there. No skill can have this name.
const UNTIL_UPLOAD: &str = "(known with the upload)";

pub(crate) fn rejected(code: ErrorCode, message: String) -> Error {
    Error::Rejected { code, message, details: Vec::new() }
}

/// Refuses a request for one place in its body, with what is wrong there.
pub(crate) fn rejected_at(code: ErrorCode, path: impl Into<String>, flaw: &str, message: String) -> Error {
    Error::Rejected { code, message, details: vec![ValidationError { path: path.into(), message: flaw.to_owned() }] }
}

impl Shared {
    /// The first event of the run, if the request is right. What takes long to check holds up nobody else.
    pub(crate) async fn plan_checked(
        self: &Arc<Self>,
        skill: &Skill,
        request: CreateRequest,
        idempotency_sha256: Option<String>,
    ) -> Result<Started, Error> {
        let none = Map::new();
        let (input, parameter) = (request.input.as_ref(), request.parameter.as_ref());
        let (input, parameter) = (input.unwrap_or(&none), parameter.unwrap_or(&none));
        let bytes = check_size(input, parameter)?;
        if inputs::is_quick(skill, input, parameter) {
            return plan(self, skill, request, idempotency_sha256);
        }
        let (shared, skill) = (self.clone(), skill.clone());
        // Those who wait hold no thread, so nobody else waits for them.
        let _turn = self.requests.check(bytes).await?;
        let planned = move || plan(&shared, &skill, request, idempotency_sha256);
        self.blocking.run("check the request", planned).await?
    }
}

fn plan(
    shared: &Shared,
    skill: &Skill,
    request: CreateRequest,
    idempotency_sha256: Option<String>,
) -> Result<Started, Error> {
    check_engine_configs(&request)?;
    check_tags(&request)?;
    check_model_name(&request)?;
    let engine = request.engine.clone().unwrap_or_default();
    check_foreign_configs(skill, &request)?;
    let engine_config = request.engine_config(&engine);
    let engine_config_sha256 =
        engine_config.map(|config| sha256_hex(canonical(&Value::Object(config.clone())).as_bytes()));
    check_engine(skill, &engine)?;
    check_skill_config(skill, &engine)?;
    if engine == Engine::Script.as_str() && request.model.is_some() {
        let message = "a script skill runs without a model: leave \"model\" out";
        return Err(rejected_at(ErrorCode::ModelNotAllowed, "/model", "a script has no model", message.into()));
    }
    check_model(skill, &engine, &request)?;
    check_limits(shared, skill)?;
    let options = options(shared, Some(skill), &request.runtime_options)?;
    let mode = options.execution_mode;
    if !skill.manifest.execution_modes.contains(&mode) {
        let message = format!("skill {} does not support execution_mode {:?}", skill.id, mode.as_str());
        let path = "/runtime_options/execution_mode";
        let flaw = "not a mode of the skill";
        return Err(rejected_at(ErrorCode::SkillExecutionModeUnsupported, path, flaw, message));
    }
    let mut input = request.input.unwrap_or_default();
    let mut parameter = request.parameter.unwrap_or_default();
    let defaults = inputs::defaults(skill, &input, &parameter);
    defaults.fill(&mut input, &mut parameter);
    check_size(&input, &parameter)?;
    inputs::check_request(skill, Some(&Value::Object(input.clone())), Some(&Value::Object(parameter.clone())))
        .map_err(|rejection| Error::Rejected {
            code: rejection.code,
            message: rejection.message,
            details: rejection.details,
        })?;
    let needs_files = skill.file_fields().iter().any(|field| field.required);
    let mut started = Started {
        request_id: RequestId(shared.clock.new_id()),
        skill: SkillRef {
            id: skill.id.clone(),
            version: skill.version.to_string(),
            fingerprint: skill.fingerprint.clone(),
        },
        engine,
        model: request.model,
        execution_mode: mode,
        runtime_options: options,
        input,
        parameter,
        awaiting_upload: request.await_upload.unwrap_or(needs_files),
        idempotency_sha256,
        cache_key: None,
        engine_config_sha256,
        temporary: false,
        labels: request.labels.unwrap_or_default(),
        metadata: request.metadata.map(Box::new),
        context: request.context.map(Box::new),
        priority: request.priority.unwrap_or_default(),
        requested_by: request.requested_by.clone(),
        traceparent: request.traceparent.clone(),
        awaiting_files: Vec::new(),
        defaults: Box::new(defaults),
    };
    if started.awaiting_upload {
        let fields = skill.file_fields();
        let wanted = fields.iter().filter(|field| field.required || !needs_files);
        started.awaiting_files = wanted.map(|field| field.name.clone()).collect();
    }
    if !started.awaiting_upload {
        started.cache_key = Some(key_of(&started, &Manifest::default().sha256(), None).0);
    }
    Ok(started)
}

/// The first event of a run whose skill comes with its upload, as far as the request can be judged without it.
pub(crate) fn plan_without_skill(
    shared: &Shared,
    request: &CreateRequest,
    idempotency_sha256: Option<String>,
) -> Result<Started, Error> {
    check_engine_configs(request)?;
    check_tags(request)?;
    check_model_name(request)?;
    let engine = request.engine.as_deref().unwrap_or(UNTIL_UPLOAD);
    if let Some(Err(unknown)) = request.engine.as_deref().map(str::parse::<Engine>) {
        let (code, flaw) = (ErrorCode::SkillEngineUnsupported, "not the name of an engine");
        return Err(rejected_at(code, "/engine", flaw, unknown.to_string()));
    }
    if request.await_upload == Some(false) {
        let message = "a temporary skill comes with the upload: leave \"await_upload\" out";
        return Err(rejected_at(ErrorCode::InvalidRequest, "/await_upload", "must not be false", message.into()));
    }
    let runtime_options = options(shared, None, &request.runtime_options)?;
    let (input, parameter) = (request.input.clone().unwrap_or_default(), request.parameter.clone().unwrap_or_default());
    check_size(&input, &parameter)?;
    Ok(Started {
        request_id: RequestId(shared.clock.new_id()),
        skill: SkillRef { id: UNTIL_UPLOAD.into(), version: String::new(), fingerprint: String::new() },
        engine: engine.to_owned(),
        model: request.model.clone(),
        execution_mode: runtime_options.execution_mode,
        runtime_options,
        input,
        parameter,
        awaiting_upload: true,
        idempotency_sha256,
        cache_key: None,
        engine_config_sha256: None,
        temporary: true,
        labels: request.labels.clone().unwrap_or_default(),
        metadata: request.metadata.clone().map(Box::new),
        context: request.context.clone().map(Box::new),
        priority: request.priority.unwrap_or_default(),
        requested_by: request.requested_by.clone(),
        traceparent: request.traceparent.clone(),
        awaiting_files: Vec::new(),
        defaults: Box::default(),
    })
}

/// Whether the request sets only what a request may set, for whichever engine.
fn check_engine_configs(request: &CreateRequest) -> Result<(), Error> {
    let mut named = Vec::new();
    let mut details = Vec::new();
    for (engine, config) in &request.engine_configs {
        let Some(adapter) = engine::adapter(*engine) else { continue };
        for refused in config::refused(adapter.config.allowed, &Value::Object(config.clone())) {
            named.push(format!("{engine}_config.{} ({})", refused.shown(), refused.reason));
            let path: String =
                refused.path.iter().map(|step| format!("/{}", step.replace('~', "~0").replace('/', "~1"))).collect();
            details.push(ValidationError { path: format!("/{engine}_config{path}"), message: refused.reason });
        }
    }
    if details.is_empty() {
        return Ok(());
    }
    let message = format!("the request may not set these keys of the engine's configuration so: {}", named.join(", "));
    Err(Error::Rejected { code: ErrorCode::EngineConfigRefused, message, details })
}

/// Whether every configuration is for an engine that this run may use: the one asked for, else one of the skill's.
fn check_foreign_configs(skill: &Skill, request: &CreateRequest) -> Result<(), Error> {
    let engines = skill.effective_engines();
    let asked = request.asked_engine.then_some(request.engine.as_deref()).flatten();
    let is_foreign = |engine: &&Engine| match asked {
        Some(asked) => engine.as_str() != asked,
        None => !engines.contains(engine),
    };
    let foreign: Vec<&Engine> = request.engine_configs.keys().filter(is_foreign).collect();
    if foreign.is_empty() {
        return Ok(());
    }
    let named: Vec<String> = foreign.iter().map(|engine| format!("{engine}_config")).collect();
    let runs_on = asked.map_or_else(|| Engine::names(&engines), str::to_owned);
    let message = format!("{} is of no use: the run is on {runs_on}; leave it out", named.join(", "));
    let detail =
        |name: &String| ValidationError { path: format!("/{name}"), message: "not for this run's engine".into() };
    Err(Error::Rejected { code: ErrorCode::InvalidRequest, message, details: named.iter().map(detail).collect() })
}

/// How many bytes of JSON they are; no more than there may be.
fn check_size(input: &Map<String, Value>, parameter: &Map<String, Value>) -> Result<usize, Error> {
    let inline = length(input) + length(parameter);
    if inline <= INLINE_MAX {
        return Ok(inline);
    }
    let message = format!(
        "input and parameter together are {inline} bytes of JSON, more than {INLINE_MAX}: upload large values as files"
    );
    Err(rejected(ErrorCode::PayloadTooLarge, message))
}

/// How long the fields are as JSON.
pub(crate) fn length(fields: &Map<String, Value>) -> usize {
    let mut counted = Counted(0);
    // Neither the value nor the writer can fail.
    let _ = serde_json::to_writer(&mut counted, fields);
    counted.0
}

/// Counts what is written.
struct Counted(usize);

impl io::Write for Counted {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0 += bytes.len();
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// The engine asked for, if the skill runs on it.
fn check_engine(skill: &Skill, engine: &str) -> Result<(), Error> {
    let engines = skill.effective_engines();
    if engines.iter().any(|supported| supported.as_str() == engine) {
        return Ok(());
    }
    let runs_on = Engine::names(&engines);
    let message = format!("skill {} does not run on engine {engine:?}; it runs on {runs_on}", skill.id);
    Err(rejected_at(ErrorCode::SkillEngineUnsupported, "/engine", "not an engine of the skill", message))
}

/// A skill that sets what only the operator may set is refused before its run begins.
fn check_skill_config(skill: &Skill, engine: &str) -> Result<(), Error> {
    let Some(adapter) = engine.parse().ok().and_then(engine::adapter) else { return Ok(()) };
    let file = skill.config_file(adapter);
    let refused = skill.findings.iter().filter(|it| it.code == FindingCode::ConfigKeyRefused && it.file == file);
    let refused: Vec<&str> = refused.map(|finding| finding.message.as_str()).collect();
    if refused.is_empty() {
        return Ok(());
    }
    let message = format!("skill {} cannot run on {engine}: {file}: {}", skill.id, refused.join("; "));
    Err(rejected(ErrorCode::EngineConfigRefused, message))
}

/// An engine would be started with an empty argument.
fn check_model_name(request: &CreateRequest) -> Result<(), Error> {
    if request.model.as_deref().is_none_or(|model| !model.trim().is_empty()) {
        return Ok(());
    }
    let message = "\"model\" is empty: name a model, or leave \"model\" out for the engine's own choice".to_owned();
    Err(rejected_at(ErrorCode::InvalidRequest, "/model", "must not be empty", message))
}

/// Whether the model that the request names, in whichever way, is one that the skill lists for this engine, if it lists any.
fn check_model(skill: &Skill, engine: &str, request: &CreateRequest) -> Result<(), Error> {
    let Ok(engine) = engine.parse::<Engine>() else { return Ok(()) };
    let Some(listed) = skill.manifest.models.get(&engine) else { return Ok(()) };
    let model_key = engine::adapter(engine).map_or("", |adapter| adapter.config.model_key);
    let in_config = request.engine_config(engine.as_str()).and_then(|config| {
        let mut steps = model_key.split('.');
        let first = config.get(steps.next()?)?;
        steps.try_fold(first, |inner, step| inner.get(step))?.as_str()
    });
    let in_config = in_config.map(|model| (format!("/{engine}_config/{}", model_key.replace('.', "/")), model));
    let in_body = request.model.as_deref().map(|model| ("/model".to_owned(), model));
    for (path, model) in in_body.into_iter().chain(in_config) {
        if !listed.iter().any(|allowed| allowed == model) {
            let message = format!("skill {} runs on {engine} with {} only", skill.id, listed.join(", "));
            let flaw = format!("{model:?} is not in its list");
            return Err(rejected_at(ErrorCode::ModelNotAllowed, path, &flaw, message));
        }
    }
    Ok(())
}

/// The options in force: those asked for, else the skill's, else the service's.
fn options(shared: &Shared, skill: Option<&Skill>, asked: &OptionsRequest) -> Result<RuntimeOptions, Error> {
    let defaults = skill.map(|skill| skill.manifest.runtime.default_options.clone()).unwrap_or_default();
    let defaults: OptionsRequest = serde_json::from_value(Value::Object(defaults)).map_err(|error| {
        rejected(ErrorCode::InvalidRequest, format!("the skill's own runtime.default_options are wrong: {error}"))
    })?;
    let settings = &shared.settings;
    let skill_timeout = skill.and_then(Skill::timeout_seconds);
    let hard = asked.hard_timeout_seconds.or(defaults.hard_timeout_seconds).or(skill_timeout);
    let hard_timeout_seconds = hard.unwrap_or(settings.times.hard_timeout_seconds);
    if hard_timeout_seconds == 0 {
        let (path, flaw) = ("/runtime_options/hard_timeout_seconds", "must be at least 1");
        return Err(rejected_at(ErrorCode::InvalidRequest, path, flaw, format!("hard_timeout_seconds {flaw}")));
    }
    let stall_timeout_seconds =
        asked.stall_timeout_seconds.or(defaults.stall_timeout_seconds).unwrap_or(settings.times.stall_timeout_seconds);
    let interactive_reply_timeout_sec =
        asked.interactive_reply_timeout_sec.or(defaults.interactive_reply_timeout_sec).unwrap_or(1200);
    for (name, seconds) in [
        ("hard_timeout_seconds", hard_timeout_seconds),
        ("stall_timeout_seconds", stall_timeout_seconds),
        ("interactive_reply_timeout_sec", interactive_reply_timeout_sec),
    ] {
        if seconds > LONGEST_SECONDS {
            let (path, flaw) = (format!("/runtime_options/{name}"), format!("must be at most {LONGEST_SECONDS}"));
            return Err(rejected_at(ErrorCode::InvalidRequest, path, &flaw, format!("{name} {flaw}")));
        }
    }
    let retry = asked.retry.or(defaults.retry);
    let retry_limits = [
        ("times", retry.map_or(0, |retry| u64::from(retry.times)), RETRIES_MAX),
        ("backoff_seconds", retry.map_or(0, |retry| retry.backoff_seconds), LONGEST_SECONDS),
    ];
    for (name, given, most) in retry_limits {
        if given > most {
            let (path, flaw) = (format!("/runtime_options/retry/{name}"), format!("must be at most {most}"));
            let message = format!("runtime_options.retry.{name} {flaw}");
            return Err(rejected_at(ErrorCode::InvalidRequest, path, &flaw, message));
        }
    }
    let flag = |asked: Option<bool>, default: Option<bool>| asked.or(default).unwrap_or(false);
    Ok(RuntimeOptions {
        execution_mode: asked.execution_mode.or(defaults.execution_mode).unwrap_or(ExecutionMode::Auto),
        no_cache: flag(asked.no_cache, defaults.no_cache),
        debug: flag(asked.debug, defaults.debug),
        debug_keep_temp: flag(asked.debug_keep_temp, defaults.debug_keep_temp),
        verbose: flag(asked.verbose, defaults.verbose),
        interactive_auto_reply: flag(asked.interactive_auto_reply, defaults.interactive_auto_reply),
        interactive_reply_timeout_sec,
        hard_timeout_seconds,
        stall_timeout_seconds,
        retry,
    })
}

/// A skill that needs more than the operator allows is refused before its run begins: with less it would fail half-way.
fn check_limits(shared: &Shared, skill: &Skill) -> Result<(), Error> {
    let beyond = shared.settings.resources.beyond(&skill.manifest.automation.limits);
    if beyond.is_empty() {
        return Ok(());
    }
    let told = beyond.iter().map(|Beyond { resource, asked, most }| {
        let name = resource.name();
        format!("automation.limits.{name} is {asked}, but the setting limits.{name} allows {most}")
    });
    let told: Vec<String> = told.collect();
    let message = format!("skill {} asks for more than it may use: {}", skill.id, told.join("; "));
    Err(rejected(ErrorCode::SkillLimitsTooHigh, message))
}

/// The cache key of a run with these files and, if its skill is its own, this package; and the key's parts.
pub(crate) fn key_of(started: &Started, manifest_sha256: &str, package_sha256: Option<&str>) -> (String, Vec<KeyPart>) {
    let parts = KeyParts {
        skill: &started.skill,
        engine: &started.engine,
        model: started.model.as_deref(),
        options: &started.runtime_options,
        engine_config_sha256: started.engine_config_sha256.as_deref(),
        parameter: &started.parameter,
        input: &started.input,
        manifest_sha256,
        package_sha256,
        context: started.context.as_deref(),
    };
    (cache_key(&parts), parts.hashes())
}

impl Shared {
    /// The request with its engine named: the one asked for, else the skill's first that is ready here, else its first.
    pub(crate) async fn with_engine(
        self: &Arc<Self>,
        mut request: CreateRequest,
        skill: &Skill,
    ) -> Result<CreateRequest, Error> {
        if request.engine.is_some() {
            return Ok(request);
        }
        let engines = skill.effective_engines();
        request.engine = match engines.as_slice() {
            [only] => Some(only.to_string()),
            _ => {
                let shared = self.clone();
                self.blocking
                    .run("look for engines", move || {
                        let ready = |engine: &&Engine| match engine::adapter(**engine) {
                            Some(cli) => shared.installed_engines.find(cli).is_ok(),
                            // A script needs no CLI.
                            None => true,
                        };
                        engines.iter().find(ready).or(engines.first()).map(Engine::to_string)
                    })
                    .await?
            }
        };
        Ok(request)
    }
}
