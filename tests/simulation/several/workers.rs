//! Who works on which run, as seen from outside: of every turn one worker's effects alone may be in the log.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock};
use std::time::Duration;

use serde_json::Value;
use skill_runner::domain::ids::{RunId, Seq};
use skill_runner::domain::statechart::Status;
use skill_runner::domain::time::Timestamp;
use skill_runner::fcmp::LogHead;
use skill_runner::store::{Append, EventBatch, IndexChange, IndexKey, StoreClock};

use super::link::Link;
use crate::world::World;

/// A node, and which of its leases.
pub type WorkerId = (usize, u64);

pub struct Workers {
    /// The store's.
    clock: StoreClock,
    links: OnceLock<Vec<Arc<Link>>>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    nodes: BTreeMap<usize, Lease>,
    /// When the lease of each ended, or ends, by the store's clock.
    ends: BTreeMap<WorkerId, i64>,
    /// Who owns a run, by what the store has given and taken.
    owners: BTreeMap<RunId, WorkerId>,
    /// Engines that were let go, and in whose name.
    engines: BTreeMap<u32, WorkerId>,
    turns: BTreeMap<RunId, Turn>,
    orphans: Vec<(RunId, Seq)>,
    /// Where each run had its last turn.
    last: BTreeMap<RunId, usize>,
    /// Before when a run may not be begun again, by the store's clock.
    not_before: BTreeMap<RunId, i64>,
}

#[derive(Default)]
struct Lease {
    number: u64,
    lasts: i64,
    until: i64,
    dead: bool,
}

/// A turn under way.
struct Turn {
    worker: WorkerId,
    /// Those from whom it was taken.
    before: Vec<WorkerId>,
    head: Seq,
}

impl State {
    /// Whether others may go on with what this one worked on.
    fn is_over(&self, worker: WorkerId, now: i64) -> bool {
        let lease = self.nodes.get(&worker.0);
        lease.is_none_or(|lease| lease.dead || lease.number != worker.1 || lease.until <= now)
    }
}

impl Workers {
    pub fn new(clock: StoreClock) -> Arc<Workers> {
        Arc::new(Workers { clock, links: OnceLock::new(), state: Mutex::default() })
    }

    /// The ways of all nodes, by their numbers from 1 on.
    pub fn connect(&self, links: Vec<Arc<Link>>) {
        let _ = self.links.set(links);
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }

    /// A life of a node begins; it has no lease yet.
    pub fn begins(&self, node: usize) {
        self.state().nodes.entry(node).or_default().dead = true;
    }

    /// In whose name a node writes now.
    pub fn id(&self, node: usize) -> WorkerId {
        (node, self.state().nodes.get(&node).map_or(0, |lease| lease.number))
    }

    pub fn joins(&self, world: &World, lease: Duration) {
        let lasts = lease.as_micros() as i64;
        let until = (self.clock)() + lasts;
        let mut state = self.state();
        let node = world.node();
        let kept = state.nodes.entry(node).or_default();
        let number = kept.number + 1;
        *kept = Lease { number, lasts, until, dead: false };
        // Whatever it had before is over, and what it owned may be taken.
        state.ends.entry((node, number - 1)).and_modify(|end| *end = until - lasts);
        state.ends.insert((node, number), until);
    }

    pub fn renews(&self, world: &World) {
        let (node, now) = (world.node(), (self.clock)());
        let mut state = self.state();
        let Some(lease) = state.nodes.get_mut(&node) else { return };
        let ended = lease.until <= now;
        lease.until = now + lease.lasts;
        let (worker, until) = ((node, lease.number), lease.until);
        state.ends.insert(worker, until);
        drop(state);
        if ended {
            world.violated(format!("n{node} renews a lease that has ended"));
        }
    }

    pub fn leaves(&self, node: usize) {
        if let Some(lease) = self.state().nodes.get_mut(&node) {
            lease.dead = true;
        }
    }

    /// Whether the lease of a node is over, and it may not know.
    pub fn has_lost_lease(&self, node: usize) -> bool {
        let state = self.state();
        state.nodes.get(&node).is_some_and(|lease| state.is_over((node, lease.number), (self.clock)()))
    }

