//! Exports: the same bytes whoever writes them, audited on any machine, replayed to the terminal and as a live feed.

use std::fs;
use std::net::SocketAddr;
use std::path::Path;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use skill_runner::domain::time::Timestamp;
use skill_runner::export::{EVENTS, Export};

use crate::cli::place::{Place, Running, TINY};
use crate::support::skill::GATED;
use crate::support::{Answer, Call, Server, Sse};

/// The bytes of a file in an export.
pub fn read(export: &Export, name: &str) -> Vec<u8> {
    let piece = export.file(name).unwrap_or_else(|| panic!("no {name}"));
    piece.bytes(0, piece.size()).unwrap()
}

/// A recording that is served.
pub struct Feed {
    _running: Running,
    address: SocketAddr,
}

impl Feed {
    pub fn start(place: &Place, args: &[&str]) -> Feed {
        let (running, line) = place.start(&[&["replay"], args, &["--serve", "--port", "0"]].concat(), "listening on ");
        let address = line.strip_prefix("listening on http://").unwrap().parse().unwrap();
        Feed { _running: running, address }
    }

    pub fn get(&self, path: &str) -> Answer {
        Call::new(self.address, "GET", path).send()
    }

    pub fn events(&self, run: &str, query: &str, headers: &[(&str, &str)]) -> Sse {
        Sse::open(self.address, &format!("/v1/jobs/{run}/events{query}"), headers)
    }
}

