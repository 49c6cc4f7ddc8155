//! What was acknowledged survives: a child process appends and is killed, or its disk loses power.

use std::collections::HashMap;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, mpsc};
use std::time::Duration;

use bytes::Bytes;
use skill_runner::domain::ids::Seq;
use skill_runner::store::{Error, EventStore, IndexChange, IndexKey, SledStore, Space, contract};

use super::LITTLE;
use crate::support::disk::{Disk, has_own_mounts};
use crate::support::random::Random;

const RUNS: u128 = 24;
const CHILD_DIR: &str = "SKILL_RUNNER_TEST_APPEND_TO";
/// From this number on runs are short: they begin, and then their events or all of them is deleted.
const CHILD_FIRST_SHORT: &str = "SKILL_RUNNER_TEST_FIRST_SHORT_RUN";

/// What the child has acknowledged.
#[derive(Default)]
struct Acknowledged {
    /// The heads of the long runs.
    heads: HashMap<u128, u64>,
    /// The short runs, and whether they were deleted.
    short: HashMap<u128, bool>,
    rounds: u128,
}

#[test]
fn nothing_acknowledged_is_lost_when_the_process_is_killed() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    let mut acknowledged = Acknowledged::default();
    let mut random = Random::seeded();
    for round in 0..24 {
        let mut appender = Appender::start(&data, &mut acknowledged);
        appender.take(400, &mut random, &mut acknowledged);
        appender.kill(&mut acknowledged);
        check(&data, &acknowledged, round);
    }
    // There were many more, and the oldest are long gone.
    assert!(!data.join("store/generation-1").exists());
}

