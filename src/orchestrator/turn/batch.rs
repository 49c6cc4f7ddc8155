//! Facts that are logged together.

use crate::domain::fact::Fact;

/// From this size on a batch takes no more; about what one append of the store may carry.
const FULL: usize = 640 * 1024;
/// A batch that became longer than this by its last piece is encoded in parts: smaller ones would be more appends, which cost a sync each.
const PART: usize = 2 * FULL;
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

    /// Whether it is encoded in parts.
    pub(crate) fn has_parts(&self) -> bool {
        self.bytes + self.facts.len() * AROUND_EVENT > PART
    }

    /// All facts; the next batch begins.
    pub(crate) fn take(&mut self) -> Vec<Fact> {
        std::mem::take(self).facts
    }

    /// The first facts, as many as are encoded in one go: one long line can be thousands of them.
    pub(crate) fn take_part(&mut self) -> Vec<Fact> {
        let bytes_each = self.bytes / self.facts.len().max(1);
        let count = (PART / (bytes_each + AROUND_EVENT)).max(1);
        if count >= self.facts.len() {
            return self.take();
        }
        let rest = self.facts.split_off(count);
        self.bytes -= bytes_each * count;
        std::mem::replace(&mut self.facts, rest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::event::{Event, Progress};

    #[test]
    fn the_facts_of_one_long_line_come_in_parts_and_in_their_order() {
        let fact =
            |percent: i32| Fact::own(Event::Progress(Progress { percent: percent.into(), message: String::new() }));
        let facts: Vec<Fact> = (0..4000).map(fact).collect();
        let mut batch = Batch::of(facts.clone());
        batch.count(8 * 1024 * 1024);
        let mut parts = Vec::new();
        while !batch.is_empty() {
            parts.push(batch.take_part());
        }
        assert!(parts.iter().all(|part| part.len() <= 4000 * PART / (8 * 1024 * 1024)), "{}", parts.len());
        assert_eq!(parts.concat(), facts);
        let mut small = Batch::of(facts[..100].to_vec());
        assert_eq!((small.take_part().len(), small.is_empty()), (100, true));
    }
}
