//! The handle on all runs: create, upload, look, wait, cancel, clean up, end.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tokio::sync::{Notify, Semaphore, mpsc, oneshot};
use tokio::time::Instant;

use crate::domain::command::Command;
use crate::domain::ids::{RequestId, RunId};
use crate::domain::state::RunState;
use crate::domain::statechart::Status;
use crate::domain::{Effect, effects};
use crate::installed_engines::InstalledEngines;
use crate::orchestrator::admission::queue::Queue;
use crate::orchestrator::admission::single_flight::Flights;
use crate::orchestrator::environment::clock::Clock;
use crate::orchestrator::environment::{Blocking, Environment};
use crate::orchestrator::error::Error;
use crate::orchestrator::log::journal::{lost_race, met_final};
use crate::orchestrator::log::run_log::RunLog;
use crate::orchestrator::log::seal::Sealer;
use crate::orchestrator::runs::actor;
use crate::orchestrator::runs::actor::Message;
use crate::orchestrator::runs::deadlines::Deadlines;
use crate::orchestrator::turn::last_files;
use crate::orchestrator::turn::last_files::Closed;
use crate::projection::{Job, job};
use crate::registry::Registry;
use crate::settings::Settings;
use crate::store::EventStore;
use crate::supervisor::Spawner;
use crate::workspace;
use crate::workspace::Layout;

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
    pub(crate) shared: Arc<Shared>,
}

/// What all parts of the orchestrator share.
pub(crate) struct Shared {
    pub store: Arc<dyn EventStore>,
    pub log: RunLog,
    pub layout: Layout,
    pub settings: Settings,
    pub registry: Registry,
    pub installed_engines: InstalledEngines,
    pub clock: Arc<dyn Clock>,
    pub blocking: Blocking,
    pub engines: Arc<dyn Spawner>,
    pub queue: Arc<Queue>,
    pub flights: Arc<Flights>,
    pub sealer: Sealer,
    pub deadlines: Deadlines,
    /// The program that keeps engines: skill-runner itself.
    pub shim: PathBuf,
    live: Mutex<BTreeMap<RunId, mpsc::Sender<Message>>>,
    pub(crate) uploading: Mutex<HashSet<RunId>>,
    pub(crate) installs: Arc<Semaphore>,
    pub(crate) temp_runs: Mutex<BTreeSet<RunId>>,
    closing: AtomicBool,
    pub(crate) idle: Notify,
}

