//! A model's service that refuses: what is told of it, how long is waited, and when a turn is begun again.

use serde_json::{Value, json};

use super::contract::service;
use super::on_every_cli;
use super::service::{Service, of_type, writes_notes};
use crate::support::model_server::{ModelServer, Reply};
use crate::support::{Call, clis, sandbox};

on_every_cli!(
    a_refused_key_is_told_and_too_many_requests_are_tried_again_in_a_new_attempt_and_session,
    a_service_that_cannot_be_reached_is_tried_again_later,
    a_service_whose_name_nobody_knows_is_tried_again_later,
);

/// Keeps a port on which nobody listens from others.
fn kept_port(address: std::net::SocketAddr) -> std::os::fd::OwnedFd {
    use rustix::net::{AddressFamily, SocketType, bind, socket, sockopt};
    let socket = socket(AddressFamily::INET, SocketType::STREAM, None).unwrap();
    sockopt::set_socket_reuseaddr(&socket, true).unwrap();
    bind(&socket, &address).unwrap();
    socket
}

/// A body for the skill `say`; its runs are equal but for what the model says.
fn say(retry: &Value) -> Value {
    json!({"skill_id": "say", "runtime_options": {"no_cache": true, "retry": retry}})
}

fn once() -> Value {
    json!({"times": 1, "backoff_seconds": 0})
}

/// The run waits to be begun again; why.
fn scheduled(service: &Service, run: &str) -> Value {
    let mut events = service.events(run);
    let found = std::iter::from_fn(|| events.next_chat()).find(|event| event["type"] == "run.retry.scheduled");
    found.unwrap_or_else(|| panic!("{:#}", service.get(&format!("/v1/jobs/{run}"))))["data"].clone()
}

/// The job of a finished run with its events.
fn finished(service: &Service, run: &str) -> (Value, Vec<Value>) {
    let events = service.finish(run);
    (service.get(&format!("/v1/jobs/{run}")), events)
}

fn a_refused_key_is_told_and_too_many_requests_are_tried_again_in_a_new_attempt_and_session(name: &str) {
    let mut service = service(name);
    let run = service.start(&[Reply::Refuse(401)], say(&once()));
    let (job, events) = finished(&service, &run);
    let told = (&job["status"], &job["error"]["code"], &job["retries"]);
    assert_eq!(told, (&json!("failed"), &json!("ENGINE_AUTH_REQUIRED"), &json!(0)), "{job:#}\n{events:#?}");
    // The engine's words are told once, however often it repeats them.
    let errors = of_type(&events, "diagnostic.warning").filter(|event| event["data"]["code"] == "ENGINE_ERROR");
    assert_eq!(errors.count(), 1, "{events:#?}");

    let run = service.start(&[Reply::Refuse(429)], say(&once()));
    let why = scheduled(&service, &run);
    assert_eq!((&why["retry"], &why["error"]["code"]), (&json!(1), &json!("ENGINE_RATE_LIMITED")), "{why:#}");
    service.model.script(&[Reply::Result(json!({"name": "Ann"}))]);
    let (job, events) = finished(&service, &run);
    let told = (&job["status"], &job["attempt"], &job["retries"], &job["retry_at"]);
    assert_eq!(told, (&json!("succeeded"), &json!(2), &json!(1), &Value::Null), "{job:#}\n{events:#?}");
    let turns: Vec<&Value> = of_type(&events, "turn.started").map(|event| &event["data"]["resumed_from"]).collect();
    assert_eq!(turns, [&Value::Null; 2], "{events:#?}");
    let mut sessions: Vec<&Value> = of_type(&events, "session.bound").map(|event| &event["data"]["handle"]).collect();
    let bound = sessions.len();
    sessions.dedup();
    assert_eq!(sessions.len(), bound, "each attempt has a session of its own");
    service.close();
}

fn a_service_that_cannot_be_reached_is_tried_again_later(name: &str) {
    let mut service = service(name);
    // Nobody listens any more where the CLI looks for its model, and no other test gets that port meanwhile.
    let before = service.model.address;
    service.model = ModelServer::start();
    let _kept = kept_port(before);
    let run = service.start(&[], say(&json!({"times": 1, "backoff_seconds": 3600})));
    let why = scheduled(&service, &run);
    let told = (&why["error"]["code"], &why["error"]["details"]["cause"]);
    assert_eq!(told, (&json!("ENGINE_FAILED"), &json!("connection")), "{why:#}");
    let canceled = Call::new(service.address, "POST", &format!("/v1/jobs/{run}/cancel")).json(&json!({})).send();
    assert_eq!(canceled.status, 200, "{}", canceled.text());
    service.close();
}

