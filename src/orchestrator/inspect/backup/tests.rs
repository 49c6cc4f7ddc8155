//! Backups beside deletions, with damage, and without room.

use std::ffi::OsString;
use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;
use serde_json::{Value, json};
use tokio::sync::watch;
use uuid::Uuid;

use super::{back_up, check_name};
use crate::domain::command::Command;
use crate::domain::decide;
use crate::domain::ids::{RunId, Seq};
use crate::domain::time::Timestamp;
use crate::fcmp::Encoder;
use crate::orchestrator::Blocking;
use crate::orchestrator::error::Error;
use crate::orchestrator::log::RunLog;
use crate::orchestrator::shared::backups::Copied;
use crate::store::{
    self, Append, AppendResult, BoxFuture, Durability, EventBatch, EventStore, IndexChange, IndexKey, MemoryStore,
    RunFilter, SledStore,
};
use crate::workspace::Layout;

fn run(number: u128) -> RunId {
    RunId(Uuid::from_u128(number))
}

/// Deletes a run, files and all, just before a question about it, counted from the first.
#[derive(Clone)]
struct Deleting {
    store: MemoryStore,
    data: Layout,
    run: RunId,
    left: Arc<AtomicUsize>,
}

impl Deleting {
    async fn perhaps(&self, run: &RunId) -> Result<(), store::Error> {
        if *run == self.run && self.left.fetch_sub(1, Ordering::SeqCst) == 1 {
            self.store.delete_run(run, Vec::new()).await?;
            fs::remove_dir_all(self.data.run(*run).root).unwrap();
        }
        Ok(())
    }
}

impl EventStore for Deleting {
    fn append(&self, append: Append) -> BoxFuture<'static, AppendResult> {
        self.store.append(append)
    }

    fn head(&self, run: &RunId) -> BoxFuture<'_, Result<Seq, store::Error>> {
        let run = *run;
        Box::pin(async move {
            self.perhaps(&run).await?;
            self.store.head(&run).await
        })
    }

    fn read(&self, run: &RunId, after: Seq, most: usize) -> BoxFuture<'_, Result<Vec<EventBatch>, store::Error>> {
        let run = *run;
        Box::pin(async move {
            self.perhaps(&run).await?;
            self.store.read(&run, after, most).await
        })
    }

    fn watch(&self, run: &RunId) -> watch::Receiver<Seq> {
        self.store.watch(run)
    }

    fn index(&self, key: &IndexKey) -> BoxFuture<'_, Result<Option<Bytes>, store::Error>> {
        let key = *key;
        Box::pin(async move {
            if let IndexKey::Run(run) = &key {
                self.perhaps(run).await?;
            }
            self.store.index(&key).await
        })
    }

    fn runs(&self, before: Option<RunId>, limit: usize) -> BoxFuture<'_, Result<Vec<(RunId, Bytes)>, store::Error>> {
        self.store.runs(before, limit)
    }

    fn runs_with(
        &self,
        filter: &RunFilter,
        before: Option<RunId>,
        limit: usize,
    ) -> BoxFuture<'_, Result<Vec<(RunId, Bytes)>, store::Error>> {
        self.store.runs_with(filter, before, limit)
    }

    fn open_runs(&self) -> BoxFuture<'_, Result<Vec<RunId>, store::Error>> {
        self.store.open_runs()
    }

    fn delete_events(&self, run: &RunId) -> BoxFuture<'static, Result<(), store::Error>> {
        self.store.delete_events(run)
    }

    fn delete_run(&self, run: &RunId, index: Vec<IndexKey>) -> BoxFuture<'static, Result<(), store::Error>> {
        self.store.delete_run(run, index)
    }

    fn durability(&self) -> Durability {
        self.store.durability()
    }
}

/// A run that was created, as an append.
fn created(run: RunId) -> Append {
    let started = json!({
        "request_id": Uuid::from_u128(run.0.as_u128() + 1000), "skill": {"id": "s", "version": "1.0.0", "fingerprint": ""},
        "engine": "script", "model": null, "execution_mode": "auto", "input": {}, "parameter": {},
        "awaiting_upload": false, "idempotency_sha256": null,
        "runtime_options": {
            "execution_mode": "auto", "no_cache": false, "debug": false, "debug_keep_temp": false,
            "verbose": false, "interactive_auto_reply": false, "interactive_reply_timeout_sec": 1,
            "hard_timeout_seconds": 60, "stall_timeout_seconds": 0,
        },
    });
    let create = Command::Create(Box::new(serde_json::from_value(started).unwrap()));
    let now = Timestamp::from_micros(1);
    let pages = Encoder::new(run).encode(decide(None, create, None, now).unwrap(), now).unwrap();
    let row = pages.last().unwrap().head.to_row().unwrap();
    let batch =
        |page: crate::fcmp::Page| EventBatch { first: page.first, count: page.count, ndjson: page.ndjson.into() };
    Append {
        run,
        expected_head: Seq::START,
        events: pages.into_iter().map(batch).collect(),
        index: vec![IndexChange::Put(IndexKey::Run(run), row.into())],
        require_absent: None,
        for_others: Default::default(),
    }
}