/// How soon a cancel looks again at a run that was on its way from one hand to another.
const LOOK_AGAIN: Duration = Duration::from_millis(1);

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
        Self::start_in(Environment::real(&settings), store, registry, settings, shim).await
    }

    /// The same in surroundings that may be made up.
    pub async fn start_in(
        environment: Environment,
        store: Arc<dyn EventStore>,
        registry: Registry,
        settings: Settings,
        shim: PathBuf,
    ) -> Result<Self, Error> {
        let Environment { clock, blocking, engines, installed_engines } = environment;
        let layout = Layout::new(&settings.paths.data_dir);
        let log = RunLog::new(store.clone(), layout.clone());
        let queue = Queue::new(settings.runs.max_running_jobs, settings.runs.max_queued_jobs);
        let seal_grace = Duration::from_secs(settings.store.seal_grace_seconds);
        let sealer = Sealer::new(store.clone(), layout.clone(), blocking.clone(), seal_grace);
        let (deadlines, due) = Deadlines::new();
        let shared = Arc::new(Shared {
            store,
            log,
            layout,
            settings,
            registry,
            installed_engines,
            clock,
            blocking,
            engines,
            queue,
            flights: Arc::default(),
            sealer,
            deadlines,
            shim,
            live: Mutex::default(),
            uploading: Mutex::default(),
            installs: Arc::new(Semaphore::new(crate::orchestrator::packages::install::INSTALLS_MAX)),
            temp_runs: Mutex::default(),
            closing: AtomicBool::new(false),
            idle: Notify::new(),
        });
        crate::orchestrator::runs::recovery::settle(&shared).await?;
        tokio::spawn(crate::orchestrator::runs::deadlines::watch(Arc::downgrade(&shared), shared.clock.clone(), due));
        tokio::spawn(crate::orchestrator::intake::temp::sweep_often(Arc::downgrade(&shared)));
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

    /// The agent CLIs on this machine.
    pub fn installed_engines(&self) -> &InstalledEngines {
        &self.shared.installed_engines
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
        self.shared.log.resolve(id)
    }

    /// The run as it stands.
    pub fn state(&self, run: RunId) -> Result<RunState, Error> {
        Ok(self.shared.log.head(run)?.state)
    }

    /// The run as a job.
    pub fn job(&self, run: RunId) -> Result<Job, Error> {
        Ok(job(&self.state(run)?, self.shared.queue.position(run)))
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

    /// Stop a run, wherever it is.
    pub async fn cancel(&self, run: RunId, requested_by: &str, reason: &str) -> Result<Canceled, Error> {
        let shared = &self.shared;
        loop {
            let actor = shared.live().get(&run).cloned();
            let outcome = match actor {
                Some(actor) => ask_to_cancel(&actor, requested_by, reason).await,
                None => Some(self.cancel_at_rest(run, requested_by, reason).await),
            };
            match outcome {
                // The actor ended meanwhile, or somebody else wrote first: look again.
                None => tokio::time::sleep(LOOK_AGAIN).await,
                Some(Err(error)) if lost_race(&error) => tokio::time::sleep(LOOK_AGAIN).await,
                Some(Err(error)) => {
                    let Some(status) = met_final(&error) else { return Err(error) };
                    return self.canceled(run, status, false, "the run is over already");
                }
                Some(Ok(status)) => {
                    let message = if status.is_final() { "the run is canceled" } else { "the run is being stopped" };
                    return self.canceled(run, status, true, message);
                }
            }
        }
    }

    async fn cancel_at_rest(&self, run: RunId, requested_by: &str, reason: &str) -> Result<Status, Error> {
        let shared = &self.shared;
        let _claim = shared.claimed(run).await;
        // Whoever had the claim before may have let it start. If not, it is taken out of the line: nobody starts it any
        // more while it is being ended.
        let was_queued = {
            let live = shared.live();
            if live.contains_key(&run) {
                return Err(crate::store::Error::Conflict { actual: self.state(run)?.head_seq }.into());
            }
            shared.queue.remove(run)
        };
        let ended = self.end_at_rest(run, requested_by, reason).await;
        if was_queued && ended.is_err() {
            // It could not be ended, so it keeps its right to run; one that is over by now is passed over.
            shared.queue.requeue(run);
            shared.start_next();
        }
        ended
    }

    async fn end_at_rest(&self, run: RunId, requested_by: &str, reason: &str) -> Result<Status, Error> {
        let shared = &self.shared;
        let mut journal = shared.journal(run)?;
        if journal.state().status == Status::Running {
            let conflict = || crate::store::Error::Conflict { actual: journal.state().head_seq };
            // It has got its actor meanwhile, or its actor has just ended it: look again.
            if shared.live().contains_key(&run) || self.state(run)?.status.is_final() {
                return Err(conflict().into());
            }
            // Nobody drives it any more: its actor broke, and could not say so. It is failed now, or the cancel is.
            let broken = Error::io("drive the run")(std::io::Error::other("its actor is gone"));
            actor::give_up(shared, run, &broken).await?;
            return Err(conflict().into());
        }
        if journal.state().status.is_final() {
            let status = journal.state().status;
            return Err(crate::domain::command::Refusal::RunFinal { status }.into());
        }
        let closed =
            last_files::without_engine(shared, journal.state(), Status::Canceled, last_files::canceled()).await?;
        let Closed { facts, evidence } = closed;
        let (requested_by, reason) = (requested_by.into(), reason.into());
        journal.commit(Command::Cancel { requested_by, reason, facts, evidence }).await?;
        shared.owe(journal.state());
        Ok(journal.state().status)
    }

    fn canceled(&self, run: RunId, status: Status, accepted: bool, message: &str) -> Result<Canceled, Error> {
        let request_id = self.state(run)?.request_id;
        Ok(Canceled { request_id, run_id: run, status, accepted, message: message.into() })
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

/// Ask a running run's actor; `None` when it ended before it could answer.
async fn ask_to_cancel(
    actor: &mpsc::Sender<Message>,
    requested_by: &str,
    reason: &str,
) -> Option<Result<Status, Error>> {
    let (answer, answered) = oneshot::channel();
    let message = Message::Cancel { requested_by: requested_by.into(), reason: reason.into(), answer };
    actor.send(message).await.ok()?;
    answered.await.ok()
}

impl Shared {
    /// Start queued runs while slots are free.
    pub fn start_next(self: &Arc<Self>) {
        // Leaving the queue and getting an actor is one step for whoever holds this lock: a cancel meets one or the other.
        let mut live = self.live();
        while let Some(run) = self.queue.next() {
            let (actor, mailbox) = mpsc::channel(MAILBOX);
            live.insert(run, actor);
            let shared = self.clone();
            tokio::spawn(async move {
                // In a task of its own, so that a panic costs one run and no slot.
                if let Err(panic) = tokio::spawn(actor::run(shared.clone(), run, mailbox)).await {
                    tracing::error!(run.id = %run, %panic, "the actor of a run broke");
                    let broken = Error::io("drive the run")(std::io::Error::other("its actor panicked"));
                    if let Err(again) = actor::give_up(&shared, run, &broken).await {
                        tracing::error!(run.id = %run, error = %crate::domain::causes::chain(&again), "the run's failure could not be logged");
                    }
                }
                shared.live().remove(&run);
                shared.queue.finished(run);
                if let Ok(head) = shared.log.head(run)
                    && head.state.status.is_final()
                {
                    // Said before, unless its actor broke or found it over: whoever follows it must not wait for ever.
                    shared.settled(&head.state);
                }
                shared.start_next();
                shared.idle.notify_waiters();
            });
        }
    }

    /// Do what a run in this state is owed.
    pub fn owe(self: &Arc<Self>, state: &RunState) {
        let run = state.run_id;
        for effect in effects(state) {
            match effect {
                Effect::Enqueue => {
                    self.queue.requeue(run);
                    self.start_next();
                }
                Effect::Seal => {
                    self.sealer.seal_soon(run);
                    self.settled(state);
                }
                Effect::RemovePackage => self.remove_package_soon(state),
                Effect::DecideAt(moment) => self.deadlines.at(moment, run),
                // The actor of a running run sees to these itself.
                Effect::Supervise | Effect::StopEngine => {}
            }
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
    pub fn place(&self) -> Result<crate::orchestrator::admission::queue::Place, Error> {
        self.queue.reserve().ok_or(Error::QueueFull { limit: self.settings.runs.max_queued_jobs })
    }

    async fn until_idle(&self) {
        loop {
            let idle = self.idle.notified();
            tokio::pin!(idle);
            // Register before looking: an end between the two would be missed.
            idle.as_mut().enable();
            if self.live().is_empty() && self.flights.at_rest() {
                return;
            }
            idle.await;
        }
    }

    /// Nothing can panic while it holds the lock, so a poisoned one is as good as any.
    pub(crate) fn live(&self) -> MutexGuard<'_, BTreeMap<RunId, mpsc::Sender<Message>>> {
        self.live.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
