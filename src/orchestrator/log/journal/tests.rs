//! What a journal writes, in which order, and what a failed append leaves.

use serde_json::json;
use uuid::Uuid;

use super::*;
use crate::domain::codes::WarningCode;
use crate::domain::event::{Event, Progress};
use crate::domain::fact::{Fact, Stream};
use crate::domain::outcome::Warning;
use crate::orchestrator::environment::WallClock;
use crate::store::MemoryStore;

fn pen(store: Arc<dyn EventStore>) -> Pen {
    Pen { store, clock: Arc::new(WallClock), signer: None, metrics: Arc::default(), shares_output: false }
}

fn creation() -> Command {
    let started = json!({
        "request_id": Uuid::from_u128(2), "skill": {"id": "s", "version": "1.0.0", "fingerprint": ""},
        "engine": "script", "model": null, "execution_mode": "auto", "input": {}, "parameter": {},
        "awaiting_upload": false, "idempotency_sha256": null,
        "runtime_options": {
            "execution_mode": "auto", "no_cache": false, "debug": false, "debug_keep_temp": false,
            "verbose": false, "interactive_auto_reply": false, "interactive_reply_timeout_sec": 1,
            "hard_timeout_seconds": 60, "stall_timeout_seconds": 0,
        },
    });
    Command::Create(Box::new(serde_json::from_value(started).unwrap()))
}

fn start() -> Command {
    Command::StartTurn {
        command: vec!["true".into()],
        pid: 1,
        engine_version: "1".into(),
        parser_version: "1".into(),
        isolation: "none".into(),
        limits: None,
        passed: crate::domain::request::Passed::default(),
    }
}

async fn running() -> Journal {
    let (store, run) = (Arc::new(MemoryStore::default()), RunId(Uuid::from_u128(1)));
    let steps = vec![creation().into(), start().into()];
    Journal::create(pen(store), run, steps, FirstRows::default()).await.unwrap()
}

#[tokio::test]
async fn a_run_that_is_created_with_more_than_one_append_is_whole_when_it_is_there() {
    let store = Arc::new(MemoryStore::default());
    let progress = || Fact::own(Event::Progress(Progress { percent: 1.0, message: "m".repeat(400) }));
    let record = Command::Record((0..4000).map(|_| progress()).collect());
    let run = RunId(Uuid::from_u128(1));
    let steps = vec![creation().into(), start().into(), record.into()];
    let journal = Journal::create(pen(store.clone()), run, steps, FirstRows::default()).await.unwrap();
    assert_eq!((journal.state().head_seq, store.head(&run).await.unwrap()), (Seq(4003), Seq(4003)));
}

#[tokio::test]
async fn of_two_runs_that_are_created_under_one_key_the_second_is_refused_with_the_first_answer() {
    let store = Arc::new(MemoryStore::default());
    let key = IndexKey::Idempotency([7; 32]);
    let create = |n: u128, answer: &'static str| {
        let rows = FirstRows {
            put: vec![IndexChange::Put(key, answer.into())],
            require_absent: Some(key),
            along: Along::default(),
        };
        Journal::create(pen(store.clone()), RunId(Uuid::from_u128(n)), vec![creation().into()], rows)
    };
    create(1, "first").await.unwrap();
    let refused = create(2, "second").await.err();
    assert!(
        matches!(&refused, Some(Error::Store(store::Error::Taken { value })) if value.as_ref() == b"first"),
        "{refused:?}"
    );
    assert_eq!(store.head(&RunId(Uuid::from_u128(2))).await.unwrap(), Seq::START);
}

#[tokio::test]
async fn commits_of_any_length_fit_the_store_beside_a_row_full_of_warnings() {
    let mut journal = running().await;
    // A control character takes six bytes of JSON.
    let warning = || Warning::new(WarningCode::LogLimitExceeded, "\u{1}".repeat(500));
    let warnings = (0..100).map(|_| Fact::own(Event::Warned(Box::new(warning())))).collect();
    journal.commit(Command::Record(warnings)).await.unwrap();
    assert!(journal.head.to_row().unwrap().len() > 300_000);
    for facts in (100..2000).step_by(100) {
        let progress = || Fact::own(Event::Progress(Progress { percent: 1.0, message: "m".repeat(400) }));
        let record = Command::Record((0..facts).map(|_| progress()).collect());
        journal.commit(record).await.unwrap_or_else(|error| panic!("{facts} facts: {error:?}"));
    }
    // Whatever an engine writes, in pieces as they are read.
    for byte in [0, b'"', 0xff] {
        let mut reader = crate::engine::StreamReader::new(Stream::Stderr, 0, 64 * 1024);
        let (mut parser, mut facts) = (crate::engine::script::ScriptParser::default(), Vec::new());
        reader.push(&vec![byte; 2_000_000], &mut parser, &mut facts);
        reader.flush(&mut parser, &mut facts);
        assert!(facts.len() >= 30, "{} facts of {byte}", facts.len());
        journal.commit(Command::Record(facts)).await.unwrap_or_else(|error| panic!("bytes {byte}: {error:?}"));
    }
}

