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
use tokio::sync::Notify;
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
}

/// A world.
pub struct World {
    pub dice: Dice,
    /// The data folder; what is in it stays.
    pub data: PathBuf,
    /// Its own skills folder, if packages are installed in it.
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
    /// The world's time when this life of the service began.
    life_began: i64,
    clock: Option<Instant>,
    life: u32,
    chaos: bool,
    effects: u64,
    crash_at: Option<u64>,
    dark: bool,
    ending: bool,
    lights_out: Arc<Notify>,
    ids: u64,
    pids: u32,
    engines: BTreeMap<u32, Engine>,
    told: BTreeMap<RunId, Vec<String>>,
    names: Vec<RunId>,
}

/// An engine that lives.
#[derive(Debug, Clone)]
pub struct Engine {
    pub run: RunId,
    pub logs: Vec<Torn>,
}

/// A log file whose end a power cut may take.
#[derive(Debug, Clone)]
pub struct Torn {
    pub path: PathBuf,
    /// What earlier turns left stays.
    pub from: u64,
    pub file: SimulatedLog,
}

impl World {
    pub fn new(seed: u64, data: PathBuf, sabotage: Sabotage) -> Arc<World> {
        let dice = Dice::new(seed);
        let skills = dice.once_in(8).then(|| data.join("skills"));
        Arc::new(World {
            dice,
            data,
            skills,
            disk: MemoryStore::default(),
            sabotage,
            book: Mutex::default(),
            state: Mutex::new(State {
                trace: Vec::new(),
                violations: Vec::new(),
                life_began: GENESIS,
                clock: None,
                life: 0,
                chaos: false,
                effects: 0,
                crash_at: None,
                dark: false,
                ending: false,
                lights_out: Arc::new(Notify::new()),
                ids: 0,
                pids: 100,
                engines: BTreeMap::new(),
                told: BTreeMap::new(),
                names: Vec::new(),
            }),
        })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }

    /// A life of the service begins; called on its runtime. Crashes at this effect, if at any; with or without faults.
    pub fn begin_life(&self, chaos: bool, crash_at: Option<u64>) -> Arc<Notify> {
        let mut state = self.state();
        state.clock = Some(Instant::now());
        state.life += 1;
        (state.chaos, state.crash_at, state.effects, state.dark, state.ending) = (chaos, crash_at, 0, false, false);
        state.lights_out = Arc::new(Notify::new());
        let (life, lights_out) = (state.life, state.lights_out.clone());
        drop(state);
        self.note(format!("==== life {life}{}", if chaos { "" } else { ", calm" }));
        lights_out
    }

    /// From now on nothing goes wrong in this life.
    pub fn calm_down(&self) {
        let mut state = self.state();
        (state.chaos, state.crash_at) = (false, None);
        drop(state);
        self.note("---- faults stop");
    }

    /// The life is over; called on its runtime.
    pub fn end_life(&self) {
        let now = self.micros();
        let mut state = self.state();
        (state.life_began, state.clock, state.ending) = (now, None, true);
    }

    /// Nobody serves for a while; a clock may be set back meanwhile.
    pub fn pass(&self, time: Duration, set_back: Duration) {
        self.state().life_began += time.as_micros() as i64 - set_back.as_micros() as i64;
    }

    /// Whether this life has faults besides its crash.
    pub fn chaos(&self) -> bool {
        self.state().chaos
    }

    /// Whether the service of this life is being taken apart: nothing it does now may leave a trace.
    pub fn ending(&self) -> bool {
        self.state().ending
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
        self.state().dark
    }

    fn goes_dark(&self, what: &str) -> bool {
        let mut state = self.state();
        if state.dark {
            return true;
        }
        state.effects += 1;
        if state.crash_at != Some(state.effects) {
            return false;
        }
        state.dark = true;
        state.lights_out.notify_one();
        drop(state);
        self.note(format!("CRASH before {what}"));
        true
    }

    fn micros(&self) -> i64 {
        let state = self.state();
        let elapsed = state.clock.map_or(Duration::ZERO, |began| began.elapsed());
        state.life_began + elapsed.as_micros() as i64
    }

    /// The trace gets a line.
    pub fn note(&self, line: impl AsRef<str>) {
        let at = (self.micros() - GENESIS) as f64 / 1e6;
        self.state().trace.push(format!("{at:>12.6} {}", line.as_ref()));
    }

    /// Something happened that never should.
    pub fn violated(&self, what: impl AsRef<str>) {
        self.note(format!("VIOLATION {}", what.as_ref()));
        self.state().violations.push(what.as_ref().to_owned());
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
        let pid = state.pids;
        let same_run = state.engines.values().any(|engine| engine.run == run);
        state.engines.insert(pid, Engine { run, logs: Vec::new() });
        let alive = state.engines.len();
        drop(state);
        if same_run {
            self.violated(format!("{} has two engines at once", self.name(run)));
        }
        if alive > slots {
            self.violated(format!("{alive} engines live where {slots} may"));
        }
        pid
    }

    /// Its log files.
    pub fn engine_writes(&self, pid: u32, logs: Vec<Torn>) {
        if let Some(engine) = self.state().engines.get_mut(&pid) {
            engine.logs = logs;
        }
    }

    pub fn engine_ends(&self, pid: u32) {
        self.state().engines.remove(&pid);
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
