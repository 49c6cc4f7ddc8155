//! What an engine is given and what is read from it.

use std::collections::BTreeSet;
use std::fs;
use std::time::Duration;

use skill_runner::domain::cache_key::sha256_hex;
use skill_runner::engine::Launch;
use skill_runner::supervisor::{Ended, Error, Limits, ProcessExit, Stream, StreamTotals};

use super::{AMPLE, Finished, PATH, Room, finish, hear_until, wait_for};

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
        ended: room.ended(ProcessExit::Code(7), 0),
        ..Finished::default()
    };
    assert_eq!(finished, expected);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_engine_that_never_reads_its_input_blocks_nothing() {
    let room = Room::new();
    let launch = Launch { stdin: vec![b'x'; 10_000_000], ..room.sh("echo out") };
    let finished = room.run(&launch).await;
    assert_eq!((finished.text(), &finished.ended), ("out\n", &room.ended(ProcessExit::Code(0), 0)));
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
            ended: room.ended(ProcessExit::Code(0), 0),
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
    assert_eq!(finished.ended, room.ended(ProcessExit::Code(0), 0).map(|ended| Ended { stdout, ..ended }));
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
async fn a_log_in_whose_place_is_a_link_or_a_folder_is_refused_before_anything_starts() {
    let spoil: [fn(&std::path::Path); 2] =
        [|log| std::os::unix::fs::symlink("/dev/full", log).unwrap(), |log| fs::create_dir(log).unwrap()];
    for spoil in spoil {
        let room = Room::new();
        spoil(&room.root.join("stdout.txt"));
        let refused = room.try_spawn(&room.sh("touch begun"), AMPLE).await.unwrap_err();
        assert!(matches!(refused, Error::Log { .. }), "{refused:?}");
        assert!(!room.work("begun").exists());
    }
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
async fn logs_that_an_engine_removed_or_replaced_are_in_their_place_at_the_end() {
    let room = Room::new();
    let script =
        "echo one; echo err >&2; rm ../stdout.txt ../stderr.txt; mkfifo ../stdout.txt; ln -s /dev/zero ../stderr.txt
        echo two; echo more >&2";
    let finished = room.run(&room.sh(script)).await;
    for log in ["stdout.txt", "stderr.txt"] {
        assert!(fs::symlink_metadata(room.root.join(log)).unwrap().is_file(), "{log}");
    }
    assert_eq!((finished.text(), finished.stderr.as_slice()), ("one\ntwo\n", &b"err\nmore\n"[..]));
    assert_eq!((finished.ended, finished.logs_failed), (room.ended(ProcessExit::Code(0), 0), vec![]));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_engine_that_changes_its_own_log_is_told_on_and_what_it_puts_behind_the_end_is_cut_off() {
    let overwrite = "printf T | dd of=../stderr.txt conv=notrunc 2>/dev/null";
    for (change, left) in
        [(": > ../stderr.txt", Some("")), (overwrite, Some("Tne\n")), ("echo forged >> ../stderr.txt", None)]
    {
        let room = Room::new();
        let gate = room.work("gate");
        assert!(std::process::Command::new("mkfifo").arg(&gate).status().unwrap().success());
        let mut process = room.spawn(&room.sh(&format!("echo one >&2; echo said; read line < gate; {change}"))).await;
        let heard = hear_until(&mut process, "said").await;
        let log = room.root.join("stderr.txt");
        let opened = tokio::task::spawn_blocking(move || {
            wait_for("the line is logged", || (fs::read(&log).unwrap() == b"one\n").then_some(()));
            fs::write(gate, "go\n").unwrap();
        });
        opened.await.unwrap();
        let finished = finish(process, heard).await;
        assert_eq!(finished.logs_failed, [], "{change}");
        assert_eq!(finished.logs_changed, left.map_or(vec![], |_| vec![Stream::Stderr]), "{change}");
        let left = left.unwrap_or("one\n");
        assert_eq!(fs::read_to_string(room.root.join("stderr.txt")).unwrap(), left, "{change}");
        let told = finished.ended.unwrap().stderr;
        assert_eq!((told.bytes, told.sha256), (left.len() as u64, sha256_hex(left.as_bytes())), "{change}");
    }
}
