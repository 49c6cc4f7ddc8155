//! Facts that are logged together.

use crate::domain::fact::Fact;

/// From this size on a batch takes no more; about what one append of the store may carry.
const FULL: usize = 640 * 1024;
/// About how many bytes an event has around what the engine wrote.
const AROUND_EVENT: usize = 360;

/// Facts of one process, in their order, that are not encoded yet.
#[derive(Default)]
pub(crate) struct Batch {
    pub facts: Vec<Fact>,
    /// Bytes the engine wrote for them.
    bytes: usize,
}

impl Batch {
    pub(crate) fn of(facts: Vec<Fact>) -> Self {
        Self { facts, bytes: 0 }
    }

    /// So many bytes were read; some of them may be of a line that is not finished.
    pub(crate) fn count(&mut self, bytes: usize) {
        self.bytes += bytes;
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.facts.is_empty()
    }

    pub(crate) fn is_full(&self) -> bool {
        !self.is_empty() && self.bytes + self.facts.len() * AROUND_EVENT >= FULL
    }

    /// All facts; the next batch begins.
    pub(crate) fn take(&mut self) -> Vec<Fact> {
        std::mem::take(self).facts
    }
}
