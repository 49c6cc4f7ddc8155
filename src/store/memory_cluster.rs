//! What several services on a store in memory agree on, judged by a clock that the test controls.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use bytes::Bytes;
use tokio::sync::Notify;
use uuid::Uuid;

use super::held::Author;
use super::memory_records::MemoryRecords;
use super::memory_removed::Removed;
use super::pieces::Pieces;
use super::standing::{Queued, Standing};
use super::{Control, Error, ForOthers, IndexChange, IndexKey, Labels, NodeId, NodeInfo, NodeLoad, RawPiece};
use crate::domain::fact::Stream;
use crate::domain::fair_queue::{Bounds, FairQueue, ShareRule};
use crate::domain::ids::RunId;
use crate::domain::statechart::Status;

/// Tells the time of the store, in microseconds after the epoch.
pub type StoreClock = Arc<dyn Fn() -> i64 + Send + Sync>;

/// What services on one store agree on.
pub(super) struct Several {
    pub(super) rule: ShareRule,
    pub(super) clock: StoreClock,
    pub(super) nodes: BTreeMap<NodeId, NodeRow>,
    pub(super) runs: BTreeMap<RunId, RunRow>,
    pub(super) queue: FairQueue,
    pub(super) controls: Vec<(Uuid, RunId, Control)>,
    pub(super) raw: HashMap<(RunId, Stream), BTreeMap<u64, Bytes>>,
    pub(super) files: BTreeSet<([u8; 32], RunId)>,
    pub(super) records: MemoryRecords,
    pub(super) removed: Removed,
    pub(super) wakes: HashMap<NodeId, Arc<Notify>>,
    pub(super) incarnations: u128,
}

pub(super) struct NodeRow {
    pub(super) info: NodeInfo,
    pub(super) incarnation: Uuid,
    pub(super) load: NodeLoad,
    pub(super) draining: bool,
    pub(super) over: bool,
    pub(super) lease_until: i64,
    pub(super) joined_at: i64,
}

#[derive(Default)]
pub(super) struct RunRow {
    pub(super) owner: Option<Uuid>,
    pub(super) epoch: i64,
    pub(super) status: Option<Status>,
    pub(super) standing: Standing,
    pub(super) queued: Option<Queued>,
    pub(super) is_in_queue: bool,
    /// Its number in the queue, also while it is taken and has not begun.
    pub(super) number: Option<u64>,
    pub(super) over_at: Option<i64>,
}

impl Several {
    pub(super) fn new(rule: ShareRule, clock: StoreClock) -> Several {
        let bounds = Bounds { running: usize::MAX, waiting: usize::MAX, per_engine: None, per_skill: None };
        Several {
            rule,
            clock,
            nodes: BTreeMap::new(),
            runs: BTreeMap::new(),
            queue: FairQueue::new(bounds),
            controls: Vec::new(),
            raw: HashMap::new(),
            files: BTreeSet::new(),
            records: MemoryRecords::default(),
            removed: Removed::default(),
            wakes: HashMap::new(),
            incarnations: 0,
        }
    }

    /// Whether this service may append to the run.
    pub(super) fn admit(&self, run: &RunId, author: Author) -> Result<(), Error> {
        let Some(row) = self.runs.get(run) else {
            return if author.epoch.is_some() { Err(Error::NotOwner) } else { Ok(()) };
        };
        let is_other = row.owner.is_some() && row.owner != author.incarnation;
        if is_other || author.epoch.is_some_and(|epoch| epoch != row.epoch) { Err(Error::NotOwner) } else { Ok(()) }
    }

    /// What an append changes; whether nobody owns the run now.
    pub(super) fn appended(&mut self, run: RunId, index: &[IndexChange], for_others: ForOthers) -> bool {
        for piece in for_others.raw {
            self.raw.entry((run, piece.stream)).or_default().insert(piece.from, piece.bytes);
        }
        if for_others.only_these {
            self.files.retain(|(_, of)| *of != run);
        }
        self.files.extend(for_others.files.into_iter().map(|file| (file, run)));
        let last = index.iter().rev().find_map(|change| match change {
            IndexChange::Put(IndexKey::Run(_), row) => Some(Some(row)),
            IndexChange::Delete(IndexKey::Run(_)) => Some(None),
            IndexChange::Put(..) | IndexChange::Delete(_) => None,
        });
        let now = (self.clock)();
        let row = self.runs.entry(run).or_default();
        if let Some(stored) = last {
            let labels = stored.and_then(|stored| Labels::of_row(stored));
            let standing = match (&labels, stored) {
                (Some(labels), Some(stored)) => Standing::of_row(stored, labels, &self.rule),
                _ => Standing::default(),
            };
            let status = labels.map(|labels| labels.status);
            let is_over = status.is_some_and(Status::is_final);
            let was_running = row.status == Some(Status::Running);
            let ends_turn = is_over || status == Some(Status::WaitingUser) || stored.is_none();
            if ends_turn || was_running && status.is_some_and(|status| status != Status::Running) {
                row.owner = None;
                self.queue.finished(run);
            }
            row.over_at = if is_over { row.over_at.or(Some(now)) } else { None };
            row.queued = standing.queued.clone().or(row.queued.take());
            (row.status, row.standing) = (status, standing);
            if !row.standing.waits {
                row.number = None;
            }
            if row.is_in_queue && !row.standing.waits {
                self.queue.remove(run);
                row.is_in_queue = false;
            }
        }
        let released = row.owner.is_none();
        self.enter_queue();
        if last.is_some() && released {
            self.wakes.values().for_each(|wake| wake.notify_one());
        }
        released
    }

