//! The REST API: each route's good path, compared whole.

mod access;
mod cancel;
mod connections;
pub mod create;
mod crowds;
mod files;
mod finding;
mod history;
mod legacy;
mod login;
mod looking;
mod origins;
mod refusals;
mod revoked;
mod room;
mod routes;
pub mod users;

use std::sync::Arc;

use serde_json::{Value, json};

use crate::recording::held_store::HeldStore;
use crate::support::Server;
use crate::support::skill::{GATED, HELLO};

/// A value without the members that differ from run to run, which are checked to be there.
fn without(mut value: Value, members: &[&str]) -> Value {
    for member in members {
        assert!(value.as_object_mut().unwrap().remove(*member).is_some(), "{member} is missing in {value}");
    }
    value
}

#[test]
fn a_job_tells_all_about_its_run() {
    let server = Server::start();
    server.skill("hello", HELLO, json!({}));
    let (request, run) = server.create("hello");
    let events = server.finish(&run);
    let job = server.get(&format!("/v1/jobs/{request}"));
    assert_eq!(job.status, 200);
    assert_eq!(server.get(&format!("/v1/jobs/{run}")).body, job.body, "both ids name it");
    let job = job.json();
    assert_eq!(job["created_at"], events[0]["ts"]);
    assert_eq!(job["updated_at"], events.last().unwrap()["ts"]);
    assert_eq!(
        without(job, &["created_at", "updated_at", "engine_version", "isolation"]),
        json!({
            "request_id": request, "run_id": run, "status": "succeeded",
            "skill_id": "hello", "skill_version": "1.2.3", "engine": "script", "model": null, "effort": null,
            "engine_options": {}, "integrity": null, "execution_mode": "auto", "attempt": 1, "retries": 0, "retry_at": null, "head_seq": events.len(), "awaiting_upload": false,
            "cache_hit": false, "pending_interaction_id": null, "interaction_count": 0,
            "recovery_state": "none", "recovered_at": null, "recovery_reason": null,
            "auto_decision_count": 0, "last_auto_decision_at": null, "warnings": [], "error": null,
            "usage": {"input_tokens": 0, "cached_input_tokens": 0, "output_tokens": 0, "cost_usd": null},
            "queue_position": null, "awaiting_files": [], "labels": {},
        })
    );
}

#[test]
fn a_job_at_a_seq_is_the_fold_of_the_events_up_to_it() {
    let server = Server::start();
    server.skill("hello", HELLO, json!({}));
    let (request, run) = server.finished("hello");
    let head = server.get(&format!("/v1/jobs/{run}")).json()["head_seq"].as_u64().unwrap();
    let mut status = "queued".to_owned();
    let history = server.get(&format!("/v1/jobs/{run}/events/history")).json();
    for event in history["events"].as_array().unwrap() {
        let seq = event["seq"].as_u64().unwrap();
        if event["type"] == "conversation.state.changed" {
            status = event["data"]["to"].as_str().unwrap().to_owned();
        }
        let job = server.get(&format!("/v1/jobs/{request}?at_seq={seq}")).json();
        assert_eq!(
            (&job["status"], &job["head_seq"], &job["updated_at"], &job["attempt"]),
            (&json!(status), &json!(seq), &event["ts"], &event["meta"]["attempt"]),
        );
    }
    let at_head = server.get(&format!("/v1/jobs/{request}?at_seq={head}"));
    assert_eq!(at_head.body, server.get(&format!("/v1/jobs/{request}")).body);
    for beyond in [0, head + 1, u64::MAX] {
        let answer = server.get(&format!("/v1/jobs/{request}?at_seq={beyond}"));
        assert_eq!(answer.refusal(), (400, "SEQ_OUT_OF_RANGE".into()));
        assert_eq!(answer.json()["error"]["details"], json!({"head_seq": head}));
    }
}

