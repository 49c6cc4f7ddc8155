//! A service that may open few files: it answers, its runs end, and it never ends because of that.

use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::process::CommandExt;

use rustix::process::{Pid, Resource, Rlimit, Signal, kill_process, prlimit, setrlimit};
use serde_json::{Value, json};

use super::place::{Place, Running};
use crate::support::{Call, LONG};

fn limit(soft: u64, hard: u64) -> Rlimit {
    Rlimit { current: Some(soft), maximum: Some(hard) }
}

/// A service that may have so many files open.
fn serve(place: &Place, soft: u64, hard: u64) -> (Running, SocketAddr) {
    let mut command = place.command(&["serve", "--port", "0"]);
    command.env("SKILL_RUNNER_MIN_FREE_BYTES", "0").env("SKILL_RUNNER_MAX_RUNNING_JOBS", "2");
    // SAFETY: the closure makes one system call.
    unsafe { command.pre_exec(move || Ok(setrlimit(Resource::Nofile, limit(soft, hard))?)) };
    let (running, line) = Place::started(command, "listening on ");
    (running, line.strip_prefix("listening on http://").unwrap().parse().unwrap())
}

fn get(address: SocketAddr, path: &str) -> Value {
    let answer = Call::new(address, "GET", path).send();
    assert_eq!(answer.status, 200, "{}", answer.text());
    answer.json()
}

fn create(address: SocketAddr, skill: &str) -> crate::support::Answer {
    Call::new(address, "POST", "/v1/jobs")
        .json(&json!({"skill_id": skill, "runtime_options": {"no_cache": true}}))
        .send()
}

