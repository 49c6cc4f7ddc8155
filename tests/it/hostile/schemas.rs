//! Values that a schema would check without end are refused, as input and as output, while the service answers on.

use std::time::Instant;

use serde_json::{Value, json};

use crate::support::{LONG, Server};

/// A schema with two ways from each level of a value to the next.
fn doubling() -> Value {
    json!({"type": "object", "properties": {"tail": {"allOf": [{"$ref": "#/%24defs/level"}, {"$ref": "#/%24defs/level"}]}},
        "$defs": {"level": {"properties": {"tail": {"allOf": [{"$ref": "#/$defs/%6cevel"}, {"$ref": "#/$defs/%6cevel"}]}}}}})
}

fn deep() -> Value {
    (0..60).fold(json!({}), |tail, _| json!({"tail": tail}))
}

#[test]
fn an_input_that_is_checked_without_end_is_refused_and_nobody_waits() {
    let server = Server::start();
    let mut input = doubling();
    input["properties"]["tail"]["x-input-source"] = json!("inline");
    server.skill("costly", "cat >/dev/null", json!({"input": input, "parameter": doubling()}));
    let began = Instant::now();
    std::thread::scope(|scope| {
        for field in ["input", "parameter", "input", "parameter", "input", "parameter"] {
            let server = &server;
            scope.spawn(move || {
                let refused = server.post("/v1/jobs", &json!({"skill_id": "costly", field: deep()}));
                assert_eq!(refused.refusal(), (400, "SCHEMA_TOO_COSTLY".into()), "{field}: {}", refused.text());
            });
        }
        assert_eq!(server.get("/healthz").status, 200);
    });
    assert!(began.elapsed() < LONG, "{:?}", began.elapsed());
}

#[test]
fn an_output_that_is_checked_without_end_fails_its_run() {
    let server = Server::start();
    let answer = json!({"success": true, "action": "run", "data": deep()});
    server.skill("costly", &format!("cat >/dev/null\necho '{answer}'\n"), json!({"output": doubling()}));
    let (request, _) = server.finished("costly");
    let job = server.get(&format!("/v1/jobs/{request}")).json();
    assert_eq!((&job["status"], &job["error"]["code"]), (&json!("failed"), &json!("SCHEMA_TOO_COSTLY")), "{job}");
    // A shallow answer of the same skill is no burden.
    let answer = json!({"success": true, "action": "run", "data": {"tail": {"tail": {}}}});
    server.skill("shallow", &format!("cat >/dev/null\necho '{answer}'\n"), json!({"output": doubling()}));
    let (request, _) = server.finished("shallow");
    assert_eq!(server.get(&format!("/v1/jobs/{request}")).json()["status"], "succeeded");
}
