//! The handle on all runs: create, upload, look, wait, cancel, clean up, end.

use std::collections::{HashMap, HashSet};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tokio::sync::{Notify, mpsc, oneshot};
use tokio::time::Instant;

use super::actor::{self, Message};
use super::close;
use super::error::Error;
use super::journal::{Journal, lost_race, met_final, parse_head};
use super::log::RunLog;
use super::queue::Queue;
use super::seal::Sealer;
use crate::domain::cache_key::{KeyParts, cache_key};
use crate::domain::command::Command;
use crate::domain::ids::{RequestId, RunId};
use crate::domain::state::RunState;
use crate::domain::statechart::Status;
use crate::domain::time::Timestamp;
use crate::projection::{Job, job};
use crate::registry::Registry;
use crate::settings::Settings;
use crate::store::{EventStore, IndexKey};
use crate::workspace::{self, Layout, UploadLimits};

/// Answer to a created run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Created {
    /// The client's name for it.
    pub request_id: RequestId,
    /// Its own name.
    pub run_id: RunId,
    /// Whether an equal run's result was taken.
    pub cache_hit: bool,
    /// Where it is.
    pub status: Status,
    /// Whether files are to be uploaded first.
    pub awaiting_upload: bool,
}

/// Answer to an upload.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Uploaded {
    /// The client's name for the run.
    pub request_id: RequestId,
    /// Whether an equal run's result was taken.
    pub cache_hit: bool,
    /// Where the run is.
    pub status: Status,
    /// The files taken.
    pub extracted_files: Vec<String>,
}

/// Answer to a cancel.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Canceled {
    /// The client's name for the run.
    pub request_id: RequestId,
    /// Its own name.
    pub run_id: RunId,
    /// Where it is now.
    pub status: Status,
    /// Whether the cancel has an effect.
    pub accepted: bool,
    /// In words.
    pub message: String,
}

/// Answer to a clean-up.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Cleaned {
    /// Runs deleted.
    pub runs_deleted: u64,
    /// Requests deleted.
    pub requests_deleted: u64,
    /// Cache entries deleted.
    pub cache_entries_deleted: u64,
    /// Bytes given back.
    pub bytes_freed: u64,
}

/// Which runs to list.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ListFilter {
    /// In this state.
    pub status: Option<Status>,
    /// Of this skill.
    pub skill_id: Option<String>,
    /// On this engine.
    pub engine: Option<String>,
    /// Older than this run.
    pub before: Option<RunId>,
    /// At most so many.
    pub limit: usize,
}

/// A page of runs, newest first.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Listing {
    /// The runs.
    pub jobs: Vec<Job>,
    /// Where the next page begins.
    pub next_before: Option<RunId>,
}

/// How busy the service is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Sizes {
    /// Runs in the queue.
    pub queued: usize,
    /// Runs with an engine.
    pub running: usize,
}

/// All runs of one data folder.
#[derive(Clone)]
pub struct Orchestrator {
    pub(super) shared: Arc<Shared>,
}

/// What all parts of the orchestrator share.
pub(super) struct Shared {
    pub store: Arc<dyn EventStore>,
    pub log: RunLog,
    pub layout: Layout,
    pub settings: Settings,
    pub registry: Registry,
    pub queue: Arc<Queue>,
    pub sealer: Sealer,
    /// The program that keeps engines: skill-runner itself.
    pub shim: PathBuf,
    live: Mutex<HashMap<RunId, mpsc::Sender<Message>>>,
    uploading: Mutex<HashSet<RunId>>,
    closing: AtomicBool,
    idle: Notify,
}

/// Rows looked at in one step of a scan.
const SCAN_PAGE: usize = 256;
/// Messages an actor may have waiting.
const MAILBOX: usize = 64;

impl Orchestrator {
    /// Take over a data folder: settle what an earlier life left, then be ready. See `startup` for what that means.
    pub async fn start(
        store: Arc<dyn EventStore>,
        registry: Registry,
        settings: Settings,
        shim: PathBuf,
    ) -> Result<Self, Error> {
        let layout = Layout::new(&settings.paths.data_dir);
        let log = RunLog::new(store.clone(), layout.clone());
        let queue = Queue::new(settings.runs.max_running_jobs, settings.runs.max_queued_jobs);
        let sealer = Sealer::new(store.clone(), layout.clone(), Duration::from_secs(settings.store.seal_grace_seconds));
        let shared = Arc::new(Shared {
            store,
            log,
            layout,
            settings,
            registry,
            queue,
            sealer,
            shim,
            live: Mutex::default(),
            uploading: Mutex::default(),
            closing: AtomicBool::new(false),
            idle: Notify::new(),
        });
        super::startup::settle(&shared).await?;
        shared.start_next();
        Ok(Self { shared })
    }

