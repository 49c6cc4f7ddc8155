//! Several nodes on one stage: whose turn it is, what goes wrong when, and how time passes for all of them.

use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock, Weak};
use std::time::Duration;

use skill_runner::domain::fair_queue::ShareRule;
use skill_runner::orchestrator::Orchestrator;
use skill_runner::store::{MemoryStore, NodeId, StoreClock};
use uuid::Uuid;

use super::files::Kept;
use super::link::Link;
use super::node::{Common, Node, WallClock};
use super::workers::Workers;
use crate::clients::Client;
use crate::dice::Dice;
use crate::engines::Limits;
use crate::play::cut_power;
use crate::stage_set::StageSet;
use crate::world::{Sabotage, World};

/// The longest step in which nodes go on without each other.
const STEP_MAX: Duration = Duration::from_millis(250);
/// The same while nothing goes wrong.
pub const CALM_STEP_MAX: Duration = Duration::from_millis(600);
/// An engine whose service died ends within this time.
const ENGINE_ENDS_IN: u64 = 1_500;
/// How long a fault lasts that is aimed at an engine, in parts of a hundred of a lease: about where the service gives its lease up, where
/// shims kill, and where the lease ends.
const AIMED: &[u64] = &[45, 60, 78, 85, 97, 104, 115, 150, 300];
/// Longer than a lease.
const LONG: &[u64] = &[101, 110, 130, 170];

/// All nodes of a world.
pub struct Stage {
    pub common: Common,
    pub nodes: Vec<Node>,
    pub now: Duration,
    step: Duration,
    trace: usize,
    /// What is to happen, and when.
    pub(super) agenda: Vec<(Duration, Event)>,
    /// Clients at work.
    clients: Arc<AtomicUsize>,
    /// The node that the last fault met.
    pub(super) left_out: Option<usize>,
}

/// What happens at its time.
pub(super) enum Event {
    Start(usize),
    Resume(usize),
    Heal(usize),
    Hear(usize),
    FilesBack(usize),
    SpeedUp(usize),
    EngineEnds(u32),
    /// What a dead node had sent arrives, if it has not.
    Lands(usize),
}

/// What goes wrong.
#[derive(Debug, Clone, Copy)]
pub enum Fault {
    Crash,
    CrashSoon,
    LosesDisk,
    Pauses,
    StopsAsItSends,
    IsCutOff,
    IsDeaf,
    FilesAway,
    Slow,
    ClockJumps,
    IsToldToEnd,
}

struct Guard(Arc<AtomicUsize>);

impl Drop for Guard {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// The clock of the store: it never goes back, whichever node asks.
fn store_clock(world: &Arc<OnceLock<Weak<World>>>) -> StoreClock {
    let (world, last) = (world.clone(), AtomicI64::new(0));
    Arc::new(move || {
        let now = world.get().and_then(Weak::upgrade).map_or(0, |world| world.time());
        last.fetch_max(now, Ordering::Relaxed).max(now)
    })
}

impl Stage {
    pub fn build(set: &Arc<StageSet>, seed: u64, data: &Path, sabotage: Sabotage) -> Stage {
        let dice = Dice::new(seed ^ 0x5e7e_0000_0000_0000);
        let own: Arc<OnceLock<Weak<World>>> = Arc::default();
        let clock = store_clock(&own);
        let disk = MemoryStore::for_several(ShareRule { label: None, tokens: false }, clock.clone());
        let skills = dice.once_in(3).then(|| data.join("skills"));
        let world = Arc::new(World::with(dice, data.to_owned(), skills, disk, sabotage));
        let _ = own.set(Arc::downgrade(&world));
        let dice = &world.dice;
        let lease = Duration::from_secs(dice.pick(&[8, 10, 16]));
        let limit = |dice: &Dice| dice.weighted(&[(3, None), (1, Some(1)), (1, Some(2))]);
        let limits = Limits { per_engine: limit(dice), per_skill: limit(dice) };
        let all = [
            ("max_queued_jobs", dice.pick(&["3", "10"]).to_owned()),
            ("repair", dice.pick(&["true", "false"]).to_owned()),
            ("seal_grace_seconds", dice.pick(&["0", "2", "20"]).to_owned()),
            ("max_running_per_engine", limits.per_engine.unwrap_or(0).to_string()),
            ("max_running_per_skill", limits.per_skill.unwrap_or(0).to_string()),
        ];
        let workers = Workers::new(clock);
        let count = dice.weighted(&[(3, 2), (3, 3), (1, 4)]);
        let nodes: Vec<Node> = (1..=count)
            .map(|number| {
                let data = world.data.join(format!("n{number}"));
                let mut own = all.to_vec();
                own.push(("max_running_jobs", dice.pick(&["1", "1", "2"]).to_owned()));
                if world.skills.is_some() {
                    own.push(("skills_dir", data.join("skills").to_str().unwrap().to_owned()));
                }
                Node {
                    number,
                    settings: set.settings(&data, &own),
                    data,
                    id: NodeId(Uuid::from_u128(u128::from(dice.next()))),
                    link: Link::new(&world),
                    clock: Arc::new(WallClock { world: world.clone(), ahead: AtomicI64::new(0) }),
                    // The first always does.
                    works: number == 1 || !dice.once_in(6),
                    lease,
                    life: None,
                    paused: false,
                    resumed_at: Duration::ZERO,
                    gone: false,
                }
            })
            .collect();
        workers.connect(nodes.iter().map(|node| node.link.clone()).collect());
        let common = Common { world, set: set.clone(), workers, kept: Kept::default(), limits };
        Stage {
            common,
            nodes,
            now: Duration::ZERO,
            step: STEP_MAX,
            trace: 0,
            agenda: Vec::new(),
            clients: Arc::default(),
            left_out: None,
        }
    }

