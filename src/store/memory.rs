//! The reference back end: the contract in its simplest form, kept in memory.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::future::ready;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use tokio::sync::watch;

use super::batch::Page;
use super::held::Author;
use super::labels::Labels;
use super::memory_cluster::{Several, StoreClock};
use super::tails::Tails;
use super::{
    Append, AppendResult, BoxFuture, Durability, Error, EventBatch, EventStore, IndexChange, IndexKey, RawPiece,
    RunFilter, admission,
};
use crate::domain::fact::Stream;
use crate::domain::fair_queue::ShareRule;
use crate::domain::ids::{RunId, Seq};

/// A store that forgets everything when the process ends.
#[derive(Clone, Default)]
pub struct MemoryStore(Arc<Shared>);

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    tails: Tails,
}

#[derive(Default)]
struct State {
    /// What several services agree on, if the store is for several.
    several: Option<Several>,
    logs: HashMap<RunId, Vec<EventBatch>>,
    rows: BTreeMap<IndexKey, Bytes>,
    deleted: HashSet<RunId>,
}

impl State {
    fn head(&self, run: &RunId) -> Seq {
        self.logs.get(run).and_then(|log| log.last()).map_or(Seq::START, EventBatch::last)
    }

    fn apply(&mut self, change: IndexChange) {
        match change {
            IndexChange::Put(key, value) => self.rows.insert(key, value),
            IndexChange::Delete(key) => self.rows.remove(&key),
        };
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Appends in the name of one of several services, or of nobody; also tells whether nobody owns the run now.
    fn append(&self, append: Append, author: Option<Author>) -> Result<(Seq, bool), Error> {
        admission::check_shape(&append)?;
        let mut state = self.state();
        let is_taken = append.require_absent.as_ref().is_some_and(|key| state.rows.contains_key(key));
        if let (Some(several), Some(author), false) = (&state.several, author, is_taken) {
            several.admit(&append.run, author)?;
        }
        let deleted = state.deleted.contains(&append.run);
        let head = admission::admit(&append, state.head(&append.run), deleted, |key| Ok(state.rows.get(key).cloned()))?;
        if let Some(several) = &state.several {
            several.removed.admit(&append.for_others.files, append.for_others.put_after)?;
        }
        if !append.events.is_empty() {
            state.logs.entry(append.run).or_default().extend(append.events);
        }
        let released = match &mut state.several {
            Some(several) => several.appended(append.run, &append.index, append.for_others),
            None => false,
        };
        append.index.into_iter().for_each(|change| state.apply(change));
        drop(state);
        self.tails.publish(&append.run, head);
        Ok((head, released))
    }

    fn delete(&self, run: &RunId, rows: Vec<IndexKey>) {
        let mut state = self.state();
        if state.logs.remove(run).is_some() {
            state.deleted.insert(*run);
        }
        let whole = rows.contains(&IndexKey::Run(*run));
        if let Some(several) = &mut state.several {
            several.deleted(run, whole);
        }
        rows.into_iter().for_each(|key| state.apply(IndexChange::Delete(key)));
        drop(state);
        self.tails.close(run);
    }
}

impl MemoryStore {
    /// A store for several services; its clock judges leases. What is appended to the store itself asks for no owner.
    pub fn for_several(rule: ShareRule, clock: StoreClock) -> MemoryStore {
        let state = State { several: Some(Several::new(rule, clock)), ..State::default() };
        MemoryStore(Arc::new(Shared { state: Mutex::new(state), tails: Tails::default() }))
    }

    pub(super) fn several<T>(&self, ask: impl FnOnce(&mut Several) -> T) -> Option<T> {
        self.0.state().several.as_mut().map(ask)
    }

    pub(super) fn append_as(&self, append: Append, author: Option<Author>) -> Result<(Seq, bool), Error> {
        self.0.append(append, author)
    }
}

impl EventStore for MemoryStore {
    fn append(&self, append: Append) -> BoxFuture<'static, AppendResult> {
        Box::pin(ready(self.0.append(append, None).map(|(head, _)| head)))
    }

