//! Trivial runs: idle memory, one after the other, many at once, and what each costs.

use std::path::Path;

use crate::figure::Figure;
use crate::machine;
use crate::numbers::{median, ms};
use crate::process::cpu;
use crate::service::{self, Service, Usage, store_bytes};
use crate::setup::{Setup, at_once, timed};

pub fn idle(setup: &Setup<'_>) -> Vec<Figure> {
    let service = setup.serve(&[]);
    // The start goes on after the service has said where it listens.
    service.settle();
    let idle = service.memory("VmRSS");
    service.client().json("GET", "/v1/skills", None);
    service.settle();
    vec![
        Figure::new("idle, resident", "MB", idle).at_most(30.0),
        Figure::new("idle after the first list of skills", "MB", service.memory("VmRSS")).at_most(30.0),
    ]
}

/// One after the other, against its bare spawn; and what a run costs, with the usual settings.
pub fn one_by_one(setup: &Setup<'_>) -> Vec<Figure> {
    let rounds = setup.count(400, 100);
    let service = setup.serve(&[]);
    let script = setup.script("noop");
    let mut client = service.client();
    timed(20, || drop(service.run(&mut client, "noop")));

    let mut spawns = timed(rounds / 2, || machine::spawn(&script));
    let (used, files) = (service.cpu(), run_files(&service));
    let (store, written) = (store_bytes(&service.data()), service.written());
    let runs = timed(rounds, || drop(service.run(&mut client, "noop")));
    let (used_now, written_now) = (service.cpu(), service.written());
    spawns.extend(timed(rounds / 2, || machine::spawn(&script)));
    let (files_now, store_now) = (run_files(&service), store_bytes(&service.data()));

    let spawn = median(&spawns);
    let per_run = |before: u64, now: u64| now.saturating_sub(before) as f64 / rounds as f64;
    let in_folder = per_run(files.bytes, files_now.bytes) / 1e3;
    let in_store = per_run(store, store_now) / 1e3;
    let own = ms(used_now.0 - used.0) / rounds as f64;
    let children = ms(used_now.1 - used.1) / rounds as f64;
    vec![
        Figure::new("trivial run, one after the other", "ms", median(&runs))
            .limit("bare spawn", spawn)
            .at_most(spawn + 5.0),
        Figure::new("processor time of a trivial run", "ms", own + children)
            .limit("bare spawn", bare_cpu(&script, rounds))
            .at_most(5.0)
            .note(format!("{own:.1} own, {children:.1} children")),
        Figure::new("inodes of a trivial run", "", per_run(files.inodes, files_now.inodes)).at_most(14.0),
        Figure::new("trivial run on disk", "kB", in_folder + in_store)
            .at_most(40.0)
            .note(format!("{in_folder:.0} in its folder, {in_store:.0} in the store")),
        Figure::new("written for a trivial run", "kB", per_run(written, written_now) / 1e3).at_most(80.0),
    ]
}

/// Fifty clients at once, with the usual slots and with 16.
pub fn burst(setup: &Setup<'_>) -> Vec<Figure> {
    const AT_ONCE: usize = 50;
    let each = setup.count(20, 6);
    let script = setup.script("noop");
    let rate = |seconds: f64| (AT_ONCE * each) as f64 / seconds;
    let slots = [("50 at once, usual slots", None), ("50 at once, 16 slots", Some(("max_running_jobs", "16")))];
    let measure = |(what, slots): (&str, Option<(&str, &str)>)| {
        let spawns = rate(at_once(AT_ONCE, || (0..each).for_each(|_| machine::spawn(&script))));
        let service = setup.serve(slots.as_slice());
        let runs = rate(at_once(AT_ONCE, || {
            let mut client = service.client();
            (0..each).for_each(|_| drop(service.run(&mut client, "noop")));
        }));
        Figure::new(what, "runs/s", runs).limit("bare spawns/s", spawns).at_least(400.0)
    };
    slots.into_iter().map(measure).collect()
}

/// Folders and files of all runs.
fn run_files(service: &Service) -> Usage {
    service::run_files(&service.data())
}

/// Milliseconds of processor time of a bare spawn, both sides of it.
fn bare_cpu(script: &Path, rounds: usize) -> f64 {
    let used = || {
        let (own, children) = cpu(std::process::id());
        own + children
    };
    let before = used();
    (0..rounds).for_each(|_| machine::spawn(script));
    ms(used() - before) / rounds as f64
}