    pub fn world(&self) -> &Arc<World> {
        &self.common.world
    }

    pub fn lease(&self) -> Duration {
        self.nodes[0].lease
    }

    pub fn start(&mut self, at: usize) {
        let dice = &self.common.world.dice;
        let crash_at = dice.once_in(3).then(|| 1 + dice.below(dice.pick(&[30, 200, 600])));
        self.nodes[at].start(&self.common, self.now, crash_at);
    }

    fn later(&mut self, milliseconds: u64, event: Event) {
        self.agenda.push((self.now + Duration::from_millis(milliseconds), event));
    }

    /// One step of all nodes, in any order.
    pub fn step(&mut self) {
        let world = self.common.world.clone();
        // Where something happens, nodes meet each other's effects soon.
        let lines = world.lines();
        self.step = match lines == self.trace {
            true => (self.step * 2).min(if world.chaos() { STEP_MAX } else { CALM_STEP_MAX }),
            false => Duration::from_millis(world.dice.pick(&[1, 2, 5, 20, 60])),
        };
        self.trace = lines;
        let until = self.now + self.step;
        let mut order: Vec<usize> = (0..self.nodes.len()).collect();
        for at in (1..order.len()).rev() {
            order.swap(at, world.dice.below(at as u64 + 1) as usize);
        }
        for at in order {
            if self.nodes[at].live_until(&world, until) {
                self.crash(at, false);
            } else if self.nodes[at].life.as_ref().is_some_and(|life| life.ended.load(Ordering::Relaxed)) {
                self.ends(at);
            } else if self.nodes[at].link.is_stopped() {
                self.pause(at, world.dice.pick(LONG));
            }
        }
        self.now = until;
        world.set_time(until);
        if world.has_engines() {
            self.shims();
            self.common.workers.engines_hold_leases(&world);
        }
        if world.sabotage == Sabotage::LeasesNeverEnd {
            self.nodes.iter().for_each(|node| node.link.renew_for_ever());
        }
        self.due();
    }

    pub fn pass(&mut self, time: Duration) {
        let until = self.now + time;
        while self.now < until {
            self.step();
        }
    }

    /// Shims kill engines at the end of the lease, whatever their service does.
    fn shims(&mut self) {
        let world = self.common.world.clone();
        if world.sabotage == Sabotage::ShimsSleep {
            return;
        }
        for (pid, engine) in world.engines() {
            let until = engine.lease.as_ref().and_then(|lease| *lease.borrow());
            let node = self.nodes.iter().find(|node| node.number == engine.node);
            if until.zip(node).and_then(|(until, node)| node.moment(until)).is_some_and(|until| until <= self.now) {
                let name = world.name(engine.run);
                world.note(format!("the shim kills engine {pid} of {name}"));
                if node.is_some_and(|node| node.awake_for(self.now) > node.lease) {
                    world.violated(format!("a service that is awake leaves engine {pid} of {name} to its shim"));
                }
                world.engine_ends(pid);
                engine.killed.notify_one();
            }
        }
    }

    fn due(&mut self) {
        let mut due = Vec::new();
        for (moment, event) in std::mem::take(&mut self.agenda) {
            if moment <= self.now { due.push(event) } else { self.agenda.push((moment, event)) }
        }
        due.into_iter().for_each(|event| self.happens(event));
    }

    fn happens(&mut self, event: Event) {
        let world = self.common.world.clone();
        match event {
            Event::Start(at) if self.nodes[at].life.is_none() => self.start(at),
            Event::Start(_) => {}
            Event::Resume(at) => self.resume(at),
            Event::Heal(at) => self.nodes[at].link.cut(false),
            Event::Hear(at) => self.nodes[at].link.deafen(false),
            Event::FilesBack(at) => self.nodes[at].link.take_files_away(false),
            Event::SpeedUp(at) => self.nodes[at].link.slow_down(0),
            Event::EngineEnds(pid) => world.engine_ends(pid),
            Event::Lands(at) => self.nodes[at].link.drifts_in(true),
        }
    }

