//! The one writer: takes what has queued up, writes it as one batch, syncs once, answers all.
//!
//! There is no timer. While one group is on its way to the disk the next one queues up, so groups are as
//! large as the load asks for and a lone append waits for nothing.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::Receiver;

use sled::IVec;
use tokio::sync::oneshot;

use super::database::SET_ASIDE_BELOW;
use super::generation::Generation;
use super::group::{Group, Outcome};
use super::levels::Closed;
use super::panics::panic_text;
use super::read::{Inflight, Shared};
use super::spare::{SPARE_BYTES, Spare};
use super::wake::Waker;
use crate::domain::ids::RunId;
use crate::store::{Append, AppendResult, Error, IndexKey};

const MAX_GROUP_REQUESTS: usize = 1024;
const MAX_GROUP_BYTES: usize = 4 * 1024 * 1024;

/// Below this much free space nothing is appended. A write that fails half-way would stop the service;
/// a refusal is an answer. Twice the largest group with sled's own copies of pages, and a reserve.
const MIN_FREE_BYTES: u64 = 32 * 1024 * 1024;

/// How much is set aside: twice the largest group.
const SET_ASIDE_BYTES: u64 = 2 * MAX_GROUP_BYTES as u64;

/// With less room than this not even deletions are written.
const LAST_BYTES: u64 = 1024 * 1024;

/// What the disk has room for.
enum Room {
    All,
    /// Deletions alone, which bring room back.
    Deletions(Error),
    Nothing(Error),
}

/// What the writer is asked to do, and where the answer goes.
pub(super) enum Request {
    /// Write events and rows.
    Append(Append, oneshot::Sender<AppendResult>),
    /// Remove a run's events, and rows.
    Delete(RunId, Vec<IndexKey>, oneshot::Sender<Result<(), Error>>),
    /// Take stored events of a run over into the current generation.
    Carry(RunId, Vec<(IVec, IVec)>, oneshot::Sender<Result<(), Error>>),
    /// Answer when everything before it is durable.
    Wait(oneshot::Sender<Result<(), Error>>),
    /// Write to this new generation from now on.
    Roll(Generation, oneshot::Sender<Result<(), Error>>),
    /// Stop: a write to the index has failed.
    Fail(Error),
}

impl Request {
    fn bytes(&self) -> usize {
        match self {
            Request::Append(append, _) => append.events.iter().map(|batch| batch.ndjson.len()).sum(),
            Request::Carry(_, entries, _) => entries.iter().map(|(_, value)| value.len()).sum(),
            Request::Delete(..) | Request::Wait(_) | Request::Roll(..) | Request::Fail(_) => 0,
        }
    }
}

/// An answer that waits for the group to become durable.
enum Answer {
    Append(oneshot::Sender<AppendResult>, AppendResult),
    Other(oneshot::Sender<Result<(), Error>>, Result<(), Error>),
}

impl Answer {
    fn send(self, failure: Option<&Error>) {
        // A caller that has gone away wants no answer.
        match self {
            Answer::Append(caller, result) => drop(caller.send(failure.cloned().map_or(result, Err))),
            Answer::Other(caller, result) => drop(caller.send(failure.cloned().map_or(result, Err))),
        }
    }
}

/// The state of the writer thread.
pub(super) struct Writer {
    pub(super) shared: Arc<Shared>,
    pub(super) store_dir: PathBuf,
    pub(super) spare: Spare,
    pub(super) requests: Receiver<Request>,
    pub(super) compactor: Waker,
    /// From this size of the current generation on, the compactor prepares the next.
    pub(super) generation_bytes: u64,
    pub(super) stop: Arc<AtomicBool>,
    pub(super) on_fatal: Box<dyn Fn(&Error) + Send + Sync>,
}

