//! One of several nodes: a whole service with its own disk, clock, engines and runtime.

use std::fs;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use skill_runner::domain::causes::chain;
use skill_runner::domain::time::Timestamp;
use skill_runner::orchestrator::{Blocking, Clock, Environment, Member, Orchestrator};
use skill_runner::registry::Registry;
use skill_runner::settings::Settings;
use skill_runner::store::{NodeId, NodeInfo};
use tokio::runtime::Runtime;
use tokio::sync::Notify;
use tokio::time::Instant;
use uuid::Uuid;

use super::files::{Files, Kept};
use super::link::Link;
use super::store::NodeStore;
use super::workers::Workers;
use crate::engines::{Limits, Players};
use crate::play::Steps;
use crate::stage_set::StageSet;
use crate::world::{Life, World};

/// The clock on a node's wall: it may jump.
pub struct WallClock {
    pub world: Arc<World>,
    /// Microseconds that it is ahead.
    pub ahead: AtomicI64,
}

impl Clock for WallClock {
    fn now(&self) -> Timestamp {
        Timestamp::from_micros(self.world.time() + self.ahead.load(Ordering::Relaxed))
    }

    fn new_id(&self) -> Uuid {
        self.world.new_id()
    }
}

/// A node, alive or not.
pub struct Node {
    /// From 1 on.
    pub number: usize,
    pub data: PathBuf,
    pub id: NodeId,
    pub link: Arc<Link>,
    pub clock: Arc<WallClock>,
    pub settings: Settings,
    /// Whether it starts runs.
    pub works: bool,
    pub lease: Duration,
    pub life: Option<NodeLife>,
    /// Its processes are stopped, but for the shims.
    pub paused: bool,
    /// When it was stopped last, or its life began: how long it was awake since then tells what it could do.
    pub resumed_at: Duration,
    /// It never comes back.
    pub gone: bool,
}

/// What all nodes have in common.
pub struct Common {
    pub world: Arc<World>,
    pub set: Arc<StageSet>,
    pub workers: Arc<Workers>,
    pub kept: Kept,
    pub limits: Limits,
}

/// One life of a node.
pub struct NodeLife {
    runtime: Option<Runtime>,
    life: Life,
    lights_out: Arc<Notify>,
    began: Instant,
    /// The world's time then.
    began_at: Duration,
    /// Its service, once it has started.
    pub service: Arc<Mutex<Option<Orchestrator>>>,
    /// It has ended as it should, or could not start.
    pub ended: Arc<AtomicBool>,
    /// It was told to end.
    pub ending: bool,
}

impl NodeLife {
    /// It crashes before one of its next effects.
    pub fn crash_within(&mut self, effects: u64) {
        self.life.crash_within(effects);
    }
}

impl Node {
    pub fn service(&self) -> Option<Orchestrator> {
        self.life.as_ref().and_then(|life| life.service.lock().unwrap().clone())
    }

    /// Whether it can be asked.
    pub fn answers(&self) -> bool {
        !self.paused && self.service().is_some()
    }

    /// Its folder of skills, if packages are installed in this world.
    pub fn own_skills(&self, world: &World) -> Option<PathBuf> {
        world.skills.as_ref().map(|_| self.data.join("skills"))
    }

    /// Begins a life at this moment; it crashes at this effect, if at any.
    pub fn start(&mut self, common: &Common, now: Duration, crash_at: Option<u64>) {
        let world = &common.world;
        fs::create_dir_all(&self.data).unwrap();
        if let Some(skills) = self.own_skills(world).filter(|skills| !skills.exists()) {
            common.set.copy_skills(&skills);
        }
        self.resumed_at = now;
        world.note(format!("n{} starts", self.number));
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
        let (life, lights_out, began) = {
            let _inside = runtime.enter();
            let (life, lights_out) = world.new_life(self.number, crash_at);
            (life, lights_out, Instant::now())
        };
        let (service, ended) = (Arc::new(Mutex::new(None)), Arc::new(AtomicBool::new(false)));
        runtime.spawn(begin(Beginning::of(self, common), service.clone(), ended.clone()));
        self.life = Some(NodeLife {
            runtime: Some(runtime),
            life,
            lights_out,
            began,
            began_at: now,
            service,
            ended,
            ending: false,
        });
    }