    pub(super) fn resume(&mut self, at: usize) {
        if self.nodes[at].paused {
            let world = self.common.world.clone();
            world.note(format!(
                "n{} goes on{}",
                at + 1,
                if self.lost_lease(at) { ", and its lease is over" } else { "" }
            ));
            self.nodes[at].resume(&world, self.now);
        }
    }

    fn lost_lease(&self, at: usize) -> bool {
        self.common.workers.has_lost_lease(at + 1)
    }

    /// Its processes are stopped for so many parts of a lease, but for the shims.
    fn pause(&mut self, at: usize, percent: u64) {
        self.nodes[at].paused = true;
        self.later(self.lease().as_millis() as u64 * percent / 100, Event::Resume(at));
    }

    /// Nodes on which an engine works.
    pub fn busy_nodes(&self) -> Vec<usize> {
        if !self.common.world.has_engines() {
            return Vec::new();
        }
        let engines = self.common.world.engines();
        let works = |at: &usize| engines.iter().any(|(_, engine)| engine.begun && engine.node == at + 1);
        (0..self.nodes.len()).filter(|at| self.nodes[*at].answers()).filter(works).collect()
    }

    /// Nodes on which a client installs a package.
    pub fn installing_nodes(&self) -> Vec<usize> {
        let book = self.common.world.book.lock().unwrap();
        let installs = |at: &usize| book.installing.get(&(at + 1)).is_some_and(|count| *count > 0);
        (0..self.nodes.len()).filter(|at| self.nodes[*at].answers()).filter(installs).collect()
    }

    /// A node dies.
    pub fn crash(&mut self, at: usize, loses_disk: bool) {
        let world = self.common.world.clone();
        let dice = &world.dice;
        if self.nodes[at].life.is_none() {
            return;
        }
        let mine: Vec<_> = world.engines().into_iter().filter(|(_, engine)| engine.node == at + 1).collect();
        world.note(format!("n{} is dead{}", at + 1, if loses_disk { ", and its disk is gone" } else { "" }));
        self.nodes[at].end(&world);
        self.common.workers.dies(at + 1);
        let power_cut = loses_disk || dice.once_in(3);
        if self.nodes[at].link.is_left_adrift() {
            match dice.below(4) {
                0 => self.nodes[at].link.drifts_in(false),
                1 => self.happens(Event::Lands(at)),
                2 => self.later(dice.below(3_000), Event::Lands(at)),
                // When its run is taken over, or long after.
                _ => self.later(2 * self.lease().as_millis() as u64, Event::Lands(at)),
            }
        }
        for (pid, engine) in mine {
            if power_cut && !loses_disk {
                cut_power(&world, &engine);
            }
            match power_cut {
                true => world.engine_ends(pid),
                false => self.later(dice.below(ENGINE_ENDS_IN), Event::EngineEnds(pid)),
            }
        }
        if loses_disk {
            let _ = fs::remove_dir_all(&self.nodes[at].data);
            self.nodes[at].id = NodeId(Uuid::from_u128(u128::from(dice.next())));
        }
        let down = dice.pick(&[0, 500, 3_000, 30_000]);
        self.later(down, Event::Start(at));
    }

    /// A node has ended in good order, or did not start.
    fn ends(&mut self, at: usize) {
        let world = self.common.world.clone();
        if world.engines().iter().any(|(_, engine)| engine.node == at + 1) && self.nodes[at].service().is_some() {
            world.violated("an engine outlives the orderly end of its service");
        }
        self.nodes[at].end(&world);
        self.common.workers.leaves(at + 1);
        let down = world.dice.pick(&[0, 500, 20_000]);
        self.later(down, Event::Start(at));
    }

