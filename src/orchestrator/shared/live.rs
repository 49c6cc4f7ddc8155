//! The runs that have an actor, and the mailboxes of those.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::sync::{Notify, mpsc, oneshot};

use crate::domain::ids::RunId;
use crate::domain::statechart::Status;
use crate::orchestrator::error::Error;

/// Messages an actor may have waiting.
const MAILBOX: usize = 64;

/// A cancel asked of a running run.
#[derive(Debug)]
pub(crate) struct CancelMessage {
    pub requested_by: String,
    pub reason: String,
    /// Where the run is then.
    pub answer: oneshot::Sender<Result<Status, Error>>,
}

/// Where an actor receives its messages.
pub(crate) type Mailbox = mpsc::Receiver<CancelMessage>;
type Address = mpsc::Sender<CancelMessage>;

/// The runs that have an actor.
#[derive(Default)]
pub(crate) struct LiveRuns {
    actors: Mutex<BTreeMap<RunId, Address>>,
    left: Notify,
}

/// All live runs, locked: nobody starts or ends meanwhile.
pub(crate) struct LockedRuns<'a>(MutexGuard<'a, BTreeMap<RunId, Address>>);

impl LockedRuns<'_> {
    pub(crate) fn contains(&self, run: RunId) -> bool {
        self.0.contains_key(&run)
    }

    /// Give a run an actor; where that receives its messages.
    pub(crate) fn enter(&mut self, run: RunId) -> Mailbox {
        let (address, mailbox) = mpsc::channel(MAILBOX);
        self.0.insert(run, address);
        mailbox
    }
}

impl LiveRuns {
    pub(crate) fn lock(&self) -> LockedRuns<'_> {
        LockedRuns(self.actors())
    }

    pub(crate) fn contains(&self, run: RunId) -> bool {
        self.actors().contains_key(&run)
    }

    /// A run's actor is gone.
    pub(crate) fn leave(&self, run: RunId) {
        self.actors().remove(&run);
        self.left.notify_waiters();
    }

    /// Ask the actor of a run to cancel it; `None` when there is none, or it ended before it could answer. It has left
    /// then.
    pub(crate) async fn cancel(&self, run: RunId, requested_by: &str, reason: &str) -> Option<Result<Status, Error>> {
        let actor = self.actors().get(&run).cloned()?;
        let (answer, answered) = oneshot::channel();
        let message = CancelMessage { requested_by: requested_by.into(), reason: reason.into(), answer };
        if actor.send(message).await.is_ok()
            && let Ok(answer) = answered.await
        {
            return Some(answer);
        }
        self.until_left(run, &actor).await;
        None
    }

    async fn until_left(&self, run: RunId, actor: &Address) {
        loop {
            let left = self.left.notified();
            tokio::pin!(left);
            // Register before looking: an end between the two would be missed.
            left.as_mut().enable();
            if !self.actors().get(&run).is_some_and(|now| now.same_channel(actor)) {
                return;
            }
            if !actor.is_closed() {
                // The actor goes on and declined to answer: whoever asks looks again.
                return tokio::task::yield_now().await;
            }
            left.await;
        }
    }

    /// Waits until no run has an actor.
    pub(crate) async fn until_none(&self) {
        self.until(BTreeMap::is_empty).await;
    }

    /// Waits until this run has no actor.
    pub(crate) async fn until_gone(&self, run: RunId) {
        self.until(|actors| !actors.contains_key(&run)).await;
    }

    async fn until(&self, is_so: impl Fn(&BTreeMap<RunId, Address>) -> bool) {
        loop {
            let left = self.left.notified();
            tokio::pin!(left);
            // Register before looking: an end between the two would be missed.
            left.as_mut().enable();
            if is_so(&self.actors()) {
                return;
            }
            left.await;
        }
    }

    /// Nothing can panic while it holds the lock, so a poisoned one is as good as any.
    fn actors(&self) -> MutexGuard<'_, BTreeMap<RunId, Address>> {
        self.actors.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
