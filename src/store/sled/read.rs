//! Reads the tree, and shows nothing that is not yet durable.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, PoisonError, RwLock};

use bytes::{Bytes, BytesMut};

use super::folder::Claim;
use super::keys::{self, Piece, RowStart};
use crate::domain::ids::{RunId, Seq};
use crate::store::batch::Page;
use crate::store::tails::Tails;
use crate::store::{Error, EventBatch, IndexKey};

/// What readers and the writer share.
pub(super) struct Shared {
    pub(super) db: sled::Db,
    pub(super) inflight: RwLock<Inflight>,
    pub(super) tails: Tails,
    // Declared after the database, so that sled has closed its files before the directory is released; and in the shared
    // state, so that this happens after the last read.
    pub(super) _claim: Claim,
}

/// What readers see in place of the group now being written. sled shows inserts before they are
/// durable; the writer lists here what to show instead, before it inserts and until it has synced.
#[derive(Debug, Default)]
pub(super) struct Inflight {
    pub(super) heads: HashMap<RunId, Seq>,
    /// Rows to show; `None` is a row that is not there.
    pub(super) rows: HashMap<IndexKey, Option<Bytes>>,
}

impl Shared {
    /// Replaces what readers see in place of undurable data.
    pub(super) fn show(&self, inflight: Inflight) {
        *self.inflight.write().unwrap_or_else(PoisonError::into_inner) = inflight;
    }

    /// The last event in the tree, durable or not.
    pub(super) fn stored_head(&self, run: &RunId) -> Result<Seq, Error> {
        let range = keys::event_key(run, Seq::START)..keys::events_end(run);
        let Some((key, value)) = self.db.range(range).next_back().transpose().map_err(engine_failed)? else {
            return Ok(Seq::START);
        };
        let piece = Piece::decode(&key, value).ok_or_else(|| corrupt(run, "its last value has an unknown tag"))?;
        Ok(piece.last())
    }

    /// The row in the tree, durable or not.
    pub(super) fn stored_row(&self, key: &IndexKey) -> Result<Option<Bytes>, Error> {
        match self.db.get(keys::row_key(key)).map_err(engine_failed)? {
            Some(value) => self.whole_row(key, &value).map(Some),
            None => Ok(None),
        }
    }

    /// The row that begins with this value.
    fn whole_row(&self, key: &IndexKey, value: &[u8]) -> Result<Bytes, Error> {
        let damaged = || Error::Engine { action: "read", source: Error::cause(format!("row {key:?} is damaged")) };
        let len = match keys::row_start(value).ok_or_else(damaged)? {
            RowStart::Whole(row) => return Ok(row),
            RowStart::FirstPart(len) => len,
        };
        let mut row = BytesMut::with_capacity(len);
        for key in keys::keys_of_row(key, len) {
            let value = self.db.get(key).map_err(engine_failed)?.ok_or_else(damaged)?;
            row.extend_from_slice(keys::row_part(&value).ok_or_else(damaged)?);
        }
        if row.len() == len { Ok(row.freeze()) } else { Err(damaged()) }
    }

    pub(super) fn head(&self, run: &RunId) -> Result<Seq, Error> {
        // The lock is held while the tree is read: else a group could begin in between.
        let inflight = self.inflight.read().unwrap_or_else(PoisonError::into_inner);
        match inflight.heads.get(run) {
            Some(head) => Ok(*head),
            None => self.stored_head(run),
        }
    }

    pub(super) fn index(&self, key: &IndexKey) -> Result<Option<Bytes>, Error> {
        let inflight = self.inflight.read().unwrap_or_else(PoisonError::into_inner);
        match inflight.rows.get(key) {
            Some(row) => Ok(row.clone()),
            None => self.stored_row(key),
        }
    }

    pub(super) fn runs(&self, before: Option<RunId>, limit: usize) -> Result<Vec<(RunId, Bytes)>, Error> {
        let inflight = self.inflight.read().unwrap_or_else(PoisonError::into_inner);
        let shown = inflight.rows.iter().filter_map(|(key, row)| match key {
            IndexKey::Run(run) if before.is_none_or(|before| *run < before) => Some((*run, row)),
            IndexKey::Run(_)
            | IndexKey::Request(_)
            | IndexKey::Idempotency(_)
            | IndexKey::Cache(_)
            | IndexKey::Open(_) => None,
        });
        let shown: Vec<_> = shown.collect();

        let (first, end) = keys::run_rows();
        let end = before.map_or(end, |before| keys::row_key(&IndexKey::Run(before)));
        let mut rows = BTreeMap::new();
        for entry in self.db.range(first..end).rev() {
            // Rows in flight may turn out not to be there, so that many more are needed.
            if rows.len() >= limit.saturating_add(shown.len()) {
                break;
            }
            let (key, value) = entry.map_err(engine_failed)?;
            if let Some(run) = keys::run_of_row(&key) {
                rows.insert(run, self.whole_row(&IndexKey::Run(run), &value)?);
            }
        }
        for (run, row) in shown {
            match row {
                Some(row) => rows.insert(run, row.clone()),
                None => rows.remove(&run),
            };
        }
        Ok(rows.into_iter().rev().take(limit).collect())
    }

    pub(super) fn open_runs(&self) -> Result<Vec<RunId>, Error> {
        let (first, end) = keys::open_rows();
        let marked = self.db.range(first..end).map(|entry| {
            let (key, _) = entry.map_err(engine_failed)?;
            keys::run_of_row(&key).ok_or_else(|| Error::Engine {
                action: "read",
                source: Error::cause(format!("open mark {key:?} is damaged")),
            })
        });
        marked.collect()
    }

    pub(super) fn read(&self, run: &RunId, after: Seq, max_bytes: usize) -> Result<Vec<EventBatch>, Error> {
        let head = self.head(run)?;
        if head <= after {
            return Ok(Vec::new());
        }
        // No lock from here on: events up to a durable head never change.
        match self.read_up_to(run, after, head, max_bytes) {
            // … but they may have been deleted in the meantime.
            Err(_) if self.head(run)? < head => Ok(Vec::new()),
            result => result,
        }
    }

    fn read_up_to(&self, run: &RunId, after: Seq, head: Seq, max_bytes: usize) -> Result<Vec<EventBatch>, Error> {
        let wanted = keys::event_key(run, after.next());
        let run_start = keys::event_key(run, Seq::START);
        // The value that holds the first wanted event is the last one that begins at or before it.
        let holder = self.db.range(run_start..=wanted).next_back().transpose().map_err(engine_failed)?;
        let (start, _) = holder.ok_or_else(|| corrupt(run, "its first event is missing"))?;

        let mut pieces = self.db.range(start..sled::IVec::from(&keys::events_end(run)));
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
fn next_batch(run: &RunId, pieces: &mut sled::Iter) -> Result<EventBatch, Error> {
    let mut long: Option<(Seq, usize, BytesMut)> = None;
    loop {
        let (key, value) =
            pieces.next().transpose().map_err(engine_failed)?.ok_or_else(|| corrupt(run, "it ends before its head"))?;
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

fn corrupt(run: &RunId, reason: &str) -> Error {
    Error::Corrupt { run: *run, reason: reason.to_owned() }
}

/// A read of the tree failed.
pub(super) fn engine_failed(source: sled::Error) -> Error {
    Error::Engine { action: "read", source: Arc::new(source) }
}
