//! What surrounds the orchestrator: time, threads and engines. All of it can be made up, so a whole service can be simulated.

use std::sync::Arc;

use tokio::task::{JoinError, spawn_blocking};

use super::clock::{Clock, WallClock};
use crate::installed_engines::InstalledEngines;
use crate::settings::Settings;
use crate::store::BoxFuture;
use crate::supervisor::{Host, ThisMachine};

/// Everything outside that the orchestrator asks or uses, besides its store and its files.
#[derive(Clone)]
pub struct Surroundings {
    /// Tells the time and makes ids.
    pub clock: Arc<dyn Clock>,
    /// Does what blocks.
    pub work: Work,
    /// Starts engines.
    pub engines: Arc<dyn Host>,
    /// Knows the agent CLIs.
    pub installed_engines: InstalledEngines,
}

impl Surroundings {
    /// The real ones.
    pub fn real(settings: &Settings) -> Self {
        Self {
            clock: Arc::new(WallClock),
            work: Work::OnThreads,
            engines: Arc::new(ThisMachine),
            installed_engines: InstalledEngines::new(settings),
        }
    }
}

/// Where work that blocks is done.
#[derive(Clone)]
pub enum Work {
    /// On threads of its own, beside everything else.
    OnThreads,
    /// Where it is asked for, after a pause: a world with a single thread is the same each time.
    InTurn(Arc<dyn Fn() -> BoxFuture<'static, ()> + Send + Sync>),
}

impl Work {
    /// Do this; an error when it panicked on its thread.
    pub async fn run<T: Send + 'static>(on: &Work, work: impl FnOnce() -> T + Send + 'static) -> Result<T, JoinError> {
        match on {
            Work::OnThreads => spawn_blocking(work).await,
            Work::InTurn(pause) => {
                pause().await;
                Ok(work())
            }
        }
    }
}
