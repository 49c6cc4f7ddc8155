//! Keeps the store as small as what it holds, on a thread of its own: prepares generations, takes over what is still
//! needed of the oldest, removes it whole, and writes the index anew when most of it is worn.
//!
//! Generations go in the order in which they came, and each goes for good before the next: what a row or a deletion in a
//! newer one stands for can then never be shown again by an older one. Nothing is removed before what takes its place is
//! durable, so a crash at any point leaves at worst the same rows and events twice.

use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender};

use sled::IVec;
use tokio::sync::oneshot;
use tracing::{debug, error, warn};

use super::damage::engine_failed;
use super::database::is_left_over;
use super::folder;
use super::generation::Generation;
use super::heap;
use super::keys;
use super::levels::Levels;
use super::loading::LoadedFew;
use super::panics::panic_text;
use super::plan::{Space, Step, Usage, index_is_worn, next_step};
use super::read::Shared;
use super::rows::row_in;
use super::writer::Request;
use crate::domain::causes::chain;
use crate::domain::ids::{RunId, Seq};
use crate::store::Error;

/// Bytes of events that are taken over at once: other requests wait for no more than that.
const CARRY_BYTES: usize = 128 * 1024;
/// Rows that are moved to the index at once. sled lets nobody read while it applies a batch.
const MOVE_ROWS: usize = 32;
/// Below this much free space nothing is taken over. Less than what appends leave free, so that it is there to be used.
const MIN_FREE_BYTES: u64 = 8 * 1024 * 1024;

/// Does the compactor's work and tells if it panics. Nothing that was acknowledged depends on it, so the service goes on: the store
/// takes and gives as before, and only grows.
pub(super) fn told(shared: &Shared, work: impl FnOnce()) {
    if let Err(panic) = catch_unwind(AssertUnwindSafe(work)) {
        let reason = panic_text(panic.as_ref());
        error!(reason, "the event store no longer gets smaller: its compactor panicked; restart the service");
        let trouble = format!("the store no longer gets smaller until the service is restarted: {reason}");
        shared.trouble.get_or_init(|| trouble);
    }
}

/// The state of the compactor thread.
pub(super) struct Compactor {
    pub(super) shared: Arc<Shared>,
    pub(super) store_dir: PathBuf,
    pub(super) requests: Sender<Request>,
    pub(super) calls: Receiver<()>,
    pub(super) stop: Arc<AtomicBool>,
    pub(super) space: Space,
    /// Of the settled generations, those that are in memory.
    pub(super) few: Arc<LoadedFew>,
}

impl Compactor {
    /// Works until the store is dropped or the disk fails. What an earlier process closed waits until the store was quiet for a
    /// moment or somebody calls: whoever opens it has more urgent things to read.
    pub(super) fn run(self) {
        remove_left_over(&self.store_dir);
        let mut looked_while_quiet = false;
        let mut groups = self.shared.groups();
        loop {
            let called = match looked_while_quiet {
                true => self.calls.recv().map_err(|_| RecvTimeoutError::Disconnected),
                false => self.calls.recv_timeout(self.space.quiet),
            };
            let quiet = groups == self.shared.groups();
            groups = self.shared.groups();
            looked_while_quiet = match called {
                Ok(()) => false,
                Err(RecvTimeoutError::Timeout) => quiet,
                Err(RecvTimeoutError::Disconnected) => return,
            };
            if self.go_on().is_err() {
                return;
            }
            match self.tidy(looked_while_quiet) {
                Ok(()) => {}
                Err(Error::Closed) => return,
                Err(failure @ Error::Unavailable { .. }) => {
                    let _ = self.requests.send(Request::Fail(failure));
                    return;
                }
                Err(error) => warn!(error = %chain(&error), "the event store was not made smaller; it stays as it is"),
            }
        }
    }

    fn go_on(&self) -> Result<(), Error> {
        if self.stop.load(Ordering::Relaxed) { Err(Error::Closed) } else { Ok(()) }
    }

    /// Does all that is worth while now.
    fn tidy(&self, quiet: bool) -> Result<(), Error> {
        self.settle()?;
        if quiet {
            // So that the first who asks need not wait for it.
            self.shared.fill_table()?;
        }
        // Each generation at most once, however much its successors turn out to take.
        let most = self.shared.levels().closed.len() + 2;
        for _ in 0..most {
            self.go_on()?;
            let levels = self.shared.levels();
            let (closed, current) = self.usage(&levels)?;
            match next_step(&closed, current, &self.space, quiet) {
                None => break,
                Some(Step::Roll) => {
                    self.roll(&levels)?;
                    self.settle()?;
                }
                Some(Step::RetireOldest) => self.retire_oldest(&levels)?,
            }
        }
        let index = &self.shared.levels().index;
        if index_is_worn(index.database.size(), index.row_bytes(), &self.space) {
            self.write_index_anew()?;
        }
        if quiet {
            // Whatever was at work has left more in memory than will be needed soon.
            self.few.unload_all();
            heap::give_back_free_memory();
        }
        Ok(())
    }

