//! A service that can start no more processes and threads: it answers, its runs end with their code, and it goes on.

use std::net::SocketAddr;
use std::os::unix::fs::chown;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Resource, Signal, geteuid, getrlimit};
use serde_json::{Value, json};

use super::place::{Place, Running};
use crate::support::{Call, LONG};

/// A user of whom nothing else runs. Root has no limit of processes.
const PLAIN_USER: u32 = 54_321;

/// The service as a plain user.
fn serve(place: &Place) -> (Running, SocketAddr) {
    let program = place.path().join("program");
    // By a process of its own: a child of another test, begun meanwhile, would hold the file open and keep it from being executed.
    assert!(Command::new("cp").arg(env!("CARGO_BIN_EXE_skill-runner")).arg(&program).status().unwrap().success());
    let mut command = Command::new(program);
    command.args(["serve", "--port", "0"]).current_dir(place.path()).env_clear();
    command.env("PATH", std::env::var_os("PATH").unwrap()).env("SKILL_RUNNER_SANDBOX", "off");
    command.env("SKILL_RUNNER_MIN_FREE_BYTES", "0").env("SKILL_RUNNER_MAX_RUNNING_JOBS", "2");
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    if geteuid().is_root() {
        chown(place.path(), Some(PLAIN_USER), Some(PLAIN_USER)).unwrap();
        command.uid(PLAIN_USER).gid(PLAIN_USER);
    }
    let (running, line) = Place::started(command, "listening on ");
    (running, line.strip_prefix("listening on http://").unwrap().parse().unwrap())
}

fn get(address: SocketAddr, path: &str) -> Value {
    let answer = Call::new(address, "GET", path).send();
    assert_eq!(answer.status, 200, "{path}: {}", answer.text());
    answer.json()
}

/// A run of `tiny` that has ended.
fn ended_run(address: SocketAddr) -> Value {
    let body = json!({"skill_id": "tiny", "runtime_options": {"no_cache": true}});
    let created = Call::new(address, "POST", "/v1/jobs").json(&body).send();
    assert_eq!(created.status, 201, "{}", created.text());
    let run = created.json()["run_id"].as_str().unwrap().to_owned();
    let deadline = Instant::now() + LONG;
    loop {
        let job = get(address, &format!("/v1/jobs/{run}"));
        if ["succeeded", "failed", "canceled"].contains(&job["status"].as_str().unwrap()) {
            return job;
        }
        assert!(Instant::now() < deadline, "it does not end: {job}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// The first run of a service once waited for ever for threads of the store, and with it everything that was written later.
#[test]
fn a_service_that_can_start_no_more_processes_or_threads_answers_fails_runs_with_their_code_and_goes_on_afterwards() {
    let place = Place::new();
    let (service, address) = serve(&place);
    // By its own user: not every root may change the limits of others.
    let most = |soft: Option<u64>| {
        let soft = soft.map_or("unlimited".to_owned(), |soft| soft.to_string());
        let mut prlimit = Command::new("prlimit");
        prlimit.arg(format!("--nproc={soft}:")).args(["--pid", &service.pid().as_raw_nonzero().to_string()]);
        if geteuid().is_root() {
            prlimit.uid(PLAIN_USER).gid(PLAIN_USER);
        }
        assert!(prlimit.status().unwrap().success());
    };
    most(Some(1));
    // More than may run at once: none keeps its place.
    for _ in 0..5 {
        for path in ["/v1/skills", "/v1/jobs", "/v1/management/settings", "/v1/system"] {
            get(address, path);
        }
        let job = ended_run(address);
        assert_eq!(
            (&job["status"], &job["error"]["code"]),
            (&json!("failed"), &json!("RESOURCE_LIMIT_EXCEEDED")),
            "{job}"
        );
        assert!(job["error"]["message"].as_str().unwrap().contains("no more processes or threads"), "{job}");
    }
    most(getrlimit(Resource::Nproc).current);
    let job = ended_run(address);
    assert_eq!(job["status"], "succeeded", "{job}");
    service.signal(Signal::TERM);
    let ended = service.end();
    assert_eq!(ended.code, Some(0), "{ended:?}");
}

/// tokio waits for ever where it can start one of its threads and not the next.
#[test]
fn a_command_that_can_start_too_few_threads_says_so_and_ends() {
    let place = Place::new();
    let program = place.path().join("program");
    assert!(Command::new("cp").arg(env!("CARGO_BIN_EXE_skill-runner")).arg(&program).status().unwrap().success());
    if geteuid().is_root() {
        chown(place.path(), Some(PLAIN_USER + 1), Some(PLAIN_USER + 1)).unwrap();
    }
    for most in [1, 2, 3, 5] {
        let mut command = Command::new("prlimit");
        command.arg(format!("--nproc={most}:{most}")).arg(&program).args(["serve", "--port", "0"]);
        command.current_dir(place.path()).env_clear().env("PATH", std::env::var_os("PATH").unwrap());
        if geteuid().is_root() {
            command.uid(PLAIN_USER + 1).gid(PLAIN_USER + 1);
        }
        let ended = command.stdin(Stdio::null()).output().unwrap();
        let said = String::from_utf8_lossy(&ended.stderr);
        assert_eq!(ended.status.code(), Some(1), "{most}: {said}");
        assert!(
            said.contains("no more processes or threads can be started") && !said.contains("panicked"),
            "{most}: {said}"
        );
    }
}
