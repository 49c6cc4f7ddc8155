//! One service on a store in memory that several share.

use std::collections::{BTreeMap, BTreeSet};
use std::future::ready;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::{Notify, watch};
use uuid::Uuid;

use super::held::{Held, Lease};
use super::memory::MemoryStore;
use super::memory_cluster::{NodeRow, Several};
use super::{
    Append, AppendResult, BoxFuture, Changed, Cluster, Control, Durability, Error, EventBatch, EventStore, IndexKey,
    LeaseId, Node, NodeId, NodeInfo, NodeLoad, RawPiece, Record, RecordChange, RecordList, Records, Renewed, RunFilter,
};
use crate::domain::fact::Stream;
use crate::domain::fair_queue::Bounds;
use crate::domain::ids::{RunId, Seq};

/// One service on a store in memory.
pub struct MemoryNode {
    store: MemoryStore,
    held: Arc<Held>,
    node: NodeId,
    wake: Arc<Notify>,
}

impl MemoryNode {
    /// A process of a service on a store for several: in its next life it has the same node, and a new view.
    pub fn new(store: MemoryStore, node: NodeId) -> MemoryNode {
        let wake = Arc::new(Notify::new());
        store.several(|several| several.wakes.insert(node, wake.clone()));
        MemoryNode { store, held: Arc::default(), node, wake }
    }

    pub fn node(&self) -> NodeId {
        self.node
    }

    /// An append in the name that the service has now, to be made whenever it reaches the store: its answer may be late, and it may
    /// be made after the service is gone.
    pub fn append_later(&self, append: Append) -> impl FnOnce() -> AppendResult + Send + 'static {
        let (store, held, run) = (self.store.clone(), self.held.clone(), append.run);
        let author = held.author(run);
        move || {
            let appended = store.append_as(append, Some(author));
            if matches!(appended, Ok((_, true)) | Err(Error::NotOwner)) && author.epoch.is_some() {
                held.forget(run, author.epoch);
            }
            appended.map(|(head, _)| head)
        }
    }

    pub(super) fn several<T>(&self, ask: impl FnOnce(&mut Several) -> Result<T, Error>) -> Result<T, Error> {
        self.store.several(ask).unwrap_or(Err(Error::Closed))
    }

    pub(super) fn lease(&self) -> Result<Lease, Error> {
        self.held.lease().ok_or(Error::NotOwner)
    }

    fn take_by(
        &self,
        take: impl FnOnce(&mut Several, Uuid) -> Result<Vec<(RunId, i64)>, Error>,
    ) -> Result<Vec<RunId>, Error> {
        let incarnation = self.lease()?.incarnation;
        let taken = self.several(|several| take(several, incarnation));
        if matches!(taken, Err(Error::NotOwner)) {
            self.held.lost(incarnation);
        }
        let mine = taken?.into_iter().filter(|(run, epoch)| self.held.took(incarnation, *run, *epoch));
        Ok(mine.map(|(run, _)| run).collect())
    }
}

fn micros(duration: Duration) -> i64 {
    i64::try_from(duration.as_micros()).unwrap_or(i64::MAX)
}