#[test]
fn a_result_is_there_at_the_end_and_not_before() {
    let server = Server::start();
    server.skill("gated", GATED, json!({}));
    let (request, run) = server.create("gated");
    server.wait_for(&run, "raw.stderr", "ready");
    let early = server.get(&format!("/v1/jobs/{request}/result"));
    assert_eq!(early.refusal(), (409, "RESULT_NOT_READY".into()));
    assert_eq!(early.json()["error"]["request_id"], json!(request));
    server.open_gate(&run, "good morning");
    server.finish(&run);
    let result = server.get(&format!("/v1/jobs/{request}/result"));
    assert_eq!(
        result.json(),
        json!({"request_id": request, "result": {
            "status": "succeeded", "data": {"line": "good morning"}, "artifacts": [],
            "validation_warnings": [], "error": null,
        }})
    );
}

#[test]
fn a_failed_run_is_a_result_too() {
    let server = Server::start();
    let sh = "echo '{\"success\":false,\"action\":\"run\",\"error\":{\"code\":\"DATA_NOT_FOUND\",\"message\":\"no\"}}'\nexit 3\n";
    server.skill("failing", sh, json!({}));
    let (request, _) = server.finished("failing");
    let answer = server.get(&format!("/v1/jobs/{request}/result"));
    let error = json!({"code": "DATA_NOT_FOUND", "message": "no", "details": {}});
    let expected = json!({
        "status": "failed", "data": null, "artifacts": [], "validation_warnings": [], "error": error,
    });
    assert_eq!((answer.status, &answer.json()["result"]), (200, &expected));
    assert_eq!(server.get(&format!("/v1/jobs/{request}")).json()["error"], error);
}

#[test]
fn logs_are_the_texts_the_engine_wrote() {
    let server = Server::start();
    server.skill("noisy", "printf 'caf\\303 \\303\\251' >&2\necho '{\"success\":true,\"data\":{}}'\n", json!({}));
    let (request, _) = server.finished("noisy");
    assert_eq!(
        server.get(&format!("/v1/jobs/{request}/logs")).json(),
        json!({
            "request_id": request, "prompt": "", "stdout": "{\"success\":true,\"data\":{}}\n",
            "stderr": "caf\u{fffd} é", "truncated": [],
        })
    );
}

#[test]
fn of_a_huge_log_the_end_is_shown_and_said_to_be_the_end() {
    let server = Server::start();
    let sh = "head -c 9000000 /dev/zero | tr '\\0' x >&2\necho end >&2\necho '{\"success\":true,\"data\":{}}'\n";
    server.skill("huge", sh, json!({}));
    let (request, _) = server.finished("huge");
    let logs = server.get(&format!("/v1/jobs/{request}/logs")).json();
    let stderr = logs["stderr"].as_str().unwrap();
    assert_eq!((stderr.len(), stderr.ends_with("xend\n")), (8 << 20, true));
    assert_eq!(logs["truncated"], json!(["stderr"]));
}

#[test]
fn a_range_of_a_log_comes_with_the_events_that_stand_on_it() {
    let server = Server::start();
    server.skill("hello", HELLO, json!({}));
    let (request, run) = server.create("hello");
    let events = server.finish(&run);
    let range = |query: &str| server.get(&format!("/v1/jobs/{request}/logs/range?{query}"));
    let whole = std::fs::read_to_string(server.run_dir(&run).join("logs/stderr.txt")).unwrap();
    let on = |stream: &str, from: u64, to: u64| -> Vec<Value> {
        let overlaps = |event: &&Value| {
            let raw = &event["raw_ref"];
            raw["stream"] == stream
                && raw["byte_from"].as_u64() < Some(to)
                && raw["byte_to"].as_u64() > Some(from)
                && from < to
        };
        events.iter().filter(overlaps).map(|event| event["seq"].clone()).collect()
    };
    assert_eq!(on("stderr", 0, u64::MAX).len(), 2, "a progress line and a note");
    let expected = |from: u64, to: u64| {
        json!({
            "stream": "stderr", "byte_from": from, "byte_to": to, "content": whole[from as usize..to as usize],
            "encoding": "utf-8", "total_bytes": whole.len(), "events": on("stderr", from, to),
        })
    };
    let end = whole.len() as u64;
    assert_eq!(range("stream=stderr").json(), expected(0, end));
    assert_eq!(range("stream=stderr&byte_from=2&byte_to=4").json(), expected(2, 4));
    assert_eq!(range("stream=stderr&byte_from=3&byte_to=99999").json(), expected(3, end));
    assert_eq!(range("stream=stderr&byte_from=5&byte_to=5").json(), expected(5, 5));
    assert_eq!(range(&format!("stream=stderr&byte_from={end}")).json(), expected(end, end));
    assert_eq!(range("stream=pty").json()["total_bytes"], 0);
    let beyond = range(&format!("stream=stderr&byte_from={}", end + 1));
    assert_eq!(beyond.refusal(), (416, "RANGE_NOT_SATISFIABLE".into()));
    for wrong in ["stream=stderr&byte_from=5&byte_to=4", "", "stream=logs", "stream=stderr&byte_from=-1"] {
        assert_eq!(range(wrong).refusal(), (400, "INVALID_REQUEST".into()), "{wrong}");
    }
}

