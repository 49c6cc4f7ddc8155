//! The one value that all parts of the orchestrator hold.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, AtomicUsize};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::{Notify, RwLock, Semaphore};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::blobs::Blobs;
use crate::domain::codes::ErrorCode;
use crate::domain::fair_queue::{Bounds, ShareRule, Ticket};
use crate::domain::ids::RunId;
use crate::domain::outcome::RunError;
use crate::domain::run_file::RunFile;
use crate::domain::state::RunState;
use crate::environments::Environments;
use crate::fcmp::Signer;
use crate::files;
use crate::installed_engines::InstalledEngines;
use crate::metrics::Metrics;
use crate::orchestrator::environment::{Blocking, Clock, Member};
use crate::orchestrator::error::Error;
use crate::orchestrator::log::journal::{Journal, Pen};
use crate::orchestrator::log::run_log::RunLog;
use crate::orchestrator::log::seal::Sealer;
use crate::orchestrator::shared::awaiting_files::AwaitingFiles;
use crate::orchestrator::shared::backups::Backups;
use crate::orchestrator::shared::data_use::DataUse;
use crate::orchestrator::shared::deadlines::Deadlines;
use crate::orchestrator::shared::ended_runs::EndedRuns;
use crate::orchestrator::shared::file_work::FileWork;
use crate::orchestrator::shared::known_skills::KnownSkills;
use crate::orchestrator::shared::live::LiveRuns;
use crate::orchestrator::shared::lost_runs::LostRuns;
use crate::orchestrator::shared::membership::Membership;
use crate::orchestrator::shared::queue::{Place, Queue};
use crate::orchestrator::shared::request_room::RequestRoom;
use crate::orchestrator::shared::run_lock::RunLocks;
use crate::orchestrator::shared::scrubbed::Scrubbed;
use crate::orchestrator::shared::shared_results::SharedResults;
use crate::orchestrator::shared::single_flight::SingleFlight;
use crate::orchestrator::shared::skill_sync::SkillSync;
use crate::orchestrator::shared::unrecovered::Unrecovered;
use crate::registry::Registry;
use crate::renderer::Renderer;
use crate::settings::{Runs, Settings};
use crate::store::EventStore;
use crate::supervisor::{Confinement, Spawner};
use crate::workspace::{Layout, RunPaths, SharedSkills};

/// An output that is not judged together with another one that is as long.
const LARGE_OUTPUT_BYTES: u64 = 1024 * 1024;

/// What all parts of the orchestrator share.
pub(crate) struct Shared {
    pub store: Arc<dyn EventStore>,
    /// Where files are that several services share; none for a service that is alone.
    pub blobs: Option<Arc<dyn Blobs>>,
    pub log: RunLog,
    pub layout: Layout,
    pub settings: Settings,
    pub registry: Registry,
    pub known_skills: KnownSkills,
    pub skill_sync: SkillSync,
    pub shared_skills: SharedSkills,
    pub shared_results: SharedResults,
    /// Held by a run from taking what it shares to its row; alone by whoever removes what no row needs.
    pub sharing: RwLock<()>,
    pub installed_engines: InstalledEngines,
    pub confinement: Confinement,
    pub clock: Arc<dyn Clock>,
    pub signer: Option<Arc<Signer>>,
    pub metrics: Arc<Metrics>,
    /// How much the data folder holds.
    pub data_use: DataUse,
    pub backups: Backups,
    pub blocking: Blocking,
    pub engines: Arc<dyn Spawner>,
    pub renderer: Arc<dyn Renderer>,
    /// skill-runner's own program.
    pub program: PathBuf,
    pub environments: Environments,
    pub queue: Arc<Queue>,
    /// This service among others on the same store, if there can be others.
    pub member: Option<Arc<Membership>>,
    pub single_flight: SingleFlight,
    pub run_locks: Arc<RunLocks>,
    pub sealer: Sealer,
    pub deadlines: Deadlines,
    pub scrubbed: Scrubbed,
    /// Runs whose traces are to be sent.
    pub ended_runs: EndedRuns,
    /// Told when shared files that nothing needs are to be looked for.
    pub clean_now: Arc<Notify>,
    /// Told when cached files are to be given up.
    pub evict_now: Arc<Notify>,
    /// The bytes of cached files of runs, when they were last looked at.
    pub cached_bytes: AtomicU64,
    pub live: LiveRuns,
    pub uploading: Mutex<HashSet<RunId>>,
    /// Reruns with a key of the files of a run.
    pub rerun_locks: Arc<RunLocks>,
    pub installs: Arc<Semaphore>,
    /// Files that are being unpacked.
    pub unpacking: FileWork,
    /// Runs that are being made again with the files of earlier ones, until they have them.
    pub reruns: FileWork,
    /// What earlier runs asked for, being read for reruns.
    pub rerun_reads: FileWork,
    pub requests: RequestRoom,
    /// Held by whoever judges a large output.
    large_outputs: Mutex<()>,
    temp_runs: Mutex<BTreeSet<RunId>>,
    pub awaiting_files: AwaitingFiles,
    /// Runs that had not ended when the service started.
    pub recovered: AtomicUsize,
    pub unrecovered: Unrecovered,
    pub lost_runs: LostRuns,
    /// Everything that is to be done before the service ends.
    pub tasks: TaskTracker,
    /// Canceled when the service takes no new work.
    pub closing: CancellationToken,
    /// Canceled when engines that still run are to be stopped.
    pub stopping: CancellationToken,
}

