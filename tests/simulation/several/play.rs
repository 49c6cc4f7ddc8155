//! One seed, one world of several nodes: faults under load, then a calm in which everything has to come right on every node.

use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use skill_runner::domain::ids::RunId;
use skill_runner::store::EventStore;

use super::check;
use super::stage::{Fault, Stage};
use crate::check as check_alone;
use crate::play::{Outcome, different, listening};
use crate::stage_set::StageSet;
use crate::store::ready;
use crate::world::Sabotage;

/// A dead node's runs are settled within the time of a lease and this.
const SETTLED_AFTER: Duration = Duration::from_secs(5);
/// How long a fault waits for an engine.
const PATIENCE: Duration = Duration::from_secs(12);
/// No world takes longer, in its own time.
const CALM_MAX: Duration = Duration::from_secs(3 * 3600);

/// Plays one seed to its end.
pub fn play(set: &Arc<StageSet>, seed: u64, sabotage: Sabotage) -> Outcome {
    static WORLDS: AtomicU64 = AtomicU64::new(0);
    let data = set.folder.join(format!("several-{}", WORLDS.fetch_add(1, Ordering::Relaxed)));
    let mut stage = Stage::build(set, seed, &data, sabotage);
    let world = stage.world().clone();
    listening(&world, || {
        chaos(&mut stage);
        calm(&mut stage);
        for at in 0..stage.nodes.len() {
            stage.nodes[at].end(&world);
        }
    });
    drop(stage);
    let (trace, violations) = world.account();
    let _ = fs::remove_dir_all(&data);
    Outcome { seed, trace, violations }
}

fn chaos(stage: &mut Stage) {
    let world = stage.world().clone();
    let dice = &world.dice;
    for at in 0..stage.nodes.len() {
        stage.start(at);
    }
    world.stir();
    let mut sessions = 3 + dice.below(8);
    let mut faults = 1 + dice.below(7);
    let (mut next_fault, mut next_client) = (stage.now + dice.pause(), stage.now);
    // Most faults wait for an engine, so that they meet one.
    let mut patience = stage.now + PATIENCE;
    let until = Duration::from_secs(150);
    while stage.now < until && (sessions > 0 || faults > 0 || stage.clients() > 0) {
        if sessions > 0 && stage.now >= next_client {
            sessions -= 1;
            next_client = stage.now + dice.pause() / 2;
            match dice.once_in(6) {
                true => stage.send_twins(),
                false => stage.send_client(1 + dice.below(4)),
            }
        }
        let aims = !stage.busy_nodes().is_empty() || !stage.installing_nodes().is_empty();
        let waits = !faults.is_multiple_of(3) && stage.now < patience && !aims;
        if faults > 0 && stage.now >= next_fault && !waits {
            faults -= 1;
            next_fault = stage.now + dice.pause();
            patience = next_fault + PATIENCE;
            stage.fault(dice.weighted(&[
                (3, Fault::Crash),
                (3, Fault::CrashSoon),
                (2, Fault::LosesDisk),
                (4, Fault::Pauses),
                (3, Fault::StopsAsItSends),
                (4, Fault::IsCutOff),
                (2, Fault::IsDeaf),
                (2, Fault::FilesAway),
                (2, Fault::Slow),
                (2, Fault::ClockJumps),
                (1, Fault::IsToldToEnd),
            ]));
        }
        stage.step();
    }
    // The last one waits, too.
    if !dice.once_in(4) {
        stage.send_twins();
        let until = stage.now + PATIENCE;
        while stage.now < until && stage.busy_nodes().iter().all(|at| *at == 0) {
            stage.step();
        }
        stage.last_fault();
    }
    stage.calm_down();
}

fn calm(stage: &mut Stage) {
    let world = stage.world().clone();
    // Whatever a dead or paused node worked on is settled in time, with nobody asking for it.
    stage.pass(stage.lease() + SETTLED_AFTER);
    for run in stage.common.workers.abandoned() {
        world.violated(format!("{} was not taken over in time", world.name(run)));
    }
    stage.let_in();
    let until = stage.now + CALM_MAX;
    let runs: Vec<RunId> = ready(world.disk.runs(None, 100)).unwrap().into_iter().map(|(run, _)| run).collect();
    for run in runs {
        let Some(at) = stage.any_that_answers() else { continue };
        let Some(client) = stage.client(at) else { continue };
        stage.busy(at, async move { client.see_through(run).await });
    }
    while stage.clients() > 0 && stage.now < until {
        stage.step();
    }
    if stage.clients() > 0 {
        return world.violated("clients wait for ever");
    }
    // Slots are given back and logs sealed in their own time, also those of nodes that are gone.
    stage.pass(Duration::from_secs(90));
    if world.violations() > 0 {
        return;
    }
    check::everything(stage);
    let first = snapshot(stage);
    for at in 0..stage.nodes.len() {
        stage.nodes[at].end(&world);
        stage.common.workers.leaves(at + 1);
    }
    for at in 0..stage.nodes.len() {
        stage.start(at);
    }
    stage.pass(stage.lease() + SETTLED_AFTER);
    let second = snapshot(stage);
    if first.is_some() && first != second {
        world.violated(format!("a second start changed: {:?}", different(first, second)));
    }
}

fn snapshot(stage: &mut Stage) -> Option<std::collections::BTreeMap<String, Vec<u8>>> {
    let at = stage.any_that_answers()?;
    let world = stage.world().clone();
    stage.on_node(at, |service| async move { check_alone::snapshot(&world, &service).await })
}
