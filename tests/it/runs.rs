//! What becomes of a script skill's run: each way to end, seen in its log, its job and its files.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use skill_runner::domain::fact::Stream;
use skill_runner::domain::ids::{RunId, Seq};
use skill_runner::domain::outcome::StreamProof;
use skill_runner::domain::state::RunState;
use skill_runner::domain::statechart::Status;
use skill_runner::fcmp::audit::{Auditor, Expect};
use skill_runner::orchestrator::{CreateRequest, Orchestrator};
use skill_runner::registry::Registry;
use skill_runner::settings::Settings;
use skill_runner::store::SledStore;

struct House {
    orchestrator: Orchestrator,
    folder: tempfile::TempDir,
}

async fn house(flags: &[(&str, &str)]) -> House {
    let folder = tempfile::tempdir().unwrap();
    let orchestrator = open(folder.path(), flags).await;
    House { orchestrator, folder }
}

async fn open(folder: &Path, flags: &[(&str, &str)]) -> Orchestrator {
    let data = folder.join("data");
    std::fs::create_dir_all(&data).unwrap();
    let mut all = vec![("data_dir".to_owned(), data.to_str().unwrap().to_owned())];
    all.extend(flags.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())));
    let settings = Settings::load(None, &BTreeMap::new(), &all, 2).unwrap();
    let store = SledStore::open(&data, |error| panic!("{error}")).unwrap();
    let skills = Path::new(env!("CARGO_MANIFEST_DIR")).join("skills");
    let shim = PathBuf::from(env!("CARGO_BIN_EXE_skill-runner"));
    Orchestrator::start(Arc::new(store), Registry::new(skills), settings, shim).await.unwrap()
}

impl House {
    async fn run(&self, request: Value) -> RunState {
        let request: CreateRequest = serde_json::from_value(request).unwrap();
        let created = self.orchestrator.create(request, None).await.unwrap();
        self.end(created.run_id).await
    }

    async fn end(&self, run: RunId) -> RunState {
        let state = self.orchestrator.wait(run, Duration::from_secs(60)).await.unwrap();
        assert!(state.status.is_final(), "{:?}", state.status);
        self.check(run);
        state
    }

    fn events(&self, run: RunId) -> Vec<Value> {
        let mut events = Vec::new();
        let mut at = Seq::START;
        loop {
            let batches = self.orchestrator.log().read(run, at, 1 << 20).unwrap();
            if batches.is_empty() {
                return events;
            }
            for (seq, bytes) in batches.iter().flat_map(|batch| batch.events()) {
                events.push(serde_json::from_slice(&bytes).unwrap());
                at = seq;
            }
        }
    }

    /// Every rule of the log, and the row equal to the fold.
    fn check(&self, run: RunId) {
        let mut auditor = Auditor::default();
        let mut at = Seq::START;
        loop {
            let batches = self.orchestrator.log().read(run, at, 1 << 20).unwrap();
            if batches.is_empty() {
                break;
            }
            for (seq, bytes) in batches.iter().flat_map(|batch| batch.events()) {
                auditor.push(&bytes);
                at = seq;
            }
        }
        let paths = self.orchestrator.layout().run(run);
        let proof = |path: PathBuf| {
            let bytes = std::fs::read(path).unwrap_or_default();
            StreamProof { bytes: bytes.len() as u64, sha256: skill_runner::domain::cache_key::sha256_hex(&bytes) }
        };
        let files = BTreeMap::from([(Stream::Stdout, proof(paths.stdout())), (Stream::Stderr, proof(paths.stderr()))]);
        assert_eq!(auditor.finish(&files, Expect::Final), vec![]);
        let head = self.orchestrator.log().head(run).unwrap();
        assert_eq!(self.orchestrator.log().fold(run, head.state.head_seq).unwrap(), head);
        assert!(!paths.tmp.exists(), "the run's temporary folder is gone");
    }

