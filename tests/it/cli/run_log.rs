//! The service's log of its runs: creation, start and end of each, with both its ids.

use std::fs;
use std::net::SocketAddr;

use rustix::process::Signal;
use serde_json::json;

use super::place::Place;
use crate::support::client::Call;

/// Runs a skill twice, of which the second takes the first one's result; both jobs, and the lines of the log file.
fn served(place: &Place, level: &str) -> (Vec<(String, String)>, Vec<String>) {
    let (service, line) = place.start(&["serve", "--port", "0", "--log-level", level], "listening on ");
    let address: SocketAddr = line.strip_prefix("listening on http://").unwrap().parse().unwrap();
    let create = || {
        let body = json!({"skill_id": "tiny"});
        let created = Call::new(address, "POST", "/v1/jobs?wait=30").json(&body).send().json();
        assert_eq!(created["status"], "succeeded");
        let id = |name: &str| created[name].as_str().unwrap().to_owned();
        (id("run_id"), id("request_id"))
    };
    let jobs = vec![create(), create()];
    service.signal(Signal::TERM);
    assert_eq!(service.end().code, Some(0));
    let log = fs::read_to_string(place.path().join("data/logs/skill-runner.log")).unwrap();
    (jobs, log.lines().map(str::to_owned).collect())
}

/// What is said of a run at one level, in order, without what belongs to requests.
fn said<'a>(lines: &'a [String], level: &str, run: &str) -> Vec<&'a str> {
    let of_run = lines.iter().filter(|line| line.contains(level) && line.contains(&format!("run.id={run}")));
    let messages = ["run created", "run started", "run ended", "decided"];
    of_run.filter_map(|line| messages.into_iter().find(|message| line.contains(message))).collect()
}

#[test]
fn each_run_leaves_its_creation_its_start_and_its_end_with_both_ids() {
    let place = Place::new();
    let (jobs, lines) = served(&place, "INFO");
    let [(first, request), (second, _)] = jobs.as_slice() else { panic!("{jobs:?}") };
    assert_eq!(said(&lines, "INFO", first), ["run created", "run started", "run ended"]);
    assert_eq!(said(&lines, "INFO", second), ["run created", "run ended"], "the second takes the first one's result");
    let of_first: Vec<&String> = lines.iter().filter(|line| line.contains(first.as_str())).collect();
    assert!(of_first.iter().all(|line| line.contains(&format!("request.id={request}"))), "{of_first:#?}");
    let start = of_first.iter().find(|line| line.contains("run started")).unwrap();
    assert_eq!(start.matches("request.id=").count(), 1, "{start}");
    let end = of_first.iter().find(|line| line.contains("run ended")).unwrap();
    assert!(end.contains("status=\"succeeded\" code=\"none\" duration_ms="), "{end}");
}

#[test]
fn decisions_are_logged_at_debug() {
    let place = Place::new();
    let (jobs, lines) = served(&place, "DEBUG");
    let decided: Vec<&str> = lines
        .iter()
        .filter(|line| line.contains(&format!("run.id={}", jobs[0].0)) && line.contains("decided"))
        .filter_map(|line| line.split("command=\"").nth(1)?.split('"').next())
        .collect();
    assert_eq!((decided.first(), decided.last()), (Some(&"create"), Some(&"end_turn")), "{lines:#?}");
    assert!(decided.contains(&"start_turn"), "{decided:?}");
}
