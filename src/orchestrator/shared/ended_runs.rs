//! The runs whose traces are still to be sent. Whoever ends a run never waits for that.

use tokio::sync::{mpsc, oneshot};

use crate::domain::ids::RunId;

/// Runs that may wait; more are left out.
const WAITING_MAX: usize = 1024;

/// Something for whoever sends traces.
pub(crate) enum Told {
    Ended(RunId),
    /// Answer when everything before it was sent, or given up.
    Flush(oneshot::Sender<()>),
}

/// Where ended runs are told; nowhere if nothing is sent.
#[derive(Debug, Clone, Default)]
pub(crate) struct EndedRuns(Option<mpsc::Sender<Told>>);

impl EndedRuns {
    pub(crate) fn new() -> (Self, mpsc::Receiver<Told>) {
        let (sender, receiver) = mpsc::channel(WAITING_MAX);
        (Self(Some(sender)), receiver)
    }

    /// A run has ended; false if there was no room for it.
    pub(crate) fn tell(&self, run: RunId) -> bool {
        self.0.as_ref().is_none_or(|sender| sender.try_send(Told::Ended(run)).is_ok())
    }

    /// Waits until all was sent that was told before.
    pub(crate) async fn flush(&self) {
        let Some(sender) = &self.0 else { return };
        let (done, flushed) = oneshot::channel();
        if sender.send(Told::Flush(done)).await.is_ok() {
            let _ = flushed.await;
        }
    }
}
