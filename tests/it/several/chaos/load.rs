//! Clients that create runs of all kinds, upload, cancel, and ask again through other services.

use std::path::Path;
use std::sync::atomic::Ordering;
use std::time::Duration;

use serde_json::{Value, json};

use super::{CLIENTS, Kind, NODES, World};
use crate::several::Services;
use crate::support::client::Answer;
use crate::support::random::Random;

const PAUSE: Duration = Duration::from_millis(250);
/// Equal runs with the same parameter.
const EQUALS: usize = 4;
pub const FILE: &[u8] = b"the text\n";

/// Writes the skills. Each script notes that it began.
pub fn skills(services: &Services, begun: &Path) {
    let head =
        format!("cat >/dev/null\necho \"$SKILL_RUNNER_RUN_ID\" >> '{}'\necho '10% begun' >&2\n", begun.display());
    let tail = "echo '{\"success\":true,\"data\":{\"n\":1}}'\n";
    let short =
        format!("{head}sleep 0.3\nmkdir -p artifacts\necho made > artifacts/a.txt\necho '90% made' >&2\n{tail}");
    services.skill("short", &short, json!({}));
    services.skill("equal", &format!("{head}sleep 0.2\n{tail}"), json!({}));
    services.skill("endless", &format!("{head}sleep 600\n{tail}"), json!({}));
    let input = json!({"type": "object", "properties": {"doc": {"type": "string", "x-input-source": "file"}}, "required": ["doc"]});
    let copy = format!("{head}mkdir -p artifacts\ncp uploads/doc* artifacts/copy.txt\n{tail}");
    services.skill("copy", &copy, json!({"input": input}));
}

/// Creates runs until it is over.
pub fn client(world: &World, number: usize, mut dice: Random) {
    let mut turn = number;
    while !world.over.load(Ordering::Relaxed) {
        turn += CLIENTS;
        one(world, turn, &mut dice);
        std::thread::sleep(PAUSE);
    }
}

fn one(world: &World, turn: usize, dice: &mut Random) {
    let (at, other) = (dice.below(NODES as u64) as usize, dice.below(NODES as u64) as usize);
    let plain = |skill: &str| json!({"skill_id": skill, "runtime_options": {"no_cache": true}});
    match dice.below(9) {
        0..=2 => drop(create(world, at, Kind::Short, &plain("short"))),
        3 => keyed(world, at, other, &format!("key-{turn}")),
        4 => {
            let body = json!({"skill_id": "equal", "parameter": {"n": turn}});
            for n in 0..EQUALS {
                create(world, (at + n) % NODES, Kind::Equal, &body);
            }
        }
        5 => {
            if let Some(run) = create(world, at, Kind::Endless, &plain("endless")) {
                std::thread::sleep(Duration::from_millis(dice.below(1500)));
                cancel(world, other, &run);
            }
        }
        6 => {
            if let Some(run) = create(world, at, Kind::Copy, &plain("copy")) {
                upload(world, other, &run);
            }
        }
        7 => drop(create(world, at, Kind::Ask, &ask())),
        _ => drop(create(world, at, Kind::AskLate, &ask())),
    }
}

fn ask() -> Value {
    json!({"skill_id": "ask", "engine": "codex", "runtime_options": {"execution_mode": "interactive"}})
}

fn run_of(answer: Option<Answer>) -> Option<String> {
    let answer = answer.filter(|answer| matches!(answer.status, 200 | 201))?;
    Some(answer.json()["run_id"].as_str().unwrap().to_owned())
}

/// One that was killed or is paused answers nothing, or refuses while its database is away.
fn create(world: &World, at: usize, kind: Kind, body: &Value) -> Option<String> {
    let run = run_of(world.call(at, "POST", "/v1/jobs").json(body).try_send())?;
    world.acknowledged(&run, kind);
    Some(run)
}

/// Creates a run with a key, asking one service after the other until one answers, and then another one once more.
fn keyed(world: &World, first: usize, other: usize, key: &str) {
    let body = json!({"skill_id": "short", "runtime_options": {"no_cache": true}});
    let ask = |at: usize| {
        run_of(world.call(at % NODES, "POST", "/v1/jobs").header("Idempotency-Key", key).json(&body).try_send())
    };
    let Some(run) = (first..first + 2 * NODES).find_map(ask) else { return };
    world.acknowledged(&run, Kind::Keyed);
    if let Some(again) = ask(other).filter(|again| *again != run) {
        world.wrong(format!("the key {key} led to {run} and to {again}"));
    }
}

/// Cancels the run; whether that was accepted.
pub fn cancel(world: &World, at: usize, run: &str) -> bool {
    let answer = world.call(at, "POST", &format!("/v1/jobs/{run}/cancel")).json(&json!({})).try_send();
    let accepted = answer.is_some_and(|answer| answer.status == 200 && answer.json()["accepted"] == true);
    if accepted {
        world.told(run, |told| told.canceled = true);
    }
    accepted
}

/// Uploads the run's file; whether it was taken.
pub fn upload(world: &World, at: usize, run: &str) -> bool {
    let path = format!("/v1/jobs/{run}/upload");
    let answer = world.call(at, "POST", &path).files(&[("doc", "doc.txt", FILE)]).try_send();
    let taken = answer.is_some_and(|answer| answer.status == 200);
    if taken {
        world.told(run, |told| told.uploaded = true);
    }
    taken
}
