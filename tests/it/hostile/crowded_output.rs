//! Engines that say very much in few words, or very much in one line: nobody else waits for what is read of them.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::interactive::pose;
use crate::support::Server;

/// How long others may wait on a machine that is busy with other things. Each of these took several times as long before.
const PATIENCE: Duration = Duration::from_secs(5);
/// Engines at once: more than the service has threads for short work.
const ENGINES: usize = 4;

/// A server whose engine says this, and what creates a run of it.
fn posing(engine: &str, says: &str) -> (tempfile::TempDir, Server, Value) {
    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join(engine);
    let script = format!("#!/bin/sh\n[ \"$1\" = --version ] && {{ echo 9.9.9; exit 0; }}\ncat > /dev/null\n{says}\n");
    fs::write(&program, script.replace("FOLDER", folder.path().to_str().unwrap())).unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    fs::write(folder.path().join("line"), line()).unwrap();
    let command = format!("engines.{engine}.command");
    let settings = [(command.as_str(), program.to_str().unwrap()), ("max_running_jobs", "4")];
    let server = Server::with(&settings);
    pose::skill(&server.folder.path().join("skills"), "posed", None);
    let body = json!({"skill_id": "posed", "engine": engine, "runtime_options": {"no_cache": true}});
    (folder, server, body)
}

/// Has several engines say this at once, and asks for something else meanwhile; the longest that took.
fn longest_wait(engine: &str, says: &str) -> Duration {
    let (_folder, server, body) = posing(engine, says);
    let runs: Vec<String> = (0..ENGINES).map(|_| server.create_with(&body).1).collect();
    let mut longest = Duration::ZERO;
    let mut status = |run: &String| {
        let began = Instant::now();
        let job = server.get(&format!("/v1/jobs/{run}")).json();
        longest = longest.max(began.elapsed());
        job["status"].clone()
    };
    while runs.iter().any(|run| !["succeeded", "failed"].map(Value::from).contains(&status(run))) {
        std::thread::yield_now();
    }
    longest
}

/// A line of claude with thousands of calls.
fn line() -> String {
    let text = "y".repeat(1500);
    let input = json!({"a": vec![0; 60], "s": text});
    let call = |number: i32| json!({"type": "tool_use", "id": format!("i{number}"), "name": "Read", "input": input});
    let blocks: Vec<Value> = (0..4000).map(call).collect();
    json!({"type": "assistant", "message": {"id": "m", "content": blocks}}).to_string() + "\n"
}

#[test]
fn engines_that_write_very_many_short_lines_to_standard_error_hold_up_nobody() {
    let longest = longest_wait("codex", "yes x | head -c 700000 >&2");
    assert!(longest < PATIENCE, "{longest:?}");
}

#[test]
fn engines_that_say_thousands_of_things_in_one_line_hold_up_nobody() {
    let longest = longest_wait("claude", "cat FOLDER/line FOLDER/line");
    assert!(longest < PATIENCE, "{longest:?}");
}

#[test]
fn a_last_line_that_says_thousands_of_things_is_encoded_in_parts() {
    let (_folder, server, body) = posing("claude", "printf %s \"$(cat FOLDER/line)\"");
    let (_, run) = server.create_with(&body);
    let events = server.finish(&run);
    let said: Vec<&Value> = events.iter().filter(|event| event["type"] == "assistant.tool_call").collect();
    // What is encoded in one go has one time.
    let mut times: Vec<&Value> = said.iter().map(|event| &event["ts"]).collect();
    times.dedup();
    assert!(said.len() == 4000 && times.len() > 4, "{} events, {} times", said.len(), times.len());
}

#[test]
fn a_script_whose_few_bytes_become_a_huge_log_meets_the_limit_of_disk_space() {
    let server = Server::with(&[("limits.disk_bytes", "2000000")]);
    server.skill("counts", "cat > /dev/null\nexec yes 1% >&2\n", json!({}));
    let (_, run) = server.create("counts");
    // Not by its events, which are very many.
    let mut job = server.get(&format!("/v1/jobs/{run}")).json();
    while ["queued", "running"].map(Value::from).contains(&job["status"]) {
        job = server.get(&format!("/v1/jobs/{run}")).json();
    }
    let error = &job["error"];
    assert_eq!(
        (&error["code"], &error["details"]["limit"]),
        (&json!("RESOURCE_LIMIT_EXCEEDED"), &json!("disk_bytes")),
        "{job}"
    );
}

#[test]
fn of_too_many_labels_the_answer_is_short() {
    let server = Server::start();
    server.skill("any", "cat > /dev/null\n", json!({}));
    let labels: serde_json::Map<String, Value> =
        (0..5000).map(|number| (format!("!{number}"), json!("\u{1}"))).collect();
    let refused = server.post("/v1/jobs", &json!({"skill_id": "any", "labels": labels}));
    let told = refused.json();
    assert_eq!((refused.status, &told["error"]["code"]), (400, &json!("INVALID_REQUEST")));
    let expected = json!([{"path": "/labels", "message": "must not have more than 16 labels"}]);
    assert_eq!(told["error"]["details"], expected);
    let asked = "&label=a:b".repeat(17);
    assert_eq!(server.get(&format!("/v1/jobs?limit=1{asked}")).status, 400);
    assert_eq!(server.get(&format!("/v1/jobs?limit=1{}", &asked[10..])).status, 200);
}