    /// Runs were given to a node.
    pub fn took(&self, world: &World, runs: &[RunId]) {
        let worker = self.id(world.node());
        self.state().owners.extend(runs.iter().map(|run| (*run, worker)));
        for run in runs {
            self.others_are_late(world, *run);
        }
    }

    /// Runs were taken over by a node.
    pub fn took_over(&self, world: &World, runs: &[RunId]) {
        for run in runs {
            if world.engines().iter().any(|(_, engine)| engine.run == *run && engine.begun) {
                world.violated(format!("{} is taken over while its engine lives", world.name(*run)));
            }
            if self.state().turns.contains_key(run) {
                world.note(format!("{} is taken over in a turn", world.name(*run)));
            }
        }
        self.took(world, runs);
    }

    pub fn gives_back(&self, world: &World, run: RunId) {
        let worker = self.id(world.node());
        let mut state = self.state();
        if state.owners.get(&run) == Some(&worker) {
            state.owners.remove(&run);
        }
    }

    /// What others had sent to the run's log arrives now, at times: they are late.
    fn others_are_late(&self, world: &World, run: RunId) {
        let here = world.node();
        for (_, link) in (1..).zip(self.links.get().into_iter().flatten()).filter(|(node, _)| *node != here) {
            if world.chaos() && !world.dice.once_in(4) {
                link.arrives_late(run);
            }
        }
    }

    /// No engine lives longer than the lease in whose name it was let go, by the store's clock.
    pub fn engines_hold_leases(&self, world: &World) {
        let now = (self.clock)();
        let mut state = self.state();
        let alive = world.engines();
        state.engines.retain(|pid, _| alive.iter().any(|(other, _)| other == pid));
        let late = |pid: &u32| {
            let worker = state.engines.get(pid)?;
            state.ends.get(worker).filter(|end| **end <= now)
        };
        let late: Vec<_> = alive.iter().filter(|(pid, _)| late(pid).is_some()).collect();
        let told: Vec<String> = (late.iter())
            .map(|(pid, engine)| format!("engine {pid} of {} outlives its lease", world.name(engine.run)))
            .collect();
        let gone: Vec<u32> = late.iter().map(|(pid, _)| *pid).collect();
        // Each is told of once.
        state.engines.retain(|pid, _| !gone.contains(pid));
        drop(state);
        told.into_iter().for_each(|words| world.violated(words));
    }

    /// A node died: what it worked on is to be recovered.
    pub fn dies(&self, node: usize) {
        self.leaves(node);
        let mut state = self.state();
        let left: Vec<(RunId, Seq)> =
            state.turns.iter().filter(|(_, turn)| turn.worker.0 == node).map(|(run, turn)| (*run, turn.head)).collect();
        state.orphans.extend(left);
    }

    /// Runs that lost their node, and the last event before that.
    pub fn orphans(&self) -> Vec<(RunId, Seq)> {
        self.state().orphans.clone()
    }

    /// Runs on which somebody works who is gone.
    pub fn abandoned(&self) -> Vec<RunId> {
        let now = (self.clock)();
        let state = self.state();
        state.turns.iter().filter(|(_, turn)| state.is_over(turn.worker, now)).map(|(run, _)| *run).collect()
    }

    /// An engine is let go on the node that has its turn.
    pub fn engine_goes(&self, world: &World, pid: u32, run: RunId) {
        let (node, now) = (world.node(), (self.clock)());
        let mut state = self.state();
        let may = state.turns.get(&run).is_some_and(|turn| turn.worker.0 == node && !state.is_over(turn.worker, now));
        if let Some(worker) = state.turns.get(&run).map(|turn| turn.worker) {
            state.engines.insert(pid, worker);
        }
        drop(state);
        if !may {
            world.violated(format!("an engine of {} is let go where nobody works on it", world.name(run)));
        }
    }

