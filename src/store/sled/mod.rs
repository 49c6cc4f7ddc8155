//! The sled back end: one tree, one writer thread, durable against loss of power.

use std::future::ready;
use std::path::Path;
use std::sync::{Arc, RwLock, mpsc};
use std::thread::JoinHandle;

use bytes::Bytes;
use tokio::sync::{oneshot, watch};
use tokio::task::spawn_blocking;

use self::read::{Inflight, Shared};
use self::writer::{Request, Writer};
use super::tails::Tails;
use super::{Append, AppendResult, BoxFuture, Durability, Error, EventBatch, EventStore, IndexKey, admission};
use crate::domain::ids::{RunId, Seq};

mod folder;
mod group;
mod keys;
mod read;
mod writer;

/// sled's page cache. It is divided into 256 parts, each of which should hold the longest page, 128 KiB.
/// More gains no speed: live runs are small, and finished ones are read from sealed logs.
const CACHE_BYTES: u64 = 32 * 1024 * 1024;

/// Reads of at most so many bytes cost no more than a row does, and are done in place.
const READ_IN_PLACE: usize = 16 * 1024;

/// A store in a data directory.
pub struct SledStore {
    // `None` once the store is being dropped. Unbounded, but each caller waits for its answer, so it holds at most one
    // request per caller.
    requests: Option<mpsc::Sender<Request>>,
    writer: Option<JoinHandle<()>>,
    shared: Arc<Shared>,
}

impl SledStore {
    /// Opens the store of a data directory, creating it if there is none.
    ///
    /// `on_fatal` is called once, by the writer thread, when a write has failed. The store then accepts
    /// nothing more, and the process should end: what the disk holds is known only after opening it anew.
    pub fn open(data_dir: &Path, on_fatal: impl Fn(&Error) + Send + Sync + 'static) -> Result<SledStore, Error> {
        let claim = folder::claim(data_dir)?;
        let store_dir = folder::store_dir(data_dir);
        // No periodic flush: the writer flushes each group.
        let config = sled::Config::new().path(&store_dir).cache_capacity(CACHE_BYTES).flush_every_ms(None);
        let db = folder::open_db(&store_dir, &config)?;
        let files = folder::Files::open(&store_dir).map_err(Error::io("sync", &store_dir))?;
        let shared =
            Arc::new(Shared { db, inflight: RwLock::new(Inflight::default()), tails: Tails::default(), _claim: claim });

        let (requests, receiver) = mpsc::channel();
        let writer = Writer {
            shared: shared.clone(),
            files,
            store_dir: store_dir.clone(),
            requests: receiver,
            on_fatal: Box::new(on_fatal),
        };
        let writer = std::thread::Builder::new()
            .name("store-writer".to_owned())
            .spawn(move || writer.run())
            .map_err(Error::io("start the writer of", &store_dir))?;
        Ok(SledStore { requests: Some(requests), writer: Some(writer), shared })
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
        // The writer finishes what it was given, then finds the channel closed.
        self.requests = None;
        if let Some(writer) = self.writer.take()
            && writer.join().is_err()
        {
            tracing::error!("the store's writer panicked");
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
        if max_bytes <= READ_IN_PLACE {
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
}
