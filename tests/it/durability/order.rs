//! What an event names is on the disk before the event is.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use serde_json::json;

use super::{Watched, first, not_durable, until, writes_database};
use crate::cli::place::Place;
use crate::interactive::pose::{self, Pose, done, says};
use crate::support::file_calls::{Deed, FileCall, Watch};
use crate::support::zips::{deflated, zip_folder};
use crate::support::{Call, Sse, script_skill};

/// Sealed logs stay beside their events.
const NO_DELETION: (&str, &str) = ("SKILL_RUNNER_SEAL_GRACE_SECONDS", "3600");

fn renamed_to(path: &str) -> impl Fn(&FileCall) -> bool {
    move |call| matches!(call.deed, Deed::Rename | Deed::Exchange) && call.to.as_deref() == Some(path)
}

#[test]
fn the_last_files_of_a_run_are_on_the_disk_before_the_event_that_ends_it() {
    let place = Place::new();
    let Some(service) = Watched::serve(&place, &[NO_DELETION]) else { return };
    let run = service.create("tiny");
    assert_eq!(service.ended(&run)["status"], "succeeded");
    let calls = service.watch.take();
    let result = first(&calls, 0, renamed_to(&format!("data/runs/{run}/result/result.json")));
    let end = calls.iter().rposition(writes_database).unwrap();
    assert!(result < end, "the result is written before the event that names it");
    assert_eq!(not_durable(&calls[..end], &format!("data/runs/{run}")), []);
}

#[test]
fn what_an_engine_said_is_on_the_disk_before_the_question_it_ends_with() {
    let pose = Pose::new();
    pose.plays(&[says("What is your name?"), done()]);
    let (program, notes) = (pose.command(), pose.folder().display().to_string());
    asks("codex", &[("SKILL_RUNNER_CODEX_BIN", &program), ("SKILL_RUNNER_SANDBOX_WRITE", &notes)]);
}

#[test]
fn what_an_engine_wrote_to_a_file_that_is_followed_is_on_the_disk_before_the_question_it_ends_with() {
    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join("claude");
    fs::write(&program, CLAUDE).unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    asks("claude", &[("SKILL_RUNNER_CLAUDE_BIN", program.to_str().unwrap())]);
}

/// A program that poses as claude, whose output goes to files: it asks a question.
const CLAUDE: &str = r#"#!/bin/sh
[ "$1" = --version ] && { echo '9.9.9 (Claude Code)'; exit 0; }
cat > /dev/null
[ -f /proc/self/fd/1 ] || { echo 'its output is no file' >&2; exit 1; }
session='"session_id":"0192f0c1-2d3e-7f40-8a51-6b7c8d9e0f11"'
echo '{"type":"system","subtype":"init",'"$session"',"model":"m","tools":[]}'
echo '{"type":"assistant",'"$session"',"message":{"role":"assistant","content":[{"type":"text","text":"What is your name?"}]}}'
echo '{"type":"result","subtype":"success","is_error":false,"result":"What is your name?",'"$session"',"usage":{"input_tokens":1,"output_tokens":1}}'
"#;

/// An engine asks a question; what it said is durable before the question is recorded.
fn asks(engine: &str, variables: &[(&str, &str)]) {
    let place = Place::new();
    pose::skill(&place.path().join("skills"), "ask", None);
    let posing = [&[NO_DELETION], variables].concat();
    let Some(service) = Watched::serve(&place, &posing) else { return };
    let options = json!({"execution_mode": "interactive"});
    let body = json!({"skill_id": "ask", "engine": engine, "runtime_options": options});
    let answer = Call::new(service.address, "POST", "/v1/jobs").json(&body).send();
    let run = answer.json()["run_id"].as_str().unwrap().to_owned();
    Sse::until_status(service.address, &run, "waiting_user");
    let calls = service.watch.take();
    let asked = calls.iter().rposition(writes_database).unwrap();
    let said = format!("data/runs/{run}/logs/stdout.txt");
    assert!(calls[..asked].iter().any(|call| call.deed == Deed::Write && call.path == said), "{calls:#?}");
    assert_eq!(not_durable(&calls[..asked], &said), []);
}

