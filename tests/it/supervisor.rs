//! The supervisor with real processes: what goes in, what comes out, and that nothing is left.

use std::collections::BTreeSet;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use sha2::{Digest, Sha256};
use skill_runner::domain::ids::RunId;
use skill_runner::engine::{Launch, PoliteSignal};
use skill_runner::supervisor::{
    Ended, Error, Exit, Limits, Output, Process, Spec, Stream, StreamTotals, Swept, spawn, sweep,
};
use uuid::Uuid;

const SHIM: &str = env!("CARGO_BIN_EXE_skill-runner");
const PATH: &str = "/usr/local/bin:/usr/bin:/bin";
const AMPLE: Limits = Limits { stdout_max: None, log_max: 1 << 40 };
const LONG: Duration = Duration::from_secs(60);

/// A data folder with one run in it.
struct Room {
    root: PathBuf,
    run: RunId,
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
        Room { root: root.to_owned(), run: RunId(Uuid::now_v7()), _folder: None }
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
        }
    }

    fn sh(&self, script: &str) -> Launch {
        self.launch(&["sh", "-c", script])
    }

    fn python(&self, script: &str) -> Launch {
        self.launch(&["python3", "-c", script])
    }

    async fn try_spawn(&self, launch: &Launch, limits: Limits) -> Result<Process, Error> {
        let (stdout_log, stderr_log) = (self.root.join("stdout.txt"), self.root.join("stderr.txt"));
        let tmp_dir = self.root.join("tmp");
        let (stdout_log, stderr_log, tmp_dir) = (&stdout_log, &stderr_log, &tmp_dir);
        spawn(Spec { launch, run: self.run, stdout_log, stderr_log, tmp_dir, limits, shim: Path::new(SHIM) }).await
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

    fn ended(&self, exit: Exit, stragglers_killed: u32) -> Option<Ended> {
        let (stdout, stderr) = (self.totals("stdout.txt"), self.totals("stderr.txt"));
        Some(Ended { exit, stdout, stderr, stragglers_killed })
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
            Output::LogFailed { stream, error } => self.logs_failed.push((stream, error.kind())),
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
    command.args(["--exact", &format!("supervisor::{test}"), "--nocapture"]).env("SUPERVISOR_ROOM", root);
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

#[tokio::test(flavor = "multi_thread")]
async fn an_engine_gets_its_input_and_then_its_end() {
    let room = Room::new();
    let request = format!(r#"{{"action":"run","padding":"{}"}}"#, "x".repeat(300_000));
    let launch = Launch { stdin: request.clone().into_bytes(), ..room.sh("cat; echo done >&2; exit 7") };
    let finished = room.run(&launch).await;
    let expected = Finished {
        stdout: request.into_bytes(),
        stderr: b"done\n".to_vec(),
        stdout_from: Some(0),
        stderr_from: Some(0),
        ended: room.ended(Exit::Code(7), 0),
        ..Finished::default()
    };
    assert_eq!(finished, expected);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_engine_that_never_reads_its_input_blocks_nothing() {
    let room = Room::new();
    let launch = Launch { stdin: vec![b'x'; 10_000_000], ..room.sh("echo out") };
    let finished = room.run(&launch).await;
    assert_eq!((finished.text(), &finished.ended), ("out\n", &room.ended(Exit::Code(0), 0)));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_environment_is_what_was_given_and_the_runs_own_marks() {
    let room = Room::new();
    let mut launch = room.launch(&["cat", "/proc/self/environ"]);
    launch.env.extend([("EMPTY".into(), String::new()), ("TMPDIR".into(), "/elsewhere".into())]);
    let finished = room.run(&launch).await;
    let variables: BTreeSet<&str> = finished.text().split_terminator('\0').collect();
    let (marker, tmp) =
        (format!("SKILL_RUNNER_RUN_ID={}", room.run), format!("TMPDIR={}", room.root.join("tmp").display()));
    assert_eq!(variables, BTreeSet::from([&format!("PATH={PATH}")[..], "EMPTY=", &marker, &tmp]));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_engine_starts_with_default_signals_three_open_files_and_its_own_session() {
    let room = Room::new();
    let script = "
import os
status = open('/proc/self/status').read()
signals = [line.split()[1] for line in status.splitlines() if line[:6] in ('SigBlk', 'SigIgn')]
files = [fd for fd in range(100) if os.path.exists('/proc/self/fd/%d' % fd)]
print(os.getsid(0) == os.getpid(), signals[0], int(signals[1], 16) & ~0x181001000, files)
";
    // Left out: SIGPIPE (13) and SIGXFSZ (25), which Python itself ignores, and the C library's own 32 and 33.
    assert_eq!(room.run(&room.python(script)).await.text(), "True 0000000000000000 0 [0, 1, 2]\n");
}

#[tokio::test(flavor = "multi_thread")]
async fn every_byte_is_kept_as_it_was_written_and_offsets_go_on_over_attempts() {
    let room = Room::new();
    let launch = room.python(
        r"import sys; b = bytes(range(256)) * 1000; sys.stdout.buffer.write(b); sys.stderr.buffer.write(b'\xff\0\n')",
    );
    let bytes: Vec<u8> = (0..=255).cycle().take(256_000).collect();
    for attempt in 0..3 {
        let finished = room.run(&launch).await;
        let expected = Finished {
            stdout: bytes.clone(),
            stderr: b"\xff\0\n".to_vec(),
            stdout_from: Some(attempt * 256_000),
            stderr_from: Some(attempt * 3),
            ended: room.ended(Exit::Code(0), 0),
            ..Finished::default()
        };
        assert_eq!(finished, expected);
    }
    assert_eq!(fs::read(room.root.join("stdout.txt")).unwrap(), bytes.repeat(3));
}

#[tokio::test(flavor = "multi_thread")]
async fn beyond_the_log_limit_bytes_are_counted_and_dropped() {
    let room = Room::new();
    let limits = Limits { stdout_max: None, log_max: 100_000 };
    let launch = room.sh("head -c 1000000 /dev/zero; head -c 5 /dev/zero >&2");
    let finished = finish(room.try_spawn(&launch, limits).await.unwrap(), Finished::default()).await;
    assert_eq!((finished.stdout.len(), finished.stderr.len(), finished.limit_exceeded), (100_000, 5, 0));
    let stdout = StreamTotals { dropped: 900_000, ..room.totals("stdout.txt") };
    assert_eq!(finished.ended, room.ended(Exit::Code(0), 0).map(|ended| Ended { stdout, ..ended }));
}

#[tokio::test(flavor = "multi_thread")]
async fn passing_the_stdout_limit_is_said_once_and_exactly_when_passed() {
    for (written, said) in [(1000, 0), (1001, 1), (500_000, 1)] {
        let room = Room::new();
        let limits = Limits { stdout_max: Some(1000), ..AMPLE };
        let launch = room.sh(&format!("head -c {written} /dev/zero; head -c 2000 /dev/zero >&2"));
        let finished = finish(room.try_spawn(&launch, limits).await.unwrap(), Finished::default()).await;
        assert_eq!((finished.limit_exceeded, finished.stdout.len()), (said, written));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_log_that_cannot_be_written_is_said_once_and_the_engine_still_ends() {
    let room = Room::new();
    std::os::unix::fs::symlink("/dev/full", room.root.join("stdout.txt")).unwrap();
    let finished = room.run(&room.sh("head -c 300000 /dev/zero; echo err >&2")).await;
    let ended = finished.ended.unwrap();
    assert_eq!(finished.logs_failed, [(Stream::Stdout, ErrorKind::StorageFull)]);
    assert_eq!((ended.exit, ended.stdout.dropped, finished.stdout), (Exit::Code(0), 300_000, vec![]));
    assert_eq!(finished.stderr, b"err\n");
}

#[tokio::test(flavor = "multi_thread")]
async fn logs_can_be_made_durable_while_the_engine_runs() {
    let room = Room::new();
    let mut process = room.spawn(&room.sh("echo ready; exec sleep 1000")).await;
    let heard = hear_until(&mut process, "ready").await;
    process.sync_logs().await.unwrap();
    assert_eq!(fs::read(room.root.join("stdout.txt")).unwrap(), b"ready\n");
    process.stop(Duration::ZERO);
    finish(process, heard).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_polite_engine_has_its_last_word() {
    for (polite, signal) in [(PoliteSignal::TerminateAll, "TERM"), (PoliteSignal::Interrupt, "INT")] {
        let room = Room::new();
        let script = format!("trap 'echo bye; exit 3' {signal}; echo ready; while :; do sleep 0.02; done");
        let mut process = room.spawn(&Launch { polite, ..room.sh(&script) }).await;
        let heard = hear_until(&mut process, "ready").await;
        process.stop(LONG);
        let finished = finish(process, heard).await;
        assert_eq!((finished.text(), finished.ended.as_ref().unwrap().exit), ("ready\nbye\n", Exit::Code(3)));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_engine_that_ignores_the_polite_signal_is_killed_after_its_grace() {
    let room = Room::new();
    let mut process = room.spawn(&room.sh("trap '' TERM; echo ready; sleep 1000; echo never")).await;
    let heard = hear_until(&mut process, "ready").await;
    let (asked, grace) = (Instant::now(), Duration::from_millis(300));
    process.stop(LONG);
    process.stop(grace);
    let finished = finish(process, heard).await;
    assert!(asked.elapsed() >= grace);
    assert_eq!((finished.text(), &finished.ended), ("ready\n", &room.ended(Exit::Signal(9), 1)));
}

#[tokio::test(flavor = "multi_thread")]
async fn whatever_an_engine_leaves_behind_is_gone_when_it_has_ended() {
    let room = Room::new();
    let finished = room.run(&room.python(&format!("{DAEMON}\nsys.exit(5)"))).await;
    assert_eq!(finished.pids().into_iter().filter(|pid| is_alive(*pid)).count(), 0);
    assert_eq!((finished.pids().len(), finished.ended), (1, room.ended(Exit::Code(5), 1)));
}

#[tokio::test(flavor = "multi_thread")]
async fn whatever_an_engine_has_started_is_gone_when_it_is_stopped() {
    let room = Room::new();
    let script = format!(
        "{DAEMON}
import subprocess, time
own = subprocess.Popen(['sleep', '1000'], start_new_session=True)
print(own.pid, 'end', flush=True)
time.sleep(1000)"
    );
    let mut process = room.spawn(&Launch { polite: PoliteSignal::Interrupt, ..room.python(&script) }).await;
    let heard = hear_until(&mut process, "end").await;
    let pids = heard.pids();
    process.stop(LONG);
    let ended = finish(process, heard).await.ended.unwrap();
    assert_eq!((pids.len(), pids.into_iter().filter(|pid| is_alive(*pid)).count()), (2, 0));
    assert_eq!((ended.exit, ended.stragglers_killed), (Exit::Signal(2), 2));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_straggler_that_holds_stdout_is_cut_off_soon_after_the_engine() {
    let room = Room::new();
    let started = Instant::now();
    let finished = room.run(&room.sh("(trap '' TERM; sleep 1000) & echo $!")).await;
    assert!(started.elapsed() < Duration::from_secs(20));
    assert!(!is_alive(finished.pids()[0]));
    assert_eq!(finished.ended.unwrap().exit, Exit::Code(0));
}

#[tokio::test(flavor = "multi_thread")]
async fn output_that_comes_shortly_after_the_engine_is_still_read() {
    let room = Room::new();
    let finished = room.run(&room.sh("(sleep 0.1; echo late) & echo early")).await;
    assert_eq!((finished.text(), &finished.ended), ("early\nlate\n", &room.ended(Exit::Code(0), 0)));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_engine_that_closes_its_pipes_runs_on_until_it_exits() {
    let room = Room::new();
    let finished = room.run(&room.sh("echo out; exec >&- 2>&-; sleep 0.8; touch reached; exit 4")).await;
    assert!(room.work("reached").exists());
    assert_eq!((finished.text(), &finished.ended), ("out\n", &room.ended(Exit::Code(4), 0)));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pipe_held_by_a_process_of_no_run_does_not_keep_a_run_open() {
    let room = Room::new();
    let mut process = room.spawn(&room.sh("echo ready; while [ ! -e go ]; do sleep 0.02; done; printf last")).await;
    let heard = hear_until(&mut process, "ready").await;
    let foreign = fs::OpenOptions::new().write(true).open(format!("/proc/{}/fd/1", process.pid())).unwrap();
    fs::write(room.work("go"), "").unwrap();
    let finished = finish(process, heard).await;
    drop(foreign);
    assert_eq!((finished.text(), &finished.ended), ("ready\nlast", &room.ended(Exit::Code(0), 0)));
}

#[tokio::test(flavor = "multi_thread")]
async fn dropping_a_process_kills_its_tree_and_removes_its_temporary_folder() {
    let room = Room::new();
    let mut process = room.spawn(&room.python(&format!("{DAEMON}\nimport time\ntime.sleep(1000)"))).await;
    let mut pids = hear_until(&mut process, "\n").await.pids();
    pids.push(process.pid());
    drop(process);
    tokio::task::spawn_blocking(move || {
        wait_for("the tree dies", || pids.iter().all(|pid| !is_alive(*pid)).then_some(()));
        wait_for("the folder goes", || (!room.root.join("tmp").exists()).then_some(()));
    })
    .await
    .unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn the_temporary_folder_is_private_and_removed_with_its_read_only_folders() {
    let room = Room::new();
    let script = "stat -c %a $TMPDIR; mkdir -p $TMPDIR/a/b; touch $TMPDIR/a/b/c; chmod 500 $TMPDIR/a/b $TMPDIR/a";
    assert_eq!(room.run(&room.sh(script)).await.text(), "700\n");
    assert!(!room.root.join("tmp").exists());
}

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_be_started_is_named_and_leaves_nothing() {
    let room = Room::new();
    let plain = room.work("plain");
    fs::write(&plain, "no program").unwrap();
    let plain = plain.to_str().unwrap();

    let refused = room.try_spawn(&room.launch(&["no-such-program-1"]), AMPLE).await.unwrap_err();
    assert!(matches!(&refused, Error::NotFound { program } if program == "no-such-program-1"), "{refused:?}");
    let refused = room.try_spawn(&room.launch(&[plain]), AMPLE).await.unwrap_err();
    assert!(matches!(&refused, Error::PermissionDenied { program } if program == plain), "{refused:?}");
    let nowhere = Launch { cwd: room.work("nowhere"), ..room.launch(&["true"]) };
    let refused = room.try_spawn(&nowhere, AMPLE).await.unwrap_err();
    assert!(matches!(&refused, Error::WorkingDirectory { path, .. } if *path == nowhere.cwd), "{refused:?}");
    let refused = room.try_spawn(&room.launch(&[]), AMPLE).await.unwrap_err();
    assert!(matches!(refused, Error::Start { .. }), "{refused:?}");

    assert!(!room.root.join("tmp").exists());
    assert_eq!(sweep(&room.root).unwrap(), []);
}

#[test]
fn many_runs_leak_neither_files_nor_processes() {
    passes_in_its_own_process("inside_many_runs");
}

#[tokio::test(flavor = "multi_thread")]
async fn inside_many_runs() {
    let Some(room) = given_room() else { return };
    let open_files = || fs::read_dir("/proc/self/fd").unwrap().count();
    room.run(&room.sh("true")).await;
    let before = open_files();
    for round in 0..200 {
        match round % 4 {
            0 => drop(room.run(&room.sh("echo x; echo y >&2")).await),
            1 => drop(room.run(&room.sh("setsid sleep 1000 >/dev/null 2>&1 & exit 1")).await),
            2 => drop(room.try_spawn(&room.launch(&["no-such-program-2"]), AMPLE).await.unwrap_err()),
            _ => drop(room.run(&Launch { stdin: vec![0; 100_000], ..room.sh("true") }).await),
        }
    }
    // A task that has said its last word may still be letting go of its files.
    let settled =
        tokio::task::spawn_blocking(move || wait_for("files are closed", || (open_files() <= before).then_some(())));
    settled.await.unwrap();
    // Asking for any child at all finds none: neither running nor unreaped.
    let child = rustix::process::wait(rustix::process::WaitOptions::NOHANG);
    assert_eq!(child.unwrap_err(), rustix::io::Errno::CHILD);
}

#[test]
fn a_flood_without_a_line_end_needs_bounded_memory() {
    passes_in_its_own_process("inside_a_flood");
}

#[tokio::test(flavor = "multi_thread")]
async fn inside_a_flood() {
    let Some(room) = given_room() else { return };
    let mut process = room.spawn(&room.sh("head -c 300000000 /dev/zero")).await;
    let peak = || {
        let status = fs::read_to_string("/proc/self/status").unwrap();
        let line = status.lines().find(|line| line.starts_with("VmHWM")).unwrap().to_owned();
        line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap()
    };
    let before = peak();
    let mut bytes = 0;
    while let Some(output) = process.next().await {
        match output {
            Output::Chunk { bytes: chunk, .. } => bytes += chunk.len(),
            Output::StdoutLimitExceeded | Output::LogFailed { .. } => panic!("{output:?}"),
            Output::Ended(ended) => assert_eq!(ended.stdout.bytes, 300_000_000),
        }
    }
    assert_eq!(bytes, 300_000_000);
    assert!(peak() - before < 16_000, "{before} kB, then {} kB", peak());
}

/// A service to be killed: it runs one engine, which has a child in a session of its own, one with a cleared environment, and
/// a daemon; their pids stand in the file `pids`.
#[tokio::test(flavor = "multi_thread")]
async fn inside_a_service() {
    let Some(room) = given_room() else { return };
    let script = format!(
        "{DAEMON}
import subprocess, time
own = subprocess.Popen(['sleep', '1000'], start_new_session=True)
bare = subprocess.Popen(['sleep', '1000'], env={{}}, cwd='/')
print(os.getpid(), own.pid, bare.pid, 'end', flush=True)
time.sleep(1000)"
    );
    let mut process = room.spawn(&room.python(&script)).await;
    let heard = hear_until(&mut process, "end").await;
    fs::write(room.work("pids.new"), heard.text()).unwrap();
    fs::rename(room.work("pids.new"), room.work("pids")).unwrap();
    finish(process, heard).await;
}

/// Starts that service; gives it and the pids of daemon, engine, the child in its own session and the bare child.
fn service(root: &Path) -> (std::process::Child, [u32; 4]) {
    let service = own_process("inside_a_service", root).stdout(Stdio::null()).spawn().unwrap();
    let pids = wait_for("the engine runs", || fs::read_to_string(root.join("work/pids")).ok());
    let pids: Vec<u32> = pids.split_whitespace().filter_map(|word| word.parse().ok()).collect();
    let pids: [u32; 4] = pids.try_into().unwrap();
    assert!(pids.iter().all(|pid| is_alive(*pid)));
    (service, pids)
}

#[test]
fn a_killed_service_takes_every_process_of_its_runs_with_it() {
    let folder = tempfile::tempdir().unwrap();
    let (mut service, pids) = service(folder.path());
    let shim = parent_of(pids[1]);
    service.kill().unwrap();
    service.wait().unwrap();
    wait_for("all die", || pids.iter().chain([&shim]).all(|pid| !is_alive(*pid)).then_some(()));
}

#[test]
fn what_outlives_both_service_and_shim_is_swept_up_and_another_folders_runs_are_not() {
    let (folder, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let (mut dead, [daemon, engine, own_session, bare]) = service(folder.path());
    let (mut alive, others) = service(other.path());
    // Stopped first: a live service would sweep up after a lost shim at once.
    kill(dead.id(), rustix::process::Signal::STOP);
    kill(parent_of(engine), rustix::process::Signal::KILL);
    dead.kill().unwrap();
    dead.wait().unwrap();
    assert!([daemon, engine, own_session, bare].into_iter().all(is_alive));

    let swept: BTreeSet<(u32, bool)> =
        sweep(folder.path()).unwrap().into_iter().map(|Swept { pid, run }| (pid, run.is_some())).collect();

    assert_eq!(swept, BTreeSet::from([(engine, true), (own_session, true), (bare, false)]));
    assert!(![engine, own_session, bare].into_iter().any(is_alive));
    assert_eq!(sweep(folder.path()).unwrap(), []);
    assert!(others.into_iter().all(is_alive));
    // Without mark, parent or home, the daemon cannot be told from a stranger's process.
    kill(daemon, rustix::process::Signal::KILL);
    alive.kill().unwrap();
    alive.wait().unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lost_shim_ends_the_run_with_an_unknown_exit_and_nothing_left() {
    let room = Room::new();
    let mut process = room.spawn(&room.sh("setsid sleep 1000 & echo $!; exec sleep 1000")).await;
    let heard = hear_until(&mut process, "\n").await;
    let pids = [heard.pids()[0], process.pid()];
    kill(parent_of(process.pid()), rustix::process::Signal::KILL);
    let finished = finish(process, heard).await;
    assert!(!pids.into_iter().any(is_alive));
    assert_eq!(finished.ended, room.ended(Exit::Unknown, 2));
}