#[test]
fn nothing_acknowledged_is_lost_when_the_power_fails() {
    if !has_own_mounts("store::crash::nothing_acknowledged_is_lost_when_the_power_fails") {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let Some(mut disk) = Disk::make(dir.path(), 1 << 30) else { return };
    let mut random = Random::seeded();
    // A store that grows over several cuts, and new ones: creation must be durable as well.
    for store in 0..4 {
        let data = disk.mount_point.join(format!("data-{store}"));
        let mut acknowledged = Acknowledged::default();
        for round in 0..4 {
            let mut appender = Appender::start(&data, &mut acknowledged);
            appender.take(if round == 0 { 5 } else { 400 }, &mut random, &mut acknowledged);
            disk.cut_power();
            appender.kill(&mut acknowledged);
            disk.restore_power();
            check(&data, &acknowledged, round);
        }
    }
}

#[tokio::test]
async fn a_failed_disk_fails_the_waiting_appends_and_stops_the_store() {
    let dir = tempfile::tempdir().unwrap();
    let Some(disk) = Disk::make(dir.path(), 1 << 28) else { return };
    let (sender, fatal) = mpsc::channel();
    let store = SledStore::open(&disk.mount_point.join("data"), move |error| {
        sender.send(matches!(error, Error::Unavailable { .. })).unwrap();
    });
    let store = store.unwrap();
    let (run, other) = (contract::run(1), contract::run(2));
    store.append(contract::events(run, Seq(0), 3)).await.unwrap();
    let mut tail = store.watch(&run);

    disk.cut_power();
    let mut append = contract::events(run, Seq(3), 2);
    append.index = vec![IndexChange::Put(IndexKey::Run(run), row_at(Seq(5)))];
    let waiting = [store.append(append), store.append(contract::events(other, Seq(0), 1))];
    for result in futures_util::future::join_all(waiting).await {
        // The second may come with the first, or find the store stopped.
        assert!(matches!(result, Err(Error::Unavailable { .. } | Error::Closed)), "{result:?}");
    }
    assert_eq!(fatal.iter().collect::<Vec<_>>(), [true]);
    assert!(tail.changed().await.is_err());
    let after = store.append(contract::events(run, Seq(3), 1)).await;
    assert!(matches!(after, Err(Error::Closed)), "{after:?}");

    // What was on its way stays unseen.
    assert_eq!(store.head(&run).await.unwrap(), Seq(3));
    assert_eq!(store.index(&IndexKey::Run(run)).await.unwrap(), None);
    assert_eq!(store.runs(None, 9).await.unwrap(), []);
    drop(store);
}

#[tokio::test]
async fn a_disk_that_is_nearly_full_refuses_appends_and_lets_runs_be_deleted() {
    let dir = tempfile::tempdir().unwrap();
    let Some(disk) = Disk::make(dir.path(), 80 << 20) else { return };
    let store = SledStore::open(&disk.mount_point.join("data"), |error| panic!("{error:?}")).unwrap();
    let run = contract::run(1);
    store.append(contract::events(run, Seq(0), 3)).await.unwrap();

    let filler = disk.mount_point.join("filler");
    std::fs::write(&filler, vec![1; 40 << 20]).unwrap();
    let refused = store.append(contract::events(run, Seq(3), 1)).await;
    assert!(matches!(refused, Err(Error::Full { .. })), "{refused:?}");
    assert_eq!(contract::holds_whole_log(&store, run).await.unwrap(), Seq(3));

    std::fs::remove_file(&filler).unwrap();
    store.append(contract::events(run, Seq(3), 1)).await.unwrap();
    std::fs::write(&filler, vec![1; 40 << 20]).unwrap();
    store.delete_run(&run, vec![]).await.unwrap();
    assert_eq!(store.head(&run).await.unwrap(), Seq::START);
}

/// Opens the store and finds at least what was acknowledged, without a hole, with rows that fit the events.
fn check(data: &Path, acknowledged: &Acknowledged, round: usize) {
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    runtime.block_on(check_store(data, acknowledged, round));
}

async fn check_store(data: &Path, acknowledged: &Acknowledged, round: usize) {
    // What the killed process closed is settled meanwhile.
    let space = Space { quiet: LITTLE.quiet, ..Space::default() };
    let store = SledStore::open_with(data, space, |error| panic!("{error:?}")).unwrap();
    // sled writes its log before such files, so there must be none.
    for database in std::fs::read_dir(data.join("store")).unwrap().flatten() {
        let blobs = std::fs::read_dir(database.path().join("blobs"));
        assert_eq!(blobs.map_or(0, |blobs| blobs.count()), 0, "{database:?}");
    }
    for n in 0..RUNS {
        let run = contract::run(n);
        let head = contract::holds_whole_log(&store, run).await.unwrap();
        let acknowledged = acknowledged.heads.get(&n).copied().unwrap_or(0);
        assert!(head.0 >= acknowledged, "round {round}: run {n} was at {acknowledged} and is now at {head}");
        let row = store.index(&IndexKey::Run(run)).await.unwrap();
        let of = row.as_ref().map(|row| String::from_utf8_lossy(row).split_once(' ').unwrap().0.to_owned());
        assert_eq!(
            of,
            (head.0 > 0).then(|| head.to_string()),
            "round {round}: run {n}'s row and its log, acknowledged to {acknowledged}"
        );
        assert!(row == (head.0 > 0).then(|| row_at(head)), "round {round}: run {n}'s row is damaged");
    }
    for (n, deleted) in &acknowledged.short {
        check_short(&store, *n, *deleted).await;
    }
}

/// A short run is there as it was, or deleted as it was to be.
async fn check_short(store: &SledStore, n: u128, deleted: bool) {
    let run = contract::run(n);
    let head = contract::holds_whole_log(store, run).await.unwrap();
    let row = store.index(&IndexKey::Run(run)).await.unwrap();
    let kept = (Seq::START, keeps_its_row(n).then(|| row_at(SHORT)));
    let whole = (SHORT, Some(row_at(SHORT)));
    let found = (head, row);
    assert!(found == kept || !deleted && found == whole, "run {n}: deleted {deleted}, and is at {head}");
}

/// The head of a short run.
const SHORT: Seq = Seq(30);

fn keeps_its_row(n: u128) -> bool {
    n.is_multiple_of(2)
}

/// A row so long that the store must keep it in parts.
fn row_at(head: Seq) -> Bytes {
    Bytes::from(format!("{head} {}", "r".repeat(12 * 1024)))
}

/// Not a test of its own: what the child process runs, in which it is killed.
#[test]
#[ignore = "run by the other tests as a child process"]
fn append_until_killed() {
    let Some(data) = std::env::var_os(CHILD_DIR) else { return };
    let first_short: u128 = std::env::var(CHILD_FIRST_SHORT).unwrap().parse().unwrap();
    // Generations fill up and are removed all the time.
    let store = Arc::new(SledStore::open_with(Path::new(&data), LITTLE, |_| std::process::exit(1)).unwrap());
    // Ends the line that the test harness has begun.
    println!();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).build().unwrap();
    let appenders = (0..RUNS).map(|n| runtime.spawn(append_forever(store.clone(), n, first_short + n)));
    for appender in appenders.collect::<Vec<_>>() {
        runtime.block_on(appender).unwrap();
    }
}

