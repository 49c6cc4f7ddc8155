//! A real server in this process, small skills for it, and clients to talk to it.

pub mod check;
pub mod client;
pub mod clis;
pub mod disk;
pub mod file_calls;
pub mod left_out;
pub mod log;
pub mod model_server;
pub mod object_store;
pub mod openapi;
pub mod package;
pub mod postgres;
pub mod random;
pub mod relay;
pub mod sandbox;
pub mod skill;
pub mod terminal;
pub mod tls;
pub mod tools;
pub mod zips;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use skill_runner::domain::ids::{RunId, Seq};
use skill_runner::orchestrator::{Clock, Environment, ListFilter, Orchestrator, WallClock};
use skill_runner::registry::Registry;
use skill_runner::renderer::ChildRenderer;
use skill_runner::settings::Settings;
use skill_runner::store::{EventStore, SledStore};
use tokio::runtime::Runtime;
use tokio::sync::{oneshot, watch};

pub use client::{Answer, Call, Sse};
pub use package::script_skill;

/// The folder of the skills that ship, as a setting.
pub const SHIPPED: (&str, &str) = ("skills_dir", concat!(env!("CARGO_MANIFEST_DIR"), "/skills"));

/// The program, without the variables that are for tests alone: they would be refused as settings.
pub fn program() -> Command {
    let mut program = Command::new(env!("CARGO_BIN_EXE_skill-runner"));
    program.env_remove("SKILL_RUNNER_TEST_CLIS").env_remove("SKILL_RUNNER_TEST_REPEAT");
    program
}

/// Longest time anything in a test may take.
pub const LONG: Duration = Duration::from_secs(60);

/// The processes with a run's mark.
pub fn processes_of(run: &str) -> Vec<u32> {
    let mark = format!("SKILL_RUNNER_RUN_ID={run}");
    let pids =
        std::fs::read_dir("/proc").unwrap().flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    pids.filter(|pid: &u32| {
        let environment = std::fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
        environment.split(|byte| *byte == 0).any(|variable| variable == mark.as_bytes())
    })
    .collect()
}

/// The data of all events of a type.
pub fn of_type(events: &[Value], name: &str) -> Vec<Value> {
    events.iter().filter(|event| event["type"] == name).map(|event| event["data"].clone()).collect()
}

/// A server on a free port, with a data folder and a skills folder of its own. When it goes, the log of every run it
/// ever had is checked.
pub struct Server {
    pub orchestrator: Orchestrator,
    pub address: std::net::SocketAddr,
    pub folder: Arc<tempfile::TempDir>,
    stop: Option<oneshot::Sender<()>>,
    served: Option<tokio::task::JoinHandle<std::io::Result<()>>>,
    runtime: Option<Runtime>,
}

impl Server {
    /// A server with the usual settings.
    pub fn start() -> Server {
        Server::with(&[])
    }

    /// A server with other settings.
    pub fn with(flags: &[(&str, &str)]) -> Server {
        Server::on(Arc::new(tempfile::tempdir().unwrap()), flags)
    }

    /// The next server on the folder of this one, which ends.
    pub fn restarted(self, flags: &[(&str, &str)]) -> Server {
        let folder = self.folder.clone();
        drop(self);
        Server::on(folder, flags)
    }

    /// A server on a folder that another process has used.
    pub fn on_folder(folder: Arc<tempfile::TempDir>) -> Server {
        Server::on(folder, &[])
    }

    /// The same with other settings.
    pub fn on_folder_with(folder: Arc<tempfile::TempDir>, flags: &[(&str, &str)]) -> Server {
        Server::on(folder, flags)
    }

    /// The same on a store that is open already.
    pub fn on_folder_and_store(
        folder: Arc<tempfile::TempDir>,
        flags: &[(&str, &str)],
        store: Arc<dyn EventStore>,
    ) -> Server {
        Server::on_store(folder, flags, Arc::new(WallClock), |_| store)
    }

    fn on(folder: Arc<tempfile::TempDir>, flags: &[(&str, &str)]) -> Server {
        Server::on_store(folder, flags, Arc::new(WallClock), sled)
    }

    /// A server that goes by a clock of the test's own.
    pub fn with_clock(clock: Arc<dyn Clock>, flags: &[(&str, &str)]) -> Server {
        Server::on_store(Arc::new(tempfile::tempdir().unwrap()), flags, clock, sled)
    }

