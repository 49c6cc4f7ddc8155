//! A store in memory that counts appends, and holds them on request.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use skill_runner::domain::ids::{RunId, Seq};
use skill_runner::store::{
    Append, AppendResult, BoxFuture, Durability, Error, EventBatch, EventStore, IndexKey, MemoryStore, RunFilter,
};
use tokio::sync::watch;

#[derive(Clone)]
pub struct HeldStore {
    store: MemoryStore,
    held: Arc<watch::Sender<bool>>,
    held_run: Arc<Mutex<Option<RunId>>>,
    appends: Arc<Mutex<Vec<u32>>>,
    overtaken: Arc<AtomicBool>,
    trouble: Arc<Mutex<Option<String>>>,
    most_bytes: Arc<AtomicUsize>,
    refusals: Arc<Mutex<VecDeque<Option<Error>>>>,
}

impl Default for HeldStore {
    fn default() -> Self {
        Self {
            store: MemoryStore::default(),
            held: Arc::new(watch::Sender::new(false)),
            held_run: Arc::default(),
            appends: Arc::default(),
            overtaken: Arc::default(),
            trouble: Arc::default(),
            most_bytes: Arc::new(AtomicUsize::new(usize::MAX)),
            refusals: Arc::default(),
        }
    }
}

impl HeldStore {
    /// Appends wait from now on.
    pub fn hold(&self) {
        self.held.send_replace(true);
    }

    /// Appends to the log of this run alone wait from now on.
    pub fn hold_run(&self, run: RunId) {
        *self.held_run.lock().unwrap() = Some(run);
        self.hold();
    }

    /// Appends go on.
    pub fn release(&self) {
        self.held.send_replace(false);
    }

    /// The next read that finds nothing tells so only after the held append is done.
    pub fn overtake_next_read(&self) {
        self.overtaken.store(true, Ordering::Relaxed);
    }

    /// From now on no append may have more bytes of events.
    pub fn take_at_most(&self, bytes: usize) {
        self.most_bytes.store(bytes, Ordering::Relaxed);
    }

    /// What the next appends are refused with, one after the other; `None` takes one.
    pub fn refuse_next(&self, refusals: impl IntoIterator<Item = Option<Error>>) {
        self.refusals.lock().unwrap().extend(refusals);
    }

    /// From now on the store tells of this trouble.
    pub fn tell(&self, trouble: &str) {
        *self.trouble.lock().unwrap() = Some(trouble.to_owned());
    }

    /// How many events each append had that was accepted.
    pub fn appends(&self) -> Vec<u32> {
        self.appends.lock().unwrap().clone()
    }
}

impl EventStore for HeldStore {
    fn append(&self, append: Append) -> BoxFuture<'static, AppendResult> {
        let (store, appends, mut held) = (self.store.clone(), self.appends.clone(), self.held.subscribe());
        let (bytes, limit) = (append.events.iter().map(|batch| batch.ndjson.len()).sum(), self.most_bytes.clone());
        let refusals = self.refusals.clone();
        let waits = self.held_run.lock().unwrap().is_none_or(|run| run == append.run);
        Box::pin(async move {
            if let Some(refusal) = refusals.lock().unwrap().pop_front().flatten() {
                return Err(refusal);
            }
            let limit = limit.load(Ordering::Relaxed);
            if bytes > limit {
                return Err(Error::TooLarge { bytes, limit });
            }
            if waits {
                let _ = held.wait_for(|held| !held).await;
            }
            let events = append.events.iter().map(|batch| batch.count).sum();
            let appended = store.append(append).await;
            if appended.is_ok() {
                appends.lock().unwrap().push(events);
            }
            appended
        })
    }

    fn head(&self, run: &RunId) -> BoxFuture<'_, Result<Seq, Error>> {
        self.store.head(run)
    }

    fn read(&self, run: &RunId, after: Seq, max_bytes: usize) -> BoxFuture<'_, Result<Vec<EventBatch>, Error>> {
        let (run, mut head) = (*run, self.store.watch(run));
        Box::pin(async move {
            let read = self.store.read(&run, after, max_bytes).await?;
            if read.is_empty() && self.overtaken.swap(false, Ordering::Relaxed) {
                self.release();
                let _ = head.wait_for(|head| *head > after).await;
            }
            Ok(read)
        })
    }

    fn watch(&self, run: &RunId) -> watch::Receiver<Seq> {
        self.store.watch(run)
    }

    fn index(&self, key: &IndexKey) -> BoxFuture<'_, Result<Option<Bytes>, Error>> {
        self.store.index(key)
    }

    fn runs(&self, before: Option<RunId>, limit: usize) -> BoxFuture<'_, Result<Vec<(RunId, Bytes)>, Error>> {
        self.store.runs(before, limit)
    }

    fn runs_with(
        &self,
        filter: &RunFilter,
        before: Option<RunId>,
        limit: usize,
    ) -> BoxFuture<'_, Result<Vec<(RunId, Bytes)>, Error>> {
        self.store.runs_with(filter, before, limit)
    }

    fn open_runs(&self) -> BoxFuture<'_, Result<Vec<RunId>, Error>> {
        self.store.open_runs()
    }

    fn delete_events(&self, run: &RunId) -> BoxFuture<'static, Result<(), Error>> {
        self.store.delete_events(run)
    }

    fn delete_run(&self, run: &RunId, index: Vec<IndexKey>) -> BoxFuture<'static, Result<(), Error>> {
        self.store.delete_run(run, index)
    }

    fn durability(&self) -> Durability {
        self.store.durability()
    }

    fn trouble(&self) -> Option<String> {
        self.trouble.lock().unwrap().clone()
    }
}
