//! The PostgreSQL back end: one pipelined transaction per group of appends, a few connections for readers.
//!
//! A thread of its own runs all connections, so that the store can be opened and used from anywhere.

use std::future::ready;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;

use bytes::Bytes;
use tokio::sync::{mpsc, oneshot, watch};
use uuid::Uuid;

use self::folder::Folder;
use self::group::Request;
use self::heads::Heads;
#[cfg(any(test, fuzzing))]
pub(crate) use self::listen::foreign as foreign_notification;
use self::member::Member;
pub use self::options::Postgres;
use self::place::Place;
use self::read::Questions;
use super::held::Held;
use super::{
    Append, AppendResult, BoxFuture, Cluster, Durability, Error, EventBatch, EventStore, IndexKey, NodeId, RawPiece,
    RunCounts, RunFilter, admission,
};
use crate::domain::fact::Stream;
use crate::domain::ids::{RunId, Seq};

mod bounds;
mod cell;
mod failure;
mod filter;
mod folder;
mod group;
mod guarded;
mod heads;
mod link;
mod listen;
mod member;
mod options;
mod place;
mod raw;
mod reach;
mod read;
mod record_reads;
mod records;
mod removals;
mod row_key;
mod schema;
mod session;
mod thread;
mod tls;
mod together;
mod writer;

/// A store in a PostgreSQL database.
pub struct PostgresStore {
    // `None` once the store is being dropped. Unbounded, but each caller waits for its answer.
    requests: Option<mpsc::UnboundedSender<Request>>,
    thread: Option<JoinHandle<()>>,
    stop: Arc<AtomicBool>,
    heads: Arc<Heads>,
    questions: Questions,
    /// What the tables take on the server's disk; 0 until it was measured.
    disk_bytes: Arc<AtomicU64>,
    node: NodeId,
    held: Arc<Held>,
    member: Option<Arc<Member>>,
    _folder: Option<Folder>,
}

impl PostgresStore {
    /// Opens the store, making its tables if there are none. With a data folder, the folder is taken as well, and for one service
    /// alone it and the database must belong together.
    ///
    /// `on_fatal` is called once, by a thread of the store, when nothing can be written any more: the server stays away, has lost
    /// what it had acknowledged, or another process took over. The process should end then.
    pub fn open(
        options: &Postgres,
        data_dir: Option<&Path>,
        on_fatal: impl Fn(&Error) + Send + Sync + 'static,
    ) -> Result<PostgresStore, Error> {
        let place = read_url(&options.url)?;
        let folder = data_dir.map(|data_dir| Folder::take(data_dir, &place.to_string())).transpose()?;
        let stop = Arc::new(AtomicBool::new(false));
        let node = NodeId(folder.as_ref().map_or_else(Uuid::now_v7, |folder| folder.id));
        let held = Arc::new(Held::default());
        let identity = thread::Identity {
            node,
            folder: folder.as_ref().map(|folder| (folder.id, folder.path.display().to_string())),
            held: held.clone(),
        };
        let thread::Running { requests, heads, questions, disk_bytes, member, thread } =
            thread::start(options.clone(), Arc::new(place), identity, stop.clone(), Box::new(on_fatal))?;
        Ok(PostgresStore {
            requests: Some(requests),
            thread: Some(thread),
            stop,
            heads,
            questions,
            disk_bytes,
            node,
            held,
            member,
            _folder: folder,
        })
    }

    /// The services on this store, as this one sees them; `None` if it was opened for one alone.
    pub fn cluster(&self) -> Option<Arc<dyn Cluster>> {
        self.member.clone().map(|member| member as Arc<dyn Cluster>)
    }

    /// By what others know this service: its data folder's id, or a new one if it has none.
    pub fn node(&self) -> NodeId {
        self.node
    }

    /// Looks whether the store could be opened, and changes nothing; says what it found.
    pub fn look(options: &Postgres) -> Result<String, Error> {
        thread::look(Arc::new(read_url(&options.url)?))
    }