#[test]
fn uploaded_files_are_on_the_disk_before_the_event_that_names_them() {
    let place = Place::new();
    let input = json!({"type": "object", "properties": {"doc": {"type": "string"}}, "required": ["doc"]});
    script_skill(
        &place.path().join("skills"),
        "reads",
        "echo '{\"success\":true,\"data\":{}}'\n",
        json!({"input": input}),
    );
    let Some(service) = Watched::serve(&place, &[NO_DELETION]) else { return };
    let body = json!({"skill_id": "reads"});
    let answer = Call::new(service.address, "POST", "/v1/jobs").json(&body).send();
    assert_eq!(answer.status, 201, "{}", answer.text());
    let (request, run) = (answer.json()["request_id"].clone(), answer.json()["run_id"].clone());
    let (request, run) = (request.as_str().unwrap(), run.as_str().unwrap());
    service.watch.take();
    let zip = deflated(&[("doc", b"some text".as_slice())]);
    let upload = Call::new(service.address, "POST", &format!("/v1/jobs/{run}/upload")).parts(&[("file", &zip)]).send();
    assert_eq!(upload.status, 200, "{}", upload.text());
    let calls = service.watch.take();
    let staged = format!("data/requests/{request}/uploads");
    let named = first(&calls, 0, renamed_to(&staged));
    let event = first(&calls, named, writes_database);
    assert!(calls[..named].iter().any(|call| call.deed == Deed::Write && call.path.ends_with("/doc")), "{calls:#?}");
    assert_eq!(not_durable(&calls[..event], &staged), []);
    assert_eq!(service.ended(run)["status"], "succeeded");
}

#[test]
fn events_leave_the_store_after_their_sealed_log_is_on_the_disk() {
    let place = Place::new();
    let Some(service) = Watched::serve(&place, &[("SKILL_RUNNER_SEAL_GRACE_SECONDS", "0")]) else { return };
    let run = service.create("tiny");
    service.ended(&run);
    let log = format!("data/runs/{run}/logs/events.jsonl");
    let sealed = renamed_to(&log);
    let calls = until(&service.watch, |calls| {
        let at = calls.iter().position(&sealed);
        at.is_some_and(|at| calls[at..].iter().any(writes_database))
    });
    let deletion = first(&calls, first(&calls, 0, &sealed), writes_database);
    assert_eq!(not_durable(&calls[..deletion], &log), []);
}

#[test]
fn a_skill_is_replaced_by_one_exchange_between_syncs_of_everything_it_needs() {
    let place = Place::new();
    let Some(service) = Watched::serve(&place, &[]) else { return };
    let install = |version: &str| {
        let folder = tempfile::tempdir().unwrap();
        script_skill(folder.path(), "demo", "echo {}\n", json!({"runner": {"version": version}}));
        let zip = zip_folder(&folder.path().join("demo"));
        let path = "/v1/skill-packages/install?wait=60";
        let answer = Call::new(service.address, "POST", path).parts(&[("file", &zip)]).send();
        assert_eq!((answer.status, &answer.json()["status"]), (202, &json!("succeeded")), "{}", answer.text());
        service.watch.take()
    };
    let touches = |call: &FileCall| call.path == "skills/demo" || call.to.as_deref() == Some("skills/demo");

    let calls = install("1.0.0");
    let placed = first(&calls, 0, renamed_to("skills/demo"));
    assert_eq!(calls.iter().filter(|call| touches(call)).count(), 1);
    check_install(&calls, placed);

    let calls = install("2.0.0");
    // At no moment is there no skill.
    let touching: Vec<Deed> = calls.iter().filter(|call| touches(call)).map(|call| call.deed).collect();
    assert_eq!(touching, [Deed::Exchange]);
    let exchanged = first(&calls, 0, renamed_to("skills/demo"));
    check_install(&calls, exchanged);
    let aside = first(&calls, exchanged, renamed_to("skills/.archive/demo/1.0.0"));
    assert_eq!(not_durable(&calls[..aside], "skills/demo"), [], "the exchange, before the old one is moved");
    let recorded = first(&calls, aside, |call| call.path.starts_with("data/"));
    assert_eq!(not_durable(&calls[..recorded], "skills/.archive"), []);
}

#[test]
fn a_rollback_is_one_exchange_with_the_archive_and_an_uninstallation_one_rename_after_its_plan() {
    let place = Place::new();
    for version in ["1.0.0", "2.0.0"] {
        let at = if version == "2.0.0" { "skills" } else { "archived" };
        script_skill(&place.path().join(at), "demo", "echo {}\n", json!({"runner": {"version": version}}));
    }
    std::fs::create_dir_all(place.path().join("skills/.archive/demo")).unwrap();
    let archived = place.path().join("skills/.archive/demo/1.0.0");
    std::fs::rename(place.path().join("archived/demo"), archived).unwrap();
    let Some(service) = Watched::serve(&place, &[]) else { return };
    let touching = |calls: &[FileCall]| -> Vec<Deed> {
        let touches = |call: &&FileCall| call.path == "skills/demo" || call.to.as_deref() == Some("skills/demo");
        calls.iter().filter(touches).map(|call| call.deed).collect()
    };
    let planned = |calls: &[FileCall], moved: usize| {
        let plan = first(calls, 0, |call| call.to.as_deref().is_some_and(|to| to.ends_with("/plan.json")));
        let staging = calls[plan].to.as_deref().unwrap().rsplit_once('/').unwrap().0;
        assert!(plan < moved);
        assert_eq!(not_durable(&calls[..moved], staging), []);
    };

    let call = Call::new(service.address, "POST", "/v1/skills/demo/rollback").json(&json!({"version": "1.0.0"}));
    assert_eq!(call.send().status, 200);
    let calls = service.watch.take();
    // At no moment is there no skill.
    assert_eq!(touching(&calls), [Deed::Exchange]);
    let exchanged = first(&calls, 0, renamed_to("skills/demo"));
    planned(&calls, exchanged);
    let aside = first(&calls, exchanged, renamed_to("skills/.archive/demo/2.0.0"));
    assert_eq!(not_durable(&calls[..aside], "skills/demo"), [], "the exchange, before the old one is moved");
    let recorded = first(&calls, aside, |call| call.path.starts_with("data/"));
    assert_eq!(not_durable(&calls[..recorded], "skills/.archive"), []);

    assert_eq!(Call::new(service.address, "DELETE", "/v1/skills/demo").send().status, 200);
    let calls = service.watch.take();
    assert_eq!(touching(&calls), [Deed::Rename]);
    let archived = first(&calls, 0, renamed_to("skills/.archive/demo/1.0.0"));
    planned(&calls, archived);
    let recorded = first(&calls, archived, |call| call.path.starts_with("data/"));
    assert_eq!(not_durable(&calls[..recorded], "skills/.archive"), []);
}

