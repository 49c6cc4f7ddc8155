//! An engine in a sandbox: everything that a supervisor promises holds as it does without one.

use super::*;
use crate::support::sandbox;

fn confined(test: &str) -> Option<Room> {
    (!sandbox::left_out(&format!("supervisor::confined::{test}"))).then(|| Room { confined: true, ..Room::new() })
}

#[tokio::test(flavor = "multi_thread")]
async fn output_exit_codes_and_signals_are_those_of_the_engine() {
    let Some(room) = confined("output_exit_codes_and_signals_are_those_of_the_engine") else { return };
    for (script, exit) in [
        ("cat; echo out; echo err >&2; exit 7", ProcessExit::Code(7)),
        ("exit 137", ProcessExit::Code(137)),
        ("kill -TERM $$", ProcessExit::Signal(15)),
        ("kill -KILL $$", ProcessExit::Signal(9)),
    ] {
        let room = Room { confined: true, ..Room::new() };
        let finished = room.run(&room.sh(script)).await;
        assert_eq!(finished.ended, room.ended(exit, 0), "{script}");
    }
    let finished = room.run(&Launch { stdin: b"told".to_vec(), ..room.sh("cat; echo err >&2") }).await;
    assert_eq!(finished.ended, room.ended(ProcessExit::Code(0), 0));
    assert_eq!(fs::read_to_string(room.root.join("stdout.txt")).unwrap(), "told");
    assert_eq!(fs::read_to_string(room.root.join("stderr.txt")).unwrap(), "err\n");
}

#[tokio::test(flavor = "multi_thread")]
async fn who_outlives_the_engine_is_killed_and_counted() {
    let Some(room) = confined("who_outlives_the_engine_is_killed_and_counted") else { return };
    // The engine ends when all three are there.
    let script = "setsid sleep 1000 & setsid sh -c 'sleep 1000 & : > up; exec sleep 1000' & while [ ! -e up ]; do :; done; exit 3";
    let finished = room.run(&room.sh(script)).await;
    assert_eq!(finished.ended, room.ended(ProcessExit::Code(3), 3));
    assert!(of_run(&room).is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn subreapers_below_each_other_are_gone_with_all_that_they_adopted() {
    let Some(room) = confined("subreapers_below_each_other_are_gone_with_all_that_they_adopted") else { return };
    let finished = room.run(&room.python(SUBREAPERS)).await;
    // The pids are those of its own namespace.
    assert_eq!((finished.pids().len(), finished.ended), (40, room.ended(ProcessExit::Code(5), 40)));
    assert!(of_run(&room).is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn an_engine_is_asked_to_stop_and_then_killed_with_everything_it_started() {
    let Some(room) = confined("an_engine_is_asked_to_stop_and_then_killed_with_everything_it_started") else { return };
    let polite = Launch {
        polite: PoliteSignal::Interrupt,
        ..room.sh("trap 'echo asked; exit 4' INT; echo up; while :; do sleep 0.05; done")
    };
    let mut process = room.spawn(&polite).await;
    until_output(&mut process).await;
    process.stop(LONG);
    assert_eq!(finish(process, Finished::default()).await.ended.unwrap().exit, ProcessExit::Code(4));

    let room = Room { confined: true, ..Room::new() };
    let mut process = room
        .spawn(&room.sh("trap '' TERM INT; (trap '' TERM; sleep 1000) & echo up; while :; do sleep 0.05; done"))
        .await;
    until_output(&mut process).await;
    process.stop(Duration::from_millis(50));
    let ended = finish(process, Finished::default()).await.ended.unwrap();
    assert_eq!(ended.exit, ProcessExit::Signal(9));
    assert!(of_run(&room).is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_killed_shim_takes_the_whole_sandbox_with_it() {
    let Some(room) = confined("a_killed_shim_takes_the_whole_sandbox_with_it") else { return };
    let mut process = room.spawn(&room.sh("env -i setsid sleep 1000 & echo up; sleep 1000")).await;
    until_output(&mut process).await;
    let engine = process.pid().to_string();
    let stat = fs::read_to_string(format!("/proc/{engine}/stat")).unwrap();
    let shim: i32 = stat.rsplit(") ").next().unwrap().split(' ').nth(1).unwrap().parse().unwrap();
    rustix::process::kill_process(rustix::process::Pid::from_raw(shim).unwrap(), rustix::process::Signal::KILL)
        .unwrap();
    let ended = finish(process, Finished::default()).await.ended.unwrap();
    assert_eq!(ended.exit, ProcessExit::Unknown);
    assert!(of_run(&room).is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_shown_can_be_written_and_nothing_else() {
    let Some(room) = confined("what_is_shown_can_be_written_and_nothing_else") else { return };
    let script = "echo a > kept; echo b > /tmp/b; cat \"$TMPDIR/b\"; \
                  for place in /etc /usr /dev /proc / /home /run; do echo x 2>/dev/null > $place/x && echo wrote $place; done; ls /home /run; id -u";
    room.run(&room.sh(script)).await;
    let user = rustix::process::geteuid().as_raw();
    assert_eq!(fs::read_to_string(room.root.join("stdout.txt")).unwrap(), format!("b\n/home:\n\n/run:\n{user}\n"));
    assert_eq!(fs::read_to_string(room.work("kept")).unwrap(), "a\n");
    assert!(!room.root.join("tmp").exists());
}

async fn until_output(process: &mut Process) {
    while !matches!(process.next().await, Some(Output::Chunk { .. })) {}
}

/// Processes with the run's mark in their environment, by their pids.
fn of_run(room: &Room) -> Vec<PathBuf> {
    let mark = room.run.to_string();
    let entries = fs::read_dir("/proc").unwrap().flatten().map(|entry| entry.path());
    entries
        .filter(|path| String::from_utf8_lossy(&fs::read(path.join("environ")).unwrap_or_default()).contains(&mark))
        .collect()
}
