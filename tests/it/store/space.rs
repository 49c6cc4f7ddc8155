//! The store's size follows what it holds: what was deleted leaves the disk, and nothing else does.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use bytes::Bytes;
use skill_runner::domain::ids::{RequestId, RunId, Seq};
use skill_runner::store::{Append, EventStore, IndexChange, IndexKey, SledStore, contract};
use uuid::Uuid;

use super::{LITTLE, open, open_little};

/// A run's first append: its row, its request, its mark and some events.
fn begin(run: RunId, count: u32) -> Append {
    let index = vec![
        IndexChange::Put(IndexKey::Run(run), row(run)),
        IndexChange::Put(request(run), Bytes::copy_from_slice(run.as_bytes())),
        IndexChange::Put(IndexKey::Open(run), Bytes::new()),
    ];
    Append { index, ..contract::events(run, Seq(0), count) }
}

/// Of any length, so that some are kept in parts.
fn row(run: RunId) -> Bytes {
    Bytes::from(format!("{run} {}", "r".repeat((run.0.as_u128() % 11) as usize * 1000)))
}

fn request(run: RunId) -> IndexKey {
    IndexKey::Request(RequestId(Uuid::from_u128(!run.0.as_u128())))
}

async fn check_row(store: &SledStore, run: RunId, kept: bool) {
    let of_request = store.index(&request(run)).await.unwrap();
    let of_run = store.index(&IndexKey::Run(run)).await.unwrap();
    assert_eq!(of_run, kept.then(|| row(run)));
    assert_eq!(of_request, kept.then(|| Bytes::copy_from_slice(run.as_bytes())));
}

fn size(path: &Path) -> u64 {
    let Ok(entries) = std::fs::read_dir(path) else { return std::fs::metadata(path).map_or(0, |file| file.len()) };
    entries.flatten().map(|entry| size(&entry.path())).sum()
}

fn folders(data: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(data.join("store")).unwrap().flatten();
    let mut names: Vec<_> = entries.map(|entry| entry.file_name().into_string().unwrap()).collect();
    names.sort_unstable();
    names
}

