//! Installing processes are killed with -9 at random moments: the skill is whole, old or new, and nothing half is left.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::{Mutex, mpsc};
use std::time::{Duration, Instant};

use semver::Version;
use serde_json::{Value, json};
use skill_runner::registry::load_dir;
use skill_runner::skill::Intake;

use crate::crash::Server;
use crate::support::random::Random;
use crate::support::zips::zip_folder;
use crate::support::{Call, LONG, program, script_skill};

const SERVICES: u64 = 10;
const COMMANDS: u64 = 16;
/// Nobody waits longer than this for the moment of a kill.
const WINDOW_MAX: Duration = Duration::from_millis(500);
/// Enough files for a kill to find one in the making.
const FILES: usize = 40;

/// A package whose every file knows its version.
pub(super) fn package(folder: &Path, version: &str) {
    script_skill(folder, "demo", version, json!({"runner": {"version": version}}));
    for number in 0..FILES {
        let file = folder.join(format!("demo/references/part-{number}/{number}.md"));
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(file, version).unwrap();
    }
}

/// The version of a package whose every file is of that version.
#[track_caller]
pub(super) fn whole(dir: &Path) -> Version {
    let found = load_dir(&named(dir), Intake::New).unwrap_or_else(|findings| panic!("{}: {findings:?}", dir.display()));
    let version = found.skill.version.clone();
    for number in 0..FILES {
        let text = fs::read_to_string(dir.join(format!("references/part-{number}/{number}.md"))).unwrap();
        assert_eq!(text, version.to_string(), "{}", dir.display());
    }
    version
}

/// An archived package is called after its version; read under its own name.
fn named(dir: &Path) -> std::path::PathBuf {
    if dir.ends_with("demo") {
        return dir.to_owned();
    }
    let link = dir.parent().unwrap().join(format!("../../../names/{}", dir.file_name().unwrap().to_str().unwrap()));
    fs::create_dir_all(&link).unwrap();
    let copy = link.join("demo");
    if !copy.exists() {
        assert!(Command::new("cp").arg("-r").arg(dir).arg(&copy).status().unwrap().success());
    }
    copy
}

/// The version in place, if there is one, and those in the archive: all of them whole, and nothing beside them.
#[track_caller]
pub(super) fn versions(skills: &Path) -> (Option<Version>, BTreeSet<Version>) {
    let names = |dir: &Path| -> BTreeSet<String> {
        let entries = fs::read_dir(dir).into_iter().flatten().map(Result::unwrap);
        entries.map(|entry| entry.file_name().into_string().unwrap()).collect()
    };
    let mut here = names(skills);
    here.remove(".archive");
    let now = here.remove("demo").then(|| whole(&skills.join("demo")));
    assert_eq!(here, BTreeSet::new(), "left behind");
    let archive = skills.join(".archive/demo");
    (now, names(&archive).iter().map(|name| whole(&archive.join(name))).collect())
}

/// The time in which a kill can hit what took so long: a little more than all of it.
pub(super) fn window(took: Duration) -> u64 {
    u64::try_from((took * 5 / 4).min(WINDOW_MAX).as_millis()).unwrap().max(1)
}

pub(super) fn call(address: &str, method: &str, path: &str) -> Call {
    Call::new(address.parse::<SocketAddr>().unwrap(), method, path)
}

