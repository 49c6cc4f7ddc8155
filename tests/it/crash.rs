//! The service is killed with -9 at random moments under load: nothing a client saw is gone or changed.

use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use skill_runner::domain::cache_key::sha256_hex;
use skill_runner::domain::fact::Stream;
use skill_runner::domain::outcome::StreamProof;
use skill_runner::fcmp::audit::{Auditor, Expect};

use crate::support::random::Random;
use crate::support::{LONG, program, script_skill};

const ROUNDS: u64 = 100;
const CREATORS: usize = 3;
const READERS: usize = 3;
/// One service in so many dies at any moment after its start; the others have taken a run before.
const UNTRIED: u64 = 5;

/// What clients were told, by run: the bytes of each event they saw.
type Seen = Arc<Mutex<HashMap<String, BTreeMap<u64, Vec<u8>>>>>;

#[test]
fn kill_9_at_any_moment_loses_nothing_that_was_seen() {
    kill_9(ROUNDS, None);
}

/// Kills the service that many times, on the embedded store or on the one that is named, and looks at every run.
pub fn kill_9(rounds: u64, store: Option<&str>) {
    let folder = tempfile::tempdir().unwrap();
    write_skills(&folder.path().join("skills"));
    let mut random = Random::seeded();
    let seen: Seen = Seen::default();
    let mut slowest = Duration::ZERO;
    for round in 0..rounds {
        let policy = if round % 2 == 0 { "fail" } else { "requeue" };
        let started = Instant::now();
        let mut server = Server::start_on(folder.path(), policy, store);
        slowest = slowest.max(started.elapsed());
        let stop = Arc::new(AtomicBool::new(false));
        let (taken, first) = mpsc::channel();
        let load = load(&server.address, &seen, &stop, &taken);
        drop(taken);
        let moment = Duration::from_millis(random.below(250));
        if round % UNTRIED != 0 {
            first.recv_timeout(LONG).expect("a run is taken");
        }
        // The moment of the kill is the random part of the test, not a wait for something.
        std::thread::sleep(moment);
        server.child.kill().unwrap();
        server.child.wait().unwrap();
        stop.store(true, Ordering::Relaxed);
        load.into_iter().for_each(|thread| thread.join().unwrap());
        // An engine dies with its service; the shim sees to it, in its own time.
        until("no process outlives the service", || processes_of(folder.path()).is_empty());
    }
    let server = Server::start_on(folder.path(), "requeue", store);
    let runs = all_runs(&server.address);
    let seen = seen.lock().unwrap();
    let system = get(&server.address, "/v1/system");
    assert_eq!(system["store"]["trouble"], Value::Null, "no folder is left without its row");
    eprintln!("{rounds} kills, {} runs, {} of them seen by readers, slowest start {slowest:?}", runs.len(), seen.len());
    assert!(seen.len() as u64 >= rounds - rounds / UNTRIED, "there was load: {}", seen.len());
    for run in seen.keys() {
        assert!(runs.contains(run), "run {run} was acknowledged and is gone");
    }
    for run in &runs {
        until("every run ends", || {
            let job = get(&server.address, &format!("/v1/jobs/{run}"));
            matches!(job["status"].as_str().unwrap(), "succeeded" | "failed" | "canceled")
                || job["awaiting_upload"] == true
        });
        let history = history(&server.address, run);
        for (seq, bytes) in seen.get(run).into_iter().flatten() {
            let now = history.get(usize::try_from(*seq).unwrap() - 1);
            assert_eq!(now.map(Vec::as_slice), Some(bytes.as_slice()), "event {seq} of {run}");
        }
        audit(folder.path(), run, &history);
    }
    assert!(slowest < LONG, "a start took {slowest:?}");
}