    /// Runs whose time has come wait in the queue.
    pub(super) fn enter_queue(&mut self) {
        let now = (self.clock)();
        let mut due: Vec<(i64, RunId)> = (self.runs.iter())
            .filter(|(_, row)| row.standing.waits && row.owner.is_none() && !row.is_in_queue)
            .map(|(run, row)| (row.standing.not_before.unwrap_or(i64::MIN), *run))
            .filter(|(moment, _)| *moment <= now)
            .collect();
        due.sort_unstable();
        for (_, run) in due {
            if let Some(row) = self.runs.get_mut(&run)
                && let Some(queued) = &row.queued
            {
                let number = *row.number.get_or_insert_with(|| self.queue.number());
                self.queue.put_back(queued.ticket.clone(), number);
                row.is_in_queue = true;
            }
        }
    }

    pub(super) fn deleted(&mut self, run: &RunId, whole: bool) {
        self.raw.retain(|(of, _), _| of != run);
        if whole {
            self.files.retain(|(_, of)| of != run);
        }
        self.queue.remove(*run);
        self.queue.finished(*run);
        if let Some(row) = self.runs.get_mut(run) {
            *row = RunRow { epoch: row.epoch + 1, ..RunRow::default() };
        }
    }

    pub(super) fn raw(&self, run: &RunId, stream: Stream, from: u64, max_bytes: usize) -> Vec<RawPiece> {
        let mut pieces = Pieces::new(stream, from, max_bytes);
        for (begins, bytes) in self.raw.get(&(*run, stream)).into_iter().flatten() {
            if !pieces.add(*begins, bytes) {
                break;
            }
        }
        pieces.found
    }

    /// Leases whose time is over cannot be renewed.
    pub(super) fn end_leases(&mut self) {
        let now = (self.clock)();
        self.nodes.values_mut().filter(|node| node.lease_until <= now).for_each(|node| node.over = true);
    }

    pub(super) fn is_live(&self, incarnation: Uuid) -> bool {
        self.nodes.values().any(|node| node.incarnation == incarnation && !node.over)
    }

    /// Whether this service may take runs; [`Error::NotOwner`] if its lease is over.
    pub(super) fn may_take(&self, incarnation: Uuid) -> Result<bool, Error> {
        let now = (self.clock)();
        let node = self.nodes.values().find(|node| node.incarnation == incarnation && !node.over);
        let node = node.filter(|node| node.lease_until > now).ok_or(Error::NotOwner)?;
        Ok(node.info.works && !node.draining)
    }

    fn own(&mut self, run: RunId, incarnation: Uuid) -> Option<(RunId, i64)> {
        let row = self.runs.get_mut(&run)?;
        (row.owner, row.epoch, row.is_in_queue) = (Some(incarnation), row.epoch + 1, false);
        Some((run, row.epoch))
    }

    pub(super) fn take(&mut self, incarnation: Uuid, most: usize, bounds: &Bounds) -> Result<Vec<(RunId, i64)>, Error> {
        if !self.may_take(incarnation)? {
            return Ok(Vec::new());
        }
        self.enter_queue();
        self.queue.limit(bounds.per_engine, bounds.per_skill);
        let mut taken = Vec::new();
        while taken.len() < most {
            let key = |run: &RunId| self.runs.get(run)?.queued.as_ref()?.shared_key.clone();
            let owned: BTreeSet<String> =
                self.runs.iter().filter(|(_, row)| row.owner.is_some()).filter_map(|(run, _)| key(run)).collect();
            let next = self.queue.next_if(|ticket| key(&ticket.run).is_none_or(|key| !owned.contains(&key)));
            let Some(run) = next.map(|ticket| ticket.run) else { break };
            taken.extend(self.own(run, incarnation));
        }
        Ok(taken)
    }

    pub(super) fn take_abandoned(&mut self, incarnation: Uuid, most: usize) -> Result<Vec<(RunId, i64)>, Error> {
        // Whoever starts no runs can still say what became of them.
        self.may_take(incarnation)?;
        self.end_leases();
        let is_abandoned = |row: &RunRow| match row.owner {
            Some(owner) => !self.is_live(owner),
            None => row.status == Some(Status::Running),
        };
        let found: Vec<RunId> = self.runs.iter().filter(|(_, row)| is_abandoned(row)).map(|(run, _)| *run).collect();
        let mut taken = Vec::new();
        for run in found {
            let Some(row) = self.runs.get_mut(&run) else { continue };
            if row.standing.waits {
                (row.owner, row.epoch) = (None, row.epoch + 1);
                self.queue.finished(run);
            } else if taken.len() < most {
                taken.extend(self.own(run, incarnation));
            }
        }
        self.enter_queue();
        Ok(taken)
    }
}
