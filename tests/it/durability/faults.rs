//! Each call on files that a run takes fails once, with EIO or ENOSPC: what was acknowledged ends as it must, and the service
//! goes on or starts again.
//!
//! `FILE_FAULTS=all cargo test --test it every_call -- --nocapture` fails each with both errors and prints the tables of
//! docs/reliability.md.

mod table;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::io::Errno;
use serde_json::{Value, json};

use super::{Watched, comes_to, ended};
use crate::cli::place::Place;
use crate::interactive::pose::{self, Pose, done, says};
use crate::support::file_calls::{Deed, FileCall, Judgement, Watch};
use crate::support::zips::deflated;
use crate::support::{Answer, Call, script_skill};

const SETTINGS: [(&str, &str); 2] = [("SKILL_RUNNER_SEAL_GRACE_SECONDS", "0"), ("LOG_LEVEL", "error")];

/// What came of one run.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct End {
    /// How the run ended, or the refusal of its creation or its upload.
    run: String,
    /// Whether the service ended, too.
    service_ended: bool,
}

/// A place with a script skill, and one for conversations with a pose as its codex.
struct Stage {
    place: Place,
    pose: Pose,
}

impl Stage {
    fn new() -> Stage {
        let place = Place::new();
        let input = json!({"type": "object", "properties": {"doc": {"type": "string"}}, "required": ["doc"]});
        let reads = "cat >/dev/null\ncat uploads/doc > artifacts/copy.txt\necho '50% half' >&2\necho '{\"success\":true,\"data\":{}}'\n";
        script_skill(&place.path().join("skills"), "reads", reads, json!({"input": input}));
        let pose = Pose::new();
        pose.plays(&[says("What is your name?"), done()]);
        pose::skill(&place.path().join("skills"), "ask", None);
        Stage { place, pose }
    }

    fn start(&self) -> Option<Watched> {
        let (codex, notes) = (self.pose.command(), self.pose.folder().to_str().unwrap());
        let pose = [("SKILL_RUNNER_CODEX_BIN", codex.as_str()), ("SKILL_RUNNER_SANDBOX_WRITE", notes)];
        Watched::serve(&self.place, &[&SETTINGS[..], &pose].concat())
    }
}

/// How a run went that was begun, and its id if it was taken; `None` if the service ended on the way.
type WholeRun = fn(&Watched) -> Option<(String, Option<String>)>;

fn refusal(what: &str, answer: &Answer) -> String {
    let (status, code) = answer.refusal();
    format!("{what}: {status} {code}")
}

/// Creates a run; what is told and no run if it is refused.
fn created(service: &Watched, body: &Value) -> Option<Result<String, String>> {
    let created = Call::new(service.address, "POST", "/v1/jobs").json(body).try_send()?;
    Some(match created.status {
        201 => Ok(created.json()["run_id"].as_str().unwrap().to_owned()),
        _ => Err(refusal("create", &created)),
    })
}

/// The end of a run, and its bundle.
fn ended_with_bundle(service: &Watched, run: &str) -> Option<String> {
    let job = ended(service.address, run)?;
    let code = job["error"]["code"].as_str().map_or(String::new(), |code| format!(" {code}"));
    let mut told = format!("{}{code}", job["status"].as_str().unwrap());
    let bundle = || Call::new(service.address, "GET", &format!("/v1/jobs/{run}/bundle")).try_send();
    let bundled = bundle()?;
    if bundled.status != 200 {
        told += &format!("; {}", refusal("bundle", &bundled));
        assert_eq!(bundle()?.status, 200);
    }
    Some(told)
}

/// A run of a script with an upload and an artifact, to its bundle.
fn script_run(service: &Watched) -> Option<(String, Option<String>)> {
    let body = json!({"skill_id": "reads", "runtime_options": {"no_cache": true}});
    let run = match created(service, &body)? {
        Ok(run) => run,
        Err(told) => return Some((told, None)),
    };
    let zip = deflated(&[("doc", b"some text".as_slice())]);
    let upload =
        || Call::new(service.address, "POST", &format!("/v1/jobs/{run}/upload")).parts(&[("file", &zip)]).try_send();
    let mut told = String::new();
    let uploaded = upload()?;
    if uploaded.status != 200 {
        told = format!("{}; ", refusal("upload", &uploaded));
        // The fault was for once.
        let again = upload()?;
        // It may have been taken, and only the answer was lost.
        assert!(again.status == 200 || again.refusal().1 == "ALREADY_UPLOADED", "{}", again.text());
    }
    told += &ended_with_bundle(service, &run)?;
    Some((told, Some(run)))
}

/// A conversation with an agent: a question, its answer, the end, the bundle.
fn conversation(service: &Watched) -> Option<(String, Option<String>)> {
    let options = json!({"execution_mode": "interactive"});
    let body = json!({"skill_id": "ask", "engine": "codex", "runtime_options": options});
    let run = match created(service, &body)? {
        Ok(run) => run,
        Err(told) => return Some((told, None)),
    };
    let mut told = String::new();
    let job = comes_to(service.address, &run, &["waiting_user", "succeeded", "failed", "canceled"])?;
    if job["status"] == "waiting_user" {
        let answer = json!({"interaction_id": 1, "response": "Ann", "idempotency_key": "once"});
        let reply = || {
            let path = format!("/v1/jobs/{run}/interaction/reply");
            Call::new(service.address, "POST", &path).json(&answer).try_send()
        };
        let replied = reply()?;
        if replied.status != 200 {
            told = format!("{}; ", refusal("reply", &replied));
            let again = reply()?;
            assert_eq!(again.status, 200, "{}", again.text());
        }
    }
    told += &ended_with_bundle(service, &run)?;
    Some((told, Some(run)))
}