/// The program as a service of its own, which can be killed.
pub struct Server {
    pub child: Child,
    pub address: String,
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Server {
    pub fn start(folder: &Path, restart_queued: &str) -> Self {
        Self::start_on(folder, restart_queued, None)
    }

    /// With another store than the embedded one.
    pub fn start_on(folder: &Path, restart_queued: &str, store: Option<&str>) -> Self {
        let mut child = program()
            .envs(store.map(|store| ("SKILL_RUNNER_STORE", store)))
            .args(["serve", "--port", "0", "--data-dir", "data", "--skills-dir", "skills"])
            .env("SKILL_RUNNER_RESTART_QUEUED", restart_queued)
            .env("SKILL_RUNNER_MAX_RUNNING_JOBS", "3")
            .env("SKILL_RUNNER_SEAL_GRACE_SECONDS", "1")
            .env("LOG_LEVEL", "error")
            .current_dir(folder)
            .stdout(Stdio::piped())
            .stderr(Stdio::inherit())
            .spawn()
            .unwrap();
        let mut output = BufReader::new(child.stdout.take().unwrap());
        let mut line = String::new();
        while !line.contains("http://") {
            line.clear();
            assert_ne!(output.read_line(&mut line).unwrap(), 0, "the server ended");
        }
        let address = line.split("http://").nth(1).unwrap().trim().trim_end_matches('/').to_owned();
        Self { child, address }
    }
}

fn write_skills(folder: &Path) {
    let answer = r#"printf '{"success":true,"data":{}}\n'"#;
    let steps = format!("for i in 1 2 3 4 5 6 7 8 9; do echo \"${{i}}0% step\" >&2; echo plain >&2; done\n{answer}\n");
    // A run with a child that has left its session, to see that it goes too.
    let stray = format!("setsid sleep 300 &\necho '5% begun' >&2\nsleep 0.1\n{answer}\n");
    for (id, script) in [("quick", format!("{answer}\n")), ("steps", steps), ("stray", stray)] {
        script_skill(folder, id, &script, json!({}));
    }
}

/// Clients that create runs, follow them and cancel some, until the service dies under them. They tell of each run
/// that was taken.
fn load(
    address: &str,
    seen: &Seen,
    stop: &Arc<AtomicBool>,
    taken: &mpsc::Sender<()>,
) -> Vec<std::thread::JoinHandle<()>> {
    let created: Arc<Mutex<Vec<String>>> = Arc::default();
    let turn = Arc::new(AtomicU64::new(0));
    let creators = (0..CREATORS).map(|_| {
        let (address, seen, stop, created, turn, taken) =
            (address.to_owned(), seen.clone(), stop.clone(), created.clone(), turn.clone(), taken.clone());
        std::thread::spawn(move || {
            while !stop.load(Ordering::Relaxed) {
                let number = turn.fetch_add(1, Ordering::Relaxed);
                let skill = ["quick", "steps", "stray"][usize::try_from(number % 3).unwrap()];
                // Most make their own result; the others share one, and are killed while they follow or take it.
                let body = json!({"skill_id": skill, "runtime_options": {"no_cache": number % 5 != 0}});
                let Some(answer) = try_post(&address, "/v1/jobs", &body) else { return };
                if let Some(run) = answer["run_id"].as_str() {
                    seen.lock().unwrap().entry(run.to_owned()).or_default();
                    created.lock().unwrap().push(run.to_owned());
                    // Nobody waits for the later ones.
                    let _ = taken.send(());
                    if number % 7 == 0 {
                        let _ = try_post(&address, &format!("/v1/jobs/{run}/cancel"), &json!({}));
                    }
                }
            }
        })
    });
    let mut threads: Vec<_> = creators.collect();
    for _ in 0..READERS {
        let (address, seen, stop, created) = (address.to_owned(), seen.clone(), stop.clone(), created.clone());
        threads.push(std::thread::spawn(move || {
            while !stop.load(Ordering::Relaxed) {
                let next = created.lock().unwrap().pop();
                match next {
                    Some(run) => follow(&address, &run, &seen),
                    None => std::thread::yield_now(),
                }
            }
        }));
    }
    threads
}

/// Record every whole event of a feed until it ends or breaks.
fn follow(address: &str, run: &str, seen: &Seen) {
    let Ok(mut stream) = TcpStream::connect(address) else { return };
    let head = format!("GET /v1/jobs/{run}/events HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n");
    if stream.write_all(head.as_bytes()).is_err() {
        return;
    }
    let mut id = None;
    for line in BufReader::new(stream).split(b'\n') {
        let Ok(line) = line else { return };
        if let Some(text) = line.strip_prefix(b"id: ") {
            id = std::str::from_utf8(text).unwrap().trim().parse::<u64>().ok();
        } else if let (Some(seq), Some(data)) = (id, line.strip_prefix(b"data: ")) {
            // A line cut by the kill does not end in the event's last brace and newline; only whole ones count.
            if serde_json::from_slice::<Value>(data).is_ok() {
                seen.lock().unwrap().entry(run.to_owned()).or_default().insert(seq, data.to_vec());
            }
            id = None;
        }
    }
}

fn agent() -> ureq::Agent {
    ureq::Agent::config_builder().http_status_as_error(false).timeout_global(Some(LONG)).build().into()
}

fn try_post(address: &str, path: &str, body: &Value) -> Option<Value> {
    let answer = agent()
        .post(format!("http://{address}{path}"))
        .header("Content-Type", "application/json")
        .send(body.to_string())
        .ok()?;
    serde_json::from_str(&answer.into_body().read_to_string().ok()?).ok()
}

pub fn get(address: &str, path: &str) -> Value {
    let answer = agent().get(format!("http://{address}{path}")).call().unwrap();
    serde_json::from_str(&answer.into_body().read_to_string().unwrap()).unwrap()
}

fn all_runs(address: &str) -> Vec<String> {
    let mut runs = Vec::new();
    let mut before = String::new();
    loop {
        let page = get(address, &format!("/v1/jobs?limit=500{before}"));
        runs.extend(page["jobs"].as_array().unwrap().iter().map(|job| job["run_id"].as_str().unwrap().to_owned()));
        match page["next_before"].as_str() {
            Some(next) => before = format!("&before={next}"),
            None => return runs,
        }
    }
}

fn history(address: &str, run: &str) -> Vec<Vec<u8>> {
    let answer = agent()
        .get(format!("http://{address}/v1/jobs/{run}/events/history"))
        .header("Accept", "application/x-ndjson")
        .call()
        .unwrap();
    let mut bytes = Vec::new();
    answer.into_body().into_reader().read_to_end(&mut bytes).unwrap();
    bytes.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()).map(<[u8]>::to_vec).collect()
}

