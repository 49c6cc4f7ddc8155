//! The orchestrator and the core in made-up worlds: time, engines, faults and clients come from a seed, and every seed can be had again.
//!
//! `SIMULATION_SEED=7 cargo test --test simulation worlds -- --nocapture` plays one seed and prints its whole trace;
//! `SIMULATION_SEEDS=1000000 cargo test --release --test simulation worlds -- --nocapture` plays many, from
//! `SIMULATION_FROM` on. The same with `nodes` in the place of `worlds` plays worlds of several services on one store.
#![expect(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

mod book;
mod check;
mod clients;
mod dice;
mod engines;
mod expectations;
#[path = "../it/support/log.rs"]
mod log;
#[path = "../it/support/package.rs"]
mod package;
mod parts;
mod play;
mod readers;
mod several;
mod stage_set;
mod store;
mod world;

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use play::{Outcome, play};
use stage_set::StageSet;
use world::Sabotage;

/// Seeds of a usual test run.
const SEEDS: u64 = 2_000;
/// Failures that are told of; more would say no more.
const FAILURES_MAX: usize = 5;

fn number(variable: &str) -> Option<u64> {
    std::env::var(variable).ok().map(|text| text.parse().unwrap_or_else(|_| panic!("{variable} is not a number")))
}

/// What has to happen in one world of so many at least: a simulation that never comes there shows nothing.
const MET: &[(u64, &str)] = &[
    (10, "CRASH before work on files"),
    (10, "CRASH before create "),
    (40, "CRASH before write "),
    (40, "CRASH before rename to "),
    (20, "CRASH before remove "),
    (80, "CRASH before sync "),
    (10, "create null key"),
    (20, "upload own.zip to "),
    (40, " starts behind codex, "),
    (100, " starts as normalizer, to Mends"),
    (200, " starts as fallback, to Mends"),
    (400, " starts to mend its answer, "),
    (100, " run.cache_hit "),
    (200, "equal runs are under way when the service dies"),
    (100, "client: install version "),
    (10, " is read to "),
    (200, ", sealed meanwhile"),
    (20, "runs are deleted"),
    (20, ": accepted"),
];

/// How a seed is played.
type Player = fn(&Arc<StageSet>, u64, Sabotage) -> Outcome;

/// Plays seeds on all cores; the first that failed, and in how many worlds each of those that are wanted happened.
fn play_all(
    play: Player,
    wanted: &[(u64, &str)],
    from: u64,
    count: u64,
    sabotage: Sabotage,
) -> (Vec<Outcome>, Vec<u64>) {
    let set = StageSet::build();
    let met: Vec<AtomicU64> = wanted.iter().map(|_| AtomicU64::new(0)).collect();
    let next = AtomicU64::new(from);
    let failed = Mutex::new(Vec::new());
    let threads = std::thread::available_parallelism().map_or(1, |cores| cores.get());
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= from + count || failed.lock().unwrap().len() >= FAILURES_MAX {
                        return;
                    }
                    // A panic is a failed world like any other, and its seed is told.
                    let played = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| play(&set, seed, sabotage)));
                    let outcome = played.unwrap_or_else(|panic| {
                        let words = panic.downcast_ref::<String>().map(String::as_str);
                        let words = words.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("no words");
                        Outcome { seed, trace: String::new(), violations: vec![format!("it panicked: {words}")] }
                    });
                    for ((_, words), met) in wanted.iter().zip(&met) {
                        met.fetch_add(u64::from(outcome.trace.contains(words)), Ordering::Relaxed);
                    }
                    if !outcome.violations.is_empty() {
                        failed.lock().unwrap().push(outcome);
                    }
                    if count > 10_000 && (seed - from) % 10_000 == 9_999 {
                        eprintln!("{} of {count} worlds played", seed - from + 1);
                    }
                }
            });
        }
    });
    (failed.into_inner().unwrap(), met.into_iter().map(AtomicU64::into_inner).collect())
}