#[test]
fn the_name_of_a_backup_is_that_of_one_folder_that_is_not_hidden() {
    for good in ["a", "2026-01-01_00.00", "-", "x..", &"n".repeat(64)] {
        check_name(good).unwrap_or_else(|error| panic!("{good}: {error}"));
    }
    for bad in ["", ".", "..", ".hidden", "a/b", "a\\b", "a b", "ä", "a\n", &"n".repeat(65)] {
        assert!(matches!(check_name(bad), Err(Error::Rejected { .. })), "{bad:?}");
    }
}

async fn backed_up(log: &RunLog, folder: &Path, least_free: u64) -> Result<Copied, Error> {
    back_up(log, folder, Timestamp::from_micros(1), least_free, &|_| {}, &|| false, None).await
}

fn told(folder: &Path) -> Value {
    serde_json::from_slice(&fs::read(folder.join("backup.json")).unwrap()).unwrap()
}

/// The rows of a backup, and whether anything else is there of a run.
async fn rows(folder: &Path) -> Vec<RunId> {
    let store = SledStore::open(folder, |error| panic!("{error}")).unwrap();
    store.runs(None, 10).await.unwrap().into_iter().map(|(run, _)| run).collect()
}

#[tokio::test]
async fn a_run_that_is_deleted_at_any_moment_is_in_a_backup_whole_or_not_at_all_and_is_no_damage() {
    let place = tempfile::tempdir().unwrap();
    let mut questions = 1;
    loop {
        let (layout, store) = (Layout::new(place.path().join(format!("data{questions}"))), MemoryStore::default());
        for number in 1..=2 {
            store.append(created(run(number))).await.unwrap();
            fs::create_dir_all(layout.run(run(number)).root).unwrap();
            fs::write(layout.run(run(number)).root.join("input.json"), "{}").unwrap();
        }
        let left = Arc::new(AtomicUsize::new(questions));
        let deleting = Deleting { store, data: layout.clone(), run: run(2), left: left.clone() };
        let log = RunLog::new(Arc::new(deleting), layout, Blocking::Threads);
        let folder = place.path().join(format!("backup{questions}"));
        backed_up(&log, &folder, 0).await.unwrap();
        let kept = Layout::new(&folder).run(run(2)).root.exists();
        assert_eq!(rows(&folder).await, if kept { vec![run(2), run(1)] } else { vec![run(1)] }, "question {questions}");
        assert_eq!(told(&folder)["damaged_and_left_out"], json!([]), "question {questions}");
        // There were fewer questions than that: it was not deleted.
        if left.load(Ordering::SeqCst) > 0 && left.load(Ordering::SeqCst) <= questions {
            assert!(kept && questions > 3, "{questions} questions");
            break;
        }
        questions += 1;
    }
}

#[tokio::test]
async fn a_run_that_cannot_be_read_keeps_no_other_from_being_backed_up_and_is_named() {
    let place = tempfile::tempdir().unwrap();
    let (layout, store) = (Layout::new(place.path().join("data")), Arc::new(MemoryStore::default()));
    for number in 1..=3 {
        store.append(created(run(number))).await.unwrap();
        fs::create_dir_all(layout.run(run(number)).root).unwrap();
    }
    let damage = |number, row: &'static [u8]| {
        let index = vec![IndexChange::Put(IndexKey::Run(run(number)), Bytes::from_static(row))];
        let expected_head = Seq(2);
        Append {
            run: run(number),
            expected_head,
            events: Vec::new(),
            index,
            require_absent: None,
            for_others: Default::default(),
        }
    };
    let head = store.head(&run(3)).await.unwrap();
    store.append(Append { expected_head: head, ..damage(3, b"{") }).await.unwrap();
    store.delete_events(&run(2)).await.unwrap();
    let log = RunLog::new(store, layout, Blocking::Threads);
    let folder = place.path().join("backup");
    assert_eq!(backed_up(&log, &folder, 0).await.unwrap().runs, 1);
    assert_eq!(rows(&folder).await, [run(1)]);
    assert_eq!(told(&folder)["damaged_and_left_out"], json!([run(3), run(2)]));
    assert!(!Layout::new(&folder).run(run(2)).root.exists());
}

/// Backups are named by the time: what a failed one left would stay for ever, and with it a disk without room.
#[tokio::test]
async fn a_backup_that_finds_no_room_takes_none() {
    let place = tempfile::tempdir().unwrap();
    let (data, backups) = (place.path().join("data"), place.path().join("backups"));
    let store = Arc::new(SledStore::open(&data, |error| panic!("{error}")).unwrap());
    let log = RunLog::new(store, Layout::new(&data), Blocking::Threads);
    let names = || fs::read_dir(&backups).unwrap().map(|entry| entry.unwrap().file_name()).collect::<Vec<_>>();
    let refused = backed_up(&log, &backups.join("first"), u64::MAX).await.unwrap_err();
    assert!(matches!(refused, Error::InsufficientStorage { floor: u64::MAX, .. }), "{refused}");
    assert_eq!(names(), Vec::<OsString>::new());
    backed_up(&log, &backups.join("second"), 0).await.unwrap();
    assert_eq!(names(), ["second"]);
}
