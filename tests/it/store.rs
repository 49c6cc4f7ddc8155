//! The event store: both back ends keep the contract, and nothing acknowledged is ever lost.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicUsize, Ordering};

use std::time::Duration;

use bytes::Bytes;
use skill_runner::domain::ids::Seq;
use skill_runner::domain::statechart::Status;
use skill_runner::store::cluster_contract::{self, Services, View};
use skill_runner::store::{
    Append, Error, EventStore, IndexChange, IndexKey, MemoryNode, MemoryStore, NodeId, RunFilter, SledStore, Space,
    contract,
};
use skill_runner::store::{output_contract, owner_contract, removals_contract};

mod crash;
mod full;
mod space;

fn open(dir: &std::path::Path) -> SledStore {
    SledStore::open(dir, |error| panic!("{error:?}")).unwrap()
}

/// So little room that a test fills generations and has them removed all the time.
pub const LITTLE: Space = Space {
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
async fn several_services_in_memory_keep_the_contract() {
    let make = || {
        let time = Arc::new(AtomicI64::new(1_000_000_000));
        let read = time.clone();
        let store =
            MemoryStore::for_several(cluster_contract::share_rule(), Arc::new(move || read.load(Ordering::Relaxed)));
        let views = (1..=4).map(|n| {
            let node = Arc::new(MemoryNode::new(store.clone(), NodeId(uuid::Uuid::from_u128(n))));
            View { store: node.clone(), cluster: node.clone(), node: node.node() }
        });
        let pass = move |by: Duration| {
            time.fetch_add(i64::try_from(by.as_micros()).unwrap(), Ordering::Relaxed);
            Box::pin(std::future::ready(())) as _
        };
        Services { views: views.collect(), pass: Box::new(pass) }
    };
    cluster_contract::check(&make).await.unwrap();
    output_contract::check(&make).await.unwrap();
    owner_contract::check(&make).await.unwrap();
    removals_contract::check(&make).await.unwrap();
    let lone = || {
        let store = MemoryStore::for_several(cluster_contract::share_rule(), Arc::new(|| 0));
        Arc::new(MemoryNode::new(store, NodeId(uuid::Uuid::from_u128(1)))) as Arc<dyn EventStore>
    };
    contract::check(lone).await.unwrap();
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

#[tokio::test]
async fn labels_and_times_find_runs_in_every_store() {
    let dir = tempfile::tempdir().unwrap();
    a_filter_finds_runs_by_their_labels_and_their_time(&open(dir.path())).await;
    a_filter_finds_runs_by_their_labels_and_their_time(&MemoryStore::default()).await;
}

pub async fn a_filter_finds_runs_by_their_labels_and_their_time(store: &dyn EventStore) {
    let time = |n: u128| format!("2026-01-01T00:00:{n:02}.000000Z");
    let row = |n: u128| {
        let labels = if n.is_multiple_of(2) { r#"{"team":"x","n":"1"}"# } else { r#"{"team":"y"}"# };
        Bytes::from(format!(
            r#"{{"state":{{"skill":{{"id":"s"}},"engine":"script","status":"queued","labels":{labels},"created_at":"{}"}}}}"#,
            time(n)
        ))
    };
    for n in 1..=9 {
        let index = vec![IndexChange::Put(IndexKey::Run(contract::run(n)), row(n))];
        store.append(Append { index, ..contract::events(contract::run(n), Seq(0), 0) }).await.unwrap();
    }
    let label = |name: &str, value: &str| (name.to_owned(), value.to_owned());
    let at = |n: u128| time(n).parse().ok();
    let team = |value: &str| RunFilter { labels: vec![label("team", value)], ..RunFilter::default() };
    let cases: [(RunFilter, &[u128]); 6] = [
        (team("x"), &[8, 6, 4, 2]),
        (team("z"), &[]),
        (
            RunFilter { labels: vec![label("n", "1"), label("team", "x")], until: at(6), ..RunFilter::default() },
            &[4, 2],
        ),
        (RunFilter { labels: vec![label("team", "x"), label("team", "y")], ..RunFilter::default() }, &[]),
        (RunFilter { since: at(7), ..RunFilter::default() }, &[9, 8, 7]),
        (RunFilter { since: at(3), until: at(5), ..RunFilter::default() }, &[4, 3]),
    ];
    for (filter, expected) in cases {
        let found =
            store.runs_with(&filter, None, 99).await.unwrap().into_iter().map(|(run, _)| run).collect::<Vec<_>>();
        assert_eq!(found, expected.iter().map(|n| contract::run(*n)).collect::<Vec<_>>(), "{filter:?}");
        let counted = store.counts(&filter).await.unwrap().into_values().sum::<u64>();
        assert_eq!(counted, expected.len() as u64, "{filter:?}");
    }
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
