//! Waiting runs of an earlier service whose logs do not say yet that it was restarted. They wait as before; it is noted in the
//! background, and first of all when something is asked of one of them.

use std::collections::BTreeSet;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::domain::ids::RunId;

#[derive(Default)]
pub(crate) struct Unnoted(Mutex<BTreeSet<RunId>>);

impl Unnoted {
    pub(crate) fn add(&self, run: RunId) {
        self.runs().insert(run);
    }

    pub(crate) fn contains(&self, run: RunId) -> bool {
        self.runs().contains(&run)
    }

    /// It is noted.
    pub(crate) fn remove(&self, run: RunId) {
        self.runs().remove(&run);
    }

    /// The oldest ones.
    pub(crate) fn first(&self, most: usize) -> Vec<RunId> {
        self.runs().iter().take(most).copied().collect()
    }

    fn runs(&self) -> MutexGuard<'_, BTreeSet<RunId>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