    fn head(&self, run: &RunId) -> BoxFuture<'_, Result<Seq, Error>> {
        Box::pin(ready(Ok(self.0.state().head(run))))
    }

    fn read(&self, run: &RunId, after: Seq, max_bytes: usize) -> BoxFuture<'_, Result<Vec<EventBatch>, Error>> {
        let state = self.0.state();
        let mut page = Page::new(max_bytes);
        for batch in state.logs.get(run).into_iter().flatten().filter_map(|batch| batch.after(after)) {
            if !page.add(batch) {
                break;
            }
        }
        Box::pin(ready(Ok(page.batches)))
    }

    fn watch(&self, run: &RunId) -> watch::Receiver<Seq> {
        self.0.tails.subscribe(run, || self.0.state().head(run))
    }

    fn index(&self, key: &IndexKey) -> BoxFuture<'_, Result<Option<Bytes>, Error>> {
        Box::pin(ready(Ok(self.0.state().rows.get(key).cloned())))
    }

    fn runs(&self, before: Option<RunId>, limit: usize) -> BoxFuture<'_, Result<Vec<(RunId, Bytes)>, Error>> {
        let state = self.0.state();
        let rows = state.rows.iter().rev().filter_map(|(key, value)| match key {
            IndexKey::Run(run) if before.is_none_or(|before| *run < before) => Some((*run, value.clone())),
            IndexKey::Run(_)
            | IndexKey::Request(_)
            | IndexKey::Idempotency(_)
            | IndexKey::Cache(_)
            | IndexKey::Open(_)
            | IndexKey::Snapshot(_) => None,
        });
        Box::pin(ready(Ok(rows.take(limit).collect())))
    }

    fn runs_with(
        &self,
        filter: &RunFilter,
        before: Option<RunId>,
        limit: usize,
    ) -> BoxFuture<'_, Result<Vec<(RunId, Bytes)>, Error>> {
        let filter = filter.clone();
        Box::pin(async move {
            let mut rows = self.runs(before, usize::MAX).await?;
            rows.retain(|(_, row)| filter.is_empty() || Labels::of_row(row).is_some_and(|run| filter.finds(&run)));
            rows.truncate(limit);
            Ok(rows)
        })
    }

    fn open_runs(&self) -> BoxFuture<'_, Result<Vec<RunId>, Error>> {
        let state = self.0.state();
        let marked = state.rows.keys().filter_map(|key| match key {
            IndexKey::Open(run) => Some(*run),
            IndexKey::Run(_)
            | IndexKey::Request(_)
            | IndexKey::Idempotency(_)
            | IndexKey::Cache(_)
            | IndexKey::Snapshot(_) => None,
        });
        Box::pin(ready(Ok(marked.collect())))
    }

    fn delete_events(&self, run: &RunId) -> BoxFuture<'static, Result<(), Error>> {
        self.0.delete(run, vec![IndexKey::Open(*run)]);
        Box::pin(ready(Ok(())))
    }

    fn delete_run(&self, run: &RunId, mut index: Vec<IndexKey>) -> BoxFuture<'static, Result<(), Error>> {
        index.extend([IndexKey::Run(*run), IndexKey::Open(*run), IndexKey::Snapshot(*run)]);
        self.0.delete(run, index);
        Box::pin(ready(Ok(())))
    }

    fn raw(
        &self,
        run: &RunId,
        stream: Stream,
        from: u64,
        max_bytes: usize,
    ) -> BoxFuture<'_, Result<Vec<RawPiece>, Error>> {
        let found = self.several(|several| several.raw(run, stream, from, max_bytes));
        Box::pin(ready(Ok(found.unwrap_or_default())))
    }

    fn durability(&self) -> Durability {
        Durability::Memory
    }
}
