//! Control groups of runs, made by this machine's kernel: who is in them, what they count, and that none stays.

use std::fs;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::{Duration, Instant, SystemTime};

use serde_json::{Value, json};
use skill_runner::domain::ids::RunId;
use skill_runner::domain::resources::ResourceLimits;
use skill_runner::engine::{Launch, PoliteSignal, Streams};
use skill_runner::supervisor::{Access, ControlGroups, Error, Limits, Network, Resources, Sandbox, Shown, Spec, spawn};
use uuid::Uuid;

use crate::cli::place::Place;
use crate::support::skill::GATED;
use crate::support::{Call, LONG, Server, Sse, left_out, of_type, sandbox};

/// The folders below which groups are made here: one, or in version 1 one for each controller.
struct Groups {
    folders: Vec<PathBuf>,
    /// Whether the kernel bounds memory and processes by them.
    limit: bool,
}

/// Where groups are made here; none where that is not allowed, and then the test is left out.
fn groups(test: &str) -> Option<Groups> {
    let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap();
    let own = fs::read_to_string("/proc/self/cgroup").unwrap();
    let mount = |kind: &str| {
        let line = mounts.lines().find(|line| line.contains(kind))?;
        line.split(' ').nth(4).map(PathBuf::from)
    };
    let can = |folder: &PathBuf| {
        let tried = folder.join(format!("tried-{}", std::process::id()));
        fs::create_dir(&tried).and_then(|()| fs::remove_dir(&tried)).is_ok()
    };
    // Only in the root of all groups may this program's processes be beside those of others.
    let in_root = own.lines().any(|line| line == "0::/");
    let whole = mount(" - cgroup2 ").filter(|mount| in_root && !mount.join("cgroup.type").exists() && can(mount));
    let limit = whole.as_ref().is_some_and(|mount| {
        let told = fs::read_to_string(mount.join("cgroup.controllers")).unwrap();
        ["memory", "pids"].iter().all(|name| told.split_whitespace().any(|one| one == *name))
    });
    let each = ["memory", "pids", "cpuacct"].map(|controller| {
        let path = own.lines().find_map(|line| line.split_once(&format!(":{controller}:/")))?.1;
        mount(&format!(" - cgroup cgroup rw,{controller}")).map(|mount| mount.join(path)).filter(can)
    });
    let found = match (whole, each) {
        (Some(whole), _) if limit => Some(Groups { folders: vec![whole], limit }),
        (_, [Some(memory), Some(pids), time]) => {
            Some(Groups { folders: [memory, pids].into_iter().chain(time).collect(), limit: true })
        }
        (whole, _) => whole.map(|whole| Groups { folders: vec![whole], limit }),
    };
    if found.is_none() {
        left_out::tell("no control groups can be made here", test);
    }
    found
}

impl Groups {
    /// The groups of a run, in all folders.
    fn of_run(&self, run: &str) -> Vec<PathBuf> {
        let entries = self.folders.iter().flat_map(|folder| fs::read_dir(folder).unwrap());
        entries.map(|entry| entry.unwrap().path()).filter(|path| path.to_str().unwrap().contains(run)).collect()
    }

