//! What becomes of the shipped skills' runs: each way to end, seen in its log, its job and its files.

use serde_json::{Value, json};

use crate::support::{SHIPPED, Server};

fn types(events: &[Value]) -> Vec<&str> {
    events.iter().map(|event| event["type"].as_str().unwrap()).collect()
}

/// Create a run and see it end; its events, and its result.
fn ended(server: &Server, request: &Value) -> (Vec<Value>, Value) {
    let (_, run) = server.create_with(request);
    let events = server.finish(&run);
    assert!(!server.data().join("tmp").join(&run).exists(), "the run's temporary folder is gone");
    (events, server.get(&format!("/v1/jobs/{run}/result")).json()["result"].take())
}

#[test]
fn a_trivial_run_succeeds_with_its_whole_story_in_the_log() {
    let server = Server::with(&[SHIPPED]);
    let (events, result) = ended(&server, &json!({"skill_id": "demo-echo", "input": {"text": "hello"}}));
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
    let data = json!({"text": "hello", "length": 5, "normalized": false, "warnings": []});
    let expected =
        json!({"status": "succeeded", "data": data, "artifacts": [], "validation_warnings": [], "error": null});
    assert_eq!(result, expected);
}

#[test]
fn each_failure_worth_showing_ends_with_its_code() {
    let server = Server::with(&[SHIPPED]);
    for (skill, code) in [
        ("demo-fail-code", "DEMO_REFUSED"),
        ("demo-fail-schema", "SCHEMA_VALIDATION_FAILED"),
        ("demo-fail-artifact", "ARTIFACT_MISSING"),
        ("demo-fail-exit", "ENGINE_FAILED"),
    ] {
        let (_, result) = ended(&server, &json!({"skill_id": skill}));
        assert_eq!((&result["status"], &result["error"]["code"]), (&json!("failed"), &json!(code)));
    }
}

#[test]
fn a_hanging_script_is_ended_by_the_wall_clock_and_by_the_stall_clock() {
    let server = Server::with(&[SHIPPED]);
    for (options, code) in [
        (json!({"hard_timeout_seconds": 1, "stall_timeout_seconds": 0}), "TIMEOUT"),
        (json!({"stall_timeout_seconds": 4}), "STALLED"),
    ] {
        let (_, result) = ended(&server, &json!({"skill_id": "demo-hang", "runtime_options": options}));
        assert_eq!(result["error"]["code"], code, "{result}");
        let details = &result["error"]["details"];
        let hangs = |process: &serde_json::Value| process["command"].as_str().is_some_and(|it| it.contains("run.py"));
        let told = details["processes"].as_array();
        let told = told.is_some_and(|tree| tree.iter().any(|it| hangs(it) && it["state"].as_str() != Some("")));
        assert!(told && details["last_output"].is_string(), "it tells what its processes were doing: {result}");
    }
}

#[test]
fn a_stall_tells_its_process_tree_whom_it_was_connected_to_and_what_it_said_last() {
    let server = Server::start();
    // Both ends are the script's own: the sandbox of a run has a loopback of its own.
    let sh = "cat >/dev/null\nsleep 1000 &\nexec python3 -c 'import socket, sys\n\
        model = socket.create_server((\"127.0.0.1\", 0))\nlink = socket.create_connection(model.getsockname())\n\
        print(\"asking the model\", file=sys.stderr, flush=True)\nlink.recv(1)'\n";
    server.skill("asks-and-hangs", sh, json!({}));
    let (_, result) =
        ended(&server, &json!({"skill_id": "asks-and-hangs", "runtime_options": {"stall_timeout_seconds": 8}}));
    let details = &result["error"]["details"];
    assert_eq!((&result["error"]["code"], &details["last_output"]), (&json!("STALLED"), &json!("asking the model\n")));
    let found = |program: &str| {
        let tree = details["processes"].as_array().unwrap();
        tree.iter().find(|it| it["command"].as_str().unwrap().contains(program)).unwrap().clone()
    };
    let (engine, child) = (found("create_connection"), found("sleep 1000"));
    assert_eq!((&child["parent"], &child["sockets"]), (&engine["pid"], &json!([])), "{details}");
    assert_eq!((&engine["state"], &child["state"]), (&json!("S (sleeping)"), &json!("S (sleeping)")));
    let sockets: Vec<&str> = engine["sockets"].as_array().unwrap().iter().map(|it| it.as_str().unwrap()).collect();
    let listens = sockets.iter().find_map(|it| it.strip_prefix("tcp ")?.strip_suffix(" listening"));
    let peer = listens.unwrap_or_else(|| panic!("{sockets:?}"));
    let to_peer = |it: &&str| it.starts_with("tcp 127.0.0.1:") && it.ends_with(&format!(" -> {peer} established"));
    assert_eq!(sockets.iter().filter(|it| to_peer(it)).count(), 1, "{sockets:?}");
}

#[test]
fn what_an_unlogged_start_left_behind_is_not_taken_for_the_runs_own() {
    let flags = [SHIPPED, ("restart_queued", "requeue"), ("max_running_jobs", "1")];
    let server = Server::with(&flags);
    server.create("demo-hang");
    let (_, waits) = server.create_with(&json!({"skill_id": "demo-echo", "input": {"text": "x"}}));
    // As a service leaves it that is killed after the engine started and before its event was durable.
    let run = server.run_dir(&waits);
    std::fs::create_dir_all(run.join("logs")).unwrap();
    std::fs::write(run.join("logs/stdout.txt"), "half an answer").unwrap();
    std::fs::create_dir_all(run.join("artifacts")).unwrap();
    std::fs::write(run.join("artifacts/stale.txt"), "x").unwrap();
    let server = server.restarted(&flags);
    server.finish(&waits);
    let result = server.get(&format!("/v1/jobs/{waits}/result")).json()["result"].take();
    assert_eq!((&result["status"], &result["artifacts"]), (&json!("succeeded"), &json!([])), "{result}");
}
