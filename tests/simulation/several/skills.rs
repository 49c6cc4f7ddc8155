//! Skills that nodes share, at rest: the same everywhere, and what became of each installation is known to all.

use std::collections::BTreeSet;
use std::fs;
use std::time::Duration;

use serde_json::Value;
use skill_runner::store::{EventStore, IndexKey, MemoryNode, NodeId, Records};
use uuid::Uuid;

use super::stage::Stage;
use crate::store::ready;

/// Copies of a skill that was replaced stay for ten minutes.
const COPIES_GO_WITHIN: Duration = Duration::from_secs(800);

pub fn everything(stage: &mut Stage) {
    let world = stage.world().clone();
    if world.skills.is_none() {
        return;
    }
    let (told, installs) = {
        let book = world.book.lock().unwrap();
        (book.installed, book.installs.clone())
    };
    let record = ready(MemoryNode::new(world.disk.clone(), NodeId(Uuid::nil())).record("skill", "demo")).unwrap();
    let record: Value = record.map_or(Value::Null, |record| serde_json::from_slice(&record.value).unwrap());
    let changes = record["changes"].as_array().into_iter().flatten();
    let made: BTreeSet<&str> = changes.map(|change| change["id"].as_str().unwrap()).collect();
    let active = record["active"]["version"].as_str().map(str::to_owned);
    for at in 0..stage.nodes.len() {
        if stage.nodes[at].service().is_none() {
            continue;
        }
        let skills = stage.nodes[at].own_skills(&world).unwrap();
        let left = fs::read_dir(&skills).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
        for name in left.filter(|name| name.starts_with(".install-") || name == ".invalid") {
            world.violated(format!("{} is left in the skills folder of n{}", name.split('-').next().unwrap(), at + 1));
        }
        let text = |file: &str| fs::read_to_string(skills.join("demo").join(file)).unwrap_or_default();
        let (script, notes) = (text("scripts/run.sh"), text("notes.md"));
        let version = script.trim().parse::<u64>().ok();
        if script != notes || version < told || version.map(|version| format!("{version}.0.0")) != active {
            world.violated(format!(
                "n{} has {script:?} and {notes:?}, {active:?} is shared, and clients were told of {told:?}",
                at + 1
            ));
        }
        for (id, was_told) in &installs {
            let asked = *id;
            let answer = stage.on_node(at, move |service| async move { service.install_of(asked).await });
            let is_made = made.contains(id.to_string().as_str());
            if matches!(answer, Some(Ok(None))) && !is_made && !was_told {
                // Its service could not tell the others of it, neither when it began nor when it failed.
                continue;
            }
            let Some(Ok(Some(install))) = answer else {
                world.violated(format!("n{} does not know an installation: {answer:?}", at + 1));
                continue;
            };
            let (is_over, code) = (install.status.is_final(), install.error.as_ref().map(|error| error.code.clone()));
            let done = is_over && code.is_none();
            if !is_over || done != is_made || *was_told && !done {
                world.violated(format!(
                    "n{} says that an installation is {:?} ({code:?}); made: {is_made}, told as done: {was_told}",
                    at + 1,
                    install.status
                ));
            }
            if code.as_deref() == Some("ORCHESTRATOR_RESTART_INTERRUPTED") {
                world.note("an installation was interrupted, and everybody says so");
            } else if done && !was_told {
                world.note("an installation is done, and its client was never told");
            }
        }
    }
    copies_go(stage, &record);
}

/// Copies of versions that were replaced, and that no run on the node needs, do not stay.
fn copies_go(stage: &mut Stage, record: &Value) {
    let world = stage.world().clone();
    let archived: BTreeSet<&str> =
        record["archived"].as_array().into_iter().flatten().filter_map(|one| one["fingerprint"].as_str()).collect();
    stage.pass(COPIES_GO_WITHIN);
    for at in 0..stage.nodes.len() {
        let Some(service) = stage.nodes[at].service() else { continue };
        let here = fs::read_dir(service.layout().runs()).into_iter().flatten().flatten();
        let runs = here.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
        let rows = runs.filter_map(|run| ready(world.disk.index(&IndexKey::Run(run))).unwrap());
        let rows = rows.map(|row| serde_json::from_slice::<Value>(&row).unwrap());
        let needed: BTreeSet<String> =
            rows.filter_map(|row| row["state"]["skill"]["fingerprint"].as_str().map(str::to_owned)).collect();
        let copies = fs::read_dir(stage.nodes[at].data.join("skill-copies")).into_iter().flatten().flatten();
        for copy in copies.map(|entry| entry.file_name().into_string().unwrap()) {
            if archived.contains(copy.as_str()) && !needed.contains(&copy) {
                world.violated(format!("n{} keeps a copy of a skill that was replaced and that no run needs", at + 1));
            }
        }
    }
}
