//! `skill-runner migrate`: a data folder moves into a database and back, and nothing is lost, whatever interrupts it.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, mpsc};
use std::time::Duration;

use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use skill_runner::domain::ids::Seq;
use skill_runner::store::{EventStore, Postgres, PostgresStore, contract};

use crate::interactive::pose::{self, Pose, done, says};
use crate::support::postgres::{self, Proxy, When, fresh};
use crate::support::{Server, program};

const GOOD: &str =
    "cat >/dev/null\nmkdir -p artifacts\nprintf hello > artifacts/a.md\necho '{\"success\":true,\"data\":{\"n\":1}}'\n";

const WAITS: &str =
    "cat >/dev/null\nmkfifo gate\necho ready >&2\nread line < gate\necho '{\"success\":true,\"data\":{}}'\n";

/// Runs the command on the data folder; its status and what it said.
fn run(folder: &Path, store: &str, args: &[&str]) -> (Option<i32>, String) {
    let mut command = program();
    command.args(args).arg("--data-dir").arg(folder.join("data")).arg("--skills-dir").arg(folder.join("skills"));
    let ran = command.env("SKILL_RUNNER_STORE", store).current_dir(folder).output().unwrap();
    let said = [&ran.stdout[..], &ran.stderr[..]].map(String::from_utf8_lossy).join("\n");
    assert!(!said.contains("not-a-secret"), "{said}");
    (ran.status.code(), said)
}

fn document(said: &str) -> Value {
    let end = said.rfind('}').map_or(0, |end| end + 1);
    serde_json::from_str(&said[said.find('{').unwrap_or(end)..end]).unwrap_or_else(|error| panic!("{error}: {said}"))
}

fn migrated(folder: &Path, from: &str, to: &str) -> Value {
    let (status, said) = run(folder, from, &["migrate", "--to", to, "--json"]);
    assert_eq!(status, Some(0), "{said}");
    document(&said)
}

/// What readers can see of the runs: each log, and the export of those that are over.
fn seen(folder: &Path, store: &str, runs: &[String]) -> BTreeMap<String, (String, Vec<u8>)> {
    let each = runs.iter().map(|id| {
        let (status, log) = run(folder, store, &["history", id]);
        assert_eq!(status, Some(0), "{log}");
        let file = folder.join("export.zip");
        let (status, said) = run(folder, store, &["export", id, "--output", file.to_str().unwrap()]);
        let export = if status == Some(0) { fs::read(&file).unwrap() } else { said.into_bytes() };
        let _ = fs::remove_file(&file);
        (id.clone(), (log, export))
    });
    each.collect()
}

/// The data folder without what a look at it changes: each file with its digest.
fn untouched(folder: &Path) -> Vec<(PathBuf, String)> {
    let mut found = Vec::new();
    let mut folders = vec![folder.join("data")];
    while let Some(next) = folders.pop() {
        for entry in fs::read_dir(next).unwrap().flatten().map(|entry| entry.path()) {
            let skipped = ["new-store", "logs", "LOCK", "damage.json", "store"];
            if skipped.iter().any(|name| entry.ends_with(name)) {
                continue;
            }
            if entry.is_dir() {
                folders.push(entry);
            } else if entry.is_file() {
                // Not the pipe of a run that was interrupted: reading it would wait for a writer.
                let digest = hex::encode(Sha256::digest(fs::read(&entry).unwrap()));
                found.push((entry, digest));
            }
        }
    }
    found.sort();
    found
}

const SETTINGS: [(&str, &str); 3] =
    [("restart_queued", "requeue"), ("seal_grace_seconds", "0"), ("max_running_jobs", "1")];

