//! A start that is killed again and again settles, in the end, what one undisturbed start would have.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use serde_json::{Value, json};
use skill_runner::domain::command::{Command, Conclusion, LastFiles};
use skill_runner::domain::event::{Event, SessionBound};
use skill_runner::domain::fact::{Fact, RawRange, Stream};
use skill_runner::domain::ids::{RunId, Seq};
use skill_runner::domain::interaction::InteractionId;
use skill_runner::domain::outcome::{Evidence, StreamProof};
use skill_runner::domain::run_file::RunFile;
use skill_runner::domain::statechart::Status;
use skill_runner::domain::time::Timestamp;
use skill_runner::domain::{decide, ending};
use skill_runner::fcmp::{Encoder, Page};
use skill_runner::orchestrator::{ListFilter, Orchestrator};
use skill_runner::registry::Registry;
use skill_runner::settings::Settings;
use skill_runner::store::{Append, EventBatch, EventStore, IndexChange, IndexKey, SledStore};
use skill_runner::workspace::{self, Layout};
use uuid::Uuid;

use crate::support::{LONG, log, program};

/// More and more runs, until enough starts are killed at their work: a fast start or a slow look may miss it.
const CROWDS: [u128; 4] = [200, 400, 800, 1600];
const KILLS: u64 = 10;
const MIDWAY: usize = 3;

/// What a service left when it died.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Left {
    Queued,
    AwaitingUpload,
    Running,
    RunningCanceled,
    Waiting,
    WaitingWithoutSession,
    Answered,
    CanceledNotSealed,
}

const KINDS: [Left; 8] = [
    Left::Queued,
    Left::AwaitingUpload,
    Left::Running,
    Left::RunningCanceled,
    Left::Waiting,
    Left::WaitingWithoutSession,
    Left::Answered,
    Left::CanceledNotSealed,
];

#[test]
fn a_start_killed_again_and_again_ends_where_an_undisturbed_one_does() {
    let mut midway = 0;
    for crowd in CROWDS {
        midway += killed_at_its_work(crowd);
        if midway >= MIDWAY {
            return;
        }
        eprintln!("{midway} starts were killed at their work, with {crowd} runs");
    }
    assert!(midway > 0, "no start was killed at its work");
}

/// Kills starts that settle so many runs, and compares what comes of them; how many it killed midway.
fn killed_at_its_work(crowd: u128) -> usize {
    // In memory where the machine has it: a kill takes nothing that was written, synced or not.
    let folder = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap();
    let (calm, killed) = (folder.path().join("calm"), folder.path().join("killed"));
    for data in [&calm, &killed] {
        leave_runs(data, crowd);
    }
    let expected = settled(&calm);
    let mut midway = 0;
    for kill in 1..=KILLS {
        let before = written(&killed);
        start_and_kill(&killed, before + usize::try_from(1 + kill * 7 % 23).unwrap());
        let after = written(&killed);
        midway += usize::from(before < after && after < expected_results(&expected));
    }
    let found = settled(&killed);
    for (run, expected) in &expected {
        assert_eq!(found.get(run), Some(expected), "{:?}", kind(*run));
    }
    assert_eq!(found.len(), expected.len());
    midway
}

/// Status, error, recovery and the types of all events, by run.
type Account = BTreeMap<RunId, Value>;

fn expected_results(account: &Account) -> usize {
    account.values().filter(|run| run["final"] == true).count()
}

/// How many runs have their last files.
fn written(data: &Path) -> usize {
    let runs = std::fs::read_dir(Layout::new(data).runs()).unwrap().flatten();
    runs.filter(|run| run.path().join("result/result.json").exists()).count()
}

