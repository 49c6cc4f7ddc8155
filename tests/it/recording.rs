//! How an engine's words reach its log: at once, joined only while an append is under way, and their last with the end.
//!
//! The engine is played, the clock stands still unless somebody waits for it, and the store counts and holds appends.

pub mod held_store;
mod recovery;

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use serde_json::{Value, json};
use skill_runner::domain::fact::Stream;
use skill_runner::domain::ids::{RunId, Seq};
use skill_runner::orchestrator::{Blocking, Environment, Orchestrator};
use skill_runner::registry::Registry;
use skill_runner::settings::Settings;
use skill_runner::store::EventBatch;
use skill_runner::supervisor::{Error, Process, ProcessExit, SimulatedEngine, Spawner, Spawning, Spec, Swept};
use tokio::sync::mpsc;
use tokio::time::Instant;

use crate::support::{log, script_skill};
use held_store::HeldStore;

const ANSWER: &str = "{\"success\":true,\"data\":{}}\n";

/// Hands each engine to the test, which plays it.
struct Stage(mpsc::UnboundedSender<SimulatedEngine>);

impl Spawner for Stage {
    fn spawn<'a>(&'a self, spec: Spec<'a>) -> Spawning<'a> {
        Box::pin(async move { self.start(spec) })
    }

    fn sweep(&self, _: &Path) -> io::Result<Vec<Swept>> {
        Ok(Vec::new())
    }
}

impl Stage {
    fn start(&self, spec: Spec<'_>) -> Result<Process, Error> {
        let (process, engine) = SimulatedEngine::start(spec, 1)?;
        self.0.send(engine).unwrap();
        Ok(process)
    }
}

/// A service with one run whose engine waits for its part.
struct Run {
    service: Orchestrator,
    store: HeldStore,
    id: RunId,
    engine: SimulatedEngine,
    _folder: tempfile::TempDir,
}

impl Run {
    async fn begin() -> Run {
        let (folder, store) = (tempfile::tempdir().unwrap(), HeldStore::default());
        std::fs::create_dir(folder.path().join("data")).unwrap();
        script_skill(&folder.path().join("skills"), "played", "", json!({}));
        let (service, mut engines) = started(folder.path(), &store).await;
        let request = serde_json::from_value(json!({"skill_id": "played"})).unwrap();
        let id = service.create(request, None).await.unwrap().run_id;
        let mut engine = engines.recv().await.unwrap();
        assert!(engine.may_begin().await, "its start is in the log");
        Run { service, store, id, engine, _folder: folder }
    }

    async fn says(&mut self, stream: Stream, text: &str) {
        self.engine.write(stream, text.to_owned().into()).await;
    }

    /// Waits until the log has so many events.
    async fn reaches(&self, head: u64) {
        self.service.log().watch(self.id).wait_for(|seq| *seq >= Seq(head)).await.unwrap();
    }

    /// Lets everybody act who can without waiting for a time or the store.
    async fn everybody_acts() {
        for _ in 0..100 {
            tokio::task::yield_now().await;
        }
    }

    /// The engine ends, and so does the run; its events.
    async fn ends(self) -> Vec<Value> {
        self.engine.end(ProcessExit::Code(0), 0).await;
        ended(&self.service, self.id).await
    }
}

/// A service, and the engines that it starts.
async fn started(folder: &Path, store: &HeldStore) -> (Orchestrator, mpsc::UnboundedReceiver<SimulatedEngine>) {
    let flags = [("data_dir", "data"), ("skills_dir", "skills"), ("min_free_bytes", "0")].map(|(key, value)| {
        let path = folder.join(value);
        (key.to_owned(), if key.ends_with("dir") { path.to_str().unwrap().to_owned() } else { value.to_owned() })
    });
    let settings = Settings::load(None, &Default::default(), &flags, 2).unwrap();
    let (stage, engines) = mpsc::unbounded_channel();
    let environment = Environment {
        blocking: Blocking::InPlace(Arc::new(|| Box::pin(async {}))),
        engines: Arc::new(Stage(stage)),
        ..Environment::real(&settings)
    };
    let registry = Registry::new(folder.join("skills"));
    let shared = Arc::new(store.clone());
    (Orchestrator::start_in(environment, shared, registry, settings).await.unwrap(), engines)
}

