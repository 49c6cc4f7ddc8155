//! What has to be true once faults have stopped.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::sync::Arc;

use serde_json::Value;
use skill_runner::domain::ids::{RunId, Seq};
use skill_runner::domain::run_file::RunFile;
use skill_runner::domain::state::RunState;
use skill_runner::domain::statechart::Status;
use skill_runner::orchestrator::{Orchestrator, Sizes};
use skill_runner::store::{EventStore, IndexKey};

use crate::log;
use crate::store::ready;
use crate::world::World;

/// Everything that can be said of a world at rest.
pub async fn everything(world: &Arc<World>, service: &Orchestrator) {
    let rows = world.disk.runs(None, 100).await.unwrap();
    let mut logs = Logs::new();
    for (run, _) in &rows {
        let name = world.name(*run);
        for flaw in log::flaws(service, *run).await {
            world.violated(format!("{name}: {flaw}"));
        }
        let state = service.state(*run).await.unwrap();
        let events = events(service, *run).await;
        for event in &events {
            let mut data = event["data"].clone();
            data.as_object_mut().map(|data| data.remove("proof"));
            world.note(format!("{name} {} {} {data}", event["seq"], event["type"].as_str().unwrap()));
        }
        at_rest(world, service, &state, &name).await;
        logs.insert(*run, (state, events));
    }
    promises_hold(world, &logs);
    packages(world, service, &logs);
    let known: BTreeSet<String> = rows.iter().map(|(run, _)| run.to_string()).collect();
    let folders = fs::read_dir(service.layout().runs()).into_iter().flatten().flatten();
    for folder in folders.map(|entry| entry.file_name().into_string().unwrap()) {
        if !known.contains(&folder) {
            world.violated("there is a folder of a run that does not exist");
        }
    }
    if fs::read_dir(service.layout().tmp()).into_iter().flatten().next().is_some() {
        world.violated("temporary folders are left");
    }
}

/// What logs say, by their runs.
pub type Logs = BTreeMap<RunId, (RunState, Vec<Value>)>;

/// What clients and engines were told is what the logs say.
pub fn promises_hold(world: &World, logs: &Logs) {
    for (run, (_, events)) in logs {
        answers(world, *run, events, &world.name(*run));
    }
    promises(world, logs);
}

/// Nothing is under way.
pub fn at_ease(world: &World, service: &Orchestrator) {
    if service.sizes() != (Sizes { queued: 0, running: 0 }) {
        world.violated(format!("at rest there are still {:?}", service.sizes()));
    }
    for (pid, engine) in world.engines() {
        world.violated(format!("engine {pid} of {} lives on", world.name(engine.run)));
    }
}

pub async fn bytes(service: &Orchestrator, run: RunId) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut events = service.log().events(run, Seq::START);
    while let Some(page) = events.next_page().await.unwrap() {
        page.iter().for_each(|batch| bytes.extend_from_slice(&batch.ndjson));
    }
    bytes
}

async fn events(service: &Orchestrator, run: RunId) -> Vec<Value> {
    let bytes = bytes(service, run).await;
    let lines = bytes.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
    lines.map(|line| serde_json::from_slice(line).unwrap()).collect()
}

/// The run is where it may stay, and its files agree.
pub async fn at_rest(world: &World, service: &Orchestrator, state: &RunState, name: &str) {
    if !state.status().is_final() {
        let waits = state.status() == Status::WaitingUser && state.pending().is_some();
        let awaits = state.status() == Status::Queued && state.awaiting_upload;
        if !waits && !awaits {
            world.violated(format!("{name} is left {}", state.status().as_str()));
        }
        return;
    }
    let paths = match service.log().folder(state.run_id).await {
        Ok(paths) => paths,
        Err(error) => return world.violated(format!("{name} is final and its files cannot be had: {error}")),
    };
    let result =
        fs::read(paths.file(RunFile::Result)).ok().and_then(|bytes| serde_json::from_slice::<Value>(&bytes).ok());
    let told = result.map(|result| (result["status"].clone(), result["error"]["code"].clone()));
    let code = state.error.as_ref().map_or(Value::Null, |error| error.code.clone().into());
    let logged = (Value::from(state.status().as_str()), code);
    if told.as_ref() != Some(&logged) {
        world.violated(format!("{name} ended {logged:?}, and its result says {told:?}"));
    }
    if let Err(error) = service.log().bundle(state.run_id, 0).await {
        world.violated(format!("{name} is final and has no bundle: {error}"));
    }
    if world.disk.head(&state.run_id).await.unwrap() != Seq::START {
        world.violated(format!("{name} is final and its events have not left the store"));
    }
}