/// Waits until the run is over; the job.
fn ended(address: SocketAddr, run: &str) -> Value {
    let limit = std::time::Instant::now() + LONG;
    loop {
        let job = get(address, &format!("/v1/jobs/{run}"));
        if ["succeeded", "failed", "canceled"].contains(&job["status"].as_str().unwrap()) {
            return job;
        }
        assert!(std::time::Instant::now() < limit, "{job}");
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
}

fn until_exists(path: &std::path::Path) {
    let limit = std::time::Instant::now() + LONG;
    while !path.exists() {
        assert!(std::time::Instant::now() < limit, "{} never came", path.display());
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
}

#[test]
fn a_flood_of_half_requests_disturbs_neither_answers_nor_a_run() {
    let place = Place::new();
    place.skill(
        "gated",
        "cat >/dev/null\nmkfifo gate\nread line < gate\necho \"$line\" >&2\necho '{\"success\":true,\"data\":{}}'\n",
    );
    let (service, address) = serve(&place, 48, 48);
    let created = create(address, "gated");
    assert_eq!(created.status, 201, "{}", created.text());
    let run = created.json()["run_id"].as_str().unwrap().to_owned();
    let gate = place.run_folder(&run).join("gate");
    until_exists(&gate);
    let flood: Vec<TcpStream> = (0..300)
        .map(|_| {
            let mut connection = TcpStream::connect(address).unwrap();
            // It may have had to make room already.
            let _ = connection.write_all(b"GET /v1/jobs HTTP/1.1\r\nhost: loc");
            connection
        })
        .collect();
    assert_eq!(get(address, "/healthz"), json!({"status": "ok"}));
    std::fs::write(&gate, "on\n").unwrap();
    assert_eq!(ended(address, &run)["status"], "succeeded");
    drop(flood);
    service.signal(Signal::TERM);
    let ended = service.end();
    assert_eq!(ended.code, Some(0), "{ended:?}");
}

/// What cannot be read at the moment is not said to be missing or broken, and is read again afterwards.
#[test]
fn a_skill_that_no_descriptor_is_left_to_read_is_neither_gone_nor_broken() {
    let place = Place::new();
    let (service, address) = serve(&place, 1024, 1024);
    let open = || std::fs::read_dir(format!("/proc/{}/fd", service.pid().as_raw_nonzero())).unwrap().count() as u64;
    let may_open = |most: u64| prlimit(Some(service.pid()), Resource::Nofile, limit(most, 1024)).unwrap();
    let listed = get(address, "/v1/skills");
    let shown = get(address, "/v1/skills/tiny");
    let managed = get(address, "/v1/management/skills");
    let instructions = place.path().join("skills/tiny/SKILL.md");
    let text = std::fs::read(&instructions).unwrap();
    let deadline = std::time::Instant::now() + LONG;
    let (mut refused, mut answered) = (0, 0);
    // The connection itself needs one; how many more are open at that moment is not known.
    while refused < 20 || answered < 20 {
        assert!(std::time::Instant::now() < deadline, "{refused} refused, {answered} answered");
        for (path, whole) in [("/v1/skills", &listed), ("/v1/skills/tiny", &shown), ("/v1/management/skills", &managed)]
        {
            for spare in 0..4 {
                // Else nothing is read: it is known from before.
                std::fs::write(&instructions, &text).unwrap();
                may_open(open() + spare);
                let Some(answer) = Call::new(address, "GET", path).try_send() else { continue };
                if answer.status == 200 {
                    assert_eq!(answer.json(), *whole, "{path}");
                    answered += 1;
                } else {
                    assert_eq!(answer.refusal(), (503, "RESOURCE_LIMIT_EXCEEDED".into()), "{}", answer.text());
                    refused += 1;
                }
            }
        }
    }
    may_open(1024);
    assert_eq!(get(address, "/v1/skills"), listed);
    assert_eq!(get(address, "/v1/skills/tiny"), shown);
    service.signal(Signal::TERM);
    assert_eq!(service.end().code, Some(0));
}

#[test]
fn without_a_free_descriptor_requests_and_runs_fail_with_their_code_and_the_service_lives() {
    let place = Place::new();
    let (service, address) = serve(&place, 1024, 1024);
    let open = || std::fs::read_dir(format!("/proc/{}/fd", service.pid().as_raw_nonzero())).unwrap().count() as u64;
    let may_open = |most: u64| prlimit(Some(service.pid()), Resource::Nofile, limit(most, 1024)).unwrap();
    assert_eq!(get(address, "/healthz"), json!({"status": "ok"}));
    // Each question about a run that finds no descriptor either gives one back, so the run's end is always learned.
    let end_of = |run: &str| {
        let deadline = std::time::Instant::now() + LONG;
        loop {
            let answer = Call::new(address, "GET", &format!("/v1/jobs/{run}")).try_send();
            match answer {
                Some(answer) if answer.status == 200 => {
                    let job = answer.json();
                    if ["succeeded", "failed", "canceled"].contains(&job["status"].as_str().unwrap()) {
                        return job;
                    }
                }
                Some(answer) => {
                    assert_eq!(answer.refusal(), (503, "RESOURCE_LIMIT_EXCEEDED".into()));
                    may_open(open() + 1);
                }
                None => {
                    may_open(open() + 1);
                }
            }
            assert!(std::time::Instant::now() < deadline, "{run} does not end");
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
    };
    let deadline = std::time::Instant::now() + LONG;
    let mut failed = 0;
    // How far a run comes depends on what else is open at that moment: again until one was hit.
    while failed == 0 {
        assert!(std::time::Instant::now() < deadline, "no run met the limit");
        for spare in 1..9 {
            may_open(open() + spare);
            let Some(answer) = Call::new(address, "POST", "/v1/jobs")
                .json(&json!({"skill_id": "tiny", "runtime_options": {"no_cache": true}}))
                .try_send()
            else {
                continue;
            };
            if answer.status == 503 {
                assert_eq!(answer.refusal(), (503, "RESOURCE_LIMIT_EXCEEDED".into()));
                assert_eq!(answer.header("retry-after"), "1");
            } else {
                let run = answer.json()["run_id"].as_str().unwrap_or_else(|| panic!("{}", answer.text())).to_owned();
                let job = end_of(&run);
                failed += usize::from(job["error"]["code"] == "RESOURCE_LIMIT_EXCEEDED");
                assert!(job["error"].is_null() || job["error"]["code"] == "RESOURCE_LIMIT_EXCEEDED", "{job}");
            }
        }
    }
    may_open(1024);
    let run = create(address, "tiny").json()["run_id"].as_str().unwrap().to_owned();
    assert_eq!(ended(address, &run)["status"], "succeeded");
    service.signal(Signal::TERM);
    assert_eq!(service.end().code, Some(0));
}

#[test]
fn the_service_raises_its_limit_and_skills_get_the_one_it_was_started_with() {
    let place = Place::new();
    place.skill("limits", "cat >/dev/null\nulimit -Sn >&2\nulimit -Hn >&2\necho '{\"success\":true,\"data\":{}}'\n");
    let (service, address) = serve(&place, 200, 400);
    let of_service = std::fs::read_to_string(format!("/proc/{}/limits", service.pid().as_raw_nonzero())).unwrap();
    let line = of_service.lines().find(|line| line.starts_with("Max open files")).unwrap();
    assert_eq!(line.split_whitespace().collect::<Vec<_>>()[3..5], ["400", "400"]);
    let run = create(address, "limits").json()["run_id"].as_str().unwrap().to_owned();
    assert_eq!(ended(address, &run)["status"], "succeeded");
    // At most three quarters of what the service has.
    assert_eq!(get(address, &format!("/v1/jobs/{run}/logs"))["stderr"], "200\n300\n");
}

#[test]
fn a_service_goes_on_though_nobody_reads_its_standard_error_and_tells_what_it_left_out_there() {
    let place = Place::new();
    let (mut service, address) = serve(&place, 1024, 1024);
    // A pipe takes 64 KiB; the log of these runs is more than twice as long.
    let log = place.path().join("data/logs/skill-runner.log");
    let mut last = String::new();
    while std::fs::metadata(&log).unwrap().len() < 150 * 1024 {
        let created = create(address, "tiny");
        assert_eq!(created.status, 201, "{}", created.text());
        last = created.json()["run_id"].as_str().unwrap().to_owned();
    }
    assert_eq!(ended(address, &last)["status"], "succeeded");
    service.read_stderr(32 * 1024);
    service.signal(Signal::TERM);
    let ended = service.end();
    assert_eq!(ended.code, Some(0), "{ended:?}");
    let note = "lines are left out here, because nobody read on for a while; the log file has them\n";
    assert!(ended.stderr.contains(note), "{}", ended.stderr);
    assert!(ended.stderr.len() < 64 * 1024, "{}", ended.stderr.len());
}

/// Standard error of a service that tells there what it waits for: full and never read, or closed.
fn ends_with_stderr(stderr: std::io::PipeWriter) {
    let place = Place::new();
    place.skill("waits", "cat > /dev/null\nexec sleep 1000\n");
    let mut command = place.command(&["serve", "--port", "0"]);
    command.env("SKILL_RUNNER_MIN_FREE_BYTES", "0").env("SKILL_RUNNER_DRAIN_GRACE_SECONDS", "1").stderr(stderr);
    let mut child = command.spawn().unwrap();
    drop(command);
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let address = line.trim_end().strip_prefix("listening on http://").unwrap().parse().unwrap();
    let run = create(address, "waits").json()["run_id"].as_str().unwrap().to_owned();
    let limit = std::time::Instant::now() + LONG;
    while get(address, &format!("/v1/jobs/{run}"))["status"] != "running" {
        assert!(std::time::Instant::now() < limit, "the run never began");
    }
    kill_process(Pid::from_child(&child), Signal::TERM).unwrap();
    let ended = loop {
        match child.try_wait().unwrap() {
            Some(ended) => break ended,
            None if std::time::Instant::now() > limit => {
                child.kill().unwrap();
                panic!("the service did not end");
            }
            None => std::thread::sleep(std::time::Duration::from_millis(20)),
        }
    };
    assert_eq!(ended.code(), Some(0), "{ended}");
}

#[test]
fn a_service_ends_in_order_though_its_standard_error_is_full_or_closed() {
    let (read, mut write) = std::io::pipe().unwrap();
    // 16 pages of a pipe are full after so many.
    write.write_all(&[b'x'; 16 * 4096]).unwrap();
    ends_with_stderr(write);
    drop(read);
    let (read, write) = std::io::pipe().unwrap();
    drop(read);
    ends_with_stderr(write);
}