#[test]
fn kill_9_of_the_service_at_any_moment_leaves_the_old_skill_or_the_new() {
    let folder = tempfile::tempdir().unwrap();
    let skills = folder.path().join("skills");
    fs::create_dir(&skills).unwrap();
    let mut random = Random::seeded();
    // What clients were told: the version of each request that was taken.
    let asked: Mutex<BTreeMap<String, Version>> = Mutex::default();
    let mut patch = 1;
    let window = {
        let server = Server::start(folder.path(), "fail");
        let place = tempfile::tempdir().unwrap();
        package(place.path(), "1.0.1");
        let zip = zip_folder(&place.path().join("demo"));
        let began = Instant::now();
        let first = call(&server.address, "POST", "/v1/skill-packages/install?wait=60").parts(&[("file", &zip)]).send();
        assert_eq!(first.json()["status"], "succeeded");
        window(began.elapsed())
    };
    for round in 0..SERVICES {
        let mut server = Server::start(folder.path(), "fail");
        let moment = Duration::from_millis(random.below(window));
        let address = server.address.clone();
        let (taken, first) = mpsc::channel();
        patch = std::thread::scope(|scope| {
            let load = scope.spawn(|| send_until_it_dies(&address, patch, &asked, taken));
            // Every other service dies with at least one package taken, however slow this machine is.
            if round % 2 == 1 {
                first.recv_timeout(LONG).unwrap();
            }
            // The moment of the kill is the random part of the test, not a wait for something.
            std::thread::sleep(moment);
            server.child.kill().unwrap();
            server.child.wait().unwrap();
            load.join().unwrap()
        });
        whole(&skills.join("demo"));
    }
    let server = Server::start(folder.path(), "fail");
    let (now, archived) = versions(&skills);
    let (asked, mut failed) = (asked.into_inner().unwrap(), 0);
    for (id, version) in &asked {
        let install = call(&server.address, "GET", &format!("/v1/skill-packages/{id}")).send().json();
        let there = now.as_ref() == Some(version) || archived.contains(version);
        match install["status"].as_str().unwrap() {
            "succeeded" => assert!(there, "{install} and it is not there"),
            "failed" => {
                assert_eq!((&install["error"]["code"], there), (&json!("ORCHESTRATOR_RESTART_INTERRUPTED"), false));
                failed += 1;
            }
            other => panic!("{other} after a restart: {install}"),
        }
    }
    eprintln!("{SERVICES} kills, {} installs, {failed} taken back, now {now:?}", asked.len());
    assert!(asked.len() as u64 >= SERVICES / 2, "there was load: {asked:?}");
}

/// Sends one newer version after the other; the last that was tried.
fn send_until_it_dies(
    address: &str,
    after: u64,
    asked: &Mutex<BTreeMap<String, Version>>,
    taken: mpsc::Sender<()>,
) -> u64 {
    for patch in after + 1.. {
        let place = tempfile::tempdir().unwrap();
        package(place.path(), &format!("1.0.{patch}"));
        let body = zip_folder(&place.path().join("demo"));
        let sent = call(address, "POST", "/v1/skill-packages/install").parts(&[("file", &body)]).try_send();
        let Some(answer) = sent else { return patch };
        let id = answer.json()["request_id"].as_str().unwrap().to_owned();
        asked.lock().unwrap().insert(id.clone(), Version::new(1, 0, patch));
        // Nobody waits for the later ones.
        let _ = taken.send(());
        let over = |install: &Value| install["status"] == "succeeded" || install["status"] == "failed";
        loop {
            match call(address, "GET", &format!("/v1/skill-packages/{id}")).try_send() {
                None => return patch,
                Some(answer) if over(&answer.json()) => break,
                Some(_) => std::thread::yield_now(),
            }
        }
    }
    unreachable!("there is always a newer version")
}

#[test]
fn kill_9_of_the_command_at_any_moment_leaves_the_old_skill_or_the_new() {
    let folder = tempfile::tempdir().unwrap();
    let skills = folder.path().join("skills");
    let mut random = Random::seeded();
    let install = |patch: u64| {
        let source = folder.path().join("source");
        package(&source, &format!("1.0.{patch}"));
        program()
            .args(["skill", "install", "source/demo", "--data-dir", "data", "--skills-dir", "skills"])
            .current_dir(folder.path())
            .stdout(Stdio::null())
            .spawn()
            .unwrap()
    };
    let began = Instant::now();
    assert!(install(0).wait().unwrap().success());
    let window = window(began.elapsed());
    let mut newest = whole(&skills.join("demo"));
    for patch in 1..=COMMANDS {
        let mut child = install(patch);
        std::thread::sleep(Duration::from_millis(random.below(window)));
        child.kill().unwrap();
        child.wait().unwrap();
        let now = whole(&skills.join("demo"));
        assert!(now >= newest, "{now} after {newest}");
        newest = now;
    }
    assert!(install(COMMANDS + 1).wait().unwrap().success());
    let (now, archived) = versions(&skills);
    eprintln!("{COMMANDS} kills, archived {archived:?}");
    assert_eq!(now, Some(Version::new(1, 0, COMMANDS + 1)));
    assert!(archived.contains(&newest));
}
