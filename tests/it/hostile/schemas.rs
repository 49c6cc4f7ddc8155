//! Values that a schema would check without end are refused, as input and as output, while the service answers on.

use std::time::Instant;

use serde_json::{Value, json};

use crate::interactive::pose::Pose;
use crate::interactive::service::Service;
use crate::support::{LONG, Server, script_skill};

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

/// Short texts of numbers that are long when written out, many numbers that differ beyond floats, and violations that would each
/// hold a long path: small requests that took minutes on the threads of the service, or all its memory.
#[test]
fn numbers_and_names_that_are_larger_than_they_look_stop_nobody() {
    let server = Server::start();
    let properties = json!({
        "numbers": {"items": {"type": "number", "minimum": 0}},
        "different": {"uniqueItems": true},
        "lists": {"additionalProperties": {"items": {"type": "string"}}},
    });
    server.skill("usual", "cat >/dev/null", json!({"parameter": {"type": "object", "properties": properties}}));
    let list = |count: usize, item: &dyn Fn(usize) -> String| (0..count).map(item).collect::<Vec<_>>().join(",");
    let numbers = format!(r#""numbers":[{}]"#, list(2500, &|_| "1e-9990".into()));
    let different = format!(r#""different":[{}]"#, list(10_000, &|number| format!("1{number:040}")));
    let lists = format!(r#""lists":{{"{}":[{}]}}"#, "n".repeat(200_000), list(50_000, &|_| "1".into()));
    let ask = |parameter: &str| {
        let body = format!(r#"{{"skill_id":"usual","parameter":{{{parameter}}}}}"#);
        server.call("POST", "/v1/jobs").body("application/json", body).send()
    };
    let began = Instant::now();
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| assert_eq!(ask(&numbers).refusal(), (400, "SCHEMA_TOO_COSTLY".into())));
        }
        assert_eq!(server.get("/healthz").status, 200);
    });
    assert_eq!(ask(&different).status, 201);
    let refused = ask(&lists);
    assert_eq!(refused.refusal(), (400, "PARAMETER_VALIDATION_FAILED".into()));
    assert!(refused.text().contains("is not searched for the places"), "{}", refused.text());
    assert!(began.elapsed() < LONG, "{:?}", began.elapsed());
}

/// A text of random letters makes patterns like these remember something new at nearly every byte, in each thread.
#[test]
fn patterns_keep_little_of_what_they_matched_however_many_ask_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let patterns = |behind: &str| {
        let pattern = |number: usize| format!("[ab]*a[ab]{{12}}[^ab]|{number}{behind}");
        let text =
            json!({"allOf": (0..70).map(|number| json!({"not": {"pattern": pattern(number)}})).collect::<Vec<_>>()});
        json!({"type": "object", "properties": {"text": text}})
    };
    let skills = folder.path().join("skills");
    script_skill(&skills, "linear", "cat >/dev/null", json!({"parameter": patterns("")}));
    let service = Service::start(folder.path(), &Pose::new());
    let memory = || {
        let status = std::fs::read_to_string(format!("/proc/{}/status", service.pid())).unwrap();
        let resident = status.lines().find_map(|line| line.strip_prefix("VmRSS:")?.strip_suffix("kB")).unwrap();
        resident.trim().parse::<u64>().unwrap() / 1024
    };
    let ask = |text: String| {
        let created = service.post("/v1/jobs", &json!({"skill_id": "linear", "parameter": {"text": text}}));
        assert_eq!(created.status, 201, "{}", created.text());
    };
    ask("a".into());
    let before = memory();
    std::thread::scope(|scope| {
        for seed in 1..=16_u32 {
            scope.spawn(move || {
                let letters = (0..2000_u32).scan(seed, |state, _| {
                    *state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                    Some(if *state >> 31 == 0 { 'a' } else { 'b' })
                });
                ask(letters.collect());
            });
        }
    });
    // Without limits it was 70 MiB and more for each of the four that are checked at once.
    assert!(memory() - before < 100, "{} MiB", memory() - before);
}
