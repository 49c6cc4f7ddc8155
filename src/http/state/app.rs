//! The state that all handlers share.

use std::sync::Arc;

use tokio::sync::watch;

use crate::http::state::frames::Frames;
use crate::http::state::room::AnswerRoom;
use crate::installed_engines::InstalledEngines;
use crate::orchestrator::Orchestrator;

/// Cheap to clone: all clones are the same state.
#[derive(Clone)]
pub(crate) struct App(Arc<Shared>);

/// Whether requests that change something are accepted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Changes {
    Accepted,
    /// A recording is served, which is read-only.
    Refused,
}

struct Shared {
    orchestrator: Orchestrator,
    installed_engines: InstalledEngines,
    frames: Frames,
    room: AnswerRoom,
    closing: watch::Sender<bool>,
    changes: Changes,
}

impl App {
    pub(crate) fn new(orchestrator: Orchestrator, changes: Changes) -> Self {
        let frames = Frames::new(orchestrator.log().clone());
        let installed_engines = orchestrator.installed_engines().clone();
        let (room, closing) = (AnswerRoom::new(), watch::Sender::new(false));
        Self(Arc::new(Shared { orchestrator, installed_engines, frames, room, closing, changes }))
    }

    pub(crate) fn orchestrator(&self) -> &Orchestrator {
        &self.0.orchestrator
    }

    pub(crate) fn changes(&self) -> Changes {
        self.0.changes
    }

    pub(crate) fn installed_engines(&self) -> &InstalledEngines {
        &self.0.installed_engines
    }

    pub(crate) fn frames(&self) -> &Frames {
        &self.0.frames
    }

    /// Memory for answers that may be large.
    pub(crate) fn room(&self) -> &AnswerRoom {
        &self.0.room
    }

    /// Accept no new requests, and end the event streams.
    pub(crate) fn close(&self) {
        self.0.closing.send_replace(true);
    }

    pub(crate) fn is_closing(&self) -> bool {
        *self.0.closing.borrow()
    }

    /// Completes when the service ends.
    pub(crate) async fn closed(&self) {
        // It cannot fail: `self` holds the sender.
        let _ = self.0.closing.subscribe().wait_for(|closing| *closing).await;
    }
}
