//! The event store: its trait, its back ends (sled, PostgreSQL, memory), sealed logs.
//!
//! The store deals in bytes. Whoever appends has encoded each event once, with its `seq` inside; the
//! store keeps those bytes, and readers get them back unchanged.

use std::future::Future;
use std::pin::Pin;

use bytes::Bytes;
use tokio::sync::watch;

use crate::domain::fact::Stream;
use crate::domain::ids::{RequestId, RunId, Seq};

mod admission;
mod batch;
mod claim;
mod cluster;
pub mod cluster_contract;
pub mod contract;
mod error;
mod held;
mod labels;
mod memory;
mod memory_cluster;
mod memory_node;
mod memory_records;
mod memory_removals;
mod memory_removed;
pub mod output_contract;
pub mod owner_contract;
mod patience;
mod pieces;
mod postgres;
pub mod record_contract;
mod records;
pub(crate) mod removals;
pub mod removals_contract;
pub mod sealed;
mod sled;
mod standing;
mod switch;
mod tails;

pub use self::batch::EventBatch;
pub(crate) use self::claim::is_taken;
pub use self::cluster::{Cluster, Control, LeaseId, Node, NodeId, NodeInfo, NodeLoad, OpenCounts, Renewed};
pub use self::error::Error;
pub(crate) use self::labels::Labels;
pub use self::labels::{RunCounts, RunFilter};
pub use self::memory::MemoryStore;
pub use self::memory_cluster::StoreClock;
pub use self::memory_node::MemoryNode;
#[cfg(any(test, fuzzing))]
pub(crate) use self::postgres::foreign_notification;
pub use self::postgres::{Postgres, PostgresStore};
pub use self::records::{Changed, Expected, MAX_RECORD_BYTES, Record, RecordChange, RecordList, Records};
pub use self::removals::{FileHash, Removals, Turn};
pub(crate) use self::sealed::{SealedLog, Sealing};
pub use self::sled::{SledStore, Space};
pub(crate) use self::switch::Switch;

/// The most bytes of events and rows one append may carry.
pub(crate) const MAX_APPEND_BYTES: usize = 1024 * 1024;

pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// Names a row of the run index.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum IndexKey {
    /// The state row of a run.
    Run(RunId),
    /// Which run serves a request.
    Request(RequestId),
    /// What a client's idempotency key led to, by the key's digest.
    Idempotency([u8; 32]),
    /// The run whose result may be reused, by cache key.
    Cache([u8; 32]),
    /// Marks a run with unfinished work: it is not final, or its events are still in the store.
    Open(RunId),
    /// Where other services find the files with which they go on with a run.
    Snapshot(RunId),
}

/// A change to the run index.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum IndexChange {
    /// Write the row, whether it was there or not.
    Put(IndexKey, Bytes),
    /// Remove the row, if it is there.
    Delete(IndexKey),
}

/// What one decision writes: events of one run and the index rows that follow from them.
#[derive(Debug, Clone)]
pub struct Append {
    /// The run whose log grows.
    pub run: RunId,
    /// The head on which the writer based its decision. If the log has another, nothing is written.
    pub expected_head: Seq,
    /// Consecutive batches that begin right after `expected_head`; may be empty, for rows alone.
    pub events: Vec<EventBatch>,
    /// Changes to the index that commit with the events.
    pub index: Vec<IndexChange>,
    /// A row that must not exist yet, e.g. an idempotency key. If it does, nothing is written.
    pub require_absent: Option<IndexKey>,
    /// What other services need to go on with the run; a store for one service keeps none of it.
    pub for_others: ForOthers,
}

/// What commits with events so that other services can read the run's output and go on with it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ForOthers {
    /// The raw output that the events cite. It goes with the events.
    pub raw: Vec<RawPiece>,
    /// Shared files that the run needs from now on. They go with the run.
    pub files: Vec<FileHash>,
    /// How many removals of shared files were over before these were put ([`EventStore::removals`]).
    pub put_after: u64,
    /// Whether the run needs no others any more.
    pub only_these: bool,
}

/// Consecutive bytes of a raw stream of a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RawPiece {
    pub stream: Stream,
    /// Where in the stream it begins.
    pub from: u64,
    pub bytes: Bytes,
}

/// The durable head after an append, or why there was none.
pub type AppendResult = Result<Seq, Error>;