impl Writer {
    /// Works until the store is dropped or the disk fails.
    pub(super) fn run(self) {
        // Also a store that is never written to may one day have to be cleaned up.
        self.spare.keep();
        while let Ok(first) = self.requests.recv() {
            let group = self.drain(first);
            // sled panics where it finds itself inconsistent. That is a failed write, too.
            let result = catch_unwind(AssertUnwindSafe(|| self.commit(group)));
            let failure = match result {
                Ok(Ok(())) => continue,
                Ok(Err(error)) => error,
                Err(panic) => {
                    let text = format!("the writer panicked: {}", panic_text(panic.as_ref()));
                    Error::Unavailable { source: Error::cause(text) }
                }
            };
            // The rows in flight stay hidden from readers, and later requests get `Closed`.
            (self.on_fatal)(&failure);
            break;
        }
        // Nothing more is compacted either.
        self.stop.store(true, Ordering::Relaxed);
        self.compactor.wake();
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
    fn commit(&self, requests: Vec<Request>) -> Result<(), Error> {
        let room = self.room();
        let mut group = Group::new(&self.shared);
        let mut answers = Vec::with_capacity(requests.len());
        let mut next = None;
        for request in requests {
            answers.push(match (request, &room) {
                (Request::Append(append, caller), Room::All) => Answer::Append(caller, group.append(append)),
                (Request::Append(_, caller), Room::Deletions(full) | Room::Nothing(full)) => {
                    Answer::Append(caller, Err(full.clone()))
                }
                (Request::Delete(_, _, caller) | Request::Carry(_, _, caller), Room::Nothing(full)) => {
                    Answer::Other(caller, Err(full.clone()))
                }
                (Request::Delete(run, rows, caller), _) => Answer::Other(caller, group.delete(run, rows)),
                (Request::Carry(run, entries, caller), _) => {
                    group.carry(run, entries);
                    Answer::Other(caller, Ok(()))
                }
                (Request::Wait(caller), _) => Answer::Other(caller, Ok(())),
                (Request::Roll(generation, caller), _) => {
                    next = Some(generation);
                    Answer::Other(caller, Ok(()))
                }
                (Request::Fail(error), _) => return Err(error),
            });
        }
        let written = match group.finish() {
            Ok(Some(outcome)) => self.write(outcome),
            Ok(None) => Ok(()),
            Err(error) => Err(error),
        };
        if let (Some(next), Ok(())) = (next, &written) {
            self.roll(next);
        }
        // Refusals wait with the others: they may tell of a head that is only now becoming durable.
        answers.into_iter().for_each(|answer| answer.send(written.as_ref().err()));
        written
    }

    fn roll(&self, next: Generation) {
        self.shared.change(|stored| {
            let mut levels = (*stored.levels).clone();
            let generation = std::mem::replace(&mut levels.current, Arc::new(next));
            levels.closed.insert(0, Closed { generation, settled: false });
            stored.levels = Arc::new(levels);
        });
    }

    fn write(&self, outcome: Outcome) -> Result<(), Error> {
        let Outcome { batch, hidden, heads, deleted, bytes, rows } = outcome;
        let levels = self.shared.levels();
        self.shared.show(hidden);
        levels.current.database.apply(batch)?;
        if !deleted.is_empty() {
            let marks = deleted.iter().map(|run| (*run, levels.current.number));
            self.shared.change(|stored| stored.deleted.extend(marks));
        }
        // Before readers may look.
        rows.iter().for_each(|(key, row)| self.shared.remember_row(*key, row.clone()));
        self.shared.show(Inflight::default());
        for (key, row) in &rows {
            if let IndexKey::Run(run) = key {
                self.shared.table.put(*run, row.as_ref());
            }
        }
        self.shared.count_group();
        for (run, head) in heads {
            self.shared.tails.publish(&run, head);
        }
        for (run, bytes) in bytes {
            levels.current.add(run, bytes);
        }
        for run in &deleted {
            self.shared.tails.close(run);
            levels.generations().for_each(|generation| generation.forget(run));
        }
        if !deleted.is_empty() || levels.current.database.size() >= self.generation_bytes {
            self.compactor.wake();
        }
        Ok(())
    }

    fn room(&self) -> Room {
        let Ok(disk) = rustix::fs::statvfs(&self.store_dir) else { return Room::All };
        let available = disk.f_bavail.saturating_mul(disk.f_frsize);
        if available >= MIN_FREE_BYTES {
            self.spare.keep();
        }
        if available >= SET_ASIDE_BELOW {
            return Room::All;
        }
        let full = Error::Full { path: self.store_dir.clone(), available };
        let levels = self.shared.levels();
        // What cannot be looked at fails when it is written to.
        let set_aside = |bytes| levels.current.database.set_room_aside(bytes).unwrap_or(u64::MAX);
        let mut room = set_aside(SET_ASIDE_BYTES);
        if room < LAST_BYTES && self.spare.give_up() {
            room = set_aside(SPARE_BYTES / 2);
        }
        match room {
            SET_ASIDE_BYTES.. if available >= MIN_FREE_BYTES => Room::All,
            LAST_BYTES.. => Room::Deletions(full),
            _ => Room::Nothing(full),
        }
    }
}