/// Starts the service and kills it when so many runs have their last files, or when it is ready.
fn start_and_kill(data: &Path, when: usize) {
    let mut child: Child = program()
        .args(["serve", "--port", "0", "--skills-dir", "none", "--data-dir"])
        .arg(data)
        .env("LOG_LEVEL", "error")
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let output = BufReader::new(child.stdout.take().unwrap());
    let ready = Arc::new(AtomicBool::new(false));
    let said = ready.clone();
    let reader = std::thread::spawn(move || {
        for line in output.lines().map_while(Result::ok) {
            said.fetch_or(line.contains("listening"), Ordering::SeqCst);
        }
    });
    let deadline = Instant::now() + LONG;
    while written(data) < when && !ready.load(Ordering::SeqCst) {
        assert!(Instant::now() < deadline, "the service does not start");
        std::thread::sleep(Duration::from_millis(1));
    }
    child.kill().unwrap();
    child.wait().unwrap();
    reader.join().unwrap();
}

/// Starts once more, undisturbed, checks every log, and tells what became of every run.
fn settled(data: &Path) -> Account {
    with_service(data, async |service| {
        let jobs = service.list(&ListFilter { limit: usize::MAX, ..ListFilter::default() }).await.unwrap().jobs;
        let mut account = Account::new();
        for job in jobs {
            if kind(job.run_id) == Left::Answered {
                // It goes on, and fails for want of its skill.
                service.wait(job.run_id, LONG).await.unwrap();
            }
            account.insert(job.run_id, tell(service, job.run_id).await);
        }
        account
    })
}

/// Starts the service in this process and ends it.
fn with_service<T>(data: &Path, work: impl AsyncFnOnce(&Orchestrator) -> T) -> T {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let flags = [("data_dir", data.to_str().unwrap()), ("skills_dir", "none"), ("min_free_bytes", "0")];
    let flags: Vec<(String, String)> = flags.iter().map(|(key, value)| (key.to_string(), value.to_string())).collect();
    let settings = Settings::load(None, &BTreeMap::new(), &flags, 2).unwrap();
    let store = Arc::new(SledStore::open(data, |error| panic!("{error}")).unwrap());
    let outcome = runtime.block_on(async {
        let service = Orchestrator::start(store, Registry::new("none"), settings).await.unwrap();
        let outcome = work(&service).await;
        service.drain(Duration::ZERO).await;
        outcome
    });
    runtime.shutdown_timeout(LONG);
    outcome
}

