//! The `/tmp` of a run: its own where the service may mount, and never taken for its own where it is not.

use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::mpsc;

use rustix::fs::{CWD, Mode, mkfifoat};
use serde_json::{Value, json};

use super::service::{Service, of_type};
use super::{on_every_cli, path};
use crate::interactive::pose;
use crate::support::model_server::Reply;
use crate::support::{LONG, clis, sandbox};

on_every_cli!(
    a_file_in_tmp_is_seen_by_its_own_run_alone_and_goes_with_it,
    a_file_in_tmp_is_seen_by_its_own_run_alone_without_the_sandbox_too,
);

/// Whether runs of this service must have a `/tmp` of their own: whoever may mount can give them one, if nothing that they
/// need is in `/tmp`.
fn can_have_one(service: &Service, sandboxed: bool) -> bool {
    if sandboxed && sandbox::works() {
        return true;
    }
    let mounts = Command::new("unshare").args(["-m", "true"]).stderr(Stdio::null()).status();
    let needed = [service.folder.path(), &service.cli.prefix].map(|path| path.canonicalize().unwrap());
    let in_tmp = |path: &Path| path.starts_with("/tmp");
    mounts.is_ok_and(|status| status.success())
        && !needed.iter().any(|path| in_tmp(path))
        && !std::env::split_paths(&path()).any(|path| in_tmp(&path))
}

/// A service outside of `/tmp` with the skill `say`, and a name that no other test uses for a file in `/tmp`.
fn service(name: &str, starter: &[&str]) -> (Service, String) {
    let variables: &[_] = if starter.is_empty() { &[] } else { &[("SKILL_RUNNER_SANDBOX", "off")] };
    let service = Service::set_in(tempfile::tempdir_in("/var/tmp").unwrap(), starter, name, variables);
    pose::skill(&service.skills(), "say", None);
    let left = service.folder.path().file_name().unwrap().to_str().unwrap().replace('.', "own-tmp-");
    (service, left)
}

/// A body for the skill `say`; its runs are equal but for what the model says.
fn say() -> Value {
    json!({"skill_id": "say", "runtime_options": {"no_cache": true}})
}

/// Makes a pipe in a run's folder, where every engine's commands may read and write.
fn pipe(service: &Service, run: &str, name: &str) -> PathBuf {
    let pipe = service.run_dir(run).join(name);
    mkfifoat(CWD, &pipe, Mode::from_raw_mode(0o600)).unwrap();
    pipe
}

/// Waits until a command says something through a pipe; what it says. Opening waits for the command to open its end.
fn heard(pipe: PathBuf) -> String {
    let (says, heard) = mpsc::channel();
    std::thread::spawn(move || says.send(fs::read_to_string(pipe)));
    heard.recv_timeout(3 * LONG).expect("the command says it in time").unwrap()
}

/// The isolation that a finished run was told to have, which succeeded.
fn isolation(service: &Service, run: &str) -> Value {
    let events = service.finish(run);
    let job = service.get(&format!("/v1/jobs/{run}"));
    assert_eq!(job["status"], "succeeded", "{job:#}\n{events:#?}");
    let told = &of_type(&events, "turn.started").next().unwrap()["data"]["isolation"];
    assert_eq!(told, &job["isolation"]);
    told.clone()
}

fn has_own_tmp(isolation: &Value) -> bool {
    isolation["parts"].as_array().unwrap().contains(&json!("own-tmp"))
}

fn a_file_in_tmp_is_seen_by_its_own_run_alone_and_goes_with_it(name: &str) {
    leaves_a_file_in_tmp(name, &[]);
}

fn a_file_in_tmp_is_seen_by_its_own_run_alone_without_the_sandbox_too(name: &str) {
    leaves_a_file_in_tmp(name, &["env"]);
}