#[test]
fn a_data_folder_moves_into_a_database_and_back_with_every_kind_of_run() {
    if !postgres::installed("a data folder moves into PostgreSQL and back") {
        return;
    }
    let (database, schema, other) = (postgres::shared(), fresh(), fresh());
    let pose = Pose::new();
    pose.plays(&[says("Who?"), says("And who else?"), done()]);
    let codex = pose.command();
    let mut settings = SETTINGS.to_vec();
    settings.push(("engines.codex.command", &codex));
    let server = Server::with(&settings);
    let folder = server.folder.clone();
    let file = json!({"type": "object", "properties": {"doc": {"x-input-source": "file"}}, "required": ["doc"]});
    server.skill("good", GOOD, json!({}));
    server.skill("bad", "exit 3\n", json!({}));
    server.skill("reads", GOOD, json!({"input": file}));
    server.skill("waits", WAITS, json!({}));
    pose::skill(&folder.path().join("skills"), "asks", None);
    // Over, sealed, from the cache, failed, with a key, waiting for an answer, waiting for a file.
    let (_, first) = server.finished("good");
    let hit = server.post("/v1/jobs?wait=60", &json!({"skill_id": "good"})).json();
    assert_eq!(hit["cache_hit"], true, "{hit}");
    let (_, failed) = server.finished("bad");
    let keyed = json!({"skill_id": "good", "runtime_options": {"no_cache": true}});
    let keyed_on = |server: &Server| {
        server.call("POST", "/v1/jobs?wait=60").header("idempotency-key", "k").json(&keyed).send().json()
    };
    let keyed_run = keyed_on(&server)["run_id"].clone();
    let asks = json!({"skill_id": "asks", "engine": "codex", "runtime_options": {"execution_mode": "interactive"}});
    let (_, asking) = server.create_with(&asks);
    server.wait_for(&asking, "conversation.state.changed", "waiting_user");
    let (_, uploads) = server.create("reads");
    // One that runs, and one that is queued behind it.
    let (_, running) = server.create("waits");
    server.wait_for(&running, "raw.stderr", "ready");
    let (_, queued) = server.create_with(&json!({"skill_id": "good", "runtime_options": {"no_cache": true}}));
    let jobs = server.get("/v1/jobs?limit=100").json()["jobs"].as_array().unwrap().clone();
    let runs: Vec<String> = jobs.iter().map(|job| job["run_id"].as_str().unwrap().to_owned()).collect();
    assert_eq!(runs.len(), 8, "{jobs:#?}");
    // A service that runs is not disturbed.
    let url = database.url(&schema);
    let (status, said) = run(folder.path(), "sled", &["migrate", "--to", &url]);
    assert!(status == Some(1) && said.contains("another skill-runner uses this data directory"), "{status:?} {said}");
    drop(server);
    let before = seen(folder.path(), "sled", &runs);

    let told = migrated(folder.path(), "sled", &url);
    assert_eq!((&told["runs"], &told["damaged_before"]), (&json!(8), &json!(0)), "{told}");
    assert_eq!(seen(folder.path(), &url, &runs), before, "byte by byte");
    assert!(folder.path().join("data/old-store/store").is_dir() && !folder.path().join("data/new-store").exists());
    // Whoever has not changed the setting yet is told.
    let (status, said) = run(folder.path(), "sled", &["runs"]);
    assert!(status == Some(1) && said.contains("postgres 1"), "{status:?} {said}");

    // The service goes on there.
    let store =
        PostgresStore::open(&Postgres::new(&url), Some(&folder.path().join("data")), |error| panic!("{error:?}"));
    let server = Server::on_folder_and_store(folder.clone(), &settings, Arc::new(store.unwrap()));
    // A cursor from before works.
    let mut follower = server.events(&first, 3);
    assert_eq!(follower.next_chat().unwrap()["seq"], 4);
    assert_eq!(keyed_on(&server)["run_id"], keyed_run, "the key is known");
    let cached = server.post("/v1/jobs?wait=60", &json!({"skill_id": "good"})).json();
    assert_eq!(cached["cache_hit"], true, "{cached}");
    assert_eq!(server.finish(&queued).last().unwrap()["type"], "conversation.completed");
    let interrupted = server.get(&format!("/v1/jobs/{running}")).json();
    assert_eq!(interrupted["status"], "failed", "{interrupted}");
    let mut waits = server.events(&asking, 0);
    let reply = |n: u64| json!({"interaction_id": n, "response": "Ann"});
    assert_eq!(server.post(&format!("/v1/jobs/{asking}/interaction/reply"), &reply(1)).status, 200);
    let mut seqs = Vec::new();
    while let Some(event) = waits.next_chat() {
        seqs.push(event["seq"].as_u64().unwrap());
        if event["data"]["to"] == "waiting_user" && event["data"]["pending_interaction_id"] == 2 {
            break;
        }
    }
    assert_eq!(seqs, (1..=seqs.len() as u64).collect::<Vec<_>>());
    drop((follower, waits, server));

    // And back, with what was added there.
    let mut runs = runs;
    runs.push(cached["run_id"].as_str().unwrap().to_owned());
    let before = seen(folder.path(), &url, &runs);
    let (status, said) = run(folder.path(), &url, &["migrate", "--to", "sled"]);
    assert!(status == Some(2) && said.contains("has the store of an earlier move"), "{status:?} {said}");
    fs::remove_dir_all(folder.path().join("data/old-store")).unwrap();
    assert_eq!(migrated(folder.path(), &url, "sled")["runs"], 9);
    assert_eq!(seen(folder.path(), "sled", &runs), before);
    let server = Server::on_folder_with(folder.clone(), &settings);
    let second = server.post(&format!("/v1/jobs/{asking}/interaction/reply"), &reply(2));
    assert_eq!(second.status, 200, "{}", second.text());
    let answered = server.finish(&asking);
    assert_eq!(answered.last().unwrap()["type"], "conversation.completed", "{answered:#?}");
    let upload = server.call("POST", &format!("/v1/jobs/{uploads}/upload?wait=60")).parts(&[("doc", b"x")]).send();
    assert_eq!(upload.json()["status"], "succeeded", "{}", upload.text());
    assert_eq!(server.get(&format!("/v1/jobs/{failed}")).json()["status"], "failed");
    drop(server);
    let (status, said) = run(folder.path(), "sled", &["verify", "--json"]);
    assert!(status == Some(0) && document(&said)["damaged"] == json!([]), "{said}");

    // A database that holds runs is refused, and nothing is changed.
    fs::remove_dir_all(folder.path().join("data/old-store")).unwrap();
    for (schema, open_before) in [(&schema, false), (&other, true)] {
        let url = database.url(schema);
        if open_before {
            let store = PostgresStore::open(&Postgres::new(&url), None, |_| {}).unwrap();
            let appended = store.append(contract::events(contract::run(1), Seq(0), 1));
            tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(appended).unwrap();
        }
        let rows = || {
            database.sql(&format!("select run, head from {schema}.runs order by 1; select folder from {schema}.about"))
        };
        let (there, here) = (rows(), untouched(folder.path()));
        let (status, said) = run(folder.path(), "sled", &["migrate", "--to", &url]);
        assert!(status == Some(2) && said.contains("it holds runs already"), "{status:?} {said}");
        assert_eq!((rows(), untouched(folder.path())), (there, here));
        assert!(!folder.path().join("data/new-store").exists());
    }
    for (to, why) in [("sled", "in this store already"), ("mysql://u:not-a-secret@h", "must be sled or a URL")] {
        let (status, said) = run(folder.path(), "sled", &["migrate", "--to", to]);
        assert!(status == Some(2) && said.contains(why), "{status:?} {said}");
    }
}

