//! The event store: both back ends keep the contract, and nothing acknowledged is ever lost.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use skill_runner::store::{Error, MemoryStore, SledStore, contract};

mod crash;

fn open(dir: &std::path::Path) -> SledStore {
    SledStore::open(dir, |error| panic!("{error:?}")).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_memory_store_keeps_the_contract() {
    contract::check(|| Arc::new(MemoryStore::default())).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn the_sled_store_keeps_the_contract() {
    let dir = tempfile::tempdir().unwrap();
    let next = AtomicUsize::new(0);
    let make = || open(&dir.path().join(next.fetch_add(1, Ordering::Relaxed).to_string()));
    contract::check(|| Arc::new(make())).await.unwrap();
}

#[tokio::test]
async fn a_store_opened_again_holds_everything() {
    let dir = tempfile::tempdir().unwrap();
    contract::check_reopen(|| Arc::new(open(dir.path()))).await.unwrap();
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
