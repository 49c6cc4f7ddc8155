//! The mixed work.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::Sample;
use crate::client::{Client, follow};
use crate::numbers::{ms, quantile};
use crate::service::{Service, run_files, store_bytes};

/// So many finished runs stay at each clean-up.
const KEPT: usize = 100;
const CLEAN_EVERY: Duration = Duration::from_secs(2);
const ASK_EVERY: Duration = Duration::from_millis(10);

pub struct Load<'a> {
    service: &'a Service,
    over: AtomicBool,
    finished: AtomicU64,
    /// Milliseconds of the requests of this second.
    latencies: Mutex<Vec<f64>>,
    failures: Mutex<Vec<String>>,
}

/// What one of the workers does again and again.
type Work = fn(&Load<'_>, &mut Client, &mut Dice);

/// Who works, and how many of them.
const WORKERS: [(Work, usize); 8] =
    [(script, 3), (conversation, 2), (cached, 2), (long_output, 1), (cancel, 1), (reader, 3), (history, 1), (clean, 1)];

impl<'a> Load<'a> {
    pub fn new(service: &'a Service) -> Load<'a> {
        Load {
            service,
            over: AtomicBool::new(false),
            finished: AtomicU64::new(0),
            latencies: Mutex::default(),
            failures: Mutex::default(),
        }
    }

    /// Works for this long; a sample for each second.
    pub fn carry_out(&self, duration: Duration) -> Vec<Sample> {
        std::thread::scope(|scope| {
            let works = WORKERS.iter().flat_map(|(work, count)| std::iter::repeat_n(work, *count));
            for (at, work) in works.enumerate() {
                scope.spawn(move || {
                    let (mut client, mut dice) = (self.service.client(), Dice(at as u64 + 1));
                    while !self.over() {
                        work(self, &mut client, &mut dice);
                    }
                });
            }
            scope.spawn(|| self.ask_all_the_time());
            let samples = self.sample_each_second(duration);
            self.over.store(true, Ordering::Relaxed);
            samples
        })
    }

    pub fn failures(&self) -> Vec<String> {
        self.failures.lock().unwrap().clone()
    }

    fn over(&self) -> bool {
        self.over.load(Ordering::Relaxed)
    }

    fn sample_each_second(&self, duration: Duration) -> Vec<Sample> {
        let began = Instant::now();
        let mut finished = 0;
        let mut samples = Vec::new();
        while began.elapsed() < duration {
            let next = Duration::from_secs(samples.len() as u64 + 1);
            std::thread::sleep(next.saturating_sub(began.elapsed()));
            let latencies = std::mem::take(&mut *self.latencies.lock().unwrap());
            let finished_now = self.finished.load(Ordering::Relaxed);
            let data = self.service.data();
            samples.push(Sample {
                second: began.elapsed().as_secs_f64(),
                memory: self.service.memory("VmRSS"),
                descriptors: std::fs::read_dir(self.service.proc("fd")).unwrap().count() as f64,
                threads: self.service.status("Threads"),
                store: store_bytes(&data) as f64 / 1e6,
                runs: run_files(&data).bytes as f64 / 1e6,
                p99: quantile(&latencies, 0.99),
                finished: (finished_now - finished) as f64,
            });
            finished = finished_now;
        }
        samples
    }

    /// Asks for the service's health and for a run that waits all the time.
    fn ask_all_the_time(&self) {
        let mut client = self.service.client();
        let waiting = self.ask(&mut client, "POST", "/v1/jobs?wait=60", Some(&question())).unwrap();
        let status = format!("/v1/jobs/{}", waiting["request_id"].as_str().unwrap());
        while !self.over() {
            for path in ["/healthz", &status] {
                let asked = Instant::now();
                self.ask(&mut client, "GET", path, None);
                self.latencies.lock().unwrap().push(ms(asked.elapsed()));
            }
            std::thread::sleep(ASK_EVERY);
        }
    }

    /// The answer to a request; `None` when the run is gone or no longer in the state for it, which a clean-up and
    /// a cancel bring about.
    fn ask(&self, client: &mut Client, method: &str, path: &str, body: Option<&Value>) -> Option<Value> {
        let (status, bytes) = client.send(method, path, body);
        match status {
            200..300 => Some(serde_json::from_slice(&bytes).unwrap()),
            404 | 409 | 410 => None,
            _ => {
                let failure = format!("{method} {path}: {status} {}", String::from_utf8_lossy(&bytes));
                self.failures.lock().unwrap().push(failure);
                None
            }
        }
    }

    /// Creates a run and waits for its end, which must be a success.
    fn run(&self, client: &mut Client, skill: &str, no_cache: bool) {
        let body = json!({"skill_id": skill, "runtime_options": {"no_cache": no_cache}});
        let Some(job) = self.ask(client, "POST", "/v1/jobs?wait=300", Some(&body)) else { return };
        self.finished.fetch_add(1, Ordering::Relaxed);
        if job["status"] != "succeeded" {
            self.failures.lock().unwrap().push(job.to_string());
        }
    }

    /// One of the newest runs.
    fn some_run(&self, client: &mut Client, dice: &mut Dice) -> Option<String> {
        let page = self.ask(client, "GET", "/v1/jobs?limit=20", None)?;
        let jobs = page["jobs"].as_array()?;
        let job = jobs.get(dice.below(jobs.len().max(1)))?;
        Some(job["request_id"].as_str()?.to_owned())
    }
}

fn question() -> Value {
    json!({"skill_id": "ask", "engine": "codex", "runtime_options": {"execution_mode": "interactive"}})
}

fn script(load: &Load<'_>, client: &mut Client, dice: &mut Dice) {
    load.run(client, "noop", true);
    dice.pause(20);
}

fn cached(load: &Load<'_>, client: &mut Client, dice: &mut Dice) {
    load.run(client, "cached", false);
    dice.pause(20);
}

fn long_output(load: &Load<'_>, client: &mut Client, dice: &mut Dice) {
    load.run(client, if dice.below(2) == 0 { "steps" } else { "talk" }, true);
    dice.pause(400);
}

/// Asks, is answered and ends; or is canceled while it waits.
fn conversation(load: &Load<'_>, client: &mut Client, dice: &mut Dice) {
    let Some(job) = load.ask(client, "POST", "/v1/jobs?wait=60", Some(&question())) else { return };
    let id = job["request_id"].as_str().unwrap();
    dice.pause(50);
    if dice.below(3) == 0 {
        load.ask(client, "POST", &format!("/v1/jobs/{id}/cancel"), None);
        return;
    }
    let reply = json!({"interaction_id": job["pending_interaction_id"], "response": "Ann"});
    load.ask(client, "POST", &format!("/v1/jobs/{id}/interaction/reply"), Some(&reply));
    follow(&load.service.address, &format!("/v1/jobs/{id}/events"), |_| true);
    load.finished.fetch_add(1, Ordering::Relaxed);
}

fn cancel(load: &Load<'_>, client: &mut Client, dice: &mut Dice) {
    let body = json!({"skill_id": "hang", "runtime_options": {"no_cache": true}});
    let Some(created) = load.ask(client, "POST", "/v1/jobs", Some(&body)) else { return };
    let id = created["request_id"].as_str().unwrap();
    dice.pause(300);
    load.ask(client, "POST", &format!("/v1/jobs/{id}/cancel"), None);
    follow(&load.service.address, &format!("/v1/jobs/{id}/events"), |_| true);
}

/// Follows a run for some lines and leaves.
fn reader(load: &Load<'_>, client: &mut Client, dice: &mut Dice) {
    let Some(id) = load.some_run(client, dice) else { return };
    let mut left = dice.below(2_000);
    let until = Instant::now() + Duration::from_secs(1);
    follow(&load.service.address, &format!("/v1/jobs/{id}/events"), |_| {
        left = left.saturating_sub(1);
        left > 0 && Instant::now() < until && !load.over()
    });
    dice.pause(50);
}

fn history(load: &Load<'_>, client: &mut Client, dice: &mut Dice) {
    let Some(id) = load.some_run(client, dice) else { return };
    let path = format!("/v1/jobs/{id}/events/history?limit={}", 1 + dice.below(1_000));
    load.ask(client, "GET", &path, None);
    dice.pause(20);
}

fn clean(load: &Load<'_>, client: &mut Client, _: &mut Dice) {
    load.ask(client, "POST", "/v1/jobs/cleanup", Some(&json!({"keep_last": KEPT})));
    let until = Instant::now() + CLEAN_EVERY;
    while Instant::now() < until && !load.over() {
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// Numbers that look random and are the same each time (xorshift).
struct Dice(u64);

impl Dice {
    fn below(&mut self, end: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 16) as usize % end
    }

    /// Sleeps for less than so many milliseconds.
    fn pause(&mut self, ms: usize) {
        std::thread::sleep(Duration::from_millis(self.below(ms) as u64));
    }
}
