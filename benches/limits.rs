//! How close the service comes to the limits of its machine, each measured in the same run.
//!
//! Real server process, real sockets, real scripts. Absolute numbers drift with the machine; read the ratios.

#![expect(clippy::unwrap_used, reason = "a benchmark that cannot go on stops")]

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tokio::io::AsyncReadExt;

const LINES: usize = 100_000;
const READERS: usize = 500;

fn main() {
    // `cargo test --benches` asks for a list of tests: there are none.
    if std::env::args().any(|argument| argument == "--list") {
        return;
    }
    let only: Option<String> = std::env::args().skip(1).find(|argument| !argument.starts_with('-'));
    let wanted = |name: &str| only.as_deref().is_none_or(|only| name.contains(only));
    let bench = Bench::start();
    println!("idle            {:>10.1} MB resident (reach: at most 30)", bench.memory("VmRSS") / 1e3);
    if wanted("trivial") {
        trivial(&bench);
    }
    if wanted("burst") {
        burst(&bench);
    }
    if wanted("lines") {
        lines(&bench);
    }
    if wanted("readers") {
        readers(&bench);
    }
}

struct Bench {
    server: Child,
    address: String,
    folder: tempfile::TempDir,
}

impl Drop for Bench {
    fn drop(&mut self) {
        let _ = self.server.kill();
        let _ = self.server.wait();
    }
}

impl Bench {
    fn start() -> Self {
        // Next to the build, not in a memory file system: the disk is part of what is measured.
        let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
        write_skills(&folder.path().join("skills"));
        let mut server = Command::new(env!("CARGO_BIN_EXE_skill-runner"))
            .args(["serve", "--port", "0", "--data-dir", "data", "--skills-dir", "skills"])
            .env("SKILL_RUNNER_MAX_RUNNING_JOBS", "16")
            .env("LOG_LEVEL", "warn")
            .current_dir(folder.path())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        let mut output = BufReader::new(server.stdout.take().unwrap());
        while !line.contains("http://") {
            line.clear();
            assert_ne!(output.read_line(&mut line).unwrap(), 0, "the server ended");
        }
        let address = line.split("http://").nth(1).unwrap().trim().trim_end_matches('/').to_owned();
        Self { server, address, folder }
    }

    /// A figure of the server's memory, in kB.
    fn memory(&self, name: &str) -> f64 {
        let status = fs::read_to_string(format!("/proc/{}/status", self.server.id())).unwrap();
        let line = status.lines().find(|line| line.starts_with(name)).unwrap();
        line.split_whitespace().nth(1).unwrap().parse().unwrap()
    }

    fn client(&self) -> Client {
        let stream = TcpStream::connect(&self.address).unwrap();
        stream.set_nodelay(true).unwrap();
        Client { stream: BufReader::new(stream), address: self.address.clone() }
    }

    fn script(&self, skill: &str) -> PathBuf {
        self.folder.path().join("skills").join(skill).join("scripts/run.sh")
    }
}

/// The least HTTP client: one connection, one request at a time.
struct Client {
    stream: BufReader<TcpStream>,
    address: String,
}

impl Client {
    fn send(&mut self, method: &str, path: &str, body: Option<&Value>) -> (u16, Vec<u8>) {
        let body = body.map(Value::to_string).unwrap_or_default();
        let head = format!(
            "{method} {path} HTTP/1.1\r\nHost: {}\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
            self.address,
            body.len()
        );
        self.stream.get_mut().write_all(head.as_bytes()).unwrap();
        self.answer()
    }

