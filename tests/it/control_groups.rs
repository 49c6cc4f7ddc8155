//! Control groups of runs, made by this machine's kernel: who is in them, what they count, and that none stays.

use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::cli::place::Place;
use crate::support::skill::GATED;
use crate::support::{Call, LONG, Server, Sse, of_type};

/// The folder below which groups are made here; none where that is not allowed, and then the test is left out.
fn groups(test: &str) -> Option<PathBuf> {
    let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap();
    let is_version_2 = |line: &&str| line.contains(" - cgroup2 ");
    let mount = mounts.lines().find(is_version_2).and_then(|line| line.split(' ').nth(4)).map(PathBuf::from);
    let own = fs::read_to_string("/proc/self/cgroup").unwrap();
    // Only in the root of all groups may this program's processes be beside those of others.
    let in_root = own.lines().any(|line| line == "0::/");
    let tried = mount.filter(|_| in_root).filter(|mount| {
        let tried = mount.join(format!("tried-{}", std::process::id()));
        !mount.join("cgroup.type").exists() && fs::create_dir(&tried).and_then(|()| fs::remove_dir(&tried)).is_ok()
    });
    if tried.is_none() {
        eprintln!("NOT RUN (no control groups can be made here): {test}");
    }
    tried
}

/// The groups of a run.
fn of_run(groups: &Path, run: &str) -> Vec<String> {
    let names = fs::read_dir(groups).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    names.filter(|name| name.contains(run)).collect()
}

/// Nobody tells when a group is removed.
fn wait_until_gone(groups: &Path, run: &str) {
    let begun = Instant::now();
    while !of_run(groups, run).is_empty() {
        assert!(begun.elapsed() < LONG, "{:?}", of_run(groups, run));
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn parts(started: &Value) -> Vec<&str> {
    started["isolation"]["parts"].as_array().unwrap().iter().map(|part| part.as_str().unwrap()).collect()
}

#[test]
fn every_process_of_a_run_is_in_its_group_which_goes_with_it() {
    let Some(groups) = groups("control_groups::every_process_of_a_run_is_in_its_group_which_goes_with_it") else {
        return;
    };
    for sandbox in ["off", "auto"] {
        let server = Server::with(&[("control_groups", "on"), ("sandbox", sandbox)]);
        let child = "(setsid sleep 1000 >/dev/null 2>&1 </dev/null &)\n";
        server.skill("gated", &format!("{child}{GATED}"), json!({}));
        let (_, run) = server.create("gated");
        server.wait_for(&run, "raw.stderr", "ready");
        let [group] = of_run(&groups, &run).try_into().unwrap();
        let members = fs::read_to_string(groups.join(&group).join("cgroup.procs")).unwrap();
        // The shell and the process that has left its session, at least; not the service.
        assert!(members.lines().count() >= 2, "{members}");
        assert!(members.lines().all(|pid| pid != std::process::id().to_string()), "{members}");
        server.open_gate(&run, "go");
        let events = server.finish(&run);
        let started = of_type(&events, "turn.started");
        assert!(parts(&started[0]).contains(&"control-group"), "{started:#?}");
        wait_until_gone(&groups, &run);
    }
}

#[test]
fn processor_time_that_no_parent_waits_for_is_counted_in_a_group() {
    if groups("control_groups::processor_time_that_no_parent_waits_for_is_counted_in_a_group").is_none() {
        return;
    }
    // Children of a parent that ignores their end are lost to whoever counts by parents. Each lives shorter than any look.
    let burn = "import os, signal, sys, time\nsys.stdin.read()\nsignal.signal(signal.SIGCHLD, signal.SIG_IGN)\n\
        while True:\n    if os.fork() == 0:\n        end = time.process_time() + 0.05\n        \
        while time.process_time() < end: pass\n        os._exit(0)\n    time.sleep(0.05)\n";
    let server =
        Server::with(&[("control_groups", "on"), ("limits.cpu_seconds", "2"), ("hard_timeout_seconds", "300")]);
    let entrypoint = json!({"type": "script", "script": {"command": "python3 scripts/burn.py"}});
    server.skill("burner", "", json!({"runner": {"entrypoint": entrypoint}}));
    fs::write(server.folder.path().join("skills/burner/scripts/burn.py"), burn).unwrap();
    let (_, run) = server.create("burner");
    server.finish(&run);
    let error = server.get(&format!("/v1/jobs/{run}")).json()["error"].take();
    assert_eq!(
        (&error["code"], &error["details"]["limit"]),
        (&json!("RESOURCE_LIMIT_EXCEEDED"), &json!("cpu_seconds"))
    );
}

#[test]
fn the_group_of_a_killed_service_goes_with_its_runs() {
    let Some(groups) = groups("control_groups::the_group_of_a_killed_service_goes_with_its_runs") else { return };
    let place = Place::new();
    place.skill("gated", GATED);
    let mut serve = place.command(&["serve", "--port", "0"]);
    serve.env("SKILL_RUNNER_CONTROL_GROUPS", "on");
    let (running, line) = Place::started(serve, "listening on http://");
    let address: SocketAddr = line.strip_prefix("listening on http://").unwrap().parse().unwrap();
    let created = Call::new(address, "POST", "/v1/jobs").json(&json!({"skill_id": "gated"})).send().json();
    let run = created["run_id"].as_str().unwrap().to_owned();
    let mut events = Sse::open(address, &format!("/v1/jobs/{run}/events?cursor=0"), &[]);
    while events.next_chat().is_some_and(|event| event["type"] != "raw.stderr") {}
    assert_eq!(of_run(&groups, &run).len(), 1);
    running.signal(rustix::process::Signal::KILL);
    wait_until_gone(&groups, &run);
}

#[test]
fn groups_are_used_by_themselves_only_where_they_can_limit_memory_and_processes() {
    let server = Server::start();
    server.skill("hello", crate::support::skill::HELLO, json!({}));
    let (_, run) = server.create("hello");
    let started = of_type(&server.finish(&run), "turn.started");
    let told = fs::read_to_string("/proc/self/mountinfo").unwrap();
    let mount = told.lines().find(|line| line.contains(" - cgroup2 ")).and_then(|line| line.split(' ').nth(4));
    let controllers = mount.map(|mount| fs::read_to_string(format!("{mount}/cgroup.controllers")).unwrap_or_default());
    let can_limit =
        |name: &str| controllers.as_deref().is_some_and(|all| all.split_whitespace().any(|one| one == name));
    if !(can_limit("memory") && can_limit("pids")) {
        assert!(!parts(&started[0]).contains(&"control-group"), "{started:#?}");
    }
    let server = Server::with(&[("control_groups", "off")]);
    server.skill("hello", crate::support::skill::HELLO, json!({}));
    let (_, run) = server.create("hello");
    let started = of_type(&server.finish(&run), "turn.started");
    assert!(!parts(&started[0]).contains(&"control-group"), "{started:#?}");
}