    /// Something goes wrong.
    pub fn fault(&mut self, fault: Fault) {
        let world = self.common.world.clone();
        let dice = &world.dice;
        let (mut busy, installing) = (self.busy_nodes(), self.installing_nodes());
        let at_install = !installing.is_empty() && !dice.once_in(4);
        if at_install {
            busy = installing;
        }
        let aimed = at_install || !busy.is_empty() && !dice.once_in(4);
        let at = if aimed { dice.pick(&busy) } else { dice.below(self.nodes.len() as u64) as usize };
        let lease = self.lease().as_millis() as u64;
        let percent = if aimed { dice.pick(AIMED) } else { dice.pick(&[5, 33, 33, 150, 300]) };
        let lasts = lease * percent / 100;
        if self.nodes[at].life.is_none() {
            return;
        }
        let aim = match (aimed, at_install) {
            (_, true) => ", where a package is installed",
            (true, false) => ", where an engine works",
            (false, false) => "",
        };
        world.note(format!("FAULT {fault:?} n{}{aim}", at + 1));
        match fault {
            Fault::Crash => self.crash(at, false),
            Fault::LosesDisk => self.crash(at, true),
            Fault::CrashSoon => {
                if let Some(life) = self.nodes[at].life.as_mut() {
                    life.crash_within(1 + dice.below(40));
                }
            }
            Fault::Pauses => self.pause(at, percent),
            Fault::StopsAsItSends => self.nodes[at].link.stop_at_send(),
            Fault::IsCutOff => {
                self.nodes[at].link.cut(true);
                self.later(lasts, Event::Heal(at));
            }
            Fault::IsDeaf => {
                self.nodes[at].link.deafen(true);
                self.later(lasts * 3, Event::Hear(at));
            }
            Fault::FilesAway => {
                let all = dice.once_in(2);
                for at in (0..self.nodes.len()).filter(|other| all || *other == at) {
                    self.nodes[at].link.take_files_away(true);
                    self.later(lasts, Event::FilesBack(at));
                }
            }
            Fault::Slow => {
                self.nodes[at].link.slow_down(dice.pick(&[50, 800, 4_000]));
                self.later(lasts * 2, Event::SpeedUp(at));
            }
            Fault::ClockJumps => {
                let ahead: i64 = dice.pick(&[-15, -2, 0, 2, 20]);
                self.nodes[at].clock.ahead.store(ahead * 1_000_000, Ordering::Relaxed);
            }
            Fault::IsToldToEnd => {
                let (Some(service), Some(life)) = (self.nodes[at].service(), &mut self.nodes[at].life) else { return };
                life.ending = true;
                let (ended, grace) = (life.ended.clone(), dice.pause());
                self.nodes[at].spawn(async move {
                    service.drain(grace).await;
                    ended.store(true, Ordering::Relaxed);
                });
            }
        }
    }

    /// A client goes to a node that answers.
    pub fn send_client(&mut self, acts: u64) {
        let Some(at) = self.any_that_answers() else { return };
        if let Some(client) = self.client(at) {
            self.busy(at, async move { client.act(acts).await });
        }
    }

    /// The same creation reaches two nodes at once, with a key or as two equal runs.
    pub fn send_twins(&mut self) {
        let (Some(one), Some(other)) = (self.any_that_answers(), self.any_that_answers()) else { return };
        let world = self.common.world.clone();
        let key = world.dice.once_in(2).then(|| format!("key-{}", world.book.lock().unwrap().number()));
        let body = Client::twin_body();
        for at in [one, other] {
            if let Some(client) = self.client(at) {
                let (body, key) = (body.clone(), key.clone());
                self.busy(at, async move { _ = client.create_with(body, key).await });
            }
        }
    }

    pub fn any_that_answers(&self) -> Option<usize> {
        let answer: Vec<usize> = (0..self.nodes.len()).filter(|at| self.nodes[*at].answers()).collect();
        if answer.is_empty() { None } else { Some(self.common.world.dice.pick(&answer)) }
    }

    pub fn client(&self, at: usize) -> Option<Client> {
        let service = self.nodes[at].service()?;
        Some(Client { world: self.common.world.clone(), service, set: self.common.set.clone() })
    }

    /// Does something on a node, and knows when it is over.
    pub fn busy(&self, at: usize, work: impl Future<Output = ()> + Send + 'static) {
        self.clients.fetch_add(1, Ordering::Relaxed);
        let guard = Guard(self.clients.clone());
        self.nodes[at].spawn(async move {
            let _guard = guard;
            work.await;
        });
    }

    pub fn clients(&self) -> usize {
        self.clients.load(Ordering::Relaxed)
    }

    /// Does something on a node and waits for it; `None` if that takes too long.
    pub fn on_node<T: Send + 'static, F: Future<Output = T> + Send + 'static>(
        &mut self,
        at: usize,
        work: impl FnOnce(Orchestrator) -> F,
    ) -> Option<T> {
        let service = self.nodes[at].service()?;
        let (found, done) = (Arc::new(Mutex::new(None)), Arc::new(AtomicBool::new(false)));
        let (work, kept, over) = (work(service), found.clone(), done.clone());
        self.nodes[at].spawn(async move {
            let value = work.await;
            *kept.lock().unwrap() = Some(value);
            over.store(true, Ordering::Relaxed);
        });
        let until = self.now + Duration::from_secs(600);
        while !done.load(Ordering::Relaxed) && self.now < until {
            self.step();
        }
        found.lock().unwrap().take()
    }
}
