//! What is left in the long run, and after the service itself was killed.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::{Child, Stdio};
use std::time::Duration;

use rustix::process::Signal;
use skill_runner::engine::Launch;
use skill_runner::supervisor::{Output, ProcessExit, Stream, Swept, sweep};

use super::{
    AMPLE, DAEMON, finish, given_room, hear_until, is_alive, kill, own_process, parent_of, passes_in_its_own_process,
    wait_for,
};

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
            Output::StdoutLimitExceeded
            | Output::Rewritten { .. }
            | Output::EgressRefused { .. }
            | Output::LogFailed { .. }
            | Output::LogChanged { .. } => panic!("{output:?}"),
            Output::Ended(ended) => assert_eq!(ended.stdout.bytes, 300_000_000),
        }
    }
    assert_eq!(bytes, 300_000_000);
    assert!(peak() - before < 16_000, "{before} kB, then {} kB", peak());
}

#[test]
fn a_daemon_without_marks_does_not_outlive_a_shim_that_its_engine_killed() {
    passes_in_its_own_process("inside_a_lost_shim");
}

/// In a container the service's session may have begun outside of it, and then has no number inside.
#[test]
fn nothing_outlives_a_lost_shim_where_the_session_began_outside_the_pid_namespace() {
    const NAMESPACE: [&str; 5] = ["--user", "--map-root-user", "--pid", "--fork", "--mount-proc"];
    let inside = || {
        let mut unshare = std::process::Command::new("unshare");
        unshare.args(NAMESPACE);
        unshare
    };
    if !inside().arg("true").status().is_ok_and(|status| status.success()) {
        eprintln!("this machine lets nobody make a pid namespace; the test needs one");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let plain = own_process("inside_a_lost_shim", folder.path());
    let mut command = inside();
    // The shell is the first process there, and reaps orphans.
    command.args(["sh", "-c", "\"$@\"; exit $?", "sh"]).arg(plain.get_program()).args(plain.get_args());
    command.envs(plain.get_envs().filter_map(|(name, value)| Some((name, value?))));
    let output = command.output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && text.contains("1 passed"), "{text}\n{errors}");
}

#[tokio::test(flavor = "multi_thread")]
async fn inside_a_lost_shim() {
    let Some(room) = given_room() else { return };
    // Another run goes on meanwhile, and is not touched.
    let mut other = room.spawn(&room.sh("echo other; exec sleep 1000")).await;
    let heard_other = hear_until(&mut other, "other").await;
    let room = super::Room::new();
    let script = format!("{DAEMON}\nos.chdir('/')\nos.kill(os.getppid(), 9)\nimport time\ntime.sleep(1000)");
    let finished = room.run(&room.python(&script)).await;
    assert_eq!(finished.pids().into_iter().filter(|pid| is_alive(*pid)).count(), 0);
    assert_eq!((finished.pids().len(), &finished.ended), (1, &room.ended(ProcessExit::Unknown, 1)));
    assert!(is_alive(other.pid()));
    other.stop(Duration::ZERO);
    finish(other, heard_other).await;
    let child = rustix::process::wait(rustix::process::WaitOptions::NOHANG);
    assert_eq!(child.unwrap_err(), rustix::io::Errno::CHILD, "nobody is left unreaped");
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
fn service(root: &Path) -> (Child, [u32; 4]) {
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
    kill(dead.id(), Signal::STOP);
    let shim = parent_of(engine);
    kill(shim, Signal::KILL);
    wait_for("the shim dies", || (!is_alive(shim)).then_some(()));
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
    kill(daemon, Signal::KILL);
    alive.kill().unwrap();
    alive.wait().unwrap();
}

#[test]
fn a_log_that_cannot_be_written_is_said_once_and_the_engine_still_ends() {
    passes_in_its_own_process("inside_a_full_log");
}

/// Files of this process cannot grow beyond 1000 bytes.
#[tokio::test(flavor = "multi_thread")]
async fn inside_a_full_log() {
    let Some(room) = given_room() else { return };
    // The shim's program is a file, too, and is made with the first start.
    room.run(&room.sh("true")).await;
    let limit = rustix::process::Rlimit { current: Some(1000), maximum: Some(1000) };
    rustix::process::setrlimit(rustix::process::Resource::Fsize, limit).unwrap();
    // SAFETY: no handler is set. This process is then told by an error, and not ended.
    unsafe { libc::signal(libc::SIGXFSZ, libc::SIG_IGN) };
    let finished = room.run(&room.sh("head -c 300000 /dev/zero; echo err >&2")).await;
    let ended = finished.ended.unwrap();
    assert_eq!(finished.logs_failed, [(Stream::Stdout, std::io::ErrorKind::FileTooLarge)]);
    assert_eq!((ended.exit, ended.stdout.dropped, finished.stdout), (ProcessExit::Code(0), 299_000, vec![0; 1000]));
    assert_eq!(finished.stderr, b"err\n");
}
