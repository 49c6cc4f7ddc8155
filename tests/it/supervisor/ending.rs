//! How one engine ends, and that nothing of it is left.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::time::{Duration, Instant};

use rustix::process::Signal;
use skill_runner::engine::{Launch, PoliteSignal};
use skill_runner::supervisor::{Error, ProcessExit, sweep};

use super::{AMPLE, DAEMON, LONG, Room, SUBREAPERS, finish, hear_until, is_alive, kill, parent_of, wait_for};

#[tokio::test(flavor = "multi_thread")]
async fn a_polite_engine_has_its_last_word() {
    for (polite, signal) in [(PoliteSignal::TerminateAll, "TERM"), (PoliteSignal::Interrupt, "INT")] {
        let room = Room::new();
        let script = format!("trap 'echo bye; exit 3' {signal}; echo ready; while :; do sleep 0.02; done");
        let mut process = room.spawn(&Launch { polite, ..room.sh(&script) }).await;
        let heard = hear_until(&mut process, "ready").await;
        process.stop(LONG);
        let finished = finish(process, heard).await;
        assert_eq!((finished.text(), finished.ended.as_ref().unwrap().exit), ("ready\nbye\n", ProcessExit::Code(3)));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_engine_that_ignores_the_polite_signal_is_killed_after_its_grace() {
    let room = Room::new();
    let mut process = room.spawn(&room.sh("trap '' TERM; sleep 1000 & echo ready; wait; echo never")).await;
    let heard = hear_until(&mut process, "ready").await;
    let (asked, grace) = (Instant::now(), Duration::from_millis(300));
    process.stop(LONG);
    process.stop(grace);
    let finished = finish(process, heard).await;
    assert!(asked.elapsed() >= grace);
    assert_eq!((finished.text(), &finished.ended), ("ready\n", &room.ended(ProcessExit::Signal(9), 1)));
}

#[tokio::test(flavor = "multi_thread")]
async fn whatever_an_engine_leaves_behind_is_gone_when_it_has_ended() {
    let room = Room::new();
    let finished = room.run(&room.python(&format!("{DAEMON}\nsys.exit(5)"))).await;
    assert_eq!(finished.pids().into_iter().filter(|pid| is_alive(*pid)).count(), 0);
    assert_eq!((finished.pids().len(), finished.ended), (1, room.ended(ProcessExit::Code(5), 1)));
}

#[tokio::test(flavor = "multi_thread")]
async fn who_adopts_the_orphans_of_an_engine_is_gone_with_them() {
    // A process that is the subreaper in the shim's place, and an orphan below it.
    let script = "
import ctypes, os, sys, time
read, write = os.pipe()
def stay():
    os.setsid()
    os.write(write, b'%d\\n' % os.getpid())
    os.closerange(0, 100)
    time.sleep(1000)
if os.fork() == 0:
    ctypes.CDLL(None).prctl(36, 1, 0, 0, 0)
    if os.fork() == 0:
        if os.fork() == 0:
            stay()
        os._exit(0)
    os.wait()
    stay()
told = b''
while told.count(b'\\n') < 2:
    told += os.read(read, 100)
sys.stdout.write(told.decode())
sys.exit(5)";
    let room = Room::new();
    let finished = room.run(&room.python(script)).await;
    assert_eq!(finished.pids().into_iter().filter(|pid| is_alive(*pid)).count(), 0);
    assert_eq!((finished.pids().len(), finished.ended), (2, room.ended(ProcessExit::Code(5), 2)));
}

#[tokio::test(flavor = "multi_thread")]
async fn subreapers_below_each_other_are_gone_with_all_that_they_adopted() {
    let room = Room::new();
    let finished = room.run(&room.python(SUBREAPERS)).await;
    assert_eq!(finished.pids().into_iter().filter(|pid| is_alive(*pid)).count(), 0);
    assert_eq!((finished.pids().len(), finished.ended), (40, room.ended(ProcessExit::Code(5), 40)));
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
    assert_eq!((ended.exit, ended.stragglers_killed), (ProcessExit::Signal(2), 2));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_straggler_that_holds_stdout_is_cut_off_soon_after_the_engine() {
    let room = Room::new();
    let started = Instant::now();
    let finished = room.run(&room.sh("(trap '' TERM; sleep 1000) & echo $!")).await;
    assert!(started.elapsed() < Duration::from_secs(20));
    assert!(!is_alive(finished.pids()[0]));
    assert_eq!(finished.ended.unwrap().exit, ProcessExit::Code(0));
}

#[tokio::test(flavor = "multi_thread")]
async fn output_that_comes_shortly_after_the_engine_is_still_read() {
    // It speaks the moment the engine is over, a zombie or gone.
    let waits = "while read -r pid name state rest </proc/$$/stat && [ \"$state\" != Z ]; do :; done 2>/dev/null";
    let script = format!("({waits}; echo late) & echo early");
    // The moment that is left for it is short, and a busy machine may let it pass; not every time.
    for _ in 0..5 {
        let room = Room::new();
        let finished = room.run(&room.sh(&script)).await;
        if finished.text() == "early\nlate\n" && finished.ended == room.ended(ProcessExit::Code(0), 0) {
            return;
        }
        eprintln!("{finished:?}");
    }
    panic!("nothing was read after the engine");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_engine_that_closes_its_pipes_runs_on_until_it_exits() {
    let room = Room::new();
    let finished = room.run(&room.sh("echo out; exec >&- 2>&-; sleep 0.8; touch reached; exit 4")).await;
    assert!(room.work("reached").exists());
    assert_eq!((finished.text(), &finished.ended), ("out\n", &room.ended(ProcessExit::Code(4), 0)));
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
    assert_eq!((finished.text(), &finished.ended), ("ready\nlast", &room.ended(ProcessExit::Code(0), 0)));
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

#[tokio::test(flavor = "multi_thread")]
async fn what_forks_faster_than_it_can_be_listed_is_killed_all_the_same() {
    let room = Room::new();
    // It goes on under a new pid every moment, and gives up by itself only long after it should be dead.
    let hopper = "
import os, sys, time
end = time.time() + 90
if os.fork() == 0:
    while time.time() < end:
        if os.fork(): os._exit(0)
print('ready', flush=True)
time.sleep(1000)";
    let mut process = room.spawn(&room.python(hopper)).await;
    let heard = hear_until(&mut process, "ready").await;
    let asked = Instant::now();
    process.stop(Duration::ZERO);
    finish(process, heard).await;
    assert!(asked.elapsed() < LONG / 2, "{:?}", asked.elapsed());
    assert_eq!(sweep(&room.root).unwrap(), []);
}

/// A program of 37 bytes of code that goes on under another pid, in another session, as fast as the kernel makes processes. It gives up by
/// itself after two million times.
#[cfg(target_arch = "x86_64")]
fn hopper(path: &std::path::Path) {
    let code = [
        &[0xbb][..],
        &2_000_000_u32.to_le_bytes(),
        // fork; the parent leaves
        &[0xb8, 57, 0, 0, 0, 0x0f, 0x05, 0x85, 0xc0, 0x75, 0x0b],
        // setsid, and on
        &[0xb8, 112, 0, 0, 0, 0x0f, 0x05, 0xff, 0xcb, 0x75, 0xea],
        // exit
        &[0xb8, 60, 0, 0, 0, 0x31, 0xff, 0x0f, 0x05],
    ]
    .concat();
    let (heads, place) = (64 + 56, 0x40_0000_u64);
    let size = (heads + code.len()) as u64;
    let numbers = |list: &[u64]| list.iter().flat_map(|number| number.to_le_bytes()).collect::<Vec<u8>>();
    let file = [
        b"\x7fELF\x02\x01\x01".to_vec(),
        vec![0; 9],
        // A program for this machine: its entry, its one segment, and the sizes of heads.
        [2_u16, 62].iter().flat_map(|number| number.to_le_bytes()).collect(),
        1_u32.to_le_bytes().to_vec(),
        numbers(&[place + heads as u64, 64, 0]),
        0_u32.to_le_bytes().to_vec(),
        [64_u16, 56, 1, 0, 0, 0].iter().flat_map(|number| number.to_le_bytes()).collect(),
        [1_u32, 5].iter().flat_map(|number| number.to_le_bytes()).collect(),
        numbers(&[0, place, place, size, size, 0x1000]),
        code,
    ];
    fs::write(path, file.concat()).unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
}

#[cfg(target_arch = "x86_64")]
#[tokio::test(flavor = "multi_thread")]
async fn what_goes_on_in_another_session_all_the_time_is_killed_all_the_same() {
    let room = Room::new();
    hopper(&room.work("hopper"));
    let mut process = room.spawn(&room.sh("./hopper & ./hopper & ./hopper & echo ready; exec sleep 1000")).await;
    let heard = hear_until(&mut process, "ready").await;
    let asked = Instant::now();
    process.stop(Duration::ZERO);
    finish(process, heard).await;
    assert!(asked.elapsed() < LONG / 4, "{:?}", asked.elapsed());
    assert_eq!(sweep(&room.root).unwrap(), []);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_engine_that_halts_its_shim_is_killed_all_the_same() {
    let room = Room::new();
    let mut process = room.spawn(&room.sh("kill -STOP $PPID; trap '' TERM; sleep 1000 & echo ready; wait")).await;
    let heard = hear_until(&mut process, "ready").await;
    process.stop(Duration::ZERO);
    assert_eq!(finish(process, heard).await.ended, room.ended(ProcessExit::Signal(9), 1));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lost_shim_ends_the_run_with_an_unknown_exit_and_nothing_left() {
    let room = Room::new();
    let mut process = room.spawn(&room.sh("setsid sleep 1000 & echo $!; exec sleep 1000")).await;
    let heard = hear_until(&mut process, "\n").await;
    let pids = [heard.pids()[0], process.pid()];
    kill(parent_of(process.pid()), Signal::KILL);
    let finished = finish(process, heard).await;
    assert!(!pids.into_iter().any(is_alive));
    assert_eq!(finished.ended, room.ended(ProcessExit::Unknown, 1));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_engine_that_halts_its_shim_and_exits_does_not_seem_to_run_on() {
    let room = Room::new();
    let started = Instant::now();
    let finished = room.run(&room.sh("echo said; kill -STOP $PPID; exit 6")).await;
    assert!(started.elapsed() < LONG / 2);
    assert_eq!((finished.text(), &finished.ended), ("said\n", &room.ended(ProcessExit::Code(6), 0)));
}
