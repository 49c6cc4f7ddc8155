//! Skills that take the folder of their own run away from the runner: by permissions, or by what they put in the place of its folders.

use std::fs;
use std::net::SocketAddr;
use std::os::unix::fs::{PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::cli::place::{Place, Running};
use crate::support::{Call, Sse, left_out, script_skill};

/// A user who has no rights on the machine: permissions count for the service only if it is not root.
const NOBODY: u32 = 65534;

/// Skills that close what the runner needs again, and answer.
const CLOSERS: [(&str, &str); 4] = [
    ("closes-all", "chmod 000 logs/* logs result artifacts ."),
    ("closes-files", "chmod 000 logs/* *.json"),
    ("closes-folders", "mkdir -p raw bundle; chmod 000 logs result raw bundle artifacts"),
    ("links-its-logs", "mv logs elsewhere; ln -s elsewhere logs"),
];
const ANSWER: &str = "echo '{\"success\":true,\"data\":{}}'\n";

/// A folder for a service of a plain user, where the test may become one.
struct OwnHome {
    folder: tempfile::TempDir,
}

impl OwnHome {
    fn new() -> Self {
        let folder = tempfile::Builder::new().permissions(fs::Permissions::from_mode(0o755)).tempdir().unwrap();
        fs::copy(env!("CARGO_BIN_EXE_skill-runner"), folder.path().join("skill-runner")).unwrap();
        let home = Self { folder };
        fs::create_dir_all(home.skills()).unwrap();
        if rustix::process::geteuid().is_root() {
            chown(home.path(), Some(NOBODY), Some(NOBODY)).unwrap();
        }
        home
    }

    fn path(&self) -> PathBuf {
        self.folder.path().join("home")
    }

    fn skills(&self) -> PathBuf {
        self.path().join("skills")
    }

    /// A service with one place for runs.
    fn serve(&self, settings: &[(&str, &str)]) -> (Running, SocketAddr) {
        let mut serve = Command::new(self.folder.path().join("skill-runner"));
        serve.args(["serve", "--port", "0"]).current_dir(self.path()).env_clear();
        if rustix::process::geteuid().is_root() {
            serve.uid(NOBODY).gid(NOBODY);
        }
        serve.env("PATH", "/usr/local/bin:/usr/bin:/bin").env("SKILL_RUNNER_MIN_FREE_BYTES", "0");
        serve.env("SKILL_RUNNER_MAX_RUNNING_JOBS", "1").env("SKILL_RUNNER_SANDBOX", "off");
        serve.envs(settings.iter().map(|(name, value)| (format!("SKILL_RUNNER_{name}"), value)));
        serve.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let (running, line) = Place::started(serve, "listening on http://");
        (running, line.strip_prefix("listening on http://").unwrap().parse().unwrap())
    }
}

fn create(address: SocketAddr, skill: &str) -> String {
    let body = json!({"skill_id": skill, "runtime_options": {"no_cache": true}});
    let created = Call::new(address, "POST", "/v1/jobs").json(&body).send().json();
    created["run_id"].as_str().unwrap_or_else(|| panic!("{created}")).to_owned()
}

fn follow(address: SocketAddr, run: &str) -> Sse {
    Sse::open(address, &format!("/v1/jobs/{run}/events?cursor=0"), &[])
}

fn get(address: SocketAddr, path: &str) -> Value {
    Call::new(address, "GET", path).send().json()
}

#[test]
fn a_skill_that_closes_its_own_folder_ends_and_its_place_is_free_again() {
    let home = OwnHome::new();
    for (id, close) in CLOSERS {
        script_skill(&home.skills(), id, &format!("cat >/dev/null\n{close}\n{ANSWER}"), json!({}));
        script_skill(&home.skills(), &format!("{id}-and-waits"), &format!("{close}\nsleep 1000\n"), json!({}));
    }
    let (mut running, mut address) = home.serve(&[]);
    for (id, _) in CLOSERS {
        let run = create(address, id);
        // With one place, each begins only when the one before it has left.
        let told = follow(address, &run).until_end();
        assert_eq!(told.last().unwrap()["type"], "conversation.completed", "{id}: {told:?}");
        let audit = get(address, &format!("/v1/jobs/{run}/audit"));
        assert_eq!(audit["ok"], true, "{id}: {audit:#}");
    }
    for (id, _) in CLOSERS {
        let run = create(address, &format!("{id}-and-waits"));
        let folder = home.path().join("data/runs").join(&run);
        let closed = || {
            let of = |path: &Path| fs::symlink_metadata(path).map_or(0o777, |found| found.permissions().mode());
            let taken =
                [folder.clone(), folder.join("logs"), folder.join("logs/stdout.txt")].map(|path| of(&path) & 0o700);
            taken.contains(&0) || folder.join("elsewhere").exists()
        };
        crate::crash::until("the skill has closed its folder", closed);
        running.signal(Signal::KILL);
        running.end();
        (running, address) = home.serve(&[]);
        let told = follow(address, &run).until_end();
        assert_eq!(told.last().unwrap()["type"], "conversation.failed", "{id}: {told:?}");
        assert_eq!(Call::new(address, "DELETE", &format!("/v1/jobs/{run}")).send().status, 200, "{id}");
        assert!(!folder.exists(), "{id}");
    }
}

#[test]
fn whatever_is_in_the_place_of_the_logs_a_killed_run_ends_and_gets_nothing_of_others() {
    let place = Place::new();
    place.skill("victim", "cat >/dev/null\necho secret >&2\necho '{\"success\":true,\"data\":{}}'\n");
    let serve = || {
        let (running, line) = place.start(&["serve", "--port", "0"], "listening on ");
        (running, line.strip_prefix("listening on http://").unwrap().parse::<SocketAddr>().unwrap())
    };
    let (mut running, mut address) = serve();
    let victim = create(address, "victim");
    follow(address, &victim).until_end();
    let of_victim = place.path().join("data/runs").join(&victim).join("logs/stderr.txt");
    let before = fs::read(&of_victim).unwrap();
    for (id, plant) in [
        ("pipe", "mkfifo logs"),
        ("file", "echo > logs"),
        ("loop", "ln -s logs logs"),
        ("link", &format!("ln -s ../{victim}/logs logs")),
    ] {
        place.skill(id, &format!("mv logs gone\n{plant}\ntouch ready\nsleep 1000\n"));
        let run = create(address, id);
        let folder = place.path().join("data/runs").join(&run);
        crate::crash::until("the skill has planted it", || folder.join("ready").exists());
        running.signal(Signal::KILL);
        running.end();
        (running, address) = serve();
        let told = follow(address, &run).until_end();
        assert_eq!(told.last().unwrap()["type"], "conversation.failed", "{id}: {told:?}");
        assert!(!told.iter().any(|event| event["type"] == "raw.stderr"), "{id}: {told:?}");
        let audit = get(address, &format!("/v1/jobs/{run}/audit"));
        assert_eq!(audit["ok"], true, "{id}: {audit:#}");
        assert_eq!(fs::read(&of_victim).unwrap(), before, "{id}");
    }
}

/// Skills that change what they wrote, once it is in the log.
const FORGERS: [(&str, &str); 3] = [
    ("truncates", ": > logs/stderr.txt"),
    ("overwrites", "printf T | dd of=logs/stderr.txt conv=notrunc 2>/dev/null"),
    ("truncates-and-goes-on", ": > logs/stderr.txt; echo more >&2; sleep 0.2; : > logs/stdout.txt"),
];

#[test]
fn a_run_that_changes_its_own_logs_is_told_so_and_no_disk_is_blamed() {
    let place = Place::new();
    let wait = "cat >/dev/null\necho one >&2\nuntil grep -q one logs/stderr.txt; do sleep 0.01; done\n";
    for (id, change) in FORGERS {
        place.skill(id, &format!("{wait}{ANSWER}{change}\n"));
    }
    place.skill("appends", &format!("{wait}echo forged >> logs/stderr.txt\n{ANSWER}"));
    let (_running, line) = place.start(&["serve", "--port", "0"], "listening on ");
    let address: SocketAddr = line.strip_prefix("listening on http://").unwrap().parse().unwrap();
    for (id, _) in FORGERS {
        let run = create(address, id);
        let told = follow(address, &run).until_end();
        let last = told.last().unwrap();
        assert_eq!(last["data"]["error"]["code"], "LOG_CHANGED_BY_RUN", "{id}: {last:#}");
        let warned = told
            .iter()
            .any(|event| event["data"]["code"] == "LOG_CHANGED" && event["data"]["details"]["stream"] == "stderr");
        assert!(warned, "{id}: {told:?}");
        let audit = get(address, &format!("/v1/jobs/{run}/audit"));
        let not_checked = "logs/stderr.txt against its events: the run itself changed it, as its log says";
        assert_eq!(audit["ok"], true, "{id}: {audit:#}");
        assert!(audit["not_checked"].as_array().unwrap().contains(&json!(not_checked)), "{id}: {audit:#}");
        for path in ["logs", "logs/range?stream=stderr", "export", "explain"] {
            assert_eq!(Call::new(address, "GET", &format!("/v1/jobs/{run}/{path}")).send().status, 200, "{id} {path}");
        }
    }
    // What stands behind the end of a log can be told from it, and goes.
    let run = create(address, "appends");
    let told = follow(address, &run).until_end();
    assert_eq!(told.last().unwrap()["type"], "conversation.completed", "{told:?}");
    assert_eq!(get(address, &format!("/v1/jobs/{run}/logs"))["stderr"], "one\n");
    assert_eq!(get(address, &format!("/v1/jobs/{run}/audit"))["ok"], true);
    assert_eq!(get(address, "/v1/system")["integrity"]["damaged"], 0);
}

#[test]
fn logs_that_a_run_has_closed_or_replaced_are_refused_with_a_code_until_it_ends() {
    let home = OwnHome::new();
    for (id, close) in [("closes", "chmod 000 logs"), ("replaces", "rm logs/stdout.txt; mkfifo logs/stdout.txt")] {
        script_skill(&home.skills(), id, &format!("{close}\ntouch closed\nsleep 1000\n"), json!({}));
    }
    let (_running, address) = home.serve(&[("KILL_GRACE_SECONDS", "1")]);
    for (id, status, code) in [("closes", 403, "FILE_NOT_SHOWN"), ("replaces", 404, "FILE_NOT_FOUND")] {
        let run = create(address, id);
        let folder = home.path().join("data/runs").join(&run);
        crate::crash::until("the skill has closed its logs", || folder.join("closed").exists());
        for path in ["jobs/{}/logs", "jobs/{}/logs/range?stream=stdout", "management/runs/{}/file?path=logs/stdout.txt"]
        {
            let refused = Call::new(address, "GET", &format!("/v1/{}", path.replace("{}", &run))).send();
            let told = refused.json();
            assert_eq!((refused.status, &told["error"]["code"]), (status, &json!(code)), "{id} {path}: {told}");
        }
        assert_eq!(Call::new(address, "POST", &format!("/v1/jobs/{run}/cancel")).json(&json!({})).send().status, 200);
        follow(address, &run).until_end();
        assert_eq!(Call::new(address, "GET", &format!("/v1/jobs/{run}/logs")).send().status, 200, "{id}");
    }
}

/// Files behind closed doors: a folder that can be neither listed nor entered, and one that can be listed alone.
const HOARDERS: [(&str, &str); 2] = [("hides-all", "000"), ("hides-sizes", "400")];

#[test]
fn what_a_skill_hides_from_the_service_counts_as_its_disk_space() {
    let home = OwnHome::new();
    for (id, mode) in HOARDERS {
        let fill = format!(
            "cat >/dev/null\nmkdir -p hidden/below\nexec 3>hidden/below/file\nchmod {mode} hidden\n\
             head -c 40000000 /dev/zero >&3\nsleep 1000\n"
        );
        script_skill(&home.skills(), id, &fill, json!({}));
    }
    let (_running, address) = home.serve(&[("LIMITS_DISK_BYTES", "20000000")]);
    for (id, _) in HOARDERS {
        let run = create(address, id);
        let told = follow(address, &run).until_end();
        assert_eq!(told.last().unwrap()["data"]["error"]["code"], "RESOURCE_LIMIT_EXCEEDED", "{id}: {told:?}");
    }
}

#[test]
fn a_run_whose_files_stay_out_of_reach_gives_its_place_back_and_ends_when_they_are_in_reach() {
    if !rustix::process::geteuid().is_root() {
        left_out::tell("only root can take files from a user", "hostile::own_folder");
        return;
    }
    let home = OwnHome::new();
    let [begun, go] = ["begun", "go"].map(|name| home.path().join(name));
    script_skill(
        &home.skills(),
        "waits",
        &format!("touch {}\nuntil [ -e {} ]; do sleep 0.1; done\n{ANSWER}", begun.display(), go.display()),
        json!({}),
    );
    script_skill(&home.skills(), "next", &format!("cat >/dev/null\n{ANSWER}"), json!({}));
    let (_running, address) = home.serve(&[]);
    let run = create(address, "waits");
    let folder = home.path().join("data/runs").join(&run);
    crate::crash::until("the run has begun", || begun.exists());
    let own = |user| {
        for path in [&folder, &folder.join("logs"), &folder.join("logs/stdout.txt"), &folder.join("logs/stderr.txt")] {
            chown(path, Some(user), Some(user)).unwrap();
        }
    };
    own(0);
    fs::write(&go, "").unwrap();
    // Its place is the only one.
    let next = create(address, "next");
    let told = follow(address, &next).until_end();
    assert_eq!(told.last().unwrap()["type"], "conversation.completed", "{told:?}");
    assert_eq!(get(address, &format!("/v1/jobs/{run}"))["status"], "running");
    own(NOBODY);
    let told = follow(address, &run).until_end();
    assert_eq!(told.last().unwrap()["type"], "conversation.failed", "{told:?}");
}

#[test]
fn a_lock_that_another_holds_on_the_skills_folder_keeps_no_service_from_starting() {
    let home = OwnHome::new();
    script_skill(&home.skills(), "next", &format!("cat >/dev/null\n{ANSWER}"), json!({}));
    // Whoever may read a folder can lock it.
    let held = fs::File::open(home.skills()).unwrap();
    held.lock().unwrap();
    let (_running, address) = home.serve(&[]);
    let run = create(address, "next");
    let told = follow(address, &run).until_end();
    assert_eq!(told.last().unwrap()["type"], "conversation.completed", "{told:?}");
}
