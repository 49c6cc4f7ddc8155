//! What a service knows of its own lease, and of the runs that it owns.

use std::collections::{HashMap, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use uuid::Uuid;

use crate::domain::ids::RunId;

/// How many runs are known at most that were brought into the queue. Others wait a moment longer for their turn.
const QUEUED_MAX: usize = 1024;

/// In whose name an append is made.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Author {
    /// The service; `None` if it has not joined, or is alone.
    pub(super) incarnation: Option<Uuid>,
    /// The run's epoch, if the service owns it.
    pub(super) epoch: Option<i64>,
}

/// The lease of a service, as it was granted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Lease {
    pub(super) incarnation: Uuid,
    pub(super) duration: Duration,
}

/// The lease and the runs of a service.
#[derive(Default)]
pub(super) struct Held(Mutex<Inner>);

#[derive(Default)]
struct Inner {
    lease: Option<Lease>,
    /// The last incarnation of this process, also after its lease was lost.
    before: Option<Uuid>,
    runs: HashMap<RunId, i64>,
    /// Runs that it has perhaps brought into the queue, oldest first, and when.
    queued: VecDeque<(RunId, Instant)>,
}

impl Held {
    pub(super) fn lease(&self) -> Option<Lease> {
        self.inner().lease
    }

    pub(super) fn before(&self) -> Option<Uuid> {
        self.inner().before
    }

    /// It has joined, and owns nothing yet.
    pub(super) fn joined(&self, lease: Lease) {
        *self.inner() = Inner { lease: Some(lease), before: Some(lease.incarnation), ..Inner::default() };
    }

    /// The lease of this incarnation is over.
    pub(super) fn lost(&self, incarnation: Uuid) {
        let mut inner = self.inner();
        if inner.lease.is_some_and(|lease| lease.incarnation == incarnation) {
            *inner = Inner { before: inner.before, ..Inner::default() };
        }
    }

    /// This incarnation owns a run from now on; false if its lease was lost meanwhile.
    pub(super) fn took(&self, incarnation: Uuid, run: RunId, epoch: i64) -> bool {
        let mut inner = self.inner();
        let is_current = inner.lease.is_some_and(|lease| lease.incarnation == incarnation);
        if is_current {
            inner.runs.insert(run, epoch);
        }
        is_current
    }

    /// The run is not owned in this epoch any more.
    pub(super) fn forget(&self, run: RunId, epoch: Option<i64>) {
        let mut inner = self.inner();
        if inner.runs.get(&run).copied() == epoch {
            inner.runs.remove(&run);
        }
    }

    /// The run waits in the queue now, or is over.
    pub(super) fn queued(&self, run: RunId) {
        let mut inner = self.inner();
        if inner.queued.len() == QUEUED_MAX {
            inner.queued.pop_front();
        }
        inner.queued.push_back((run, Instant::now()));
    }

    /// The runs that it brought into the queue within this time, and perhaps others.
    pub(super) fn queued_within(&self, time: Duration) -> Vec<RunId> {
        let mut inner = self.inner();
        let kept = inner.queued.partition_point(|(_, at)| at.elapsed() > time);
        inner.queued.drain(..kept);
        inner.queued.iter().map(|(run, _)| *run).collect()
    }

    pub(super) fn author(&self, run: RunId) -> Author {
        let inner = self.inner();
        Author { incarnation: inner.lease.map(|lease| lease.incarnation), epoch: inner.runs.get(&run).copied() }
    }

    pub(super) fn owns(&self, run: RunId) -> bool {
        self.inner().runs.contains_key(&run)
    }

    pub(super) fn runs(&self) -> Vec<RunId> {
        self.inner().runs.keys().copied().collect()
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(n: usize) -> RunId {
        RunId(Uuid::from_u128(n as u128))
    }

    #[test]
    fn the_loss_of_an_earlier_lease_takes_nothing_from_the_one_that_is_held() {
        let [first, second] =
            [1, 2].map(|n| Lease { incarnation: Uuid::from_u128(n), duration: Duration::from_secs(1) });
        let held = Held::default();
        held.joined(first);
        held.joined(second);
        assert!(!held.took(first.incarnation, run(1), 1) && held.took(second.incarnation, run(2), 1));
        held.lost(first.incarnation);
        assert_eq!((held.lease(), held.runs()), (Some(second), vec![run(2)]));
        held.lost(second.incarnation);
        assert_eq!((held.lease(), held.runs(), held.before()), (None, Vec::new(), Some(second.incarnation)));
    }

    #[test]
    fn of_very_many_runs_that_were_queued_the_last_ones_are_known() {
        let held = Held::default();
        (0..QUEUED_MAX + 2).for_each(|n| held.queued(run(n)));
        let known = held.queued_within(Duration::from_secs(3600));
        assert_eq!(known, (2..QUEUED_MAX + 2).map(run).collect::<Vec<_>>());
        assert_eq!(held.queued_within(Duration::ZERO), []);
    }
}
