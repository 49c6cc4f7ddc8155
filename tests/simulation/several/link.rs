//! The way of one node to the store and to the shared files: whole, cut, slow, and deaf at times.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use skill_runner::domain::ids::RunId;
use skill_runner::store::{AppendResult, Cluster, Error, MemoryNode, NodeLoad};
use tokio::sync::Notify;
use tokio::time::Instant;

use crate::store::ready;
use crate::world::World;

/// How long a question waits for a store that is away.
const PATIENCE: Duration = Duration::from_secs(60);

/// What an append does when it reaches the store.
pub type Commit = Box<dyn FnOnce() -> AppendResult + Send>;

/// The way of one node; it outlives the node's lives.
pub struct Link {
    pub world: Arc<World>,
    state: Mutex<State>,
    member: Mutex<Option<Arc<MemoryNode>>>,
    /// Told when the way is whole again; those who wait go on in the order in which they came.
    whole: Notify,
    /// Told when heads of logs may have changed.
    pub heads: Notify,
}

#[derive(Default)]
struct State {
    cut: bool,
    /// Wakes are lost on the way.
    deaf: bool,
    files_away: bool,
    /// Most milliseconds that a question takes.
    slowness: u64,
    /// Runs whose heads changed, as far as that was told.
    changed: BTreeSet<RunId>,
    /// The append that is being committed.
    in_flight: Option<(RunId, Cargo)>,
    /// What lives that are over had sent, and has not arrived.
    adrift: Vec<(RunId, Commit)>,
    /// The node is stopped when it sends its next append.
    stops_at_send: bool,
    /// It has sent it.
    stopped: bool,
}

/// An append on its way.
enum Cargo {
    Sent(Commit),
    /// It has arrived, and its node does not know it yet.
    Arrived(AppendResult),
}

impl Link {
    pub fn new(world: &Arc<World>) -> Arc<Link> {
        Arc::new(Link {
            world: world.clone(),
            state: Mutex::default(),
            member: Mutex::default(),
            whole: Notify::new(),
            heads: Notify::new(),
        })
    }

    pub fn cut(&self, cut: bool) {
        self.state.lock().unwrap().cut = cut;
        if !cut {
            self.whole.notify_waiters();
        }
    }

    pub fn is_cut(&self) -> bool {
        self.state.lock().unwrap().cut
    }

    pub fn deafen(&self, deaf: bool) {
        self.state.lock().unwrap().deaf = deaf;
    }

    pub fn take_files_away(&self, away: bool) {
        self.state.lock().unwrap().files_away = away;
    }

    pub fn files_away(&self) -> bool {
        self.state.lock().unwrap().files_away
    }

    pub fn slow_down(&self, slowness: u64) {
        self.state.lock().unwrap().slowness = slowness;
    }

    /// Everything is as it should be.
    pub fn heal(&self) {
        self.cut(false);
        let mut state = self.state.lock().unwrap();
        (state.deaf, state.files_away, state.slowness) = (false, false, 0);
        (state.stops_at_send, state.stopped) = (false, false);
    }

    pub fn takes_off(&self, run: RunId, commit: Commit) {
        self.state.lock().unwrap().in_flight = Some((run, Cargo::Sent(commit)));
    }

    /// What was sent arrives, unless it has already.
    pub fn lands(&self) -> Option<AppendResult> {
        let cargo = self.state.lock().unwrap().in_flight.take();
        cargo.map(|(_, cargo)| match cargo {
            Cargo::Sent(commit) => commit(),
            Cargo::Arrived(outcome) => outcome,
        })
    }

    /// The node is dead: what it had sent may still arrive. Whether there is any.
    pub fn is_left_adrift(&self) -> bool {
        let mut state = self.state.lock().unwrap();
        match state.in_flight.take() {
            Some((run, Cargo::Sent(commit))) => {
                state.adrift.push((run, commit));
                true
            }
            Some((_, Cargo::Arrived(_))) | None => false,
        }
    }

    /// What was adrift arrives, or never does.
    pub fn drifts_in(&self, arrives: bool) {
        let adrift = std::mem::take(&mut self.state.lock().unwrap().adrift);
        for (_, commit) in adrift.into_iter().filter(|_| arrives) {
            self.world.note("what a dead node had sent arrives");
            let _ = commit();
        }
    }