#[test]
fn the_damage_of_a_run_is_told_without_what_would_turn_the_text_of_a_terminal() {
    if !postgres::installed("a damaged run moves into PostgreSQL") {
        return;
    }
    let (database, schema) = (postgres::shared(), fresh());
    let server = Server::with(&SETTINGS);
    let folder = server.folder.clone();
    server.skill("good", GOOD, json!({}));
    let (_, id) = server.finished("good");
    let artifacts = server.run_dir(&id).join("artifacts");
    drop(server);
    fs::write(artifacts.join("x\u{202e}y"), "more").unwrap();
    let (status, said) = run(folder.path(), "sled", &["migrate", "--to", &database.url(&schema)]);
    assert_eq!(status, Some(0), "{said}");
    let told = format!("run {id} was damaged before, and is copied as it is: ");
    let line = said.lines().find_map(|line| line.strip_prefix(&told)).unwrap_or_else(|| panic!("{said}"));
    assert!(line.contains("x\u{fffd}y") && !said.contains('\u{202e}'), "{said}");
}

#[test]
fn a_move_that_was_cut_short_in_its_last_step_is_completed_to_the_store_it_was_going_to_alone() {
    let folder = tempfile::tempdir().unwrap();
    let at = |path: &str| folder.path().join("data").join(path);
    for path in ["store", "old-store", "new-store/store"] {
        fs::create_dir_all(at(path)).unwrap();
    }
    // As a process leaves it that is killed behind its first step.
    let texts = [
        ("FORMAT", "moving to another store: call skill-runner migrate again\n"),
        ("store/old", "old"),
        ("old-store/FORMAT", "sled 2\n"),
        ("new-store/FORMAT", "postgres 1\n"),
        ("new-store/for", "postgres://u:********@127.0.0.1/one"),
        ("new-store/store/id", "new"),
    ];
    texts.iter().for_each(|(path, text)| fs::write(at(path), text).unwrap());
    let (status, said) = run(folder.path(), "sled", &["runs"]);
    assert!(status == Some(1) && said.contains("call skill-runner migrate again"), "{status:?} {said}");
    for other in ["sled", "postgres://u:not-a-secret@127.0.0.1/two"] {
        let (status, said) = run(folder.path(), "sled", &["migrate", "--to", other]);
        assert!(
            status == Some(2) && said.contains("a move to postgres://u:********@127.0.0.1/one"),
            "{status:?} {said}"
        );
        texts.iter().for_each(|(path, text)| assert_eq!(fs::read_to_string(at(path)).unwrap(), *text));
    }
    let told = migrated(folder.path(), "sled", "postgres://u:not-a-secret@127.0.0.1/one");
    assert_eq!(told["runs"], Value::Null, "{told}");
    let read = |path: &str| fs::read_to_string(at(path)).unwrap();
    assert_eq!(
        ["FORMAT", "store/id", "old-store/FORMAT", "old-store/store/old"].map(read),
        ["postgres 1\n", "new", "sled 2\n", "old"]
    );
    assert!(!at("new-store").exists());
}

