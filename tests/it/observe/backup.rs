//! Backups: made while the service works, restored elsewhere, and nothing that was acknowledged is missing.

use std::env;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::cli::place::Place;
use crate::interactive::pose::{self, Pose, done, says};
use crate::support::{Call, Server, program};

const GOOD: &str =
    "cat >/dev/null\nmkdir -p artifacts\nprintf hello > artifacts/a.md\necho '{\"success\":true,\"data\":{\"n\":1}}'\n";
const WAITS: &str =
    "cat >/dev/null\nmkfifo gate\necho ready >&2\nread line < gate\necho '{\"success\":true,\"data\":{}}'\n";

fn copy(from: &Path, to: &Path) {
    assert!(Command::new("cp").arg("-a").arg(from).arg(to).status().unwrap().success());
}

/// Audits every finished run of a data folder that no service has.
fn verified(data: &Path) -> Value {
    let checked = program().arg("--data-dir").arg(data).args(["verify", "--json"]).output().unwrap();
    assert!(checked.status.success(), "{}", String::from_utf8_lossy(&checked.stdout));
    serde_json::from_slice(&checked.stdout).unwrap()
}

fn backed_up(server: &Server, name: &str) -> Value {
    let made = server.post("/v1/backups?wait=600", &json!({"name": name}));
    assert_eq!(made.status, 202, "{}", made.text());
    let backup = made.json();
    assert_eq!(backup["status"], "succeeded", "{backup}");
    assert_eq!(made.header("location"), format!("/v1/backups/{}", backup["backup_id"].as_str().unwrap()));
    assert_eq!(server.get(made.header("location")).json(), backup);
    backup
}

#[test]
fn the_answer_to_a_backup_is_held_back_as_long_as_is_asked_for() {
    let elsewhere = tempfile::tempdir().unwrap();
    let server = Server::with(&[("backup_dir", elsewhere.path().to_str().unwrap())]);
    server.skill("good", GOOD, json!({}));
    server.finished("good");
    let at_once = server.post("/v1/backups?wait=0", &json!({"name": "one"}));
    assert_eq!((at_once.status, at_once.json()["status"].clone()), (202, json!("running")));
    // What is begun can be waited for only by asking; a second one has to wait until it has ended.
    let asked =
        |name: &str| server.call("POST", "/v1/backups").header("prefer", "wait=600").json(&json!({"name": name}));
    let second = std::iter::repeat_with(|| asked("two").send()).find(|answer| answer.status != 409).unwrap();
    assert_eq!((second.status, second.header("preference-applied")), (202, "wait=600"), "{}", second.text());
    assert_eq!(second.json()["status"], "succeeded", "{}", second.text());
    assert!(elsewhere.path().join("two").is_dir());
    for wrong in ["-1", "x", "1.5"] {
        let refused = server.post(&format!("/v1/backups?wait={wrong}"), &json!({"name": "three"}));
        assert_eq!(refused.refusal(), (400, "INVALID_REQUEST".into()), "{wrong}");
    }
    assert!(!elsewhere.path().join("three").exists(), "a refused request changes nothing");
}

fn history(server: &Server, run: &str) -> Vec<Value> {
    server.get(&format!("/v1/jobs/{run}/events/history?limit=10000")).json()["events"].as_array().unwrap().clone()
}

