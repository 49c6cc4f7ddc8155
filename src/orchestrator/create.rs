//! A request becomes a run: everything is checked first, and nothing is created when a check fails.

use std::sync::Arc;

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::cache::Wanted;
use super::error::Error;
use super::flights::Follower;
use super::handle::{Created, Orchestrator, Shared};
use super::journal::Journal;
use super::request::{CreateRequest, OptionsRequest};
use super::surroundings::Work;
use crate::domain::cache_key::{KeyPart, KeyParts, cache_key, canonical, sha256_bytes, sha256_hex};
use crate::domain::event::{Event, Started, UploadedPackage};
use crate::domain::ids::{RequestId, RunId, Seq};
use crate::domain::request::{ExecutionMode, RuntimeOptions, SkillRef};
use crate::domain::state::RunState;
use crate::domain::statechart::Status;
use crate::engine::{self, contract, script};
use crate::fcmp::read_envelope;
use crate::registry::{Installed, NotUsable};
use crate::settings::RestartQueued;
use crate::skill::{Intake, Skill, inputs};
use crate::store::{self, IndexChange, IndexKey};
use crate::workspace::Manifest;
use crate::{registry, workspace};

/// Most bytes of inline values: they are part of the run's first event.
const INLINE_MAX: usize = 512 * 1024;

/// The longest time an option may ask for, as in the service's own settings: a week. No clock counts without end.
const LONGEST_SECONDS: u64 = 7 * 24 * 3600;

/// What an idempotency key led to.
#[derive(Debug, Serialize, Deserialize)]
struct FirstAnswer {
    body_sha256: String,
    answer: Created,
}

impl Orchestrator {
    /// Create a run. With an idempotency key, the same key and body give the first answer again.
    pub async fn create(&self, request: CreateRequest, idempotency_key: Option<&str>) -> Result<Created, Error> {
        let shared = &self.shared;
        let idempotency = idempotency_key.map(|key| (sha256_hex(key.as_bytes()), body_hash(&request)));
        if let Some((key, body)) = &idempotency
            && let Some(row) = idempotency_row(key)
            && let Some(first) = shared.store.index(&row)?
        {
            return first_answer(&first, body);
        }
        shared.admits()?;
        let installed = shared.lookup(&request.skill_id)?;
        let again = request.clone();
        let request = shared.with_engine(request, &installed.skill).await?;
        let engine_config = request.engine.as_deref().and_then(|engine| request.engine_config(engine)).cloned();
        let started = plan(shared, &installed.skill, request, idempotency.as_ref().map(|(key, _)| key.clone()))?;

        let run = RunId(shared.clock.new_id());
        let wanted = wanted(shared, run, &started);
        let lead = wanted.as_ref().and_then(|wanted| shared.lead(&wanted.key, run));
        // Asked for once it leads: a run that led before has left its entry by then.
        let cached =
            lead.is_some() && wanted.as_ref().is_some_and(|it| shared.cached(&it.key).is_ok_and(|it| it.is_some()));
        let place = if started.awaiting_upload || cached { None } else { Some(shared.place()?) };
        let written = write_folder(shared, run, &started, &installed, engine_config).await;
        // An update that came meanwhile may have left one version's name on another's files: then this never was.
        if !shared.is_still_installed(&installed) {
            drop((lead, place));
            let _ = workspace::remove_run(&shared.layout.run(run));
            let _ = workspace::remove_tree(&shared.layout.request(started.request_id));
            return Box::pin(self.create(again, idempotency_key)).await;
        }
        written?;
        let follows = wanted.as_ref().map(|wanted| wanted.key.clone()).filter(|_| lead.is_none());
        let take = match wanted.filter(|_| cached) {
            Some(wanted) => shared.take(wanted).await,
            None => None,
        };
        let answer = Created {
            request_id: started.request_id,
            run_id: run,
            cache_hit: take.is_some(),
            status: if take.is_some() { Status::Succeeded } else { Status::Queued },
            awaiting_upload: started.awaiting_upload,
        };
        let runs = take.is_none() && !started.awaiting_upload;
        let (rows, absent) = idempotency_changes(idempotency.as_ref(), &answer)?;
        let created = async {
            let place = match place {
                None if runs => Some(shared.place()?),
                place => place,
            };
            let journal = Journal::create(shared, run, started, take, rows, absent).await?;
            Ok::<_, Error>((place, journal))
        };
        let (place, journal) = match created.await {
            Ok(created) => created,
            Err(error) => {
                // Nothing was created, so nothing may be left.
                let _ = workspace::remove_run(&shared.layout.run(run));
                return match (error, &idempotency) {
                    (Error::Store(store::Error::Taken { value }), Some((_, body))) => first_answer(&value, body),
                    (error, _) => Err(error),
                };
            }
        };
        if let Some(lead) = lead {
            lead.keep();
        }
        match (place, follows) {
            (place, Some(key)) => shared.follow(&key, Follower { run, place }),
            (Some(place), None) => {
                place.enter(run);
                shared.start_next();
            }
            // It is over, or waits for its files.
            (None, None) if answer.cache_hit => shared.owe(journal.state()),
            (None, None) => {}
        }
        Ok(answer)
    }
}

