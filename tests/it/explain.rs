//! Explanations: from a field of the result to the bytes it came from.

use std::fs;
use std::path::Path;

use serde_json::{Value, json};

use crate::cli::place::Place;
use crate::export::Feed;
use crate::support::Server;
use crate::support::skill::{GATED, HELLO};

fn explained(server: &Server, run: &str, path: &str) -> Value {
    let answer = server.get(&format!("/v1/jobs/{run}/explain?path={path}"));
    assert_eq!(answer.status, 200, "{}", answer.text());
    let explanation = answer.json();
    assert_eq!(server.get(&format!("/v1/management/runs/{run}/explain?path={path}")).json(), explanation);
    explanation
}

/// The bytes of a run's file that a place names.
fn bytes(server: &Server, run: &str, file: &str, place: &Value) -> String {
    let file = fs::read(server.run_dir(run).join(file)).unwrap();
    let at = |name: &str| usize::try_from(place[name].as_u64().unwrap()).unwrap();
    String::from_utf8(file[at("byte_from")..at("byte_to")].to_vec()).unwrap()
}

#[test]
fn a_field_of_a_scripts_answer_leads_to_its_own_bytes_on_standard_output() {
    let server = Server::start();
    server.skill(
        "hello",
        "cat >/dev/null\necho '{\"success\":true,\"data\":{\"a\":[1,{\"b~/\":\"x y\"}]}}'\n",
        json!({}),
    );
    let (_, run) = server.finished("hello");
    let found = explained(&server, &run, "/data/a/1/b~0~1");
    assert_eq!((&found["value"], &found["path"]), (&json!("x y"), &json!("/data/a/1/b~0~1")));
    let origin = &found["origin"];
    assert_eq!(
        (&origin["kind"], &origin["precision"], &origin["type"]),
        (&json!("stream"), &json!("field"), &json!("raw.stdout"))
    );
    assert_eq!(bytes(&server, &run, "logs/stdout.txt", origin), "\"x y\"");
    assert_eq!(bytes(&server, &run, "result/result.json", &found["result"]), "\"x y\"");
    let validation = &found["validation"];
    assert_eq!(
        (&validation["level"], &validation["source"], &validation["valid"]),
        (&json!("none"), &json!("stdout"), &json!(true))
    );
    let steps: Vec<&Value> = validation["steps"].as_array().unwrap().iter().map(|step| &step["step"]).collect();
    assert_eq!(steps, ["as_is", "validate"]);
    let events = server.get(&format!("/v1/jobs/{run}/events/history")).json();
    let of = |seq: &Value| events["events"][usize::try_from(seq.as_u64().unwrap()).unwrap() - 1].clone();
    assert_eq!(of(&origin["seq"])["type"], "raw.stdout");
    assert_eq!(of(&validation["seq"])["type"], "output.normalized");
}

#[test]
fn an_answer_among_prose_is_found_and_one_that_was_repaired_leads_to_its_event() {
    let server = Server::start();
    let answers = |tail: &str| {
        format!(
            "cat >/dev/null\ncat <<'E'\nHere it is:\n```json\n{{\"success\":true,\"data\":{{\"n\":7}}{tail}}}\n```\nE\n"
        )
    };
    server.skill("fenced", &answers(""), json!({}));
    server.skill("repaired", &answers(","), json!({}));
    let (_, run) = server.finished("fenced");
    let found = explained(&server, &run, "/data/n");
    assert_eq!(found["validation"]["level"], "N0");
    assert_eq!(bytes(&server, &run, "logs/stdout.txt", &found["origin"]), "7");
    let (_, run) = server.finished("repaired");
    let found = explained(&server, &run, "/data/n");
    // The data itself was not repaired, only what stands around it.
    assert_eq!(
        (found["validation"]["level"].as_str(), found["origin"]["precision"].as_str()),
        (Some("N0"), Some("field"))
    );
    server.skill("inside", &answers("").replace("\"n\":7", "\"n\":7,"), json!({}));
    let (_, run) = server.finished("inside");
    let origin = &explained(&server, &run, "/data/n")["origin"];
    assert_eq!((&origin["precision"], &origin["type"]), (&json!("event"), &json!("raw.stdout")));
    assert!(bytes(&server, &run, "logs/stdout.txt", origin).contains("\"n\":7,"));
}