/// A turn is begun again only where the request asks for it, so often, and not too early. How often it was.
fn retries(world: &World, events: &[Value], name: &str) -> usize {
    let asked = &events[0]["data"]["runtime_options"]["retry"]["times"];
    let scheduled = |event: &&Value| event["type"] == "run.retry.scheduled";
    let retries = events.iter().filter(scheduled).count();
    if retries as u64 > asked.as_u64().unwrap_or(0) {
        world.violated(format!("{name} was begun again {retries} times, and asked for {asked}"));
    }
    // Among several nodes the store's clock judges, and each turn is held to it when it begins (`several/workers.rs`): the clock of the
    // node that writes may be behind it.
    let comparable = !world.has_met(" joins");
    for (at, event) in events.iter().enumerate().filter(|(_, event)| comparable && scheduled(event)) {
        let next = events[at..].iter().find(|event| event["type"] == "turn.started");
        if next.is_some_and(|turn| turn["ts"].as_str() < event["data"]["not_before"].as_str()) {
            world.violated(format!("{name} was begun again before {}", event["data"]["not_before"]));
        }
    }
    retries
}

/// Every answer is used by one resumed turn at most, in order, and by nothing else.
fn answers(world: &World, run: RunId, events: &[Value], name: &str) {
    let of_type = |wanted: &'static [&'static str]| {
        events.iter().filter(move |event| wanted.contains(&event["type"].as_str().unwrap()))
    };
    let resolutions: Vec<&Value> =
        of_type(&["interaction.reply.accepted", "interaction.auto_decide.timeout"]).collect();
    let decided = of_type(&["interaction.auto_decide.timeout"]).count();
    if decided > 0 && events[0]["data"]["runtime_options"]["interactive_auto_reply"] != true {
        world.violated(format!("{name} was decided for a user who was to be waited for"));
    }
    let turns = of_type(&["turn.started"]).count();
    let told = world.told_so_far(run);
    let retries = retries(world, events, name);
    if turns > resolutions.len() + retries + 1 {
        world.violated(format!("{name} had {turns} turns for {} answers and {retries} retries", resolutions.len()));
    }
    if told.len() > turns || told.len() + 1 < turns {
        world.violated(format!("{name} has {turns} turns in its log, and {} engines were told", told.len()));
    }
    for (resolution, told) in resolutions.iter().zip(told.iter().skip(1 + retries)) {
        let response = &resolution["data"]["response"];
        let text = response.as_str().map_or_else(|| response.to_string(), str::to_owned);
        if !response.is_null() && *told != text {
            world.violated(format!("{name}: the engine was told {told:?} where {text:?} was the answer"));
        }
    }
}

