//! One seed, one world: lives with faults that end in crashes, then a calm one in which everything has to come right.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use skill_runner::domain::causes::chain;
use skill_runner::domain::ids::RunId;
use skill_runner::fcmp::LogHead;
use skill_runner::orchestrator::{Blocking, Environment, FileSteps, Orchestrator};
use skill_runner::registry::Registry;
use skill_runner::settings::Settings;
use skill_runner::store::{BoxFuture, EventStore, IndexKey};

use crate::check;
use crate::clients::Client;
use crate::engines::{Limits, Players};
use crate::stage_set::StageSet;
use crate::store::{Store, ready};
use crate::world::{Engine, Sabotage, World};

/// No life lasts longer, in its own time.
const LIFE_MAX: Duration = Duration::from_secs(6 * 3600);

/// What came of a seed.
pub struct Outcome {
    pub seed: u64,
    pub trace: String,
    pub violations: Vec<String>,
}

/// A world and what its service is made of.
struct Play {
    world: Arc<World>,
    set: Arc<StageSet>,
    settings: Settings,
}

/// Plays one seed to its end.
pub fn play(set: &Arc<StageSet>, seed: u64, sabotage: Sabotage) -> Outcome {
    static WORLDS: AtomicU64 = AtomicU64::new(0);
    let data = set.folder.join(format!("world-{}", WORLDS.fetch_add(1, Ordering::Relaxed)));
    let world = World::new(seed, data.clone(), sabotage);
    listening(&world, || Play::new(&world, set).run());
    let (trace, violations) = world.account();
    let _ = fs::remove_dir_all(&data);
    Outcome { seed, trace, violations }
}

/// Plays with the service's own warnings in the trace.
pub fn listening(world: &Arc<World>, play: impl FnOnce()) {
    let listener = world.clone();
    let written = move || Notes(listener.clone());
    let subscriber = tracing_subscriber::fmt()
        .with_max_level(tracing::Level::WARN)
        .without_time()
        .with_ansi(false)
        .with_target(false)
        .with_writer(written)
        .finish();
    tracing::subscriber::with_default(subscriber, play);
}

/// Each piece of work on files, and each change of a file in it, is an effect that a crash can come before.
pub struct Steps(pub Arc<World>);

impl FileSteps for Steps {
    fn begin(&self) -> BoxFuture<'static, ()> {
        let world = self.0.clone();
        Box::pin(async move {
            world.effect("work on files").await;
            if world.dice.once_in(4) {
                tokio::time::sleep(Duration::from_millis(world.dice.below(30))).await;
            }
        })
    }

    fn step(&self, doing: &'static str, path: &Path) -> std::io::Result<()> {
        self.0.changes_file(doing, path)
    }

    fn end(&self) -> BoxFuture<'static, ()> {
        let world = self.0.clone();
        Box::pin(async move {
            if world.is_dark() {
                std::future::pending::<()>().await;
            }
        })
    }
}

/// The service's own warnings are part of the trace.
struct Notes(Arc<World>);

