//! What a service knows of its own lease, and of the runs that it owns.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use uuid::Uuid;

use crate::domain::ids::RunId;

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
        *self.inner() = Inner { lease: Some(lease), before: Some(lease.incarnation), runs: HashMap::new() };
    }

    /// The lease of this incarnation is over.
    pub(super) fn lost(&self, incarnation: Uuid) {
        let mut inner = self.inner();
        if inner.lease.is_some_and(|lease| lease.incarnation == incarnation) {
            (inner.lease, inner.runs) = (None, HashMap::new());
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
