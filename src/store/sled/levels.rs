//! All databases of the store as one: generations, which take what is new, above the index, which keeps the rows of runs
//! whose generation is gone.
//!
//! Everything is written to the current generation. A row in a newer database takes the place of one in an older, also
//! when it only says that the row is gone. Events never change, so it does not matter in which generation they are.
//! A closed generation is soon settled: its rows are in the index, and it is asked for events alone.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::{Bytes, BytesMut};

use super::damage::{corrupt, damaged, engine_failed};
use super::database::Database;
use super::generation::Generation;
use super::index::Index;
use super::keys::{self, Piece, RowStart};
use super::merge::Merged;
use super::rows::{row_in, whole_row};
use crate::domain::ids::{RunId, Seq};
use crate::store::batch::Page;
use crate::store::{Error, EventBatch, IndexKey};

#[derive(Clone)]
pub(super) struct Levels {
    /// Takes all writes.
    pub(super) current: Arc<Generation>,
    /// Newest first.
    pub(super) closed: Vec<Closed>,
    pub(super) index: Arc<Index>,
}

/// A generation that takes no more writes.
#[derive(Clone)]
pub(super) struct Closed {
    pub(super) generation: Arc<Generation>,
    /// Whether its rows, and those of all older ones, are in the index.
    pub(super) settled: bool,
}

impl Levels {
    /// Newest first.
    pub(super) fn generations(&self) -> impl Iterator<Item = &Generation> {
        std::iter::once(&*self.current).chain(self.closed.iter().map(|closed| &*closed.generation))
    }

    /// Where rows are: newest first, the index last.
    fn databases(&self) -> impl Iterator<Item = &Database> {
        let closed = self.closed.iter().filter(|closed| !closed.settled).map(|closed| &*closed.generation);
        let generations = std::iter::once(&*self.current).chain(closed);
        generations.map(|generation| &generation.database).chain([&self.index.database])
    }

    /// How much room all databases take on the disk.
    pub(super) fn disk_bytes(&self) -> u64 {
        self.generations().map(|generation| generation.database.size()).sum::<u64>() + self.index.database.size()
    }

    /// The last event in any generation.
    pub(super) fn head(&self, run: &RunId) -> Result<Seq, Error> {
        self.generations().try_fold(Seq::START, |head, generation| Ok(head.max(generation.head(run)?)))
    }

    /// The row, durable or not.
    pub(super) fn row(&self, key: &IndexKey) -> Result<Option<Bytes>, Error> {
        for database in self.databases() {
            if let Some(found) = row_in(database, key)? {
                return Ok(found);
            }
        }
        Ok(None)
    }

    /// Rows of runs with ids below `before`, newest id first.
    pub(super) fn runs(&self, before: Option<RunId>, limit: usize) -> Result<BTreeMap<RunId, Bytes>, Error> {
        let (first, end) = keys::run_rows();
        let end = before.map_or(end, |before| keys::row_key(&IndexKey::Run(before)));
        let databases: Vec<_> = self.databases().collect();
        let loaded = loaded(databases.iter().copied())?;
        let entries = loaded.iter().map(|db| db.range(first.as_slice()..end.as_slice()).rev());
        let mut rows = BTreeMap::new();
        for (at, entry) in Merged::descending(entries) {
            if rows.len() >= limit {
                break;
            }
            let (key, value) = entry.map_err(engine_failed)?;
            if let Some(run) = keys::run_of_row(&key)
                && let Some(row) = whole_row(databases[at], &IndexKey::Run(run), &value)?
            {
                rows.insert(run, row);
            }
        }
        Ok(rows)
    }

    pub(super) fn open_runs(&self) -> Result<Vec<RunId>, Error> {
        let (first, end) = keys::open_rows();
        let loaded = loaded(self.databases())?;
        let marks = loaded.iter().map(|db| db.range(first.as_slice()..end.as_slice()));
        let mut runs = Vec::new();
        for (_, entry) in Merged::ascending(marks) {
            let (key, value) = entry.map_err(engine_failed)?;
            let damaged = || damaged(format!("open mark {key:?}"));
            let run = keys::run_of_row(&key).ok_or_else(damaged)?;
            match keys::row_start(&value).ok_or_else(damaged)? {
                RowStart::Gone => {}
                RowStart::Whole(_) | RowStart::FirstPart(_) => runs.push(run),
            }
        }
        Ok(runs)
    }

