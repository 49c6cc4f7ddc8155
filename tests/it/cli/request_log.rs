//! The service's log of its requests: each line carries the id of its request, and the run that the request names.

use std::fs;
use std::net::SocketAddr;

use rustix::process::Signal;
use serde_json::json;

use super::place::Place;
use crate::support::client::{Answer, Call};

const NOBODY: &str = "0192f3c1-8a54-7cc2-b0a1-d2f8a6c1e9b7";

/// Asks a real service with this log level; the answers to four requests, the run they are about, and the log file.
fn served(place: &Place, level: &str) -> (Vec<Answer>, String, String) {
    let (service, line) = place.start(&["serve", "--port", "0", "--log-level", level], "listening on ");
    let address: SocketAddr = line.strip_prefix("listening on http://").unwrap().parse().unwrap();
    let call = |method: &str, path: &str, id: &str| Call::new(address, method, path).header("x-request-id", id);
    let created = call("POST", "/v1/jobs?wait=30", "first").json(&json!({"skill_id": "tiny"})).send();
    let run = created.json()["run_id"].as_str().unwrap().to_owned();
    fs::remove_file(place.run_folder(&run).join("result/result.json")).unwrap();
    let answers = vec![
        created,
        call("GET", &format!("/v1/jobs/{run}/result"), "broken").send(),
        call("GET", &format!("/v1/jobs/{NOBODY}"), "not one word").send(),
        call("GET", "/v1/nothing", "nowhere").send(),
    ];
    service.signal(Signal::TERM);
    assert_eq!(service.end().code, Some(0));
    (answers, run, fs::read_to_string(place.path().join("data/logs/skill-runner.log")).unwrap())
}

#[track_caller]
fn line<'a>(log: &'a str, parts: &[&str]) -> &'a str {
    let found = log.lines().find(|line| parts.iter().all(|part| line.contains(part)));
    found.unwrap_or_else(|| panic!("no line has {parts:?}:\n{log}"))
}

#[test]
fn each_request_is_logged_with_its_id_route_run_status_and_duration() {
    let place = Place::new();
    let (answers, run, log) = served(&place, "DEBUG");
    let ids: Vec<&str> = answers.iter().map(|answer| answer.header("x-request-id")).collect();
    assert_eq!((ids[0], ids[1], ids[3]), ("first", "broken", "nowhere"));
    assert_eq!(ids[2].parse::<uuid::Uuid>().unwrap().get_version_num(), 7, "an id with spaces is replaced");
    assert_eq!(answers.iter().map(|answer| answer.status).collect::<Vec<_>>(), [201, 500, 404, 404]);

    let run = format!("run.id={run}");
    let route = "http.method=GET http.route=\"/v1/jobs/{id}/result\"";
    line(&log, &["DEBUG", "http.request_id=\"first\"", "http.method=POST", &run, "status=201 duration_ms="]);
    let log_id = answers[1].json()["error"]["details"]["log_id"].as_str().unwrap().to_owned();
    line(&log, &["ERROR", "http.request_id=\"broken\"", route, &run, "status=500", &log_id, "result.json"]);
    line(&log, &["DEBUG", &format!("http.request_id=\"{}\"", ids[2]), "http.route=\"/v1/jobs/{id}\"", "status=404"]);
    line(&log, &["DEBUG", "http.request_id=\"nowhere\"", "http.route=\"none\"", "status=404"]);
}

#[test]
fn a_higher_log_level_leaves_out_lines_but_not_their_ids() {
    let place = Place::new();
    let (_, run, log) = served(&place, "WARN");
    line(&log, &["ERROR", "http.request_id=\"broken\"", &format!("run.id={run}"), "status=500"]);
    assert!(!log.contains("first") && !log.contains("nowhere"), "{log}");
}
