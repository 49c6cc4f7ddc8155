//! The faults.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use rustix::process::{Signal, kill_process};

use super::{NODES, SCHEMA, World, name};
use crate::crash::until;
use crate::several::{LEASE_SECONDS, Service};
use crate::support::random::Random;

/// What can happen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Fault {
    Kill,
    CutAll,
    CutOne,
    StallShort,
    PausePastLease,
    DatabaseCrash,
    DeadPastLease,
    StallPastLease,
    DatabaseEnd,
    SharedFolderAway,
    RefusedPastLease,
    FolderDeleted,
    PauseShort,
}

const ALL: [Fault; 13] = [
    Fault::Kill,
    Fault::CutAll,
    Fault::CutOne,
    Fault::StallShort,
    Fault::PausePastLease,
    Fault::DatabaseCrash,
    Fault::DeadPastLease,
    Fault::StallPastLease,
    Fault::DatabaseEnd,
    Fault::SharedFolderAway,
    Fault::RefusedPastLease,
    Fault::FolderDeleted,
    Fault::PauseShort,
];

/// What happened.
pub struct Struck {
    count: BTreeMap<Fault, usize>,
    /// For each service that was dead or paused and owned runs: how long the others took to settle them.
    settled: Vec<Duration>,
    took: Duration,
}

const SHORT: Duration = Duration::from_millis(800);
const PAST_LEASE: Duration = Duration::from_secs(LEASE_SECONDS + 2);
/// What is promised.
const PROMISED: Duration = Duration::from_secs(LEASE_SECONDS + 5);

impl Struck {
    pub fn print(&self) {
        let total: usize = self.count.values().sum();
        eprintln!("{total} faults in {:.0?}: {:?}", self.took, self.count);
        let mut settled = self.settled.clone();
        settled.sort();
        if let (Some(middle), Some(longest)) = (settled.get(settled.len() / 2), settled.last()) {
            let late = settled.iter().filter(|time| **time > PROMISED).count();
            eprintln!(
                "runs of {} services that were gone were settled within {middle:.1?} (median), {longest:.1?} at most; {late} took \
                 longer than the lease and 5 s",
                settled.len()
            );
        }
    }

    /// The promise is the lease and 5 s. A loaded machine may stop the others, too, so that here it is held to twice as much.
    pub fn settled_in_time(&self) {
        let longest = self.settled.iter().max().copied().unwrap_or_default();
        assert!(longest < PROMISED * 2, "the runs of a dead service were settled after {longest:?}");
    }
}

/// One fault after the other, under load: each kind once, or as many as asked for, drawn.
pub fn all(world: &World, nodes: &mut [Service], dice: &mut Random, asked: Option<usize>) -> Struck {
    let mut struck = Struck { count: BTreeMap::new(), settled: Vec::new(), took: Duration::ZERO };
    let began = Instant::now();
    for number in 0..asked.unwrap_or(ALL.len()) {
        let before = world.created.load(Ordering::Relaxed);
        until("runs were created", || world.created.load(Ordering::Relaxed) > before + 2);
        let drawn = ALL[dice.below(ALL.len() as u64) as usize];
        let fault = ALL.get(number).copied().unwrap_or(drawn);
        let at = dice.below(NODES as u64) as usize;
        if asked.is_some() {
            eprintln!("{:.0?}: fault {number}, {fault:?} of {}", began.elapsed(), name(at));
        }
        strike(world, nodes, fault, at, dice, &mut struck);
        *struck.count.entry(fault).or_default() += 1;
    }
    struck.took = began.elapsed();
    struck
}