    /// A server with a store of the test's own.
    pub fn with_store(store: Arc<dyn EventStore>) -> Server {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join("data")).unwrap();
        Server::on_store(Arc::new(folder), &[], Arc::new(WallClock), |_| store)
    }

    fn on_store(
        folder: Arc<tempfile::TempDir>,
        flags: &[(&str, &str)],
        clock: Arc<dyn Clock>,
        store: impl FnOnce(&Path) -> Arc<dyn EventStore>,
    ) -> Server {
        std::fs::create_dir_all(folder.path().join("skills")).unwrap();
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
        let mut all = vec![
            ("data_dir", folder.path().join("data").to_str().unwrap().to_owned()),
            ("skills_dir", folder.path().join("skills").to_str().unwrap().to_owned()),
            ("kill_grace_seconds", "1".to_owned()),
            ("min_free_bytes", "0".to_owned()),
        ];
        // A program that poses as an engine keeps its notes beside itself.
        let posing = flags.iter().filter(|(key, _)| key.starts_with("engines.") && key.ends_with(".command"));
        let beside = posing
            .filter_map(|(_, command)| PathBuf::from(command).parent().map(|folder| folder.display().to_string()));
        let beside: Vec<String> = beside.filter(|folder| folder.starts_with('/') && folder.len() > 1).collect();
        all.push(("sandbox_write", beside.join(",")));
        // Some of them play recordings of the repository with this program, and both may be below /tmp.
        let own = Path::new(env!("CARGO_BIN_EXE_skill-runner")).parent().unwrap();
        all.push(("sandbox_read", format!("{},{}", own.display(), env!("CARGO_MANIFEST_DIR"))));
        all.extend(flags.iter().map(|(key, value)| (*key, (*value).to_owned())));
        let flags: BTreeMap<String, String> = all.into_iter().map(|(key, value)| (key.to_owned(), value)).collect();
        let flags: Vec<(String, String)> = flags.into_iter().collect();
        let settings = Settings::load(None, &BTreeMap::new(), &flags, 2).unwrap();
        let store = store(&settings.paths.data_dir);
        let registry = Registry::new(&settings.paths.skills_dir).with_agents(&settings.paths.agents_dir);
        let program = PathBuf::from(env!("CARGO_BIN_EXE_skill-runner"));
        let environment = Environment {
            clock,
            renderer: Arc::new(ChildRenderer::new(program.clone())),
            program,
            ..Environment::real(&settings)
        };
        let started = Orchestrator::start_in(environment, store, registry, settings);
        let orchestrator = runtime.block_on(started).unwrap();
        let listener = runtime.block_on(tokio::net::TcpListener::bind("127.0.0.1:0")).unwrap();
        let address = listener.local_addr().unwrap();
        let (stop, stopped) = oneshot::channel();
        let served = runtime.spawn(skill_runner::http::serve(listener, orchestrator.clone(), async move {
            let _ = stopped.await;
        }));
        Server { orchestrator, address, folder, stop: Some(stop), served: Some(served), runtime: Some(runtime) }
    }

    /// The data folder.
    pub fn data(&self) -> PathBuf {
        self.folder.path().join("data")
    }

    /// The folder of a run.
    pub fn run_dir(&self, run: &str) -> PathBuf {
        self.data().join("runs").join(run)
    }

    /// Install a skill whose script is this.
    pub fn skill(&self, id: &str, sh: &str, extras: Value) {
        script_skill(&self.folder.path().join("skills"), id, sh, extras);
    }

    /// A request, to be completed and sent.
    pub fn call(&self, method: &str, path: &str) -> Call {
        Call::new(self.address, method, path)
    }

    /// GET.
    pub fn get(&self, path: &str) -> Answer {
        self.call("GET", path).send()
    }

    /// POST with a JSON body.
    pub fn post(&self, path: &str, body: &Value) -> Answer {
        self.call("POST", path).json(body).send()
    }

    /// Create a run of a skill; its request id and run id.
    pub fn create(&self, skill: &str) -> (String, String) {
        self.create_with(&json!({"skill_id": skill}))
    }

    /// Create a run; its request id and run id.
    pub fn create_with(&self, body: &Value) -> (String, String) {
        let answer = self.post("/v1/jobs", body);
        let created = answer.json();
        assert_eq!(answer.status, 201, "{created}");
        let text = |key: &str| created[key].as_str().unwrap().to_owned();
        (text("request_id"), text("run_id"))
    }

    /// Create a run and see it end; its request id and run id.
    pub fn finished(&self, skill: &str) -> (String, String) {
        let (request, run) = self.create(skill);
        self.finish(&run);
        (request, run)
    }

    /// Wait for the run's end and check its log; its events.
    pub fn finish(&self, run: &str) -> Vec<Value> {
        let events = self.events(run, 0).until_end();
        check::whole_log(self, run);
        events
    }

    /// Be told when the events of a run have left the store. To be watched before they leave.
    pub fn watch_leave(&self, run: &str) -> Leaving {
        Leaving(self.orchestrator.log().watch(RunId(run.parse().unwrap())))
    }

    /// Follow a run's events.
    pub fn events(&self, id: &str, cursor: u64) -> Sse {
        Sse::open(self.address, &format!("/v1/jobs/{id}/events?cursor={cursor}"), &[])
    }

    /// Follow a run until an event of this type whose text holds `needle`.
    pub fn wait_for(&self, id: &str, event_type: &str, needle: &str) -> Value {
        let mut events = self.events(id, 0);
        loop {
            let event = events.next_chat().unwrap_or_else(|| panic!("no {event_type} with {needle:?}"));
            if event["type"] == event_type && event["data"].to_string().contains(needle) {
                return event;
            }
        }
    }

    /// Let a script that waits at its `gate` go on, with a line to read.
    pub fn open_gate(&self, run: &str, line: &str) {
        // Opening blocks until the script opens the other end.
        std::fs::write(self.run_dir(run).join("gate"), format!("{line}\n")).unwrap();
    }

    /// Tell the server to stop.
    pub fn stop(&mut self) {
        if let Some(stop) = self.stop.take() {
            let _ = stop.send(());
        }
    }

    /// Wait until the server has stopped.
    pub fn stopped(&mut self) {
        if let (Some(served), Some(runtime)) = (self.served.take(), &self.runtime) {
            runtime.block_on(async { tokio::time::timeout(LONG, served).await }).unwrap().unwrap().unwrap();
        }
    }

    /// Wait for something of the service's own.
    pub fn block_on<T>(&self, work: impl Future<Output = T>) -> T {
        self.runtime.as_ref().unwrap().block_on(work)
    }

    /// End running engines and wait for the sealing of their logs.
    pub fn drain(&self) {
        let runtime = self.runtime.as_ref().unwrap();
        runtime.block_on(self.orchestrator.drain(Duration::ZERO));
    }

    /// Every file and folder below the data folder that belongs to runs and requests, by relative path.
    pub fn left_behind(&self) -> Vec<String> {
        let mut found = Vec::new();
        for part in ["runs", "requests", "tmp"] {
            walk(&self.data().join(part), &mut found);
        }
        let data = self.data();
        let mut found: Vec<String> =
            found.iter().map(|path| path.strip_prefix(&data).unwrap().to_string_lossy().into_owned()).collect();
        found.sort();
        found
    }
}

fn sled(data: &Path) -> Arc<dyn EventStore> {
    Arc::new(SledStore::open(data, |error| panic!("{error}")).unwrap())
}

/// Events that will leave the store.
pub struct Leaving(watch::Receiver<Seq>);

impl Leaving {
    /// Wait until they have left: the log is in its file alone. The channel of a run closes then.
    pub fn wait(mut self, server: &Server) {
        let gone = async { tokio::time::timeout(LONG, async { while self.0.changed().await.is_ok() {} }).await };
        server.block_on(gone).unwrap();
    }
}

fn walk(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        found.push(entry.path());
        if entry.file_type().unwrap().is_dir() {
            walk(&entry.path(), found);
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            self.drain();
            let all = ListFilter { limit: usize::MAX, ..ListFilter::default() };
            let listed = self.block_on(self.orchestrator.list(&all)).unwrap();
            for job in listed.jobs {
                check::log_on_disk(self, &job.run_id.to_string());
            }
            self.stop();
            self.stopped();
        }
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_timeout(Duration::from_secs(5));
        }
    }
}
