//! Finished runs leave the store: their log becomes a file, and after a grace time their events go.

use std::collections::{HashSet, VecDeque};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::future::join_all;
use tokio::sync::mpsc;
use tokio::time::Instant;
use tracing::warn;

use crate::domain::causes::chain;
use crate::domain::ids::{RunId, Seq};
use crate::domain::run_file::RunFile;
use crate::files;
use crate::orchestrator::environment::{Blocking, unbroken};
use crate::orchestrator::error::Error;
use crate::orchestrator::log::checked::{Checked, SMALL};
use crate::orchestrator::log::journal::read_head;
use crate::orchestrator::log::run_log::RunLog;
use crate::orchestrator::log::sealed_check::check_sealed;
use crate::orchestrator::run_files::RunFiles;
use crate::store;
use crate::store::{EventBatch, EventStore, SealedLog, Sealing};
use crate::workspace::{self, Layout};

/// Bytes of events read at once while sealing.
const READ_BYTES: usize = 1024 * 1024;
/// Bytes of events read first.
const FIRST_READ_BYTES: usize = 16 * 1024;
/// After how long a log that could not be sealed is tried again: there may be room by then.
const AGAIN_AFTER: Duration = Duration::from_secs(5);
/// How often the events of sealed runs are deleted from the store.
const DELETE_EVERY: Duration = Duration::from_secs(1);
/// Finished runs that are sealed together.
const SEALED_AT_ONCE: usize = 32;
/// Runs whose events are deleted together.
const DELETED_AT_ONCE: usize = 256;

/// Seals finished runs one after the other, in the background.
pub(crate) struct Sealer {
    /// Unbounded, because it carries sixteen bytes for each finished run and its reader never waits for a client.
    orders: mpsc::UnboundedSender<Order>,
    pending: Arc<Pending>,
}

/// Runs that were ordered to be sealed and whose events are still in the store. A run that was deleted is none of them.
#[derive(Default)]
struct Pending(Mutex<HashSet<RunId>>);

impl Pending {
    fn runs(&self) -> MutexGuard<'_, HashSet<RunId>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

enum Order {
    Seal(RunId),
    SealAnew(Vec<RunId>),
    Finish(tokio::sync::oneshot::Sender<()>),
}

impl Sealer {
    /// Seals the runs of this log, whose readers then know that the files are whole.
    pub(crate) fn new(store: Arc<dyn EventStore>, log: &RunLog, grace: Duration) -> Self {
        let (orders, received) = mpsc::unbounded_channel();
        let pending = Arc::new(Pending::default());
        let (layout, blocking, checked) = (log.layout().clone(), log.blocking().clone(), log.checked().clone());
        let (pending_too, files) = (pending.clone(), log.files().clone());
        let worker = Worker { store, layout, blocking, checked, grace, pending: pending_too, files };
        tokio::spawn(worker.work(received));
        Self { orders, pending }
    }

    /// Seal a finished run soon.
    pub(crate) fn seal_soon(&self, run: RunId) {
        self.pending.runs().insert(run);
        // The worker ends only with the service; then the next start seals.
        let _ = self.orders.send(Order::Seal(run));
    }

    /// The same for runs of an earlier process: a power cut may have torn sealed files whose events are still in the store.
    pub(crate) fn seal_anew(&self, runs: Vec<RunId>) {
        self.pending.runs().extend(&runs);
        let _ = self.orders.send(Order::SealAnew(runs));
    }

    /// Whether it is being sealed here.
    pub(crate) fn is_pending(&self, run: RunId) -> bool {
        self.pending.runs().contains(&run)
    }

    /// A run was deleted: leave it alone.
    pub(crate) fn forget(&self, run: RunId) {
        self.pending.runs().remove(&run);
    }

