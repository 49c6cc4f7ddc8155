//! What must be so when all is over.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use serde_json::Value;

use super::load::{self, FILE};
use super::{Kind, NODES, World};
use crate::support::client::{Answer, Call};
use crate::support::of_type;

/// How long all runs may take to end when nothing disturbs them any more.
const PATIENCE: Duration = Duration::from_secs(300);
/// How runs may end. A run whose files cannot be shared is ended by that.
const ENDS: [&str; 4] = ["succeeded", "canceled", "CANCELED_BY_USER", "ORCHESTRATOR_RESTART_INTERRUPTED"];

pub fn is_final(status: &Value) -> bool {
    ["succeeded", "failed", "canceled"].iter().any(|end| status == end)
}

/// Gives every run what it waits for, and waits until each was followed to its end.
pub fn complete(world: &World) {
    let began = Instant::now();
    let mut turn = 0;
    loop {
        let open: Vec<(String, Kind)> = {
            let runs = world.runs.lock().unwrap();
            runs.iter().filter(|(_, told)| !told.ended).map(|(run, told)| (run.clone(), told.kind)).collect()
        };
        if open.is_empty() {
            return;
        }
        assert!(began.elapsed() < PATIENCE, "{} runs are not over: {:?}", open.len(), told(world, &open));
        for (run, kind) in open {
            turn += 1;
            match kind {
                Kind::Short | Kind::Keyed | Kind::Equal => {}
                Kind::Endless => drop(load::cancel(world, turn % NODES, &run)),
                Kind::Copy => drop(load::upload(world, turn % NODES, &run)),
                Kind::Ask | Kind::AskLate => drop(world.answer(turn % NODES, &run)),
            }
        }
        std::thread::sleep(Duration::from_millis(300));
    }
}

fn told(world: &World, open: &[(String, Kind)]) -> Vec<String> {
    let job = |run: &str| world.call(0, "GET", &format!("/v1/jobs/{run}")).try_send().map(|answer| answer.text_lossy());
    open.iter().take(5).map(|(run, kind)| format!("{kind:?} {:?}", job(run))).collect()
}

/// All runs that a service lists.
fn listed(world: &World, at: usize) -> BTreeSet<String> {
    let (mut runs, mut before) = (BTreeSet::new(), String::new());
    loop {
        let page = ask(world, at, &format!("/v1/jobs?limit=500{before}")).json();
        runs.extend(page["jobs"].as_array().unwrap().iter().map(|job| job["run_id"].as_str().unwrap().to_owned()));
        match page["next_before"].as_str() {
            Some(next) => before = format!("&before={next}"),
            None => return runs,
        }
    }
}

fn ask(world: &World, at: usize, path: &str) -> Answer {
    Call::new(world.address(at), "GET", path).within(PATIENCE).send()
}

fn history(world: &World, at: usize, run: &str) -> Vec<Vec<u8>> {
    let path = format!("/v1/jobs/{run}/events/history");
    let answer = Call::new(world.address(at), "GET", &path).header("accept", "application/x-ndjson").send();
    answer.body.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()).map(<[u8]>::to_vec).collect()
}

/// Looks at every run on every service.
pub fn judge(world: &World) {
    let began = Instant::now();
    let all = listed(world, 0);
    for at in 1..NODES {
        assert_eq!(listed(world, at), all, "each service lists the same");
    }
    let runs = world.runs.lock().unwrap();
    for run in runs.keys().filter(|run| !all.contains(*run)) {
        world.wrong(format!("{run} was acknowledged and is gone"));
    }
    let begun = std::fs::read_to_string(&world.begun).unwrap();
    let mut ends = BTreeMap::<String, usize>::new();
    let (mut unknown, mut events_seen) = (0, 0);
    for (number, run) in all.iter().enumerate() {
        let lines = history(world, 0, run);
        let events: Vec<Value> = lines.iter().map(|line| serde_json::from_slice(line).unwrap()).collect();
        let seqs: Vec<u64> = events.iter().map(|event| event["seq"].as_u64().unwrap()).collect();
        let wrong = |what: String| world.wrong(format!("{run}: {what}"));
        if seqs != (1..=seqs.len() as u64).collect::<Vec<_>>() {
            wrong(format!("its events have the numbers {seqs:?}"));
        }
        for at in 1..NODES {
            if history(world, at, run) != lines {
                wrong(format!("service {at} tells another history than service 0"));
            }
        }
        // One of two did not work on it last.
        for at in [number % NODES, (number + 1) % NODES] {
            let audit = ask(world, at, &format!("/v1/jobs/{run}/audit"));
            if audit.json()["ok"] != true {
                wrong(format!("service {at} audits it as {}", audit.text()));
            }
        }
        let status = events.last().map(|event| event["data"]["status"].clone()).unwrap_or_default();
        let job = ask(world, 1, &format!("/v1/jobs/{run}")).json();
        let waits = job["status"] == "waiting_user" || job["awaiting_upload"] == true;
        let Some(told) = runs.get(run) else {
            // A client was not told of it; it stands all the same.
            unknown += 1;
            if !is_final(&job["status"]) && !waits && job["skill_id"] != "endless" {
                wrong(format!("nobody knows of it, and it is neither over nor waiting: {job}"));
            }
            continue;
        };
        events_seen += told.seen.len();
        if told.seen != lines {
            wrong(format!("a follower saw {} events, its log has {}", told.seen.len(), lines.len()));
        }
        let code = events.last().and_then(|event| event["data"]["error"]["code"].as_str());
        let end = code.or(status.as_str()).unwrap_or_default().to_owned();
        if !ENDS.contains(&end.as_str()) {
            wrong(format!("it ended with {end}: {}", events.last().unwrap_or(&Value::Null)));
        }
        if told.canceled && status != "canceled" {
            wrong(format!("its cancel was accepted, and it is {status}"));
        }
        if status == "succeeded" && told.kind == Kind::Copy {
            let copy = ask(world, 2, &format!("/v1/jobs/{run}/artifacts/artifacts/copy.txt"));
            if (copy.status, copy.body.as_slice()) != (200, FILE) {
                wrong(format!("its file is {copy:?}"));
            }
        }
        let answers = of_type(&events, "interaction.reply.accepted").len();
        if told.answered && answers != 1 {
            wrong(format!("its answer was taken and stands {answers} times in its log"));
        }
        // No script begins a second time, and none begins that the log does not tell of.
        let (scripts, turns) = (begun.lines().filter(|id| id == run).count(), of_type(&events, "turn.started").len());
        let most = if matches!(told.kind, Kind::Ask | Kind::AskLate) { 2 } else { 1 };
        if scripts > 1 || scripts > turns || turns > most {
            wrong(format!("its script began {scripts} times, its log tells of {turns} turns"));
        }
        *ends.entry(end).or_default() += 1;
    }
    for session in std::fs::read_dir(world.pose.sessions()).unwrap().flatten() {
        let told = world.pose.told(&session.file_name().to_string_lossy());
        if told.len() > 2 {
            world.wrong(format!("an engine was told its answer {} times", told.len() - 1));
        }
    }
    eprintln!(
        "{} runs acknowledged, {unknown} more that no client was told of; {ends:?}; followers saw {events_seen} events in {} \
         stretches; looked at in {:.0?}",
        runs.len(),
        world.hops.load(Ordering::Relaxed),
        began.elapsed()
    );
}