    /// The logs.
    pub fn log(&self) -> &RunLog {
        &self.shared.log
    }

    /// The skills.
    pub fn registry(&self) -> &Registry {
        &self.shared.registry
    }

    /// The settings in force.
    pub fn settings(&self) -> &Settings {
        &self.shared.settings
    }

    /// Where runs keep their files.
    pub fn layout(&self) -> &Layout {
        &self.shared.layout
    }

    /// The run with this request id or run id.
    pub fn resolve(&self, id: &str) -> Result<RunId, Error> {
        let unknown = || Error::RunNotFound { id: id.chars().take(64).collect() };
        let given: RunId = id.parse().map_err(|_| unknown())?;
        let request = IndexKey::Request(RequestId(given.0));
        if let Some(row) = self.shared.store.index(&request)? {
            let bytes = row.as_ref().try_into().map_err(|_| unknown())?;
            return Ok(RunId::from_bytes(bytes));
        }
        match self.shared.store.index(&IndexKey::Run(given))? {
            Some(_) => Ok(given),
            None => Err(unknown()),
        }
    }

    /// The run as it stands.
    pub fn state(&self, run: RunId) -> Result<RunState, Error> {
        Ok(self.shared.log.head(run)?.state)
    }

    /// The run as a job.
    pub fn job(&self, run: RunId) -> Result<Job, Error> {
        Ok(job(&self.state(run)?, self.shared.queue.position(run)))
    }

    /// Runs, newest first.
    pub fn list(&self, filter: &ListFilter) -> Result<Listing, Error> {
        let mut jobs = Vec::new();
        let mut before = filter.before;
        loop {
            let rows = self.shared.store.runs(before, SCAN_PAGE)?;
            let last = rows.len() < SCAN_PAGE;
            for (run, row) in rows {
                let state = parse_head(run, &row)?.state;
                before = Some(run);
                if filter.matches(&state) {
                    jobs.push(job(&state, self.shared.queue.position(run)));
                    if jobs.len() == filter.limit {
                        return Ok(Listing { jobs, next_before: before });
                    }
                }
            }
            if last {
                return Ok(Listing { jobs, next_before: None });
            }
        }
    }

    /// Wait until the run is final or waits for its user, at most so long; the run as it is then.
    pub async fn wait(&self, run: RunId, at_most: Duration) -> Result<RunState, Error> {
        let deadline = Instant::now() + at_most;
        // Watch before reading: an append between the two would be missed.
        let mut head = self.shared.log.watch(run);
        loop {
            let state = self.state(run)?;
            if state.status.is_final() || state.status == Status::WaitingUser {
                return Ok(state);
            }
            match tokio::time::timeout_at(deadline, head.changed()).await {
                Ok(Ok(())) => {}
                // The log was sealed and has left the store, so the run is final.
                Ok(Err(_)) => return self.state(run),
                Err(_) => return Ok(state),
            }
        }
    }

    /// Take the files of a run that waits for them; `zip` is a file on disk. The run is queued.
    pub async fn upload(&self, run: RunId, zip: PathBuf) -> Result<Uploaded, Error> {
        let shared = &self.shared;
        shared.admits()?;
        let _alone = Uploading::begin(shared.clone(), run)?;
        let mut journal = Journal::open(shared.store.clone(), run)?;
        let state = journal.state().clone();
        if state.status.is_final() {
            return Err(crate::domain::command::Refusal::RunFinal { status: state.status }.into());
        }
        if !state.awaiting_upload {
            return Err(crate::domain::command::Refusal::AlreadyUploaded.into());
        }
        let place = shared.place()?;
        let skill = shared.skill_of(&state)?;
        let fields: Vec<String> = skill.file_fields().into_iter().map(|field| field.name).collect();
        let staging = shared.layout.request_uploads(state.request_id);
        let limits = self.upload_limits();
        let folder = staging.clone();
        let manifest = tokio::task::spawn_blocking(move || workspace::stage_uploads(&zip, &folder, &fields, &limits))
            .await
            .map_err(|error| Error::io("unpack the upload")(error.into()))??;
        let manifest_sha256 = manifest.sha256();
        let started = shared.started(run)?;
        let key = cache_key(&KeyParts {
            skill: &state.skill,
            engine: &state.engine,
            model: state.model.as_deref(),
            options: &state.options,
            parameter: &started.parameter,
            input: &started.input,
            manifest_sha256: &manifest_sha256,
            package_sha256: None,
        });
        let files = manifest.files.clone();
        let command = Command::Upload { files, manifest_sha256, cache_key: key };
        if let Err(error) = journal.commit(command).await {
            // Only a cancel can have come in between; the files are of no use then.
            let _ = workspace::remove_tree(&shared.layout.request(state.request_id));
            return Err(if lost_race(&error) { self.refused_upload(run)? } else { error });
        }
        let uploads = shared.layout.run(run).uploads();
        workspace::promote_uploads(&staging, &uploads)?;
        place.enter(run);
        shared.start_next();
        Ok(Uploaded {
            request_id: state.request_id,
            cache_hit: false,
            status: Status::Queued,
            extracted_files: manifest.files.into_iter().map(|file| file.name).collect(),
        })
    }