/// A finished run of `tiny` and its export `run.zip`.
fn exported(place: &Place) -> String {
    let run = place.finished_run();
    let ran = place.run(&["export", &run, "-o", "run.zip"]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    assert!(ran.stdout.starts_with("run.zip: "), "{ran:?}");
    run
}

#[test]
fn an_export_has_the_runs_files_and_its_bytes_do_not_depend_on_who_writes_them() {
    let place = Place::new();
    let run = exported(&place);
    let export = Export::open(&place.path().join("run.zip")).unwrap();
    let names: Vec<&str> = export.names().collect();
    let expected = [
        "artifacts/note.txt",
        "input.json",
        EVENTS,
        "logs/stderr.txt",
        "logs/stdout.txt",
        "manifest.json",
        "raw/engine_output.json",
        "raw/engine_output.txt",
        "result/result.json",
        "result/validation.json",
        "skill.json",
        "export.json",
    ];
    assert_eq!(names, expected);
    for name in &expected[..11] {
        assert_eq!(read(&export, name), fs::read(place.run_folder(&run).join(name)).unwrap(), "{name}");
    }
    let first = fs::read(place.path().join("run.zip")).unwrap();
    let again = place.run(&["export", &run, "--json"]);
    assert_eq!((again.code, &again.json()["bytes"]), (Some(0), &json!(first.len())));
    assert_eq!(fs::read(place.path().join(format!("{run}.zip"))).unwrap(), first, "from the store");
    let (_service, line) = place.start(&["serve", "--port", "0"], "listening on ");
    let url = line.strip_prefix("listening on ").unwrap();
    for args in
        [&["export", &run, "-o", "b.zip"][..], &["export", &run, "-o", "b.zip", "--server", url, "--data-dir", "x"]]
    {
        let ran = place.run(args);
        assert_eq!(ran.code, Some(0), "{ran:?}");
        assert_eq!(fs::read(place.path().join("b.zip")).unwrap(), first, "{args:?}");
        fs::remove_file(place.path().join("b.zip")).unwrap();
    }
}

#[test]
fn a_run_under_way_is_not_exported_and_no_file_is_left() {
    let server = Server::start();
    server.skill("gated", GATED, json!({}));
    let (_, run) = server.create("gated");
    server.wait_for(&run, "raw.stderr", "ready");
    assert_eq!(server.get(&format!("/v1/jobs/{run}/export")).refusal(), (409, "RESULT_NOT_READY".to_owned()));
    let place = Place::new();
    let url = format!("http://{}", server.address);
    let ran = place.run(&["export", &run, "-o", "run.zip", "--server", &url]);
    assert_eq!(ran.code, Some(1));
    assert!(ran.stderr.contains("RESULT_NOT_READY"), "{ran:?}");
    let left: Vec<_> = fs::read_dir(place.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(left, ["skills"]);
    server.open_gate(&run, "go");
    server.finish(&run);
    let whole = server.get(&format!("/v1/jobs/{run}/export"));
    assert_eq!((whole.status, whole.header("content-type")), (200, "application/zip"));
}

#[test]
fn a_sealed_log_that_is_damaged_while_the_store_has_its_events_is_not_exported() {
    let server = Server::with(&[("seal_grace_seconds", "600")]);
    server.skill("tiny", TINY, json!({}));
    let (_, run) = server.finished("tiny");
    let export = || server.get(&format!("/v1/jobs/{run}/export"));
    // Draining waits for the seal; events stay in the store for the grace.
    server.drain();
    let sealed = server.run_dir(&run).join(EVENTS);
    let (whole, good) = (export().body, fs::read_to_string(&sealed).unwrap());
    for damaged in ["", &good[..good.len() / 2], &good.replace("a log line", "b log line")] {
        assert_ne!(damaged, good);
        fs::write(&sealed, damaged).unwrap();
        assert_eq!((export().status, export().body == whole), (200, true), "{damaged}");
    }
    fs::remove_file(&sealed).unwrap();
    assert_eq!((export().status, export().body == whole), (200, true));
    fs::write(&sealed, good).unwrap();
}

#[test]
fn an_export_is_audited_where_nothing_else_is_and_damage_is_told_with_its_place() {
    let place = Place::new();
    let run = exported(&place);
    let elsewhere = tempfile::tempdir().unwrap();
    let path = elsewhere.path().join("run.zip");
    fs::copy(place.path().join("run.zip"), &path).unwrap();
    let audit = || {
        let args = ["audit", "run.zip", "--json"];
        let output = place.command(&args).current_dir(elsewhere.path()).output().unwrap();
        let report: Value = serde_json::from_slice(&output.stdout).unwrap();
        (output.status.code(), report)
    };
    let (code, report) = audit();
    assert_eq!((code, &report["violations"], &report["run_id"]), (Some(0), &json!([]), &json!(run)));
    assert_eq!(fs::read_dir(elsewhere.path()).unwrap().count(), 1, "nothing was made there");
    let good = fs::read(&path).unwrap();
    let at = good.windows(10).position(|window| window == b"a log line").unwrap();
    let mut bad = good.clone();
    bad[at] ^= 1;
    fs::write(&path, &bad).unwrap();
    let (code, report) = audit();
    assert_eq!(code, Some(1));
    let found: Vec<(&str, &str)> = report["violations"]
        .as_array()
        .unwrap()
        .iter()
        .map(|found| (found["rule"].as_str().unwrap(), found["file"].as_str().unwrap()))
        .collect();
    assert_eq!(found, [("SEAL", "run.zip"), ("CONTENTS", EVENTS), ("PROOF", EVENTS), ("RAW", EVENTS)]);
    let raw = &report["violations"][3];
    let line_at = good[..at].iter().rposition(|byte| *byte == b'\n').unwrap() + 1;
    let log_at = good.windows(19).position(|window| window == b"{\"protocol_version\"").unwrap();
    assert_eq!(raw["byte"], json!(line_at - log_at), "where the changed event begins");
    fs::write(&path, &good[..good.len() - 1]).unwrap();
    assert_eq!(audit().0, Some(1));
}

#[test]
fn a_replay_shows_the_lines_that_watch_shows_up_to_where_it_is_told() {
    let place = Place::new();
    let run = exported(&place);
    let log = fs::read_to_string(place.run_folder(&run).join(EVENTS)).unwrap();
    let (_service, _) = place.start(&["serve", "--port", "0"], "listening on ");
    for verbose in [&[][..], &["--verbose"]] {
        let watched = place.run(&[&["watch", &run], verbose].concat());
        let replayed = place.run(&[&["replay", "run.zip", "--speed", "max"], verbose].concat());
        assert_eq!(replayed.code, Some(0), "{replayed:?}");
        // Only a watched run ends with a summary.
        let (events, summary) = watched.stdout.split_once("succeeded after ").unwrap();
        assert!(summary.contains(&run), "{watched:?}");
        assert_eq!(replayed.stdout, events);
        assert_eq!(place.run(&[&["replay", "run.zip"], verbose].concat()).stdout, events, "with its own pauses");
    }
    let three: String = log.lines().take(3).map(|line| format!("{line}\n")).collect();
    assert_eq!(place.run(&["replay", "run.zip", "--until", "3", "--json"]).stdout, three);
    for wrong in [&["--speed", "0"][..], &["--speed", "fast"], &["--until", "0"], &["--port", "0"]] {
        assert_eq!(place.run(&[&["replay", "run.zip"], wrong].concat()).code, Some(2), "{wrong:?}");
    }
    let mut bad = fs::read(place.path().join("run.zip")).unwrap();
    bad[100] ^= 1;
    fs::write(place.path().join("bad.zip"), bad).unwrap();
    let refused = place.run(&["replay", "bad.zip"]);
    assert_eq!((refused.code, refused.stdout.as_str()), (Some(5), ""));
    assert!(refused.stderr.contains("skill-runner audit bad.zip"), "{refused:?}");
}

#[test]
fn a_served_recording_answers_as_the_service_did_and_takes_no_changes() {
    let place = Place::new();
    let run = exported(&place);
    let (service, line) = place.start(&["serve", "--port", "0"], "listening on ");
    let address: SocketAddr = line.strip_prefix("listening on http://").unwrap().parse().unwrap();
    let feed = Feed::start(&place, &["run.zip", "--speed", "max"]);
    let whole = feed.events(&run, "", &[]).rest();
    let request = feed.get(&format!("/v1/jobs/{run}")).json()["request_id"].as_str().unwrap().to_owned();
    for path in [
        format!("/v1/jobs/{run}"),
        format!("/v1/jobs/{request}"),
        format!("/v1/jobs/{run}?at_seq=4"),
        format!("/v1/jobs/{run}/result"),
        format!("/v1/jobs/{run}/logs"),
        format!("/v1/jobs/{run}/artifacts"),
        format!("/v1/jobs/{run}/artifacts/artifacts/note.txt"),
        format!("/v1/jobs/{run}/bundle"),
        format!("/v1/jobs/{run}/export"),
        format!("/v1/jobs/{run}/explain?path=/data/greeting"),
        format!("/v1/jobs/{run}/events/history?from_seq=2&to_seq=5"),
        format!("/v1/jobs/{run}/logs/range?stream=stderr&byte_from=3&byte_to=20"),
        format!("/v1/management/runs/{run}"),
        format!("/v1/management/runs/{run}/explain?path=/data"),
        format!("/v1/management/runs/{run}/file?path=logs/stdout.txt"),
    ] {
        let (told, then) = (feed.get(&path), Call::new(address, "GET", &path).send());
        assert_eq!((told.status, told.body), (200, then.body), "{path}");
    }
    let from = |cursor: usize| whole[1 + cursor..].to_vec();
    assert_eq!(feed.events(&run, "?cursor=4", &[]).rest()[1..], from(4));
    assert_eq!(feed.events(&run, "", &[("last-event-id", "6")]).rest()[1..], from(6));
    for (path, body) in [("/v1/jobs", json!({"skill_id": "tiny"})), (&format!("/v1/jobs/{run}/cancel"), json!({}))] {
        let refused = Call::new(feed.address, "POST", path).json(&body).send();
        assert_eq!(refused.refusal(), (405, "METHOD_NOT_ALLOWED".to_owned()), "{path}");
    }
    drop(service);
}

#[test]
fn a_served_recording_goes_by_its_clock() {
    let place = Place::new();
    place.skill(
        "pausing",
        "cat >/dev/null\necho one >&2\nsleep 0.5\necho two >&2\necho '{\"success\":true,\"data\":{}}'\n",
    );
    let ran = place.run(&["run", "pausing", "--json"]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    let run = ran.json()["run_id"].as_str().unwrap().to_owned();
    assert_eq!(place.run(&["export", &run, "-o", "run.zip"]).code, Some(0));
    let log = fs::read_to_string(place.run_folder(&run).join(EVENTS)).unwrap();
    let at = |line: &str| -> Timestamp {
        serde_json::from_value(serde_json::from_str::<Value>(line).unwrap()["ts"].clone()).unwrap()
    };
    let (first, last) = (at(log.lines().next().unwrap()), at(log.lines().last().unwrap()));
    let took = Duration::from_micros((last.as_micros() - first.as_micros()).cast_unsigned());
    assert!(took > Duration::from_millis(400), "the script paused: {took:?}");
    let begun = Instant::now();
    let feed = Feed::start(&place, &["run.zip", "--speed", "0.1"]);
    let events = feed.events(&run, "", &[]).until_end();
    assert!(begun.elapsed() > took * 9, "{took:?} became only {:?}", begun.elapsed());
    assert_eq!(events.last().unwrap()["type"], "conversation.completed");
    assert_eq!(feed.get(&format!("/v1/jobs/{run}")).json()["status"], "succeeded");
}

#[test]
fn a_served_recording_that_stops_midway_is_a_run_under_way() {
    let place = Place::new();
    let run = exported(&place);
    let log = fs::read_to_string(place.run_folder(&run).join(EVENTS)).unwrap();
    let stderr = |line: &str| line.contains(r#""stream":"stderr""#);
    let until = log.lines().position(stderr).unwrap() + 1;
    let feed = Feed::start(&place, &["run.zip", "--speed", "max", "--until", &until.to_string()]);
    let mut events = feed.events(&run, "", &[]);
    let seen: Vec<Value> = (0..until).map(|_| events.next_chat().unwrap()).collect();
    let expected: Vec<Value> = log.lines().take(until).map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(seen, expected);
    let job = feed.get(&format!("/v1/jobs/{run}")).json();
    assert_eq!((&job["status"], &job["head_seq"]), (&json!("running"), &json!(until)));
    let range = feed.get(&format!("/v1/jobs/{run}/logs/range?stream=stderr")).json();
    assert_eq!(range["total_bytes"], expected[until - 1]["raw_ref"]["byte_to"], "no byte before its event");
    assert_eq!(feed.get(&format!("/v1/jobs/{run}/result")).refusal(), (409, "RESULT_NOT_READY".to_owned()));
}

#[test]
fn what_the_page_on_exports_says_about_the_seal_is_so() {
    let place = Place::new();
    exported(&place);
    let page = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/export.md")).unwrap();
    let check = page.lines().find(|line| line.contains("sha256sum")).unwrap();
    let output = std::process::Command::new("sh").args(["-c", check]).current_dir(place.path()).output().unwrap();
    let told = String::from_utf8(output.stdout).unwrap();
    let digits: Vec<&str> = told.split_whitespace().filter(|word| word.len() == 64).collect();
    assert_eq!(digits.len(), 2, "{told}");
    assert_eq!(digits[0], digits[1]);
}