/// The package and its plan are durable before the package is put in its place, and its place before the outcome is on record.
fn check_install(calls: &[FileCall], placed: usize) {
    let staging = calls[placed].path.rsplit_once('/').unwrap().0;
    assert!(first(calls, 0, renamed_to(&format!("{staging}/plan.json"))) < placed);
    assert_eq!(not_durable(&calls[..placed], staging), []);
    let recorded = first(calls, placed, |call| call.path.starts_with("data/"));
    assert_eq!(not_durable(&calls[..recorded], "skills/demo"), []);
}

/// What is in the file has been on the disk since before it had this name, and the name is on the disk, too.
fn is_replaced_durably(calls: &[FileCall], path: &str) {
    let renamed = first(calls, 0, renamed_to(path));
    let content = ("content", calls[renamed].path.clone());
    assert!(calls[..renamed].iter().any(|call| call.deed == Deed::Write && call.path == content.1), "{calls:#?}");
    assert!(!not_durable(&calls[..renamed], "data").contains(&content), "{path}: {calls:#?}");
    assert_eq!(not_durable(calls, path), [], "{path}");
}

#[test]
fn a_token_and_a_session_are_on_the_disk_before_they_are_told_and_the_older_ones_until_then() {
    let place = Place::new();
    let mut command = place.command(&["token", "new", "ann", "--scope", "read"]);
    let Some((watch, child)) = Watch::spawn(place.path(), &mut command) else { return };
    assert!(child.wait_with_output().unwrap().status.success());
    is_replaced_durably(&watch.take(), "data/tokens.json");

    let Some(service) = Watched::serve(&place, &[("SKILL_RUNNER_TOKEN", "t0ken")]) else { return };
    service.watch.take();
    let call =
        Call::new(service.address, "POST", "/ui/session").header("origin", &format!("http://{}", service.address));
    let answer = call.json(&json!({"token": "t0ken"})).send();
    assert_eq!(answer.status, 200, "{}", answer.text());
    is_replaced_durably(&service.watch.take(), "data/sessions.json");
}

/// A program that poses as codex, puts a refreshed login in the place of the old one and fails.
const REFRESHES: &str = r#"#!/bin/sh
[ "$1" = --version ] && { echo codex-cli 0.166.0; exit; }
cd "$CODEX_HOME"
echo '{"tokens":{"access_token":"new"}}' > new
mv new auth.json
exit 1
"#;

#[test]
fn a_login_that_an_engine_refreshed_is_on_the_disk_before_it_replaces_that_of_the_operator() {
    let place = Place::new();
    pose::skill(&place.path().join("skills"), "ask", None);
    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join("codex");
    fs::write(&program, REFRESHES).unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    let login = "data/agent-home/codex/.codex/auth.json";
    let operators = place.path().join(login);
    fs::create_dir_all(operators.parent().unwrap()).unwrap();
    fs::write(&operators, r#"{"tokens":{"access_token":"old"}}"#).unwrap();
    let Some(service) = Watched::serve(&place, &[("SKILL_RUNNER_CODEX_BIN", program.to_str().unwrap())]) else {
        return;
    };
    let body = json!({"skill_id": "ask", "engine": "codex", "runtime_options": {"execution_mode": "interactive"}});
    let answer = Call::new(service.address, "POST", "/v1/jobs").json(&body).send();
    assert_eq!(answer.status, 201, "{}", answer.text());
    assert_eq!(service.ended(answer.json()["run_id"].as_str().unwrap())["status"], "failed");
    assert_eq!(fs::read_to_string(&operators).unwrap(), "{\"tokens\":{\"access_token\":\"new\"}}\n");
    is_replaced_durably(&service.watch.take(), login);
}
