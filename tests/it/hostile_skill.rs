//! A skill that tries to leave its run: by a script, and by the shell of each agent CLI. It gets nowhere, and without the
//! sandbox the same attempts succeed.

use std::fs;
use std::net::SocketAddr;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::fs::{PermissionsExt, chown};
use std::os::unix::net::UnixListener;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::cli::place::Place;
use crate::support::{Call, Server, Sse, left_out, sandbox, script_skill};

pub const ATTACK: &str = include_str!("hostile_skill/attack.py");
/// Takes what it is told to take: a thousand processes, 8 GiB of memory or disk, a million files.
pub const HOG: &str = include_str!("hostile_skill/hog.py");
/// What it takes, and the limit that it meets.
pub const HOGS: [(&str, &str, u64); 4] = [
    ("processes", "processes", 400),
    ("memory_bytes", "memory_bytes", 2 << 30),
    ("disk_bytes", "disk_bytes", 256 << 20),
    ("files", "disk_bytes", 256 << 20),
];

/// A loaded machine may need this long.
pub const ANSWERED_WITHIN: Duration = Duration::from_secs(30);

/// Waits for the end of a run by `finish`; meanwhile the service answers, each time within this time.
pub fn answering(address: SocketAddr, finish: impl FnOnce()) -> Duration {
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let asking = scope.spawn(|| {
            let mut slowest = Duration::ZERO;
            while !over.load(Ordering::Relaxed) {
                let begun = Instant::now();
                assert_eq!(Call::new(address, "GET", "/v1/jobs?limit=1").send().status, 200);
                slowest = slowest.max(begun.elapsed());
                // Asking without a pause would be a load of its own.
                std::thread::sleep(Duration::from_millis(20));
            }
            slowest
        });
        finish();
        over.store(true, Ordering::Relaxed);
        asking.join().unwrap()
    })
}

/// The run met this limit, and its error says so.
pub fn met(job: &Value, limit: &str, value: u64) {
    let error = &job["error"];
    assert_eq!((&job["status"], &error["code"]), (&json!("failed"), &json!("RESOURCE_LIMIT_EXCEEDED")), "{job:#}");
    assert_eq!((&error["details"]["limit"], &error["details"]["value"]), (&json!(limit), &json!(value)), "{job:#}");
}

/// What there is to get outside, for as long as this is held.
pub struct Bait {
    home: tempfile::TempDir,
    tmp: tempfile::TempDir,
    outside: tempfile::TempDir,
    victim: Child,
    _listener: UnixListener,
    name: String,
}

impl Bait {
    pub fn set() -> Bait {
        let home = PathBuf::from(std::env::var_os("HOME").unwrap());
        let tmp = tempfile::tempdir_in("/tmp").unwrap();
        let name = format!("bait-{}", tmp.path().file_name().unwrap().to_str().unwrap());
        let address = std::os::unix::net::SocketAddr::from_abstract_name(&name).unwrap();
        let victim = Command::new("sh").args(["-c", "exec sleep 10000", &name]).spawn().unwrap();
        let bait = Bait {
            home: tempfile::tempdir_in(home).unwrap(),
            outside: tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap(),
            victim,
            _listener: UnixListener::bind_addr(&address).unwrap(),
            name,
            tmp,
        };
        for place in [&bait.home, &bait.tmp] {
            fs::write(place.path().join("file"), "secret").unwrap();
        }
        bait
    }

    /// The parameters of the attack: `all`, or only what changes nothing where it succeeds.
    pub fn aim(&self, data: &Path, other_run: &Path, service: SocketAddr, all: bool) -> Value {
        json!({
            "all": all,
            "other_run": other_run,
            "data_file": data.join("signing-key"),
            "operators_file": data.join("agent-home/claude/kept"),
            "home_file": self.home.path().join("file"),
            "tmp_file": self.tmp.path().join("file"),
            "outside": self.outside.path(),
            // The victim's own name in the table of processes.
            "victim": "sleep\u{0}10000",
            "port": service.port(),
            "abstract": self.name,
            "namespaces": namespaces(),
        })
    }