/// By its name it is reached through the runner's proxy, whose answers are not the model's. Some CLIs try for minutes, so both at once.
fn a_service_whose_name_nobody_knows_is_tried_again_later(name: &str) {
    std::thread::scope(|threads| {
        for scheme in ["http", "https"] {
            threads.spawn(move || a_name_that_nobody_knows_is_tried_again_later(name, scheme));
        }
    });
}

fn a_name_that_nobody_knows_is_tried_again_later(name: &str, scheme: &str) {
    let mut service = Service::told_of(&format!("{scheme}://model.invalid:8443"), name);
    crate::interactive::pose::skill(&service.skills(), "say", None);
    let run = service.start(&[], say(&json!({"times": 1, "backoff_seconds": 3600})));
    let why = scheduled(&service, &run);
    let (code, details) = (&why["error"]["code"], &why["error"]["details"]);
    let told = [code, &details["cause"], &details["http_status"]];
    assert_eq!(told, [&json!("ENGINE_FAILED"), &json!("connection"), &Value::Null], "{scheme} {why:#}");
    if sandbox::works() {
        assert_eq!(details["host"], "model.invalid:8443", "{scheme} {why:#}");
    }
    let canceled = Call::new(service.address, "POST", &format!("/v1/jobs/{run}/cancel")).json(&json!({})).send();
    assert_eq!(canceled.status, 200, "{}", canceled.text());
    service.close();
}

/// Its model is in a cloud whose address the runner does not know, and the skill asks for no other host.
#[test]
fn a_host_that_claude_may_not_reach_is_named_and_no_login_is_asked_for() {
    const NAME: &str = "real_clis::refused::a_host_that_claude_may_not_reach_is_named_and_no_login_is_asked_for";
    if clis::left_out(NAME) || sandbox::left_out(NAME) {
        return;
    }
    let cloud = [
        ("CLAUDE_CODE_USE_BEDROCK", "1"),
        ("AWS_REGION", "us-east-1"),
        ("AWS_ACCESS_KEY_ID", "dummy-id"),
        ("AWS_SECRET_ACCESS_KEY", "dummy-secret-0123456789"),
    ];
    let passed = cloud.map(|(name, _)| name).join(",");
    let mut variables = cloud.to_vec();
    variables.push(("SKILL_RUNNER_ENGINES_CLAUDE_ENV_PASS", &passed));
    let mut service = Service::set("claude", &variables);
    crate::interactive::pose::skill(&service.skills(), "say", None);
    let runner = service.skills().join("say/assets/runner.json");
    let mut manifest: Value = serde_json::from_slice(&std::fs::read(&runner).unwrap()).unwrap();
    manifest["automation"] = json!({"network": "off"});
    std::fs::write(&runner, manifest.to_string()).unwrap();
    let run = service.start(&[], say(&once()));
    let (job, events) = finished(&service, &run);
    let error = &job["error"];
    let told = [&error["code"], &error["details"]["cause"], &job["retries"]];
    assert_eq!(told, [&json!("ENGINE_FAILED"), &Value::Null, &json!(0)], "{job:#}\n{events:#?}");
    let host = error["details"]["host"].as_str().unwrap_or_else(|| panic!("{error:#}"));
    assert_eq!(host, "bedrock-runtime.us-east-1.amazonaws.com:443");
    let expected = format!("claude did not reach {host}: it is not among the hosts that this run may reach");
    assert!(error["message"].as_str().unwrap().starts_with(&expected), "{error:#}");
    service.close();
}

/// A run whose service asks to wait for so long ends at once, with the time to try again.
fn ends_at_once(service: Service, seconds: u64) {
    ends_at_once_within(service, seconds, &Value::Null);
}

