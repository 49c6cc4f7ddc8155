//! The runs that wait for their files: nothing makes them go on but their clients, so there is a most of them.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::domain::fair_queue::Bounds;
use crate::domain::ids::RunId;
use crate::orchestrator::shared::queue::{Place, Queue};

/// Each such run keeps a place; places are shared out as those of the queue are.
#[derive(Debug)]
pub(crate) struct AwaitingFiles {
    places: Arc<Queue>,
    kept: Mutex<BTreeMap<RunId, Place>>,
}

impl AwaitingFiles {
    pub(crate) fn new(most: usize) -> Self {
        let bounds = Bounds { running: 0, waiting: most, per_engine: None, per_skill: None };
        Self { places: Queue::new(bounds), kept: Mutex::default() }
    }

    /// A place for one more run of this share, unless it has as many as it may.
    pub(crate) fn reserve(&self, share: &str) -> Option<Place> {
        self.places.reserve(share)
    }

    /// The run exists and waits.
    pub(crate) fn keep(&self, run: RunId, place: Place) {
        self.kept().insert(run, place);
    }

    /// The run has its files, or has ended.
    pub(crate) fn release(&self, run: RunId) {
        let place = self.kept().remove(&run);
        drop(place);
    }

    pub(crate) fn runs(&self) -> Vec<RunId> {
        self.kept().keys().copied().collect()
    }

    /// Nothing can panic while it holds the lock, so a poisoned one is as good as any.
    fn kept(&self) -> MutexGuard<'_, BTreeMap<RunId, Place>> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;

    #[test]
    fn a_run_keeps_its_place_until_it_is_released_and_no_share_takes_all() {
        let run = |n| RunId(Uuid::from_u128(n));
        let awaiting = AwaitingFiles::new(4);
        for n in 1..=2 {
            awaiting.keep(run(n), awaiting.reserve("@a").unwrap());
        }
        assert!(awaiting.reserve("@a").is_none(), "two places are left for others");
        awaiting.keep(run(3), awaiting.reserve("@b").unwrap());
        drop(awaiting.reserve("").unwrap());
        awaiting.keep(run(4), awaiting.reserve("").unwrap());
        assert!(awaiting.reserve("").is_none());
        assert_eq!(awaiting.runs(), [run(1), run(2), run(3), run(4)]);
        awaiting.release(run(3));
        awaiting.release(run(3));
        assert!(awaiting.reserve("@b").is_some(), "its place is free again");
    }
}