/// The calls of such a run, each once, when what all runs share is there.
fn calls_of(service: &Watched, whole_run: WholeRun) -> Vec<FileCall> {
    whole_run(service).unwrap();
    service.watch.take();
    whole_run(service).unwrap();
    let sealed = |calls: &[FileCall]| {
        let log = calls.iter().position(|call| call.to.as_deref().is_some_and(|to| to.ends_with("events.jsonl")));
        log.is_some_and(|log| calls[log..].iter().any(super::writes_database))
    };
    let mut calls: Vec<FileCall> = super::until(&service.watch, sealed).iter().map(FileCall::plain).collect();
    calls.sort();
    calls.dedup();
    calls
}

/// Fails the first call that looks like this; whether it came.
fn fail_once(watch: &Watch, point: &FileCall, errno: Errno) -> Arc<AtomicBool> {
    let (point, failed) = (point.clone(), Arc::new(AtomicBool::new(false)));
    let told = failed.clone();
    watch.judge(move |call| {
        let now = !told.load(Ordering::Relaxed) && call.plain() == point;
        told.fetch_or(now, Ordering::Relaxed);
        if now { Judgement::Fail(errno) } else { Judgement::Pass }
    });
    failed
}

#[test]
fn every_call_on_files_of_a_run_fails_once_and_nothing_acknowledged_is_lost() {
    let stage = Stage::new();
    let Some(service) = stage.start() else { return };
    let points = calls_of(&service, script_run);
    assert!(points.len() > 30, "{points:#?}");
    fail_each(&stage, service, script_run, &points);
}

#[test]
fn every_call_on_files_that_a_conversation_has_besides_fails_once_and_nothing_acknowledged_is_lost() {
    let stage = Stage::new();
    let Some(service) = stage.start() else { return };
    let of_script = calls_of(&service, script_run);
    let mut points = calls_of(&service, conversation);
    points.retain(|point| !of_script.contains(point));
    assert!(points.len() > 10, "{points:#?}");
    fail_each(&stage, service, conversation, &points);
}

/// Fails each of these calls, with one of the errors or with both, in a run of its own; then every run is checked.
fn fail_each(stage: &Stage, mut service: Watched, whole_run: WholeRun, points: &[FileCall]) {
    let all = std::env::var("FILE_FAULTS").is_ok_and(|text| text == "all");
    let errors = [(Errno::IO, "EIO"), (Errno::NOSPC, "ENOSPC")];
    let mut table: BTreeMap<(FileCall, &str), End> = BTreeMap::new();
    // Not every run takes the same way: how often a stream is synced depends on when it is written to.
    let mut not_met = Vec::new();
    let mut acknowledged = Vec::new();
    for (number, point) in points.iter().enumerate() {
        for (at, (errno, name)) in errors.iter().enumerate() {
            if !all && number % 2 != at {
                continue;
            }
            let failed = fail_once(&service.watch, point, *errno);
            let outcome = whole_run(&service);
            service.watch.let_pass();
            let alive = Call::new(service.address, "GET", "/healthz").try_send().is_some();
            let run = match outcome {
                Some((told, run)) => {
                    acknowledged.extend(run);
                    told
                }
                None => "told at the next start".to_owned(),
            };
            if !alive {
                service = stage.start().unwrap();
            }
            let end = End { run, service_ended: !alive };
            check(point, name, &end);
            if failed.load(Ordering::Relaxed) {
                table.insert((point.clone(), *name), end);
            } else {
                not_met.push(point.clone());
            }
        }
    }
    assert!(not_met.len() * 3 < points.len(), "{not_met:#?}");
    // The next run is like any other, and every run that was acknowledged is whole.
    assert_eq!(whole_run(&service).unwrap().0, "succeeded");
    let listed = service.get("/v1/jobs?limit=500");
    let runs: Vec<&str> =
        listed["jobs"].as_array().unwrap().iter().map(|job| job["run_id"].as_str().unwrap()).collect();
    for run in &acknowledged {
        assert!(runs.contains(&run.as_str()), "{run} was acknowledged and is gone");
    }
    for run in &runs {
        let job = service.get(&format!("/v1/jobs/{run}"));
        if job["awaiting_upload"] == true || job["status"] == "waiting_user" {
            // Its service ended before its upload or its answer.
            Call::new(service.address, "POST", &format!("/v1/jobs/{run}/cancel")).send();
        }
        ended(service.address, run).unwrap();
    }
    let runs: Vec<String> = runs.iter().map(|run| (*run).to_owned()).collect();
    service.running.signal(rustix::process::Signal::TERM);
    assert_eq!(service.running.end().code, Some(0));
    for run in &runs {
        let audit = stage.place.run(&["audit", run]);
        assert_eq!(audit.code, Some(0), "{audit:?}");
    }
    println!("{} calls, {} faults met\n\n{}", points.len(), table.len(), table::printed(&table));
}

/// The service ends only when its store fails, and what is told has the right cause.
fn check(point: &FileCall, error: &str, end: &End) {
    assert!(!end.service_ended || point.path.starts_with("data/store/"), "{point:?} {error}: {end:?}");
    let allowed: &[&str] = match error {
        "ENOSPC" => &["succeeded", "INSUFFICIENT_STORAGE", "told at the next start"],
        _ => &["succeeded", "INTERNAL", "told at the next start"],
    };
    assert!(allowed.iter().any(|word| end.run.contains(word)), "{point:?} {error}: {end:?}");
    // The bytes are written instead.
    assert!(point.deed != Deed::Share || end.run == "succeeded", "{point:?} {error}: {end:?}");
}