    /// Nobody tells when a group is removed.
    fn wait_until_gone(&self, run: &str) {
        let begun = Instant::now();
        while !self.of_run(run).is_empty() {
            assert!(begun.elapsed() < LONG, "{:?}", self.of_run(run));
            std::thread::sleep(Duration::from_millis(20));
        }
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
        let own = groups.of_run(&run);
        assert_eq!(own.len(), groups.folders.len(), "{own:?}");
        for group in own {
            let members = fs::read_to_string(group.join("cgroup.procs")).unwrap();
            // The shell and the process that has left its session, at least; not the service.
            assert!(members.lines().count() >= 2, "{group:?}: {members}");
            assert!(members.lines().all(|pid| pid != std::process::id().to_string()), "{group:?}: {members}");
        }
        server.open_gate(&run, "go");
        let events = server.finish(&run);
        let started = of_type(&events, "turn.started");
        assert!(parts(&started[0]).contains(&"control-group"), "{started:#?}");
        groups.wait_until_gone(&run);
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
    assert_eq!(groups.of_run(&run).len(), groups.folders.len());
    running.signal(rustix::process::Signal::KILL);
    groups.wait_until_gone(&run);
}

/// The process that looks for the program is in the group, and may still be there when it is told that there is none: seldom, so it is
/// tried often.
#[tokio::test(flavor = "multi_thread")]
async fn the_group_of_a_run_whose_program_is_not_there_goes_too() {
    let Some(groups) = groups("control_groups::the_group_of_a_run_whose_program_is_not_there_goes_too") else {
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str| folder.path().join(name);
    let launch = Launch {
        argv: vec!["no-such-program".to_owned()],
        env: vec![("PATH".into(), "/bin".into())],
        cwd: folder.path().to_owned(),
        stdin: Vec::new(),
        polite: PoliteSignal::TerminateAll,
        streams: Streams::Pipes,
        secrets: Vec::new(),
        own_tmp: false,
    };
    let limits = ResourceLimits {
        memory_bytes: 1 << 30,
        processes: 64,
        cpu_seconds: 60,
        file_bytes: 1 << 30,
        disk_bytes: 1 << 30,
        open_files: 256,
    };
    // Mounts of its own take a process long to leave.
    let write = |path: PathBuf| Shown { source: path.clone(), target: path, access: Access::Write };
    let confined = Sandbox {
        user_namespace: !rustix::process::geteuid().is_root(),
        hidden: vec!["/root".into(), "/home".into()],
        shown: vec![write(folder.path().to_owned())],
        network: Network::None,
    };
    let confined = sandbox::works().then_some(&confined);
    let used = ControlGroups::find(true);
    for _ in 0..100 {
        let run = RunId(Uuid::now_v7());
        let spec = Spec {
            launch: &launch,
            run,
            stdout_log: &file("out"),
            stderr_log: &file("err"),
            tmp_dir: &file("tmp"),
            limits: Limits { stdout_max: None, log_max: 1 << 20 },
            read_only_binds: &[],
            sandbox: confined,
            resources: Some(Resources { limits, folders: &[] }),
        };
        let refused = spawn(spec, &used).await.unwrap_err();
        assert!(matches!(refused, Error::NotFound { .. }), "{refused:?}");
        let left = groups.of_run(&run.to_string());
        for group in &left {
            let _ = fs::remove_dir(group);
        }
        assert!(left.is_empty(), "{left:?}");
    }
}

#[test]
fn the_kernel_itself_keeps_a_run_at_its_memory_and_its_processes() {
    let test = "control_groups::the_kernel_itself_keeps_a_run_at_its_memory_and_its_processes";
    if !groups(test).is_some_and(|groups| groups.limit) {
        left_out::tell("control groups cannot limit memory and processes here", test);
        return;
    }
    let memory = "x = b'x' * (400 << 20)";
    // Memory that no process has mapped.
    let unmapped = "f = os.memfd_create('x')\nwhile True: os.write(f, b'x' * (1 << 20))";
    let processes = "for _ in range(8):\n    try: os.fork()\n    except OSError: pass\ntime.sleep(600)";
    for (taken, limit, value) in
        [(memory, "memory_bytes", 64_u64 << 20), (unmapped, "memory_bytes", 64 << 20), (processes, "processes", 20)]
    {
        let settings = [("hard_timeout_seconds", "60"), (&*format!("limits.{limit}"), &*value.to_string())];
        let server = Server::with(&settings);
        let entrypoint = json!({"type": "script", "script": {"command": "python3 scripts/take.py"}});
        server.skill("taker", "", json!({"runner": {"entrypoint": entrypoint}}));
        let script = format!("import os, sys, time\nsys.stdin.read()\n{taken}\n");
        fs::write(server.folder.path().join("skills/taker/scripts/take.py"), script).unwrap();
        let (_, run) = server.create("taker");
        let events = server.finish(&run);
        assert!(parts(&of_type(&events, "turn.started")[0]).contains(&"control-group"), "{events:#?}");
        let error = server.get(&format!("/v1/jobs/{run}")).json()["error"].take();
        assert_eq!(
            (&error["code"], &error["details"]["limit"]),
            (&json!("RESOURCE_LIMIT_EXCEEDED"), &json!(limit)),
            "{error}"
        );
        assert_eq!(error["details"]["value"], value, "{error}");
        // The kernel lets nobody have much more, whatever is wanted; pages of programs that others read first count besides.
        let seen = error["details"]["seen"].as_u64().unwrap();
        assert!((value..2 * value).contains(&seen), "{taken}: {error}");
    }
}

#[test]
fn groups_that_a_killed_service_left_are_removed_by_the_next_start_and_others_stay() {
    let test = "control_groups::groups_that_a_killed_service_left_are_removed_by_the_next_start_and_others_stay";
    let Some(groups) = groups(test) else { return };
    let name = format!("left-by-{}", std::process::id());
    let make = |prefix: &str, age: u64| -> Vec<PathBuf> {
        let made: Vec<PathBuf> =
            groups.folders.iter().map(|folder| folder.join(format!("{prefix}{name}-{age}"))).collect();
        for folder in &made {
            fs::create_dir(folder).unwrap();
            let then = SystemTime::now() - Duration::from_secs(age);
            fs::File::open(folder).unwrap().set_modified(then).unwrap();
        }
        made
    };
    let (left, fresh, foreign) = (make("skill-runner-", 120), make("skill-runner-", 1), make("other-", 120));
    let server = Server::with(&[("control_groups", "on")]);
    let there = |folders: &[PathBuf]| folders.iter().filter(|folder| folder.exists()).count();
    let counts = [&left, &fresh, &foreign].map(|folders| there(folders));
    drop(server);
    for folder in left.iter().chain(&fresh).chain(&foreign) {
        let _ = fs::remove_dir(folder);
    }
    assert_eq!(counts, [0, groups.folders.len(), groups.folders.len()]);
}

#[test]
fn groups_are_used_by_themselves_only_where_they_can_limit_memory_and_processes() {
    let test = "control_groups::groups_are_used_by_themselves_only_where_they_can_limit_memory_and_processes";
    let limit = groups(test).is_some_and(|groups| groups.limit);
    for (setting, used) in [("auto", limit), ("off", false)] {
        let server = Server::with(&[("control_groups", setting)]);
        server.skill("hello", crate::support::skill::HELLO, json!({}));
        let (_, run) = server.create("hello");
        let started = of_type(&server.finish(&run), "turn.started");
        assert_eq!(parts(&started[0]).contains(&"control-group"), used, "{setting}: {started:#?}");
    }
}