/// What a new [`Shared`] is made of, besides what is empty at first.
pub(crate) struct Parts {
    pub store: Arc<dyn EventStore>,
    pub blobs: Option<Arc<dyn Blobs>>,
    pub log: RunLog,
    pub layout: Layout,
    pub settings: Settings,
    pub registry: Registry,
    pub installed_engines: InstalledEngines,
    pub confinement: Confinement,
    pub clock: Arc<dyn Clock>,
    pub signer: Option<Arc<Signer>>,
    pub blocking: Blocking,
    pub engines: Arc<dyn Spawner>,
    pub renderer: Arc<dyn Renderer>,
    pub program: PathBuf,
    pub sealer: Sealer,
    pub deadlines: Deadlines,
    pub ended_runs: EndedRuns,
    pub member: Option<Member>,
    pub installs_max: usize,
}

impl Shared {
    pub(crate) fn new(parts: Parts) -> Self {
        let runs = &parts.settings.runs;
        let awaiting_files = AwaitingFiles::new(runs.max_awaiting_upload);
        let member = parts.member.map(|Member { cluster, info, blobs: _ }| Arc::new(Membership::new(cluster, info)));
        Self {
            log: parts.log,
            queue: if member.is_some() { Queue::in_store(bounds(runs)) } else { Queue::new(bounds(runs)) },
            member,
            store: parts.store,
            blobs: parts.blobs,
            known_skills: KnownSkills::default(),
            skill_sync: SkillSync::default(),
            shared_skills: SharedSkills::new(parts.layout.skill_copies()),
            shared_results: SharedResults::default(),
            sharing: RwLock::default(),
            environments: Environments::new(parts.layout.environments()),
            layout: parts.layout,
            settings: parts.settings,
            registry: parts.registry,
            installed_engines: parts.installed_engines,
            confinement: parts.confinement,
            clock: parts.clock,
            signer: parts.signer,
            metrics: Arc::default(),
            data_use: DataUse::default(),
            backups: Backups::default(),
            blocking: parts.blocking,
            engines: parts.engines,
            renderer: parts.renderer,
            program: parts.program,
            single_flight: SingleFlight::default(),
            run_locks: Arc::default(),
            sealer: parts.sealer,
            deadlines: parts.deadlines,
            scrubbed: Scrubbed::default(),
            ended_runs: parts.ended_runs,
            clean_now: Arc::default(),
            evict_now: Arc::default(),
            cached_bytes: AtomicU64::default(),
            live: LiveRuns::default(),
            uploading: Mutex::default(),
            rerun_locks: Arc::default(),
            installs: Arc::new(Semaphore::new(parts.installs_max)),
            unpacking: FileWork::default(),
            reruns: FileWork::default(),
            rerun_reads: FileWork::default(),
            requests: RequestRoom::default(),
            large_outputs: Mutex::default(),
            temp_runs: Mutex::default(),
            awaiting_files,
            recovered: AtomicUsize::default(),
            unrecovered: Unrecovered::default(),
            lost_runs: LostRuns::default(),
            tasks: TaskTracker::new(),
            closing: CancellationToken::new(),
            stopping: CancellationToken::new(),
        }
    }

    /// A run's log, opened at its end. A run of an earlier service is recovered first, if it is not yet.
    pub(crate) async fn journal(&self, run: RunId) -> Result<Journal, Error> {
        self.until_recovered(run).await;
        Journal::open(self.pen(), run).await
    }

    /// Waits until a run of an earlier service is recovered; at once for all others, and when the service ends.
    pub(crate) async fn until_recovered(&self, run: RunId) {
        tokio::select! {
            biased;
            () = self.unrecovered.wait(run) => {}
            () = self.closing.cancelled() => {}
        }
    }

    /// The same for requests: whether they are recovered after a short time.
    pub(crate) async fn recovered_soon(&self, runs: &[RunId]) -> bool {
        tokio::select! {
            biased;
            recovered = self.unrecovered.ask_for(runs) => recovered,
            () = self.closing.cancelled() => true,
        }
    }

    /// Canceled when the lease in force now is lost; never where no other service can take runs over.
    pub(crate) fn lease(&self) -> CancellationToken {
        self.member.as_ref().map(|member| member.lease()).unwrap_or_default()
    }

    /// What logs are written with.
    pub(crate) fn pen(&self) -> Pen {
        Pen {
            store: self.store.clone(),
            clock: self.clock.clone(),
            signer: self.signer.clone(),
            metrics: self.metrics.clone(),
            shares_output: self.blobs.is_some(),
        }
    }

