//! Ten times as many requests as runs can be done: how fast are refusals and status meanwhile, and is all well afterwards.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::figure::Figure;
use crate::numbers::{ms, quantile};
use crate::service::Service;
use crate::setup::{Setup, at_once, timed, until};

const CLIENTS: usize = 32;
const TIMES: f64 = 10.0;

/// What one phase took, in milliseconds each.
#[derive(Default)]
struct Times {
    status: Vec<f64>,
    accepted: Vec<f64>,
    refused: Vec<f64>,
}

pub fn overload(setup: &Setup<'_>) -> Vec<Figure> {
    let service = setup.serve(&[("max_running_jobs", "8"), ("max_queued_jobs", "64")]);
    let body = json!({"skill_id": "noop", "runtime_options": {"no_cache": true}});
    let done = service.client().json("POST", "/v1/jobs?wait=60", Some(&body));
    let status = format!("/v1/jobs/{}", done["run_id"].as_str().unwrap());

    let calm = |rounds: usize| {
        let mut client = service.client();
        let status = timed(rounds * 5, || drop(client.json("GET", &status, None)));
        let mut accepted = Vec::new();
        for _ in 0..rounds {
            accepted.extend(timed(1, || drop(client.json("POST", "/v1/jobs", Some(&body)))));
            // One at a time: a machine that is busy otherwise would refuse more, and this is the calm.
            until("the run is over", Duration::from_secs(120), || waiting(&service) == 0);
        }
        Times { status, accepted, refused: Vec::new() }
    };
    let rounds = setup.count(200, 50);
    let before = calm(rounds);
    let per_second = capacity(&service, &body, setup.count(400, 100));
    let offered = per_second * TIMES;
    let during = crowd(&service, &body, &status, offered, Duration::from_secs(setup.count(20, 4) as u64));
    let began = Instant::now();
    until("all accepted work is done", Duration::from_secs(120), || waiting(&service) == 0);
    let recovered = began.elapsed();
    let after = calm(rounds);

    let p99 = |what: &str, when: &str, times: &[f64]| {
        Figure::new(format!("{what}, {when} the overload, p99"), "ms", quantile(times, 0.99)).note(format!(
            "median {:.1}, {} of them",
            quantile(times, 0.5),
            times.len()
        ))
    };
    vec![
        p99("status", "before", &before.status),
        p99("status", "during", &during.status),
        p99("status", "after", &after.status),
        p99("create", "before", &before.accepted),
        p99("create", "during", &during.accepted),
        p99("create", "after", &after.accepted),
        p99("refusal with 429", "during", &during.refused).at_most(50.0),
        Figure::new("recovery after the overload", "ms", ms(recovered))
            .note(format!("{offered:.0} requests/s were offered, {per_second:.0} runs/s can be done")),
    ]
}

/// Runs that the service can do in a second.
fn capacity(service: &Service, body: &Value, runs: usize) -> f64 {
    let each = runs / 16;
    let seconds = at_once(16, || {
        let mut client = service.client();
        (0..each).for_each(|_| drop(client.json("POST", "/v1/jobs?wait=60", Some(body))));
    });
    (each * 16) as f64 / seconds
}

/// Clients that send so many requests a second whatever the answers are, and one that asks for a status.
fn crowd(service: &Service, body: &Value, status: &str, per_second: f64, lasts: Duration) -> Times {
    let (times, over) = (Mutex::new(Times::default()), AtomicBool::new(false));
    let pause = Duration::from_secs_f64(CLIENTS as f64 / per_second);
    std::thread::scope(|scope| {
        let asking = scope.spawn(|| {
            let mut client = service.client();
            let mut took = Vec::new();
            while !over.load(Ordering::Relaxed) {
                took.extend(timed(1, || drop(client.json("GET", status, None))));
                std::thread::sleep(Duration::from_millis(5));
            }
            took
        });
        at_once(CLIENTS, || {
            let mut client = service.client();
            let (mut accepted, mut refused) = (Vec::new(), Vec::new());
            let (end, mut next) = (Instant::now() + lasts, Instant::now());
            while Instant::now() < end {
                std::thread::sleep(next.saturating_duration_since(Instant::now()));
                next += pause;
                let began = Instant::now();
                let (code, answer) = client.send("POST", "/v1/jobs", Some(body));
                match code {
                    201 => accepted.push(ms(began.elapsed())),
                    429 => refused.push(ms(began.elapsed())),
                    _ => panic!("{code} {}", String::from_utf8_lossy(&answer)),
                }
            }
            let mut times = times.lock().unwrap();
            times.accepted.extend(accepted);
            times.refused.extend(refused);
        });
        over.store(true, Ordering::Relaxed);
        times.lock().unwrap().status = asking.join().unwrap();
    });
    times.into_inner().unwrap()
}

/// Runs that wait or run.
fn waiting(service: &Service) -> u64 {
    let sizes = service.client().json("GET", "/v1/system", None);
    let count = |name: &str| sizes.pointer(name).and_then(Value::as_u64).unwrap();
    count("/queue/queued") + count("/queue/running")
}