/// A proxy that stalls everything after so many messages.
struct Stalling {
    proxy: Proxy,
    left: Arc<AtomicI64>,
    stalls: mpsc::Receiver<()>,
}

impl Stalling {
    fn new() -> Stalling {
        let (stalled, stalls) = mpsc::channel();
        let left = Arc::new(AtomicI64::new(i64::MAX));
        let counted = left.clone();
        let proxy = Proxy::to(postgres::shared().address(), move |_| {
            if counted.fetch_sub(1, Ordering::SeqCst) <= 0 {
                let _ = stalled.send(());
                loop {
                    std::thread::park();
                }
            }
            When::Pass
        });
        Stalling { proxy, left, stalls }
    }

    /// Starts the move, and kills it after so many messages to the database; whether it got that far.
    fn kills(&self, messages: i64, folder: &Path, from: &str, to: &str) -> bool {
        self.left.store(messages, Ordering::SeqCst);
        let mut command = program();
        command.args(["migrate", "--to", to, "--data-dir"]).arg(folder.join("data"));
        command.env("SKILL_RUNNER_STORE", from).current_dir(folder);
        let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        loop {
            if self.stalls.recv_timeout(Duration::from_millis(20)).is_ok() {
                child.kill().unwrap();
                child.wait().unwrap();
                self.left.store(i64::MAX, Ordering::SeqCst);
                // The server learns of the end of the process, as it would without the proxy.
                self.proxy.cut();
                while self.stalls.try_recv().is_ok() {}
                return true;
            }
            if let Some(ended) = child.try_wait().unwrap() {
                assert!(ended.success());
                self.left.store(i64::MAX, Ordering::SeqCst);
                return false;
            }
        }
    }
}

/// A move that was killed in its last step is completed by a second call, unless that step was done.
fn in_the_last_step(folder: &Path, from: &str, to: &str) {
    let format = fs::read_to_string(folder.join("data/FORMAT")).unwrap();
    if format.starts_with("moving") {
        let (status, said) = run(folder, from, &["runs"]);
        assert!(status == Some(1) && said.contains("call skill-runner migrate again"), "{status:?} {said}");
        migrated(folder, from, to);
    }
}

#[test]
fn kill_9_in_the_middle_leaves_the_source_as_it_was_and_a_second_call_completes() {
    if !postgres::installed("kill -9 of a move into PostgreSQL leaves its source") {
        return;
    }
    let server = Server::with(&SETTINGS);
    let folder = server.folder.clone();
    server.skill("good", GOOD, json!({}));
    server.skill("bad", "exit 3\n", json!({}));
    for _ in 0..4 {
        server.finished("bad");
    }
    server.finished("good");
    let jobs = server.get("/v1/jobs?limit=100").json()["jobs"].as_array().unwrap().clone();
    let runs: Vec<String> = jobs.iter().map(|job| job["run_id"].as_str().unwrap().to_owned()).collect();
    drop(server);
    let before = seen(folder.path(), "sled", &runs);
    let stalling = Stalling::new();
    let url = postgres::shared().url_at(stalling.proxy.address, &fresh());
    for (from, to) in [("sled", url.as_str()), (url.as_str(), "sled")] {
        let files = untouched(folder.path());
        let format = fs::read_to_string(folder.path().join("data/FORMAT")).unwrap();
        let mut kills = 0;
        for messages in (10..).step_by(13) {
            if !stalling.kills(messages, folder.path(), from, to) {
                break;
            }
            kills += 1;
            // The last messages are the farewell to the database, in the last step: the folder is changing hands.
            if fs::read_to_string(folder.path().join("data/FORMAT")).unwrap() != format {
                in_the_last_step(folder.path(), from, to);
                break;
            }
            assert_eq!(untouched(folder.path()), files, "after {messages} messages");
            let newest = &runs[..1];
            assert_eq!(seen(folder.path(), from, newest)[&runs[0]], before[&runs[0]], "the old store works on");
        }
        assert!(kills >= 3, "{kills}");
        assert_eq!(seen(folder.path(), to, &runs), before);
        fs::remove_dir_all(folder.path().join("data/old-store")).unwrap();
    }
}