/// What clients were told is so.
fn promises(world: &World, logs: &Logs) {
    let book = world.book.lock().unwrap();
    let gone = |run: &RunId| book.deleted.contains(run);
    for created in book.created.iter().filter(|created| !gone(&created.run_id)) {
        let name = world.name(created.run_id);
        let request = ready(world.disk.index(&IndexKey::Request(created.request_id))).unwrap();
        let (true, Some((state, events))) =
            (request.as_deref() == Some(created.run_id.as_bytes().as_slice()), logs.get(&created.run_id))
        else {
            world.violated(format!("{name} was acknowledged and is gone"));
            continue;
        };
        let count = |wanted: &str| events.iter().filter(|event| event["type"] == wanted).count();
        if book.canceled.contains(&created.run_id)
            && (count("run.cancel.requested") != 1 || state.status() != Status::Canceled)
        {
            world.violated(format!("{name} was canceled and is {}", state.status().as_str()));
        }
        if book.uploaded.contains(&created.run_id) && count("input.uploaded") != 1 {
            world.violated(format!("{name} lost its upload"));
        }
        for reply in book.replies.iter().filter(|reply| reply.run == created.run_id) {
            let logged = events.iter().filter(|event| {
                event["type"] == "interaction.reply.accepted"
                    && event["data"]["interaction_id"] == reply.interaction.0
                    && event["data"]["response"] == reply.response
                    && event["data"]["idempotency_key"].as_str() == reply.key.as_deref()
            });
            let logged: Vec<u64> = logged.map(|event| event["seq"].as_u64().unwrap()).collect();
            let count = logged.len();
            if count != 1 {
                world.violated(format!("{name}: an accepted reply is {count} times in the log: {reply:?}"));
            }
            let begins =
                |event: &Value| event["type"] == "turn.started" && event["seq"].as_u64() > logged.last().copied();
            if !events.iter().any(begins) && !ends_before_its_turn(state, events) {
                world.violated(format!("{name}: no turn follows an accepted reply, and it ended {:?}", state.error));
            }
        }
    }
}

/// Whether the run may have ended between an answer and its turn: it was canceled, or its engine could not be started, because it is
/// not there, never named its session, or there is no room. A restart is no such reason.
fn ends_before_its_turn(state: &RunState, events: &[Value]) -> bool {
    match state.error.as_ref().map_or("", |error| error.code.as_str()) {
        "ENGINE_NOT_INSTALLED" | "INSUFFICIENT_STORAGE" => true,
        "SESSION_RESUME_FAILED" => {
            // A turn that is begun again has a session of its own: that of the one before is not the one that asked.
            let fresh = |event: &Value| event["type"] == "turn.started" && event["data"]["resumed_from"].is_null();
            let conversation = &events[events.iter().rposition(fresh).unwrap_or(0)..];
            !conversation.iter().any(|event| event["type"] == "session.bound")
        }
        _ => state.status() == Status::Canceled,
    }
}

/// The packages of runs of their own go with them, and an installed skill is whole and not older than clients were told.
fn packages(world: &World, service: &Orchestrator, logs: &Logs) {
    for (run, (state, _)) in logs {
        let own = world.book.lock().unwrap().own_skill.contains(run);
        if own && state.status().is_final() && holds_package(&service.layout().runs().join(run.to_string())) {
            world.violated(format!("{} is over and its package is left", world.name(*run)));
        }
    }
    let Some(skills) = &world.skills else { return };
    let left = fs::read_dir(skills).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    for name in left.filter(|name| name.starts_with(".install-") || name == ".invalid") {
        world.violated(format!("{} is left in the skills folder", name.split('-').next().unwrap()));
    }
    let text = |file: &str| fs::read_to_string(skills.join("demo").join(file)).unwrap_or_default();
    let (script, notes) = (text("scripts/run.sh"), text("notes.md"));
    let told = world.book.lock().unwrap().installed;
    let now = script.trim().parse::<u64>().ok();
    if script != notes || now < told {
        world.violated(format!("version {told:?} was installed, and there are {script:?} and {notes:?}"));
    }
}

fn holds_package(folder: &std::path::Path) -> bool {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries.into_iter().any(|entry| {
        let path = entry.path();
        if path.is_dir() { holds_package(&path) } else { entry.file_name() == "SKILL.md" }
    })
}

/// All rows and logs.
pub async fn snapshot(world: &World, service: &Orchestrator) -> BTreeMap<String, Vec<u8>> {
    let mut found = BTreeMap::new();
    for (run, row) in world.disk.runs(None, 100).await.unwrap() {
        found.insert(format!("the row of {}", world.name(run)), row.to_vec());
        found.insert(format!("the log of {}", world.name(run)), bytes(service, run).await);
    }
    found
}
