//! What a simulated world consists of and what outlives a crash of its service: time, disk, engines' memories, the trace.

use std::collections::BTreeMap;
use std::future::pending;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use skill_runner::domain::ids::RunId;
use skill_runner::domain::time::Timestamp;
use skill_runner::orchestrator::Clock;
use skill_runner::store::MemoryStore;
use skill_runner::supervisor::SimulatedLog;
use tokio::sync::{Notify, watch};
use tokio::time::Instant;
use uuid::Uuid;

use crate::book::Book;
use crate::dice::Dice;

/// The world's first moment, in microseconds after the epoch: far behind the times of all files, which are those of the machine.
const GENESIS: i64 = 4_100_000_000_000_000;

/// A way to break the simulated world on purpose, to see that it is noticed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sabotage {
    None,
    /// The store acknowledges some appends without keeping them.
    StoreForgets,
    /// The host does not end engines when their service dies, nor when it is swept.
    EnginesSurvive,
    /// Nobody is told of runs whose node is gone.
    TakeOversForgotten,
    /// Some shared files are not kept.
    FilesForgotten,
    /// Leases are renewed, whatever became of their nodes.
    LeasesNeverEnd,
    /// Shims do not kill at the end of the lease.
    ShimsSleep,
    /// The store takes appends whatever their epoch.
    EpochsIgnored,
    /// The store changes records under leases that are over.
    RecordsIgnoreLeases,
}

/// A world.
pub struct World {
    pub dice: Dice,
    /// The data folder; what is in it stays.
    pub data: PathBuf,
    /// Its own skills folder, if packages are installed in it. Each of several nodes has one in its data folder.
    pub skills: Option<PathBuf>,
    /// Whatever became durable.
    pub disk: MemoryStore,
    pub sabotage: Sabotage,
    /// What clients did and were told.
    pub book: Mutex<Book>,
    state: Mutex<State>,
}

struct State {
    trace: Vec<String>,
    violations: Vec<String>,
    /// The life of the service that has its turn.
    life: Life,
    lives: u32,
    chaos: bool,
    /// The node that the last fault met.
    troubled: Option<usize>,
    ids: u64,
    pids: u32,
    engines: BTreeMap<u32, Engine>,
    told: BTreeMap<RunId, Vec<String>>,
    names: Vec<RunId>,
}

/// One life of a service, as the world sees it.
#[derive(Default)]
pub struct Life {
    /// Which of several services it is.
    pub node: usize,
    /// The world's time when its clock began.
    began_at: i64,
    clock: Option<Instant>,
    effects: u64,
    crash_at: Option<u64>,
    dark: bool,
    ending: bool,
    lights_out: Arc<Notify>,
}

/// An engine that lives.
#[derive(Debug, Clone)]
pub struct Engine {
    pub run: RunId,
    pub node: usize,
    /// Whether it was let go, after its start was on record.
    pub begun: bool,
    pub logs: Vec<Torn>,
    /// When its shim kills it, and how that is told to the one who plays it.
    pub lease: Option<watch::Receiver<Option<Instant>>>,
    pub killed: Arc<Notify>,
}

/// A log file whose end a power cut may take.
#[derive(Debug, Clone)]
pub struct Torn {
    pub path: PathBuf,
    /// What earlier turns left stays.
    pub from: u64,
    pub file: SimulatedLog,
}

impl Life {
    /// It crashes before one of its next effects.
    pub fn crash_within(&mut self, effects: u64) {
        self.crash_at = Some(self.effects + effects);
    }
}

impl World {
    pub fn new(seed: u64, data: PathBuf, sabotage: Sabotage) -> Arc<World> {
        let dice = Dice::new(seed);
        let skills = dice.once_in(8).then(|| data.join("skills"));
        Arc::new(World::with(dice, data, skills, MemoryStore::default(), sabotage))
    }

