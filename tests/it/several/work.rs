//! A run that is created, worked on, asked for and answered on different services.

use serde_json::json;

use super::{Service, Services, audited};
use crate::support::client::Call;
use crate::support::{of_type, postgres};

/// Copies its file to an artifact.
const COPY: &str = "cat >/dev/null\nmkdir -p artifacts\ncp uploads/doc* artifacts/copy.txt\necho seen >&2\n\
    echo '{\"success\":true,\"data\":{\"n\":1}}'\n";
/// Says that it began, and goes on until it is stopped.
const ENDLESS: &str = "cat >/dev/null\necho '1% begun' >&2\nsleep 600\necho '{\"success\":true,\"data\":{}}'\n";
const HELLO: &str = "cat >/dev/null\necho '{\"success\":true,\"data\":{\"hello\":1}}'\n";

#[test]
fn a_run_is_created_uploaded_worked_on_and_served_by_different_services() {
    if !postgres::installed("a run goes through several services") {
        return;
    }
    let services = Services::new();
    services.skill(
        "copy",
        COPY,
        json!({"input": {"type": "object", "properties": {"doc": {"type": "string", "x-input-source": "file"}}, "required": ["doc"]}}),
    );
    let (one, two) = (services.api("one"), services.api("two"));
    let run = one.create("copy");
    let uploaded = Call::new(two.address(), "POST", &format!("/v1/jobs/{run}/upload"))
        .files(&[("doc", "doc.txt", b"the text\n")])
        .send();
    assert_eq!(uploaded.status, 200, "{}", uploaded.text());
    let mut worker = services.worker("three");
    let events = one.finish(&run);
    assert_eq!(events.last().unwrap()["data"]["status"], "succeeded", "{events:?}");
    assert_eq!(events, two.finish(&run), "the same on each");
    // The disk of whoever did the work is a cache.
    worker.kill_9();
    std::fs::remove_dir_all(&worker.data).unwrap();
    for service in [&one, &two] {
        let artifact = service.get(&format!("/v1/jobs/{run}/artifacts/artifacts/copy.txt"));
        assert_eq!((artifact.status, artifact.text().as_str()), (200, "the text\n"));
        assert_eq!(service.get(&format!("/v1/jobs/{run}/result")).json()["result"]["data"], json!({"n": 1}));
        let range = service.get(&format!("/v1/jobs/{run}/logs/range?stream=stderr&byte_from=0&byte_to=5"));
        assert_eq!((range.status, &range.json()["content"]), (200, &json!("seen\n")), "{}", range.text());
        assert_eq!(service.get(&format!("/v1/jobs/{run}/bundle")).status, 200);
        audited(service, std::slice::from_ref(&run));
    }
}

#[test]
fn a_live_run_is_followed_read_and_canceled_on_another_service() {
    if !postgres::installed("a live run is canceled on another service") {
        return;
    }
    let services = Services::new();
    services.skill("endless", ENDLESS, json!({}));
    let (api, _worker) = (services.api("one"), services.worker("two"));
    let run = api.create("endless");
    api.follow(&run).until_chat(|event| event["type"] == "run.progress");
    let range = api.get(&format!("/v1/jobs/{run}/logs/range?stream=stderr&byte_from=0&byte_to=9"));
    assert_eq!((range.status, &range.json()["content"]), (200, &json!("1% begun\n")), "{}", range.text());
    let canceled = api.post(&format!("/v1/jobs/{run}/cancel"), &json!({}));
    assert_eq!((canceled.status, &canceled.json()["accepted"]), (200, &json!(true)), "{}", canceled.text());
    let events = api.finish(&run);
    assert_eq!(events.last().unwrap()["data"]["status"], "canceled", "{events:?}");
    let again = api.post(&format!("/v1/jobs/{run}/cancel"), &json!({}));
    assert_eq!(again.json()["accepted"], false, "{}", again.text());
    audited(&api, &[run]);
}

#[test]
fn equal_runs_of_two_services_are_carried_out_once_and_a_key_leads_to_one_run() {
    if !postgres::installed("equal runs of two services are carried out once") {
        return;
    }
    let services = Services::new();
    services.skill("hello", HELLO, json!({}));
    let (one, two) = (services.serve("one"), services.serve("two"));
    let body = json!({"skill_id": "hello"});
    let runs: Vec<String> = (0..6).map(|n| if n % 2 == 0 { &one } else { &two }.create_with(&body)).collect();
    let logs: Vec<_> = runs.iter().map(|run| one.finish(run)).collect();
    let turns = logs.iter().filter(|events| !of_type(events, "turn.started").is_empty()).count();
    assert_eq!(turns, 1, "{logs:?}");
    let keyed = |service: &super::Service| {
        let call = Call::new(service.address(), "POST", "/v1/jobs").header("Idempotency-Key", "k");
        call.json(&json!({"skill_id": "hello", "runtime_options": {"no_cache": true}})).send().json()["run_id"].clone()
    };
    assert_eq!(keyed(&one), keyed(&two));
    audited(&two, &runs);
}

#[test]
fn every_service_tells_the_queue_of_all_and_a_label_fills_it_on_none() {
    if !postgres::installed("every service tells the queue of all, and a label fills it on none") {
        return;
    }
    let mut services = Services::new();
    services.skill("hello", HELLO, json!({}));
    // Five places: a slot counts as one.
    for (variable, value) in [("FAIR_LABEL", "team"), ("MAX_QUEUED_JOBS", "4"), ("MAX_RUNNING_JOBS", "1")] {
        services.set("", &format!("SKILL_RUNNER_{variable}"), value);
    }
    let (one, two) = (services.api("one"), services.api("two"));
    let of = |team: &str| json!({"skill_id": "hello", "labels": {"team": team}, "runtime_options": {"no_cache": true}});
    for _ in 0..3 {
        one.create_with(&of("a"));
    }
    let knows = |service: &Service, runs: u64| service.get("/v1/system").json()["queue"]["queued"] == runs;
    crate::crash::until("both know the queue", || knows(&one, 3) && knows(&two, 3));
    let metrics = two.get("/metrics").text();
    assert!(metrics.lines().any(|line| line == "skill_runner_queue_length 3"), "{metrics}");
    for service in [&one, &two] {
        assert_eq!(service.post("/v1/jobs", &of("a")).refusal(), (429, "QUEUE_FULL".into()));
    }
    assert_eq!(two.post("/v1/jobs", &of("b")).status, 201);
}
