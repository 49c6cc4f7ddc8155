//! The supervisor with real processes: what goes in, what comes out, and that nothing is left.

mod beginning;
mod confined;
mod ending;
mod files;
mod output;
mod strangers;
mod survival;

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use sha2::{Digest, Sha256};
use skill_runner::domain::ids::RunId;
use skill_runner::engine::{Launch, PoliteSignal, Streams, WayOut};
use skill_runner::supervisor::{
    Access, ControlGroups, Ended, Error, Limits, Network, Output, Process, ProcessExit, ReadOnlyBind, Sandbox, Shown,
    Spec, Stream, StreamTotals, spawn,
};
use uuid::Uuid;

const PATH: &str = "/usr/local/bin:/usr/bin:/bin";
const AMPLE: Limits = Limits { stdout_max: None, log_max: 1 << 40 };
const LONG: Duration = Duration::from_secs(60);

/// A data folder with one run in it.
struct Room {
    root: PathBuf,
    run: RunId,
    confined: bool,
    _folder: Option<tempfile::TempDir>,
}

impl Room {
    fn new() -> Room {
        let folder = tempfile::tempdir().unwrap();
        let room = Room::at(folder.path());
        Room { _folder: Some(folder), ..room }
    }

    fn at(root: &Path) -> Room {
        fs::create_dir_all(root.join("work")).unwrap();
        Room { root: root.to_owned(), run: RunId(Uuid::now_v7()), confined: false, _folder: None }
    }

    fn work(&self, name: &str) -> PathBuf {
        self.root.join("work").join(name)
    }

    fn launch(&self, argv: &[&str]) -> Launch {
        Launch {
            argv: argv.iter().map(|word| (*word).to_owned()).collect(),
            env: vec![("PATH".into(), PATH.into())],
            cwd: self.root.join("work"),
            stdin: Vec::new(),
            polite: PoliteSignal::TerminateAll,
            streams: Streams::Pipes,
            secrets: Vec::new(),
            own_tmp: false,
        }
    }

    fn sh(&self, script: &str) -> Launch {
        self.launch(&["sh", "-c", script])
    }

    fn python(&self, script: &str) -> Launch {
        self.launch(&["python3", "-c", script])
    }

    /// The sandbox of its processes, where they are to have one: everything of the room and nothing else can be written.
    fn sandbox(&self) -> Option<Sandbox> {
        if !self.confined {
            return None;
        }
        let write = |source: PathBuf, target: PathBuf| Shown { source, target, access: Access::Write };
        let tmp = self.root.join("tmp");
        Some(Sandbox {
            user_namespace: !rustix::process::geteuid().is_root(),
            hidden: ["/root", "/home", "/run", "/tmp"].map(PathBuf::from).to_vec(),
            shown: vec![write(self.root.clone(), self.root.clone()), write(tmp, "/tmp".into())],
            network: Network::None,
        })
    }

    async fn try_spawn(&self, launch: &Launch, limits: Limits) -> Result<Process, Error> {
        self.try_spawn_with(launch, limits, &[]).await
    }

    async fn try_spawn_with(
        &self,
        launch: &Launch,
        limits: Limits,
        read_only_binds: &[ReadOnlyBind],
    ) -> Result<Process, Error> {
        let (stdout_log, stderr_log) = (self.root.join("stdout.txt"), self.root.join("stderr.txt"));
        let tmp_dir = self.root.join("tmp");
        let (stdout_log, stderr_log, tmp_dir) = (&stdout_log, &stderr_log, &tmp_dir);
        let sandbox = self.sandbox();
        let sandbox = sandbox.as_ref();
        let (run, resources) = (self.run, None);
        let spec = Spec { launch, run, stdout_log, stderr_log, tmp_dir, limits, read_only_binds, sandbox, resources };
        spawn(spec, &ControlGroups::Off).await
    }

    async fn spawn(&self, launch: &Launch) -> Process {
        self.try_spawn(launch, AMPLE).await.unwrap()
    }

    async fn run(&self, launch: &Launch) -> Finished {
        finish(self.spawn(launch).await, Finished::default()).await
    }

    /// The totals that the stream's file calls for.
    fn totals(&self, name: &str) -> StreamTotals {
        let bytes = fs::read(self.root.join(name)).unwrap();
        let sha256 = Sha256::digest(&bytes).iter().map(|byte| format!("{byte:02x}")).collect();
        StreamTotals { bytes: bytes.len() as u64, sha256, dropped: 0 }
    }

    fn ended(&self, exit: ProcessExit, stragglers_killed: u32) -> Option<Ended> {
        let (stdout, stderr) = (self.totals("stdout.txt"), self.totals("stderr.txt"));
        let way_out = WayOut::default();
        Some(Ended { exit, stdout, stderr, stragglers_killed, exceeded: None, way_out })
    }
}

/// Everything a process said.
#[derive(Debug, Default, PartialEq)]
struct Finished {
    stdout: Vec<u8>,
    stderr: Vec<u8>,
    stdout_from: Option<u64>,
    stderr_from: Option<u64>,
    limit_exceeded: usize,
    logs_failed: Vec<(Stream, ErrorKind)>,
    logs_changed: Vec<Stream>,
    rewritten: Vec<Stream>,
    ended: Option<Ended>,
}