    /// What was sent to this run's log, and is late, arrives now.
    pub fn arrives_late(&self, run: RunId) {
        let mut state = self.state.lock().unwrap();
        let found = state.adrift.iter().position(|(of, _)| *of == run);
        let drifting = found.map(|at| state.adrift.remove(at).1);
        let sent = match state.in_flight.take() {
            Some((of, Cargo::Sent(commit))) if of == run => Some(commit),
            other => {
                state.in_flight = other;
                None
            }
        };
        drop(state);
        if drifting.is_some() || sent.is_some() {
            self.world.note("what an earlier owner had sent arrives now");
        }
        drifting.into_iter().for_each(|commit| drop(commit()));
        if let Some(commit) = sent {
            let outcome = commit();
            self.state.lock().unwrap().in_flight = Some((run, Cargo::Arrived(outcome)));
        }
    }

    /// The node is to be stopped in the middle of its next append.
    pub fn stop_at_send(&self) {
        self.state.lock().unwrap().stops_at_send = true;
    }

    /// It sends one: whether it is stopped now.
    pub fn stops(&self) -> bool {
        let mut state = self.state.lock().unwrap();
        let stops = std::mem::take(&mut state.stops_at_send);
        state.stopped |= stops;
        stops
    }

    /// Whether it has to be stopped now; told once.
    pub fn is_stopped(&self) -> bool {
        std::mem::take(&mut self.state.lock().unwrap().stopped)
    }

    /// The view of the store in the node's last life.
    pub fn serves(&self, member: &Arc<MemoryNode>) {
        *self.member.lock().unwrap() = Some(member.clone());
    }

    /// Its lease is renewed, whatever became of it.
    pub fn renew_for_ever(&self) {
        if let Some(member) = &*self.member.lock().unwrap() {
            let _ = ready(member.renew(NodeLoad::default()));
        }
    }

    /// Whether a wake that comes now is lost.
    pub fn loses_wake(&self) -> bool {
        let lost = self.is_cut() || self.state.lock().unwrap().deaf || self.world.chaos() && self.world.dice.once_in(8);
        if lost {
            self.world.note("a wake is lost");
        }
        lost
    }

    /// The head of a log has changed.
    pub fn head_changed(&self, run: RunId) {
        if self.loses_wake() {
            return;
        }
        self.state.lock().unwrap().changed.insert(run);
        self.heads.notify_one();
    }

    pub fn changed(&self) -> BTreeSet<RunId> {
        std::mem::take(&mut self.state.lock().unwrap().changed)
    }

    /// Waits until the store can be reached.
    pub async fn until_whole(&self) {
        while self.is_cut() {
            self.whole.notified().await;
        }
    }

    /// A question reaches the store, or does not.
    pub async fn reach(&self) -> Result<(), Error> {
        let dice = &self.world.dice;
        if !self.is_cut() {
            if self.world.chaos() && dice.once_in(300) {
                self.world.note("a question is lost");
                return Err(away());
            }
            self.pause().await;
            return Ok(());
        }
        self.world.note("a question finds the store away");
        let patience = if dice.once_in(2) { PATIENCE } else { Duration::from_millis(dice.below(3000)) };
        tokio::time::timeout(patience, self.until_whole()).await.map_err(|_| away())
    }

    /// Waits for so long, or until nothing goes wrong any more.
    pub async fn linger(&self, milliseconds: u64) {
        let until = Instant::now() + Duration::from_millis(milliseconds);
        while self.world.chaos() && Instant::now() < until {
            tokio::time::sleep_until(until.min(Instant::now() + Duration::from_millis(500))).await;
        }
    }

    /// An answer takes its time: what it says may be old when it comes.
    pub async fn pause(&self) {
        let slowness = self.state.lock().unwrap().slowness;
        if slowness > 0 && self.world.chaos() && self.world.dice.once_in(4) {
            self.linger(self.world.dice.below(slowness)).await;
        }
    }
}

pub fn away() -> Error {
    let cause: Box<dyn std::error::Error + Send + Sync> = "the store is away".into();
    Error::Unreachable { source: cause.into() }
}