/// A run leaves a file in `/tmp`, and another looks for it; a service that is started by other words has no sandbox.
fn leaves_a_file_in_tmp(name: &str, starter: &[&str]) {
    let (mut service, left) = service(name, starter);
    let (own, outside) = (can_have_one(&service, starter.is_empty()), Path::new("/tmp").join(&left));
    let done = Reply::Result(json!({"name": "Ann"}));
    // The sandbox of codex lets no command write to /tmp, and codex does not wait for a long command: it asks its model meanwhile.
    let writes = name != "codex";
    let leave = format!("echo x > {}; ls /tmp > seen; ls \"$TMPDIR\" > in_tmpdir", outside.display());
    let wait = "until [ -p left ] && [ -p go ]; do sleep 0.1; done; echo done > left; cat go";
    let command = if writes { format!("{leave}; {wait}") } else { leave };
    let run = service.start(&[Reply::Shell(command), done.clone()], say());
    let sees = |service: &Service, run: &str, file: &str| {
        fs::read_to_string(service.run_dir(run).join(file)).unwrap().lines().any(|line| line == left)
    };
    if writes {
        let go = pipe(&service, &run, "go");
        assert_eq!(heard(pipe(&service, &run, "left")), "done\n");
        let (seen_outside, scratch) = (outside.exists(), service.folder.path().join("data/tmp").join(&run));
        assert_eq!((seen_outside, scratch.join(&left).exists()), (!own, own));
        assert_eq!((sees(&service, &run, "seen"), sees(&service, &run, "in_tmpdir")), (true, own));

        let look = Reply::Shell("ls -a /tmp > seen".to_owned());
        let other = service.start(&[look, done.clone()], say());
        assert_eq!(has_own_tmp(&isolation(&service, &other)), own);
        assert_eq!(sees(&service, &other, "seen"), !own, "another run at the same time");
        service.model.script(&[done]);
        File::options().write(true).open(go).unwrap().write_all(b"go\n").unwrap();
    }
    assert_eq!(has_own_tmp(&isolation(&service, &run)), own);
    let seen_outside = outside.exists();
    let _ = fs::remove_file(outside);
    assert_eq!(seen_outside, writes && !own);
    // Nothing of either run is left in the folder of such folders.
    let scratch: Vec<_> = fs::read_dir(service.folder.path().join("data/tmp")).unwrap().collect();
    assert!(scratch.is_empty(), "{scratch:?}");
    service.close();
}

#[test]
fn without_the_right_to_mount_nothing_is_claimed_and_only_tmpdir_is_the_runs_own() {
    const NAME: &str =
        "real_clis::own_tmp::without_the_right_to_mount_nothing_is_claimed_and_only_tmpdir_is_the_runs_own";
    if clis::left_out(NAME) {
        return;
    }
    let root = rustix::process::geteuid().is_root();
    let starter: &[&str] = if root { &["setpriv", "--bounding-set=-sys_admin"] } else { &["env"] };
    let (mut service, left) = service("claude", starter);
    let outside = Path::new("/tmp").join(&left);
    let look = format!("echo x > {}; echo \"$TMPDIR\" > tmpdir; ls \"$TMPDIR\" > in_tmpdir", outside.display());
    let run = service.start(&[Reply::Shell(look), Reply::Result(json!({"name": "Ann"}))], say());
    let told = isolation(&service, &run);
    let seen_outside = outside.exists();
    let _ = fs::remove_file(outside);
    // A control group needs no right to mount.
    let parts: Vec<&Value> = told["parts"].as_array().unwrap().iter().filter(|part| *part != "control-group").collect();
    assert_eq!((parts, seen_outside), (vec![&json!("process-tree")], true));
    let noted = |file: &str| fs::read_to_string(service.run_dir(&run).join(file)).unwrap();
    let own = service.folder.path().join("data/tmp").join(&run);
    assert_eq!(Path::new(noted("tmpdir").trim_end()), own);
    assert!(!noted("in_tmpdir").contains(&left));
    service.close();
}
