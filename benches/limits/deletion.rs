//! A run of a million events leaves the store; three such runs are cleaned up, and the store is small again.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::figure::{Figure, number};
use crate::numbers::{median, ms};
use crate::service::{Service, store_bytes};
use crate::setup::{Setup, timed};

/// Runs that stay when all else is cleaned up.
const KEPT: usize = 20;
const GRACE: (&str, &str) = ("seal_grace_seconds", "1");

pub fn deletion(setup: &Setup<'_>) -> Vec<Figure> {
    let live = live_bytes(setup);
    let service = setup.serve(&[GRACE]);
    let other = service.run(&mut service.client(), "noop")["request_id"].as_str().unwrap().to_owned();
    let big = service.run(&mut service.client(), "million");
    let run = big["run_id"].as_str().unwrap().to_owned();
    let size = |service: &Service| store_bytes(&service.data()) as f64 / 1e6;

    // The events leave the store after the grace time.
    let before = size(&service);
    service.forget_peak();
    let ((), longest) = service_while(&service, &other, || service.settle());
    let (peak, after) = (service.memory("VmHWM"), size(&service));
    let page = page_ms(&service, &run, setup);

    // Two more, the last of which is cleaned up while its events are in the store, and some that stay.
    (0..2).for_each(|_| drop(service.run(&mut service.client(), "million")));
    let mut kept = (0..KEPT).map(|_| service.run(&mut service.client(), "noop"));
    let other = kept.next().unwrap()["request_id"].as_str().unwrap().to_owned();
    kept.for_each(drop);
    let (cleaned, longest_cleaning) = service_while(&service, &other, || {
        let cleaned = service.client().json("POST", "/v1/jobs/cleanup", Some(&json!({"keep_last": KEPT})));
        service.settle();
        cleaned
    });
    assert!(cleaned["runs_deleted"].as_u64() >= Some(4), "{cleaned}");
    // Those that were created meanwhile.
    service.client().json("POST", "/v1/jobs/cleanup", Some(&json!({"keep_last": KEPT})));
    service.settle();
    let rests_at = service.memory("VmRSS");
    service.stop();
    let again = setup.serve(&[GRACE]);
    let start = again.started_in.as_secs_f64();
    again.settle();

    let events = number(setup.million() as f64);
    vec![
        Figure::new(format!("{events} events leave the store, longest request"), "ms", longest).at_most(100.0),
        Figure::new("peak memory meanwhile", "MB", peak).at_most(150.0),
        Figure::new("store after it", "MB", after).at_most(before / 2.0).note(format!("{before:.0} MB before")),
        Figure::new(format!("a page of 1 000 at {events} events"), "ms", page).at_most(2.5),
        Figure::new("three such runs cleaned up, longest request", "ms", longest_cleaning).at_most(100.0),
        Figure::new("resident afterwards", "MB", rests_at).at_most(150.0),
        Figure::new("store after a restart", "MB", size(&again))
            .limit("a new store of the same runs", live)
            .at_most(2.0 * live),
        Figure::new("start after it", "s", start).at_most(0.1),
    ]
}

/// MB of a store that never held anything but the runs that stay.
fn live_bytes(setup: &Setup<'_>) -> f64 {
    let fresh = Setup::new(setup.program, setup.folder.join("fresh"), setup.quick);
    let service = fresh.serve(&[GRACE]);
    (0..KEPT).for_each(|_| drop(service.run(&mut service.client(), "noop")));
    service.settle();
    service.stop();
    let again = fresh.serve(&[GRACE]);
    again.settle();
    store_bytes(&again.data()) as f64 / 1e6
}

/// Does something, and all the time asks for a run's status and for the service's health and creates runs; what it
/// gave, and the milliseconds of the longest request.
fn service_while<T>(service: &Service, run: &str, action: impl FnOnce() -> T) -> (T, f64) {
    let done = AtomicBool::new(false);
    let status = format!("/v1/jobs/{run}");
    let create = json!({"skill_id": "noop", "runtime_options": {"no_cache": true}});
    let ask = |method: &str, path: &str, body: Option<&Value>, pause: u64| {
        let mut client = service.client();
        let mut longest = Duration::ZERO;
        while !done.load(Ordering::Relaxed) {
            let asked = Instant::now();
            client.json(method, path, body);
            longest = longest.max(asked.elapsed());
            std::thread::sleep(Duration::from_millis(pause));
        }
        longest
    };
    std::thread::scope(|scope| {
        let asking = [
            scope.spawn(|| ask("GET", &status, None, 5)),
            scope.spawn(|| ask("GET", "/healthz", None, 5)),
            scope.spawn(|| ask("POST", "/v1/jobs", Some(&create), 100)),
        ];
        let value = action();
        done.store(true, Ordering::Relaxed);
        let longest = asking.into_iter().map(|asking| asking.join().unwrap()).max().unwrap();
        (value, ms(longest))
    })
}

/// Milliseconds of a page from the middle of the log.
fn page_ms(service: &Service, run: &str, setup: &Setup<'_>) -> f64 {
    let path = format!("/v1/jobs/{run}/events/history?from_seq={}", setup.million() / 2);
    let mut client = service.client();
    median(&timed(50, || assert_eq!(client.send("GET", &path, None).0, 200)))
}