impl std::io::Write for Notes {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        let text = String::from_utf8_lossy(bytes);
        self.0.note(text.trim_end());
        if text.contains("the actor of a run broke") {
            self.0.violated("an actor panicked");
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl Play {
    fn new(world: &Arc<World>, set: &Arc<StageSet>) -> Play {
        let dice = &world.dice;
        let own = [
            ("max_running_jobs", dice.pick(&["1", "1", "2", "3"]).to_owned()),
            ("max_queued_jobs", dice.pick(&["1", "10"]).to_owned()),
            ("restart_queued", dice.pick(&["fail", "requeue"]).to_owned()),
            ("repair", dice.pick(&["true", "false"]).to_owned()),
            ("seal_grace_seconds", dice.pick(&["0", "2", "20"]).to_owned()),
        ];
        fs::create_dir_all(&world.data).unwrap();
        let mut own = own.to_vec();
        if let Some(skills) = &world.skills {
            set.copy_skills(skills);
            own.push(("skills_dir", skills.to_str().unwrap().to_owned()));
        }
        let settings = set.settings(&world.data, &own);
        Play { world: world.clone(), set: set.clone(), settings }
    }

    fn run(&self) {
        let dice = &self.world.dice;
        for _ in 0..dice.weighted(&[(3, 1), (3, 2), (1, 3), (1, 5)]) {
            let crash_at = if dice.once_in(6) { None } else { Some(1 + dice.below(dice.pick(&[6, 30, 120, 400]))) };
            self.live(true, crash_at, async |service| self.chaos(service).await);
            self.between_lives();
        }
        self.live(false, None, async |service| self.calm(service).await);
        // A crash leaves what the calm has settled; starting over it again and again changes nothing more.
        let once = self.live(false, None, async |service| check::snapshot(&self.world, &service).await);
        let twice = self.live(false, None, async |service| check::snapshot(&self.world, &service).await);
        if once != twice {
            self.world.violated(format!("a second start changed: {:?}", different(once, twice)));
        }
    }

    /// One life of the service, up to its crash or until `body` is done.
    fn live<T>(&self, chaos: bool, crash_at: Option<u64>, body: impl AsyncFnOnce(Orchestrator) -> T) -> Option<T> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
        let outcome = runtime.block_on(async {
            let lights_out = self.world.begin_life(chaos, crash_at);
            let living = async {
                match self.start().await {
                    Ok(service) => Some(body(service).await),
                    Err(error) => {
                        if !self.world.chaos() {
                            self.world.violated(format!("the service does not start: {}", chain(&error)));
                        }
                        None
                    }
                }
            };
            let outcome = tokio::select! {
                biased;
                () = lights_out.notified() => None,
                lived = tokio::time::timeout(LIFE_MAX, living) => lived.unwrap_or_else(|_| {
                    self.world.violated("the life did not end in time");
                    None
                }),
            };
            self.world.end_life();
            outcome
        });
        drop(runtime);
        outcome
    }

    async fn start(&self) -> Result<Orchestrator, skill_runner::orchestrator::Error> {
        let store = Arc::new(Store::open(self.world.clone()));
        let environment = Environment {
            clock: self.world.clone(),
            signer: None,
            blocking: Blocking::Stepwise(Arc::new(Steps(self.world.clone()))),
            engines: Arc::new(Players {
                world: self.world.clone(),
                slots: self.settings.runs.max_running_jobs,
                limits: Limits::default(),
                workers: None,
            }),
            renderer: Arc::new(skill_runner::renderer::InPlace),
            program: std::path::PathBuf::new(),
            installed_engines: self.set.installed_engines.clone(),
            confinement: skill_runner::supervisor::Confinement::Off,
            member: None,
        };
        let registry = self.world.skills.as_ref().map_or_else(|| self.set.registry.clone(), Registry::new);
        Orchestrator::start_in(environment, store, registry, self.settings.clone()).await
    }

    fn client(&self, service: &Orchestrator) -> Client {
        Client { world: self.world.clone(), service: service.clone(), set: self.set.clone() }
    }

    async fn chaos(&self, service: Orchestrator) {
        let dice = &self.world.dice;
        let mut clients = tokio::task::JoinSet::new();
        for _ in 0..1 + dice.below(3) {
            clients.spawn(self.client(&service).act(2 + dice.below(6)));
        }
        clients.join_all().await;
        if dice.once_in(3) {
            self.world.calm_down();
            self.settle(&service).await;
        } else if dice.once_in(3) {
            self.world.note("the service is told to end");
            service.drain(dice.pause()).await;
            if !self.world.engines().is_empty() {
                self.world.violated("an engine outlives the orderly end of its service");
            }
        }
    }

    /// What is left of a dead service: files, perhaps torn, and engines that have not noticed yet.
    fn between_lives(&self) {
        let dice = &self.world.dice;
        let power_cut = dice.once_in(2);
        let under_way = |run: &RunId| {
            let row = ready(self.world.disk.index(&IndexKey::Run(*run))).unwrap();
            row.is_some_and(|row| !LogHead::from_row(&row).unwrap().state.status().is_final())
        };
        let equal = self.world.book.lock().unwrap().equal.clone();
        if equal.iter().any(|(once, twice)| under_way(once) && under_way(twice)) {
            self.world.note("equal runs are under way when the service dies");
        }
        for (pid, engine) in self.world.engines() {
            if power_cut {
                cut_power(&self.world, &engine);
            }
            if dice.once_in(2) && self.world.sabotage != Sabotage::EnginesSurvive {
                self.world.engine_ends(pid);
            }
        }
        let downtime = Duration::from_secs(dice.pick(&[0, 1, 100, 10_000]));
        let set_back = Duration::from_secs(if dice.once_in(15) { 20 } else { 0 });
        self.world.pass(downtime, set_back);
    }

    async fn calm(&self, service: Orchestrator) {
        self.settle(&service).await;
        check::everything(&self.world, &service).await;
    }

    /// Without faults every run comes to rest, also without a restart.
    async fn settle(&self, service: &Orchestrator) {
        let runs: Vec<RunId> = self.world.disk.runs(None, 100).await.unwrap().into_iter().map(|(run, _)| run).collect();
        let client = self.client(service);
        let all = runs.iter().map(|run| client.see_through(*run));
        futures_util::future::join_all(all).await;
        // Slots are given back and logs sealed in their own time.
        tokio::time::sleep(Duration::from_secs(60)).await;
        check::at_ease(&self.world, service);
    }
}

/// Takes unsynced ends of an engine's log files along.
pub fn cut_power(world: &World, engine: &Engine) {
    for torn in &engine.logs {
        let Ok(length) = fs::metadata(&torn.path).map(|log| log.len()) else { continue };
        let safe = torn.from.max(torn.file.synced()).min(length);
        let left = safe + world.dice.below(length - safe + 1);
        world.note(format!("power cut: {left} of {length} bytes are left of {}", torn.path.display()));
        fs::File::options().write(true).open(&torn.path).unwrap().set_len(left).unwrap();
    }
}

pub fn different(once: Option<BTreeMap<String, Vec<u8>>>, twice: Option<BTreeMap<String, Vec<u8>>>) -> Vec<String> {
    let (once, twice) = (once.unwrap_or_default(), twice.unwrap_or_default());
    once.into_iter().filter(|(key, bytes)| twice.get(key) != Some(bytes)).map(|(key, _)| key).collect()
}