    /// An append became durable.
    pub fn appended(&self, world: &Arc<World>, by: WorkerId, head: Seq, append: &Append) {
        let run = append.run;
        for (_, link) in (1..).zip(self.links.get().into_iter().flatten()).filter(|(node, _)| *node != by.0) {
            link.head_changed(run);
        }
        let row = append.index.iter().find_map(|change| match change {
            IndexChange::Put(IndexKey::Run(_), row) => LogHead::from_row(row).ok(),
            IndexChange::Put(..) | IndexChange::Delete(_) => None,
        });
        let Some(status) = row.map(|row| row.state.status()) else { return };
        let name = world.name(run);
        if status.is_final() && world.engines().iter().any(|(_, engine)| engine.run == run && engine.begun) {
            world.violated(format!("{name} is final and its engine lives"));
        }
        let begins = append.events.iter().flat_map(EventBatch::events).any(|(_, event)| is_turn_start(&event));
        let now = (self.clock)();
        let mut state = self.state();
        let mut wrong = None;
        state.not_before.extend(append.events.iter().filter_map(not_before).map(|moment| (run, moment)));
        if begins && state.not_before.remove(&run).is_some_and(|moment| now < moment) {
            wrong = Some(format!("{name} is begun again too early"));
        }
        if let Some(owner) = state.owners.get(&run).copied()
            && owner != by
            && !state.is_over(owner, now)
        {
            wrong = Some(format!("{name}: n{} writes, and n{} owns it", by.0, owner.0));
        }
        if status != Status::Running && state.turns.contains_key(&run) || status.is_final() {
            state.owners.remove(&run);
        }
        let mut before = Vec::new();
        if let Some(turn) = state.turns.get(&run)
            && turn.worker != by
        {
            if turn.before.contains(&by) {
                wrong = Some(format!("{name}: n{} writes after n{} has taken it over", by.0, turn.worker.0));
            } else if !state.is_over(turn.worker, now) {
                wrong = Some(format!("{name}: n{} writes while n{} works on it", by.0, turn.worker.0));
            }
            before = turn.before.clone();
            before.push(turn.worker);
            world.note(format!("{name} is taken over from n{} by n{}", turn.worker.0, by.0));
        }
        match status {
            Status::Running if begins => {
                if state.turns.contains_key(&run) {
                    wrong = Some(format!("{name}: a turn begins in a turn"));
                }
                state.turns.insert(run, Turn { worker: by, before: Vec::new(), head });
                if state.last.insert(run, by.0).is_some_and(|node| node != by.0) {
                    let resumed = append.events.iter().any(|batch| contains(&batch.ndjson, b"\"resumed_from\":\""));
                    let how = if resumed { "resumed on another node" } else { "was begun on another node before" };
                    world.note(format!("{name} {how}"));
                }
            }
            Status::Running => match state.turns.get_mut(&run) {
                Some(turn) if before.is_empty() => turn.head = head,
                Some(_) | None => drop(state.turns.insert(run, Turn { worker: by, before, head })),
            },
            _ => drop(state.turns.remove(&run)),
        }
        // What a dead node had sent may still have arrived.
        let arrived = state.nodes.get(&by.0).is_none_or(|lease| lease.dead || lease.number != by.1);
        if arrived {
            let running = status == Status::Running;
            state.orphans.retain(|(orphan, _)| *orphan != run || running);
            state.orphans.iter_mut().filter(|(orphan, _)| *orphan == run).for_each(|(_, last)| *last = head);
        }
        drop(state);
        if let Some(wrong) = wrong {
            world.violated(wrong);
        }
    }
}

/// The moment before which a turn may not be begun again, if one of the events says so.
fn not_before(batch: &EventBatch) -> Option<i64> {
    let events = batch.events().filter(|(_, event)| contains(event, b"\"type\":\"run.retry.scheduled\""));
    let moment = |event: &[u8]| {
        let event: Value = serde_json::from_slice(event).unwrap();
        serde_json::from_value::<Timestamp>(event["data"]["not_before"].clone()).unwrap().as_micros()
    };
    events.map(|(_, event)| moment(&event)).last()
}

fn is_turn_start(event: &[u8]) -> bool {
    contains(event, b"\"type\":\"turn.started\"")
}

fn contains(bytes: &[u8], part: &[u8]) -> bool {
    bytes.windows(part.len()).any(|window| window == part)
}