/// Of many waiting runs most are noted after the service is ready.
async fn until_noted(service: &Orchestrator, run: RunId) {
    let deadline = Instant::now() + LONG;
    while json!(service.state(run).await.unwrap().recovery_state) == json!("none") {
        assert!(Instant::now() < deadline, "the restart is noted");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

async fn tell(service: &Orchestrator, run: RunId) -> Value {
    if kind(run) == Left::Waiting {
        until_noted(service, run).await;
    }
    assert_eq!(log::flaws(service, run).await, Vec::<String>::new(), "{:?}", kind(run));
    let state = service.state(run).await.unwrap();
    let batches = service.log().read(run, Seq::START, usize::MAX).await.unwrap();
    let events = batches.iter().flat_map(EventBatch::events);
    let types: Vec<Value> =
        events.map(|(_, event)| serde_json::from_slice::<Value>(&event).unwrap()["type"].clone()).collect();
    json!({
        "left": format!("{:?}", kind(run)), "status": state.status(), "final": state.status().is_final(), "types": types,
        "error": state.error.as_ref().map(|error| &error.code), "recovery": state.recovery_state,
        "pending": state.pending().map(|pending| pending.interaction.interaction_id),
    })
}

fn kind(run: RunId) -> Left {
    KINDS[usize::try_from(run.0.as_u128() % KINDS.len() as u128).unwrap()]
}

#[test]
fn of_many_waiting_runs_each_is_noted_once_and_before_anything_else_happens_to_it() {
    let folder = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap();
    let waiting: Vec<RunId> = numbered(0..1600).filter(|run| kind(*run) == Left::Waiting).collect();
    leave_these(folder.path(), &waiting);
    let types = |account: &Value| account["types"].as_array().unwrap().clone();
    let (expected, canceled) = with_service(folder.path(), async |service| {
        // At once, before the notes can have come to the newest of them.
        let newest = *waiting.last().unwrap();
        service.cancel(newest, "test", "enough").await.unwrap();
        let expected = tell(service, waiting[0]).await;
        for run in &waiting[1..waiting.len() - 1] {
            assert_eq!(tell(service, *run).await, expected);
        }
        (expected, tell(service, newest).await)
    });
    assert_eq!(expected["recovery"], "recovered_waiting");
    assert_eq!(types(&expected).iter().filter(|name| **name == "run.recovered").count(), 1);
    assert!(types(&canceled).starts_with(&types(&expected)), "{canceled} begins like {expected}");
    assert_eq!(canceled["status"], "canceled");

    // The next start has nothing to note.
    with_service(folder.path(), async |service| {
        for run in &waiting[..waiting.len() - 1] {
            assert_eq!(tell(service, *run).await, expected);
        }
    });
}

#[test]
fn of_many_queued_runs_each_has_ended_for_whoever_names_or_lists_it() {
    let folder = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap();
    let queued: Vec<RunId> = numbered(0..1600).filter(|run| kind(*run) == Left::Queued).collect();
    leave_these(folder.path(), &queued);
    with_service(folder.path(), async |service| {
        // At once, before the background can have come to the newest of them.
        let newest = *queued.last().unwrap();
        assert_eq!(service.resolve(&newest.to_string()).await.unwrap(), newest);
        assert_eq!(service.state(newest).await.unwrap().status(), Status::Failed);
        let listed = service.list(&ListFilter { limit: usize::MAX, ..ListFilter::default() }).await.unwrap().jobs;
        assert!(listed.iter().all(|job| job.status == Status::Failed), "a list waits for the runs on it");
        let expected = tell(service, newest).await;
        for run in &queued {
            assert_eq!(tell(service, *run).await, expected);
        }
    });
}

/// A data folder as a service left it that died with runs in every state.
fn leave_runs(data: &Path, crowd: u128) {
    leave_these(data, &numbered(0..crowd).collect::<Vec<_>>());
}

fn numbered(numbers: std::ops::Range<u128>) -> impl Iterator<Item = RunId> {
    numbers.map(|n| RunId(Uuid::from_u128(0x0192_0000_0000_7000_8000_0000_0000_0000 + n)))
}

fn leave_these(data: &Path, runs: &[RunId]) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let store = SledStore::open(data, |error| panic!("{error}")).unwrap();
    let layout = Layout::new(data);
    runtime.block_on(join_all(runs.iter().map(|run| leave(&store, &layout, *run))));
}

async fn leave(store: &SledStore, layout: &Layout, run: RunId) {
    let paths = layout.run(run);
    workspace::create_for_engine(&paths, false).unwrap();
    let kind = kind(run);
    let mut pen = Pen::begin(store, run, kind == Left::AwaitingUpload).await;
    let started = !matches!(kind, Left::Queued | Left::AwaitingUpload | Left::CanceledNotSealed);
    if started {
        // Of the second line only the beginning is in the file, and nothing of it in the log.
        std::fs::write(paths.file(RunFile::Stdout), "one\ntw").unwrap();
        std::fs::write(paths.file(RunFile::Stderr), "").unwrap();
        pen.write(start_turn()).await;
        let logged = Fact::raw_text(RawRange { stream: Stream::Stdout, from: 0, to: 4 }, "one\n".into());
        pen.write(Command::Record(vec![logged])).await;
    }
    let cancel = || Command::Cancel { requested_by: "test".into(), reason: "enough".into() };
    match kind {
        Left::Queued | Left::AwaitingUpload | Left::Running => {}
        Left::RunningCanceled | Left::CanceledNotSealed => pen.write(cancel()).await,
        Left::Waiting | Left::WaitingWithoutSession | Left::Answered => {
            std::fs::write(paths.file(RunFile::Stdout), "one\n").unwrap();
            if kind != Left::WaitingWithoutSession {
                let session = SessionBound { handle_kind: "thread_id".into(), handle: Uuid::from_u128(7).to_string() };
                pen.write(Command::Record(vec![Fact::own(Event::SessionBound(session))])).await;
            }
            pen.write(ask()).await;
        }
    }
    if kind == Left::Answered {
        let (interaction_id, response) = (InteractionId(1), json!("Ann"));
        pen.write(Command::Reply { interaction_id, response, idempotency_key: None, requested_by: None }).await;
    }
}

/// Writes a log as the service does.
struct Pen<'a> {
    store: &'a SledStore,
    encoder: Encoder,
}

