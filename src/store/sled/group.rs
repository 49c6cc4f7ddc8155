//! A group of requests that becomes one batch; each is checked against the store and the requests before it.

use std::collections::{HashMap, HashSet};

use bytes::Bytes;

use super::keys;
use super::read::{Inflight, Shared, engine_failed};
use crate::domain::ids::{RunId, Seq};
use crate::store::{Append, AppendResult, Error, EventBatch, IndexChange, IndexKey, admission};

/// Requests accepted so far.
pub(super) struct Group<'a> {
    shared: &'a Shared,
    batch: sled::Batch,
    /// Heads after the group, of the runs it touches.
    heads: HashMap<RunId, Seq>,
    /// Events to write, so far without keys: those of one run share values.
    events: HashMap<RunId, Vec<EventBatch>>,
    /// Rows after the group, of those it touches.
    rows: HashMap<IndexKey, Option<Bytes>>,
    deleted: HashSet<RunId>,
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
}

impl<'a> Group<'a> {
    /// An empty group. Nothing is in flight while a group is put together, so what the tree holds is durable.
    pub(super) fn new(shared: &'a Shared) -> Self {
        Group {
            shared,
            batch: sled::Batch::default(),
            heads: HashMap::new(),
            events: HashMap::new(),
            rows: HashMap::new(),
            deleted: HashSet::new(),
            hidden: Inflight::default(),
        }
    }

    /// Accepts an append, or refuses it and leaves the group unchanged.
    pub(super) fn append(&mut self, append: Append) -> AppendResult {
        let before = self.head(&append.run)?;
        let head = admission::admit(&append, before, |key| self.row(key))?;
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
        let stored: Vec<_> = self
            .shared
            .db
            .range(keys::event_key(&run, Seq::START)..keys::events_end(&run))
            .keys()
            .collect::<Result<_, _>>()
            .map_err(engine_failed)?;
        self.change_rows(rows.into_iter().map(|key| (key, None)).collect())?;
        stored.into_iter().for_each(|key| self.batch.remove(key));
        self.events.remove(&run);
        self.heads.insert(run, Seq::START);
        // Readers see an empty log at once: one that is half gone would look damaged.
        self.hidden.heads.insert(run, Seq::START);
        self.deleted.insert(run);
        Ok(())
    }

    /// The one write, and what readers see of it; `None` if nothing changes.
    pub(super) fn finish(mut self) -> Option<Outcome> {
        if self.heads.is_empty() && self.rows.is_empty() {
            return None;
        }
        for (run, batches) in &self.events {
            keys::lay_out(run, batches, |key, value| self.batch.insert(key, value));
        }
        for (key, row) in &self.rows {
            // The row before may have had more parts.
            if let Some(Some(old)) = self.hidden.rows.get(key) {
                keys::keys_of_row(key, old.len()).for_each(|key| self.batch.remove(key));
            }
            if let Some(row) = row {
                keys::lay_out_row(key, row, |key, value| self.batch.insert(key, value));
            }
        }
        let heads = self.heads.into_iter().filter(|(run, _)| !self.deleted.contains(run)).collect();
        Some(Outcome { batch: self.batch, hidden: self.hidden, heads, deleted: self.deleted })
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
