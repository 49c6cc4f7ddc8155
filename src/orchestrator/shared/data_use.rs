//! How much the data folder holds: measured when somebody asks, at most once an hour, in the background.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::domain::time::Timestamp;
use crate::metrics::DataFolder;

/// How long a measurement is good for.
const FRESH_SECONDS: u64 = 3600;

/// The last measurement, and whether another is being made.
#[derive(Debug, Clone, Default)]
pub(crate) struct DataUse(Arc<Mutex<State>>);

#[derive(Debug, Default)]
struct State {
    last: Option<(DataFolder, Timestamp)>,
    under_way: bool,
}

impl DataUse {
    /// The last measurement, and when it was.
    pub(crate) fn last(&self) -> Option<(DataFolder, Timestamp)> {
        self.lock().last.clone()
    }

    /// Whether it is time to measure; whoever is told so has to, and to say what came out.
    pub(crate) fn is_due(&self, now: Timestamp) -> bool {
        let mut state = self.lock();
        let fresh = state.last.as_ref().is_some_and(|(_, at)| at.plus_seconds(FRESH_SECONDS) > now);
        !fresh && !std::mem::replace(&mut state.under_way, true)
    }

    pub(crate) fn measured(&self, found: DataFolder, at: Timestamp) {
        *self.lock() = State { last: Some((found, at)), under_way: false };
    }

    /// Nothing can panic while it holds the lock.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_measures_at_a_time_and_again_after_an_hour() {
        let (data_use, at) = (DataUse::default(), |seconds: u64| Timestamp::from_micros(0).plus_seconds(seconds));
        assert!(data_use.is_due(at(0)) && !data_use.is_due(at(0)));
        let found = DataFolder { folders: vec![("runs".into(), 5)] };
        data_use.measured(found.clone(), at(10));
        assert_eq!(data_use.last(), Some((found, at(10))));
        assert!(!data_use.is_due(at(3609)) && data_use.is_due(at(3610)));
    }
}