/// Later than the starts that follow, as if the clock had been set back meanwhile.
const NOW: i64 = 4_000_000_000_000_000;

impl<'a> Pen<'a> {
    async fn begin(store: &'a SledStore, run: RunId, awaiting_upload: bool) -> Pen<'a> {
        let started = json!({
            "request_id": Uuid::from_u128(run.0.as_u128() ^ 1 << 60),
            "skill": {"id": "gone", "version": "1.0.0", "fingerprint": "0".repeat(64)},
            "engine": "codex", "model": null, "execution_mode": "interactive", "input": {}, "parameter": {},
            "awaiting_upload": awaiting_upload, "idempotency_sha256": null,
            "runtime_options": {
                "execution_mode": "interactive", "no_cache": false, "debug": false, "debug_keep_temp": false,
                "verbose": false, "interactive_auto_reply": false, "interactive_reply_timeout_sec": 1200,
                "hard_timeout_seconds": 60, "stall_timeout_seconds": 0,
            },
        });
        let started: skill_runner::domain::event::Started = serde_json::from_value(started).unwrap();
        let run_of_request = IndexChange::Put(IndexKey::Request(started.request_id), run.as_bytes().to_vec().into());
        let mut pen = Pen { store, encoder: Encoder::new(run) };
        pen.decide(
            Command::Create(Box::new(started)),
            vec![run_of_request, IndexChange::Put(IndexKey::Open(run), "".into())],
        )
        .await;
        pen
    }

    async fn write(&mut self, command: Command) {
        self.decide(command, vec![]).await;
    }

    async fn decide(&mut self, command: Command, index: Vec<IndexChange>) {
        let head = self.encoder.state().map_or(Seq::START, |state| state.head_seq);
        let now = Timestamp::from_micros(NOW + head.0 as i64);
        let ends = self.encoder.state().and_then(|state| ending(state, &command)).is_some();
        let last_files = ends.then(|| LastFiles { facts: vec![], evidence: no_streams() });
        let decision = decide(self.encoder.state(), command, last_files, now).unwrap();
        for page in self.encoder.encode(decision, now).unwrap() {
            self.append(page, head, index.clone()).await;
        }
    }

    async fn append(&self, page: Page, expected_head: Seq, mut index: Vec<IndexChange>) {
        let run = page.head.state.run_id;
        index.push(IndexChange::Put(IndexKey::Run(run), page.head.to_row().unwrap().into()));
        let events = vec![EventBatch { first: page.first, count: page.count, ndjson: page.ndjson.into() }];
        self.store
            .append(Append { run, expected_head, events, index, require_absent: None, for_others: Default::default() })
            .await
            .unwrap();
    }
}

fn start_turn() -> Command {
    Command::StartTurn {
        command: vec!["codex".into()],
        pid: 4_000_000,
        engine_version: "9.9.9".into(),
        parser_version: "codex/1".into(),
        isolation: "process-tree".into(),
        limits: None,
        passed: skill_runner::domain::request::Passed::default(),
    }
}

fn ask() -> Command {
    let question = json!({
        "interaction_id": 0, "kind": "open_text", "prompt": "Who are you?", "options": [], "ui_hints": null,
        "required_fields": [], "default_decision_policy": "engine_judgement", "context": null,
    });
    let conclusion = Conclusion::NeedsInput(serde_json::from_value(question).unwrap());
    Command::EndTurn { facts: vec![], conclusion }
}

fn no_streams() -> Evidence {
    let empty = StreamProof { bytes: 0, sha256: skill_runner::domain::cache_key::sha256_hex(b"") };
    let streams = BTreeMap::from([("stdout".to_owned(), empty.clone()), ("stderr".to_owned(), empty)]);
    let none = || "0".repeat(64);
    Evidence { streams, artifacts_sha256: none(), files_sha256: none(), result_sha256: none() }
}
