//! A request becomes a run: everything is checked first, and nothing is created when a check fails.

use std::sync::Arc;

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use tracing::{info, warn};

use crate::bounded;
use crate::domain::cache_key::{canonical, sha256_hex};
use crate::domain::causes::chain;
use crate::domain::codes::ErrorCode;
use crate::domain::command::Command;
use crate::domain::engine::Engine;
use crate::domain::event::Started;
use crate::domain::ids::{RequestId, RunId};
use crate::domain::request::ExecutionMode;
use crate::domain::state::RunState;
use crate::domain::statechart::Status;
use crate::files;
use crate::orchestrator::admission::admit::Admission;
use crate::orchestrator::admission::cache::Wanted;
use crate::orchestrator::admission::effects::perform;
use crate::orchestrator::error::Error;
use crate::orchestrator::handle::Orchestrator;
use crate::orchestrator::intake::plan::{plan_without_skill, rejected_at};
use crate::orchestrator::intake::request::CreateRequest;
use crate::orchestrator::log::idempotency::idempotency_row;
use crate::orchestrator::log::journal::{FirstRows, Journal, Step};
use crate::orchestrator::results::pretty;
use crate::orchestrator::shared::Shared;
use crate::orchestrator::shared::request_files::write_request;
use crate::orchestrator::shared::skills::copy_installed;
use crate::registry::{Installed, NotUsable};
use crate::settings::RestartQueued;
use crate::store::{self, IndexChange};
use crate::workspace::{self, RunPaths, removable};

/// Answer to a created run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Created {
    /// The client's name for it.
    pub request_id: RequestId,
    pub run_id: RunId,
    /// Whether an equal run's result was taken.
    pub cache_hit: bool,
    pub status: Status,
    /// Whether files are to be uploaded first.
    pub awaiting_upload: bool,
    /// Whether this request made it, and not an earlier one with the same key.
    #[serde(skip)]
    pub(crate) is_new: bool,
}

/// What a run would begin with.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct Planned {
    pub(crate) skill_id: String,
    pub(crate) skill_version: String,
    pub(crate) engine: String,
    pub(crate) model: Option<String>,
    pub(crate) execution_mode: ExecutionMode,
    /// The files that would have to be uploaded.
    pub(crate) awaiting_files: Vec<String>,
}

/// What an idempotency key led to.
#[derive(Debug, Serialize, Deserialize)]
struct FirstAnswer {
    body_sha256: String,
    answer: Created,
}

/// What a new run's folder begins with.
enum Begins {
    /// A copy of its skill, and the configuration for its engine.
    WithSkill(Arc<Installed>, Option<Map<String, Value>>),
    /// The request alone: the skill comes with the upload, and is judged by it then.
    WithRequest(Box<CreateRequest>),
}

impl Begins {
    /// Whether anything is kept beside the run, in the folder of its request.
    fn keeps_request(&self) -> bool {
        match self {
            Self::WithSkill(_, engine_config) => engine_config.is_some(),
            Self::WithRequest(_) => true,
        }
    }
}

/// Where a new run's skill comes from.
#[derive(Clone, Copy)]
enum Source {
    Installed,
    Upload,
}

/// The hash of a client's key and of the body it came with.
type Idempotency = Option<(String, String)>;

impl Orchestrator {
    /// Create a run. With an idempotency key, the same key and body give the first answer again.
    pub async fn create(&self, request: CreateRequest, idempotency_key: Option<&str>) -> Result<Created, Error> {
        self.create_from(Source::Installed, request, idempotency_key).await
    }

    /// Create a run of a skill that is this run's alone and comes with its upload.
    pub async fn create_temp(&self, request: CreateRequest, idempotency_key: Option<&str>) -> Result<Created, Error> {
        self.create_from(Source::Upload, request, idempotency_key).await
    }

    /// What a run of an installed skill would begin with; nothing is created.
    pub(crate) async fn check(&self, request: CreateRequest) -> Result<Planned, Error> {
        let (started, _) = self.shared.plan_installed(request, None).await?;
        Ok(Planned {
            skill_id: started.skill.id,
            skill_version: started.skill.version,
            engine: started.engine,
            model: started.model,
            execution_mode: started.execution_mode,
            awaiting_files: started.awaiting_files,
        })
    }

