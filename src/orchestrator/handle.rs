//! The handle on all runs of one data folder, which everybody else holds.

use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;
use tokio::time::Instant;

use crate::domain::ids::RunId;
use crate::domain::integrity::Integrity;
use crate::domain::state::RunState;
use crate::domain::statechart::Status;
use crate::domain::time::Timestamp;
use crate::engine::Adapter;
use crate::environments::Environments;
use crate::installed_engines::InstalledEngines;
use crate::metrics::Metrics;
use crate::orchestrator::environment::isolation::{IsolationHere, IsolationOfSkill};
use crate::orchestrator::error::Error;
use crate::orchestrator::log::RunLog;
use crate::orchestrator::shared::Shared;
use crate::orchestrator::shared::skills::SharedSkill;
use crate::projection::{Job, job};
use crate::registry::Registry;
use crate::settings::Settings;
use crate::skill::Skill;
use crate::workspace::Layout;

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

impl Orchestrator {
    pub fn log(&self) -> &RunLog {
        &self.shared.log
    }

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

    /// What the service counts about itself.
    pub(crate) fn metrics(&self) -> &Metrics {
        &self.shared.metrics
    }

    /// The time of the service's clock.
    pub(crate) fn now(&self) -> Timestamp {
        self.shared.clock.now()
    }

    /// What confines runs of this engine, or of scripts.
    pub(crate) fn isolation(&self, engine: Option<&Adapter>) -> IsolationHere {
        IsolationHere::of(self.shared.settings.runs.sandbox, &self.shared.confinement, engine)
    }

    /// What confines runs of this skill.
    pub(crate) fn isolation_of(&self, skill: &Skill) -> IsolationOfSkill {
        IsolationOfSkill::of(&self.shared.settings, &self.shared.confinement, skill)
    }

    /// Where runs keep their files.
    pub fn layout(&self) -> &Layout {
        &self.shared.layout
    }

    /// The Python packages of skills.
    pub(crate) fn environments(&self) -> Environments {
        self.shared.environments.clone()
    }

    /// The run with this request id or run id. Whoever names a run finds it recovered, or is told to come again.
    pub async fn resolve(&self, id: &str) -> Result<RunId, Error> {
        let run = self.shared.log.resolve(id).await?;
        if self.shared.recovered_soon(&[run]).await { Ok(run) } else { Err(Error::NotRecovered { run }) }
    }

    /// The run as it is now.
    pub async fn state(&self, run: RunId) -> Result<RunState, Error> {
        Ok(self.shared.log.head(run).await?.state)
    }

    /// The run as a job.
    pub(crate) async fn job(&self, run: RunId) -> Result<Job, Error> {
        Ok(self.job_and_state(run).await?.0)
    }

    /// How many runs had not ended when the service started.
    pub(crate) fn recovered(&self) -> usize {
        self.shared.recovered.load(std::sync::atomic::Ordering::Relaxed)
    }

    /// The run as a job, and the state it was made of.
    pub(crate) async fn job_and_state(&self, run: RunId) -> Result<(Job, RunState), Error> {
        let state = self.state(run).await?;
        let mut job = self.job_of(&state);
        job.metadata = self.shared.log.metadata(&state).await?;
        Ok((job, state))
    }

    /// A run in this state as a job, with what is not in its log.
    pub(crate) fn job_of(&self, state: &RunState) -> Job {
        let damaged = self.shared.log.damage().of_run(state.run_id);
        let integrity = (!damaged.is_empty()).then_some(Integrity { damaged });
        Job { integrity, ..job(state, self.shared.queue.position(state.run_id)) }
    }

    /// The runs whose stored files are known to be damaged.
    pub fn damaged_runs(&self) -> Vec<RunId> {
        self.shared.log.damage().runs()
    }

    /// Wait until the run is final or waits for its user, at most so long; the run as it is then.
    pub async fn wait(&self, run: RunId, at_most: Duration) -> Result<RunState, Error> {
        let deadline = Instant::now() + at_most;
        // Watch before reading: an append between the two would be missed.
        let mut head = self.shared.log.watch(run);
        loop {
            let state = self.state(run).await?;
            if state.status().is_final() || state.status() == Status::WaitingUser {
                return Ok(state);
            }
            match tokio::time::timeout_at(deadline, head.changed()).await {
                Ok(Ok(())) => {}
                // The log was sealed and has left the store, so the run is final.
                Ok(Err(_)) => return self.state(run).await,
                Err(_) => return Ok(state),
            }
        }
    }

    /// The copy of the skill that this run shares with others, if it has none of its own. Blocks.
    pub(crate) fn shared_skill(&self, state: &RunState) -> Result<Option<SharedSkill>, Error> {
        self.shared.shared_skill_shown(state)
    }

    /// How busy the service is.
    pub fn sizes(&self) -> Sizes {
        let (queued, running) = self.shared.queue.sizes();
        Sizes { queued, running }
    }

    /// Whether the disk has room for more.
    pub(crate) fn has_room(&self) -> Result<(), Error> {
        self.shared.has_room()
    }

    /// Whether the disk has room for so many bytes besides what must stay free.
    pub(crate) fn has_room_for(&self, bytes: u64) -> Result<(), Error> {
        self.shared.has_room_for(bytes)
    }

    /// Whether new work is taken, and if not, why.
    pub fn ready(&self) -> Result<(), Error> {
        self.shared.admits()
    }
}