    /// Hands a request to the writer.
    fn send<T: Send + 'static>(
        &self,
        request: impl FnOnce(oneshot::Sender<Result<T, Error>>) -> Request,
    ) -> BoxFuture<'static, Result<T, Error>> {
        let (answer, answered) = oneshot::channel();
        let sent = self.requests.as_ref().is_some_and(|requests| requests.send(request(answer)).is_ok());
        Box::pin(async move {
            if !sent {
                return Err(Error::Closed);
            }
            answered
                .await
                .unwrap_or_else(|_| Err(Error::Unavailable { source: Error::cause("the writer has stopped") }))
        })
    }
}

fn read_url(url: &str) -> Result<Place, Error> {
    Place::parse(url).map_err(|reason| Error::Unusable { store: "its URL".to_owned(), reason })
}

impl Drop for PostgresStore {
    fn drop(&mut self) {
        // The writer finishes what it was given, then finds the channel closed; it waits for no lost server any more.
        self.stop.store(true, Ordering::Relaxed);
        self.requests = None;
        if self.thread.take().is_some_and(|thread| thread.join().is_err()) {
            tracing::error!("the thread of the store panicked");
        }
    }
}

impl EventStore for PostgresStore {
    fn append(&self, append: Append) -> BoxFuture<'static, AppendResult> {
        match admission::check_shape(&append).and_then(|()| group::check(&append)) {
            Ok(()) => {
                let author = self.held.author(append.run);
                self.send(|answer| Request::Append(append, author, answer))
            }
            Err(refusal) => Box::pin(ready(Err(refusal))),
        }
    }

    fn head(&self, run: &RunId) -> BoxFuture<'_, Result<Seq, Error>> {
        Box::pin(self.questions.head(*run))
    }

    fn read(&self, run: &RunId, after: Seq, max_bytes: usize) -> BoxFuture<'_, Result<Vec<EventBatch>, Error>> {
        Box::pin(self.questions.read(*run, after, max_bytes))
    }

    fn watch(&self, run: &RunId) -> watch::Receiver<Seq> {
        self.heads.watch(run)
    }

    fn index(&self, key: &IndexKey) -> BoxFuture<'_, Result<Option<Bytes>, Error>> {
        Box::pin(self.questions.index(*key))
    }

    fn runs(&self, before: Option<RunId>, limit: usize) -> BoxFuture<'_, Result<Vec<(RunId, Bytes)>, Error>> {
        Box::pin(async move { self.questions.runs_with(&RunFilter::default(), before, limit).await })
    }

    fn runs_with(
        &self,
        filter: &RunFilter,
        before: Option<RunId>,
        limit: usize,
    ) -> BoxFuture<'_, Result<Vec<(RunId, Bytes)>, Error>> {
        let filter = filter.clone();
        Box::pin(async move { self.questions.runs_with(&filter, before, limit).await })
    }

    fn counts(&self, filter: &RunFilter) -> BoxFuture<'_, Result<RunCounts, Error>> {
        let filter = filter.clone();
        Box::pin(async move { self.questions.counts(&filter).await })
    }

    fn open_runs(&self) -> BoxFuture<'_, Result<Vec<RunId>, Error>> {
        Box::pin(self.questions.open_runs())
    }

    fn delete_events(&self, run: &RunId) -> BoxFuture<'static, Result<(), Error>> {
        self.send(|caller| Request::Delete { run: *run, whole: false, rows: Vec::new(), caller })
    }

    fn delete_run(&self, run: &RunId, rows: Vec<IndexKey>) -> BoxFuture<'static, Result<(), Error>> {
        self.send(|caller| Request::Delete { run: *run, whole: true, rows, caller })
    }

    fn raw(
        &self,
        run: &RunId,
        stream: Stream,
        from: u64,
        max_bytes: usize,
    ) -> BoxFuture<'_, Result<Vec<RawPiece>, Error>> {
        Box::pin(self.questions.raw(*run, stream, from, max_bytes))
    }

    fn removals(&self) -> BoxFuture<'_, Result<u64, Error>> {
        Box::pin(self.questions.removals())
    }

    fn durability(&self) -> Durability {
        // A server without fsync is refused.
        Durability::PowerLoss
    }

    fn disk_bytes(&self) -> Option<u64> {
        Some(self.disk_bytes.load(Ordering::Relaxed))
    }

    fn trouble(&self) -> Option<String> {
        self.questions.trouble()
    }
}