#[test]
fn a_field_of_a_result_file_leads_to_that_file_as_the_skill_wrote_it() {
    let server = Server::start();
    let script =
        "cat >/dev/null\nprintf '\\n{ \"n\" : 1.50 }' > result/result.json\necho '{\"success\":true,\"data\":{}}'\n";
    server.skill("writes", script, json!({}));
    let (_, run) = server.finished("writes");
    let found = explained(&server, &run, "/data/n");
    assert_eq!(found["validation"]["source"], "result_file");
    let expected =
        json!({"kind": "file", "precision": "field", "file": "raw/skill_result.json", "byte_from": 9, "byte_to": 13});
    assert_eq!(found["origin"], expected);
    assert_eq!(bytes(&server, &run, "raw/skill_result.json", &found["origin"]), "1.50");
}

#[test]
fn what_an_assistant_said_leads_to_the_escaped_bytes_of_its_message() {
    let place = Place::new();
    let compat = Path::new(env!("CARGO_MANIFEST_DIR")).join("replay/compat");
    for (case, path, value, raw, kind, source) in [
        (
            "interactive-reply",
            "/data/tags/1",
            "bé",
            "\\\"b\\\\u00e9\\\"",
            "assistant.message.final",
            "assistant_message",
        ),
        (
            "cli-engine",
            "/data/artifact",
            "artifacts/notes.md",
            "\\\"artifacts/notes.md\\\"",
            "assistant.message.final",
            "assistant_message",
        ),
        ("cli-engine-structured", "/data/artifact", "x", "\"x\"", "usage.reported", "structured_output"),
    ] {
        let golden: Value = serde_json::from_slice(&fs::read(compat.join(case).join("job.json")).unwrap()).unwrap();
        let run = golden["run_id"].as_str().unwrap();
        let feed = Feed::start(&place, &[compat.join(case).join("run.zip").to_str().unwrap(), "--speed", "max"]);
        feed.events(run, "", &[]).rest();
        let found = feed.get(&format!("/v1/jobs/{run}/explain?path={path}")).json();
        assert_eq!((&found["value"], &found["validation"]["source"]), (&json!(value), &json!(source)), "{found}");
        let origin = &found["origin"];
        assert_eq!((&origin["type"], &origin["precision"]), (&json!(kind), &json!("field")), "{found}");
        let (from, to) = (&origin["byte_from"], &origin["byte_to"]);
        let range = format!("/v1/jobs/{run}/logs/range?stream=stdout&byte_from={from}&byte_to={to}");
        let range = feed.get(&range).json();
        assert_eq!((&range["content"], &range["events"]), (&json!(raw), &json!([origin["seq"]])), "{case}");
    }
}

#[test]
fn a_field_that_the_skills_normalizer_wrote_leads_to_its_file_and_its_step() {
    let server = Server::start();
    let script = "cat >/dev/null\necho '{\"success\":true,\"data\":{\"n\":\"one\"}}'\n";
    let normalizer = r#"sh -c 'echo "{\"n\": 1}" > result/result.json' step"#;
    let output = json!({"type": "object", "required": ["n"], "properties": {"n": {"type": "integer"}}});
    let writes = format!("printf '{{\"n\":\"two\"}}' > result/result.json\n{script}");
    for (id, script, file) in
        [("alone", script, "raw/skill_result.json"), ("beside", writes.as_str(), "raw/skill_result.N1.json")]
    {
        let runner = json!({"normalizer": {"command": normalizer}});
        server.skill(id, script, json!({"output": output, "runner": runner}));
        let (_, run) = server.finished(id);
        let found = explained(&server, &run, "/data/n");
        assert_eq!((&found["value"], &found["validation"]["level"]), (&json!(1), &json!("N1")), "{found}");
        let steps = found["validation"]["steps"].as_array().unwrap();
        assert!(steps.iter().any(|step| step["step"] == "normalizer" && step["ok"] == true), "{found}");
        let origin = json!({"kind": "file", "precision": "field", "file": file, "byte_from": 6, "byte_to": 7});
        assert_eq!(found["origin"], origin);
    }
}

