//! Engines whose streams are files that are followed.

use std::fs;
use std::io::Write;
use std::time::{Duration, Instant};

use skill_runner::engine::{Launch, Streams};
use skill_runner::supervisor::{Ended, Limits, Output, ProcessExit, Stream, StreamTotals};

use super::{Finished, Room, finish, hear_until};

fn with_files(launch: Launch) -> Launch {
    Launch { streams: Streams::Files, ..launch }
}

/// Writes as node does: what the stream does not take at once is for later, and the end does not wait for it.
const HURRIED: &str = "
import os, sys
size = int(sys.argv[1])
for fd in (1, 2):
    os.set_blocking(fd, False)
    try: os.write(fd, b'x' * (size - 1) + b'\\n')
    except BlockingIOError: pass
os._exit(3)
";

#[tokio::test(flavor = "multi_thread")]
async fn an_engine_that_leaves_before_its_pipe_is_read_loses_its_words_and_with_a_file_it_loses_none() {
    for (streams, whole) in [(Streams::Pipes, false), (Streams::Files, true)] {
        let room = Room::new();
        let launch = Launch { streams, ..room.launch(&["python3", "-c", HURRIED, "5000000"]) };
        let finished = room.run(&launch).await;
        assert_eq!((finished.stdout.len() == 5_000_000, finished.stderr.len() == 5_000_000), (whole, whole));
        assert_eq!(finished.ended, room.ended(ProcessExit::Code(3), 0));
        assert_eq!((finished.rewritten, finished.logs_failed), (vec![], vec![]));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn offsets_go_on_over_attempts_and_every_byte_is_kept() {
    let room = Room::new();
    let launch = with_files(room.python(
        r"import sys; b = bytes(range(256)) * 1000; sys.stdout.buffer.write(b); sys.stderr.buffer.write(b'\xff\0\n')",
    ));
    let bytes: Vec<u8> = (0..=255).cycle().take(256_000).collect();
    for attempt in 0..3 {
        let expected = Finished {
            stdout: bytes.clone(),
            stderr: b"\xff\0\n".to_vec(),
            stdout_from: Some(attempt * 256_000),
            stderr_from: Some(attempt * 3),
            ..Finished::default()
        };
        let finished = room.run(&launch).await;
        assert_eq!(finished.ended, room.ended(ProcessExit::Code(0), 0));
        assert_eq!(Finished { ended: None, ..finished }, expected);
    }
    assert_eq!(fs::read(room.root.join("stdout.txt")).unwrap(), bytes.repeat(3));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_line_is_heard_while_its_engine_waits_for_the_next() {
    let room = Room::new();
    let script = "exec 3< gate; i=0; while [ $i -lt 50 ]; do echo line $i; read answer <&3; i=$((i+1)); done";
    assert!(std::process::Command::new("mkfifo").arg(room.work("gate")).status().unwrap().success());
    let mut process = room.spawn(&with_files(room.sh(script))).await;
    let gate = room.work("gate");
    // Opening waits for the script, which begins when it is first listened to.
    let opened = tokio::task::spawn_blocking(move || fs::File::options().write(true).open(gate).unwrap());
    let mut heard = hear_until(&mut process, "line 0\n").await;
    let mut gate = opened.await.unwrap();
    for line in 1..50 {
        gate.write_all(b"on\n").unwrap();
        heard.stdout.extend(hear_until(&mut process, &format!("line {line}\n")).await.stdout);
    }
    gate.write_all(b"on\n").unwrap();
    let ended = finish(process, Finished::default()).await.ended;
    assert_eq!((heard.text().lines().count(), ended), (50, room.ended(ProcessExit::Code(0), 0)));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_engine_that_floods_its_file_is_cut_at_the_limit_and_the_disk_is_spared() {
    let room = Room::new();
    let limits = Limits { stdout_max: None, log_max: 1_000_000 };
    // The engine itself says how much the file takes on the disk, when it has grown to 400 MB.
    let script = "
import os
piece = b'x' * 1_000_000
for i in range(400): os.write(1, piece)
import time
deadline = time.time() + 50
while os.fstat(1).st_blocks * 512 > 20_000_000 and time.time() < deadline: time.sleep(0.01)
os.write(2, str(os.fstat(1).st_size).encode() + b' ' + str(os.fstat(1).st_blocks * 512 <= 20_000_000).encode())
";
    let process = room.try_spawn(&with_files(room.python(script)), limits).await.unwrap();
    let finished = finish(process, Finished::default()).await;
    assert_eq!(String::from_utf8_lossy(&finished.stderr), "400000000 True");
    let stdout = StreamTotals { dropped: 399_000_000, ..room.totals("stdout.txt") };
    assert_eq!((stdout.bytes, finished.stdout.len()), (1_000_000, 1_000_000));
    assert_eq!(finished.ended, room.ended(ProcessExit::Code(0), 0).map(|ended| Ended { stdout, ..ended }));
    assert_eq!((finished.rewritten, finished.logs_failed), (vec![], vec![]));
}

#[tokio::test(flavor = "multi_thread")]
async fn space_beyond_the_limit_is_given_back_even_while_nobody_takes_what_was_read() {
    let room = Room::new();
    let limits = Limits { stdout_max: None, log_max: 8_000_000 };
    let script = "
import os, time
piece = b'x' * 1_000_000
for i in range(200): os.write(1, piece)
while os.fstat(1).st_blocks * 512 > 20_000_000: time.sleep(0.01)
open('spared', 'w').close()
";
    let mut process = room.try_spawn(&with_files(room.python(script)), limits).await.unwrap();
    let mut heard = Finished::default();
    heard.hear(process.next().await.unwrap());
    // Nobody reads on until the engine has seen its file shrink.
    let spared = room.work("spared");
    let wait = tokio::task::spawn_blocking(move || super::wait_for("space", || spared.exists().then_some(())));
    wait.await.unwrap();
    let finished = finish(process, heard).await;
    assert_eq!((finished.stdout.len(), finished.ended.unwrap().stdout.dropped), (8_000_000, 192_000_000));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_engine_that_cuts_off_or_changes_its_own_output_is_told_on_and_keeps_what_was_read() {
    let cut = "os.ftruncate(1, 0)";
    let opened_anew = "open('/dev/stdout', 'w').write('new ')";
    let changed = "fd = os.open('/dev/stdout', os.O_WRONLY); os.write(fd, b'ONE'); os.close(fd)";
    for (change, after) in [(cut, "two\n"), (opened_anew, "new two\n"), (changed, "ONE\ntwo\n")] {
        let room = Room::new();
        let script =
            format!("import os\nos.write(1, b'one\\n')\nopen('gate').read()\n{change}\nos.write(1, b'two\\n')");
        assert!(std::process::Command::new("mkfifo").arg(room.work("gate")).status().unwrap().success());
        let mut process = room.spawn(&with_files(room.python(&script))).await;
        let heard = hear_until(&mut process, "one\n").await;
        let gate = room.work("gate");
        tokio::task::spawn_blocking(move || fs::write(gate, "on\n").unwrap()).await.unwrap();
        let finished = finish(process, heard).await;
        assert_eq!(finished.rewritten, [Stream::Stdout], "{change}");
        assert_eq!(finished.text(), format!("one\n{after}"), "{change}");
        assert_eq!(finished.ended, room.ended(ProcessExit::Code(0), 0));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_outlives_the_engine_is_heard_for_a_moment_and_then_ended() {
    let room = Room::new();
    let finished = room.run(&with_files(room.sh("(sleep 0.1; echo late; exec sleep 1000) & echo early"))).await;
    assert_eq!((finished.text(), &finished.ended), ("early\nlate\n", &room.ended(ProcessExit::Code(0), 1)));
    // Nothing outlives this one, so nobody waits.
    let mut shortest = Duration::MAX;
    for _ in 0..5 {
        let began = Instant::now();
        assert_eq!(room.run(&with_files(room.sh("echo alone"))).await.text(), "alone\n");
        shortest = shortest.min(began.elapsed());
    }
    assert!(shortest < Duration::from_millis(400), "{shortest:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stopped_engine_ends_whatever_it_still_writes() {
    let room = Room::new();
    let limits = Limits { stdout_max: None, log_max: 1 << 20 };
    let mut process = room.try_spawn(&with_files(room.sh("trap '' TERM; yes")), limits).await.unwrap();
    let heard = hear_until(&mut process, "y\n").await;
    process.stop(Duration::from_millis(10));
    let mut ended = false;
    while let Some(output) = process.next().await {
        ended |= matches!(output, Output::Ended(Ended { exit: ProcessExit::Signal(9), .. }));
    }
    assert!(ended && !heard.stdout.is_empty());
}
