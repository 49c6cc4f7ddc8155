//! The durable heads that this process knows of, and who waits for them.

use std::collections::HashMap;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::{mpsc, watch};

use crate::domain::ids::{RunId, Seq};
use crate::store::NodeId;
use crate::store::tails::Tails;

/// Heads of logs that have events. Where one process writes alone, these are all of them; else those it wrote itself, and
/// followers begin at the first event until the head was looked up.
pub(super) struct Heads {
    known: Mutex<HashMap<RunId, Seq>>,
    tails: Tails,
    /// Where other processes are told of appends, and heads of others are looked up.
    others: Option<mpsc::UnboundedSender<Wake>>,
    /// Whether this process takes runs from the queue.
    takes_runs: AtomicBool,
    /// How long others leave its runs to it then.
    own_first: Duration,
}

/// What is to be told or looked up.
pub(super) enum Wake {
    /// This process has appended.
    Appended(RunId, Seq),
    /// Somebody here follows the run.
    Followed(RunId),
    /// There may be something to take from the queue.
    Queued,
    /// Something is asked of this node.
    Asked(NodeId),
    /// This process has changed a record.
    Records,
}

impl Heads {
    pub(super) fn new(others: Option<mpsc::UnboundedSender<Wake>>, own_first: Duration) -> Heads {
        let takes_runs = AtomicBool::new(false);
        Heads { known: Mutex::default(), tails: Tails::default(), others, takes_runs, own_first }
    }

    pub(super) fn load(&self, heads: impl Iterator<Item = (RunId, Seq)>) {
        self.known().extend(heads);
    }

    pub(super) fn watch(&self, run: &RunId) -> watch::Receiver<Seq> {
        let mut is_known = false;
        let receiver = self.tails.subscribe(run, || {
            let head = self.known().get(run).copied();
            is_known = head.is_some();
            head.unwrap_or_default()
        });
        if let Some(others) = self.others.as_ref().filter(|_| !is_known) {
            let _ = others.send(Wake::Followed(*run));
        }
        receiver
    }

    /// This process has appended, and it is durable.
    pub(super) fn appended(&self, run: &RunId, head: Seq) {
        self.known().insert(*run, head);
        self.tails.publish(run, head);
        if let Some(others) = &self.others {
            let _ = others.send(Wake::Appended(*run, head));
        }
    }

    /// Whether this process takes runs from the queue, too.
    pub(super) fn takes_runs(&self) -> bool {
        self.takes_runs.load(Relaxed)
    }

    /// How long others leave a run to this process that it brings into the queue.
    pub(super) fn own_first(&self) -> Duration {
        if self.takes_runs() { self.own_first } else { Duration::ZERO }
    }

    pub(super) fn set_takes_runs(&self, takes_runs: bool) {
        self.takes_runs.store(takes_runs, Relaxed);
    }

    /// There may be something to take from the queue: here and elsewhere.
    pub(super) fn queued(&self) {
        if let Some(others) = &self.others {
            let _ = others.send(Wake::Queued);
        }
    }

    /// Something is asked of a node.
    pub(super) fn asked(&self, node: NodeId) {
        if let Some(others) = &self.others {
            let _ = others.send(Wake::Asked(node));
        }
    }

    /// This process has changed a record.
    pub(super) fn records_changed(&self) {
        if let Some(others) = &self.others {
            let _ = others.send(Wake::Records);
        }
    }

    /// Somebody says that the run has this head. Whether that is to be looked up, because a reader here waits for it: whoever can
    /// connect to the database can say so.
    pub(super) fn is_news(&self, run: &RunId, head: Seq) -> bool {
        let mut known = self.known();
        if known.get(run).is_some_and(|known| *known < head) {
            // Others write to it now: whoever follows it next looks.
            known.remove(run);
        }
        drop(known);
        self.tails.is_behind(run, head)
    }

    /// The head of a run was looked up.
    pub(super) fn heard(&self, run: &RunId, head: Seq) {
        if let Some(known) = self.known().get_mut(run) {
            *known = (*known).max(head);
        }
        self.tails.raise(run, head);
    }

    /// The events of the run are gone.
    pub(super) fn deleted(&self, run: &RunId) {
        self.known().remove(run);
        self.tails.close(run);
    }

    pub(super) fn followed(&self) -> Vec<RunId> {
        self.tails.followed()
    }

    pub(super) fn close_all(&self) {
        self.tails.close_all();
    }

    fn known(&self) -> MutexGuard<'_, HashMap<RunId, Seq>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
