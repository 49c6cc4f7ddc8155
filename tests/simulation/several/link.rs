//! The way of one node to the store and to the shared files: whole, cut, slow, and deaf at times.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use skill_runner::domain::ids::RunId;
use skill_runner::store::{AppendResult, Error};
use tokio::sync::Notify;
use tokio::time::Instant;

use crate::world::World;

/// How long a question waits for a store that is away.
const PATIENCE: Duration = Duration::from_secs(60);

/// What an append does when it reaches the store.
pub type Commit = Box<dyn FnOnce() -> AppendResult + Send>;

/// The way of one node; it outlives the node's lives.
pub struct Link {
    pub world: Arc<World>,
    state: Mutex<State>,
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
    in_flight: Option<Commit>,
}

impl Link {
    pub fn new(world: &Arc<World>) -> Arc<Link> {
        Arc::new(Link { world: world.clone(), state: Mutex::default(), whole: Notify::new(), heads: Notify::new() })
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
    }

    pub fn takes_off(&self, commit: Commit) {
        self.state.lock().unwrap().in_flight = Some(commit);
    }

    pub fn lands(&self) -> Option<Commit> {
        self.state.lock().unwrap().in_flight.take()
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
