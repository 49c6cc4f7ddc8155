//! A run whose files this process changes, until an append says what they are.

use std::sync::Arc;

use super::{Mark, RunFiles};
use crate::domain::ids::RunId;

/// Dropped before the files are said to be settled or kept, what is on this disk counts for nothing.
pub(crate) struct Held {
    files: Option<Arc<RunFiles>>,
    run: RunId,
}

impl Held {
    /// Nothing is shared, or somebody else in this process has the run and goes on with it.
    pub(super) fn nothing(run: RunId) -> Self {
        Self { files: None, run }
    }

    pub(super) fn of(files: Arc<RunFiles>, run: RunId) -> Self {
        Self { files: Some(files), run }
    }

    /// The run stays this process's until [`RunFiles::settled`] or [`RunFiles::released`].
    pub(crate) fn keep(mut self) {
        self.files = None;
    }

    /// An append is there: this disk holds what it says.
    pub(crate) async fn settled(mut self, files: &RunFiles, mark: Option<Mark>) {
        self.files = None;
        files.settled(self.run, mark).await;
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        if let Some(files) = &self.files {
            files.forget(self.run);
        }
    }
}