    /// Wait until everything ordered so far is sealed.
    pub(crate) async fn finish(&self) {
        let (done, finished) = tokio::sync::oneshot::channel();
        if self.orders.send(Order::Finish(done)).is_ok() {
            let _ = finished.await;
        }
    }
}

struct Worker {
    store: Arc<dyn EventStore>,
    layout: Layout,
    blocking: Blocking,
    checked: Arc<Checked>,
    grace: Duration,
    pending: Arc<Pending>,
    files: Arc<RunFiles>,
}

impl Worker {
    async fn work(self, mut orders: mpsc::UnboundedReceiver<Order>) {
        let mut sealed: Vec<(Instant, RunId)> = Vec::new();
        let mut again: VecDeque<(Instant, RunId)> = VecDeque::new();
        let mut ticks = tokio::time::interval(DELETE_EVERY);
        let mut received = Vec::new();
        loop {
            tokio::select! {
                // In a fixed order, so that two equal simulations go the same way.
                biased;
                count = orders.recv_many(&mut received, SEALED_AT_ONCE) => {
                    if count == 0 {
                        return;
                    }
                    let mut runs = Vec::new();
                    for order in received.drain(..) {
                        match order {
                            Order::Seal(run) => runs.push(run),
                            Order::Finish(done) => {
                                let sealing = self.seal_together(std::mem::take(&mut runs), &mut sealed, &mut again);
                                unbroken("seal logs", sealing).await;
                                let _ = done.send(());
                            }
                            Order::SealAnew(anew) => {
                                unbroken("remove sealed logs", self.remove_sealed(anew.clone())).await;
                                runs.extend(anew);
                            }
                        }
                    }
                    unbroken("seal logs", self.seal_together(runs, &mut sealed, &mut again)).await;
                }
                _ = ticks.tick() => {
                    unbroken("delete sealed events", self.delete_due(&mut sealed)).await;
                    // One at a time: those that are new come first.
                    if again.front().is_some_and(|(at, _)| *at <= Instant::now())
                        && let Some((_, run)) = again.pop_front()
                    {
                        match unbroken("seal a log", self.seal(run)).await {
                            Some(Ok(())) => sealed.push((Instant::now() + self.grace, run)),
                            Some(Err(_)) | None => again.push_back((Instant::now() + AGAIN_AFTER, run)),
                        }
                    }
                }
            }
        }
    }

    /// Short logs are written by one piece of work: on the way to another thread most of their time would pass.
    async fn seal_together(
        &self,
        runs: Vec<RunId>,
        sealed: &mut Vec<(Instant, RunId)>,
        again: &mut VecDeque<(Instant, RunId)>,
    ) {
        for runs in runs.chunks(SEALED_AT_ONCE) {
            let (mut short, mut outcomes) = (Vec::new(), Vec::new());
            for run in runs {
                match self.short_log(*run).await {
                    Ok(Some(page)) => short.push((*run, page)),
                    Ok(None) => outcomes.push((*run, self.seal(*run).await)),
                    Err(error) => outcomes.push((*run, Err(error))),
                }
            }
            let in_short: Vec<RunId> = short.iter().map(|(run, _)| *run).collect();
            match self.write_short(short).await {
                Ok(written) => outcomes.extend(written),
                Err(error) => {
                    warn!(runs = in_short.len(), error = %chain(&error), "logs were not sealed; they are tried again");
                    again.extend(in_short.into_iter().map(|run| (Instant::now() + AGAIN_AFTER, run)));
                }
            }
            for (run, outcome) in outcomes {
                match outcome {
                    Ok(()) => sealed.push((Instant::now() + self.grace, run)),
                    Err(error) => {
                        warn!(run.id = %run, error = %chain(&error), "the log was not sealed; it is tried again");
                        again.push_back((Instant::now() + AGAIN_AFTER, run));
                    }
                }
            }
        }
    }

    /// The whole log of a run that is to be sealed, if it is short.
    async fn short_log(&self, run: RunId) -> Result<Option<Vec<EventBatch>>, Error> {
        let head = self.store.head(&run).await?;
        if head == Seq::START || !self.pending.runs().contains(&run) {
            return Ok(None);
        }
        let page = self.store.read(&run, Seq::START, FIRST_READ_BYTES).await?;
        Ok(Some(page).filter(|page| page.last().is_some_and(|last| last.last() == head)))
    }

