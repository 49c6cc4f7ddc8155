//! A group of requests that becomes one batch; each is checked against the store and the requests before it.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use bytes::Bytes;
use sled::IVec;

use super::generation::Generation;
use super::keys;
use super::read::{Inflight, Shared};
use super::rows::row_in;
use crate::domain::ids::{RunId, Seq};
use crate::store::{Append, AppendResult, Error, EventBatch, IndexChange, IndexKey, admission};

/// Requests accepted so far.
pub(super) struct Group<'a> {
    shared: &'a Shared,
    /// Where the group is written to. Only the writer itself changes that.
    current: Arc<Generation>,
    batch: sled::Batch,
    /// Heads after the group, of the runs it touches.
    heads: HashMap<RunId, Seq>,
    /// Events to write, so far without keys: those of one run share values.
    events: HashMap<RunId, Vec<EventBatch>>,
    /// Rows after the group, of those it touches.
    rows: HashMap<IndexKey, Option<Bytes>>,
    deleted: HashSet<RunId>,
    /// Bytes of events that the batch holds so far.
    bytes: HashMap<RunId, u64>,
    hidden: Inflight,
}

/// The result of a group.
pub(super) struct Outcome {
    pub(super) batch: sled::Batch,
    /// What readers see until it is durable.
    pub(super) hidden: Inflight,
    /// The heads that it moves.
    pub(super) heads: HashMap<RunId, Seq>,
    /// The runs whose events it removes.
    pub(super) deleted: HashSet<RunId>,
    /// Bytes of events by run.
    pub(super) bytes: HashMap<RunId, u64>,
    /// The rows that it changes.
    pub(super) rows: HashMap<IndexKey, Option<Bytes>>,
}

impl<'a> Group<'a> {
    /// An empty group. Nothing is in flight while a group is put together, so what the databases hold is durable.
    pub(super) fn new(shared: &'a Shared) -> Self {
        Group {
            shared,
            current: shared.levels().current.clone(),
            batch: sled::Batch::default(),
            heads: HashMap::new(),
            events: HashMap::new(),
            rows: HashMap::new(),
            deleted: HashSet::new(),
            bytes: HashMap::new(),
            hidden: Inflight::default(),
        }
    }

    /// Accepts an append, or refuses it and leaves the group unchanged.
    pub(super) fn append(&mut self, append: Append) -> AppendResult {
        let before = self.head(&append.run)?;
        let deleted = self.is_deleted(&append.run);
        let head = admission::admit(&append, before, deleted, |key| self.row(key))?;
        let changes = append.index.into_iter().map(|change| match change {
            IndexChange::Put(key, row) => (key, Some(row)),
            IndexChange::Delete(key) => (key, None),
        });
        self.change_rows(changes.collect())?;
        if !append.events.is_empty() {
            self.hidden.heads.entry(append.run).or_insert(before);
            self.heads.insert(append.run, head);
            self.events.entry(append.run).or_default().extend(append.events);
        }
        Ok(head)
    }

    /// Removes a run's events and the rows named.
    pub(super) fn delete(&mut self, run: RunId, rows: Vec<IndexKey>) -> Result<(), Error> {
        let stored = self.shared.stored_head(&run)? > Seq::START;
        self.change_rows(rows.into_iter().map(|key| (key, None)).collect())?;
        let planned = self.events.remove(&run).is_some();
        if stored || planned {
            // The events themselves stay until their generation goes.
            self.batch.insert(keys::deleted_key(&run), IVec::default());
            self.heads.insert(run, Seq::START);
            // Readers see an empty log at once.
            self.hidden.heads.insert(run, Seq::START);
            self.deleted.insert(run);
        }
        Ok(())
    }

    /// Takes stored events over into the current generation, as they are. They are visible already.
    pub(super) fn carry(&mut self, run: RunId, entries: Vec<(IVec, IVec)>) {
        if self.is_deleted(&run) {
            return;
        }
        for (key, value) in entries {
            *self.bytes.entry(run).or_default() += value.len() as u64;
            self.batch.insert(key, value);
        }
    }

    /// The one write, and what readers see of it; `None` if nothing changes.
    pub(super) fn finish(mut self) -> Result<Option<Outcome>, Error> {
        if self.heads.is_empty() && self.rows.is_empty() && self.bytes.is_empty() {
            return Ok(None);
        }
        for (run, batches) in &self.events {
            let bytes = self.bytes.entry(*run).or_default();
            keys::lay_out(run, batches, |key, value| {
                *bytes += value.len() as u64;
                self.batch.insert(key, value);
            });
        }
        for (key, row) in &self.rows {
            let stored = self.hidden.rows.get(key).is_some_and(Option::is_some);
            // The row in this generation may have more parts.
            if stored && let Some(Some(old)) = row_in(&self.current.database, key)? {
                keys::keys_of_row(key, old.len()).for_each(|key| self.batch.remove(key));
            }
            match row {
                Some(row) => keys::lay_out_row(key, row, |key, value| self.batch.insert(key, value)),
                None if stored => self.batch.insert(keys::row_key(key), keys::gone()),
                None => {}
            }
        }
        let heads = self.heads.into_iter().filter(|(run, _)| !self.deleted.contains(run)).collect();
        let Group { batch, hidden, deleted, bytes, rows, .. } = self;
        Ok(Some(Outcome { batch, hidden, heads, deleted, bytes, rows }))
    }

    fn is_deleted(&self, run: &RunId) -> bool {
        self.deleted.contains(run) || self.shared.is_deleted(run)
    }

    fn head(&self, run: &RunId) -> Result<Seq, Error> {
        match self.heads.get(run) {
            Some(head) => Ok(*head),
            None => self.shared.stored_head(run),
        }
    }

    fn row(&self, key: &IndexKey) -> Result<Option<Bytes>, Error> {
        match self.rows.get(key) {
            Some(row) => Ok(row.clone()),
            None => self.shared.stored_row(key),
        }
    }

    fn change_rows(&mut self, changes: Vec<(IndexKey, Option<Bytes>)>) -> Result<(), Error> {
        // All that can fail comes before anything is changed.
        let old = changes.iter().map(|(key, _)| Ok((*key, self.row(key)?)));
        let old: Vec<_> = old.collect::<Result<_, Error>>()?;
        for (key, row) in old {
            // Only the first change finds the durable row.
            self.hidden.rows.entry(key).or_insert(row);
        }
        self.rows.extend(changes);
        Ok(())
    }
}