    fn answer(&mut self) -> (u16, Vec<u8>) {
        let mut line = String::new();
        self.stream.read_line(&mut line).unwrap();
        let status = line.split_whitespace().nth(1).unwrap().parse().unwrap();
        let (mut length, mut chunked) = (0, false);
        loop {
            line.clear();
            self.stream.read_line(&mut line).unwrap();
            let header = line.trim().to_ascii_lowercase();
            if header.is_empty() {
                break;
            }
            if let Some(value) = header.strip_prefix("content-length:") {
                length = value.trim().parse().unwrap();
            }
            chunked |= header == "transfer-encoding: chunked";
        }
        let mut body = Vec::new();
        if chunked {
            loop {
                line.clear();
                self.stream.read_line(&mut line).unwrap();
                let size = usize::from_str_radix(line.trim(), 16).unwrap();
                let from = body.len();
                body.resize(from + size, 0);
                self.stream.read_exact(&mut body[from..]).unwrap();
                self.stream.read_exact(&mut [0; 2]).unwrap();
                if size == 0 {
                    break;
                }
            }
        } else {
            body.resize(length, 0);
            self.stream.read_exact(&mut body).unwrap();
        }
        (status, body)
    }

    fn json(&mut self, method: &str, path: &str, body: Option<&Value>) -> Value {
        let (status, bytes) = self.send(method, path, body);
        let value: Value = serde_json::from_slice(&bytes).unwrap();
        assert!(status < 300, "{method} {path}: {status} {value}");
        value
    }

    /// Create a run and wait for its end.
    fn run(&mut self, skill: &str) -> Value {
        let job = self.json(
            "POST",
            "/v1/jobs?wait=120",
            Some(&json!({"skill_id": skill, "runtime_options": {"no_cache": true}})),
        );
        assert_eq!(job["status"], "succeeded", "{job}");
        job
    }
}