    /// Lets it live up to this moment; whether it crashed.
    pub fn live_until(&mut self, world: &World, moment: Duration) -> bool {
        let Some(life) = self.life.as_mut().filter(|_| !self.paused) else { return false };
        let until = life.began + moment.saturating_sub(life.began_at);
        let Some(runtime) = &life.runtime else { return false };
        world.swap_life(&mut life.life);
        let crashed = runtime.block_on(async {
            tokio::select! {
                biased;
                () = life.lights_out.notified() => true,
                () = tokio::time::sleep_until(until) => false,
            }
        });
        world.swap_life(&mut life.life);
        crashed
    }

    /// For how long it has had its turns.
    pub fn awake_for(&self, now: Duration) -> Duration {
        if self.paused { Duration::ZERO } else { now.saturating_sub(self.resumed_at) }
    }

    /// Its processes go on; meanwhile time has passed.
    pub fn resume(&mut self, world: &World, now: Duration) {
        self.paused = false;
        self.resumed_at = now;
        let Some(life) = self.life.as_mut() else { return };
        let Some(runtime) = &life.runtime else { return };
        world.swap_life(&mut life.life);
        runtime.block_on(async {
            let due = life.began + now.saturating_sub(life.began_at);
            tokio::time::advance(due.saturating_duration_since(Instant::now())).await;
        });
        world.swap_life(&mut life.life);
    }

    /// Nothing is left of this life but what is on its disk.
    pub fn end(&mut self, world: &World) {
        let Some(mut life) = self.life.take() else { return };
        self.paused = false;
        world.swap_life(&mut life.life);
        {
            let _inside = life.runtime.as_ref().map(Runtime::enter);
            world.end_life();
        }
        life.service.lock().unwrap().take();
        drop(life.runtime.take());
        world.swap_life(&mut life.life);
    }

    /// Does something on this node, if it lives.
    pub fn spawn(&self, work: impl Future<Output = ()> + Send + 'static) {
        if let Some(runtime) = self.life.as_ref().and_then(|life| life.runtime.as_ref()) {
            runtime.spawn(work);
        }
    }

    /// The world's time at a moment of this node.
    pub fn moment(&self, instant: Instant) -> Option<Duration> {
        let life = self.life.as_ref()?;
        Some(life.began_at + instant.saturating_duration_since(life.began))
    }
}

/// What a start needs.
struct Beginning {
    world: Arc<World>,
    set: Arc<StageSet>,
    workers: Arc<Workers>,
    link: Arc<Link>,
    kept: Kept,
    clock: Arc<WallClock>,
    settings: Settings,
    limits: Limits,
    info: NodeInfo,
}

impl Beginning {
    fn of(node: &Node, common: &Common) -> Beginning {
        Beginning {
            world: common.world.clone(),
            set: common.set.clone(),
            workers: common.workers.clone(),
            link: node.link.clone(),
            kept: common.kept.clone(),
            clock: node.clock.clone(),
            settings: node.settings.clone(),
            limits: common.limits,
            info: NodeInfo {
                node: node.id,
                name: format!("n{}", node.number),
                version: "1".to_owned(),
                address: None,
                works: node.works,
                lease: node.lease,
            },
        }
    }
}

async fn begin(with: Beginning, service: Arc<Mutex<Option<Orchestrator>>>, ended: Arc<AtomicBool>) {
    let world = with.world;
    let store = NodeStore::open(&with.link, &with.workers, with.info.node);
    let member = Member {
        cluster: store.clone(),
        info: with.info,
        blobs: Arc::new(Files { link: with.link.clone(), kept: with.kept }),
    };
    let slots = with.settings.runs.max_running_jobs;
    let environment = Environment {
        clock: with.clock,
        signer: None,
        blocking: Blocking::Stepwise(Arc::new(Steps(world.clone()))),
        engines: Arc::new(Players {
            world: world.clone(),
            slots,
            limits: with.limits,
            workers: Some(with.workers.clone()),
        }),
        renderer: Arc::new(skill_runner::renderer::InPlace),
        program: PathBuf::new(),
        installed_engines: with.set.installed_engines.clone(),
        confinement: skill_runner::supervisor::Confinement::Off,
        member: Some(member),
    };
    let registry = match &world.skills {
        Some(_) => Registry::new(&with.settings.paths.skills_dir),
        None => with.set.registry.clone(),
    };
    match Orchestrator::start_in(environment, store, registry, with.settings).await {
        Ok(started) => *service.lock().unwrap() = Some(started),
        Err(error) => {
            let words = chain(&error);
            // A start that is paused for longer than its lease ends, and is made again.
            if world.chaos() || words.contains("another service works on this run") {
                world.note(words)
            } else {
                world.violated(format!("it does not start: {words}"))
            }
            ended.store(true, Ordering::Relaxed);
        }
    }
}
