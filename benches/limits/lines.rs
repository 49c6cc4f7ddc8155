//! Runs of many lines: how fast they become events, how fast one line reaches a reader, and the history of it all.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use serde_json::{Value, json};

use crate::client::follow;
use crate::figure::Figure;
use crate::machine;
use crate::numbers::{median, quantile};
use crate::service::Service;
use crate::setup::{Setup, timed, until};

/// Runs of many lines, watched by somebody who asks for another run meanwhile; then the history of the last.
pub fn lines(setup: &Setup<'_>) -> Vec<Figure> {
    let service = setup.serve(&[]);
    let other = service.run(&mut service.client(), "noop")["request_id"].as_str().unwrap().to_owned();
    let rate = |seconds: f64| Setup::LINES as f64 / seconds;
    let rounds = setup.count(3, 1);
    let (mut figures, mut waits, mut last, mut events_rate) = (Vec::new(), Vec::new(), Value::Null, 0.0);
    for (what, skill, part) in [("raw text", "plain", None), ("an event each", "progress", Some(0.5))] {
        let (mut limits, mut rates) = (Vec::new(), Vec::new());
        for _ in 0..rounds {
            limits.push(rate(machine::pipe_to_file(&setup.script(skill), &setup.folder)));
            let (job, seconds) = watched(&service, &other, &mut waits, || service.run(&mut service.client(), skill));
            rates.push(rate(seconds));
            last = job;
        }
        let limit = median(&limits);
        events_rate = median(&rates);
        figures.push(
            Figure::new(format!("100 000 lines as {what}"), "lines/s", events_rate)
                .limit("pipe → file", limit)
                .at_least(part.map_or(50_000.0, |part| part * limit)),
        );
    }
    // What the disk takes at best for what is to be written: the events, not the lines.
    let sealed = sealed_log(&service, &last);
    let copy = setup.folder.join("copy.sh");
    fs::write(&copy, format!("cat '{}' >&2", sealed.display())).unwrap();
    let limit = rate(median(&timed(rounds, || _ = machine::pipe_to_file(&copy, &setup.folder))) / 1e3);
    figures.push(
        Figure::new("the same, beside the bytes of its events", "lines/s", events_rate).limit("pipe → file", limit),
    );
    figures.push(Figure::new("peak memory meanwhile", "MB", service.memory("VmHWM")).at_most(150.0));
    figures.push(
        Figure::new("another run's status meanwhile, p99", "ms", quantile(&waits, 0.99)).at_most(20.0).note(format!(
            "asked {} times, longest {:.1} ms",
            waits.len(),
            quantile(&waits, 1.0)
        )),
    );
    figures.push(history(&service, &last));
    figures
}

/// Does something and asks for another run meanwhile; what it gave, and the seconds it took.
fn watched(service: &Service, other: &str, waits: &mut Vec<f64>, action: impl FnOnce() -> Value) -> (Value, f64) {
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let asking = scope.spawn(|| {
            let mut client = service.client();
            let mut waits = Vec::new();
            while !done.load(Ordering::Relaxed) {
                waits.extend(timed(1, || drop(client.json("GET", &format!("/v1/jobs/{other}"), None))));
                std::thread::sleep(Duration::from_millis(2));
            }
            waits
        });
        let began = Instant::now();
        let value = action();
        let seconds = began.elapsed().as_secs_f64();
        done.store(true, Ordering::Relaxed);
        waits.extend(asking.join().unwrap());
        (value, seconds)
    })
}

/// Waits until the log of a finished run is a file.
fn sealed_log(service: &Service, job: &Value) -> PathBuf {
    let sealed = service.data().join("runs").join(job["run_id"].as_str().unwrap()).join("logs/events.jsonl");
    until("the log is sealed", Duration::from_secs(30), || sealed.exists());
    sealed
}

fn history(service: &Service, job: &Value) -> Figure {
    let run = job["run_id"].as_str().unwrap();
    let events = job["head_seq"].as_u64().unwrap() as f64;
    let fetch = || {
        let mut stream = TcpStream::connect(&service.address).unwrap();
        let head = format!(
            "GET /v1/jobs/{run}/events/history HTTP/1.1\r\nHost: {}\r\nAccept: application/x-ndjson\r\nConnection: close\r\n\r\n",
            service.address
        );
        stream.write_all(head.as_bytes()).unwrap();
        let mut body = Vec::with_capacity(64 << 20);
        stream.read_to_end(&mut body).unwrap();
        body
    };
    let sealed = sealed_log(service, job);
    let size = fs::metadata(&sealed).unwrap().len();
    assert!(fetch().len() as u64 >= size, "the whole history came");
    // Each time into memory that was never used, as the body of an answer is.
    let read = median(&timed(7, || assert!(!fs::read(&sealed).unwrap().is_empty())));
    let fetched = median(&timed(7, || drop(fetch())));
    let rate = |ms: f64| events / ms * 1e3;
    Figure::new("history", "events/s", rate(fetched)).limit("reading the file", rate(read)).at_least(500_000.0)
}

/// How long a line takes from the engine to a reader: the script says when it wrote it.
pub fn live(setup: &Setup<'_>) -> Vec<Figure> {
    let body = json!({"skill_id": "emit", "runtime_options": {"no_cache": true}});
    let names = ["live line to reader, p50", "live line to reader, p95"];
    to_reader(setup, &setup.serve(&[]), &body, names, [2.5, 5.0])
}

/// How many lines are written, one each 20 ms.
pub fn paced(setup: &Setup<'_>) -> usize {
    setup.count(250, 50)
}

/// Starts a run that says when it writes each line, and reads its events: p50 and p95.
pub fn to_reader(
    setup: &Setup<'_>,
    service: &Service,
    body: &Value,
    names: [&'static str; 2],
    most: [f64; 2],
) -> Vec<Figure> {
    let created = service.client().json("POST", "/v1/jobs", Some(body));
    let mut delays = Vec::new();
    follow(&service.address, &format!("/v1/jobs/{}/events", created["run_id"].as_str().unwrap()), |line| {
        let sent = line.strip_prefix("data:").and_then(|data| data.split_once("sent ")).map(|(_, rest)| rest);
        if let Some(sent) = sent.and_then(|rest| rest.split_once(';')).and_then(|(sent, _)| sent.parse::<u128>().ok()) {
            delays.push((now_nanos() - sent) as f64 / 1e6);
        }
        true
    });
    assert_eq!(delays.len(), paced(setup), "each line came once");
    let bare = machine::paced_lines(&setup.folder, paced(setup));
    let figure = |at: usize, part| {
        Figure::new(names[at], "ms", quantile(&delays, part))
            .limit("barely, two fdatasyncs", quantile(&bare, part))
            .at_most(most[at])
    };
    vec![figure(0, 0.5), figure(1, 0.95)]
}

pub fn now_nanos() -> u128 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_nanos()
}

/// What the skill `emit` runs: a line each 20 ms that tells when it was written.
pub fn emit(lines: usize) {
    for at in 0..lines {
        std::thread::sleep(Duration::from_millis(20));
        // One write, so that it arrives as one line.
        let line = format!("{}% sent {};\n", at * 100 / lines, now_nanos());
        std::io::stderr().write_all(line.as_bytes()).unwrap();
    }
}