    fn refused_upload(&self, run: RunId) -> Result<Error, Error> {
        let status = self.state(run)?.status;
        Ok(crate::domain::command::Refusal::RunFinal { status }.into())
    }

    fn upload_limits(&self) -> UploadLimits {
        let settings = &self.shared.settings;
        UploadLimits {
            max_upload_bytes: settings.limits.max_upload_bytes,
            max_unpacked_bytes: settings.limits.max_unpacked_bytes,
            max_entries: settings.limits.max_entries,
            ..UploadLimits::default()
        }
    }

    /// Stop a run, wherever it is.
    pub async fn cancel(&self, run: RunId, requested_by: &str, reason: &str) -> Result<Canceled, Error> {
        let shared = &self.shared;
        loop {
            let live = shared.live().get(&run).cloned();
            let outcome = match live {
                Some(actor) => {
                    let (answer, answered) = oneshot::channel();
                    let message = Message::Cancel { requested_by: requested_by.into(), reason: reason.into(), answer };
                    match actor.send(message).await {
                        Ok(()) => answered.await.ok(),
                        Err(_) => None,
                    }
                }
                None => Some(self.cancel_at_rest(run, requested_by, reason).await),
            };
            match outcome {
                // The actor ended meanwhile, or somebody else wrote first: look again.
                None => tokio::task::yield_now().await,
                Some(Err(error)) if lost_race(&error) => tokio::task::yield_now().await,
                Some(Err(error)) => {
                    let Some(status) = met_final(&error) else { return Err(error) };
                    return self.canceled(run, status, false, "the run is over already");
                }
                Some(Ok(status)) => {
                    shared.queue.remove(run);
                    let message = if status.is_final() { "the run is canceled" } else { "the run is being stopped" };
                    return self.canceled(run, status, true, message);
                }
            }
        }
    }

    async fn cancel_at_rest(&self, run: RunId, requested_by: &str, reason: &str) -> Result<Status, Error> {
        let shared = &self.shared;
        let mut journal = Journal::open(shared.store.clone(), run)?;
        if journal.state().status == Status::Running {
            // A running run without an actor is about to get one, or just lost it.
            return Err(crate::store::Error::Conflict { actual: journal.state().head_seq }.into());
        }
        if journal.state().status.is_final() {
            let status = journal.state().status;
            return Err(crate::domain::command::Refusal::RunFinal { status }.into());
        }
        let evidence = close::without_engine(shared, journal.state(), Status::Canceled, close::canceled()).await?;
        journal.commit(Command::Cancel { requested_by: requested_by.into(), reason: reason.into(), evidence }).await?;
        shared.sealer.seal_soon(run);
        Ok(journal.state().status)
    }

    fn canceled(&self, run: RunId, status: Status, accepted: bool, message: &str) -> Result<Canceled, Error> {
        let request_id = self.state(run)?.request_id;
        Ok(Canceled { request_id, run_id: run, status, accepted, message: message.into() })
    }

    /// Delete final runs: those older than a moment, but never the newest `keep_last` of them.
    pub async fn cleanup(&self, older_than: Option<Timestamp>, keep_last: usize) -> Result<Cleaned, Error> {
        let mut cleaned = Cleaned::default();
        let mut before = None;
        let mut kept = 0;
        loop {
            let rows = self.shared.store.runs(before, SCAN_PAGE)?;
            let Some((last, _)) = rows.last() else { return Ok(cleaned) };
            before = Some(*last);
            for (run, row) in rows {
                let state = parse_head(run, &row)?.state;
                let old = older_than.is_none_or(|moment| state.updated_at < moment);
                if !state.status.is_final() || self.shared.live().contains_key(&run) {
                    continue;
                }
                if kept < keep_last || !old {
                    kept += 1;
                    continue;
                }
                cleaned.bytes_freed += self.delete(&state).await?;
                cleaned.runs_deleted += 1;
                cleaned.requests_deleted += 1;
            }
        }
    }