    async fn write_short(&self, logs: Vec<(RunId, Vec<EventBatch>)>) -> Result<Vec<(RunId, Result<(), Error>)>, Error> {
        if logs.is_empty() {
            return Ok(Vec::new());
        }
        let (layout, checked) = (self.layout.clone(), self.checked.clone());
        let write = move || {
            let write = |(run, page): (RunId, Vec<EventBatch>)| {
                let written = write_page(&place_of_log(&layout, run), None, &page, true, &checked);
                (run, written.map(drop).map_err(Error::from))
            };
            logs.into_iter().map(write).collect()
        };
        self.blocking.run("seal short logs", write).await
    }

    /// What is not there any more is read from the store.
    async fn remove_sealed(&self, runs: Vec<RunId>) {
        let (layout, pending) = (self.layout.clone(), self.pending.clone());
        let remove = move || {
            for run in runs {
                if pending.runs().contains(&run) {
                    let paths = layout.run(run);
                    let _ = files::remove_file(&paths.file(RunFile::Events));
                    let _ = workspace::remove_sealed(&paths);
                }
            }
        };
        let _ = self.blocking.run("remove sealed logs", remove).await;
    }

    async fn seal(&self, run: RunId) -> Result<(), Error> {
        // What was asked for twice has left the store by now, and an empty log must not take the place of the whole one.
        let head = self.store.head(&run).await?;
        if head == Seq::START || !self.pending.runs().contains(&run) {
            return Ok(());
        }
        let mut sealing = None;
        let mut at = Seq::START;
        while at < head {
            // Most logs fit the first page, which is small enough to be read in place.
            let bytes = if at == Seq::START { FIRST_READ_BYTES } else { READ_BYTES };
            let page = self.store.read(&run, at, bytes).await?;
            let Some(last) = page.last().map(EventBatch::last) else { return Ok(()) };
            at = last;
            let path = place_of_log(&self.layout, run);
            let checked = self.checked.clone();
            let write = move || write_page(&path, sealing, &page, last == head, &checked);
            sealing = self.blocking.run("seal the log", write).await??;
        }
        Ok(())
    }

    /// Events leave the store only after one sync has made all their files durable.
    async fn delete_due(&self, sealed: &mut Vec<(Instant, RunId)>) {
        let now = Instant::now();
        let due = sealed.partition_point(|(at, _)| *at <= now);
        if due == 0 {
            return;
        }
        // A service that has had no run of its own has no such folder.
        let runs = Some(self.layout.runs()).filter(|runs| runs.is_dir()).unwrap_or_else(|| self.layout.data().into());
        let synced = self.blocking.run("sync sealed logs", move || files::sync_file_system(&runs)).await;
        if !matches!(synced, Ok(Ok(()))) {
            warn!("sealed logs could not be synced; their events stay in the store");
            return;
        }
        let due: Vec<RunId> = sealed.drain(..due).map(|(_, run)| run).collect();
        for runs in due.chunks(DELETED_AT_ONCE) {
            let not_shared = self.delete_events(runs).await;
            sealed.extend(not_shared.into_iter().map(|run| (Instant::now() + AGAIN_AFTER, run)));
        }
        // They are looked at in this order.
        sealed.sort_by_key(|(at, _)| *at);
    }