    /// The closed generations, oldest first, and the current one.
    fn usage(&self, levels: &Levels) -> Result<(Vec<Usage>, Usage), Error> {
        let usage = |generation: &Generation| {
            if generation.live_bytes().is_none() {
                generation.survey(|run| self.shared.is_deleted(run))?;
            }
            Ok(Usage { bytes: generation.database.size(), live: generation.live_bytes().unwrap_or(u64::MAX) })
        };
        let closed =
            levels.closed.iter().rev().map(|closed| usage(&closed.generation)).collect::<Result<_, Error>>()?;
        Ok((closed, usage(&levels.current)?))
    }

    /// The next generation is made here, so that the writer never waits for it.
    fn roll(&self, levels: &Levels) -> Result<(), Error> {
        let number = levels.current.number + 1;
        let next = Generation::create(&self.store_dir, number).inspect_err(|_| {
            // What is half made could not be opened the next time. Nobody has used it.
            remove(&folder::generation_dir(&self.store_dir, number));
        })?;
        debug!(generation = next.number, "a new generation of the event store begins");
        self.ask(|answer| Request::Roll(next, answer))
    }

    /// Settles what was closed, oldest first: the rows that no newer generation replaces are moved to the index, and the
    /// database need not stay in memory.
    fn settle(&self) -> Result<(), Error> {
        let levels = self.shared.levels();
        for (at, closed) in levels.closed.iter().enumerate().rev().filter(|(_, closed)| !closed.settled) {
            let generation = &closed.generation;
            if levels.index.settled.is_none_or(|settled| settled < generation.number) {
                self.check_free_space()?;
                let newer = levels.closed[..at].iter().map(|closed| &*closed.generation);
                let newer: Vec<&Generation> = newer.chain([&*levels.current]).collect();
                self.move_rows(generation, &newer, &levels)?;
                // What replaces the rows that were left is durable, too.
                self.ask(Request::Wait)?;
                levels.index.settle(generation.number)?;
            }
            generation.settle(&self.few)?;
            self.shared.change(|stored| {
                let mut levels = (*stored.levels).clone();
                let same = levels.closed.iter_mut().filter(|closed| closed.generation.number == generation.number);
                same.for_each(|closed| closed.settled = true);
                stored.levels = Arc::new(levels);
            });
        }
        Ok(())
    }

    /// The oldest is settled, so that its rows are in the index.
    fn retire_oldest(&self, levels: &Levels) -> Result<(), Error> {
        let Some(oldest) = levels.closed.last().map(|closed| &closed.generation) else { return Ok(()) };
        self.check_free_space()?;
        let needed = oldest.runs_but(|run| self.shared.is_deleted(run))?;
        // Until readers know where else to look, who needs it must find it loaded.
        let held = if needed.is_empty() { None } else { Some(oldest.database.db()?) };
        for run in needed {
            if !self.shared.is_deleted(&run) {
                self.carry(oldest, run)?;
            }
        }
        // For good, before a newer generation may follow.
        let aside = oldest.database.set_aside()?;
        let number = oldest.number;
        self.shared.change(|stored| {
            let mut levels = (*stored.levels).clone();
            levels.closed.retain(|closed| closed.generation.number != number);
            stored.levels = Arc::new(levels);
            stored.deleted.retain(|_, marked_in| *marked_in > number);
        });
        debug!(generation = number, bytes = oldest.database.size(), "a generation of the event store is removed");
        drop(held);
        oldest.database.release();
        remove(&aside);
        Ok(())
    }

    /// Takes a run's events over into the current generation.
    fn carry(&self, from: &Generation, run: RunId) -> Result<(), Error> {
        let range = keys::event_key(&run, Seq::START)..keys::events_end(&run);
        let mut entries: Vec<(IVec, IVec)> = Vec::new();
        let mut bytes = 0;
        let db = from.database.db()?;
        for entry in db.range(range) {
            let entry = entry.map_err(engine_failed)?;
            bytes += entry.1.len();
            entries.push(entry);
            if bytes >= CARRY_BYTES {
                self.go_on()?;
                bytes = 0;
                let entries = std::mem::take(&mut entries);
                self.ask(|answer| Request::Carry(run, entries, answer))?;
            }
        }
        if entries.is_empty() { Ok(()) } else { self.ask(|answer| Request::Carry(run, entries, answer)) }
    }

    /// Moves the rows that no newer generation replaces to the index.
    fn move_rows(&self, from: &Generation, newer: &[&Generation], levels: &Levels) -> Result<(), Error> {
        let db = from.database.db()?;
        let mut changes = Vec::with_capacity(MOVE_ROWS);
        for (first, end) in keys::all_rows() {
            for key in db.range(first..end).keys() {
                let stored = key.map_err(engine_failed)?;
                let Some(key) = keys::index_key(&stored) else { continue };
                if replaced(&stored, newer)? {
                    continue;
                }
                if let Some(row) = row_in(&from.database, &key)? {
                    changes.push((key, row));
                }
                if changes.len() == MOVE_ROWS {
                    self.go_on()?;
                    levels.index.write(std::mem::take(&mut changes))?;
                }
            }
        }
        if changes.is_empty() { Ok(()) } else { levels.index.write(changes) }
    }