#[test]
fn runs_are_listed_newest_first_in_pages() {
    let server = Server::start();
    server.skill("hello", HELLO, json!({}));
    server.skill("other", "exit 1\n", json!({}));
    let mut runs: Vec<String> = Vec::new();
    for skill in ["hello", "other", "hello", "other", "hello"] {
        runs.push(server.finished(skill).1);
    }
    runs.reverse();
    let list = |query: &str| server.get(&format!("/v1/jobs{query}")).json();
    let ids = |list: &Value| -> Vec<String> {
        list["jobs"].as_array().unwrap().iter().map(|job| job["run_id"].as_str().unwrap().to_owned()).collect()
    };
    let all = list("");
    assert_eq!((ids(&all), &all["next_before"]), (runs.clone(), &Value::Null));
    assert_eq!(all["jobs"][0], server.get(&format!("/v1/jobs/{}", runs[0])).json());
    assert_eq!(ids(&list("?skill_id=other")), [runs[1].clone(), runs[3].clone()]);
    assert_eq!(ids(&list("?status=succeeded&engine=script")), [&runs[0], &runs[2], &runs[4]].map(String::clone));
    assert_eq!(ids(&list("?engine=codex")), Vec::<String>::new());
    let mut paged = Vec::new();
    let mut query = "?limit=2".to_owned();
    loop {
        let page = list(&query);
        assert!(ids(&page).len() <= 2);
        paged.extend(ids(&page));
        let Some(before) = page["next_before"].as_str() else { break };
        query = format!("?limit=2&before={before}");
    }
    assert_eq!(paged, runs);
    for wrong in
        ["?status=done", "?limit=0", "?limit=501", "?limit=x", "?before=yesterday", "?colour=red", "?limit=1&limit=2"]
    {
        assert_eq!(server.get(&format!("/v1/jobs{wrong}")).refusal(), (400, "INVALID_REQUEST".into()), "{wrong}");
    }
}

#[test]
fn cleanup_deletes_final_runs_and_nothing_else() {
    let server = Server::start();
    server.skill("hello", HELLO, json!({}));
    server.skill("gated", GATED, json!({}));
    let old = server.finished("hello").1;
    let (_, kept) = server.create_with(&json!({"skill_id": "hello", "runtime_options": {"no_cache": true}}));
    server.finish(&kept);
    let (_, live) = server.create("gated");
    server.wait_for(&live, "raw.stderr", "ready");
    let nothing = server.post("/v1/jobs/cleanup", &json!({"older_than_sec": 3600})).json();
    let none = json!({"runs_deleted": 0, "requests_deleted": 0, "cache_entries_deleted": 0, "bytes_freed": 0, "environments_deleted": 0});
    assert_eq!(nothing, none);
    let cleaned = server.post("/v1/jobs/cleanup", &json!({"older_than_sec": 0, "keep_last": 1})).json();
    assert!(cleaned["bytes_freed"].as_u64().unwrap() > 0, "{cleaned}");
    assert_eq!(
        without(cleaned, &["bytes_freed"]),
        json!({"runs_deleted": 1, "requests_deleted": 1, "cache_entries_deleted": 1, "environments_deleted": 0})
    );
    assert_eq!(server.get(&format!("/v1/jobs/{old}")).refusal(), (404, "REQUEST_NOT_FOUND".into()));
    assert!(!server.run_dir(&old).exists());
    assert_eq!(server.get(&format!("/v1/jobs/{kept}")).status, 200);
    // Without a body, every run that has ended.
    let cleaned = server.call("POST", "/v1/jobs/cleanup").send();
    assert_eq!((cleaned.status, &cleaned.json()["runs_deleted"]), (200, &json!(1)), "{}", cleaned.text());
    server.open_gate(&live, "on");
    server.finish(&live);
}

