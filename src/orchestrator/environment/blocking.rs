//! Work that blocks: on threads of its own, or in place for a simulation.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::path::Path;
use std::rc::Rc;
use std::sync::Arc;

use tokio::task::spawn_blocking;

use crate::files;
use crate::orchestrator::error::Error;
use crate::store::BoxFuture;

/// Where work that blocks is done.
#[derive(Clone)]
pub enum Blocking {
    /// On the runtime's threads for blocking work.
    Threads,
    /// In place, after a pause: with a single thread, every run of a simulation is the same.
    InPlace(Arc<dyn Fn() -> BoxFuture<'static, ()> + Send + Sync>),
    /// In place, with a call before each change of a file.
    Stepwise(Arc<dyn FileSteps>),
}

/// Looks on at work that is done stepwise, and can stop it anywhere.
pub trait FileSteps: Send + Sync {
    /// Before a piece of work.
    fn begin(&self) -> BoxFuture<'static, ()>;

    /// Before each change of a file. An error refuses the change; a panic breaks the work off.
    fn step(&self, doing: &'static str, path: &Path) -> std::io::Result<()>;

    /// After a piece of work, also one that broke off, before anybody learns of its outcome.
    fn end(&self) -> BoxFuture<'static, ()>;
}

impl Blocking {
    /// Whether work is done on other threads. What is known of files on a real disk is no matter of a seed, so a simulation must
    /// not go by it.
    pub(crate) fn has_threads(&self) -> bool {
        matches!(self, Blocking::Threads)
    }

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
            Blocking::Stepwise(steps) => {
                steps.begin().await;
                let called = steps.clone();
                let step = Rc::new(move |doing, path: &Path| called.step(doing, path));
                let done = catch_unwind(AssertUnwindSafe(|| files::stepwise(step, work)));
                steps.end().await;
                Ok(done.unwrap_or_else(|panic| resume_unwind(panic)))
            }
        }
    }
}