    /// The deletions are asked for together, so that they share the store's commits. Runs whose log other services do not have yet are
    /// returned: their events stay for now.
    async fn delete_events(&self, runs: &[RunId]) -> Vec<RunId> {
        let (mut whole, mut not_shared) = (Vec::new(), Vec::new());
        for run in runs {
            if !self.pending.runs().remove(run) {
                continue;
            }
            if self.files.are_shared() && matches!(self.store.head(run).await, Ok(Seq::START)) {
                // Another service was first, or has deleted the run.
                continue;
            }
            if self.is_whole(*run).await {
                match self.share(*run).await {
                    Ok(()) => whole.push(*run),
                    Err(error) => {
                        warn!(run.id = %run, error = %chain(&error), "a sealed log could not be shared; it is tried again");
                        self.pending.runs().insert(*run);
                        not_shared.push(*run);
                    }
                }
            } else {
                warn!(run.id = %run, "the sealed log is not what was sealed; its events stay in the store until the next start");
            }
        }
        let deleted = join_all(whole.iter().map(|run| self.store.delete_events(run))).await;
        for (run, deleted) in whole.iter().zip(deleted) {
            if let Err(error) = deleted {
                warn!(run.id = %run, error = %chain(&error), "events of a sealed run stay in the store");
            }
        }
        not_shared
    }

    /// Other services have the sealed log before the store forgets its events.
    async fn share(&self, run: RunId) -> Result<(), Error> {
        if !self.files.are_shared() {
            return Ok(());
        }
        let head = self.store.head(&run).await?;
        self.files.share_sealed(run, head).await
    }