#[test]
fn skills_are_listed_with_the_reasons_why_some_folders_are_none() {
    let server = Server::start();
    server.skill(
        "hello",
        HELLO,
        json!({"input": {"type": "object", "properties": {
        "paper": {"type": "string"}, "note": {"type": "string", "x-input-source": "inline"},
    }, "required": ["paper"]}}),
    );
    std::fs::create_dir(server.folder.path().join("skills/broken")).unwrap();
    let list = server.get("/v1/skills").json();
    let summary = json!({
        "id": "hello", "version": "1.2.3", "name": "hello", "description": "A test skill.", "type": "script",
        "engines": ["script"], "execution_modes": ["auto"], "warnings": [],
    });
    assert_eq!(list["skills"], json!([summary]));
    assert_eq!(list["invalid"][0]["folder"], "broken");
    assert!(!list["invalid"][0]["findings"].as_array().unwrap().is_empty());

    let one = server.get("/v1/skills/hello").json();
    for (key, value) in summary.as_object().unwrap() {
        assert_eq!(one[key], *value);
    }
    assert_eq!(one["file_inputs"], json!([{"name": "paper", "required": true}]));
    assert_eq!(one["schemas"]["output"], json!({"type": "object"}));
    assert_eq!((&one["entrypoint"]["type"], &one["unsupported_engines"]), (&json!("script"), &json!([])), "{one}");
    assert!(one["entrypoint"]["script"]["command"].is_string() && one["runtime"].is_object(), "{one}");
    assert_eq!(server.get("/v1/skills/none").refusal(), (404, "SKILL_NOT_FOUND".into()));
    let broken = server.get("/v1/skills/broken");
    assert_eq!(broken.refusal(), (404, "SKILL_NOT_FOUND".into()));
    assert_eq!(broken.json()["error"]["details"]["findings"], list["invalid"][0]["findings"]);
}

#[test]
fn the_service_tells_how_it_is() {
    let mut server = Server::with(&[("max_queued_jobs", "7"), ("max_running_jobs", "3")]);
    assert_eq!(server.get("/healthz").json(), json!({"status": "ok"}));
    assert_eq!(server.get("/readyz").json(), json!({"status": "ready"}));
    let system = server.get("/v1/system").json();
    assert_eq!(system["version"], env!("CARGO_PKG_VERSION"));
    let queue = json!({"queued": 0, "running": 0, "max_queued_jobs": 7, "max_running_jobs": 3, "max_running_per_engine": 0,
        "max_running_per_skill": 0, "fair_label": null, "fair_tokens": true});
    assert_eq!(system["queue"], queue);
    assert!(system["data_dir"]["free_bytes"].as_u64().unwrap() > 0);
    assert_eq!(system["limits"]["max_upload_bytes"], 64 << 20);
    server.drain();
    assert_eq!(server.get("/readyz").refusal(), (503, "SHUTTING_DOWN".into()));
    assert_eq!(server.post("/v1/jobs", &json!({"skill_id": "x"})).refusal(), (503, "SHUTTING_DOWN".into()));
    server.stop();
    server.stopped();
}

#[test]
fn the_service_tells_what_its_store_can_no_longer_do() {
    let store = HeldStore::default();
    let server = Server::with_store(Arc::new(store.clone()));
    assert_eq!(server.get("/v1/system").json()["store"]["trouble"], json!(null));
    store.tell("the store no longer gets smaller");
    assert_eq!(server.get("/v1/system").json()["store"]["trouble"], json!("the store no longer gets smaller"));
}

#[test]
fn a_disk_below_its_floor_takes_no_new_work() {
    let server = Server::with(&[("min_free_bytes", "1000000000000")]);
    server.skill("hello", HELLO, json!({}));
    let answer = server.post("/v1/jobs", &json!({"skill_id": "hello"}));
    assert_eq!(answer.refusal(), (507, "INSUFFICIENT_STORAGE".into()));
    assert_eq!(server.left_behind(), Vec::<String>::new());
}