    async fn create_from(
        &self,
        source: Source,
        request: CreateRequest,
        idempotency_key: Option<&str>,
    ) -> Result<Created, Error> {
        let shared = &self.shared;
        let idempotency = idempotency_key.map(|key| (sha256_hex(key.as_bytes()), body_hash(&request)));
        if let Some(first) = shared.first_answer(&idempotency).await? {
            return Ok(first);
        }
        shared.admits()?;
        // A look at the queue before anything is checked: at an overload, refusals have to be cheap. A run that may get an equal
        // run's result, or says that it waits for files, needs no place yet.
        let asks_for_place = request.runtime_options.no_cache == Some(true) && request.await_upload != Some(true);
        if matches!(source, Source::Installed) && asks_for_place {
            shared.refuse_if_full(request.labels.as_ref(), request.requested_by.as_deref())?;
        }
        let key = idempotency.as_ref().map(|(key, _)| key.clone());
        loop {
            let (started, begins) = match source {
                Source::Installed => shared.plan_installed(request.clone(), key.clone()).await?,
                Source::Upload => plan_uploaded(shared, &request, key.clone())?,
            };
            if let Some(created) = self.begin(started, begins, &idempotency).await? {
                return Ok(created);
            }
        }
    }

    /// Begin a run; nothing is created when its skill was updated meanwhile.
    async fn begin(
        &self,
        started: Started,
        begins: Begins,
        idempotency: &Idempotency,
    ) -> Result<Option<Created>, Error> {
        let shared = &self.shared;
        let run = RunId(shared.clock.new_id());
        // Nobody ends the run before it is in the queue, follows an equal run, or has its result.
        let _lock = shared.run_locks.lock(run).await;
        let _sharing = shared.sharing.read().await;
        let (request_id, awaiting_upload) = (started.request_id, started.awaiting_upload);
        let keeps_request = begins.keeps_request();
        let mut admission = Admission::begin(shared, wanted(shared, run, &started)).await;
        let awaits = match awaiting_upload {
            true => Some(shared.place_awaiting(&started.labels, started.requested_by.as_deref())?),
            false => None,
        };
        let mut place = match awaiting_upload || admission.expects_hit() {
            true => None,
            false => Some(shared.place(&started.labels, started.requested_by.as_deref())?),
        };
        // A run for debugging has everything in its folder, and so has one whose files are shared with other services.
        let own_folder = started.runtime_options.debug || shared.blobs.is_some();
        let hit = match admission.expects_hit() && !own_folder {
            true => admission.take_shared_result(shared, &started).await,
            false => None,
        };
        let hit = match hit {
            Some(hit) => Some(hit),
            None if write_folder(shared, run, &started, begins).await? == Written::SkillChanged => return Ok(None),
            None => admission.take_result(shared).await,
        };
        let cache_hit = hit.is_some();
        let answer = Created {
            request_id,
            run_id: run,
            cache_hit,
            status: if cache_hit { Status::Succeeded } else { Status::Queued },
            awaiting_upload,
            is_new: true,
        };
        let mut rows = idempotency_rows(idempotency.as_ref(), &answer)?;
        let mut mark = None;
        let created = async {
            if place.is_none() && !cache_hit && !awaiting_upload {
                place = Some(shared.place(&started.labels, started.requested_by.as_deref())?);
            }
            let state = RunState::open(run, &started, shared.clock.now());
            let last_files = hit.as_ref().and_then(|hit| hit.last_files.as_ref());
            rows.along = shared.files_after(&state, last_files).await?;
            mark = rows.along.mark.clone();
            let mut steps = vec![Step::from(Command::Create(Box::new(started)))];
            steps.extend(hit);
            Journal::create(shared.pen(), run, steps, rows).await
        };
        let journal = match created.await {
            Ok(journal) => journal,
            Err(error) => {
                // Nothing was created, so nothing may be left.
                self.remove_folders(run, request_id);
                return match (error, idempotency) {
                    (Error::Store(store::Error::Taken { value }), Some((_, body))) => {
                        first_answer(&value, body).map(Some)
                    }
                    (error, _) => Err(error),
                };
            }
        };
        self.keep_folders(run, keeps_request.then_some(request_id));
        shared.files().settled(run, mark).await;
        tell_creation(journal.state(), cache_hit);
        if journal.state().temporary {
            shared.temp_runs().insert(run);
        }
        if let Some(awaits) = awaits {
            shared.awaiting_files.keep(run, awaits);
        }
        match place {
            Some(place) => admission.enter(shared, journal.state(), place),
            None => admission.stay(),
        }
        if cache_hit {
            perform(shared, journal.state());
        }
        Ok(Some(answer))
    }

    /// The run is on record: from now on its folders stay, whatever becomes of the store.
    fn keep_folders(&self, run: RunId, request: Option<RequestId>) {
        let layout = &self.shared.layout;
        for folder in [Some(layout.run(run).root), request.map(|request| layout.request(request))].into_iter().flatten()
        {
            if let Err(error) = removable::unmark(&folder) {
                // The next start tries again.
                warn!(run.id = %run, path = %folder.display(), error = %chain(&error), "the folder of a new run still has the mark of an unfinished one");
            }
        }
    }