    fn write_index_anew(&self) -> Result<(), Error> {
        self.check_free_space()?;
        let worn = self.shared.levels().index.clone();
        // A fresh database that could not be written is no loss: the worn one goes on.
        let fresh = worn.written_anew(&self.store_dir, || self.go_on()).map_err(|error| match error {
            Error::Unavailable { source } => Error::Engine { action: "write", source },
            error => error,
        })?;
        let fresh = Arc::new(fresh);
        debug!(from = worn.database.size(), to = fresh.database.size(), "the index of the event store is written anew");
        self.shared.change(|stored| {
            let levels = Levels { index: fresh, ..(*stored.levels).clone() };
            stored.levels = Arc::new(levels);
        });
        remove(&worn.database.set_aside()?);
        Ok(())
    }

    /// Hands a request to the writer and waits for its answer.
    fn ask(&self, request: impl FnOnce(oneshot::Sender<Result<(), Error>>) -> Request) -> Result<(), Error> {
        let (answer, answered) = oneshot::channel();
        self.requests.send(request(answer)).map_err(|_| Error::Closed)?;
        // The writer tells of its own failures.
        answered.blocking_recv().map_or(Err(Error::Closed), |result| result.map_err(|_| Error::Closed))
    }

    fn check_free_space(&self) -> Result<(), Error> {
        let Ok(disk) = rustix::fs::statvfs(&self.store_dir) else { return Ok(()) };
        let available = disk.f_bavail.saturating_mul(disk.f_frsize);
        if available >= MIN_FREE_BYTES { Ok(()) } else { Err(Error::Full { path: self.store_dir.clone(), available }) }
    }
}

fn replaced(key: &[u8], newer: &[&Generation]) -> Result<bool, Error> {
    for generation in newer {
        if generation.database.db()?.contains_key(key).map_err(engine_failed)? {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Removes what an earlier process had no time to remove.
fn remove_left_over(store_dir: &Path) {
    let Ok(entries) = fs::read_dir(store_dir) else { return };
    entries.flatten().map(|entry| entry.path()).filter(|path| is_left_over(path)).for_each(|path| remove(&path));
}

fn remove(folder: &Path) {
    if let Err(error) = fs::remove_dir_all(folder)
        && error.kind() != std::io::ErrorKind::NotFound
    {
        warn!(path = %folder.display(), %error, "a database that is no longer needed was not removed; the next start tries again");
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;
    use std::time::{Duration, Instant};

    use tracing_subscriber::fmt;

    use super::*;
    use crate::store::{EventStore, SledStore, contract};

    #[tokio::test]
    async fn a_panic_of_the_compactor_is_told_and_the_store_goes_on() {
        let dir = tempfile::tempdir().unwrap();
        let store = SledStore::open(dir.path(), |error| panic!("{error:?}")).unwrap();
        told(&store.shared, || {});
        assert_eq!(store.trouble(), None);

        let log = tempfile::NamedTempFile::new().unwrap();
        let written = fmt().json().with_writer(Mutex::new(log.reopen().unwrap())).finish();
        tracing::subscriber::with_default(written, || told(&store.shared, || panic!("a page is {}", "gone")));
        let line: serde_json::Value = serde_json::from_slice(&fs::read(log.path()).unwrap()).unwrap();
        let message = "the event store no longer gets smaller: its compactor panicked; restart the service";
        assert_eq!(line["level"], "ERROR");
        assert_eq!(line["fields"], serde_json::json!({"message": message, "reason": "a page is gone"}));
        let trouble = "the store no longer gets smaller until the service is restarted: a page is gone";
        assert_eq!(store.trouble().as_deref(), Some(trouble));

        assert_eq!(store.append(contract::events(contract::run(1), Seq(0), 3)).await.unwrap(), Seq(3));
        assert_eq!(contract::holds_whole_log(&store, contract::run(1)).await.unwrap(), Seq(3));
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn what_was_deleted_leaves_the_disk_when_nothing_is_written_any_more() {
        let dir = tempfile::tempdir().unwrap();
        // While it is written to it may take as much as there is.
        let space = Space {
            generation_bytes: 1 << 40,
            quiet_slack_bytes: 16 * 1024,
            quiet: Duration::from_millis(5),
            index_slack_bytes: 1 << 40,
        };
        let store = SledStore::open_with(dir.path(), space, |error| panic!("{error:?}")).unwrap();
        let (gone, kept) = (contract::run(1), contract::run(2));
        store.append(contract::events(kept, Seq(0), 10)).await.unwrap();
        store.append(contract::events(gone, Seq(0), 10_000)).await.unwrap();
        store.delete_events(&gone).await.unwrap();
        let deadline = Instant::now() + Duration::from_secs(60);
        while dir.path().join("store/generation-1").exists() {
            assert!(Instant::now() < deadline, "the events are still on the disk");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        assert_eq!(contract::holds_whole_log(&store, kept).await.unwrap(), Seq(10));
    }
}