/// Plays the seeds that are asked for, or so many; `name` is the test.
fn keep_every_promise(play: Player, wanted: &[(u64, &str)], seeds: u64, name: &str) {
    if let Some(seed) = number("SIMULATION_SEED") {
        let outcome = play(&StageSet::build(), seed, Sabotage::None);
        println!("{}", outcome.trace);
        assert_eq!(outcome.violations, Vec::<String>::new());
        return;
    }
    let from = number("SIMULATION_FROM").unwrap_or(0);
    let count = number("SIMULATION_SEEDS").unwrap_or(seeds);
    eprintln!("seeds {from}..{}", from + count);
    let (failed, met) = play_all(play, wanted, from, count, Sabotage::None);
    for outcome in &failed {
        let seed = outcome.seed;
        eprintln!("seed {seed}: {:#?}", outcome.violations);
        eprintln!("again: SIMULATION_SEED={seed} cargo test --test simulation {name} -- --nocapture");
    }
    assert!(failed.is_empty(), "{} worlds failed", failed.len());
    wanted.iter().zip(&met).for_each(|((_, words), met)| eprintln!("{met:>6} worlds: {words}"));
    let too_seldom = wanted.iter().zip(&met).filter(|((one_in, _), met)| count >= seeds && **met < count / one_in);
    let too_seldom: Vec<&str> = too_seldom.map(|((_, words), _)| *words).collect();
    assert_eq!(too_seldom, Vec::<&str>::new(), "happened too seldom in {count} worlds");
}

fn has_the_same_trace(play: Player, seeds: u64) {
    let set = StageSet::build();
    for seed in 0..seeds {
        let (once, again) = (play(&set, seed, Sabotage::None), play(&set, seed, Sabotage::None));
        for (line, (first, second)) in once.trace.lines().zip(again.trace.lines()).enumerate() {
            assert_eq!(first, second, "seed {seed}, line {line}");
        }
        assert_eq!(once.trace.len(), again.trace.len(), "seed {seed}");
    }
}

#[test]
fn worlds_keep_every_promise_whatever_happens_in_them() {
    keep_every_promise(play, MET, SEEDS, "worlds");
}

#[test]
fn nodes_keep_every_promise_together_whatever_happens_to_them() {
    keep_every_promise(several::play, several::MET, several::SEEDS, "nodes");
}

#[test]
fn the_same_seed_gives_the_same_trace() {
    has_the_same_trace(play, 40);
    has_the_same_trace(several::play, 15);
}

#[test]
fn a_store_that_forgets_what_it_acknowledged_is_noticed() {
    assert!(!play_all(play, MET, 0, 30, Sabotage::StoreForgets).0.is_empty());
}

#[test]
fn engines_that_survive_their_service_are_noticed() {
    assert!(!play_all(play, MET, 0, 60, Sabotage::EnginesSurvive).0.is_empty());
}

/// Whether worlds of several nodes notice what is broken in them.
fn is_noticed(sabotage: Sabotage, within: u64) {
    let failed = play_all(several::play, several::MET, 0, within, sabotage).0;
    failed.iter().for_each(|outcome| eprintln!("{sabotage:?} in world {}: {:?}", outcome.seed, outcome.violations));
    assert!(!failed.is_empty(), "{sabotage:?}");
}

#[test]
fn nodes_notice_runs_and_files_that_nobody_keeps() {
    is_noticed(Sabotage::TakeOversForgotten, 100);
    is_noticed(Sabotage::FilesForgotten, 100);
}

#[test]
fn nodes_notice_leases_that_never_end() {
    is_noticed(Sabotage::LeasesNeverEnd, 60);
}

#[test]
fn nodes_notice_shims_that_let_engines_outlive_their_lease() {
    is_noticed(Sabotage::ShimsSleep, 60);
}

#[test]
fn nodes_notice_a_store_that_takes_appends_of_an_earlier_owner() {
    is_noticed(Sabotage::EpochsIgnored, 60);
}

#[test]
fn nodes_notice_a_store_that_changes_records_under_a_lease_that_is_over() {
    is_noticed(Sabotage::RecordsIgnoreLeases, 300);
}