#[test]
fn a_field_of_a_result_that_was_taken_names_the_run_it_was_taken_from() {
    let server = Server::start();
    server.skill("hello", HELLO, json!({}));
    let (_, first) = server.finished("hello");
    let (_, second) = server.finished("hello");
    let origin = &explained(&server, &second, "/data/greeting")["origin"];
    assert_eq!((&origin["kind"], &origin["source_run_id"]), (&json!("run"), &json!(first)));
    assert_eq!(explained(&server, &first, "/data/greeting")["origin"]["kind"], "stream");
}

#[test]
fn a_wrong_path_a_missing_field_and_a_run_under_way_are_told_apart() {
    let server = Server::start();
    server.skill("gated", GATED, json!({}));
    server.skill("fails", "cat >/dev/null\nexit 3\n", json!({}));
    let (_, run) = server.create("gated");
    server.wait_for(&run, "raw.stderr", "ready");
    let asked = |run: &str, query: &str| server.get(&format!("/v1/jobs/{run}/explain{query}")).refusal();
    assert_eq!(asked(&run, "?path=/data"), (409, "RESULT_NOT_READY".to_owned()));
    server.open_gate(&run, "go");
    server.finish(&run);
    for wrong in ["?path=data", "?path=/data/~2", "?path=/status", "?path=", "?path=/data&x=1"] {
        assert_eq!(asked(&run, wrong), (400, "INVALID_REQUEST".to_owned()), "{wrong}");
    }
    let whole = explained(&server, &run, "/data");
    assert_eq!(server.get(&format!("/v1/jobs/{run}/explain")).json(), whole, "without a path it is the whole result");
    for missing in ["?path=/data/none", "?path=/data/line/0"] {
        assert_eq!(asked(&run, missing), (404, "FIELD_NOT_FOUND".to_owned()), "{missing}");
    }
    let (_, failed) = server.finished("fails");
    assert_eq!(asked(&failed, "?path=/data"), (404, "FIELD_NOT_FOUND".to_owned()));
    assert_eq!(asked("0192f0c1-2d3e-7f40-8a51-6b7c8d9e0f11", "?path=/data"), (404, "REQUEST_NOT_FOUND".to_owned()));
}

#[test]
fn the_command_tells_the_same_with_and_without_a_service() {
    let place = Place::new();
    let run = place.finished_run();
    let args = ["explain", &run, "--path", "/data/greeting", "--json"];
    let alone = place.run(&args);
    assert_eq!(alone.code, Some(0), "{alone:?}");
    assert_eq!(alone.json()["value"], "hi");
    let told = place.run(&["explain", &run, "--path", "/data/greeting"]);
    assert!(told.stdout.starts_with("/data/greeting = \"hi\"\nvalidated at event "), "{told:?}");
    assert!(told.stdout.contains("the exact bytes of the field"), "{told:?}");
    let missing = place.run(&["explain", &run, "--path", "/data/ä b"]);
    assert_eq!(missing.code, Some(4));
    assert!(missing.stderr.contains("FIELD_NOT_FOUND"), "{missing:?}");
    let (_service, _) = place.start(&["serve", "--port", "0"], "listening on ");
    assert_eq!(place.run(&args).stdout, alone.stdout);
    assert!(place.run(&["explain", &run, "--path", "/data/ä b"]).stderr.contains("FIELD_NOT_FOUND"));
}

/// Why a run failed, as the API, its twins and the command line tell it.
fn failure(server: &Server, run: &str) -> Value {
    let told = server.get(&format!("/v1/jobs/{run}/explain"));
    assert_eq!(told.status, 200, "{}", told.text());
    assert_eq!(server.get(&format!("/v1/management/runs/{run}/explain")).json(), told.json());
    told.json()
}

