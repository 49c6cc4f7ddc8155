//! The beginning and the end of the service: recover, take work, drain.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;
use tracing::warn;

use crate::domain::causes::chain;
use crate::orchestrator::access::make_known;
use crate::orchestrator::environment::{Environment, Member};
use crate::orchestrator::error::Error;
use crate::orchestrator::handle::Orchestrator;
use crate::orchestrator::inspect::{scrub, send_telemetry};
use crate::orchestrator::log::RunLog;
use crate::orchestrator::log::seal::Sealer;
use crate::orchestrator::packages::follow;
use crate::orchestrator::packages::install::INSTALLS_MAX;
use crate::orchestrator::runs::{
    clean_shared, deadlines, dispatch, evict, member, recovery, retention, take_over, temp_sweep,
};
use crate::orchestrator::shared::Shared;
use crate::orchestrator::shared::context::Parts;
use crate::orchestrator::shared::deadlines::Deadlines;
use crate::orchestrator::shared::ended_runs::EndedRuns;
use crate::registry::Registry;
use crate::settings::{Sandbox, Settings};
use crate::store::EventStore;
use crate::supervisor::Confinement;
use crate::telemetry::Collector;
use crate::workspace::{self, Layout};

/// How long the last traces and metrics may take.
const LAST_TELEMETRY: Duration = Duration::from_secs(3);

impl Orchestrator {
    /// Take over a data folder: recover what an earlier process left, then take work.
    pub async fn start(store: Arc<dyn EventStore>, registry: Registry, settings: Settings) -> Result<Self, Error> {
        Self::start_as_one(store, registry, settings, None).await
    }

    /// The same for a service that may be one of several on the store.
    pub async fn start_as_one(
        store: Arc<dyn EventStore>,
        registry: Registry,
        settings: Settings,
        member: Option<Member>,
    ) -> Result<Self, Error> {
        let signer = workspace::signing_key(&Layout::new(&settings.paths.data_dir))?;
        let environment = Environment { signer: Some(Arc::new(signer)), member, ..Environment::real(&settings) };
        Self::start_in(environment, store, registry, settings).await
    }

    /// The same in an environment that may be simulated.
    pub async fn start_in(
        environment: Environment,
        store: Arc<dyn EventStore>,
        registry: Registry,
        settings: Settings,
    ) -> Result<Self, Error> {
        let Environment { clock, signer, blocking, engines, renderer, program, installed_engines, confinement, member } =
            environment;
        let blobs = member.as_ref().map(|member| member.blobs.clone());
        if let Confinement::Missing { reason } = &confinement {
            if settings.runs.sandbox == Sandbox::On {
                return Err(Error::SandboxMissing { reason: reason.clone() });
            }
            warn!(
                reason,
                "runs are not confined: this machine gives no sandbox; set sandbox: off to hear no more of it"
            );
        }
        let layout = Layout::new(&settings.paths.data_dir);
        let seal_grace = Duration::from_secs(settings.store.seal_grace_seconds);
        let log = RunLog::with_shared_files(store.clone(), layout.clone(), blocking.clone(), blobs.clone());
        let sealer = Sealer::new(store.clone(), &log, seal_grace);
        let (deadlines, due) = Deadlines::new();
        let collector = settings.otlp.clone().and_then(|otlp| match Collector::new(otlp) {
            Ok(collector) => Some(collector),
            Err(error) => {
                warn!(error = %chain(&error), "traces and metrics are not sent");
                None
            }
        });
        let (ended_runs, ended) = match collector {
            Some(collector) => {
                let (ended_runs, ended) = EndedRuns::new();
                (ended_runs, Some((collector, ended)))
            }
            None => (EndedRuns::default(), None),
        };
        let shared = Arc::new(Shared::new(Parts {
            store,
            blobs,
            log,
            layout,
            settings,
            registry,
            installed_engines,
            confinement,
            clock,
            signer,
            blocking,
            engines,
            renderer,
            program,
            sealer,
            deadlines,
            ended_runs,
            member,
            installs_max: INSTALLS_MAX,
        }));
        if let Some((collector, ended)) = ended {
            tokio::spawn(send_telemetry::send_often(Arc::downgrade(&shared), collector, ended));
        }
        match shared.member.clone() {
            None => recovery::recover(&shared).await?,
            Some(member) => {
                shared.metrics.open_runs_are_told();
                // Before anything is signed with it.
                if let Some(signer) = &shared.signer {
                    make_known(&*member.cluster, signer.public_key(), &member.info, shared.clock.now()).await?;
                }
                recovery::recover_here(&shared).await?;
                let sent = Instant::now();
                member.cluster.join(member.info.clone()).await?;
                member.joined(sent);
                // From now on: what it takes over may take longer than a lease.
                tokio::spawn(member::keep_lease(Arc::downgrade(&shared), member.clone(), sent));
                recovery::recover_packages(&shared).await?;
                take_over::recover_all_abandoned(&shared, &member).await?;
                shared.follow_skills().await?;
                shared.tell_own_skills().await?;
                tokio::spawn(follow::follow_often(Arc::downgrade(&shared)));
                tokio::spawn(member::look_often(Arc::downgrade(&shared), member));
                tokio::spawn(clean_shared::clean_often(Arc::downgrade(&shared)));
                tokio::spawn(evict::evict_often(Arc::downgrade(&shared)));
            }
        }
        tokio::spawn(deadlines::watch(Arc::downgrade(&shared), shared.clock.clone(), due));
        tokio::spawn(temp_sweep::sweep_often(Arc::downgrade(&shared)));
        tokio::spawn(scrub::scrub_often(Arc::downgrade(&shared)));
        tokio::spawn(retention::retain_often(Arc::downgrade(&shared)));
        let (queue, closing) = (shared.queue.clone(), shared.closing.clone());
        tokio::spawn(dispatch::dispatch(Arc::downgrade(&shared), queue, closing));
        Ok(Self { shared })
    }

    /// End: take no new work, let running engines finish for so long, then stop them and log what became of their runs.
    pub async fn drain(&self, grace: Duration) {
        let shared = &self.shared;
        shared.closing.cancel();
        {
            // The dispatcher holds this lock from taking a run off the queue until its task is tracked.
            let _live = shared.live.lock();
            shared.queue.close();
        }
        shared.tasks.close();
        if tokio::time::timeout(grace, shared.tasks.wait()).await.is_err() {
            shared.stopping.cancel();
            shared.tasks.wait().await;
        }
        shared.sealer.finish().await;
        if let Some(member) = &shared.member
            && let Err(error) = member.cluster.leave().await
        {
            warn!(error = %chain(&error), "other services could not be told of the end; they wait for the end of the lease");
        }
        // What a collector has not taken by then it does not get.
        let _ = tokio::time::timeout(LAST_TELEMETRY, shared.ended_runs.flush()).await;
    }
}