    /// Whether new work is taken.
    pub(crate) fn admits(&self) -> Result<(), Error> {
        if self.closing.is_cancelled() {
            return Err(Error::ShuttingDown);
        }
        self.has_room()
    }

    /// Whether the disk has more free space than the floor in the settings.
    pub(crate) fn has_room(&self) -> Result<(), Error> {
        self.has_room_for(0)
    }

    pub(crate) fn has_room_for(&self, bytes: u64) -> Result<(), Error> {
        let free = files::free_bytes(self.layout.data())?;
        let floor = self.settings.limits.min_free_bytes;
        if free >= floor.saturating_add(bytes) {
            return Ok(());
        }
        // What others have as well is given up.
        self.evict_now.notify_one();
        Err(Error::InsufficientStorage { file_system: files::mount_point(self.layout.data()), free, floor })
    }

    /// An error that comes from a full disk says which file system that is.
    pub(crate) fn naming_the_disk(&self, error: RunError) -> RunError {
        if error.code != ErrorCode::InsufficientStorage.as_str() || error.details.contains_key("file_system") {
            return error;
        }
        let mount_point = files::mount_point(self.layout.data()).display().to_string();
        let message = format!("{} (the file system at {mount_point})", error.message);
        RunError { message, ..error }.with("file_system", mount_point)
    }

    /// Waits until no other large output is judged, if that of a run is large: JSON takes many times its bytes in memory. Blocks.
    pub(crate) fn large_output(&self, paths: &RunPaths) -> Option<MutexGuard<'_, ()>> {
        let length = |file: RunFile| paths.file(file).symlink_metadata().map_or(0, |found| found.len());
        let is_large = [RunFile::Stdout, RunFile::Result].into_iter().any(|file| length(file) > LARGE_OUTPUT_BYTES);
        is_large.then(|| self.large_outputs.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// A place in the queue for a run with these labels, asked for by this token.
    pub(crate) fn place(&self, labels: &BTreeMap<String, String>, by: Option<&str>) -> Result<Place, Error> {
        self.queue.reserve(&self.share_of(labels, by)).ok_or_else(|| self.queue_full())
    }

    /// Refuses a run that would find no place. Costs nothing; whether there is a place for it is decided by [`Shared::place`].
    pub(crate) fn refuse_if_full(
        &self,
        labels: Option<&BTreeMap<String, String>>,
        by: Option<&str>,
    ) -> Result<(), Error> {
        let none = BTreeMap::new();
        let full = self.queue.refuses(&self.share_of(labels.unwrap_or(&none), by));
        if full { Err(self.queue_full()) } else { Ok(()) }
    }

    /// A place among the runs that wait for their files.
    pub(crate) fn place_awaiting(&self, labels: &BTreeMap<String, String>, by: Option<&str>) -> Result<Place, Error> {
        let limit = self.settings.runs.max_awaiting_upload;
        self.awaiting_files.reserve(&self.share_of(labels, by)).ok_or(Error::TooManyAwaitUpload { limit })
    }

    /// A run of an earlier process still waits for its files. Where there are more than there may be, the last ones have no place.
    pub(crate) fn still_awaits(&self, state: &RunState) {
        if let Ok(place) = self.place_awaiting(&state.labels, state.requested_by.as_deref()) {
            self.awaiting_files.keep(state.run_id, place);
        }
    }

    fn queue_full(&self) -> Error {
        Error::QueueFull { limit: self.settings.runs.max_queued_jobs }
    }

    /// What the queue is to know of a run.
    pub(crate) fn ticket(&self, state: &RunState) -> Ticket {
        Ticket {
            run: state.run_id,
            priority: state.priority,
            share: self.share_of(&state.labels, state.requested_by.as_deref()),
            engine: state.engine.clone(),
            skill: state.skill.id.clone(),
        }
    }

    /// Who shares the queue fairly.
    fn share_of(&self, labels: &BTreeMap<String, String>, by: Option<&str>) -> String {
        share_rule(&self.settings.runs).share_of(labels, by)
    }

    /// The temporary runs that the sweeper has to look at. Nothing can panic while it holds the lock.
    pub(crate) fn temp_runs(&self) -> MutexGuard<'_, BTreeSet<RunId>> {
        self.temp_runs.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// By what those are told apart who share the queue.
pub(crate) fn share_rule(runs: &Runs) -> ShareRule {
    ShareRule { label: runs.fair_label.clone(), tokens: runs.fair_tokens }
}

pub(crate) fn bounds(runs: &Runs) -> Bounds {
    // Zero is no limit of its own.
    let limit = |most: usize| (most > 0).then_some(most);
    Bounds {
        running: runs.max_running_jobs,
        waiting: runs.max_queued_jobs,
        per_engine: limit(runs.max_running_per_engine),
        per_skill: limit(runs.max_running_per_skill),
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        // Background tasks hold no `Shared` while they wait; they end with it.
        self.closing.cancel();
    }
}
