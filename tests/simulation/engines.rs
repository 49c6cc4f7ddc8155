//! Engines that are played: they begin, hear, speak, hang, lie and die as the dice say.

use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use serde_json::Value;
use skill_runner::domain::fact::Stream;
use skill_runner::domain::ids::RunId;
use skill_runner::store::{EventStore, IndexKey};
use skill_runner::supervisor::{Error, ProcessExit, SimulatedEngine, Spawner, Spawning, Spec, Swept};
use tokio::sync::Notify;

use crate::parts::{self, Ending, Part};
use crate::several::Workers;
use crate::store::ready;
use crate::world::{Sabotage, Torn, World};

/// Plays every engine.
pub struct Players {
    pub world: Arc<World>,
    pub slots: usize,
    pub limits: Limits,
    /// Who works on what, where there are several services.
    pub workers: Option<Arc<Workers>>,
}

/// How many runs may have engines at once, on all nodes together.
#[derive(Debug, Clone, Copy, Default)]
pub struct Limits {
    pub per_engine: Option<usize>,
    pub per_skill: Option<usize>,
}

impl Spawner for Players {
    fn spawn<'a>(&'a self, spec: Spec<'a>) -> Spawning<'a> {
        Box::pin(self.begin(spec))
    }

    fn sweep(&self, _: &Path) -> io::Result<Vec<Swept>> {
        let here = self.world.node();
        let found: Vec<_> = self.world.engines().into_iter().filter(|(_, engine)| engine.node == here).collect();
        if self.world.sabotage == Sabotage::EnginesSurvive {
            return Ok(Vec::new());
        }
        for (pid, engine) in &found {
            self.world.note(format!("sweep engine {pid} of {}", self.world.name(engine.run)));
            self.world.engine_ends(*pid);
        }
        Ok(found.into_iter().map(|(pid, engine)| Swept { pid, run: Some(engine.run) }).collect())
    }
}

impl Players {
    async fn begin(&self, spec: Spec<'_>) -> Result<skill_runner::supervisor::Process, Error> {
        let (world, run) = (&self.world, spec.run);
        let name = world.name(run);
        world.effect(&format!("the engine of {name} starts")).await;
        if world.chaos() && world.dice.once_in(40) {
            world.note(format!("the engine of {name} is not found"));
            return Err(Error::NotFound { program: "codex".into() });
        }
        let lengths = [spec.stdout_log, spec.stderr_log].map(|log| std::fs::metadata(log).map_or(0, |log| log.len()));
        let pid = world.engine_begins(run, self.slots);
        if self.workers.is_none() {
            flies_alone(world, run);
        }
        let (process, engine) = match SimulatedEngine::start(spec, pid) {
            Ok(opened) => opened,
            Err(error) => {
                world.engine_ends(pid);
                return Err(error);
            }
        };
        let paths = [spec.stdout_log, spec.stderr_log];
        let logs = engine.files().into_iter().zip(paths).zip(lengths);
        let logs = logs.map(|((file, path), from)| Torn { path: path.to_owned(), from, file });
        world.engine_writes(pid, logs.collect());
        let killed = world.engine_has_lease(pid, engine.lease());
        let words = &spec.launch.argv;
        let resume = words.iter().position(|word| word == "resume").map(|at| words[at + 1].clone());
        let runs = |script: &str| words.iter().any(|word| word.ends_with(script));
        let is_script = !words.iter().any(|word| word == "--json");
        let mut part = match is_script {
            true if runs("normalizer.sh") || runs("fallback.sh") => parts::helper(&world.dice),
            true => parts::script(&world.dice),
            false => parts::codex(&world.dice, resume.as_deref()),
        };
        if self.workers.is_some() {
            part.may_take_long(&world.dice);
        }
        let input = String::from_utf8_lossy(&spec.launch.stdin).into_owned();
        // Steps behind the engine of a turn, and a session that is asked to mend its answer, begin no turn.
        let step = match () {
            () if runs("normalizer.sh") => " as normalizer",
            () if runs("fallback.sh") => " as fallback",
            () if runs("behind.sh") => " behind codex",
            () if input.starts_with("The result of your last message") => " to mend its answer",
            () => "",
        };
        let begins_turn = step.is_empty();
        world.note(format!("engine {pid} of {name} starts{step}, to {}", part.name));
        let folder = spec.launch.cwd.clone();
        let tmp_dir = spec.tmp_dir.to_owned();
        let input = begins_turn.then_some(input);
        tokio::spawn(
            Player {
                world: world.clone(),
                engine,
                pid,
                run,
                part,
                input,
                folder,
                tmp_dir,
                killed,
                workers: self.workers.clone(),
                limits: self.limits,
            }
            .play(),
        );
        world.effect(&format!("the start of the engine of {name} is known")).await;
        Ok(process)
    }
}

/// Of equal runs that share their result one has an engine at a time.
fn flies_alone(world: &World, run: RunId) {
    let Some(key) = shared_key(world, run) else { return };
    for (_, engine) in world.engines().iter().filter(|(_, engine)| engine.node == 0 || engine.begun) {
        if engine.run != run && shared_key(world, engine.run).as_ref() == Some(&key) {
            let (name, other) = (world.name(run), world.name(engine.run));
            world.violated(format!("the equal runs {other} and {name} have engines at the same time"));
        }
    }
}

/// What the row of a run says of its state.
fn stored(world: &World, run: RunId) -> Option<Value> {
    let row: Value = serde_json::from_slice(&ready(world.disk.index(&IndexKey::Run(run))).ok()??).ok()?;
    Some(row["state"].clone())
}

