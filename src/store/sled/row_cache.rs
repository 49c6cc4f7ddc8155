//! Rows that were read or written last, in memory. sled lets nobody read while it applies a batch, which takes
//! milliseconds when a run says much: who asks for another run's status would wait for it.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use bytes::Bytes;

use crate::store::IndexKey;

/// Each half may take so many bytes.
const HALF_BYTES: usize = 1024 * 1024;
/// A longer row is not kept: a run of many warnings would make all others go.
const LONGEST: usize = 32 * 1024;
/// About what an entry takes beside its row.
const AROUND_ROW: usize = 128;

/// Durable rows; `None` is a row that is not there. In halves: when the younger one is full, the older one is forgotten.
#[derive(Default)]
pub(super) struct RowCache(Mutex<Halves>);

#[derive(Default)]
struct Halves {
    young: HashMap<IndexKey, Option<Bytes>>,
    young_bytes: usize,
    old: HashMap<IndexKey, Option<Bytes>>,
}

impl RowCache {
    /// What is known of a row: nothing, that it is not there, or the row.
    pub(super) fn get(&self, key: &IndexKey) -> Option<Option<Bytes>> {
        let mut halves = self.lock();
        if let Some(row) = halves.young.get(key) {
            return Some(row.clone());
        }
        let row = halves.old.remove(key)?;
        halves.put(*key, row.clone());
        Some(row)
    }

    /// The row is now this one, and durable.
    pub(super) fn put(&self, key: IndexKey, row: Option<Bytes>) {
        let mut halves = self.lock();
        halves.forget(&key);
        if row.as_ref().is_none_or(|row| row.len() <= LONGEST) {
            halves.put(key, row);
        }
    }

    fn lock(&self) -> MutexGuard<'_, Halves> {
        // It is consistent between any two statements, so a panic elsewhere does not spoil it.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn bytes(row: Option<&Bytes>) -> usize {
    AROUND_ROW + row.map_or(0, Bytes::len)
}

impl Halves {
    fn forget(&mut self, key: &IndexKey) {
        self.old.remove(key);
        if let Some(row) = self.young.remove(key) {
            self.young_bytes -= bytes(row.as_ref());
        }
    }

    /// A row that is in neither half.
    fn put(&mut self, key: IndexKey, row: Option<Bytes>) {
        self.young_bytes += bytes(row.as_ref());
        self.young.insert(key, row);
        if self.young_bytes > HALF_BYTES {
            self.old = std::mem::take(&mut self.young);
            self.young_bytes = 0;
        }
    }
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;
    use crate::domain::ids::RunId;

    fn key(n: u128) -> IndexKey {
        IndexKey::Run(RunId(Uuid::from_u128(n)))
    }

    #[test]
    fn the_last_word_on_a_row_counts_also_that_it_is_gone() {
        let cache = RowCache::default();
        assert_eq!(cache.get(&key(1)), None);
        cache.put(key(1), Some(Bytes::from_static(b"one")));
        cache.put(key(1), Some(Bytes::from_static(b"two")));
        assert_eq!(cache.get(&key(1)), Some(Some(Bytes::from_static(b"two"))));
        cache.put(key(1), None);
        assert_eq!(cache.get(&key(1)), Some(None));
        cache.put(key(1), Some(Bytes::from(vec![0; LONGEST + 1])));
        assert_eq!(cache.get(&key(1)), None, "too long to be kept, and what was before it is not so any more");
    }

    #[test]
    fn its_memory_is_bounded_and_what_is_asked_for_stays() {
        let cache = RowCache::default();
        let row = Some(Bytes::from(vec![0; 8 * 1024]));
        for n in 0..10_000 {
            cache.put(key(n), row.clone());
            assert_eq!(cache.get(&key(0)), Some(row.clone()), "asked for all the time");
        }
        let halves = cache.lock();
        let kept = halves.young.len() + halves.old.len();
        assert!(kept * 8 * 1024 <= 2 * HALF_BYTES + 16 * 1024, "{kept} rows");
    }

    #[test]
    fn a_row_that_was_replaced_does_not_come_back_from_the_older_half() {
        let cache = RowCache::default();
        cache.put(key(1), Some(Bytes::from_static(b"old")));
        (2..200).for_each(|n| cache.put(key(n), Some(Bytes::from(vec![0; 8 * 1024]))));
        cache.put(key(1), Some(Bytes::from_static(b"new")));
        (2..130).for_each(|n| cache.put(key(n), Some(Bytes::from(vec![0; 8 * 1024]))));
        assert_ne!(cache.get(&key(1)), Some(Some(Bytes::from_static(b"old"))));
    }
}