fn progress(percent: f64) -> Vec<Fact> {
    vec![Fact::own(Event::Progress(Progress { percent, message: String::new() }))]
}

fn at_once() -> Synced {
    Box::pin(std::future::ready(Ok(())))
}

#[tokio::test]
async fn very_many_facts_are_one_append() {
    let mut journal = running().await;
    let facts: Vec<Fact> = (0..1500).flat_map(|_| progress(1.0)).collect();
    journal.prepare(facts, at_once()).unwrap();
    assert_eq!(journal.waiting(), 1);
    journal.settle().await.unwrap();
    assert_eq!(journal.state().head_seq, Seq(1503));
}

#[tokio::test]
async fn every_byte_that_a_log_grows_by_is_counted_when_it_is_encoded() {
    let mut journal = running().await;
    let (store, run) = (journal.store.clone(), journal.state().run_id);
    let mut journal_again = Journal::open(pen(store.clone()), run).await.unwrap();
    journal.prepare((0..1500).flat_map(|_| progress(1.0)).collect(), at_once()).unwrap();
    let ahead = journal.encoded();
    journal.commit(Command::Record(progress(2.0))).await.unwrap();
    let pages = store.read(&run, Seq(3), usize::MAX).await.unwrap();
    let bytes: u64 = pages.iter().map(|batch| batch.ndjson.len() as u64).sum();
    let last: u64 = pages.last().unwrap().events().last().map(|(_, event)| event.len() as u64 + 1).unwrap();
    assert_eq!((ahead, journal.encoded(), journal_again.encoded()), (bytes - last, bytes, 0));
    journal_again.prepare(progress(3.0), at_once()).unwrap();
    assert!(journal_again.encoded() > 0, "a log that was opened again is counted from there");
}

#[tokio::test]
async fn nothing_is_kept_of_facts_one_of_which_breaks_the_contract() {
    let mut journal = running().await;
    let mut facts: Vec<Fact> = (0..600).flat_map(|_| progress(1.0)).collect();
    facts.extend(progress(101.0));
    journal.prepare(facts, at_once()).unwrap_err();
    assert_eq!(journal.waiting(), 0);
    journal.commit(Command::Record(progress(2.0))).await.unwrap();
    assert_eq!(journal.state().head_seq, Seq(4));
}

#[tokio::test]
async fn what_was_encoded_ahead_is_appended_in_order_once_the_bytes_it_points_to_are_on_disk() {
    let mut journal = running().await;
    let (synced, sync) = tokio::sync::oneshot::channel::<()>();
    let waits: Synced = Box::pin(async {
        let _ = sync.await;
        Ok(())
    });
    journal.prepare(progress(1.0), waits).unwrap();
    journal.prepare(progress(2.0), at_once()).unwrap();
    let (store, run) = (journal.store.clone(), journal.state().run_id);
    let early = tokio::time::timeout(std::time::Duration::from_millis(1), journal.settle()).await;
    assert!(early.is_err() && store.head(&run).await.unwrap() == Seq(3) && journal.state().head_seq == Seq(3));
    synced.send(()).unwrap();
    journal.settle().await.unwrap();
    assert_eq!((store.head(&run).await.unwrap(), journal.state().head_seq), (Seq(5), Seq(5)));
}

#[tokio::test]
async fn after_a_failed_append_nothing_that_was_encoded_behind_it_is_written() {
    let mut journal = running().await;
    let (store, run) = (journal.store.clone(), journal.state().run_id);
    let mut other = Journal::open(pen(store.clone()), run).await.unwrap();
    // The other's event takes the place of the first one: by its number alone the second one would fit.
    journal.prepare(progress(1.0), at_once()).unwrap();
    journal.prepare(progress(2.0), at_once()).unwrap();
    other.commit(Command::Record(progress(3.0))).await.unwrap();
    assert!(lost_race(&journal.settle().await.unwrap_err()));
    assert_eq!((journal.waiting(), journal.state().head_seq), (0, Seq(3)));
    journal.settle().await.unwrap();
    assert_eq!(store.head(&run).await.unwrap(), Seq(4));
}

#[tokio::test]
async fn bytes_that_could_not_be_synced_are_pointed_to_by_no_event() {
    let mut journal = running().await;
    let failed = Error::io("sync the run's logs")(std::io::Error::other("the disk is gone"));
    journal.prepare(progress(1.0), Box::pin(std::future::ready(Err(failed)))).unwrap();
    journal.prepare(progress(2.0), at_once()).unwrap();
    journal.settle().await.unwrap_err();
    journal.commit(Command::Record(progress(3.0))).await.unwrap();
    assert_eq!(journal.state().head_seq, Seq(4));
}