/// The key under which a run shares its result with equal ones, as its row has it.
fn shared_key(world: &World, run: RunId) -> Option<Value> {
    let state = stored(world, run)?;
    let shares = state["options"]["no_cache"] == false && state["options"]["execution_mode"] == "auto";
    (shares && state["cache_key"].is_string()).then(|| state["cache_key"].clone())
}

impl Limits {
    /// They are those of all nodes together.
    fn hold(self, world: &World) {
        if self.per_engine.is_none() && self.per_skill.is_none() {
            return;
        }
        let engines = world.engines();
        let runs: BTreeSet<RunId> =
            engines.iter().filter(|(_, engine)| engine.begun).map(|(_, engine)| engine.run).collect();
        let states: Vec<Value> = runs.iter().filter_map(|run| stored(world, *run)).collect();
        let most = |name: fn(&Value) -> &Value| {
            states.iter().map(|state| states.iter().filter(|other| name(other) == name(state)).count()).max()
        };
        if self.per_engine.is_some_and(|limit| most(|state| &state["engine"]) > Some(limit)) {
            world.violated(format!("more than {:?} runs of one engine have one", self.per_engine));
        }
        if self.per_skill.is_some_and(|limit| most(|state| &state["skill"]["id"]) > Some(limit)) {
            world.violated(format!("more than {:?} runs of one skill have an engine", self.per_skill));
        }
    }
}

struct Player {
    world: Arc<World>,
    engine: SimulatedEngine,
    pid: u32,
    run: RunId,
    part: Part,
    /// What it is told, if a turn begins with it.
    input: Option<String>,
    /// The run's.
    folder: PathBuf,
    tmp_dir: PathBuf,
    /// Told when its shim has killed it.
    killed: Arc<Notify>,
    workers: Option<Arc<Workers>>,
    limits: Limits,
}

enum Waited {
    Whole,
    Asked,
    Killed,
}

impl Player {
    async fn play(mut self) {
        let begins = tokio::select! {
            biased;
            () = self.killed.notified() => return self.was_killed().await,
            begins = self.engine.may_begin() => begins,
        };
        if !begins {
            return self.exit(ProcessExit::Signal(9)).await;
        }
        self.world.note(format!("engine {} is told its input", self.pid));
        self.world.engine_goes(self.pid);
        if let Some(workers) = &self.workers {
            workers.engine_goes(&self.world, self.pid, self.run);
            flies_alone(&self.world, self.run);
            self.limits.hold(&self.world);
        }
        if let Some(input) = self.input.take() {
            self.world.told(self.run, input);
        }
        // The folders need not be there: the runner judges what it finds.
        if self.part.artifact {
            let _ = std::fs::write(self.folder.join("artifacts").join(format!("{}.txt", self.pid)), "an artifact");
        }
        if let Some(result) = self.part.result {
            let _ = std::fs::write(self.folder.join("result/result.json"), result);
        }
        for (pause, stream, bytes) in std::mem::take(&mut self.part.lines) {
            match self.wait(pause).await {
                Waited::Whole => self.say(stream, bytes).await,
                Waited::Asked => return self.stop().await,
                Waited::Killed => return self.was_killed().await,
            }
        }
        match self.part.ending {
            Ending::Exits(exit) => self.exit(exit).await,
            Ending::Hangs | Ending::Chatters => loop {
                let chatters = matches!(self.part.ending, Ending::Chatters);
                match self.wait(Duration::from_secs(if chatters { 1 } else { 3600 })).await {
                    Waited::Whole if chatters => self.say(Stream::Stderr, "still here\n".into()).await,
                    Waited::Whole => {}
                    Waited::Asked => return self.stop().await,
                    Waited::Killed => return self.was_killed().await,
                }
            },
            Ending::LosesItsSupervisor => {
                self.world.note(format!("engine {} loses its supervisor", self.pid));
                self.world.engine_ends(self.pid);
                // The next start would sweep it; whether it does is not this world's question.
                let _ = std::fs::remove_dir_all(&self.tmp_dir);
            }
        }
    }

    async fn say(&mut self, stream: Stream, bytes: Bytes) {
        self.world.effect(&format!("engine {} speaks", self.pid)).await;
        self.engine.write(stream, bytes).await;
    }

    /// Passes the time, unless it has to end.
    async fn wait(&mut self, pause: Duration) -> Waited {
        tokio::select! {
            biased;
            () = self.killed.notified() => Waited::Killed,
            _ = self.engine.asked_to_stop() => Waited::Asked,
            () = tokio::time::sleep(pause) => Waited::Whole,
        }
    }

    /// Its shim has killed it, and it is gone already.
    async fn was_killed(self) {
        self.engine.end(ProcessExit::Signal(9), 0).await;
    }

    async fn stop(mut self) {
        let patience = self.engine.asked_to_stop().await;
        if self.part.obedient {
            tokio::time::sleep(patience.min(Duration::from_millis(50))).await;
            if self.world.dice.once_in(2) {
                self.say(Stream::Stderr, "stopping".into()).await;
            }
            return self.exit(ProcessExit::Signal(15)).await;
        }
        tokio::time::sleep(patience).await;
        self.exit(ProcessExit::Signal(9)).await;
    }

    async fn exit(self, exit: ProcessExit) {
        self.world.effect(&format!("engine {} ends", self.pid)).await;
        self.world.note(format!("engine {} ends: {exit:?}", self.pid));
        self.world.engine_ends(self.pid);
        let stragglers = u32::from(self.world.dice.once_in(8));
        self.engine.end(exit, stragglers).await;
    }
}