/// The same of a run with this limit on its time.
fn ends_at_once_within(mut service: Service, seconds: u64, hard_timeout_seconds: &Value) {
    crate::interactive::pose::skill(&service.skills(), "say", None);
    let mut body = say(&Value::Null);
    body["runtime_options"]["hard_timeout_seconds"] = hard_timeout_seconds.clone();
    let run = service.start(&[Reply::RefuseFor(seconds)], body);
    let (job, events) = finished(&service, &run);
    let error = &job["error"];
    assert_eq!((&job["status"], &error["code"]), (&json!("failed"), &json!("ENGINE_RATE_LIMITED")), "{events:#?}");
    let asked = error["details"]["retry_after_seconds"].as_u64().unwrap_or_else(|| panic!("{error:#}"));
    assert!((seconds - seconds / 10..=seconds).contains(&asked), "{error:#}");
    let last = events.last().unwrap()["ts"].as_str().unwrap();
    assert!(error["details"]["retry_at"].as_str().unwrap() > last, "{error:#}");
    service.close();
}

#[test]
fn a_long_wait_of_codex_ends_the_run_at_once_with_the_time_to_try_again() {
    if !clis::left_out("real_clis::refused::a_long_wait_of_codex_ends_the_run_at_once_with_the_time_to_try_again") {
        ends_at_once(Service::with("codex"), 3600);
    }
}

/// A wait of more than a minute makes claude give up by itself, at once and without the time.
#[test]
fn a_wait_of_claude_beyond_the_setting_ends_the_run_at_once_with_the_time_to_try_again() {
    const NAME: &str =
        "real_clis::refused::a_wait_of_claude_beyond_the_setting_ends_the_run_at_once_with_the_time_to_try_again";
    if clis::left_out(NAME) {
        return;
    }
    ends_at_once(Service::set("claude", &[("SKILL_RUNNER_RATE_LIMIT_WAIT_SECONDS", "5")]), 30);
    let mut service = service("claude");
    let run = service.start(&[Reply::RefuseFor(3600)], say(&Value::Null));
    assert_eq!(finished(&service, &run).0["error"]["code"], "ENGINE_RATE_LIMITED");
    service.close();
}

/// The setting allows both waits; what is left of the run's time does not.
#[test]
fn a_wait_beyond_what_is_left_of_the_time_limit_ends_the_run_at_once_with_the_time_to_try_again() {
    const NAME: &str = "real_clis::refused::a_wait_beyond_what_is_left_of_the_time_limit_ends_the_run_at_once_with_the_time_to_try_again";
    if clis::left_out(NAME) {
        return;
    }
    let patient = [("SKILL_RUNNER_RATE_LIMIT_WAIT_SECONDS", "7200")];
    ends_at_once_within(Service::set("codex", &patient), 3600, &json!(600));
    // Claude gives up by itself if it is to wait for more than a minute.
    ends_at_once_within(Service::set("claude", &patient), 55, &json!(45));
}

#[test]
fn a_run_that_waits_to_be_begun_again_holds_no_slot_survives_kill_9_and_can_be_canceled() {
    if clis::left_out(
        "real_clis::refused::a_run_that_waits_to_be_begun_again_holds_no_slot_survives_kill_9_and_can_be_canceled",
    ) {
        return;
    }
    let mut service = Service::set("codex", &[("SKILL_RUNNER_MAX_RUNNING_JOBS", "1")]);
    crate::interactive::pose::skill(&service.skills(), "say", None);
    let run = service.start(&[Reply::RefuseFor(3600)], say(&once()));
    let why = scheduled(&service, &run);
    assert!(why["wait_seconds"].as_u64().unwrap() >= 3500, "as long as the service asks for: {why:#}");
    let other = service.start(&[Reply::Result(json!({"name": "Ann"}))], say(&Value::Null));
    assert_eq!(finished(&service, &other).0["status"], "succeeded", "the only slot is free");
    service.kill();
    service.start_again();
    let job = service.get(&format!("/v1/jobs/{run}"));
    assert_eq!((&job["status"], &job["retry_at"]), (&json!("queued"), &why["not_before"]), "{job:#}");
    let canceled = Call::new(service.address, "POST", &format!("/v1/jobs/{run}/cancel")).json(&json!({})).send();
    assert_eq!(canceled.status, 200, "{}", canceled.text());
    assert_eq!(finished(&service, &run).0["status"], "canceled");
    service.close();
}