    fn remove_folders(&self, run: RunId, request: RequestId) {
        // What stays is swept at the next start.
        let _ = workspace::remove_run(&self.shared.layout.run(run));
        let _ = files::remove_tree(&self.shared.layout.request(request));
    }
}

fn tell_creation(state: &RunState, cache_hit: bool) {
    info!(
        run.id = %state.run_id, request.id = %state.request_id, skill = state.skill.id, engine = state.engine,
        cache_hit, awaiting_upload = state.awaiting_upload, "run created"
    );
}

impl Shared {
    async fn plan_installed(
        self: &Arc<Self>,
        request: CreateRequest,
        key: Option<String>,
    ) -> Result<(Started, Begins), Error> {
        let Some(skill_id) = &request.skill_id else {
            return Err(wrong_body("", "the field `skill_id` is missing"));
        };
        self.follow_skills().await?;
        let installed = if !self.blocking.has_threads() || self.registry.is_small(skill_id) {
            self.lookup(skill_id)?
        } else {
            // Each of its files is looked at.
            let (shared, id) = (self.clone(), skill_id.clone());
            self.blocking.run("look up a skill", move || shared.lookup(&id)).await??
        };
        let request = self.with_engine(request, &installed.skill).await?;
        let engine_config = request.engine.as_deref().and_then(|engine| request.engine_config(engine)).cloned();
        let started = self.plan_checked(&installed.skill, request, key).await?;
        Ok((started, Begins::WithSkill(installed, engine_config)))
    }
}

fn plan_uploaded(shared: &Shared, request: &CreateRequest, key: Option<String>) -> Result<(Started, Begins), Error> {
    if request.skill_id.is_some() {
        return Err(wrong_body(
            "/skill_id",
            "unknown field `skill_id`: the skill comes with the upload, as skill_package",
        ));
    }
    let started = plan_without_skill(shared, request, key)?;
    Ok((started, Begins::WithRequest(Box::new(request.clone()))))
}

/// A body that does not fit, said as for any other field.
fn wrong_body(path: &str, message: &str) -> Error {
    rejected_at(ErrorCode::InvalidRequest, path, message, format!("the body is not valid: {message}"))
}

/// What a new run wants of the cache.
fn wanted(shared: &Shared, run: RunId, started: &Started) -> Option<Wanted> {
    Wanted::of(&RunState::open(run, started, shared.clock.now()))
}

fn idempotency_rows(idempotency: Option<&(String, String)>, answer: &Created) -> Result<FirstRows, Error> {
    let Some((key, body)) = idempotency else { return Ok(FirstRows::default()) };
    let Some(row) = idempotency_row(key) else { return Ok(FirstRows::default()) };
    let first = FirstAnswer { body_sha256: body.clone(), answer: answer.clone() };
    let bytes = serde_json::to_vec(&first)
        .map_err(|error| Error::Corrupt { run: answer.run_id.to_string(), message: error.to_string() })?;
    let put = vec![IndexChange::Put(row, Bytes::from(bytes))];
    Ok(FirstRows { put, require_absent: Some(row), ..FirstRows::default() })
}

fn first_answer(stored: &[u8], body: &str) -> Result<Created, Error> {
    let first: FirstAnswer = bounded::json::from_slice(stored)
        .map_err(|error| Error::Corrupt { run: "of an idempotency key".into(), message: error.to_string() })?;
    if first.body_sha256 == body { Ok(first.answer) } else { Err(Error::IdempotencyConflict) }
}

