//! Takes the moments at which questions are decided for users who did not answer.

use tokio::sync::mpsc;

use crate::domain::ids::RunId;
use crate::domain::time::Timestamp;

pub(crate) struct Deadlines {
    /// Unbounded, because there is at most one entry for each waiting run and its reader never waits for a client.
    orders: mpsc::UnboundedSender<(Timestamp, RunId)>,
}

impl Deadlines {
    pub(crate) fn new() -> (Self, mpsc::UnboundedReceiver<(Timestamp, RunId)>) {
        let (orders, received) = mpsc::unbounded_channel();
        (Self { orders }, received)
    }

    /// Decide for this run's user at this moment.
    pub(crate) fn at(&self, moment: Timestamp, run: RunId) {
        // The reader ends only with the service; then the next start takes the deadline up again.
        let _ = self.orders.send((moment, run));
    }
}