/// What a new run wants of the cache.
fn wanted(shared: &Shared, run: RunId, started: &Started) -> Option<Wanted> {
    Wanted::of(&RunState::open(run, started, shared.clock.now()))
}

/// The cache key of a run with these files.
pub(super) fn key_of(
    started: &Started,
    manifest_sha256: &str,
    package: Option<&UploadedPackage>,
) -> (String, Vec<KeyPart>) {
    let parts = KeyParts {
        skill: package.map_or(&started.skill, |package| &package.skill),
        engine: package.map_or(&started.engine, |package| &package.engine),
        model: started.model.as_deref(),
        options: &started.runtime_options,
        engine_config_sha256: started.engine_config_sha256.as_deref(),
        parameter: &started.parameter,
        input: &started.input,
        manifest_sha256,
        package_sha256: package.map(|package| package.sha256.as_str()),
    };
    (cache_key(&parts), parts.hashes())
}

/// The index row of an idempotency key, by the key's hash in hexadecimal.
pub(super) fn idempotency_row(hash: &str) -> Option<IndexKey> {
    sha256_bytes(hash).map(IndexKey::Idempotency)
}

fn idempotency_changes(
    idempotency: Option<&(String, String)>,
    answer: &Created,
) -> Result<(Vec<IndexChange>, Option<IndexKey>), Error> {
    let Some((key, body)) = idempotency else { return Ok((Vec::new(), None)) };
    let Some(row) = idempotency_row(key) else { return Ok((Vec::new(), None)) };
    let first = FirstAnswer { body_sha256: body.clone(), answer: answer.clone() };
    let bytes = serde_json::to_vec(&first)
        .map_err(|error| Error::Corrupt { run: answer.run_id.to_string(), message: error.to_string() })?;
    Ok((vec![IndexChange::Put(row, Bytes::from(bytes))], Some(row)))
}

fn first_answer(stored: &[u8], body: &str) -> Result<Created, Error> {
    let first: FirstAnswer = serde_json::from_slice(stored)
        .map_err(|error| Error::Corrupt { run: "of an idempotency key".into(), message: error.to_string() })?;
    if first.body_sha256 == body { Ok(first.answer) } else { Err(Error::IdempotencyConflict) }
}

/// Two bodies are the same when they ask for the same, whatever their white space and key order.
fn body_hash(request: &CreateRequest) -> String {
    let options = &request.runtime_options;
    let whole = json!({
        "skill_id": request.skill_id,
        "engine": request.engine,
        "input": request.input,
        "parameter": request.parameter,
        "model": request.model,
        "await_upload": request.await_upload,
        "engine_configs": [
            request.codex_config, request.gemini_config, request.opencode_config,
            request.iflow_config, request.claude_config, request.qwen_config,
        ],
        "runtime_options": {
            "execution_mode": options.execution_mode,
            "no_cache": options.no_cache,
            "debug": options.debug,
            "debug_keep_temp": options.debug_keep_temp,
            "verbose": options.verbose,
            "interactive_auto_reply": options.interactive_auto_reply,
            "interactive_reply_timeout_sec": options.interactive_reply_timeout_sec,
            "hard_timeout_seconds": options.hard_timeout_seconds,
            "stall_timeout_seconds": options.stall_timeout_seconds,
        },
    });
    sha256_hex(canonical(&whole).as_bytes())
}

fn rejected(code: &'static str, message: String) -> Error {
    Error::Rejected { code, message, details: Vec::new() }
}