/// Two bodies are the same when they ask for the same, whatever their white space and key order.
fn body_hash(request: &CreateRequest) -> String {
    let options = &request.runtime_options;
    // Hashes are stored: an engine keeps its place in the list, and a new one is added at its end.
    let configs: Vec<_> = Engine::AGENTS.iter().map(|engine| request.engine_configs.get(engine)).collect();
    let mut whole = json!({
        "skill_id": request.skill_id,
        "engine": request.engine,
        "input": request.input,
        "parameter": request.parameter,
        "model": request.model,
        "await_upload": request.await_upload,
        "engine_configs": configs,
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
    // Hashes are stored: what a request does not have is not in them.
    if let Some(labels) = &request.labels {
        whole["labels"] = json!(labels);
    }
    if let Some(metadata) = &request.metadata {
        whole["metadata"] = json!(metadata);
    }
    if let Some(context) = &request.context {
        whole["context"] = json!(context);
    }
    if let Some(priority) = request.priority {
        whole["priority"] = json!(priority);
    }
    if let Some(run) = request.files_of {
        whole["files_of"] = json!(run);
    }
    // Hashes of requests without it were stored before there was such an option.
    if let Some(retry) = options.retry {
        whole["runtime_options"]["retry"] = json!(retry);
    }
    sha256_hex(canonical(&whole).as_bytes())
}

/// What became of a new run's folder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Written {
    Whole,
    /// The skill was changed meanwhile; nothing is left.
    SkillChanged,
}

/// The run's folder, and the copy of the skill that it runs: editing the skill never touches a run that exists.
async fn write_folder(shared: &Arc<Shared>, run: RunId, started: &Started, begins: Begins) -> Result<Written, Error> {
    let paths = shared.layout.run(run);
    let (request, started) = (started.request_id, started.clone());
    let owned = shared.clone();
    let undo = (paths.clone(), shared.layout.request(request));
    // What is to survive a restart is durable before the answer; a run that a restart ends needs no more than its log.
    let survives = started.awaiting_upload || shared.settings.runs.restart_queued == RestartQueued::Requeue;
    let written = shared
        .blocking
        .run("write the run's folder", move || {
            removable::create_marked(&paths.root)?;
            write_request(&paths, &started)?;
            match begins {
                Begins::WithSkill(installed, engine_config) => {
                    if !take_copy(&owned, &installed, &started, &paths)? {
                        return Ok(Written::SkillChanged);
                    }
                    if let Some(config) = engine_config {
                        removable::create_marked(&owned.layout.request(request))?;
                        let place = owned.layout.request_engine_config(request);
                        files::write_private(&place, &pretty(&Value::Object(config)))?;
                    }
                }
                Begins::WithRequest(asked) => {
                    removable::create_marked(&owned.layout.request(request))?;
                    files::write_private(&owned.layout.kept_request(request), &pretty(&json!(asked)))?
                }
            }
            if survives {
                workspace::sync_run(&paths)?;
            }
            Ok(Written::Whole)
        })
        .await?;
    if !matches!(written, Ok(Written::Whole)) {
        let _ = workspace::remove_run(&undo.0);
        let _ = files::remove_tree(&undo.1);
    }
    written
}

/// The copy of the skill that the run uses; whether it is what was looked up. Blocks.
fn take_copy(shared: &Shared, installed: &Installed, started: &Started, paths: &RunPaths) -> Result<bool, Error> {
    shared.known_skills.keep(&installed.skill);
    if Shared::shares_skill(&installed.skill, &started.engine, started.runtime_options.debug) {
        return match shared.share_skill(installed) {
            // An update that came meanwhile is no failure: it is looked up again.
            Err(_) if !shared.is_still_installed(installed) => Ok(false),
            copied => Ok(copied?.is_some()),
        };
    }
    let copied = copy_installed(installed, &paths.skill_copy(&started.engine, &started.skill.id));
    // An update that came meanwhile may have left one version's name on another's files.
    if !shared.is_still_installed(installed) {
        return Ok(false);
    }
    copied?;
    Ok(true)
}

impl Shared {
    /// What a client's key led to before.
    async fn first_answer(&self, idempotency: &Idempotency) -> Result<Option<Created>, Error> {
        let Some((key, body)) = idempotency else { return Ok(None) };
        let Some(row) = idempotency_row(key) else { return Ok(None) };
        self.store.index(&row).await?.map(|first| first_answer(&first, body)).transpose()
    }

    /// The installed skill of that name. Blocks.
    fn lookup(&self, id: &str) -> Result<Arc<Installed>, Error> {
        self.registry.lookup(id).map_err(|lookup| {
            let reason = match &lookup {
                NotUsable::Unread(shortage) => return (*shortage).into(),
                NotUsable::NotFound => String::new(),
                NotUsable::Invalid { findings } => {
                    if let Some(unreachable) = self.skill_sync.away(id) {
                        return unreachable.into();
                    }
                    let first = findings.first().map(|finding| finding.message.clone()).unwrap_or_default();
                    format!(": its folder is not a valid skill ({first}); see `skill-runner skill lint`")
                }
            };
            let similar = if reason.is_empty() { self.registry.similar(id) } else { None };
            Error::SkillNotFound { id: id.chars().take(64).collect(), reason, similar }
        })
    }

    /// Whether the skill is the same as when it was looked up.
    fn is_still_installed(&self, installed: &Installed) -> bool {
        let now = self.registry.lookup(&installed.skill.id);
        now.is_ok_and(|now| now.skill.fingerprint == installed.skill.fingerprint)
    }
}