    /// Whether something was written where it may not be.
    pub fn was_written_to(&self) -> bool {
        self.outside.path().join("planted").exists()
    }
}

/// The names of the namespaces that a run is to have of its own.
fn namespaces() -> Value {
    let name = |kind: &str| fs::read_link(format!("/proc/self/ns/{kind}")).unwrap().to_str().unwrap().to_owned();
    ["mnt", "pid", "ipc", "uts", "net", "cgroup"].into_iter().map(|kind| (kind.to_owned(), json!(name(kind)))).collect()
}

impl Drop for Bait {
    fn drop(&mut self) {
        let _ = self.victim.kill();
        let _ = self.victim.wait();
    }
}

/// The attempts that came to something.
pub fn successes(report: &Value) -> Vec<(String, String)> {
    let attempts = report.as_object().unwrap_or_else(|| panic!("{report}"));
    let told = attempts.iter().map(|(name, outcome)| (name.clone(), outcome.as_str().unwrap().to_owned()));
    told.filter(|(_, outcome)| !outcome.starts_with("refused")).collect()
}

/// A file that the operator keeps beside the login of an engine.
pub fn keep_for(data: &Path, engine: &str) -> PathBuf {
    let home = data.join("agent-home").join(engine);
    fs::create_dir_all(&home).unwrap();
    fs::write(home.join("kept"), "secret").unwrap();
    home.join("kept")
}

/// What a run leaves that others may want.
const VICTIM: &str = "cat >/dev/null; echo secret > artifacts/own; echo '{\"success\":true,\"data\":{}}'\n";

/// Writes the skill that attacks.
fn write_hostile(skills: &Path, aim: &Value, network: &str) {
    let entrypoint = json!({"type": "script", "script": {"command": "python3 scripts/attack.py"}});
    let automation = json!({"network": network, "fs_scope": "run"});
    script_skill(skills, "hostile", "", json!({"runner": {"entrypoint": entrypoint, "automation": automation}}));
    let scripts = skills.join("hostile/scripts");
    fs::write(scripts.join("attack.py"), ATTACK).unwrap();
    fs::write(scripts.join("attack.json"), aim.to_string()).unwrap();
}

/// A server with a run that has a file, and the skill that attacks it.
fn attacked(bait: &Bait, sandbox: &str, all: bool, network: &str) -> (Server, Value) {
    // Without the sandbox nothing else is to be in force.
    let server =
        Server::with(&[("sandbox", sandbox), ("control_groups", if sandbox == "off" { "off" } else { "auto" })]);
    fs::write(server.data().join("signing-key"), "secret").unwrap();
    keep_for(&server.data(), "claude");
    server.skill("victim", VICTIM, json!({}));
    let (_, victim) = server.create("victim");
    server.finish(&victim);
    let aim = bait.aim(&server.data(), &server.run_dir(&victim).join("input.json"), server.address, all);
    write_hostile(&server.folder.path().join("skills"), &aim, network);
    let (_, run) = server.create("hostile");
    server.finish(&run);
    let job = server.get(&format!("/v1/jobs/{run}")).json();
    assert_eq!(job["status"], "succeeded", "{job:#}");
    (server, job)
}

fn report(server: &Server, job: &Value) -> Value {
    server.get(&format!("/v1/jobs/{}/result", job["run_id"].as_str().unwrap())).json()["result"]["data"].take()
}