/// The first event of the run, if the request is right.
fn plan(
    shared: &Shared,
    skill: &Skill,
    request: CreateRequest,
    idempotency_sha256: Option<String>,
) -> Result<Started, Error> {
    let engine = request.engine.clone().unwrap_or_default();
    let engine_config = request.engine_config(&engine);
    let engine_config_sha256 =
        engine_config.map(|config| sha256_hex(canonical(&Value::Object(config.clone())).as_bytes()));
    check_engine(skill, &engine)?;
    if engine == script::ENGINE && request.model.is_some() {
        return Err(rejected("MODEL_NOT_ALLOWED", "a script skill runs without a model: leave \"model\" out".into()));
    }
    let options = options(shared, skill, &request.runtime_options)?;
    let mode = options.execution_mode;
    if !skill.manifest.execution_modes.contains(&mode) {
        let message = format!("skill {} does not support execution_mode {:?}", skill.id, mode.as_str());
        return Err(rejected("SKILL_EXECUTION_MODE_UNSUPPORTED", message));
    }
    let input = request.input.unwrap_or_default();
    let parameter = request.parameter.unwrap_or_default();
    inputs::check_request(skill, Some(&Value::Object(input.clone())), Some(&Value::Object(parameter.clone())))
        .map_err(|rejection| Error::Rejected {
            code: rejection.code.as_str(),
            message: rejection.message,
            details: rejection.details,
        })?;
    let inline = Value::Object(input.clone()).to_string().len() + Value::Object(parameter.clone()).to_string().len();
    if inline > INLINE_MAX {
        let message = format!(
            "input and parameter together are {inline} bytes of JSON, more than {INLINE_MAX}: upload large values as files"
        );
        return Err(rejected("PAYLOAD_TOO_LARGE", message));
    }
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
    };
    if !started.awaiting_upload {
        started.cache_key = Some(key_of(&started, &Manifest::default().sha256(), None).0);
    }
    Ok(started)
}

/// The engine asked for, if the skill runs on it.
fn check_engine(skill: &Skill, engine: &str) -> Result<(), Error> {
    let engines = skill.effective_engines();
    if engines.iter().any(|supported| supported == engine) {
        return Ok(());
    }
    Err(rejected(
        "SKILL_ENGINE_UNSUPPORTED",
        format!("skill {} does not run on engine {engine:?}; it runs on {}", skill.id, engines.join(", ")),
    ))
}

fn options(shared: &Shared, skill: &Skill, asked: &OptionsRequest) -> Result<RuntimeOptions, Error> {
    let defaults: OptionsRequest =
        serde_json::from_value(Value::Object(skill.manifest.runtime.default_options.clone())).map_err(|error| {
            rejected("INVALID_REQUEST", format!("the skill's own runtime.default_options are wrong: {error}"))
        })?;
    let settings = &shared.settings;
    let hard = asked.hard_timeout_seconds.or(defaults.hard_timeout_seconds).or(skill.timeout_seconds());
    let hard_timeout_seconds = hard.unwrap_or(settings.times.hard_timeout_seconds);
    if hard_timeout_seconds == 0 {
        return Err(Error::Rejected {
            code: "INVALID_REQUEST",
            message: "hard_timeout_seconds must be at least 1".into(),
            details: vec![crate::domain::event::ValidationError {
                path: "/runtime_options/hard_timeout_seconds".into(),
                message: "must be at least 1".into(),
            }],
        });
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
            let message = format!("must be at most {LONGEST_SECONDS}");
            let path = format!("/runtime_options/{name}");
            return Err(Error::Rejected {
                code: "INVALID_REQUEST",
                message: format!("{name} {message}"),
                details: vec![crate::domain::event::ValidationError { path, message }],
            });
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
    })
}

/// The run's folder with its own copy of the skill: editing the skill never touches a run that exists.
async fn write_folder(
    shared: &Shared,
    run: RunId,
    started: &Started,
    installed: &Installed,
    engine_config: Option<Map<String, Value>>,
) -> Result<(), Error> {
    let paths = shared.layout.run(run);
    let copy = paths.skill_copy(&started.engine, &started.skill.id);
    let (from, files, made) = (installed.dir.clone(), installed.files.clone(), installed.made.clone());
    let input = pretty(&json!({
        "skill_id": started.skill.id,
        "engine": started.engine,
        "model": started.model,
        "input": started.input,
        "parameter": started.parameter,
        "runtime_options": started.runtime_options,
    }));
    let skill = pretty(&json!({
        "id": started.skill.id,
        "version": started.skill.version,
        "fingerprint": started.skill.fingerprint,
        "engine": started.engine,
    }));
    let config_path = shared.layout.request_engine_config(started.request_id);
    let undo = paths.clone();
    // What is to survive a restart is durable before the answer; a run that a restart ends needs no more than its log.
    let survives = started.awaiting_upload || shared.settings.runs.restart_queued == RestartQueued::Requeue;
    let written = Work::run(&shared.work, move || {
        workspace::create_run(&paths)?;
        match made {
            Some(made) => workspace::write_skill(&made, &copy)?,
            None => workspace::copy_skill(&from, &files, &copy)?,
        };
        workspace::write_whole(&paths.input_json(), &input)?;
        workspace::write_whole(&paths.skill_json(), &skill)?;
        if let Some(config) = engine_config {
            workspace::write_private(&config_path, &pretty(&Value::Object(config)))?;
        }
        if survives { workspace::sync_run(&paths) } else { Ok(()) }
    })
    .await
    .map_err(|error| Error::io("write the run's folder")(error.into()))?;
    if let Err(error) = written {
        let _ = workspace::remove_run(&undo);
        return Err(error.into());
    }
    Ok(())
}

