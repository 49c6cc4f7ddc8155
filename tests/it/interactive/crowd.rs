//! Ten thousand waiting runs: they cost their rows, and a start that goes through them.

use std::time::Instant;

use futures_util::future::join_all;
use serde_json::Value;
use skill_runner::domain::Decision;
use skill_runner::domain::event::Event;
use skill_runner::domain::fact::Fact;
use skill_runner::domain::ids::{RequestId, RunId, Seq};
use skill_runner::fcmp::{Encoder, Envelope, Page, read_envelope};
use skill_runner::store::{Append, EventBatch, EventStore, IndexChange, IndexKey, SledStore};
use uuid::Uuid;

use super::pose::Pose;
use super::service::Service;
use super::{Scene, one_question};

const RUNS: usize = 10_000;
/// Appends under way at once.
const AT_ONCE: usize = 500;

#[test]
fn ten_thousand_waiting_runs_cost_only_their_rows() {
    let template = waiting_log();
    let folder = tempfile::tempdir().unwrap();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let store = SledStore::open(&folder.path().join("data"), |error| panic!("{error}")).unwrap();
    let mut last = RunId(Uuid::nil());
    for _ in 0..RUNS / AT_ONCE {
        let copies: Vec<(RunId, Append)> = (0..AT_ONCE).map(|_| copy(&template)).collect();
        last = copies[0].0;
        let appends = copies.into_iter().map(|(_, append)| store.append(append));
        runtime.block_on(join_all(appends)).into_iter().for_each(|appended| {
            appended.unwrap();
        });
    }
    drop(store);
    drop(runtime);

    let pose = Pose::new();
    let started = Instant::now();
    let service = Service::start(folder.path(), &pose);
    let first_start = started.elapsed();
    let job = service.get(&format!("/v1/jobs/{last}"));
    assert_eq!((&job["status"], &job["recovery_state"]), (&"waiting_user".into(), &"recovered_waiting".into()));
    let pending = service.get(&format!("/v1/jobs/{last}/interaction/pending"));
    assert_eq!(pending["pending"]["prompt"], "What is your name?");
    let page = service.get("/v1/jobs?status=waiting_user&limit=500");
    assert_eq!(page["jobs"].as_array().map(Vec::len), Some(500));
    let queue = service.get("/v1/system")["queue"].clone();
    assert_eq!((&queue["queued"], &queue["running"]), (&Value::from(0), &Value::from(0)));
    let place = format!("/proc/{}", service.pid());
    let count = |what: &str| std::fs::read_dir(format!("{place}/{what}")).unwrap().count();
    let (threads, files) = (count("task"), count("fd"));
    let status = std::fs::read_to_string(format!("{place}/status")).unwrap();
    let resident = status.lines().find_map(|line| line.strip_prefix("VmRSS:")?.strip_suffix("kB")).unwrap();
    let resident: u64 = resident.trim().parse().unwrap();
    service.kill();
    let started = Instant::now();
    Service::start(folder.path(), &pose).kill();
    let second_start = started.elapsed();
    eprintln!(
        "{RUNS} waiting: started in {first_start:?}, then {second_start:?}; {threads} threads, {files} files, {resident} kB"
    );
    assert!(threads < 100 && files < 100, "{threads} threads, {files} files");
    // Five times what it is; a log kept in memory for each run would be beyond it.
    assert!(resident < 400_000, "{resident} kB");
}

/// The events of a run that waits.
fn waiting_log() -> Vec<Envelope> {
    let scene = Scene::new();
    let run = scene.waiting(&one_question());
    let history = scene.server.call("GET", &format!("/v1/jobs/{run}/events/history"));
    let history = history.header("accept", "application/x-ndjson").send().text();
    history.lines().map(|line| read_envelope(line.as_bytes()).unwrap()).collect()
}

/// The log under another name, without the engine's own words.
fn copy(template: &[Envelope]) -> (RunId, Append) {
    let (run, request) = (RunId(Uuid::now_v7()), RequestId(Uuid::now_v7()));
    let now = template.last().unwrap().ts;
    let Some(Event::Started(mut created)) = template[0].event.clone() else { panic!("{:?}", template[0]) };
    created.request_id = request;
    let kept = template[1..].iter().filter_map(|envelope| envelope.event.clone()).filter(|event| {
        matches!(
            event,
            Event::StateChanged(_) | Event::TurnStarted(_) | Event::SessionBound(_) | Event::InputRequired(_)
        )
    });
    let facts = std::iter::once(Event::Started(created)).chain(kept).map(Fact::own).collect();
    let pages: Vec<Page> = Encoder::new(run).encode(Decision { facts, terminal: None }, now).unwrap();
    let row = pages.last().unwrap().head.to_row().unwrap();
    let batch = |page: Page| EventBatch { first: page.first, count: page.count, ndjson: page.ndjson.into() };
    let append = Append {
        run,
        expected_head: Seq::START,
        events: pages.into_iter().map(batch).collect(),
        index: vec![
            IndexChange::Put(IndexKey::Run(run), row.into()),
            IndexChange::Put(IndexKey::Request(request), run.as_bytes().to_vec().into()),
            IndexChange::Put(IndexKey::Open(run), Vec::new().into()),
        ],
        require_absent: None,
        for_others: Default::default(),
    };
    (run, append)
}