    async fn delete(&self, state: &RunState) -> Result<u64, Error> {
        let run = state.run_id;
        let shared = &self.shared;
        let mut keys = vec![IndexKey::Request(state.request_id)];
        keys.extend(state.idempotency_sha256.as_deref().and_then(super::create::idempotency_row));
        // The rows go first: files without a row are swept at the next start, a row without files would be a lie.
        shared.sealer.forget(run);
        shared.store.delete_run(&run, keys).await?;
        let paths = shared.layout.run(run);
        let request = shared.layout.request(state.request_id);
        tokio::task::spawn_blocking(move || {
            let _ = workspace::remove_tree(&request);
            workspace::remove_run(&paths)
        })
        .await
        .map_err(|error| Error::io("remove the run's folder")(error.into()))?
        .map_err(Error::from)
    }

    /// How busy the service is.
    pub fn sizes(&self) -> Sizes {
        let (queued, running) = self.shared.queue.sizes();
        Sizes { queued, running }
    }

    /// Whether new work is taken, and if not, why.
    pub fn ready(&self) -> Result<(), Error> {
        self.shared.admits()
    }

    /// End: take no new work, let running engines finish for so long, then stop them and settle their runs.
    pub async fn drain(&self, grace: Duration) {
        self.shared.closing.store(true, Ordering::SeqCst);
        self.shared.queue.close();
        if tokio::time::timeout(grace, self.shared.until_idle()).await.is_err() {
            let actors: Vec<_> = self.shared.live().values().cloned().collect();
            for actor in actors {
                // An actor that is gone has nothing left to stop.
                let _ = actor.send(Message::Shutdown).await;
            }
            self.shared.until_idle().await;
        }
        self.shared.sealer.finish().await;
    }
}

impl ListFilter {
    fn matches(&self, run: &RunState) -> bool {
        self.status.is_none_or(|status| status == run.status)
            && self.skill_id.as_ref().is_none_or(|skill| *skill == run.skill.id)
            && self.engine.as_ref().is_none_or(|engine| *engine == run.engine)
    }
}

impl Shared {
    /// Start queued runs while slots are free.
    pub fn start_next(self: &Arc<Self>) {
        while let Some(run) = self.queue.next() {
            let (actor, mailbox) = mpsc::channel(MAILBOX);
            self.live().insert(run, actor);
            let shared = self.clone();
            tokio::spawn(async move {
                actor::run(shared.clone(), run, mailbox).await;
                shared.live().remove(&run);
                shared.queue.finished(run);
                shared.start_next();
                shared.idle.notify_waiters();
            });
        }
    }

    /// Whether new work is taken.
    pub fn admits(&self) -> Result<(), Error> {
        if self.closing.load(Ordering::SeqCst) {
            return Err(Error::ShuttingDown);
        }
        let free = workspace::free_bytes(self.layout.data())?;
        let floor = self.settings.limits.min_free_bytes;
        if free < floor { Err(Error::InsufficientStorage { free, floor }) } else { Ok(()) }
    }

    /// A place in the queue.
    pub fn place(&self) -> Result<super::queue::Place, Error> {
        self.queue.reserve().ok_or(Error::QueueFull { limit: self.settings.runs.max_queued_jobs })
    }

    async fn until_idle(&self) {
        loop {
            let idle = self.idle.notified();
            tokio::pin!(idle);
            // Register before looking: an end between the two would be missed.
            idle.as_mut().enable();
            if self.live().is_empty() {
                return;
            }
            idle.await;
        }
    }

    /// Nothing can panic while it holds the lock, so a poisoned one is as good as any.
    fn live(&self) -> MutexGuard<'_, HashMap<RunId, mpsc::Sender<Message>>> {
        self.live.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One upload of a run at a time: two would stage into the same folder.
struct Uploading {
    shared: Arc<Shared>,
    run: RunId,
}

impl Uploading {
    fn begin(shared: Arc<Shared>, run: RunId) -> Result<Self, Error> {
        let fresh = shared.uploading.lock().unwrap_or_else(PoisonError::into_inner).insert(run);
        if fresh { Ok(Self { shared, run }) } else { Err(crate::domain::command::Refusal::AlreadyUploaded.into()) }
    }
}

impl Drop for Uploading {
    fn drop(&mut self) {
        self.shared.uploading.lock().unwrap_or_else(PoisonError::into_inner).remove(&self.run);
    }
}