#[test]
fn a_hostile_script_gets_nowhere_and_its_refused_ways_out_are_told() {
    if sandbox::left_out("hostile_skill::a_hostile_script_gets_nowhere_and_its_refused_ways_out_are_told") {
        return;
    }
    let bait = Bait::set();
    for network in ["off", "on", "allowlist"] {
        let (server, job) = attacked(&bait, "on", true, network);
        let report = report(&server, &job);
        assert!(report.as_object().unwrap().len() > 57, "{report:#}");
        assert_eq!(successes(&report), [], "{network}: {report:#}");
        assert!(!bait.was_written_to());
        let isolation = &job["isolation"];
        let reach = match network {
            "off" => "none",
            "on" => "open",
            other => other,
        };
        assert_eq!((&isolation["tier"], &isolation["network"]), (&json!("sandbox"), &json!(reach)), "{isolation:#}");
        let warnings = job["warnings"].as_array().unwrap();
        let refused: Vec<&Value> = warnings.iter().filter(|warning| warning["code"] == "EGRESS_REFUSED").collect();
        let hosts: Vec<&Value> = refused.iter().map(|warning| &warning["details"]["host"]).collect();
        // Where there is no network at all, there is no proxy that could refuse.
        let notations = ["2130706433", "0177.0.0.1", "0x7f.1", "127.1", "0.0.0.0", "::1", "::ffff:127.0.0.1", "::"];
        let wanted = ["127.0.0.1", "localhost", "169.254.169.254"].into_iter().chain(notations);
        let wanted: Vec<&str> = wanted.filter(|_| network != "off").collect();
        assert_eq!(hosts, wanted, "{warnings:#?}");
        assert_eq!(server.get("/healthz").status, 200);
    }
}

#[test]
fn without_the_sandbox_the_same_script_gets_what_it_wants_and_the_log_says_that_nothing_kept_it() {
    let bait = Bait::set();
    let (server, job) = attacked(&bait, "off", false, "off");
    let report = report(&server, &job);
    let got: Vec<String> = successes(&report).into_iter().map(|(name, _)| name).collect();
    let all = [
        "another run",
        "the data folder",
        "what the operator keeps for the engine",
        "a home",
        "the machine's /tmp",
        "writing outside",
        "processes of others",
        "the service",
        "an abstract socket",
    ];
    assert_eq!(got, all, "{report:#}");
    assert!(bait.was_written_to());
    assert_eq!(
        job["isolation"],
        json!({"tier": "process-tree", "parts": ["process-tree"], "files": "machine", "network": "machine"})
    );
    let warnings = job["warnings"].as_array().unwrap();
    let told = warnings.iter().find(|warning| warning["code"] == "ISOLATION_NOT_ENFORCED").unwrap();
    assert_eq!(told["details"]["asked"], json!(["automation.network: off", "automation.fs_scope: run"]));
}

/// A user who has no rights on the machine.
const NOBODY: u32 = 65534;

#[test]
fn a_service_of_a_plain_user_confines_its_runs_as_well() {
    let test = "hostile_skill::a_service_of_a_plain_user_confines_its_runs_as_well";
    if !rustix::process::geteuid().is_root() {
        // Then all other tests are those of a plain user.
        return;
    }
    let allowed = Command::new("unshare").args(["--user", "--net", "true"]).uid(NOBODY).gid(NOBODY).status();
    if sandbox::left_out(test) || !allowed.is_ok_and(|status| status.success()) {
        assert!(std::env::var_os("SANDBOX_TEST_REQUIRED").is_none(), "{test} needs namespaces of plain users");
        left_out::tell("plain users may not make namespaces here", test);
        return;
    }
    let bait = Bait::set();
    let folder = tempfile::Builder::new().permissions(fs::Permissions::from_mode(0o755)).tempdir().unwrap();
    let program = folder.path().join("skill-runner");
    fs::copy(env!("CARGO_BIN_EXE_skill-runner"), &program).unwrap();
    let home = folder.path().join("home");
    fs::create_dir(&home).unwrap();
    script_skill(&home.join("skills"), "victim", VICTIM, json!({}));
    chown(&home, Some(NOBODY), Some(NOBODY)).unwrap();
    let mut serve = Command::new(&program);
    serve.args(["serve", "--port", "0"]).current_dir(&home).uid(NOBODY).gid(NOBODY).env_clear();
    serve.env("PATH", "/usr/local/bin:/usr/bin:/bin").env("SKILL_RUNNER_MIN_FREE_BYTES", "0");
    serve.env("SKILL_RUNNER_SANDBOX", "on");
    serve.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let (_running, line) = Place::started(serve, "listening on http://");
    let address: SocketAddr = line.strip_prefix("listening on http://").unwrap().parse().unwrap();
    let run = |skill: &str| {
        let created = Call::new(address, "POST", "/v1/jobs").json(&json!({"skill_id": skill})).send().json();
        let run = created["run_id"].as_str().unwrap_or_else(|| panic!("{created}")).to_owned();
        Sse::open(address, &format!("/v1/jobs/{run}/events?cursor=0"), &[]).until_end();
        run
    };
    let data = home.join("data");
    let other_run = data.join("runs").join(run("victim")).join("input.json");
    assert!(other_run.exists());
    keep_for(&data, "claude");
    write_hostile(&home.join("skills"), &bait.aim(&data, &other_run, address, true), "on");
    let hostile = run("hostile");
    let job = Call::new(address, "GET", &format!("/v1/jobs/{hostile}")).send().json();
    assert_eq!(job["status"], "succeeded", "{job:#}");
    let parts = job["isolation"]["parts"].as_array().unwrap();
    assert!(parts.contains(&json!("user-namespace")), "{job:#}");
    let result = Call::new(address, "GET", &format!("/v1/jobs/{hostile}/result")).send().json();
    let report = &result["result"]["data"];
    assert!(report.as_object().unwrap().len() > 57, "{report:#}");
    assert_eq!(successes(report), [], "{report:#}");
}

