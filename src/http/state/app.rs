//! The state that all handlers share.

use std::sync::Arc;

use tokio::sync::watch;

use crate::http::state::access_changes::AccessChanges;
use crate::http::state::access_list::AccessList;
use crate::http::state::body_room::BodyRoom;
use crate::http::state::export_room::ExportRoom;
use crate::http::state::failed_logins::FailedLogins;
use crate::http::state::frames::Frames;
use crate::http::state::room::AnswerRoom;
use crate::http::state::turns::Turns;
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
    body_room: BodyRoom,
    export_room: ExportRoom,
    turns: Turns,
    access: AccessList,
    access_changes: AccessChanges,
    failed_logins: FailedLogins,
    closing: watch::Sender<bool>,
    changes: Changes,
}

impl App {
    /// For so many connections.
    pub(crate) fn new(orchestrator: Orchestrator, changes: Changes, connections: usize) -> Self {
        let frames = Frames::new(orchestrator.log().clone());
        let installed_engines = orchestrator.installed_engines().clone();
        let (room, closing) = (AnswerRoom::new(), watch::Sender::new(false));
        let (body_room, turns) = (BodyRoom::new(), Turns::new(connections));
        let access = AccessList::new(&orchestrator);
        let failed_logins = FailedLogins::new(orchestrator.settings().http.max_failed_logins);
        Self(Arc::new(Shared {
            orchestrator,
            installed_engines,
            frames,
            room,
            body_room,
            export_room: ExportRoom::default(),
            turns,
            access,
            access_changes: AccessChanges::default(),
            failed_logins,
            closing,
            changes,
        }))
    }

    pub(crate) fn orchestrator(&self) -> &Orchestrator {
        &self.0.orchestrator
    }

    pub(crate) fn export_room(&self) -> &ExportRoom {
        &self.0.export_room
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

    /// Memory and threads for bodies that may be large.
    pub(crate) fn body_room(&self) -> &BodyRoom {
        &self.0.body_room
    }

    /// The order in which requests are answered.
    pub(crate) fn turns(&self) -> &Turns {
        &self.0.turns
    }

    /// The named tokens that open the service, the browsers that have logged in, the tickets for event streams.
    pub(crate) fn access(&self) -> &AccessList {
        &self.0.access
    }

    /// Tells open streams that tokens or sessions have changed.
    pub(crate) fn access_changes(&self) -> &AccessChanges {
        &self.0.access_changes
    }

    /// Who was wrong about a token or a password, and how often.
    pub(crate) fn failed_logins(&self) -> &FailedLogins {
        &self.0.failed_logins
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