    /// Whether the file holds all that the store holds, byte for byte: after this the store forgets it.
    async fn is_whole(&self, run: RunId) -> bool {
        let Some(path) = self.layout.run(run).sealed_log() else { return false };
        let row = read_head(&*self.store, run).await.ok();
        let Ok(stored) = self.store.head(&run).await else { return false };
        let check = move || {
            let fits = row.is_none_or(|row| check_sealed(&path, &row, &Checked::default()).is_ok());
            fits && SealedLog::open(&path, stored).is_ok()
        };
        self.blocking.run("check a sealed log", check).await.unwrap_or(false)
    }
}

/// Where the log of a run is sealed. One that took another's result may have no folder, and needs none for its log.
fn place_of_log(layout: &Layout, run: RunId) -> PathBuf {
    let paths = layout.run(run);
    if paths.root.is_dir() { paths.file(RunFile::Events) } else { paths.sealed }
}

/// Write one page of a sealed log; the rest is returned until the last page is written. Blocks.
fn write_page(
    path: &Path,
    begun: Option<Sealing>,
    page: &[EventBatch],
    last: bool,
    checked: &Checked,
) -> Result<Option<Sealing>, store::Error> {
    let mut sealing = match begun {
        Some(begun) => begun,
        None => {
            files::create_parent(path)?;
            let bytes = page.iter().map(|batch| batch.ndjson.len()).sum();
            Sealing::begin(path, bytes)?
        }
    };
    page.iter().try_for_each(|batch| sealing.push(batch))?;
    if last {
        let sealed = sealing.finish()?;
        // It has just been written from the store, so its first reader need not read all of a long one.
        if sealed.bytes > SMALL
            && let Ok(found) = std::fs::symlink_metadata(path)
        {
            checked.put(path, &found);
        }
        return Ok(None);
    }
    Ok(Some(sealing))
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;
    use crate::store::{Append, MemoryStore};

    const RUN: RunId = RunId(Uuid::from_u128(1));

    async fn worker(data: &std::path::Path) -> Worker {
        let store = MemoryStore::default();
        let batch = EventBatch { first: Seq(1), count: 1, ndjson: "{}\n".into() };
        let append = Append {
            run: RUN,
            expected_head: Seq::START,
            events: vec![batch],
            index: vec![],
            require_absent: None,
            for_others: Default::default(),
        };
        store.append(append).await.unwrap();
        let layout = Layout::new(data);
        std::fs::create_dir_all(layout.run(RUN).folder(crate::domain::run_file::RunFolder::Logs)).unwrap();
        let (blocking, grace, pending) = (Blocking::Threads, Duration::ZERO, Arc::<Pending>::default());
        pending.runs().insert(RUN);
        let store: Arc<dyn EventStore> = Arc::new(store);
        let files = Arc::new(RunFiles::new(store.clone(), layout.clone(), blocking.clone(), None));
        Worker { store, layout, blocking, checked: Arc::default(), grace, pending, files }
    }

    #[tokio::test]
    async fn a_log_that_is_sealed_twice_stays_whole() {
        let folder = tempfile::tempdir().unwrap();
        let worker = worker(folder.path()).await;
        worker.seal(RUN).await.unwrap();
        worker.delete_due(&mut vec![(Instant::now(), RUN)]).await;
        assert_eq!(worker.store.head(&RUN).await.unwrap(), Seq::START);
        worker.pending.runs().insert(RUN);
        worker.seal(RUN).await.unwrap();
        assert_eq!(std::fs::read(worker.layout.run(RUN).file(RunFile::Events)).unwrap(), b"{}\n");
    }

    #[tokio::test]
    async fn short_and_long_logs_that_are_due_together_are_all_sealed_and_one_that_cannot_be_is_tried_again() {
        let folder = tempfile::tempdir().unwrap();
        let worker = worker(folder.path()).await;
        let id = |at| RunId(Uuid::from_u128(at));
        let line = format!("\"{}\"\n", "x".repeat(40_000));
        for (at, ndjson) in [(2, "[]\n".to_owned()), (3, line.clone()), (4, "{}\n".to_owned())] {
            let batch = EventBatch { first: Seq(1), count: 1, ndjson: ndjson.into() };
            let events = vec![batch];
            let append = Append {
                run: id(at),
                expected_head: Seq::START,
                events,
                index: vec![],
                require_absent: None,
                for_others: Default::default(),
            };
            worker.store.append(append).await.unwrap();
            worker.pending.runs().insert(id(at));
        }
        // A folder stands where its log belongs.
        std::fs::create_dir_all(worker.layout.run(id(4)).sealed.join("in the way")).unwrap();
        let (mut sealed, mut again) = (Vec::new(), VecDeque::new());
        worker.seal_together(vec![RUN, id(2), id(3), id(4)], &mut sealed, &mut again).await;
        let mut done: Vec<RunId> = sealed.into_iter().map(|(_, run)| run).collect();
        done.sort();
        assert_eq!(done, [RUN, id(2), id(3)]);
        assert_eq!(again.into_iter().map(|(_, run)| run).collect::<Vec<_>>(), [id(4)]);
        let log = |at| std::fs::read_to_string(worker.layout.run(id(at)).sealed).unwrap();
        assert_eq!(std::fs::read(worker.layout.run(RUN).file(RunFile::Events)).unwrap(), b"{}\n");
        assert_eq!([log(2), log(3)], ["[]\n".to_owned(), line]);
    }

    #[tokio::test(start_paused = true)]
    async fn events_stay_in_the_store_for_the_time_of_grace_after_their_log_was_sealed() {
        let folder = tempfile::tempdir().unwrap();
        let grace = Duration::from_secs(60);
        let worker = Worker { grace, ..worker(folder.path()).await };
        let (mut sealed, mut again) = (Vec::new(), VecDeque::new());
        worker.seal_together(vec![RUN], &mut sealed, &mut again).await;
        tokio::time::advance(grace - Duration::from_secs(1)).await;
        worker.delete_due(&mut sealed).await;
        assert_eq!(worker.store.head(&RUN).await.unwrap(), Seq(1));
        tokio::time::advance(Duration::from_secs(1)).await;
        worker.delete_due(&mut sealed).await;
        assert_eq!(worker.store.head(&RUN).await.unwrap(), Seq::START);
    }

    #[tokio::test]
    async fn events_stay_in_the_store_while_their_sealed_log_is_not_whole() {
        let folder = tempfile::tempdir().unwrap();
        let worker = worker(folder.path()).await;
        worker.seal(RUN).await.unwrap();
        std::fs::write(worker.layout.run(RUN).file(RunFile::Events), "").unwrap();
        worker.delete_due(&mut vec![(Instant::now(), RUN)]).await;
        assert_eq!(worker.store.head(&RUN).await.unwrap(), Seq(1));
    }
}