async fn until(what: &str, mut done: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(60);
    while !done() {
        assert!(Instant::now() < deadline, "{what}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_deleted_leaves_the_disk_and_what_was_not_stays() {
    let dir = tempfile::tempdir().unwrap();
    let store_dir = dir.path().join("store");
    let store = open_little(dir.path());
    // One run stays open all the time, in the oldest generation; of every ten others one is kept without events.
    let (open_run, kept) = (contract::run(1_000_000), |n: u128| n.is_multiple_of(10));
    store.append(begin(open_run, 40)).await.unwrap();
    for n in 0..600_u128 {
        let run = contract::run(n);
        let head = store.append(begin(run, 20)).await.unwrap();
        store.append(contract::events(run, head, 30)).await.unwrap();
        store.append(contract::events(open_run, store.head(&open_run).await.unwrap(), 1)).await.unwrap();
        if kept(n) {
            store.delete_events(&run).await.unwrap();
        } else {
            store.delete_run(&run, vec![request(run)]).await.unwrap();
        }
    }
    // Six megabytes of events and rows came and went. What is left is some 400 kB of them.
    until("the store is small", || size(&store_dir) < 2_500_000).await;
    let check = async |store: &SledStore| {
        for n in 0..600 {
            check_row(store, contract::run(n), kept(n)).await;
            assert_eq!(store.head(&contract::run(n)).await.unwrap(), Seq::START);
        }
        check_row(store, open_run, true).await;
        assert_eq!(contract::holds_whole_log(store, open_run).await.unwrap(), Seq(640));
        assert_eq!(store.open_runs().await.unwrap(), [open_run]);
        let listed: Vec<_> = store.runs(None, 1000).await.unwrap().into_iter().map(|(run, _)| run).collect();
        let expected: Vec<_> = (0..600).rev().filter(|n| kept(*n)).map(contract::run).collect();
        assert_eq!((listed[0], &listed[1..]), (open_run, expected.as_slice()));
    };
    check(&store).await;
    drop(store);
    let store = open_little(dir.path());
    check(&store).await;

    // The first run of all goes on, though its generation is long gone.
    store.append(contract::events(open_run, Seq(640), 5)).await.unwrap();
    assert_eq!(contract::holds_whole_log(&store, open_run).await.unwrap(), Seq(645));
    drop(store);
}

#[tokio::test(flavor = "multi_thread")]
async fn rows_that_change_all_the_time_do_not_fill_the_index() {
    let dir = tempfile::tempdir().unwrap();
    let store = open_little(dir.path());
    let index =
        || folders(dir.path()).into_iter().rfind(|name| name.starts_with("index-") && !name.contains('.')).unwrap();
    let first = index();
    let mut round = 0_u64;
    let deadline = Instant::now() + Duration::from_secs(60);
    // Each round fills generations, whose rows move to the index.
    while index() == first {
        assert!(Instant::now() < deadline, "the index is written anew");
        for n in 0..20 {
            let mut append = contract::events(contract::run(n), Seq(0), 0);
            append.index =
                vec![IndexChange::Put(IndexKey::Run(contract::run(n)), Bytes::from(vec![round as u8; 3000]))];
            store.append(append).await.unwrap();
        }
        round += 1;
    }
    for n in 0..20 {
        let row = store.index(&IndexKey::Run(contract::run(n))).await.unwrap().unwrap();
        assert_eq!(row, vec![round as u8 - 1; 3000]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn deleting_a_long_log_writes_next_to_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path());
    let run = contract::run(1);
    let mut head = store.append(begin(run, 1)).await.unwrap();
    while head.0 < 50_000 {
        head = store.append(contract::events(run, head, 5_000)).await.unwrap();
    }
    // Deleting writes one key, whatever the length of the log. sled may fill up a segment for it, which is 512 KiB; a key for
    // each of the events would be several.
    // The generation that takes it alone: the next one may be begun at any moment.
    let written = dir.path().join("store/generation-1/db");
    let before = size(&written);
    store.delete_events(&run).await.unwrap();
    let after = size(&written);
    assert!(after <= before + 512 * 1024, "{before} and then {after}");
    assert_eq!(store.head(&run).await.unwrap(), Seq::START);
}

#[tokio::test]
async fn a_missing_generation_is_told_and_not_passed_over() {
    let dir = tempfile::tempdir().unwrap();
    let store = open_little(dir.path());
    let mut head = Seq(0);
    while folders(dir.path()).iter().filter(|name| name.starts_with("generation-")).count() < 3 {
        head = store.append(contract::events(contract::run(1), head, 100)).await.unwrap();
    }
    drop(store);
    let names = folders(dir.path());
    let mut generations: Vec<u64> =
        names.iter().filter_map(|name| name.strip_prefix("generation-")?.parse().ok()).collect();
    generations.sort_unstable();
    let missing = format!("generation-{}", generations[1]);
    std::fs::rename(dir.path().join("store").join(&missing), dir.path().join("elsewhere")).unwrap();
    let error = SledStore::open_with(dir.path(), LITTLE, |_| {}).map(|_| ()).unwrap_err();
    assert!(error.to_string().ends_with(&format!("the folder {missing} is missing")), "{error}");

    std::fs::rename(dir.path().join("elsewhere"), dir.path().join("store").join(&missing)).unwrap();
    std::fs::remove_dir_all(
        dir.path().join("store").join(names.iter().find(|name| name.starts_with("index-")).unwrap()),
    )
    .unwrap();
    let error = SledStore::open_with(dir.path(), LITTLE, |_| {}).map(|_| ()).unwrap_err();
    assert!(error.to_string().ends_with("the folder index-… is missing"), "{error}");
}

/// Written by the program of the first format: runs 1, 2, 3 and 8 with 50 events each and all kinds of rows, the events
/// of run 2 deleted again.
fn first_format() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/store/format-1")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_store_of_the_first_format_opens_and_is_emptied_like_a_generation() {
    let dir = tempfile::tempdir().unwrap();
    copy(&first_format(), dir.path());
    std::fs::create_dir_all(dir.path().join("store/blobs")).unwrap();
    for round in 0..2 {
        let store = open_little(dir.path());
        for n in [1, 2, 3, 8] {
            check_row(&store, contract::run(n), true).await;
            let events = if n == 2 { 0 } else { 50 };
            assert_eq!(contract::holds_whole_log(&store, contract::run(n)).await.unwrap(), Seq(events));
        }
        assert_eq!(store.index(&IndexKey::Cache([7; 32])).await.unwrap(), Some(Bytes::from_static(b"cached")));
        assert_eq!(store.index(&IndexKey::Idempotency([8; 32])).await.unwrap(), Some(Bytes::from_static(b"key")));
        assert_eq!(store.open_runs().await.unwrap(), [1, 3, 8].map(contract::run));
        if round == 0 {
            assert!(folders(dir.path()).contains(&"generation-0".to_owned()));
        }
    }
    let store = open_little(dir.path());
    assert_eq!(store.append(contract::events(contract::run(3), Seq(50), 5)).await.unwrap(), Seq(55));
    store.delete_events(&contract::run(1)).await.unwrap();
    store.delete_run(&contract::run(3), vec![request(contract::run(3))]).await.unwrap();
    // So much that is not needed that taking over what is left of the old store is worth while.
    store.append(contract::events(contract::run(9), Seq(0), 5_000)).await.unwrap();
    store.delete_events(&contract::run(9)).await.unwrap();
    until("the old store is removed", || !folders(dir.path()).contains(&"generation-0".to_owned())).await;
    check_row(&store, contract::run(1), true).await;
    check_row(&store, contract::run(3), false).await;
    check_row(&store, contract::run(8), true).await;
    assert_eq!(contract::holds_whole_log(&store, contract::run(8)).await.unwrap(), Seq(50));
    assert_eq!(store.open_runs().await.unwrap(), [contract::run(8)]);
}

fn copy(from: &Path, to: &Path) {
    for entry in std::fs::read_dir(from).unwrap().flatten() {
        let target = to.join(entry.file_name());
        if entry.path().is_dir() {
            std::fs::create_dir_all(&target).unwrap();
            copy(&entry.path(), &target);
        } else {
            std::fs::copy(entry.path(), target).unwrap();
        }
    }
}