fn write_skills(folder: &Path) {
    let answer = r#"printf '{"success":true,"data":{}}\n'"#;
    // As the measured part must be the runner's, the scripts use nothing but the shell and awk.
    let noop = format!("#!/bin/sh\n{answer}\n");
    let plain = format!(
        "#!/bin/sh\nawk 'BEGIN{{for(i=0;i<{LINES};i++) printf \"line %d of a run that has a lot to say about its work\\n\", i}}' >&2\n{answer}\n"
    );
    let progress = format!(
        "#!/bin/sh\nawk 'BEGIN{{for(i=0;i<{LINES};i++) printf \"%d%% step %d of a run that reports each step\\n\", i*100/{LINES}, i}}' >&2\n{answer}\n"
    );
    // A live run that waits for its readers, then reports 4 000 steps.
    let live = format!(
        "#!/bin/sh\nwhile [ ! -e artifacts/../go ]; do sleep 0.05; done\nawk 'BEGIN{{for(i=0;i<4000;i++) printf \"%d%% step %d of a run that many watch\\n\", i/40, i}}' >&2\n{answer}\n"
    );
    for (id, script) in [("noop", &noop), ("plain", &plain), ("progress", &progress), ("live", &live)] {
        let skill = folder.join(id);
        fs::create_dir_all(skill.join("assets")).unwrap();
        fs::create_dir_all(skill.join("scripts")).unwrap();
        let front = format!("---\nname: {id}\ndescription: A script for measuring.\n---\n\nMeasures the runner.\n");
        fs::write(skill.join("SKILL.md"), front).unwrap();
        let runner = json!({
            "id": id, "version": "1.0.0", "execution_modes": ["auto"],
            "entrypoint": {"type": "script", "script": {"command": "sh scripts/run.sh"}},
            "schemas": {"output": "assets/output.schema.json"},
        });
        fs::write(skill.join("assets/runner.json"), runner.to_string()).unwrap();
        fs::write(skill.join("assets/output.schema.json"), r#"{"type":"object"}"#).unwrap();
        let path = skill.join("scripts/run.sh");
        fs::write(&path, script).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    }
}

/// Start the script as barely as possible and take its output.
fn bare(script: &Path) {
    let child = Command::new("sh")
        .arg(script)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    assert!(child.wait_with_output().unwrap().status.success());
}

fn mean(rounds: usize, mut action: impl FnMut()) -> Duration {
    let started = Instant::now();
    (0..rounds).for_each(|_| action());
    started.elapsed() / u32::try_from(rounds).unwrap()
}

fn ms(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1e3
}

/// One trivial run after the other, against its bare spawn.
fn trivial(bench: &Bench) {
    let script = bench.script("noop");
    let mut client = bench.client();
    (0..20).for_each(|_| drop(client.run("noop")));
    let spawn = mean(200, || bare(&script));
    let run = mean(200, || drop(client.run("noop")));
    let spawn_again = mean(200, || bare(&script));
    let bare = (spawn + spawn_again) / 2;
    println!(
        "trivial run     {:>10.2} ms create→terminal, bare spawn {:.2} ms: {:.2} ms over (reach: at most 10), ratio {:.1}",
        ms(run),
        ms(bare),
        ms(run) - ms(bare),
        ms(run) / ms(bare)
    );
}

/// Fifty at once, against fifty bare spawns at once.
fn burst(bench: &Bench) {
    const AT_ONCE: usize = 50;
    const EACH: usize = 20;
    let script = bench.script("noop");
    let timed = |work: &(dyn Fn() + Sync)| {
        let started = Instant::now();
        std::thread::scope(|scope| (0..AT_ONCE).for_each(|_| drop(scope.spawn(work))));
        (AT_ONCE * EACH) as f64 / started.elapsed().as_secs_f64()
    };
    let spawns = timed(&|| (0..EACH).for_each(|_| bare(&script)));
    let runs = timed(&|| {
        let mut client = bench.client();
        (0..EACH).for_each(|_| drop(client.run("noop")));
    });
    println!(
        "50 at once      {runs:>10.0} runs/s, bare {spawns:.0} spawns/s (reach: at least 200), ratio {:.2}",
        runs / spawns
    );
}

/// One run of many lines, watched by somebody who asks for another run meanwhile; then its history.
fn lines(bench: &Bench) {
    let other = bench.client().run("noop")["request_id"].as_str().unwrap().to_owned();
    for skill in ["plain", "progress"] {
        let written = Instant::now();
        let mut file = tempfile::tempfile_in(bench.folder.path()).unwrap();
        let text: String =
            (0..LINES).map(|i| format!("line {i} of a run that has a lot to say about its work\n")).collect();
        file.write_all(text.as_bytes()).unwrap();
        file.sync_data().unwrap();
        let plain = LINES as f64 / written.elapsed().as_secs_f64();

        let done = AtomicBool::new(false);
        let (job, elapsed, mut waits) = std::thread::scope(|scope| {
            let asking = scope.spawn(|| {
                let mut client = bench.client();
                let mut waits = Vec::new();
                while !done.load(Ordering::Relaxed) {
                    let asked = Instant::now();
                    client.json("GET", &format!("/v1/jobs/{other}"), None);
                    waits.push(asked.elapsed());
                    std::thread::sleep(Duration::from_millis(2));
                }
                waits
            });
            let started = Instant::now();
            let job = bench.client().run(skill);
            let elapsed = started.elapsed();
            done.store(true, Ordering::Relaxed);
            (job, elapsed, asking.join().unwrap())
        });
        waits.sort_unstable();
        let p99 = waits[(waits.len() * 99 / 100).min(waits.len() - 1)];
        let rate = LINES as f64 / elapsed.as_secs_f64();
        println!(
            "100 000 lines   {rate:>10.0} lines/s as {skill} ({} events), plain file {plain:.0} lines/s (reach: at least 50 000), ratio {:.3}; peak memory {:.0} MB; another run's status p99 {:.1} ms of {} asked (reach: at most 20)",
            job["head_seq"],
            rate / plain,
            bench.memory("VmHWM") / 1e3,
            ms(p99),
            waits.len()
        );
        if skill == "progress" {
            history(bench, &job);
        }
    }
}

fn history(bench: &Bench, job: &Value) {
    let run = job["run_id"].as_str().unwrap();
    let events = job["head_seq"].as_u64().unwrap() as f64;
    let sealed = bench.folder.path().join("data/runs").join(run).join("logs/events.jsonl");
    let deadline = Instant::now() + Duration::from_secs(30);
    while !sealed.exists() {
        assert!(Instant::now() < deadline, "the log is sealed");
        std::thread::sleep(Duration::from_millis(20));
    }
    let read = mean(5, || assert!(!fs::read(&sealed).unwrap().is_empty()));
    let path = format!("/v1/jobs/{run}/events/history");
    let fetch = || {
        let mut stream = TcpStream::connect(&bench.address).unwrap();
        let head = format!(
            "GET {path} HTTP/1.1\r\nHost: {}\r\nAccept: application/x-ndjson\r\nConnection: close\r\n\r\n",
            bench.address
        );
        stream.write_all(head.as_bytes()).unwrap();
        let mut body = Vec::with_capacity(64 << 20);
        stream.read_to_end(&mut body).unwrap();
        body
    };
    let size = fs::metadata(&sealed).unwrap().len();
    assert!(fetch().len() as u64 >= size, "the whole history came");
    let fetched = mean(5, || drop(fetch()));
    println!(
        "history         {:>10.0} events/s, file {:.0} events/s (reach: at least 500 000), ratio {:.2}",
        events / fetched.as_secs_f64(),
        events / read.as_secs_f64(),
        read.as_secs_f64() / fetched.as_secs_f64()
    );
}

/// Five hundred readers of one live run; every stream must be whole.
fn readers(bench: &Bench) {
    let mut client = bench.client();
    let created = client.json("POST", "/v1/jobs", Some(&json!({"skill_id": "live"})));
    let run = created["run_id"].as_str().unwrap().to_owned();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let connected = Arc::new(AtomicU64::new(0));
    let watching: Vec<_> =
        (0..READERS).map(|_| runtime.spawn(follow(bench.address.clone(), run.clone(), connected.clone()))).collect();
    while connected.load(Ordering::Relaxed) < READERS as u64 {
        std::thread::sleep(Duration::from_millis(5));
    }
    fs::write(bench.folder.path().join("data/runs").join(&run).join("go"), "").unwrap();
    let started = Instant::now();
    let counts: Vec<u64> = runtime.block_on(async {
        let mut counts = Vec::new();
        for reader in watching {
            counts.push(reader.await.unwrap());
        }
        counts
    });
    let elapsed = started.elapsed();
    let expected = client.json("GET", &format!("/v1/jobs/{run}"), None)["head_seq"].as_u64().unwrap();
    assert!(counts.iter().all(|count| *count == expected), "every stream is whole: {expected} of {counts:?}");
    let total: u64 = counts.iter().sum();
    println!(
        "500 readers     {:>10.0} events/s delivered, all {} streams whole with {expected} events each (reach: at least 200 000)",
        total as f64 / elapsed.as_secs_f64(),
        counts.len()
    );
}

/// Follow a run to its end; the number of events, which must come without a hole.
async fn follow(address: String, run: String, connected: Arc<AtomicU64>) -> u64 {
    use tokio::io::AsyncWriteExt;
    let mut stream = tokio::net::TcpStream::connect(&address).await.unwrap();
    let head = format!("GET /v1/jobs/{run}/events HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n");
    stream.write_all(head.as_bytes()).await.unwrap();
    let (mut seen, mut last) = (0u64, 0u64);
    let mut chunk = vec![0; 256 * 1024];
    let mut held = Vec::new();
    loop {
        let read = stream.read(&mut chunk).await.unwrap();
        if seen == 0 && last == 0 && read > 0 {
            connected.fetch_add(1, Ordering::Relaxed);
            last = u64::MAX;
        }
        if read == 0 {
            return seen;
        }
        held.extend_from_slice(&chunk[..read]);
        // Events are counted by their ids; whatever the chunked encoding puts between lines does not begin so.
        let whole = held.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
        for line in held[..whole].split(|byte| *byte == b'\n') {
            if let Some(id) = line.strip_prefix(b"id: ") {
                let seq: u64 = std::str::from_utf8(id).unwrap().trim().parse().unwrap();
                seen += 1;
                assert_eq!(seq, seen, "no hole");
            }
        }
        held.drain(..whole);
    }
}
