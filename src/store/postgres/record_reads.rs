//! How a service reads records, and hears of their changes.

use tokio::sync::watch;
use uuid::Uuid;

use super::link::Link;
use super::read::Questions;

pub(super) struct RecordReads {
    pub(super) questions: Questions,
    pub(super) changed: watch::Receiver<u64>,
}

impl RecordReads {
    pub(super) fn link(&self) -> &Link {
        self.questions.link(Uuid::nil())
    }
}