    fn result(&self, run: RunId) -> Value {
        let paths = self.orchestrator.layout().run(run);
        serde_json::from_slice(&std::fs::read(paths.result_json()).unwrap()).unwrap()
    }
}

fn types(events: &[Value]) -> Vec<&str> {
    events.iter().map(|event| event["type"].as_str().unwrap()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_trivial_run_succeeds_with_its_whole_story_in_the_log() {
    let house = house(&[]).await;
    let state = house.run(json!({"skill_id": "demo-echo", "input": {"text": "hello"}})).await;
    assert_eq!((state.status, &state.error), (Status::Succeeded, &None));
    let events = house.events(state.run_id);
    // The two streams are read side by side, so only their own order is told.
    let told: Vec<&str> = types(&events).into_iter().filter(|name| *name != "raw.stderr").collect();
    assert_eq!(
        told,
        [
            "conversation.started",
            "conversation.state.changed",
            "turn.started",
            "raw.stdout",
            "output.normalized",
            "conversation.state.changed",
            "conversation.completed"
        ]
    );
    let result = house.result(state.run_id);
    assert_eq!(result["status"], "succeeded");
    assert_eq!(result["data"]["text"], "hello");
    assert!(house.orchestrator.layout().run(state.run_id).bundle(false).is_file());
    assert!(house.folder.path().exists());
}

#[tokio::test(flavor = "multi_thread")]
async fn each_failure_worth_showing_ends_with_its_code() {
    let house = house(&[]).await;
    for (skill, code) in [
        ("demo-fail-schema", "SCHEMA_VALIDATION_FAILED"),
        ("demo-fail-artifact", "ARTIFACT_MISSING"),
        ("demo-fail-exit", "ENGINE_FAILED"),
    ] {
        let state = house.run(json!({"skill_id": skill})).await;
        assert_eq!(state.status, Status::Failed);
        assert_eq!(state.error.as_ref().unwrap().code, code, "{:?}", state.error);
        let result = house.result(state.run_id);
        assert_eq!((&result["status"], &result["error"]["code"]), (&json!("failed"), &json!(code)));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hanging_script_is_ended_by_the_wall_clock_and_by_the_stall_clock() {
    let house = house(&[("kill_grace_seconds", "1")]).await;
    for (options, code) in [
        (json!({"hard_timeout_seconds": 1, "stall_timeout_seconds": 0}), "TIMEOUT"),
        (json!({"stall_timeout_seconds": 1}), "STALLED"),
    ] {
        let state = house.run(json!({"skill_id": "demo-hang", "runtime_options": options})).await;
        assert_eq!(state.error.as_ref().unwrap().code, code, "{:?}", state.error);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_an_unlogged_start_left_behind_is_not_taken_for_the_runs_own() {
    let folder = tempfile::tempdir().unwrap();
    let flags = [("restart_queued", "requeue"), ("max_running_jobs", "1")];
    let run = {
        let orchestrator = open(folder.path(), &flags).await;
        let create = |request| orchestrator.create(serde_json::from_value(request).unwrap(), None);
        let blocks = create(json!({"skill_id": "demo-hang"})).await.unwrap().run_id;
        let waits = create(json!({"skill_id": "demo-echo", "input": {"text": "x"}})).await.unwrap().run_id;
        // As a service leaves it that is killed after the engine started and before its event was durable.
        let paths = orchestrator.layout().run(waits);
        std::fs::create_dir_all(paths.logs()).unwrap();
        std::fs::write(paths.stdout(), "half an answer").unwrap();
        std::fs::write(paths.artifacts().join("stale.txt"), "x").unwrap();
        orchestrator.cancel(blocks, "test", "").await.unwrap();
        orchestrator.drain(Duration::ZERO).await;
        waits
    };
    let house = House { orchestrator: open(folder.path(), &flags).await, folder };
    let state = house.end(run).await;
    assert_eq!(state.status, Status::Succeeded, "{:?}", state.error);
    assert_eq!(house.result(run)["artifacts"], json!([]));
}
