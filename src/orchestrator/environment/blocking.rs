//! Work that blocks: on threads of its own, or in place for a simulation.

use std::sync::Arc;

use tokio::task::spawn_blocking;

use crate::orchestrator::error::Error;
use crate::store::BoxFuture;

/// Where work that blocks is done.
#[derive(Clone)]
pub enum Blocking {
    /// On the runtime's threads for blocking work.
    Threads,
    /// In place, after a pause: with a single thread, every run of a simulation is the same.
    InPlace(Arc<dyn Fn() -> BoxFuture<'static, ()> + Send + Sync>),
}

impl Blocking {
    /// Run this; `doing` names it in the error that a panic becomes.
    pub async fn run<T: Send + 'static>(
        &self,
        doing: &'static str,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, Error> {
        match self {
            Blocking::Threads => match spawn_blocking(work).await {
                Ok(done) => Ok(done),
                // The runtime ends, and this task with it: that is no failure to tell of.
                Err(error) if error.is_cancelled() => std::future::pending().await,
                Err(error) => Err(Error::io(doing)(error.into())),
            },
            Blocking::InPlace(pause) => {
                pause().await;
                Ok(work())
            }
        }
    }
}
