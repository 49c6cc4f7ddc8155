//! Records that services on a store in memory share.

use std::collections::BTreeMap;

use bytes::Bytes;
use tokio::sync::watch;

use super::memory_removed::Removed;
use super::{Changed, Error, Expected, Record, RecordChange, RecordList, records};

/// The records of a store in memory.
#[derive(Default)]
pub(super) struct MemoryRecords {
    kinds: BTreeMap<&'static str, Kind>,
    changed: watch::Sender<u64>,
}

#[derive(Default)]
struct Kind {
    revision: u64,
    records: BTreeMap<String, Stored>,
}

struct Stored {
    revision: u64,
    value: Bytes,
    files: Vec<[u8; 32]>,
}

impl Kind {
    fn record(&self, key: &str) -> Option<Record> {
        let stored = self.records.get(key)?;
        Some(Record { key: key.to_owned(), revision: stored.revision, value: stored.value.clone() })
    }
}

impl MemoryRecords {
    pub(super) fn record(&self, kind: &str, key: &str) -> Option<Record> {
        self.kinds.get(kind)?.record(key)
    }

    pub(super) fn list(&self, kind: &str) -> RecordList {
        let Some(kind) = self.kinds.get(kind) else { return RecordList::default() };
        let records = kind.records.keys().filter_map(|key| kind.record(key)).collect();
        RecordList { revision: kind.revision, records }
    }

    pub(super) fn revision(&self, kind: &str) -> u64 {
        self.kinds.get(kind).map_or(0, |kind| kind.revision)
    }

    pub(super) fn change(&mut self, change: RecordChange, removed: &Removed) -> Result<Changed, Error> {
        records::check(&change)?;
        let kind = self.kinds.entry(change.kind).or_default();
        let found = kind.record(&change.key);
        let fits = match change.expected {
            Expected::Absent => found.is_none(),
            Expected::At(revision) => found.as_ref().is_some_and(|found| found.revision == revision),
            Expected::Any => true,
        };
        if !fits {
            return Ok(Changed::Refused { found });
        }
        if found.is_none() && change.value.is_none() {
            return Ok(Changed::Done { revision: kind.revision });
        }
        if change.value.is_some() {
            removed.admit(&change.files, change.put_after)?;
        }
        kind.revision += 1;
        let revision = kind.revision;
        match change.value {
            Some(value) => drop(kind.records.insert(change.key, Stored { revision, value, files: change.files })),
            None => drop(kind.records.remove(&change.key)),
        }
        self.changed.send_modify(|count| *count += 1);
        Ok(Changed::Done { revision })
    }

    pub(super) fn changed(&self) -> watch::Receiver<u64> {
        self.changed.subscribe()
    }

    pub(super) fn need(&self, file: &[u8; 32]) -> bool {
        self.kinds.values().flat_map(|kind| kind.records.values()).any(|stored| stored.files.contains(file))
    }
}