    pub fn with(dice: Dice, data: PathBuf, skills: Option<PathBuf>, disk: MemoryStore, sabotage: Sabotage) -> World {
        World {
            dice,
            data,
            skills,
            disk,
            sabotage,
            book: Mutex::default(),
            state: Mutex::new(State {
                trace: Vec::new(),
                violations: Vec::new(),
                life: Life { began_at: GENESIS, ..Life::default() },
                lives: 0,
                chaos: false,
                troubled: None,
                ids: 0,
                pids: 100,
                engines: BTreeMap::new(),
                told: BTreeMap::new(),
                names: Vec::new(),
            }),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }

    /// A life of the service begins; called on its runtime. Crashes at this effect, if at any; with or without faults.
    pub fn begin_life(&self, chaos: bool, crash_at: Option<u64>) -> Arc<Notify> {
        let mut state = self.state();
        let began_at = state.life.began_at;
        state.life = Life { began_at, clock: Some(Instant::now()), crash_at, ..Life::default() };
        state.lives += 1;
        state.chaos = chaos;
        let (life, lights_out) = (state.lives, state.life.lights_out.clone());
        drop(state);
        self.note(format!("==== life {life}{}", if chaos { "" } else { ", calm" }));
        lights_out
    }

    /// A life of one of several services; called on its runtime. It has its turn when it is put on the stage.
    pub fn new_life(&self, node: usize, crash_at: Option<u64>) -> (Life, Arc<Notify>) {
        let life = Life { node, began_at: self.micros(), clock: Some(Instant::now()), crash_at, ..Life::default() };
        let lights_out = life.lights_out.clone();
        (life, lights_out)
    }

    /// Changes whose turn it is.
    pub fn swap_life(&self, life: &mut Life) {
        std::mem::swap(&mut self.state().life, life);
    }

    /// The time, where no service has its turn.
    pub fn set_time(&self, since_genesis: Duration) {
        self.state().life.began_at = GENESIS + since_genesis.as_micros() as i64;
    }

    /// Microseconds after the epoch.
    pub fn time(&self) -> i64 {
        self.micros()
    }

    /// Which of several services has its turn.
    pub fn node(&self) -> usize {
        self.state().life.node
    }

    /// From now on things go wrong.
    pub fn stir(&self) {
        self.state().chaos = true;
    }

    /// From now on nothing goes wrong in this life.
    pub fn calm_down(&self) {
        let mut state = self.state();
        (state.chaos, state.life.crash_at) = (false, None);
        drop(state);
        self.note("---- faults stop");
    }

    /// The life is over; called on its runtime.
    pub fn end_life(&self) {
        let now = self.micros();
        let mut state = self.state();
        (state.life.began_at, state.life.clock, state.life.ending) = (now, None, true);
    }

    /// Nobody serves for a while; a clock may be set back meanwhile.
    pub fn pass(&self, time: Duration, set_back: Duration) {
        self.state().life.began_at += time.as_micros() as i64 - set_back.as_micros() as i64;
    }

    /// Whether this life has faults besides its crash.
    pub fn chaos(&self) -> bool {
        self.state().chaos
    }

    /// Whether the service that has its turn may have trouble: all have it while there are faults, and one longer.
    pub fn is_troubled(&self) -> bool {
        let state = self.state();
        state.chaos || state.troubled == Some(state.life.node)
    }

    /// This node alone has trouble for longer than all others; or none has.
    pub fn is_in_trouble(&self, node: Option<usize>) {
        self.state().troubled = node;
    }

    /// Whether the service of this life is being taken apart: nothing it does now may leave a trace.
    pub fn ending(&self) -> bool {
        self.state().life.ending
    }

    /// Something is about to happen that a crash can come before; after the crash nothing ever does.
    pub async fn effect(&self, what: &str) {
        if self.goes_dark(what) {
            pending::<()>().await;
        }
    }

    /// A file is about to be changed in the middle of a piece of work; after the crash nothing ever is.
    pub fn changes_file(&self, doing: &str, path: &Path) -> std::io::Result<()> {
        if std::thread::panicking() {
            // The crash has come, and what would tidy up has no power either.
            return Err(std::io::Error::other("the power is off"));
        }
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        // The same in every trace: without the random part of temporary names, and a folder is emptied in no fixed order.
        let name = if name.starts_with('.') || doing == "remove" { "a file" } else { &name };
        if self.goes_dark(&format!("{doing} {}", self.plain_name(name))) {
            std::panic::resume_unwind(Box::new("the power is off"));
        }
        Ok(())
    }

    /// Ids of runs by their names in the trace.
    fn plain_name(&self, name: &str) -> String {
        match name.parse::<Uuid>() {
            Ok(id) => self.name(RunId(id)),
            Err(_) => name.to_owned(),
        }
    }

    /// Whether the crash has come.
    pub fn is_dark(&self) -> bool {
        self.state().life.dark
    }

    fn goes_dark(&self, what: &str) -> bool {
        let mut state = self.state();
        let life = &mut state.life;
        if life.dark {
            return true;
        }
        life.effects += 1;
        // Without faults no life ends before its time.
        if life.crash_at != Some(life.effects) || life.node > 0 && !state.chaos {
            return false;
        }
        let life = &mut state.life;
        life.dark = true;
        life.lights_out.notify_one();
        drop(state);
        self.note(format!("CRASH before {what}"));
        true
    }

    fn micros(&self) -> i64 {
        let state = self.state();
        let elapsed = state.life.clock.map_or(Duration::ZERO, |began| began.elapsed());
        state.life.began_at + elapsed.as_micros() as i64
    }

    /// The trace gets a line.
    pub fn note(&self, line: impl AsRef<str>) {
        let at = (self.micros() - GENESIS) as f64 / 1e6;
        let mut state = self.state();
        let who = if state.life.node == 0 { String::new() } else { format!(" n{}", state.life.node) };
        state.trace.push(format!("{at:>12.6}{who} {}", line.as_ref()));
    }

    /// Something happened that never should.
    pub fn violated(&self, what: impl AsRef<str>) {
        self.note(format!("VIOLATION {}", what.as_ref()));
        self.state().violations.push(what.as_ref().to_owned());
    }

    /// How long the trace is.
    pub fn lines(&self) -> usize {
        self.state().trace.len()
    }

    /// Whether a line of the trace has these words.
    pub fn has_met(&self, words: &str) -> bool {
        self.state().trace.iter().any(|line| line.contains(words))
    }

    /// How many things happened that never should.
    pub fn violations(&self) -> usize {
        self.state().violations.len()
    }

    /// The run's name in the trace: the same in every process.
    pub fn name(&self, run: RunId) -> String {
        let mut state = self.state();
        let at = state.names.iter().position(|known| *known == run).unwrap_or_else(|| {
            state.names.push(run);
            state.names.len() - 1
        });
        format!("r{}", at + 1)
    }

    /// The whole trace, in words that do not depend on the place, and what was violated.
    pub fn account(&self) -> (String, Vec<String>) {
        let state = self.state();
        let place = self.data.to_str().unwrap();
        let common = Path::new(place).parent().unwrap().to_str().unwrap().to_owned();
        let plain = |text: &str| text.replace(place, "<data>").replace(&common, "<world>");
        (plain(&state.trace.join("\n")), state.violations.iter().map(|line| plain(line)).collect())
    }

    /// An engine is born; its process id.
    pub fn engine_begins(&self, run: RunId, slots: usize) -> u32 {
        let mut state = self.state();
        state.pids += 1;
        let (pid, node) = (state.pids, state.life.node);
        // Of several services, one may still hold an engine that it will never let go.
        let same_run = node == 0 && state.engines.values().any(|engine| engine.run == run);
        state
            .engines
            .insert(pid, Engine { run, node, begun: false, logs: Vec::new(), lease: None, killed: Arc::default() });
        let alive = state.engines.values().filter(|engine| engine.node == node).count();
        drop(state);
        if same_run {
            self.violated(format!("{} has two engines at once", self.name(run)));
        }
        if alive > slots {
            self.violated(format!("{alive} engines live where {slots} may"));
        }
        pid
    }

    /// An engine is let go.
    pub fn engine_goes(&self, pid: u32) {
        let mut state = self.state();
        let Some(run) = state.engines.get(&pid).map(|engine| engine.run) else { return };
        let others = state.engines.iter().filter(|(other, engine)| **other != pid && engine.run == run);
        let two = others.filter(|(_, engine)| engine.begun).count() > 0;
        state.engines.entry(pid).and_modify(|engine| engine.begun = true);
        drop(state);
        if two {
            self.violated(format!("{} has two engines at once", self.name(run)));
        }
    }

    /// Its log files.
    pub fn engine_writes(&self, pid: u32, logs: Vec<Torn>) {
        if let Some(engine) = self.state().engines.get_mut(&pid) {
            engine.logs = logs;
        }
    }

    /// Until when it lives; how it is told that it was killed.
    pub fn engine_has_lease(&self, pid: u32, lease: watch::Receiver<Option<Instant>>) -> Arc<Notify> {
        let mut state = self.state();
        let Some(engine) = state.engines.get_mut(&pid) else { return Arc::default() };
        engine.lease = Some(lease);
        engine.killed.clone()
    }

    pub fn engine_ends(&self, pid: u32) {
        self.state().engines.remove(&pid);
    }

    pub fn has_engines(&self) -> bool {
        !self.state().engines.is_empty()
    }

    pub fn engines(&self) -> Vec<(u32, Engine)> {
        self.state().engines.iter().map(|(pid, engine)| (*pid, engine.clone())).collect()
    }

    /// An engine was given its input.
    pub fn told(&self, run: RunId, text: String) {
        self.state().told.entry(run).or_default().push(text);
    }

    /// What the engines of a run were told, turn by turn.
    pub fn told_so_far(&self, run: RunId) -> Vec<String> {
        self.state().told.get(&run).cloned().unwrap_or_default()
    }
}

impl Clock for World {
    fn now(&self) -> Timestamp {
        Timestamp::from_micros(self.micros())
    }

    fn new_id(&self) -> Uuid {
        let millis = (self.micros() / 1000) as u128;
        let chance = u128::from(self.dice.next() >> 2);
        let mut state = self.state();
        state.ids += 1;
        let count = u128::from(state.ids) & 0xfff;
        Uuid::from_u128(millis << 80 | 7 << 76 | count << 64 | 2 << 62 | chance)
    }
}
