//! The one writer: takes what has queued up, writes it as one batch, syncs once, answers all.
//!
//! There is no timer. While one group is on its way to the disk the next one queues up, so groups are as
//! large as the load asks for and a lone append waits for nothing.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::Receiver;

use tokio::sync::oneshot;

use super::folder::Files;
use super::group::{Group, Outcome};
use super::read::{Inflight, Shared};
use crate::domain::ids::RunId;
use crate::store::{Append, AppendResult, Error, IndexKey};

const MAX_GROUP_REQUESTS: usize = 1024;
const MAX_GROUP_BYTES: usize = 4 * 1024 * 1024;

/// Below this much free space nothing is appended. A write that fails half-way would stop the service;
/// a refusal is an answer. Twice the largest group with sled's own copies of pages, and a reserve.
const MIN_FREE_BYTES: u64 = 32 * 1024 * 1024;

/// What the writer is asked to do, and where the answer goes.
pub(super) enum Request {
    /// Write events and rows.
    Append(Append, oneshot::Sender<AppendResult>),
    /// Remove a run's events, and rows.
    Delete(RunId, Vec<IndexKey>, oneshot::Sender<Result<(), Error>>),
}

impl Request {
    fn bytes(&self) -> usize {
        match self {
            Request::Append(append, _) => append.events.iter().map(|batch| batch.ndjson.len()).sum(),
            Request::Delete(..) => 0,
        }
    }
}

/// An answer that waits for the group to become durable.
enum Answer {
    Append(oneshot::Sender<AppendResult>, AppendResult),
    Delete(oneshot::Sender<Result<(), Error>>, Result<(), Error>),
}

impl Answer {
    fn send(self, failure: Option<&Error>) {
        // A caller that has gone away wants no answer.
        match self {
            Answer::Append(caller, result) => drop(caller.send(failure.cloned().map_or(result, Err))),
            Answer::Delete(caller, result) => drop(caller.send(failure.cloned().map_or(result, Err))),
        }
    }
}

/// The state of the writer thread.
pub(super) struct Writer {
    pub(super) shared: Arc<Shared>,
    pub(super) files: Files,
    pub(super) store_dir: PathBuf,
    pub(super) requests: Receiver<Request>,
    pub(super) on_fatal: Box<dyn Fn(&Error) + Send + Sync>,
}

impl Writer {
    /// Works until the store is dropped or the disk fails.
    pub(super) fn run(mut self) {
        while let Ok(first) = self.requests.recv() {
            let group = self.drain(first);
            // sled panics where it finds itself inconsistent. That is a failed write, too.
            let result = catch_unwind(AssertUnwindSafe(|| self.commit(group)));
            let failure = match result {
                Ok(Ok(())) => continue,
                Ok(Err(error)) => error,
                Err(panic) => Error::Unavailable { source: Error::cause(panic_text(panic.as_ref())) },
            };
            // The rows in flight stay hidden from readers, and later requests get `Closed`.
            (self.on_fatal)(&failure);
            break;
        }
        self.shared.tails.close_all();
    }

    fn drain(&self, first: Request) -> Vec<Request> {
        let mut bytes = first.bytes();
        let mut group = vec![first];
        while group.len() < MAX_GROUP_REQUESTS && bytes < MAX_GROUP_BYTES {
            let Ok(next) = self.requests.try_recv() else { break };
            bytes += next.bytes();
            group.push(next);
        }
        group
    }

    /// Writes a group and answers each of its requests. An error is fatal.
    fn commit(&mut self, requests: Vec<Request>) -> Result<(), Error> {
        let full = self.disk_full();
        let mut group = Group::new(&self.shared);
        let mut answers = Vec::with_capacity(requests.len());
        for request in requests {
            answers.push(match (request, &full) {
                (Request::Append(_, caller), Some(full)) => Answer::Append(caller, Err(full.clone())),
                (Request::Append(append, caller), None) => Answer::Append(caller, group.append(append)),
                (Request::Delete(run, rows, caller), _) => Answer::Delete(caller, group.delete(run, rows)),
            });
        }
        // Refusals wait with the others: they may tell of a head that is only now becoming durable.
        let written = group.finish().map_or(Ok(()), |outcome| self.write(outcome));
        answers.into_iter().for_each(|answer| answer.send(written.as_ref().err()));
        written
    }

    fn write(&mut self, outcome: Outcome) -> Result<(), Error> {
        let Outcome { batch, hidden, heads, deleted } = outcome;
        self.shared.show(hidden);
        let unavailable = |error: sled::Error| Error::Unavailable { source: Arc::new(error) };
        self.shared.db.apply_batch(batch).map_err(unavailable)?;
        self.shared.db.flush().map_err(unavailable)?;
        // sled's flush asks the kernel to write, not the drive to keep. Never retried: after a failed
        // fsync the kernel may count lost pages as written.
        self.files.sync().map_err(|error| Error::Unavailable { source: Arc::new(error) })?;
        self.shared.show(Inflight::default());
        for (run, head) in heads {
            self.shared.tails.publish(&run, head);
        }
        deleted.iter().for_each(|run| self.shared.tails.close(run));
        Ok(())
    }

    fn disk_full(&self) -> Option<Error> {
        let disk = rustix::fs::statvfs(&self.store_dir).ok()?;
        let available = disk.f_bavail.saturating_mul(disk.f_frsize);
        (available < MIN_FREE_BYTES).then(|| Error::Full { path: self.store_dir.clone(), available })
    }
}

fn panic_text(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().map(String::as_str).or_else(|| panic.downcast_ref::<&str>().copied());
    format!("the writer panicked: {}", text.unwrap_or("no message"))
}