/// Waits for the end of a run and checks its log; its events.
async fn ended(service: &Orchestrator, run: RunId) -> Vec<Value> {
    let state = service.wait(run, Duration::from_secs(600)).await.unwrap();
    assert!(state.status().is_final());
    assert_eq!(log::flaws(service, run).await, Vec::<String>::new());
    let mut events = Vec::new();
    let mut pages = service.log().events(run, Seq::START);
    while let Some(page) = pages.next_page().await.unwrap() {
        let page = page.iter().flat_map(EventBatch::events);
        events.extend(page.map(|(_, event)| serde_json::from_slice::<Value>(&event).unwrap()));
    }
    service.drain(Duration::ZERO).await;
    events
}

fn types(events: &[Value]) -> Vec<&str> {
    events.iter().map(|event| event["type"].as_str().unwrap()).collect()
}

#[tokio::test(start_paused = true)]
async fn a_line_is_in_the_log_without_waiting_for_time_to_pass() {
    let mut run = Run::begin().await;
    let began = Instant::now();
    for n in 1..=5 {
        run.says(Stream::Stderr, &format!("{n}% step\n")).await;
        run.reaches(3 + n).await;
    }
    run.says(Stream::Stdout, "{\"note\": \"not the answer\"}\n").await;
    run.reaches(9).await;
    assert_eq!(began.elapsed(), Duration::ZERO);
    assert_eq!(run.store.appends(), [1, 2, 1, 1, 1, 1, 1, 1]);
    run.ends().await;
}

#[tokio::test(start_paused = true)]
async fn a_trivial_run_is_three_appends_and_its_answer_comes_with_its_end() {
    let mut run = Run::begin().await;
    run.says(Stream::Stdout, ANSWER).await;
    tokio::time::sleep(Duration::from_millis(20)).await;
    let store = run.store.clone();
    let events = run.ends().await;
    let ends = ["raw.stdout", "output.normalized", "conversation.state.changed", "conversation.completed"];
    assert_eq!(types(&events[3..]), ends);
    assert_eq!(store.appends(), [1, 2, 4]);
}

#[tokio::test(start_paused = true)]
async fn the_answer_of_a_script_that_does_not_exit_is_shown_after_a_moment() {
    let mut run = Run::begin().await;
    let began = Instant::now();
    run.says(Stream::Stdout, ANSWER).await;
    run.reaches(4).await;
    assert_eq!(began.elapsed(), Duration::from_millis(50));
    run.ends().await;
}

#[tokio::test(start_paused = true)]
async fn a_reader_at_the_end_of_a_live_log_whose_next_event_comes_meanwhile_reads_it() {
    let mut run = Run::begin().await;
    run.reaches(3).await;
    run.store.hold();
    run.says(Stream::Stderr, "10% step\n").await;
    Run::everybody_acts().await;
    run.store.overtake_next_read();
    let read = run.service.log().read(run.id, Seq(3), 1 << 20).await.unwrap();
    assert_eq!(read.iter().map(|batch| batch.count).sum::<u32>(), 1);
    run.ends().await;
}

#[tokio::test(start_paused = true)]
async fn what_is_said_while_an_append_is_under_way_is_the_next_one() {
    let mut run = Run::begin().await;
    run.store.hold();
    for n in 1..=6 {
        run.says(Stream::Stderr, &format!("{n}% step\n")).await;
        Run::everybody_acts().await;
    }
    run.store.release();
    run.reaches(9).await;
    assert_eq!(run.store.appends(), [1, 2, 1, 5]);
    run.ends().await;
}

