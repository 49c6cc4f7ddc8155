//! Rollbacks and uninstallations are killed with -9 at random moments: every version stays whole, and what was answered stands.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::{Child, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use semver::Version;
use serde_json::json;

use super::killing::{call, package, versions, whole, window};
use crate::crash::Server;
use crate::support::random::Random;
use crate::support::{LONG, program};

const COMMANDS: u64 = 16;
const SERVICES: u64 = 8;
/// The versions that there are, `1.0.0` to `1.0.3`.
const VERSIONS: u64 = 4;

fn all() -> BTreeSet<Version> {
    (0..VERSIONS).map(|patch| Version::new(1, 0, patch)).collect()
}

fn command(folder: &Path, args: &[&str]) -> Child {
    let places = ["--data-dir", "data", "--skills-dir", "skills"];
    let mut command = program();
    command.arg("skill").args(args).args(places).current_dir(folder);
    command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
}

/// A skills folder with all versions, the newest in place.
fn with_all_versions() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    for patch in 0..VERSIONS {
        package(&folder.path().join("source"), &format!("1.0.{patch}"));
        assert!(command(folder.path(), &["install", "source/demo"]).wait().unwrap().success());
    }
    folder
}

#[test]
fn kill_9_of_a_command_at_any_moment_loses_no_version() {
    let folder = with_all_versions();
    let skills = folder.path().join("skills");
    let mut random = Random::seeded();
    let began = Instant::now();
    assert!(command(folder.path(), &["rollback", "demo", "1.0.0"]).wait().unwrap().success());
    let window = window(began.elapsed());
    let mut uninstalled = 0;
    for round in 0..COMMANDS {
        let version = format!("1.0.{}", random.below(VERSIONS));
        let uninstall = round % 3 == 2;
        let mut child = if uninstall {
            command(folder.path(), &["uninstall", "demo"])
        } else {
            command(folder.path(), &["rollback", "demo", &version])
        };
        // The moment of the kill is the random part of the test, not a wait for something.
        std::thread::sleep(Duration::from_millis(random.below(window)));
        child.kill().unwrap();
        child.wait().unwrap();
        if skills.join("demo").exists() {
            whole(&skills.join("demo"));
        } else {
            uninstalled += 1;
        }
    }
    // Whichever it is, it comes after the leftovers are cleared.
    let newest = command(folder.path(), &["rollback", "demo", "1.0.3"]).wait().unwrap();
    if !newest.success() {
        assert!(command(folder.path(), &["rollback", "demo", "1.0.0"]).wait().unwrap().success());
    }
    let (now, mut found) = versions(&skills);
    eprintln!("{COMMANDS} kills, uninstalled after {uninstalled} of them, now {now:?}");
    found.extend(now);
    assert_eq!(found, all());
}

#[test]
fn kill_9_of_the_service_at_any_moment_keeps_what_it_answered() {
    let folder = with_all_versions();
    let skills = folder.path().join("skills");
    let mut random = Random::seeded();
    // What was answered last, and what was asked for after it: the version in place, none for uninstalled.
    let (mut answered, mut asked): (Option<u64>, Option<u64>) = (Some(VERSIONS - 1), Some(VERSIONS - 1));
    let mut records = Vec::new();
    for round in 0..SERVICES {
        let mut server = Server::start(folder.path(), "fail");
        let in_place = {
            let (now, mut found) = versions(&skills);
            let in_place = now.as_ref().map(|version| version.patch);
            assert!(in_place == answered || in_place == asked, "{in_place:?} after {answered:?}, asked for {asked:?}");
            found.extend(now);
            assert_eq!(found, all(), "round {round}");
            in_place
        };
        for id in &records {
            let record = call(&server.address, "GET", &format!("/v1/skill-packages/{id}")).send().json();
            assert_eq!(record["status"], "succeeded", "it was answered so: {record}");
        }
        (answered, asked) = (in_place, in_place);
        let moment = Duration::from_millis(random.below(60));
        let (taken, first) = mpsc::channel();
        let address = server.address.clone();
        let mut dice = Random::seeded();
        (0..round).for_each(|_| {
            dice.below(2);
        });
        std::thread::scope(|scope| {
            let changes = scope.spawn(|| {
                let (mut answered, mut asked) = (in_place, in_place);
                let mut told = Vec::new();
                loop {
                    // Never the one that is in place; an uninstallation now and then.
                    let next = Some(dice.below(VERSIONS)).filter(|next| asked.is_none() || next % 3 != 0);
                    if next == asked {
                        continue;
                    }
                    asked = next;
                    let sent = match next {
                        Some(patch) => call(&address, "POST", "/v1/skills/demo/rollback")
                            .json(&json!({"version": format!("1.0.{patch}")}))
                            .try_send(),
                        None => call(&address, "DELETE", "/v1/skills/demo").try_send(),
                    };
                    let Some(answer) = sent else { return (answered, asked, told) };
                    assert_eq!(answer.status, 200, "{}", answer.text());
                    answered = asked;
                    told.push(answer.json()["request_id"].as_str().unwrap().to_owned());
                    // Nobody waits for the later ones.
                    let _ = taken.send(());
                }
            });
            first.recv_timeout(LONG).unwrap();
            // The moment of the kill is the random part of the test, not a wait for something.
            std::thread::sleep(moment);
            server.child.kill().unwrap();
            server.child.wait().unwrap();
            let told;
            (answered, asked, told) = changes.join().unwrap();
            records.extend(told);
        });
    }
    eprintln!("{SERVICES} kills, {} changes answered", records.len());
    Server::start(folder.path(), "fail");
    let (now, mut found) = versions(&skills);
    found.extend(now);
    assert_eq!(found, all());
}