fn strike(world: &World, nodes: &mut [Service], fault: Fault, at: usize, dice: &mut Random, struck: &mut Struck) {
    let proxy = &world.proxies[at];
    // Something else may happen to another service meanwhile.
    let meanwhile = |dice: &mut Random| match dice.below(3) {
        0 => world.proxies[(at + 1) % NODES].cut(),
        1 => {
            world.database.crash();
            world.database.run();
        }
        _ => {}
    };
    match fault {
        Fault::Kill => {
            nodes[at].kill_9();
            restart(world, nodes, at);
        }
        Fault::FolderDeleted => {
            nodes[at].kill_9();
            std::fs::remove_dir_all(&nodes[at].data).unwrap();
            restart(world, nodes, at);
        }
        Fault::DeadPastLease => {
            let owned = owned_by(world, at);
            nodes[at].kill_9();
            struck.settled.extend(settled(world, &owned));
            std::fs::remove_dir_all(&nodes[at].data).unwrap();
            restart(world, nodes, at);
        }
        Fault::PausePastLease => {
            let (pid, owned) = (nodes[at].pid(), owned_by(world, at));
            kill_process(pid, Signal::STOP).unwrap();
            let began = Instant::now();
            struck.settled.extend(settled(world, &owned));
            meanwhile(dice);
            std::thread::sleep(PAST_LEASE.saturating_sub(began.elapsed()));
            kill_process(pid, Signal::CONT).unwrap();
        }
        Fault::PauseShort => {
            let pid = nodes[at].pid();
            kill_process(pid, Signal::STOP).unwrap();
            std::thread::sleep(SHORT);
            kill_process(pid, Signal::CONT).unwrap();
        }
        Fault::CutAll => proxy.cut(),
        Fault::CutOne => proxy.cut_one(dice.below(1000)),
        Fault::StallShort => {
            proxy.stall(true);
            std::thread::sleep(SHORT);
            proxy.stall(false);
        }
        Fault::StallPastLease => {
            proxy.stall(true);
            meanwhile(dice);
            std::thread::sleep(PAST_LEASE);
            // What was held back comes through, or is lost.
            if dice.below(2) == 0 {
                proxy.cut();
            }
            proxy.stall(false);
        }
        Fault::RefusedPastLease => {
            proxy.refuse(true);
            std::thread::sleep(PAST_LEASE);
            proxy.refuse(false);
        }
        Fault::DatabaseCrash => {
            world.database.crash();
            world.database.run();
        }
        Fault::DatabaseEnd => {
            world.database.end();
            world.database.run();
        }
        Fault::SharedFolderAway => {
            let (blobs, away) = (world.services.blobs(), world.services.data("away"));
            std::fs::rename(&blobs, &away).unwrap();
            std::thread::sleep(Duration::from_millis(1500));
            std::fs::rename(&away, &blobs).unwrap();
        }
    }
}

fn restart(world: &World, nodes: &mut [Service], at: usize) {
    nodes[at] = world.services.serve(&name(at));
    world.addresses.lock().unwrap()[at] = nodes[at].address();
}

/// The runs that a service owns, with their epochs, as values for SQL.
struct Owned {
    service: String,
    values: String,
}

fn owned_by(world: &World, at: usize) -> Owned {
    let name = name(at);
    // One whose folder was deleted has joined as another.
    let service = world
        .database
        .sql(&format!("select incarnation from {SCHEMA}.nodes where name = '{name}' order by joined_at desc limit 1"));
    let values = world.database.sql(&format!(
        "select string_agg(format('(%L::uuid, %s)', run, epoch), ',') from {SCHEMA}.runs where owner = '{service}'"
    ));
    Owned { service, values }
}

/// Waits until each is final, in the queue or waiting; how long that took. Nothing, if there were none.
fn settled(world: &World, Owned { service, values }: &Owned) -> Option<Duration> {
    if values.is_empty() {
        return None;
    }
    let began = Instant::now();
    // Whoever takes a run over counts up its epoch.
    let left = format!(
        "select count(*) from {SCHEMA}.runs join (values {values}) as owned (run, epoch) on owned.run = runs.run \
         where owner = '{service}' or (runs.epoch = owned.epoch + 1 and status = 'running')"
    );
    until("the runs of a service that is gone are settled", || world.database.sql(&left) == "0");
    Some(began.elapsed())
}