#[test]
fn an_output_that_breaks_its_schema_is_explained_with_every_violation_and_its_bytes() {
    let server = Server::start();
    let output = json!({"type": "object", "required": ["n", "name"], "properties": {
        "n": {"type": "integer"}, "list": {"type": "array", "items": {"type": "string"}}, "name": {"type": "string"},
    }});
    let script = "cat >/dev/null\necho thinking >&2\n\
        echo '{\"success\":true,\"action\":\"run\",\"data\":{\"n\":\"three\",\"list\":[\"a\",7]}}'\n";
    server.skill("wrong", script, json!({"output": output}));
    let (_, run) = server.finished("wrong");
    let told = failure(&server, &run);
    assert_eq!((&told["status"], &told["code"]), (&json!("failed"), &json!("SCHEMA_VALIDATION_FAILED")));
    let decided = &told["decided_by"];
    assert_eq!(decided["type"], "output.normalized");
    let events = server.get(&format!("/v1/jobs/{run}/events/history")).json();
    let at = usize::try_from(decided["seq"].as_u64().unwrap()).unwrap() - 1;
    assert_eq!(
        (&events["events"][at]["type"], &events["events"][at]["data"]["valid"]),
        (&decided["type"], &json!(false))
    );
    let mut found: Vec<(String, Value, String)> = told["violations"]
        .as_array()
        .unwrap()
        .iter()
        .map(|violation| {
            assert_eq!(violation["origin"]["precision"], "field", "{violation}");
            let bytes = bytes(&server, &run, "logs/stdout.txt", &violation["origin"]);
            (violation["path"].as_str().unwrap().to_owned(), violation["value"].clone(), bytes)
        })
        .collect();
    found.sort_by(|one, other| one.0.cmp(&other.0));
    let whole = json!({"n": "three", "list": ["a", 7]});
    assert_eq!(
        found,
        [
            (String::new(), whole, "{\"n\":\"three\",\"list\":[\"a\",7]}".to_owned()),
            ("/list/1".to_owned(), json!(7), "7".to_owned()),
            ("/n".to_owned(), json!("three"), "\"three\"".to_owned()),
        ]
    );
    assert_eq!(told["stderr_tail"], "thinking\n");
    let request = told["request_id"].as_str().unwrap();
    let next = format!(
        "change what the skill writes at these places, or its output schema; GET /v1/jobs/{request}/logs shows the whole output"
    );
    assert_eq!(told["next"], json!(next));
    assert_eq!(server.get(&format!("/v1/jobs/{request}/logs")).status, 200);
}

#[test]
fn a_result_file_that_breaks_its_schema_leads_to_its_own_bytes() {
    let server = Server::start();
    let output = json!({"type": "object", "properties": {"n": {"type": "integer"}}});
    let script = "cat >/dev/null\nmkdir -p result\nprintf ' {\"n\": \"x\"}' >result/result.json\n\
        echo '{\"success\":true,\"action\":\"run\",\"data\":{}}'\n";
    server.skill("wrong", script, json!({"output": output}));
    let (_, run) = server.finished("wrong");
    let told = failure(&server, &run);
    let violation = &told["violations"][0];
    assert_eq!((&violation["path"], &violation["value"]), (&json!("/n"), &json!("x")), "{told}");
    let origin = &violation["origin"];
    assert_eq!((&origin["kind"], &origin["precision"]), (&json!("file"), &json!("field")));
    assert_eq!(bytes(&server, &run, origin["file"].as_str().unwrap(), origin), "\"x\"");
}

#[test]
fn a_canceled_run_leads_to_the_event_that_asked_for_it() {
    let server = Server::start();
    server.skill("gated", GATED, json!({}));
    let (_, run) = server.create("gated");
    server.wait_for(&run, "raw.stderr", "ready");
    assert_eq!(server.post(&format!("/v1/jobs/{run}/cancel"), &json!({})).status, 200);
    server.finish(&run);
    let told = failure(&server, &run);
    assert_eq!((&told["status"], &told["code"]), (&json!("canceled"), &json!("CANCELED_BY_USER")));
    assert_eq!((&told["decided_by"]["type"], &told["violations"]), (&json!("run.cancel.requested"), &json!([])));
}
