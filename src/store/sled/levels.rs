//! All databases of the store as one: generations, which take what is new, above the index, which keeps the rows of runs
//! whose generation is gone.
//!
//! Everything is written to the current generation. A row in a newer database takes the place of one in an older, also
//! when it only says that the row is gone. Events never change, so it does not matter in which generation they are.

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
    pub(super) closed: Vec<Arc<Generation>>,
    pub(super) index: Arc<Index>,
}

impl Levels {
    /// Newest first.
    pub(super) fn generations(&self) -> impl Iterator<Item = &Generation> {
        std::iter::once(&*self.current).chain(self.closed.iter().map(|generation| &**generation))
    }

    /// Newest first, the index last.
    fn databases(&self) -> impl Iterator<Item = &Database> {
        self.generations().map(|generation| &generation.database).chain([&self.index.database])
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
        let entries = databases.iter().map(|database| database.db.range(first.as_slice()..end.as_slice()).rev());
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
        let marks = self.databases().map(|database| database.db.range(first.as_slice()..end.as_slice()));
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
        let wanted = keys::event_key(run, after.next());
        let run_start = keys::event_key(run, Seq::START);
        // The value that holds the first wanted event is the last one that begins at or before it.
        let mut holder = None;
        for generation in self.generations() {
            let found =
                generation.database.db.range(run_start..=wanted).next_back().transpose().map_err(engine_failed)?;
            holder = holder.max(found.map(|(key, _)| key));
        }
        let start = holder.ok_or_else(|| corrupt(run, "its first event is missing"))?;
        let end = sled::IVec::from(&keys::events_end(run));
        let pieces = self.generations().map(|generation| generation.database.db.range(start.clone()..end.clone()));
        let mut pieces = Merged::ascending(pieces);
        let mut page = Page::new(max_bytes);
        let mut seen = after;
        while seen < head {
            let batch = next_batch(run, &mut pieces)?;
            if batch.first > seen.next() {
                return Err(corrupt(run, &format!("event {} is missing", seen.next())));
            }
            // A value may reach beyond the durable head.
            let Some(batch) = batch.up_to(head).and_then(|batch| batch.after(seen)) else {
                return Err(corrupt(run, &format!("event {} is missing", seen.next())));
            };
            seen = batch.last();
            if !page.add(batch) {
                break;
            }
        }
        Ok(page.batches)
    }
}

/// The next whole events of the run; a long event is put together from its parts.
fn next_batch(run: &RunId, pieces: &mut Merged<sled::Iter>) -> Result<EventBatch, Error> {
    let mut long: Option<(Seq, usize, BytesMut)> = None;
    loop {
        let (_, entry) = pieces.next().ok_or_else(|| corrupt(run, "it ends before its head"))?;
        let (key, value) = entry.map_err(engine_failed)?;
        let piece = Piece::decode(&key, value).ok_or_else(|| corrupt(run, "a value has an unknown tag"))?;
        match (piece, &mut long) {
            (Piece::Whole(batch), None) => return Ok(batch),
            (Piece::FirstPart { seq, len, bytes }, None) => {
                let mut event = BytesMut::with_capacity(len);
                event.extend_from_slice(&bytes);
                long = Some((seq, len, event));
            }
            (Piece::NextPart { seq, bytes }, Some((of, _, event))) if seq == *of => event.extend_from_slice(&bytes),
            (piece, _) => return Err(corrupt(run, &format!("event {} lacks a part", piece.last()))),
        }
        if let Some((first, _, event)) = long.take_if(|(_, len, event)| event.len() >= *len) {
            return Ok(EventBatch { first, count: 1, ndjson: event.freeze() });
        }
    }
}