#[tokio::test(start_paused = true)]
async fn an_engine_that_says_more_than_the_store_takes_has_to_wait() {
    let Run { service, store, id, mut engine, _folder } = Run::begin().await;
    store.hold();
    let line = Bytes::from(format!("{}\n", "x".repeat(64 * 1024 - 1)));
    let said = Arc::new(AtomicUsize::new(0));
    let counted = said.clone();
    tokio::spawn(async move {
        for _ in 0..100 {
            engine.write(Stream::Stderr, line.clone()).await;
            counted.fetch_add(1, Ordering::Relaxed);
        }
        engine.write(Stream::Stdout, ANSWER.into()).await;
        engine.end(ProcessExit::Code(0), 0).await;
    });
    // All the time in the world.
    tokio::time::sleep(Duration::from_secs(60)).await;
    let waits_after = said.load(Ordering::Relaxed);
    // One append under way, one batch encoded, one being read, and what waits to be read: each about ten lines.
    assert!((30..60).contains(&waits_after), "{waits_after}");
    store.release();
    let events = ended(&service, id).await;
    assert_eq!(types(&events).last(), Some(&"conversation.completed"));
}

#[tokio::test(start_paused = true)]
async fn a_cancel_follows_what_was_encoded_before_it() {
    let mut run = Run::begin().await;
    run.store.hold();
    run.says(Stream::Stderr, "1% under way\n").await;
    Run::everybody_acts().await;
    // A full batch is encoded behind the append under way; what follows is not.
    let line = format!("{}\n", "x".repeat(64 * 1024 - 1));
    for _ in 0..10 {
        run.says(Stream::Stderr, &line).await;
        Run::everybody_acts().await;
    }
    run.says(Stream::Stderr, "99% later\n").await;
    Run::everybody_acts().await;
    let (service, id) = (run.service.clone(), run.id);
    let cancel = tokio::spawn(async move { service.cancel(id, "client", "enough").await });
    Run::everybody_acts().await;
    assert_eq!(run.store.appends(), [1, 2], "nothing is visible before it is durable");
    run.store.release();
    assert!(cancel.await.unwrap().unwrap().accepted);
    let events = run.ends().await;
    let told: Vec<&str> = types(&events[3..]);
    let mut expected = vec!["run.progress"];
    expected.extend(["raw.stderr"; 10]);
    expected.extend(["run.cancel.requested", "run.progress", "conversation.state.changed", "conversation.failed"]);
    assert_eq!(told, expected);
    assert_eq!(events.last().unwrap()["data"]["status"], "canceled");
}

/// A run whose engine says more at once than the store takes in one append, and ends; the store takes so many bytes from then on.
async fn said_too_much(store_takes: usize) -> Run {
    let mut run = Run::begin().await;
    run.store.hold();
    run.says(Stream::Stderr, "1% under way\n").await;
    Run::everybody_acts().await;
    for _ in 0..3 {
        run.says(Stream::Stderr, &format!("{}\n", "x".repeat(64 * 1024 - 1))).await;
        Run::everybody_acts().await;
    }
    run.store.take_at_most(store_takes);
    run.store.release();
    run
}

#[tokio::test(start_paused = true)]
async fn a_run_whose_output_does_not_fit_one_append_fails_and_its_log_has_all_of_it() {
    let events = said_too_much(100_000).await.ends().await;
    let mut expected = vec!["run.progress"];
    expected.extend(["raw.stderr"; 3]);
    expected.extend(["conversation.state.changed", "conversation.failed"]);
    assert_eq!(types(&events[3..]), expected);
    assert_eq!(events.last().unwrap()["data"]["status"], "failed");
}

#[tokio::test(start_paused = true)]
async fn a_run_whose_output_fits_no_append_ends_without_it() {
    let Run { service, id, engine, _folder, .. } = said_too_much(8_000).await;
    engine.end(ProcessExit::Code(0), 0).await;
    let state = service.wait(id, Duration::from_secs(600)).await.unwrap();
    assert_eq!(state.status().as_str(), "failed");
    service.drain(Duration::ZERO).await;
}

#[tokio::test(start_paused = true)]
async fn a_run_whose_end_fits_no_append_gives_its_place_to_others_and_can_still_be_ended() {
    let Run { service, store, id, engine, _folder } = said_too_much(0).await;
    engine.end(ProcessExit::Code(0), 0).await;
    let state = service.wait(id, Duration::from_secs(600)).await.unwrap();
    assert_eq!((state.status().as_str(), service.sizes().running), ("running", 0));
    store.take_at_most(usize::MAX);
    assert!(!service.cancel(id, "client", "enough").await.unwrap().accepted);
    let events = ended(&service, id).await;
    assert_eq!(types(&events).last(), Some(&"conversation.failed"));
}