impl Cluster for MemoryNode {
    fn join(&self, info: NodeInfo) -> BoxFuture<'_, Result<(), Error>> {
        let before = self.held.before();
        let joined = self.several(|several| {
            several.incarnations += 1;
            let (incarnation, now) = (Uuid::from_u128(several.incarnations), (several.clock)());
            let lease = Lease { incarnation, duration: info.lease };
            let kept = several.nodes.get(&info.node);
            let draining = kept.is_some_and(|kept| kept.draining && Some(kept.incarnation) == before);
            let row = NodeRow {
                incarnation,
                load: NodeLoad::default(),
                draining,
                over: false,
                lease_until: now.saturating_add(micros(info.lease)),
                joined_at: now,
                info,
            };
            several.nodes.insert(row.info.node, row);
            Ok(lease)
        });
        Box::pin(ready(joined.map(|lease| self.held.joined(lease))))
    }

    fn renew(&self, load: NodeLoad) -> BoxFuture<'_, Result<Renewed, Error>> {
        let renewed = self.lease().and_then(|lease| {
            let renewed = self.several(|several| {
                several.may_take(lease.incarnation)?;
                let until = (several.clock)().saturating_add(micros(lease.duration));
                let waiting = several.runs.values().filter(|row| row.standing.waits && row.owner.is_none());
                let mut queued: BTreeMap<String, usize> = BTreeMap::new();
                for row in waiting {
                    let share = row.queued.as_ref().map_or_else(String::new, |queued| queued.ticket.share.clone());
                    *queued.entry(share).or_default() += 1;
                }
                let node = several.nodes.values_mut().find(|node| node.incarnation == lease.incarnation);
                let node = node.ok_or(Error::NotOwner)?;
                (node.load, node.lease_until) = (load, until);
                Ok(Renewed { draining: node.draining, queued })
            });
            if renewed.is_err() {
                self.held.lost(lease.incarnation);
            }
            renewed
        });
        Box::pin(ready(renewed))
    }

    fn leave(&self) -> BoxFuture<'_, Result<(), Error>> {
        let Some(lease) = self.held.lease() else { return Box::pin(ready(Ok(()))) };
        self.held.lost(lease.incarnation);
        Box::pin(ready(self.several(|several| {
            let now = (several.clock)();
            for node in several.nodes.values_mut().filter(|node| node.incarnation == lease.incarnation) {
                (node.over, node.lease_until) = (true, node.lease_until.min(now));
            }
            Ok(())
        })))
    }

    fn lease(&self) -> Option<LeaseId> {
        self.held.lease().map(|lease| LeaseId(lease.incarnation))
    }

    fn lease_is_over(&self, lease: LeaseId) -> BoxFuture<'_, Result<bool, Error>> {
        Box::pin(ready(self.several(|several| {
            several.end_leases();
            Ok(!several.is_live(lease.0))
        })))
    }

    fn change_record_under(&self, lease: LeaseId, change: RecordChange) -> BoxFuture<'_, Result<Changed, Error>> {
        Box::pin(ready(self.several(|several| {
            several.may_take(lease.0)?;
            several.records.change(change, &several.removed)
        })))
    }

    fn take(&self, most: usize, bounds: &Bounds) -> BoxFuture<'_, Result<Vec<RunId>, Error>> {
        Box::pin(ready(self.take_by(|several, me| several.take(me, most, bounds))))
    }

    fn take_abandoned(&self, most: usize) -> BoxFuture<'_, Result<Vec<RunId>, Error>> {
        Box::pin(ready(self.take_by(|several, me| several.take_abandoned(me, most))))
    }

    fn release(&self, run: RunId) -> BoxFuture<'_, Result<(), Error>> {
        let author = self.held.author(run);
        if author.epoch.is_none() {
            return Box::pin(ready(Ok(())));
        }
        self.held.forget(run, author.epoch);
        Box::pin(ready(self.several(|several| {
            if let Some(row) = several.runs.get_mut(&run)
                && (row.owner, Some(row.epoch)) == (author.incarnation, author.epoch)
            {
                row.owner = None;
                several.queue.finished(run);
            }
            several.enter_queue();
            several.wakes.values().for_each(|wake| wake.notify_one());
            Ok(())
        })))
    }

    fn owns(&self, run: RunId) -> bool {
        self.held.owns(run)
    }

    fn due(&self, most: usize) -> BoxFuture<'_, Result<Vec<RunId>, Error>> {
        Box::pin(ready(self.several(|several| {
            let now = (several.clock)();
            let due = several.runs.iter().filter_map(|(run, row)| Some((row.standing.due_at?, *run)));
            let due: BTreeSet<(i64, RunId)> = due.filter(|(moment, _)| *moment <= now).collect();
            Ok(due.into_iter().map(|(_, run)| run).take(most).collect())
        })))
    }

    fn unsealed(&self, over_for: Duration, most: usize) -> BoxFuture<'_, Result<Vec<RunId>, Error>> {
        Box::pin(ready(self.several(|several| {
            let until = (several.clock)().saturating_sub(micros(over_for));
            let over = several.runs.iter().filter_map(|(run, row)| Some((row.over_at?, *run)));
            let over: BTreeSet<(i64, RunId)> = over.filter(|(moment, _)| *moment <= until).collect();
            Ok(over.into_iter().map(|(_, run)| run).take(most).collect())
        })))
    }

    fn ask(&self, run: RunId, control: Control) -> BoxFuture<'_, Result<bool, Error>> {
        Box::pin(ready(self.several(|several| {
            let Some(owner) = several.runs.get(&run).and_then(|row| row.owner) else { return Ok(false) };
            several.controls.push((owner, run, control));
            let nodes = several.nodes.iter().filter(|(_, node)| node.incarnation == owner);
            nodes.filter_map(|(node, _)| several.wakes.get(node)).for_each(|wake| wake.notify_one());
            Ok(true)
        })))
    }

    fn asked(&self) -> BoxFuture<'_, Result<Vec<(RunId, Control)>, Error>> {
        Box::pin(ready(self.lease().and_then(|lease| {
            self.several(|several| {
                let all = std::mem::take(&mut several.controls);
                let (mine, others) = all.into_iter().partition(|(owner, ..)| *owner == lease.incarnation);
                several.controls = others;
                let mine: Vec<(Uuid, RunId, Control)> = mine;
                Ok(mine.into_iter().map(|(_, run, control)| (run, control)).collect())
            })
        })))
    }

    fn wake(&self) -> Arc<Notify> {
        self.wake.clone()
    }

    fn nodes(&self) -> BoxFuture<'_, Result<Vec<Node>, Error>> {
        Box::pin(ready(self.several(|several| {
            let now = (several.clock)();
            let node = |node: &NodeRow| {
                let left = u64::try_from(node.lease_until - now).unwrap_or_default();
                Node {
                    node: node.info.node,
                    name: node.info.name.clone(),
                    version: node.info.version.clone(),
                    address: node.info.address.clone(),
                    works: node.info.works,
                    load: node.load,
                    draining: node.draining,
                    owns: several.runs.values().filter(|row| row.owner == Some(node.incarnation)).count() as u64,
                    joined_at: node.joined_at,
                    lease_left: (left > 0 && !node.over).then(|| Duration::from_micros(left)),
                }
            };
            Ok(several.nodes.values().map(node).collect())
        })))
    }

    fn drain(&self, node: NodeId, draining: bool) -> BoxFuture<'_, Result<bool, Error>> {
        Box::pin(ready(self.several(|several| {
            let Some(row) = several.nodes.get_mut(&node) else { return Ok(false) };
            row.draining = draining;
            several.wakes.get(&node).into_iter().for_each(|wake| wake.notify_one());
            Ok(true)
        })))
    }

    fn unused_files(&self, among: &[[u8; 32]]) -> BoxFuture<'_, Result<Vec<[u8; 32]>, Error>> {
        Box::pin(ready(self.several(|several| {
            let is_used =
                |file: &[u8; 32]| several.files.iter().any(|(used, _)| used == file) || several.records.need(file);
            Ok(among.iter().filter(|file| !is_used(file)).copied().collect())
        })))
    }
}