    /// Events up to a head that is durable.
    pub(super) fn read(&self, run: &RunId, after: Seq, head: Seq, max_bytes: usize) -> Result<Vec<EventBatch>, Error> {
        let mut page = Page::new(max_bytes);
        let mut seen = after;
        while seen < head {
            // Only these are loaded. None of them may have what follows the next event.
            let holders = self.generations().filter(|generation| generation.may_hold(run, seen.next()));
            let holders = loaded(holders.map(|generation| &generation.database))?;
            let before = seen;
            match read_from(&holders, run, &mut seen, head, &mut page)? {
                Ended::Full => break,
                Ended::Nothing(reason) if seen == before => return Err(corrupt(run, &reason)),
                Ended::Nothing(_) => {}
            }
        }
        Ok(page.batches)
    }

    /// Whether what may hold this event is in memory.
    pub(super) fn is_loaded(&self, run: &RunId, seq: Seq) -> bool {
        self.generations().all(|generation| generation.database.is_loaded() || !generation.may_hold(run, seq))
    }
}

/// The databases, for as long as they are read.
fn loaded<'a>(databases: impl Iterator<Item = &'a Database>) -> Result<Vec<Arc<sled::Db>>, Error> {
    databases.map(Database::db).collect()
}

/// Why reading ended.
enum Ended {
    /// The page is full, or the head is reached.
    Full,
    /// These databases do not have the next event.
    Nothing(String),
}

/// Reads on, from `seen` on, as long as the next event is in one of these databases.
fn read_from(
    holders: &[Arc<sled::Db>],
    run: &RunId,
    seen: &mut Seq,
    head: Seq,
    page: &mut Page,
) -> Result<Ended, Error> {
    let missing = |seq: Seq| Ok(Ended::Nothing(format!("event {seq} is missing")));
    let wanted = keys::event_key(run, seen.next());
    let run_start = keys::event_key(run, Seq::START);
    // The value that holds the first wanted event is the last one that begins at or before it.
    let mut holder = None;
    for db in holders {
        let found = db.range(run_start..=wanted).next_back().transpose().map_err(engine_failed)?;
        holder = holder.max(found.map(|(key, _)| key));
    }
    let Some(start) = holder else { return missing(seen.next()) };
    let end = sled::IVec::from(&keys::events_end(run));
    let mut pieces = Merged::ascending(holders.iter().map(|db| db.range(start.clone()..end.clone())));
    while *seen < head {
        let batch = match next_batch(run, &mut pieces)? {
            Ok(batch) => batch,
            Err(reason) => return Ok(Ended::Nothing(reason)),
        };
        if batch.first > seen.next() {
            return missing(seen.next());
        }
        // A value may reach beyond the durable head.
        let Some(batch) = batch.up_to(head).and_then(|batch| batch.after(*seen)) else { return missing(seen.next()) };
        *seen = batch.last();
        if !page.add(batch) {
            return Ok(Ended::Full);
        }
    }
    Ok(Ended::Full)
}

/// The next whole events of the run, or why there are none; a long event is put together from its parts.
fn next_batch(run: &RunId, pieces: &mut Merged<sled::Iter>) -> Result<Result<EventBatch, String>, Error> {
    let mut long: Option<(Seq, usize, BytesMut)> = None;
    loop {
        let Some((_, entry)) = pieces.next() else { return Ok(Err("it ends before its head".to_owned())) };
        let (key, value) = entry.map_err(engine_failed)?;
        let piece = Piece::decode(&key, value).ok_or_else(|| corrupt(run, "a value has an unknown tag"))?;
        match (piece, &mut long) {
            (Piece::Whole(batch), None) => return Ok(Ok(batch)),
            (Piece::FirstPart { seq, len, bytes }, None) => {
                let mut event = BytesMut::with_capacity(len);
                event.extend_from_slice(&bytes);
                long = Some((seq, len, event));
            }
            (Piece::NextPart { seq, bytes }, Some((of, _, event))) if seq == *of => event.extend_from_slice(&bytes),
            (piece, _) => return Ok(Err(format!("event {} lacks a part", piece.last()))),
        }
        if let Some((first, _, event)) = long.take_if(|(_, len, event)| event.len() >= *len) {
            return Ok(Ok(EventBatch { first, count: 1, ndjson: event.freeze() }));
        }
    }
}