#[test]
fn what_was_acknowledged_before_a_backup_is_in_it_and_a_service_goes_on_from_there() {
    let pose = Pose::new();
    pose.plays(&[says("Who?"), done()]);
    let elsewhere = Arc::new(tempfile::tempdir().unwrap());
    let codex = pose.command();
    let settings = [
        ("engines.codex.command", codex.as_str()),
        ("backup_dir", elsewhere.path().to_str().unwrap()),
        ("max_running_jobs", "8"),
        ("restart_queued", "requeue"),
    ];
    let server = Server::with(&settings);
    let file = json!({"type": "object", "properties": {"doc": {"x-input-source": "file"}}, "required": ["doc"]});
    server.skill("good", GOOD, json!({}));
    server.skill("reads", GOOD, json!({"input": file}));
    server.skill("waits", WAITS, json!({}));
    pose::skill(&server.folder.path().join("skills"), "asks", None);

    let (_, first) = server.finished("good");
    let hit = server.post("/v1/jobs?wait=60", &json!({"skill_id": "good"})).json();
    assert_eq!(hit["cache_hit"], true, "{hit}");
    let hit = hit["run_id"].as_str().unwrap().to_owned();
    let keyed = json!({"skill_id": "good", "runtime_options": {"no_cache": true}});
    let keyed = || server.call("POST", "/v1/jobs?wait=60").header("idempotency-key", "k").json(&keyed).send().json();
    let keyed_run = keyed()["run_id"].clone();
    let (_, uploads) = server.create("reads");
    let interactive = json!({"execution_mode": "interactive"});
    let asks = json!({"skill_id": "asks", "engine": "codex", "runtime_options": interactive});
    let (_, asking) = server.create_with(&asks);
    server.wait_for(&asking, "conversation.state.changed", "waiting_user");
    let (_, running) = server.create("waits");
    server.wait_for(&running, "raw.stderr", "ready");
    let acknowledged: Vec<Value> = server.get("/v1/jobs?limit=100").json()["jobs"].as_array().unwrap().clone();

    // Others go on meanwhile.
    let stop = AtomicBool::new(false);
    let told = std::thread::scope(|scope| {
        scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                let body = json!({"skill_id": "good", "runtime_options": {"no_cache": true}});
                assert_eq!(server.post("/v1/jobs?wait=60", &body).status, 201);
            }
        });
        let told = backed_up(&server, "data");
        stop.store(true, Ordering::Relaxed);
        told
    });
    assert!(told["runs"].as_u64().unwrap() >= acknowledged.len() as u64, "{told}");
    let logs = [&first, &hit].map(|run| history(&server, run));
    server.open_gate(&running, "go");
    server.finish(&running);
    copy(&server.folder.path().join("skills"), &elsewhere.path().join("skills"));
    assert_eq!(server.post("/v1/backups", &json!({"name": "data"})).refusal(), (409, "BACKUP_EXISTS".into()));
    drop(server);

    // The original is gone; a service begins where the backup is.
    let restored = Server::on_folder_with(elsewhere.clone(), &settings[..1]);
    for job in &acknowledged {
        let run = job["run_id"].as_str().unwrap();
        let now = restored.get(&format!("/v1/jobs/{run}")).json();
        assert!(now["head_seq"].as_u64() >= job["head_seq"].as_u64(), "{job} became {now}");
    }
    assert_eq!([&first, &hit].map(|run| history(&restored, run)), logs);
    assert_eq!(restored.get(&format!("/v1/jobs/{hit}/result")).json()["result"]["data"]["n"], 1);
    assert_eq!(restored.get(&format!("/v1/jobs/{first}/artifacts/artifacts/a.md")).text(), "hello");
    let again = restored.call("POST", "/v1/jobs?wait=60").header("idempotency-key", "k");
    let again = again.json(&json!({"skill_id": "good", "runtime_options": {"no_cache": true}})).send().json();
    assert_eq!(again["run_id"], keyed_run, "the key is known");
    let cached = restored.post("/v1/jobs?wait=60", &json!({"skill_id": "good"})).json();
    assert_eq!(cached["cache_hit"], true, "{cached}");
    let upload = restored.call("POST", &format!("/v1/jobs/{uploads}/upload?wait=60")).parts(&[("doc", b"x")]).send();
    assert_eq!(upload.json()["status"], "succeeded", "{}", upload.text());
    let reply = json!({"interaction_id": 1, "response": "Ann"});
    assert_eq!(restored.post(&format!("/v1/jobs/{asking}/interaction/reply"), &reply).status, 200);
    let answered = restored.finish(&asking);
    assert_eq!(answered.last().unwrap()["type"], "conversation.completed", "{answered:#?}");
    let interrupted = restored.get(&format!("/v1/jobs/{running}")).json();
    assert_eq!(interrupted["error"]["code"], "ORCHESTRATOR_RESTART_INTERRUPTED", "{interrupted}");
    drop(restored);
    assert_eq!(verified(&elsewhere.path().join("data"))["damaged"], json!([]));
}