#[test]
fn a_broken_connection_is_tried_again_unless_a_tool_was_used_before() {
    if clis::left_out("real_clis::refused::a_broken_connection_is_tried_again_unless_a_tool_was_used_before") {
        return;
    }
    let mut service = service("codex");
    let breaks = Reply::BreakOff("It is {\"name\": \"Ann\"}, and I have much more to say about her.");
    let run = service.start(std::slice::from_ref(&breaks), say(&once()));
    let why = scheduled(&service, &run);
    assert_eq!(why["error"]["details"]["cause"], "connection", "{why:#}");
    service.model.script(&[Reply::Result(json!({"name": "Ann"}))]);
    assert_eq!(finished(&service, &run).0["status"], "succeeded");

    let run = service.start(&[Reply::Shell("true".to_owned()), breaks], say(&once()));
    let (job, events) = finished(&service, &run);
    assert_eq!((&job["status"], &job["retries"]), (&json!("failed"), &json!(0)), "{job:#}");
    assert_eq!(job["error"]["code"], "ENGINE_FAILED", "{events:#?}");
    service.close();
}

#[test]
fn an_answer_of_gemini_that_breaks_off_is_the_engines_failure() {
    if clis::left_out("real_clis::refused::an_answer_of_gemini_that_breaks_off_is_the_engines_failure") {
        return;
    }
    let mut service = service("gemini");
    let words = "It is {\"name\": \"Ann\"}, and I have much more to say about her.";
    let run = service.start(&[Reply::BreakOff(words)], say(&Value::Null));
    let (job, events) = finished(&service, &run);
    assert_eq!(job["error"]["code"], "ENGINE_FAILED", "{job:#}\n{events:#?}");
    service.close();
}

#[test]
fn what_qwen_said_before_it_asks_its_model_again_does_not_count() {
    if clis::left_out("real_clis::refused::what_qwen_said_before_it_asks_its_model_again_does_not_count") {
        return;
    }
    let mut service = service("qwen");
    let words = "It is {\"name\": \"Ann\"}, and I have much more to say about her.";
    let run = service.start(&[Reply::BreakOff(words)], say(&Value::Null));
    let mut events = service.events(&run);
    let retries = |event: &Value| event["data"]["code"] == "ENGINE_RETRYING";
    let told = std::iter::from_fn(|| events.next_chat()).find(retries);
    assert!(told.is_some(), "{:#}", service.get(&format!("/v1/jobs/{run}")));
    service.model.script(&[Reply::Result(json!({"name": "Bob"}))]);
    let (job, events) = finished(&service, &run);
    assert_eq!(job["status"], "succeeded", "{job:#}\n{events:#?}");
    assert_eq!(service.get(&format!("/v1/jobs/{run}/result"))["result"]["data"], json!({"name": "Bob"}));
    service.close();
}

#[test]
fn codex_is_held_to_a_schema_with_limits_and_references() {
    if clis::left_out("real_clis::refused::codex_is_held_to_a_schema_with_limits_and_references") {
        return;
    }
    let mut service = Service::with("codex");
    let schema = json!({
        "type": "object", "additionalProperties": false, "required": ["title", "points", "artifact"],
        "properties": {
            "title": {"type": "string", "minLength": 1, "pattern": "^[A-Z]"},
            "points": {"$ref": "#/$defs/count"},
            "artifact": {"type": "string", "x-type": "artifact", "x-filename": "notes.md"},
        },
        "$defs": {"count": {"type": "integer", "minimum": 1}},
    });
    std::fs::write(service.skills().join("demo-notes/assets/output.schema.json"), schema.to_string()).unwrap();
    let result = json!({"title": "Plums", "points": 1, "artifact": "artifacts/notes.md"});
    let run = service.start_notes(&[writes_notes(), Reply::Result(result)]);
    let (job, events) = finished(&service, &run);
    assert_eq!(job["status"], "succeeded", "{job:#}\n{events:#?}");
    let handed_over = service.model.requests()[0]["text"]["format"]["schema"].clone();
    let mut expected = schema;
    for (field, note) in [("title", "minLength"), ("artifact", "x-type"), ("artifact", "x-filename")] {
        expected["properties"][field].as_object_mut().unwrap().remove(note);
    }
    assert_eq!(handed_over, expected);
    service.close();
}
