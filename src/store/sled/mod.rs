//! The sled back end: generations and an index, one writer thread, durable against loss of power.

use std::future::ready;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};
use std::thread::JoinHandle;

use bytes::Bytes;
use tokio::sync::{oneshot, watch};
use tokio::task::spawn_blocking;

use self::compact::Compactor;
use self::loading::LoadedFew;
pub use self::plan::Space;
use self::read::Shared;
use self::spare::Spare;
use self::wake::{Waker, waker};
use self::writer::{Request, Writer};
use super::{
    Append, AppendResult, BoxFuture, Durability, Error, EventBatch, EventStore, IndexKey, RunCounts, RunFilter,
    admission,
};
use crate::domain::ids::{RunId, Seq};
use crate::files;

mod compact;
mod damage;
mod database;
mod folder;
mod generation;
mod group;
mod heap;
mod index;
mod keys;
mod levels;
mod loading;
mod merge;
mod open;
mod panics;
mod plan;
mod pool;
mod read;
mod row_cache;
mod rows;
mod spare;
mod table;
mod wake;
mod writer;

/// Closed generations that are in memory at once. One is read by whoever reads a long log from its beginning, and one is
/// that which was closed last, where live readers are.
const MOST_LOADED: usize = 2;

/// Reads of at most so many bytes cost no more than a row does, and are done in place.
const READ_IN_PLACE: usize = 16 * 1024;

/// A store in a data directory.
pub struct SledStore {
    // `None` once the store is being dropped. Unbounded, but each caller waits for its answer, so it holds at most one
    // request per caller.
    requests: Option<mpsc::Sender<Request>>,
    writer: Option<JoinHandle<()>>,
    compactor: Option<JoinHandle<()>>,
    waker: Waker,
    stop: Arc<AtomicBool>,
    shared: Arc<Shared>,
}

impl SledStore {
    /// Opens the store of a data directory, creating it if there is none.
    ///
    /// `on_fatal` is called once, by a thread of the store, when a write has failed. The store then accepts
    /// nothing more, and the process should end: what the disk holds is known only after opening it anew.
    pub fn open(data_dir: &Path, on_fatal: impl Fn(&Error) + Send + Sync + 'static) -> Result<SledStore, Error> {
        Self::open_with(data_dir, Space::default(), on_fatal)
    }

    /// The same, with other sizes.
    pub fn open_with(
        data_dir: &Path,
        space: Space,
        on_fatal: impl Fn(&Error) + Send + Sync + 'static,
    ) -> Result<SledStore, Error> {
        let claim = folder::claim(data_dir)?;
        let store_dir = folder::store_dir(data_dir);
        pool::can_start().map_err(Error::io("start threads for", &store_dir))?;
        let stored = open::open(&store_dir)?;
        let current = stored.levels.current.database.db()?;
        pool::start(&current, &store_dir)?;
        drop(current);
        let shared = Arc::new(Shared::new(stored, claim));
        let (requests, receiver) = mpsc::channel();
        let (waker, calls) = waker();
        let stop = Arc::new(AtomicBool::new(false));
        let writer = Writer {
            shared: shared.clone(),
            store_dir: store_dir.clone(),
            spare: Spare::new(&store_dir),
            requests: receiver,
            compactor: waker.clone(),
            generation_bytes: space.generation_bytes,
            stop: stop.clone(),
            on_fatal: Box::new(on_fatal),
        };
        let compactor = Compactor {
            shared: shared.clone(),
            store_dir: store_dir.clone(),
            requests: requests.clone(),
            calls,
            stop: stop.clone(),
            space,
            few: Arc::new(LoadedFew::new(MOST_LOADED)),
        };
        let start = |name: &str, work: Box<dyn FnOnce() + Send>| {
            let thread = std::thread::Builder::new().name(name.to_owned()).spawn(work);
            thread.map_err(files::not_started).map_err(Error::io("start a thread for", &store_dir))
        };
        let writer = start("store-writer", Box::new(move || writer.run()))?;
        let compactor =
            start("store-compactor", Box::new(move || compact::told(&compactor.shared.clone(), || compactor.run())))?;
        let (writer, compactor) = (Some(writer), Some(compactor));
        Ok(SledStore { requests: Some(requests), writer, compactor, waker, stop, shared })
    }

