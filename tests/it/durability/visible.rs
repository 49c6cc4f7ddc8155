//! While an append is on its way to the disk, nobody sees it.

use bytes::Bytes;
use skill_runner::domain::ids::Seq;
use skill_runner::store::{EventBatch, EventStore, IndexChange, IndexKey, SledStore, contract};

use super::{DATABASE, Watched};
use crate::cli::place::Place;
use crate::support::file_calls::{Deed, FileCall, Judgement, Watch};
use crate::support::{Call, Sse};

/// Holds the sync that makes the events of the store durable.
fn hold_sync(database: &'static str) -> impl FnMut(&FileCall) -> Judgement + Send {
    move |call| if call.deed == Deed::Sync && call.path == database { Judgement::Hold } else { Judgement::Pass }
}

#[test]
fn readers_see_neither_events_nor_rows_of_an_append_before_it_is_synced() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    let opened = Watch::thread(folder.path(), move || SledStore::open(&data, |error| panic!("{error:?}")).unwrap());
    let Some((store, watch)) = opened else { return };
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let (run, new) = (contract::run(1), contract::run(2));
    // Read in place, and on a thread.
    let read = |run, after: u64| {
        let pages = [1_000, 1 << 20]
            .map(|bytes| runtime.block_on(async { store.read(&run, Seq(after), bytes).await }).unwrap());
        assert_eq!(pages[0], pages[1]);
        pages[0].last().map_or(Seq(after), EventBatch::last)
    };
    let row = Bytes::from_static(b"row");
    runtime.block_on(store.append(contract::events(run, Seq(0), 3))).unwrap();
    let mut tail = store.watch(&run);
    tail.borrow_and_update();

    watch.judge(hold_sync(DATABASE));
    let mut append = contract::events(run, Seq(3), 2);
    append.index = vec![IndexChange::Put(IndexKey::Run(run), row.clone())];
    let mut second = contract::events(new, Seq(0), 1);
    second.index = vec![IndexChange::Put(IndexKey::Run(new), row.clone())];
    // In one group or in two: the first is held in any case.
    let waiting = [store.append(append), store.append(second)];
    watch.until_held();
    assert_eq!((runtime.block_on(store.head(&run)).unwrap(), read(run, 0), read(run, 3)), (Seq(3), Seq(3), Seq(3)));
    assert_eq!((runtime.block_on(store.head(&new)).unwrap(), read(new, 0)), (Seq(0), Seq(0)));
    assert_eq!(runtime.block_on(store.index(&IndexKey::Run(run))).unwrap(), None);
    assert_eq!(runtime.block_on(async { store.runs(None, 9).await }).unwrap(), []);
    assert!(!tail.has_changed().unwrap());

    watch.release();
    let [first, second] = waiting.map(|append| runtime.block_on(append).unwrap());
    assert_eq!((first, second, read(run, 0), read(run, 3), read(new, 0)), (Seq(5), Seq(1), Seq(5), Seq(5), Seq(1)));
    assert_eq!(runtime.block_on(async { store.runs(None, 9).await }).unwrap(), [(new, row.clone()), (run, row)]);
    assert!(tail.has_changed().unwrap());
}

#[test]
fn clients_see_a_cancel_when_it_is_on_the_disk_and_not_before() {
    let place = Place::new();
    place.skill("gated", "mkfifo gate\nread line < gate\n");
    let Some(service) = Watched::serve(&place, &[]) else { return };
    let run = service.create("gated");
    let seen = || {
        let history = service.get(&format!("/v1/jobs/{run}/events/history"));
        let job = service.get(&format!("/v1/jobs/{run}"));
        let events = history["events"].as_array().unwrap();
        (events.iter().any(|event| event["type"] == "run.cancel.requested"), job["head_seq"].clone(), events.len())
    };
    // Its engine runs and says nothing.
    until_running(&service, &run);
    let before = seen();
    assert!(!before.0);
    service.watch.judge(hold_sync(DATABASE));
    std::thread::scope(|scope| {
        let cancel = scope.spawn(|| Call::new(service.address, "POST", &format!("/v1/jobs/{run}/cancel")).send());
        service.watch.until_held();
        assert_eq!(seen(), before);
        service.watch.release();
        assert_eq!(cancel.join().unwrap().json()["accepted"], true);
    });
    assert!(seen().0);
    assert_eq!(service.ended(&run)["status"], "canceled");
}

fn until_running(service: &Watched, run: &str) {
    Sse::until_status(service.address, run, "running");
}
