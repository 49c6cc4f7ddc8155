//! Runs recorded by earlier versions: today's audit, fold and replay take them, and say of them what was said then.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;
use skill_runner::export::{EVENTS, Export};
use skill_runner::fcmp::{LogHead, read_envelope};
use skill_runner::projection::job;

use crate::cli::place::Place;
use crate::export::{Feed, read};

/// The folders of recorded runs.
fn cases() -> Vec<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("replay/compat");
    let folders = fs::read_dir(root).unwrap().map(|entry| entry.unwrap().path());
    let mut cases: Vec<PathBuf> = folders.filter(|path| path.is_dir()).collect();
    cases.sort();
    assert!(cases.len() >= 15, "recorded runs were removed: {cases:?}");
    cases
}

fn golden(case: &Path) -> Value {
    serde_json::from_slice(&fs::read(case.join("job.json")).unwrap()).unwrap()
}

/// Everything that was said then is said today; there may be more.
#[track_caller]
fn says_the_same(today: &Value, then: &Value, case: &Path) {
    for (name, value) in then.as_object().unwrap() {
        assert_eq!(&today[name], value, "{name} of {}", case.display());
    }
}

#[test]
fn between_them_the_recorded_runs_hold_every_type_of_event() {
    let schema: Value = serde_json::from_str(include_str!("../../schema/fcmp.schema.json")).unwrap();
    let rules = schema["allOf"].as_array().unwrap().iter();
    let mut missing: BTreeSet<&str> =
        rules.filter_map(|rule| rule["if"]["properties"]["type"]["const"].as_str()).collect();
    assert!(missing.len() > 20, "{missing:?}");
    for case in cases() {
        let log = read(&Export::open(&case.join("run.zip")).unwrap(), EVENTS);
        for line in log.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
            let event: Value = serde_json::from_slice(line).unwrap();
            missing.remove(event["type"].as_str().unwrap());
        }
    }
    assert_eq!(missing, BTreeSet::new());
}

#[test]
fn every_recorded_run_is_still_found_whole() {
    let place = Place::new();
    for case in cases() {
        let ran = place.run(&["audit", case.join("run.zip").to_str().unwrap(), "--json"]);
        let report = ran.json();
        assert_eq!((ran.code, &report["ok"]), (Some(0), &Value::Bool(true)), "{}: {report}", case.display());
        assert_eq!(report["status"], golden(&case)["status"], "{}", case.display());
    }
}

#[test]
fn every_recorded_log_still_amounts_to_its_job() {
    for case in cases() {
        let export = Export::open(&case.join("run.zip")).unwrap();
        assert_eq!((export.flaws(), export.check_files().unwrap()), (&[][..], vec![]), "{}", case.display());
        let log = read(&export, EVENTS);
        let mut head = None;
        for line in log.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
            head = LogHead::after(head, &read_envelope(line).unwrap(), line);
        }
        let today = serde_json::to_value(job(&head.unwrap().state, None)).unwrap();
        says_the_same(&today, &golden(&case), &case);
    }
}

#[test]
fn every_recorded_run_is_still_replayed_with_its_job_its_events_and_its_result() {
    let place = Place::new();
    for case in cases() {
        let path = case.join("run.zip");
        let export = Export::open(&path).unwrap();
        let log = String::from_utf8(read(&export, EVENTS)).unwrap();
        let played = place.run(&["replay", path.to_str().unwrap(), "--speed", "max", "--json"]);
        assert_eq!((played.code, played.stdout.as_str()), (Some(0), log.as_str()), "{}", case.display());
        let then = golden(&case);
        let feed = Feed::start(&place, &[path.to_str().unwrap(), "--speed", "max"]);
        let run = then["run_id"].as_str().unwrap();
        let events: String =
            feed.events(run, "", &[]).rest()[1..].iter().map(|event| format!("{}\n", event.data)).collect();
        assert_eq!(events, log, "{}", case.display());
        says_the_same(&feed.get(&format!("/v1/jobs/{run}")).json(), &then, &case);
        let result: Value = serde_json::from_slice(&read(&export, "result/result.json")).unwrap();
        assert_eq!(feed.get(&format!("/v1/jobs/{run}/result")).json()["result"], result, "{}", case.display());
    }
}