impl Finished {
    fn hear(&mut self, output: Output) {
        match output {
            Output::Chunk { stream, from, bytes } => {
                let (text, first) = match stream {
                    Stream::Stdout | Stream::Pty => (&mut self.stdout, &mut self.stdout_from),
                    Stream::Stderr => (&mut self.stderr, &mut self.stderr_from),
                };
                let expected = *first.get_or_insert(from) + text.len() as u64;
                assert_eq!(from, expected, "chunks of {stream:?} tile");
                text.extend_from_slice(&bytes);
            }
            Output::StdoutLimitExceeded => self.limit_exceeded += 1,
            Output::Rewritten { stream } => self.rewritten.push(stream),
            Output::EgressRefused { .. } => panic!("{output:?}"),
            Output::LogFailed { stream, error } => self.logs_failed.push((stream, error.kind())),
            Output::LogChanged { stream } => self.logs_changed.push(stream),
            Output::Ended(ended) => assert_eq!(self.ended.replace(ended), None),
        }
    }

    fn text(&self) -> &str {
        std::str::from_utf8(&self.stdout).unwrap()
    }

    fn pids(&self) -> Vec<u32> {
        self.text().split_whitespace().filter_map(|word| word.parse().ok()).collect()
    }
}

async fn finish(mut process: Process, mut heard: Finished) -> Finished {
    let all = async {
        while let Some(output) = process.next().await {
            heard.hear(output);
        }
        heard
    };
    tokio::time::timeout(LONG, all).await.expect("the process ends in time")
}

/// Reads on until standard output holds `word`.
async fn hear_until(process: &mut Process, word: &str) -> Finished {
    let mut heard = Finished::default();
    let hear = async {
        while !String::from_utf8_lossy(&heard.stdout).contains(word) {
            heard.hear(process.next().await.expect("more output"));
        }
    };
    tokio::time::timeout(LONG, hear).await.expect("the word comes in time");
    heard
}

/// A process that runs: zombies do not.
fn is_alive(pid: u32) -> bool {
    let Ok(stat) = fs::read_to_string(format!("/proc/{pid}/stat")) else { return false };
    !stat.rsplit(')').next().unwrap().starts_with(" Z")
}

fn parent_of(pid: u32) -> u32 {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    stat.rsplit(')').next().unwrap().split_whitespace().nth(1).unwrap().parse().unwrap()
}

fn wait_for<T>(what: &str, mut probe: impl FnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + LONG;
    loop {
        if let Some(found) = probe() {
            return found;
        }
        assert!(Instant::now() < deadline, "in time: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn kill(pid: u32, signal: rustix::process::Signal) {
    let pid = rustix::process::Pid::from_raw(pid.cast_signed()).unwrap();
    rustix::process::kill_process(pid, signal).unwrap();
}

/// Runs one test of this binary in a process of its own, where nothing else opens files or allocates.
fn own_process(test: &str, root: &Path) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", &format!("supervisor::survival::{test}"), "--nocapture"]).env("SUPERVISOR_ROOM", root);
    command
}

/// The room of a test that runs in a process of its own; `None` in the ordinary run of all tests.
fn given_room() -> Option<Room> {
    std::env::var_os("SUPERVISOR_ROOM").map(|root| Room::at(Path::new(&root)))
}

fn passes_in_its_own_process(test: &str) {
    let folder = tempfile::tempdir().unwrap();
    let output = own_process(test, folder.path()).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(
        output.status.success() && text.contains("1 passed"),
        "{text}\n{}",
        String::from_utf8_lossy(&output.stderr)
    );
}

/// Python with twenty subreapers below each other, each in a session of its own and with an orphan that it has adopted, and prints the
/// pids of all. Then it ends.
const SUBREAPERS: &str = r#"
import ctypes, os, sys, time
prctl = ctypes.CDLL(None).prctl
told, tell = os.pipe()
def stay():
    os.write(tell, b'%d\n' % os.getpid())
    os.closerange(0, 100)
    time.sleep(1000)
def nest(depth):
    os.setsid()
    prctl(36, 1, 0, 0, 0)
    if os.fork() == 0:
        if os.fork() == 0:
            os.setsid()
            stay()
        os._exit(0)
    os.wait()
    if depth > 1 and os.fork() == 0:
        nest(depth - 1)
    stay()
if os.fork() == 0:
    nest(20)
pids = b''
while pids.count(b'\n') < 40:
    pids += os.read(told, 1000)
sys.stdout.write(pids.decode())
sys.exit(5)"#;

/// Python that leaves a daemon behind: own session, forked twice, environment cleared, no pipe held. Prints its pid.
const DAEMON: &str = r#"
import os, sys
r, w = os.pipe()
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        os.write(w, str(os.getpid()).encode())
        null = os.open('/dev/null', os.O_RDWR)
        for fd in (0, 1, 2): os.dup2(null, fd)
        os.execve('/bin/sleep', ['sleep', '1000'], {})
    os._exit(0)
os.close(w)
os.wait()
print(os.read(r, 20).decode(), flush=True)
"#;
