//! What all handlers share.

use std::future::Future;
use std::sync::Arc;

use tokio::sync::watch;

use super::error::Problem;
use super::frames::Frames;
use crate::installed_engines::InstalledEngines;
use crate::orchestrator::Orchestrator;

/// The handlers' state; clones are the same.
#[derive(Clone)]
pub(super) struct App(Arc<Shared>);

/// What becomes of requests that change something.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Changes {
    /// They are answered.
    Taken,
    /// They are refused: what is served is a recording.
    Refused,
}

struct Shared {
    orchestrator: Orchestrator,
    installed_engines: InstalledEngines,
    frames: Frames,
    closing: watch::Sender<bool>,
    changes: Changes,
}

impl App {
    pub fn new(orchestrator: Orchestrator, changes: Changes) -> Self {
        let frames = Frames::new(orchestrator.log().clone());
        let installed_engines = orchestrator.installed_engines().clone();
        Self(Arc::new(Shared { orchestrator, installed_engines, frames, closing: watch::Sender::new(false), changes }))
    }

    pub fn orchestrator(&self) -> &Orchestrator {
        &self.0.orchestrator
    }

    pub fn changes(&self) -> Changes {
        self.0.changes
    }

    pub fn installed_engines(&self) -> &InstalledEngines {
        &self.0.installed_engines
    }

    pub fn frames(&self) -> &Frames {
        &self.0.frames
    }

    /// Answer nothing new, and end what never ends by itself.
    pub fn close(&self) {
        self.0.closing.send_replace(true);
    }

    pub fn is_closing(&self) -> bool {
        *self.0.closing.borrow()
    }

    /// Ready when the service ends.
    pub async fn closed(&self) {
        // It cannot fail: `self` holds the sender.
        let _ = self.0.closing.subscribe().wait_for(|closing| *closing).await;
    }
}

/// See an operation through, even if the client goes away meanwhile: half of it would be worse than none.
pub(super) async fn through<T, E>(work: impl Future<Output = Result<T, E>> + Send + 'static) -> Result<T, Problem>
where
    T: Send + 'static,
    E: Into<Problem> + Send + 'static,
{
    tokio::spawn(work).await.map_err(|_| Problem::Panicked)?.map_err(Into::into)
}

/// Do what waits for the disk where waiting holds up nobody.
pub(super) async fn blocking<T, E>(work: impl FnOnce() -> Result<T, E> + Send + 'static) -> Result<T, Problem>
where
    T: Send + 'static,
    E: Into<Problem> + Send + 'static,
{
    tokio::task::spawn_blocking(work).await.map_err(|_| Problem::Panicked)?.map_err(Into::into)
}
