//! The service's logs: as text or JSON, rotated, and a line for each request in a file of their own.

use std::fs;
use std::net::SocketAddr;

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::cli::place::Place;
use crate::support::Call;

/// Asks a service with these settings four times and ends it; its two logs.
fn served(place: &Place, settings: &[(&str, &str)]) -> (String, String) {
    let mut command = place.command(&["serve", "--port", "0"]);
    command.envs(settings.iter().copied());
    let (service, line) = Place::started(command, "listening on ");
    let address: SocketAddr = line.strip_prefix("listening on http://").unwrap().parse().unwrap();
    let call = |method: &str, path: &str, id: &str| Call::new(address, method, path).header("x-request-id", id);
    let created = call("POST", "/v1/jobs?wait=30", "one").json(&json!({"skill_id": "tiny"})).send();
    assert_eq!(created.status, 201);
    assert_eq!(call("GET", "/v1/nothing?token=secret", "two").send().status, 404);
    service.signal(Signal::TERM);
    assert_eq!(service.end().code, Some(0));
    let read = |name: &str| fs::read_to_string(place.path().join("data/logs").join(name)).unwrap_or_default();
    (read("skill-runner.log"), read("access.log"))
}

#[test]
fn each_request_has_a_line_in_the_access_log_without_its_query() {
    let place = Place::new();
    let (log, access) = served(&place, &[]);
    let lines: Vec<&str> = access.lines().collect();
    assert_eq!(lines.len(), 2, "{access}");
    for (line, parts) in lines.iter().zip([
        ["method=\"POST\" path=\"/v1/jobs\" status=201", "bytes=\"", "by=\"-\" request_id=\"one\""],
        ["method=\"GET\" path=\"/v1/nothing\" status=404", "duration_ms=", "request_id=\"two\""],
    ]) {
        assert!(parts.iter().all(|part| line.contains(part)), "{line}");
    }
    assert!(!access.contains("secret"), "{access}");
    assert!(log.contains("run ended") && !log.contains("path=\"/v1/nothing\""), "{log}");
}

#[test]
fn logs_are_json_if_that_is_asked_for() {
    let place = Place::new();
    let (log, access) = served(&place, &[("SKILL_RUNNER_LOG_FORMAT", "json")]);
    let read = |text: &str| text.lines().map(|line| serde_json::from_str(line).unwrap()).collect::<Vec<Value>>();
    let lines = read(&log);
    let ended = lines.iter().find(|line| line["message"] == "run ended").unwrap();
    assert_eq!((&ended["level"], &ended["status"]), (&json!("INFO"), &json!("succeeded")), "{ended}");
    assert!(ended["timestamp"].is_string() && ended["run.id"].is_string());
    let access = read(&access);
    let of = |line: &Value| (line["method"].clone(), line["path"].clone(), line["status"].clone());
    assert_eq!(of(&access[0]), (json!("POST"), json!("/v1/jobs"), json!(201)));
    assert_eq!(of(&access[1]), (json!("GET"), json!("/v1/nothing"), json!(404)));
}

#[test]
fn the_access_log_can_be_switched_off_and_is_rotated_like_the_other() {
    let place = Place::new();
    let (_, access) = served(&place, &[("SKILL_RUNNER_ACCESS_LOG", "off")]);
    assert_eq!(access, "");
    let place = Place::new();
    let mut command = place.command(&["serve", "--port", "0"]);
    command.env("LOG_MAX_BYTES", "1024").env("LOG_BACKUP_COUNT", "2").env("SKILL_RUNNER_KEEP_DAYS", "9");
    let (mut service, line) = Place::started(command, "listening on ");
    assert!(service.next_line().starts_with("data: "));
    assert_eq!(service.next_line(), "retention: ended runs are deleted after 9 days\n");
    let address: SocketAddr = line.strip_prefix("listening on http://").unwrap().parse().unwrap();
    for _ in 0..40 {
        assert_eq!(Call::new(address, "GET", "/healthz").send().status, 200);
    }
    service.signal(Signal::TERM);
    assert_eq!(service.end().code, Some(0));
    let kept: Vec<String> = place.folders("data/logs").into_iter().filter(|name| name.starts_with("access")).collect();
    assert_eq!(kept, ["access.log", "access.log.1", "access.log.2"]);
    for name in kept {
        let length = fs::metadata(place.path().join("data/logs").join(&name)).unwrap().len();
        assert!(length <= 1024, "{name} has {length} bytes");
    }
}