fn audit(folder: &Path, run: &str, history: &[Vec<u8>]) {
    let mut auditor = Auditor::default();
    history.iter().for_each(|event| auditor.push(event));
    let logs = folder.join("data/runs").join(run).join("logs");
    let proof = |path: PathBuf| {
        let bytes = fs::read(path).unwrap_or_default();
        StreamProof { bytes: bytes.len() as u64, sha256: sha256_hex(&bytes) }
    };
    let files = BTreeMap::from([
        (Stream::Stdout, proof(logs.join("stdout.txt"))),
        (Stream::Stderr, proof(logs.join("stderr.txt"))),
    ]);
    assert_eq!(auditor.finish(&files, Expect::Final), vec![], "run {run}");
}

/// Processes that work in the data folder.
fn processes_of(folder: &Path) -> Vec<u32> {
    let data = folder.join("data");
    let works_there = |pid: u32| {
        let place = fs::read_link(format!("/proc/{pid}/cwd")).is_ok_and(|cwd| cwd.starts_with(&data));
        let marked = fs::read(format!("/proc/{pid}/environ")).is_ok_and(|environ| {
            let text = String::from_utf8_lossy(&environ);
            text.contains("SKILL_RUNNER_RUN_ID=") && text.contains(data.to_str().unwrap())
        });
        place || marked
    };
    let all = fs::read_dir("/proc").unwrap().flatten();
    let pids = all.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    pids.filter(|pid| works_there(*pid)).collect()
}

/// Waits for something that can only be looked at.
pub fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let deadline = Instant::now() + LONG;
    while !holds() {
        assert!(Instant::now() < deadline, "in vain: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}
