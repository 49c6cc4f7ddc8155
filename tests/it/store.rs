//! The event store: both back ends keep the contract, and nothing acknowledged is ever lost.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use std::time::Duration;

use bytes::Bytes;
use skill_runner::domain::ids::Seq;
use skill_runner::domain::statechart::Status;
use skill_runner::store::{
    Append, Error, EventStore, IndexChange, IndexKey, MemoryStore, RunFilter, SledStore, Space, contract,
};

mod crash;
mod full;
mod space;

fn open(dir: &std::path::Path) -> SledStore {
    SledStore::open(dir, |error| panic!("{error:?}")).unwrap()
}

/// So little room that a test fills generations and has them removed all the time.
const LITTLE: Space = Space {
    generation_bytes: 64 * 1024,
    quiet_slack_bytes: 16 * 1024,
    quiet: Duration::from_millis(5),
    index_slack_bytes: 600 * 1024,
};

fn open_little(dir: &std::path::Path) -> SledStore {
    SledStore::open_with(dir, LITTLE, |error| panic!("{error:?}")).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_memory_store_keeps_the_contract() {
    contract::check(|| Arc::new(MemoryStore::default())).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn the_sled_store_keeps_the_contract() {
    let dir = tempfile::tempdir().unwrap();
    let next = AtomicUsize::new(0);
    let folder = || dir.path().join(next.fetch_add(1, Ordering::Relaxed).to_string());
    contract::check(|| Arc::new(open(&folder()))).await.unwrap();
    contract::check(|| Arc::new(open_little(&folder()))).await.unwrap();
}

#[tokio::test]
async fn a_store_opened_again_holds_everything() {
    let dir = tempfile::tempdir().unwrap();
    contract::check_reopen(|| Arc::new(open(dir.path()))).await.unwrap();
    let dir = tempfile::tempdir().unwrap();
    contract::check_reopen(|| Arc::new(open_little(dir.path()))).await.unwrap();
}

#[tokio::test]
async fn a_store_opened_again_finds_runs_by_their_status() {
    let dir = tempfile::tempdir().unwrap();
    let row = |status: &str| {
        let state = serde_json::json!({"skill": {"id": "s"}, "engine": "e", "status": status});
        Bytes::from(serde_json::json!({ "state": state }).to_string())
    };
    let store = open_little(dir.path());
    for n in 0..600 {
        let index =
            vec![IndexChange::Put(IndexKey::Run(contract::run(n)), row(if n == 7 { "failed" } else { "succeeded" }))];
        store.append(Append { index, ..contract::events(contract::run(n), Seq(0), 3) }).await.unwrap();
    }
    drop(store);
    let store = open_little(dir.path());
    let failed = RunFilter { status: Some(Status::Failed), ..RunFilter::default() };
    assert_eq!(store.runs_with(&failed, None, 10).await.unwrap(), [(contract::run(7), row("failed"))]);
    let other = RunFilter { status: Some(Status::Succeeded), ..RunFilter::default() };
    assert_eq!(store.runs_with(&other, None, 1000).await.unwrap().len(), 599);
}

#[test]
fn a_second_opening_of_the_same_directory_is_refused_as_locked() {
    let dir = tempfile::tempdir().unwrap();
    let first = open(dir.path());
    match SledStore::open(dir.path(), |_| {}).map(|_| "opened twice") {
        Err(Error::Locked { path }) => assert_eq!(path, dir.path()),
        other => panic!("{other:?}"),
    }
    drop(first);
    open(dir.path());
}