/// JSON for people and programs, with an end of line.
pub(super) fn pretty(value: &Value) -> Vec<u8> {
    let mut text = format!("{value:#}");
    text.push('\n');
    text.into_bytes()
}

impl Shared {
    /// The request with its engine named: the one asked for, else the skill's first that is ready here, else its first.
    async fn with_engine(self: &Arc<Self>, mut request: CreateRequest, skill: &Skill) -> Result<CreateRequest, Error> {
        if request.engine.is_some() {
            return Ok(request);
        }
        let engines = skill.effective_engines();
        request.engine = match engines.as_slice() {
            [only] => Some(only.clone()),
            _ => {
                let shared = self.clone();
                Work::run(&self.work, move || {
                    let ready = |name: &&String| engine::adapter(name).is_some_and(|cli| shared.clis.find(cli).is_ok());
                    engines.iter().find(ready).or(engines.first()).cloned()
                })
                .await
                .map_err(|error| Error::io("look for engines")(error.into()))?
            }
        };
        Ok(request)
    }

    /// The installed skill of that name.
    fn lookup(&self, id: &str) -> Result<Arc<Installed>, Error> {
        self.registry.lookup(id).map_err(|lookup| {
            let reason = match &lookup {
                NotUsable::NotFound => String::new(),
                NotUsable::Invalid { findings } => {
                    let first = findings.first().map(|finding| finding.message.clone()).unwrap_or_default();
                    format!(": its folder is not a valid skill ({first}); see `skill-runner skill lint`")
                }
            };
            Error::SkillNotFound { id: id.chars().take(64).collect(), reason }
        })
    }

    /// Whether the skill is the same as when it was looked up.
    fn is_still_installed(&self, installed: &Installed) -> bool {
        let now = self.registry.lookup(&installed.skill.id);
        now.is_ok_and(|now| now.skill.fingerprint == installed.skill.fingerprint)
    }

    /// The skill a run was created with: the installed one while unchanged, else the run's own copy.
    pub fn skill_of(&self, state: &RunState) -> Result<Skill, Error> {
        if let Ok(installed) = self.registry.lookup(&state.skill.id)
            && installed.skill.fingerprint == state.skill.fingerprint
        {
            return Ok(installed.skill.clone());
        }
        let copy = self.layout.run(state.run_id).skill_copy(&state.engine, &state.skill.id);
        match registry::load_dir(&copy, Intake::Installed) {
            // A copy that carries the contract was prepared for its engine already, and was whole then.
            Ok(installed)
                if installed.skill.fingerprint == state.skill.fingerprint
                    || contract::stands_in(&installed.skill.body) =>
            {
                Ok(installed.skill.clone())
            }
            Ok(_) | Err(_) => Err(Error::Corrupt {
                run: state.run_id.to_string(),
                message: "its copy of the skill is not what it was created with".into(),
            }),
        }
    }

    /// A run's first event.
    pub fn started(&self, run: RunId) -> Result<Started, Error> {
        let corrupt = |message: String| Error::Corrupt { run: run.to_string(), message };
        let batches = self.log.read(run, Seq::START, 1)?;
        let (_, first) =
            batches.first().and_then(|batch| batch.events().next()).ok_or_else(|| corrupt("it is empty".into()))?;
        match read_envelope(&first).map_err(|error| corrupt(error.to_string()))?.event {
            Some(Event::Started(started)) => Ok(started),
            _ => Err(corrupt("its first event is not conversation.started".into())),
        }
    }
}