    /// Reads on a blocking thread: pages that left sled's cache come from the disk. Rows, heads and a few events
    /// are read in place.
    fn on_a_thread<T: Send + 'static>(
        &self,
        read: impl FnOnce(&Shared) -> Result<T, Error> + Send + 'static,
    ) -> BoxFuture<'static, Result<T, Error>> {
        let shared = self.shared.clone();
        let read = spawn_blocking(move || read(&shared));
        Box::pin(async {
            read.await.unwrap_or_else(|panic| Err(Error::Unavailable { source: Error::cause(panic.to_string()) }))
        })
    }

    /// Hands a request to the writer.
    fn ask<T: Send + 'static>(
        &self,
        request: impl FnOnce(oneshot::Sender<Result<T, Error>>) -> Request,
    ) -> BoxFuture<'static, Result<T, Error>> {
        let (answer, answered) = oneshot::channel();
        let sent = self.requests.as_ref().is_some_and(|requests| requests.send(request(answer)).is_ok());
        Box::pin(async move {
            if !sent {
                return Err(Error::Closed);
            }
            // The writer answers whatever it takes unless it panics in the middle of it.
            answered
                .await
                .unwrap_or_else(|_| Err(Error::Unavailable { source: Error::cause("the writer has stopped") }))
        })
    }
}

impl Drop for SledStore {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        self.waker.wake();
        // The compactor ends after its present step; the writer finishes what it was given, then finds the channel closed.
        for thread in [self.compactor.take(), self.writer.take()].into_iter().flatten() {
            if thread.join().is_err() {
                tracing::error!("a thread of the store panicked");
            }
            self.requests = None;
        }
    }
}

impl EventStore for SledStore {
    fn append(&self, append: Append) -> BoxFuture<'static, AppendResult> {
        match admission::check_shape(&append) {
            Ok(()) => self.ask(|answer| Request::Append(append, answer)),
            Err(refusal) => Box::pin(ready(Err(refusal))),
        }
    }

    fn head(&self, run: &RunId) -> BoxFuture<'_, Result<Seq, Error>> {
        Box::pin(ready(self.shared.head(run)))
    }

    fn read(&self, run: &RunId, after: Seq, max_bytes: usize) -> BoxFuture<'_, Result<Vec<EventBatch>, Error>> {
        // Loading a generation takes some milliseconds.
        if max_bytes <= READ_IN_PLACE && self.shared.levels().is_loaded(run, after.next()) {
            return Box::pin(ready(self.shared.read(run, after, max_bytes)));
        }
        let run = *run;
        self.on_a_thread(move |shared| shared.read(&run, after, max_bytes))
    }

    fn watch(&self, run: &RunId) -> watch::Receiver<Seq> {
        // A reader that cannot learn the head here gets the same error from its own read.
        self.shared.tails.subscribe(run, || self.shared.head(run).unwrap_or_default())
    }

    fn index(&self, key: &IndexKey) -> BoxFuture<'_, Result<Option<Bytes>, Error>> {
        Box::pin(ready(self.shared.index(key)))
    }

    fn runs(&self, before: Option<RunId>, limit: usize) -> BoxFuture<'_, Result<Vec<(RunId, Bytes)>, Error>> {
        self.on_a_thread(move |shared| shared.runs(before, limit))
    }

    fn runs_with(
        &self,
        filter: &RunFilter,
        before: Option<RunId>,
        limit: usize,
    ) -> BoxFuture<'_, Result<Vec<(RunId, Bytes)>, Error>> {
        if filter.is_empty() {
            return self.runs(before, limit);
        }
        let filter = filter.clone();
        self.on_a_thread(move |shared| shared.runs_with(&filter, before, limit))
    }

    fn counts(&self, filter: &RunFilter) -> BoxFuture<'_, Result<RunCounts, Error>> {
        let filter = filter.clone();
        self.on_a_thread(move |shared| shared.counts(&filter))
    }

    fn open_runs(&self) -> BoxFuture<'_, Result<Vec<RunId>, Error>> {
        Box::pin(ready(self.shared.open_runs()))
    }

    fn delete_events(&self, run: &RunId) -> BoxFuture<'static, Result<(), Error>> {
        self.ask(|answer| Request::Delete(*run, vec![IndexKey::Open(*run)], answer))
    }

    fn delete_run(&self, run: &RunId, mut index: Vec<IndexKey>) -> BoxFuture<'static, Result<(), Error>> {
        index.extend([IndexKey::Run(*run), IndexKey::Open(*run)]);
        self.ask(|answer| Request::Delete(*run, index, answer))
    }

    fn durability(&self) -> Durability {
        Durability::PowerLoss
    }

    fn disk_bytes(&self) -> Option<u64> {
        Some(self.shared.levels().disk_bytes())
    }

    fn trouble(&self) -> Option<String> {
        self.shared.trouble.get().cloned()
    }
}