#[test]
fn a_data_folder_that_is_copied_while_nothing_runs_is_one_like_the_first() {
    let place = Place::new();
    let run = place.finished_run();
    let there = tempfile::tempdir().unwrap();
    copy(&place.path().join("data"), &there.path().join("moved"));
    copy(&place.path().join("skills"), &there.path().join("skills"));
    fs::remove_dir_all(place.path().join("data")).unwrap();
    let moved = there.path().join("moved");
    let skills = there.path().join("skills");
    let args =
        ["serve", "--port", "0", "--data-dir", moved.to_str().unwrap(), "--skills-dir", skills.to_str().unwrap()];
    let (service, line) = place.start(&args, "listening on ");
    let address = line.strip_prefix("listening on http://").unwrap().parse().unwrap();
    let call = |method: &str, path: &str| Call::new(address, method, path);
    assert_eq!(call("GET", &format!("/v1/jobs/{run}")).send().json()["status"], "succeeded");
    let new = call("POST", "/v1/jobs?wait=60").json(&json!({"skill_id": "tiny"})).send();
    assert_eq!(new.json()["status"], "succeeded", "{}", new.text());
    service.signal(Signal::TERM);
    assert_eq!(service.end().code, Some(0));
    assert_eq!(verified(&moved)["damaged"], json!([]));
}

#[test]
fn the_command_makes_a_backup_with_and_without_a_service_and_never_over_another() {
    let place = Place::new();
    let run = place.finished_run();
    let made = place.run(&["backup", "cold", "--json"]);
    assert_eq!((made.code, &made.json()["runs"]), (Some(0), &json!(1)), "{made:?}");
    let (service, _) = place.start(&["serve", "--port", "0"], "listening on ");
    let made = place.run(&["backup", "warm"]);
    assert_eq!(made.code, Some(0), "{made:?}");
    assert!(made.stdout.starts_with("backed up 1 runs, ") && made.stdout.ends_with("/backups/warm\n"), "{made:?}");
    let again = place.run(&["backup", "warm"]);
    assert_eq!(again.code, Some(5), "{again:?}");
    assert!(again.stderr.contains("backups/warm exists"), "{again:?}");
    let unnamed = place.run(&["backup", "--json"]);
    assert_eq!(unnamed.code, Some(0), "{unnamed:?}");
    service.signal(Signal::TERM);
    assert_eq!(service.end().code, Some(0));
    let wrong = place.run(&["backup", "../up"]);
    assert_eq!(wrong.code, Some(5), "{wrong:?}");
    // What a killed one left is not in the way.
    let left = place.path().join("backups/.third.unfinished");
    fs::create_dir_all(&left).unwrap();
    fs::write(left.join("UNFINISHED-BACKUP"), "").unwrap();
    assert_eq!(place.run(&["backup", "third"]).code, Some(0));
    for name in ["cold", "warm", "third"] {
        let folder = place.path().join("backups").join(name);
        assert_eq!(verified(&folder)["damaged"], json!([]), "{name}");
        let shown = program().arg("--data-dir").arg(&folder).args(["result", &run]).output().unwrap();
        assert!(shown.status.success(), "{name}: {}", String::from_utf8_lossy(&shown.stderr));
    }
    assert!(!left.exists());
}

#[test]
fn a_backup_that_cannot_be_made_is_refused_and_changes_nothing() {
    let server = Server::start();
    for name in ["", ".hidden", "a/b", "..", &"x".repeat(65), "ä"] {
        let (status, code) = server.post("/v1/backups", &json!({"name": name})).refusal();
        assert_eq!((status, code.as_str()), (400, "INVALID_REQUEST"), "{name}");
    }
    assert_eq!(server.get("/v1/backups/x").refusal(), (404, "BACKUP_NOT_FOUND".into()));
    assert!(!server.folder.path().join("backups").exists());
    // A backup of itself would have no end.
    let folder = tempfile::tempdir().unwrap();
    let inside = folder.path().join("data/backups");
    let server = Server::on_folder_with(Arc::new(folder), &[("backup_dir", inside.to_str().unwrap())]);
    let failed = server.post("/v1/backups?wait=600", &json!({"name": "b"})).json();
    assert_eq!(failed["status"], "failed");
    assert!(failed["error"].as_str().unwrap().contains("is in the data folder"), "{failed}");
}