impl Records for MemoryNode {
    fn record(&self, kind: &'static str, key: &str) -> BoxFuture<'_, Result<Option<Record>, Error>> {
        Box::pin(ready(self.several(|several| Ok(several.records.record(kind, key)))))
    }

    fn records(&self, kind: &'static str) -> BoxFuture<'_, Result<RecordList, Error>> {
        Box::pin(ready(self.several(|several| Ok(several.records.list(kind)))))
    }

    fn record_revisions(&self, kinds: &[&'static str]) -> BoxFuture<'_, Result<Vec<u64>, Error>> {
        let revisions = |several: &mut Several| kinds.iter().map(|kind| several.records.revision(kind)).collect();
        Box::pin(ready(self.several(|several| Ok(revisions(several)))))
    }

    fn change_record(&self, change: RecordChange) -> BoxFuture<'_, Result<Changed, Error>> {
        Box::pin(ready(self.several(|several| several.records.change(change, &several.removed))))
    }

    fn records_changed(&self) -> watch::Receiver<u64> {
        let changed = self.several(|several| Ok(several.records.changed()));
        changed.unwrap_or_else(|_| watch::channel(0).1)
    }
}

impl EventStore for MemoryNode {
    fn append(&self, append: Append) -> BoxFuture<'static, AppendResult> {
        Box::pin(ready(self.append_later(append)()))
    }

    fn head(&self, run: &RunId) -> BoxFuture<'_, Result<Seq, Error>> {
        self.store.head(run)
    }

    fn read(&self, run: &RunId, after: Seq, max_bytes: usize) -> BoxFuture<'_, Result<Vec<EventBatch>, Error>> {
        self.store.read(run, after, max_bytes)
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
        self.held.forget(*run, self.held.author(*run).epoch);
        self.store.delete_events(run)
    }

    fn delete_run(&self, run: &RunId, index: Vec<IndexKey>) -> BoxFuture<'static, Result<(), Error>> {
        self.held.forget(*run, self.held.author(*run).epoch);
        self.store.delete_run(run, index)
    }

    fn raw(
        &self,
        run: &RunId,
        stream: Stream,
        from: u64,
        max_bytes: usize,
    ) -> BoxFuture<'_, Result<Vec<RawPiece>, Error>> {
        self.store.raw(run, stream, from, max_bytes)
    }

    fn removals(&self) -> BoxFuture<'_, Result<u64, Error>> {
        Box::pin(ready(self.several(|several| Ok(several.removed.count))))
    }

    fn durability(&self) -> Durability {
        Durability::Memory
    }
}
