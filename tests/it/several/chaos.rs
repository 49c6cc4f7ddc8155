//! Three services under load, and one fault after the other: services are killed and paused, the database crashes and ends.
//!
//! `SEVERAL_FAULTS=200 cargo test --test it several::chaos -- --nocapture` tries more of them.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, RwLock};
use std::time::Duration;

use rustix::process::{Signal, kill_process};
use serde_json::{Value, json};

use super::{LEASE_SECONDS, Service, Services};
use crate::support::client::Call;
use crate::support::postgres::{self, Server as Postgres};
use crate::support::{of_type, random};

const NODES: usize = 3;
/// Works for a moment, and leaves a file.
const SHORT: &str = "cat >/dev/null\necho '10% begun' >&2\nsleep 0.2\nmkdir -p artifacts\necho made > artifacts/a.txt\n\
    echo '{\"success\":true,\"data\":{\"n\":1}}'\n";

#[test]
fn whatever_dies_or_stops_no_run_is_lost_doubled_or_left_behind() {
    if !postgres::installed("three services under load survive faults") {
        return;
    }
    let faults: usize = std::env::var("SEVERAL_FAULTS").ok().and_then(|count| count.parse().ok()).unwrap_or(6);
    let database = Postgres::start(&[]);
    let services = Services::on(database.url("chaos"));
    services.skill("short", SHORT, json!({}));
    let name = |at: usize| format!("n{at}");
    let nodes: Vec<RwLock<Service>> = (0..NODES).map(|at| RwLock::new(services.serve(&name(at)))).collect();
    let (runs, over, created) = (Mutex::new(Vec::new()), AtomicBool::new(false), AtomicUsize::new(0));
    std::thread::scope(|scope| {
        for client in 0..2 {
            let (nodes, runs, over, created) = (&nodes, &runs, &over, &created);
            scope.spawn(move || {
                for n in client.. {
                    if over.load(Ordering::Relaxed) {
                        return;
                    }
                    let address = nodes[n % NODES].read().unwrap().address();
                    let body = json!({"skill_id": "short", "runtime_options": {"no_cache": true}});
                    // One that was killed or is paused answers nothing, or refuses while its database is away.
                    let answer = Call::new(address, "POST", "/v1/jobs").json(&body).try_send();
                    if let Some(answer) = answer.filter(|answer| answer.status == 201) {
                        runs.lock().unwrap().push(answer.json()["run_id"].as_str().unwrap().to_owned());
                        created.fetch_add(1, Ordering::Relaxed);
                    }
                    std::thread::sleep(Duration::from_millis(150));
                }
            });
        }
        let mut dice = random::Random::seeded();
        for fault in 0..faults {
            // Under load: something was taken since the last fault.
            let before = created.load(Ordering::Relaxed);
            crate::crash::until("a run was created", || created.load(Ordering::Relaxed) > before + 2);
            let at = dice.below(NODES as u64) as usize;
            match fault % 3 {
                0 => {
                    let mut node = nodes[at].write().unwrap();
                    node.kill_9();
                    *node = services.serve(&name(at));
                }
                1 => {
                    let pid = nodes[at].read().unwrap().pid();
                    kill_process(pid, Signal::STOP).unwrap();
                    std::thread::sleep(Duration::from_secs(LEASE_SECONDS + 1));
                    kill_process(pid, Signal::CONT).unwrap();
                }
                _ => {
                    if dice.below(2) == 0 {
                        database.crash()
                    } else {
                        database.end()
                    }
                    database.run();
                }
            }
        }
        over.store(true, Ordering::Relaxed);
    });
    let nodes: Vec<Service> = nodes.into_iter().map(|node| node.into_inner().unwrap()).collect();
    let runs = runs.into_inner().unwrap();
    let mut ends = std::collections::BTreeMap::<String, usize>::new();
    for (n, run) in runs.iter().enumerate() {
        let events = nodes[n % NODES].finish(run);
        let seqs: Vec<u64> = events.iter().map(|event| event["seq"].as_u64().unwrap()).collect();
        assert_eq!(seqs, (1..=seqs.len() as u64).collect::<Vec<_>>(), "{run}");
        assert!(of_type(&events, "turn.started").len() <= 1, "{run} was worked on twice: {events:#?}");
        let end = &events.last().unwrap()["data"];
        let told = end["error"]["code"].as_str().or(end["status"].as_str()).unwrap_or_default().to_owned();
        *ends.entry(told).or_default() += 1;
        // Another service tells the same, and proves it.
        let other = &nodes[(n + 1) % NODES];
        assert_eq!(other.finish(run), events, "{run}");
        let audit: Value = other.get(&format!("/v1/jobs/{run}/audit")).json();
        assert_eq!(audit["ok"], true, "{run}: {audit:#}");
    }
    eprintln!("{faults} faults, {} runs: {ends:?}", runs.len());
    let known = ["succeeded", "ORCHESTRATOR_RESTART_INTERRUPTED"];
    assert!(ends.keys().all(|end| known.contains(&end.as_str())), "{ends:?}");
}
