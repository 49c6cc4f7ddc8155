//! Runs whose files are there and whose rows are not: the store has lost them, or is an older one.

use std::sync::{Mutex, PoisonError};

use crate::domain::ids::RunId;

/// The runs that a start found without a row. They stay until an operator has looked.
#[derive(Default)]
pub(crate) struct LostRuns(Mutex<Lost>);

#[derive(Default)]
struct Lost {
    runs: Vec<RunId>,
    requests: usize,
}

impl LostRuns {
    pub(crate) fn found(&self, runs: Vec<RunId>, requests: usize) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Lost { runs, requests };
    }

    /// Whether there are none.
    pub(crate) fn is_empty(&self) -> bool {
        self.in_words().is_none()
    }

    /// What was found, and what to do.
    pub(crate) fn in_words(&self) -> Option<String> {
        let lost = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let first = match lost.runs.first() {
            Some(run) => format!(", such as run {run}"),
            None if lost.requests > 0 => String::new(),
            None => return None,
        };
        Some(format!(
            "at least {} runs and {} requests have files in the data folder, and the store does not know them{first}: it has lost them, or it is older than \
             they are. Their files stay. Put the right store back, or restore a backup; if they are not needed, remove them from runs/, sealed/, homes/ \
             and requests/ while the service is stopped",
            lost.runs.len(),
            lost.requests
        ))
    }
}
