//! A script kills its shim, and the service has children or orphans of its own: only the run's processes are signalled.

use std::fs;
use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use rustix::process::Signal;
use serde_json::{Value, json};

use super::{is_alive, kill, wait_for};
use crate::support::{Call, Sse, program, script_skill};

/// A service that a shell becomes, after it has started something else.
struct Service {
    child: Child,
    address: SocketAddr,
}

impl Service {
    /// Runs the shell script; `exec "$@"` in it is the service. The folder is its working directory.
    fn of_shell(folder: &Path, before: &[&str], script: &str) -> Service {
        let service = program();
        let words: Vec<&str> = before.iter().copied().chain(["sh", "-c", script, "sh"]).collect();
        let (first, rest) = words.split_first().unwrap();
        let mut child = Command::new(first)
            .args(rest)
            .arg(service.get_program())
            .args(["serve", "--port", "0", "--data-dir", "data", "--skills-dir", "skills"])
            .env_remove("SKILL_RUNNER_TEST_CLIS")
            .env_remove("SKILL_RUNNER_TEST_REPEAT")
            .env("SKILL_RUNNER_MIN_FREE_BYTES", "0")
            .env("LOG_LEVEL", "error")
            .current_dir(folder)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let line = lines.map_while(Result::ok).find(|line| line.contains("http://")).expect("the service starts");
        let address = line.split("http://").nth(1).unwrap().trim().trim_end_matches('/').parse().unwrap();
        Service { child, address }
    }

    /// Runs a skill; its job at the end.
    fn run(&self, skill: &str) -> Value {
        let created = Call::new(self.address, "POST", "/v1/jobs").json(&json!({"skill_id": skill})).send().json();
        let run = created["run_id"].as_str().unwrap_or_else(|| panic!("{created}")).to_owned();
        Sse::open(self.address, &format!("/v1/jobs/{run}/events"), &[]).until_end();
        Call::new(self.address, "GET", &format!("/v1/jobs/{run}")).send().json()
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Skills in the folder: one leaves processes in a session of their own and without environment, and kills its shim; one is
/// orderly.
fn write_skills(folder: &Path, own: &str) {
    let kills = format!("setsid sleep {own} & env -i setsid sleep {own} & kill -9 $PPID; exec sleep {own}");
    script_skill(&folder.join("skills"), "kills", &kills, json!({}));
    script_skill(&folder.join("skills"), "orderly", r#"echo '{"success":true,"data":{}}'"#, json!({}));
}

/// A time to sleep that no other process of the machine has, so that its sleepers are known from any pid namespace.
fn unique_time(kind: u32) -> String {
    format!("10000{kind}.{}", std::process::id())
}

/// The pids, here, of the processes that sleep for so long.
fn sleepers(time: &str) -> Vec<u32> {
    let pids = fs::read_dir("/proc").unwrap().filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
    let sleeps = |pid: &u32| {
        let words = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        words == format!("sleep\0{time}\0").as_bytes() && is_alive(*pid)
    };
    pids.filter(sleeps).collect()
}

/// Children of a process, with the state of each.
fn children(parent: u32) -> Vec<(u32, char)> {
    let pids = fs::read_dir("/proc").unwrap().filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
    let child = |pid: u32| {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        let mut fields = stat.rsplit(')').next()?.split_whitespace();
        let state = fields.next()?.chars().next()?;
        (fields.next()? == parent.to_string()).then_some((pid, state))
    };
    pids.filter_map(child).collect()
}

#[test]
fn children_that_the_service_had_before_its_exec_are_not_touched() {
    let folder = tempfile::tempdir().unwrap();
    let (own, foreign) = (unique_time(1), unique_time(2));
    write_skills(folder.path(), &own);
    let script = format!("setsid sleep {foreign} & sleep {foreign} & exec \"$@\"");
    let service = Service::of_shell(folder.path(), &[], &script);
    let strangers = wait_for("the shell's jobs run", || Some(sleepers(&foreign)).filter(|found| found.len() == 2));

    let job = service.run("kills");

    let code = &job["error"]["code"];
    assert_eq!((&job["status"], code), (&json!("failed"), &json!("ENGINE_FAILED")), "{job}");
    assert_eq!((sleepers(&own), sleepers(&foreign)), (vec![], strangers.clone()));
    assert_eq!(service.run("orderly")["status"], "succeeded");
    strangers.into_iter().for_each(|pid| kill(pid, Signal::KILL));
}

#[test]
fn the_service_as_first_process_reaps_strangers_and_does_not_touch_them() {
    const NAMESPACE: [&str; 7] =
        ["unshare", "--user", "--map-root-user", "--pid", "--fork", "--kill-child", "--mount-proc"];
    let [unshare, options @ ..] = NAMESPACE;
    if !Command::new(unshare).args(options).arg("true").status().is_ok_and(|status| status.success()) {
        eprintln!("this machine lets nobody make a pid namespace; the test needs one");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let (own, foreign) = (unique_time(3), unique_time(4));
    write_skills(folder.path(), &own);
    // Once the service runs, the inner shell ends and leaves an orphan, and is itself to be reaped.
    let leaves = format!("while [ ! -e go ]; do sleep 0.02; done; setsid sleep {foreign} & exit 5");
    let service = Service::of_shell(folder.path(), &NAMESPACE, &format!("sh -c '{leaves}' & exec \"$@\""));
    let first = wait_for("the first process", || Some(children(service.child.id()).first()?.0));
    fs::write(folder.path().join("go"), "").unwrap();
    let orphan = wait_for("the orphan belongs to the first process", || {
        let pid = *sleepers(&foreign).first()?;
        children(first).contains(&(pid, 'S')).then_some(pid)
    });

    let job = service.run("kills");

    let code = &job["error"]["code"];
    assert_eq!((&job["status"], code), (&json!("failed"), &json!("ENGINE_FAILED")), "{job}");
    assert_eq!((sleepers(&own), sleepers(&foreign)), (vec![], vec![orphan]));
    assert_eq!(service.run("orderly")["status"], "succeeded");
    wait_for("all that has ended is reaped", || children(first).iter().all(|(_, state)| *state != 'Z').then_some(()));
    // An orderly end is passed on, and its exit status comes back.
    let mut service = service;
    kill(first, Signal::TERM);
    assert_eq!(service.child.wait().unwrap().code(), Some(0));
    wait_for("a namespace ends with its first process", || sleepers(&foreign).is_empty().then_some(()));
}
