//! What has to be true on every node once faults have stopped.

use std::collections::BTreeMap;

use serde_json::Value;
use skill_runner::domain::cache_key::sha256_hex;
use skill_runner::domain::fact::Stream;
use skill_runner::domain::ids::RunId;
use skill_runner::domain::outcome::StreamProof;
use skill_runner::domain::run_file::RunFolder;
use skill_runner::orchestrator::Orchestrator;
use skill_runner::store::EventStore;

use super::skills;
use super::stage::Stage;
use crate::check::{Logs, at_ease, at_rest, bytes, promises_hold};
use crate::log;
use crate::store::ready;
use crate::world::World;

pub fn everything(stage: &mut Stage) {
    let world = stage.world().clone();
    for (pid, engine) in world.engines() {
        world.violated(format!("engine {pid} of {} lives on", world.name(engine.run)));
    }
    let mut first: Option<Logs> = None;
    let runs: Vec<RunId> = ready(world.disk.runs(None, 100)).unwrap().into_iter().map(|(run, _)| run).collect();
    for at in 0..stage.nodes.len() {
        let Some(service) = stage.nodes[at].service() else { continue };
        at_ease(&world, &service);
        let (asked, all) = (world.clone(), runs.clone());
        let is_first = first.is_none();
        let found = stage.on_node(at, move |service| async move { on_node(&asked, &service, &all, is_first).await });
        let Some(found) = found else {
            world.violated(format!("n{} does not say what it has", at + 1));
            continue;
        };
        match &first {
            None => first = Some(found),
            Some(first) if *first != found => world.violated(format!("n{} says something else", at + 1)),
            Some(_) => {}
        }
    }
    let Some(logs) = first else { return world.violated("no node is left") };
    promises_hold(&world, &logs);
    skills::everything(stage);
    one_run_for_one_key(&world, &logs);
    recovered(stage, &logs);
}

/// What this node has of every run.
async fn on_node(world: &World, service: &Orchestrator, runs: &[RunId], tells: bool) -> Logs {
    let mut logs = Logs::new();
    for run in runs {
        let name = world.name(*run);
        let state = match service.state(*run).await {
            Ok(state) => state,
            Err(error) => {
                world.violated(format!("{name} cannot be seen: {error}"));
                continue;
            }
        };
        // This fetches the files of a run that is over from wherever they are.
        at_rest(world, service, &state, &name).await;
        let files = if state.status().is_final() { on_disk(service, *run) } else { in_store(world, *run) };
        for flaw in log::flaws_with(service, *run, &files).await {
            world.violated(format!("{name}: {flaw}"));
        }
        let bytes = bytes(service, *run).await;
        followed(world, *run, &bytes, &name);
        let lines = bytes.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
        let events: Vec<Value> = lines.map(|line| serde_json::from_slice(line).unwrap()).collect();
        for event in events.iter().filter(|_| tells) {
            let mut data = event["data"].clone();
            data.as_object_mut().map(|data| data.remove("proof"));
            world.note(format!("{name} {} {} {data}", event["seq"], event["type"].as_str().unwrap()));
        }
        logs.insert(*run, (state, events));
    }
    logs
}

/// What was read piece by piece, on whichever nodes, is how the log begins.
fn followed(world: &World, run: RunId, log: &[u8], name: &str) {
    let book = world.book.lock().unwrap();
    let read = book.followed.get(&run).map_or(&[][..], |(_, read)| read);
    if !log.starts_with(read) {
        world.violated(format!("those who followed {name} have read something else"));
    }
}

fn on_disk(service: &Orchestrator, run: RunId) -> BTreeMap<Stream, StreamProof> {
    let logs = service.layout().run(run).folder(RunFolder::Logs);
    let read = |stream: Stream| std::fs::read(logs.join(format!("{}.txt", stream.as_str()))).ok();
    proofs(read)
}

fn in_store(world: &World, run: RunId) -> BTreeMap<Stream, StreamProof> {
    proofs(|stream| {
        let pieces = ready(world.disk.raw(&run, stream, 0, usize::MAX)).unwrap();
        (!pieces.is_empty()).then(|| pieces.iter().flat_map(|piece| piece.bytes.to_vec()).collect())
    })
}

fn proofs(read: impl Fn(Stream) -> Option<Vec<u8>>) -> BTreeMap<Stream, StreamProof> {
    let streams = [Stream::Stdout, Stream::Stderr, Stream::Pty].into_iter();
    let proof = |bytes: Vec<u8>| StreamProof { bytes: bytes.len() as u64, sha256: sha256_hex(&bytes) };
    streams.filter_map(|stream| Some((stream, proof(read(stream)?)))).collect()
}

/// However often and wherever a key was sent.
fn one_run_for_one_key(world: &World, logs: &Logs) {
    let mut keys: BTreeMap<&str, RunId> = BTreeMap::new();
    for (run, (_, events)) in logs {
        let Some(key) = events.first().and_then(|event| event["data"]["idempotency_sha256"].as_str()) else { continue };
        if let Some(other) = keys.insert(key, *run) {
            world.violated(format!("{} and {} have the same key", world.name(other), world.name(*run)));
        }
    }
}

/// Runs that lost their node say so.
fn recovered(stage: &Stage, logs: &Logs) {
    let world = stage.world();
    for (run, last) in stage.common.workers.orphans() {
        let Some((_, events)) = logs.get(&run) else { continue };
        if events.iter().any(|event| event["type"] == "run.cancel.requested") {
            // It ends canceled, whoever ends it.
            continue;
        }
        let says = |event: &Value| event["type"] == "run.recovered" && event["seq"].as_u64() > Some(last.0);
        if !events.iter().any(says) {
            world.violated(format!("{} lost its node after {last}, and nobody says so", world.name(run)));
        }
    }
}