#[test]
fn a_script_that_takes_all_it_can_get_is_ended_by_its_limit_and_the_service_answers_meanwhile() {
    let limits = HOGS.map(|(_, limit, value)| (format!("limits.{limit}"), value.to_string()));
    let mut settings: Vec<(&str, &str)> = limits.iter().map(|(key, value)| (key.as_str(), value.as_str())).collect();
    settings.push(("hard_timeout_seconds", "200"));
    let server = Server::with(&settings);
    for (takes, limit, value) in HOGS {
        let id = format!("takes-{}", takes.replace('_', "-"));
        let entrypoint = json!({"type": "script", "script": {"command": format!("python3 scripts/hog.py {takes}")}});
        server.skill(&id, "", json!({"runner": {"entrypoint": entrypoint}}));
        fs::write(server.folder.path().join("skills").join(&id).join("scripts/hog.py"), HOG).unwrap();
        let (_, run) = server.create(&id);
        let slowest = answering(server.address, || {
            server.finish(&run);
        });
        met(&server.get(&format!("/v1/jobs/{run}")).json(), limit, value);
        assert!(slowest < ANSWERED_WITHIN, "{takes}: an answer took {slowest:?}");
    }
}

#[test]
fn links_that_a_run_plants_lead_neither_its_index_nor_its_clean_up_anywhere() {
    let outside = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    fs::write(outside.path().join("kept"), "secret").unwrap();
    let to = outside.path().display();
    let plant = format!(
        "cat >/dev/null\nln -s {to} artifacts/folder\nln -s {to}/kept artifacts/file\nln -s {to} \"$TMPDIR/folder\"\n\
         mkdir -p deep/er\nln -s {to} deep/er/folder\nln -s {to} folder\nrm -rf uploads raw\nln -s {to} uploads\nln -s {to} raw\n\
         echo own > artifacts/own\necho '{{\"success\":true,\"data\":{{}}}}'\n"
    );
    for sandbox in ["off", "auto"] {
        let server = Server::with(&[("sandbox", sandbox)]);
        server.skill("planter", &plant, json!({}));
        let (_, run) = server.create("planter");
        server.finish(&run);
        let job = server.get(&format!("/v1/jobs/{run}")).json();
        assert_eq!(job["status"], "succeeded", "{job:#}");
        let artifacts = server.get(&format!("/v1/jobs/{run}/artifacts")).json();
        assert_eq!(artifacts["artifacts"], json!(["artifacts/own"]), "{artifacts:#}");
        let folder = server.run_dir(&run);
        assert_eq!(server.call("DELETE", &format!("/v1/jobs/{run}")).send().status, 200);
        assert!(!folder.exists());
        assert_eq!(fs::read_to_string(outside.path().join("kept")).unwrap(), "secret", "{sandbox}");
        assert_eq!(fs::read_dir(outside.path()).unwrap().count(), 1, "{sandbox}");
    }
}