/// The steps of docs/deploy.md: back up, put another program in place, start it; and back again from the backup.
#[test]
fn an_upgrade_keeps_every_run_and_a_program_that_is_too_old_refuses_the_data() {
    let place = Place::new();
    let run = place.finished_run();
    let installed = place.path().join("installed");
    // By a process of its own: a child of another test, begun meanwhile, would hold the file open and keep it from being executed.
    let install = || copy(Path::new(env!("CARGO_BIN_EXE_skill-runner")), &installed);
    install();
    let served = |data: &str| {
        let mut command = Command::new(&installed);
        command.args(["serve", "--port", "0", "--data-dir", data]).current_dir(place.path()).env_clear();
        command.env("PATH", env::var_os("PATH").unwrap()).stdin(Stdio::null());
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    };
    let asked = |data: &str, status: &str| {
        let (service, line) = Place::started(served(data), "listening on ");
        let address = line.strip_prefix("listening on http://").unwrap().parse().unwrap();
        let job = Call::new(address, "GET", &format!("/v1/jobs/{run}")).send().json();
        assert_eq!(job["status"], status, "{job}");
        service
    };
    let service = asked("data", "succeeded");
    assert_eq!(place.run(&["backup", "before-upgrade"]).code, Some(0));
    service.signal(Signal::TERM);
    assert_eq!(service.end().code, Some(0));
    fs::remove_file(&installed).unwrap();
    install();
    let service = asked("data", "succeeded");
    service.signal(Signal::TERM);
    assert_eq!(service.end().code, Some(0));

    // What a later version may have left.
    fs::write(place.path().join("data/FORMAT"), "sled 3\n").unwrap();
    let refused = served("data").output().unwrap();
    let told = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(!refused.status.success() && told.contains("sled 3"), "{told}");
    let service = asked("backups/before-upgrade", "succeeded");
    service.signal(Signal::TERM);
    assert_eq!(service.end().code, Some(0));
}

/// Many events, so that copying the run takes a while.
const LONG: &str = "cat >/dev/null\nmkdir -p artifacts\nfor n in $(seq 300); do echo $n > artifacts/$n; done\nseq -f 'line %.0f of a long output' 20000 >&2\n\
    echo '{\"success\":true,\"data\":{}}'\n";

#[test]
fn a_backup_beside_deletions_is_made_and_tells_of_no_damage() {
    let elsewhere = tempfile::tempdir().unwrap();
    let settings = [("backup_dir", elsewhere.path().to_str().unwrap()), ("seal_grace_seconds", "600")];
    let server = Server::with(&settings);
    server.skill("long", LONG, json!({}));
    for round in 0..4 {
        let create = |_| {
            let run = server.create_with(&json!({"skill_id": "long", "runtime_options": {"no_cache": true}})).1;
            server.finish(&run);
            run
        };
        let mut runs: Vec<String> = (0..6).map(create).collect();
        // The newest is copied first.
        runs.reverse();
        let name = format!("b{round}");
        let begun = server.post("/v1/backups?wait=0", &json!({"name": name}));
        assert_eq!(begun.status, 202, "{}", begun.text());
        let at = begun.header("location").to_owned();
        for run in &runs {
            assert_eq!(server.call("DELETE", &format!("/v1/jobs/{run}")).send().status, 200);
        }
        let ended =
            std::iter::repeat_with(|| server.get(&at).json()).find(|backup| backup["status"] != "running").unwrap();
        assert_eq!(ended["status"], "succeeded", "{ended}");
        assert_eq!(verified(&elsewhere.path().join(&name))["damaged"], json!([]), "{name}");
        let told: Value =
            serde_json::from_slice(&fs::read(elsewhere.path().join(&name).join("backup.json")).unwrap()).unwrap();
        assert_eq!(told["damaged_and_left_out"], json!([]), "{told}");
    }
    let damage = fs::read_to_string(server.data().join("damage.json")).unwrap_or("{}".into());
    assert_eq!(damage.trim(), "{}");
}
