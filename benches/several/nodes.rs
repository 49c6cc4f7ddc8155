//! One service on PostgreSQL beside one on the embedded store, and several services on one machine.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use serde_json::json;

use crate::numbers::median;
use crate::service::Service;
use crate::{Bench, compared, row};

pub const LINES: usize = 50_000;
const CLIENTS: usize = 16;
const CROWD: usize = 64;

/// Runs a skill to its end by so many clients, spread over the services; runs a second.
pub fn rate(services: &[Service], clients: usize, each: usize, body: &serde_json::Value) -> f64 {
    let next = AtomicUsize::new(0);
    let began = Instant::now();
    std::thread::scope(|scope| {
        for _ in 0..clients {
            scope.spawn(|| {
                let at = next.fetch_add(1, Ordering::Relaxed);
                let mut client = services[at % services.len()].client();
                for _ in 0..each {
                    let job = client.json("POST", "/v1/jobs?wait=60", Some(body));
                    assert_eq!(job["status"], "succeeded", "{job}");
                }
            });
        }
    });
    (clients * each) as f64 / began.elapsed().as_secs_f64()
}

pub fn one(bench: &Bench) {
    let noop = json!({"skill_id": "noop", "runtime_options": {"no_cache": true}});
    let cached = json!({"skill_id": "noop"});
    let progress = json!({"skill_id": "progress", "runtime_options": {"no_cache": true}});
    let url = bench.url();
    let (database, embedded) = ([bench.serve(&[("store", &url)])], [bench.serve(&[])]);
    let (rounds, each) = (bench.count(4, 2), bench.count(15, 4));
    for services in [&database, &embedded] {
        rate(services, 4, 3, &noop);
        rate(services, 1, 1, &cached);
    }
    let of = |services: &[Service], clients: usize, each: usize, body| rate(services, clients, each, body);
    compared(
        "trivial runs, 16 clients, one service on PostgreSQL",
        "/s",
        "embedded store",
        rounds,
        || of(&database, CLIENTS, each, &noop),
        || of(&embedded, CLIENTS, each, &noop),
    );
    compared(
        "trivial runs, one after the other",
        "/s",
        "embedded store",
        rounds,
        || of(&database, 1, each * 2, &noop),
        || of(&embedded, 1, each * 2, &noop),
    );
    compared(
        "cached hits, 32 clients",
        "/s",
        "embedded store",
        rounds,
        || of(&database, 32, each * 3, &cached),
        || of(&embedded, 32, each * 3, &cached),
    );
    let lines = LINES as f64;
    compared(
        "lines as an event each",
        "lines/s",
        "embedded store",
        rounds,
        || lines * of(&database, 1, 1, &progress),
        || lines * of(&embedded, 1, 1, &progress),
    );
}

/// Services that share a database and a folder.
pub fn cluster(bench: &Bench, count: usize) -> Vec<Service> {
    let (url, shared) = (bench.url(), tempfile::tempdir_in(bench.folder.path()).unwrap().keep());
    let shared = shared.to_str().unwrap().to_owned();
    let node = |at: usize| {
        let name = format!("node-{at}");
        bench.serve(&[("store", &url), ("blobs", &shared), ("node_name", &name)])
    };
    (0..count).map(node).collect()
}

pub fn several(bench: &Bench) {
    let noop = json!({"skill_id": "noop", "runtime_options": {"no_cache": true}});
    let (rounds, each) = (bench.count(4, 2), bench.count(12, 3));
    let clusters = [1, 2, 4].map(|count| cluster(bench, count));
    for services in &clusters {
        rate(services, services.len() * 2, 2, &noop);
    }
    // With few clients the machine waits for the disk; with many it is the limit itself.
    for clients in [CLIENTS, CROWD] {
        let mut rates = [const { Vec::new() }; 3];
        for round in 0..rounds {
            let order = if round % 2 == 0 { [0, 1, 2] } else { [2, 1, 0] };
            for at in order {
                rates[at].push(rate(&clusters[at], clients, each, &noop));
            }
        }
        let [one, two, four] = rates.map(|rates| median(&rates));
        row(&format!("trivial runs, {clients} clients, two services"), "/s", "one of several", two, one);
        row(&format!("trivial runs, {clients} clients, four services"), "/s", "one of several", four, one);
    }
}