/// What an acknowledged append survives.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Durability {
    /// Nothing: it lives as long as the process.
    Memory,
    /// The death of the process.
    Process,
    /// Loss of power, on drives that honour flushes.
    PowerLoss,
}

/// Where runs keep their events and their index rows.
///
/// Every append states the head it expects. There is no "append whatever the head is": encoded
/// events carry their `seq`, so a writer always knows where its events belong.
///
/// Readers see durable events and rows only, never those of an append still on its way to the disk.
pub trait EventStore: Send + Sync {
    /// Writes events and rows, all or nothing; durable when `Ok`. The append is under way once this
    /// returns, in the order of the calls; dropping the future does not withdraw it.
    fn append(&self, append: Append) -> BoxFuture<'static, AppendResult>;

    /// The last durable event of the run; [`Seq::START`] when it has none.
    fn head(&self, run: &RunId) -> BoxFuture<'_, Result<Seq, Error>>;

    /// Events from exactly `after + 1` on: as many as fit `max_bytes`, but at least one if there is any.
    fn read(&self, run: &RunId, after: Seq, max_bytes: usize) -> BoxFuture<'_, Result<Vec<EventBatch>, Error>>;

    /// The durable head, to wait on; it carries no payload. It begins at the present head, so: watch,
    /// then read, then wait. The channel closes when the run's events are deleted.
    fn watch(&self, run: &RunId) -> watch::Receiver<Seq>;

    /// The row as last made durable.
    fn index(&self, key: &IndexKey) -> BoxFuture<'_, Result<Option<Bytes>, Error>>;

    /// Rows of runs with ids below `before`, newest id first.
    fn runs(&self, before: Option<RunId>, limit: usize) -> BoxFuture<'_, Result<Vec<(RunId, Bytes)>, Error>>;

    /// The same, of those that the filter finds. Takes little more time than the rows that it gives, however many there are.
    fn runs_with(
        &self,
        filter: &RunFilter,
        before: Option<RunId>,
        limit: usize,
    ) -> BoxFuture<'_, Result<Vec<(RunId, Bytes)>, Error>>;

    /// How many runs of each status the filter finds, whatever status it asks for.
    fn counts(&self, filter: &RunFilter) -> BoxFuture<'_, Result<RunCounts, Error>> {
        let filter = RunFilter { status: None, ..filter.clone() };
        Box::pin(async move {
            let mut counts = RunCounts::new();
            for (_, row) in self.runs_with(&filter, None, usize::MAX).await? {
                if let Some(labels) = Labels::of_row(&row) {
                    *counts.entry(labels.status).or_default() += 1;
                }
            }
            Ok(counts)
        })
    }

    /// The runs marked [`IndexKey::Open`], oldest first; meant for start-up, before anything is appended.
    fn open_runs(&self) -> BoxFuture<'_, Result<Vec<RunId>, Error>>;

    /// Removes the run's events and its open mark, and keeps all other rows: for a run whose log is sealed. Readers see an
    /// empty log when this is done; their room on the disk comes back later. The run's id is not used again.
    fn delete_events(&self, run: &RunId) -> BoxFuture<'static, Result<(), Error>>;

    /// Removes the run's events, its own row and the rows named.
    fn delete_run(&self, run: &RunId, index: Vec<IndexKey>) -> BoxFuture<'static, Result<(), Error>>;

    /// Raw output of a run from exactly `from` on, as long as its events are in the store: as much as fits `max_bytes`, but at
    /// least a byte if there is any. Nothing in a store for one service.
    fn raw(
        &self,
        _run: &RunId,
        _stream: Stream,
        _from: u64,
        _max_bytes: usize,
    ) -> BoxFuture<'_, Result<Vec<RawPiece>, Error>> {
        Box::pin(std::future::ready(Ok(Vec::new())))
    }

    /// How many removals of shared files are over. Asked before files are put that an append is to name.
    fn removals(&self) -> BoxFuture<'_, Result<u64, Error>> {
        Box::pin(std::future::ready(Ok(0)))
    }

    /// What `Ok` from this store survives.
    fn durability(&self) -> Durability;

    /// How much room it takes on the disk; `None` if it takes none. Cheap.
    fn disk_bytes(&self) -> Option<u64> {
        None
    }

    /// What the store can no longer do until it is opened again, though it goes on; for operators.
    fn trouble(&self) -> Option<String> {
        None
    }
}
