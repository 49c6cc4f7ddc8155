//! Whatever a script or an engine prints or leaves behind, its run ends, with a verdict on the run and not on the runner.

use serde_json::{Value, json};

use crate::interactive::pose::{self, Pose, done};
use crate::support::{Server, of_type};

const ANSWER: &str = r#"{"success":true,"action":"run","data":{}}"#;

/// Runs a Python script as a skill to its end; its events.
fn ended(server: &Server, id: &str, python: &str) -> Vec<Value> {
    let sh = format!("cat > /dev/null\nexec python3 - <<'END'\n{python}\nEND\n");
    server.skill(id, &sh, json!({}));
    let (_, run) = server.finished(id);
    server.finish(&run)
}

/// How a run ended: its status and the code of its error.
fn verdict(events: &[Value]) -> (Value, Value) {
    let last = &events.last().unwrap()["data"];
    (last["status"].clone(), last["error"]["code"].clone())
}

#[test]
fn bytes_that_take_more_room_in_the_log_than_in_the_stream_are_logged_like_others() {
    let server = Server::start();
    for (id, byte) in [("control", "0"), ("no-text", "255"), ("quotes", "34")] {
        let print = format!(
            "import sys\nfor stream in (sys.stderr, sys.stdout):\n    stream.buffer.write(bytes([{byte}]) * 300000)\n    stream.buffer.flush()"
        );
        let events = ended(&server, id, &print);
        assert_eq!(verdict(&events), (json!("failed"), json!("OUTPUT_MISSING")), "{id}");
        for stream in ["raw.stdout", "raw.stderr"] {
            let raw = of_type(&events, stream).len();
            assert!(raw >= 5, "{id}: {raw} events of {stream}");
        }
    }
}

#[test]
fn lines_of_an_engine_that_would_make_huge_events_are_kept_as_raw_text() {
    let pose = Pose::new();
    let server = Server::with(&[("engines.codex.command", &pose.command())]);
    pose::skill(&server.folder.path().join("skills"), "posed", None);
    // As JSON six times as long: more than a text of an event, and than a whole event, may have.
    let long = "\u{1}".repeat(40_000);
    let item = |item: Value| json!({"type": "item.completed", "item": item}).to_string();
    let call = json!({"id": "i", "type": "mcp_tool_call", "server": long, "tool": long, "arguments": {&long: 1},
        "result": {"a": long}, "status": "completed"});
    let command = json!({"id": "i", "type": "command_execution", "command": long, "aggregated_output": long,
        "exit_code": 0, "status": "completed"});
    let lines = [
        item(call.clone()),
        item(call),
        item(command.clone()),
        item(command),
        item(json!({"id": "i", "type": long, "text": "x"})),
        json!({"type": long}).to_string(),
        item(json!({"id": "i", "type": "agent_message", "text": long})),
        done(),
    ];
    pose.plays(&[lines.join("\n")]);
    let (_, run) = server.create_with(&json!({"skill_id": "posed", "engine": "codex"}));
    let events = server.finish(&run);
    assert_eq!(verdict(&events), (json!("succeeded"), Value::Null));
    assert!(of_type(&events, "raw.stdout").len() > 4);
}

#[test]
fn the_name_of_a_session_that_would_be_an_option_or_is_no_word_is_not_used() {
    let pose = Pose::new();
    let server = Server::with(&[("engines.codex.command", &pose.command())]);
    pose::skill(&server.folder.path().join("skills"), "posed", None);
    for handle in ["--dangerously-bypass-approvals-and-sandbox", "-h", "", "../../x", "a b", "a\0b", "a\nb", "é"] {
        pose.plays(&[done().replace("\"THREAD\"", &json!(handle).to_string())]);
        let options = json!({"no_cache": true});
        let (_, run) = server.create_with(&json!({"skill_id": "posed", "engine": "codex", "runtime_options": options}));
        let events = server.finish(&run);
        assert_eq!(verdict(&events), (json!("succeeded"), Value::Null), "{handle:?}");
        assert_eq!(of_type(&events, "session.bound"), Vec::<Value>::new(), "{handle:?}");
        let warned = of_type(&events, "diagnostic.warning");
        assert_eq!(warned[0]["code"], "SESSION_HANDLE_INVALID", "{handle:?}");
    }
}

#[test]
fn a_run_that_leaves_folders_with_paths_longer_than_can_be_opened_ends() {
    let server = Server::start();
    let events = ended(
        &server,
        "deep",
        &format!(
            "import os\nroot = os.getcwd()\nfor top in ['artifacts', 'result', 'raw', 'uploads', 'logs', 'bundle', 'x']:\n    \
             os.makedirs(top, exist_ok=True)\n    os.chdir(top)\n    for _ in range(60):\n        \
             os.mkdir('d' * 200)\n        os.chdir('d' * 200)\n    os.chdir(root)\nprint('{ANSWER}')"
        ),
    );
    assert_eq!(verdict(&events), (json!("succeeded"), Value::Null));
    let run = events[0]["run_id"].as_str().unwrap();
    for path in ["result", "artifacts", "bundle", "export", "explain", "logs"] {
        let answer = server.get(&format!("/v1/jobs/{run}/{path}"));
        assert_eq!(answer.status, 200, "{path}: {}", answer.text());
    }
    assert_eq!(server.call("DELETE", &format!("/v1/jobs/{run}")).send().status, 200);
    assert!(!server.run_dir(run).exists());
}