async fn append_forever(store: Arc<SledStore>, n: u128, mut short: u128) {
    let run = contract::run(n);
    let mut head = store.head(&run).await.unwrap();
    loop {
        let count = (head.0 % 7 + 1) as u32;
        let mut append = contract::events(run, head, count);
        append.index = vec![IndexChange::Put(IndexKey::Run(run), row_at(Seq(head.0 + u64::from(count))))];
        head = store.append(append).await.unwrap();
        say(format!("ack {n} {head}\n"));
        begin_and_delete(&store, short).await;
        short += RUNS;
    }
}

async fn begin_and_delete(store: &SledStore, n: u128) {
    let run = contract::run(n);
    let mut append = contract::events(run, Seq(0), SHORT.0 as u32);
    append.index = vec![IndexChange::Put(IndexKey::Run(run), row_at(SHORT))];
    store.append(append).await.unwrap();
    say(format!("short {n} false\n"));
    match keeps_its_row(n) {
        true => store.delete_events(&run).await.unwrap(),
        false => store.delete_run(&run, vec![]).await.unwrap(),
    }
    say(format!("short {n} true\n"));
}

/// One write per line, so that a kill does not cut it.
fn say(line: String) {
    std::io::stdout().write_all(line.as_bytes()).unwrap();
}

/// A child that appends, and the acknowledgements it reports.
struct Appender {
    child: Child,
    lines: mpsc::Receiver<String>,
}

impl Appender {
    fn start(data: &Path, acknowledged: &mut Acknowledged) -> Appender {
        acknowledged.rounds += 1;
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "store::crash::append_until_killed", "--ignored", "--nocapture"])
            .env(CHILD_DIR, data)
            .env(CHILD_FIRST_SHORT, (acknowledged.rounds * 1_000_000).to_string())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let stdout = BufReader::new(child.stdout.take().unwrap());
        let (sender, lines) = mpsc::channel();
        // Read all the time: a full pipe would stop the child.
        std::thread::spawn(move || stdout.lines().map_while(Result::ok).try_for_each(|line| sender.send(line)));
        Appender { child, lines }
    }

    /// Waits for up to so many acknowledgements, and for one at least.
    fn take(&mut self, most: u64, random: &mut Random, acknowledged: &mut Acknowledged) {
        for _ in 0..=random.below(most) {
            let deadline = Duration::from_secs(60);
            while !note(&self.lines.recv_timeout(deadline).expect("the child acknowledges appends"), acknowledged) {}
        }
        // Not to wait for anything: to end at any point of a commit, not always right after one.
        std::thread::sleep(Duration::from_micros(random.below(4000)));
    }

    /// Kills the child and notes what it had still reported.
    fn kill(mut self, acknowledged: &mut Acknowledged) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
        for line in &self.lines {
            note(&line, acknowledged);
        }
    }
}

impl Drop for Appender {
    fn drop(&mut self) {
        // When a test fails half-way; harmless after `kill`.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Notes an acknowledgement; false for any other line.
fn note(line: &str, acknowledged: &mut Acknowledged) -> bool {
    let words: Vec<&str> = line.split(' ').collect();
    match words[..] {
        ["ack", run, head] => drop(acknowledged.heads.insert(run.parse().unwrap(), head.parse().unwrap())),
        ["short", run, deleted] => drop(acknowledged.short.insert(run.parse().unwrap(), deleted.parse().unwrap())),
        _ => return false,
    }
    true
}
