//! Every plan, stopped after each of its steps: a start leaves the old skill or the new one, whole, and nothing else.

use serde_json::json;
use uuid::Uuid;

use super::*;
use crate::registry::survey::Survey;
use crate::registry::{NotUsable, Registry, load};

/// What is at the skill's path before.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Before {
    Nothing,
    Older,
    Broken,
}

pub(super) fn write_package(dir: &Path, version: &str) {
    let runner = json!({
        "id": "demo", "version": version, "execution_modes": ["auto"], "schemas": {},
        "entrypoint": { "type": "script", "script": { "command": "sh scripts/run.sh" } }
    });
    for (path, text) in [
        ("SKILL.md", format!("---\nname: demo\ndescription: A test.\n---\n{version}")),
        ("assets/runner.json", runner.to_string()),
        ("assets/output.schema.json", json!({ "type": "object" }).to_string()),
        ("scripts/run.sh", version.to_owned()),
    ] {
        fs::create_dir_all(dir.join(path).parent().unwrap()).unwrap();
        fs::write(dir.join(path), text).unwrap();
    }
}

/// A skills folder as it was, and a staging folder in it with version 2.0.0.
fn staged(before: Before) -> (tempfile::TempDir, Staging) {
    let skills = tempfile::tempdir().unwrap();
    match before {
        Before::Nothing => {}
        Before::Older => write_package(&skills.path().join("demo"), "1.0.0"),
        Before::Broken => {
            // The very same package but for a link, which no fingerprint covers.
            write_package(&skills.path().join("demo"), "2.0.0");
            std::os::unix::fs::symlink("SKILL.md", skills.path().join("demo/link")).unwrap();
        }
    }
    let staging = Staging::begin(skills.path(), Uuid::now_v7()).unwrap();
    write_package(&staging.unpacked().join("demo"), "2.0.0");
    (skills, staging)
}

/// Every file and link below a folder.
pub(super) fn tree(folder: &Path) -> Vec<String> {
    let mut found = Vec::new();
    let mut waiting = vec![folder.to_owned()];
    while let Some(dir) = waiting.pop() {
        for entry in fs::read_dir(dir).unwrap().map(Result::unwrap) {
            if entry.file_type().unwrap().is_dir() {
                waiting.push(entry.path());
            } else {
                let path = entry.path().strip_prefix(folder).unwrap().to_str().unwrap().to_owned();
                found.push(path);
            }
        }
    }
    found.sort();
    found
}

pub(super) fn of(place: &str) -> Vec<String> {
    let files = ["SKILL.md", "assets/output.schema.json", "assets/runner.json", "scripts/run.sh"];
    files.map(|file| format!("{place}/{file}")).to_vec()
}

/// What the skills folder holds before the installation and after it.
fn expected(before: Before, installed: bool) -> Vec<String> {
    let broken = |place: &str| [of(place), vec![format!("{place}/link")]].concat();
    let mut files = match (before, installed) {
        (Before::Nothing, false) => vec![],
        (Before::Nothing, true) | (Before::Older, false) => of("demo"),
        (Before::Older, true) => [of(".archive/demo/1.0.0"), of("demo")].concat(),
        (Before::Broken, false) => broken("demo"),
        (Before::Broken, true) => [broken(".invalid/demo"), of("demo")].concat(),
    };
    files.sort();
    files
}

/// Everything that is renamed or written, one at a time; with or without a file system that can exchange folders.
fn stopped_after(steps: usize, in_steps: bool, skills: &Path, staging: &Staging) {
    let package = staging.package();
    fs::rename(staging.unpacked().join("demo"), &package).unwrap();
    let survey = Survey::of(&package).unwrap();
    let skill = load::load(&package, "demo", survey, Intake::New).unwrap().outcome.unwrap().skill;
    let lock = SkillsLock::acquire(skills).unwrap();
    let plan = Plan::install(skills, &skill).unwrap();
    let moves = Moves { staging, skills_dir: skills, lock: &lock, plan: &plan };
    let mut left = steps;
    for step in plan.steps() {
        if in_steps && *step == Step::Exchange {
            for (from, to) in moves.exchange_in_steps() {
                if left == 0 {
                    return;
                }
                moves.rename(&from, &to).unwrap();
                left -= 1;
            }
        } else {
            if left == 0 {
                return;
            }
            moves.take(*step).unwrap();
            left -= 1;
        }
    }
    assert_eq!(left, 0, "there are as many steps");
}

fn check(before: Before, in_steps: bool, steps: usize, finished: bool) {
    let (skills, staging) = staged(before);
    let id = staging.id();
    stopped_after(steps, in_steps, skills.path(), &staging);
    let exchanging = in_steps && steps == 2;
    let seen = Registry::new(skills.path()).lookup("demo");
    match before {
        Before::Older if !exchanging => assert!(seen.is_ok(), "old or new, also before the next start: {seen:?}"),
        Before::Older | Before::Nothing | Before::Broken => {}
    }
    staging.die();
    let recovered = recover_installs(skills.path()).unwrap();
    let [RecoveredInstall { staging, done }] = recovered.try_into().unwrap();
    let action = if before == Before::Older { Action::Update } else { Action::Install };
    let whole = Done { skill_id: "demo".into(), version: Some("2.0.0".into()), action };
    assert_eq!((staging.id(), done), (id, finished.then_some(whole)), "{before:?} {in_steps} {steps}");
    staging.clear().unwrap();
    assert_eq!(tree(skills.path()), expected(before, finished), "{before:?} {in_steps} {steps}");
    assert_eq!(fs::read_dir(skills.path()).unwrap().filter(|entry| is_staging(entry.as_ref().unwrap())).count(), 0);
    let version =
        |found: Result<std::sync::Arc<Installed>, NotUsable>| found.map(|found| found.skill.body.clone()).ok();
    let now = match (before, finished) {
        (_, true) => Some("2.0.0".to_owned()),
        (Before::Older, false) => Some("1.0.0".to_owned()),
        (Before::Nothing | Before::Broken, false) => None,
    };
    assert_eq!(version(Registry::new(skills.path()).lookup("demo")), now);
    assert!(recover_installs(skills.path()).unwrap().is_empty());
}

fn is_staging(entry: &fs::DirEntry) -> bool {
    entry.file_name().to_str().unwrap().starts_with(".install-")
}

#[test]
fn an_installation_stopped_after_any_step_is_finished_or_taken_back() {
    for steps in 0..=2 {
        check(Before::Nothing, false, steps, steps == 2);
    }
    for before in [Before::Older, Before::Broken] {
        for steps in 0..=3 {
            check(before, false, steps, steps >= 2);
        }
        for steps in 0..=5 {
            check(before, true, steps, steps >= 2);
        }
    }
}

#[test]
fn a_package_that_nobody_unpacked_to_its_end_is_removed() {
    let (skills, staging) = staged(Before::Older);
    staging.die();
    for recovered in recover_installs(skills.path()).unwrap() {
        assert_eq!(recovered.done, None);
        recovered.staging.clear().unwrap();
    }
    assert_eq!(tree(skills.path()), expected(Before::Older, false));
}

#[test]
fn the_staging_folder_of_a_live_process_is_left_alone() {
    let (skills, staging) = staged(Before::Nothing);
    assert!(recover_installs(skills.path()).unwrap().is_empty());
    let (found, done) = staging.install(&staging.unpacked().join("demo"), |_| {}).unwrap();
    assert!(recover_installs(skills.path()).unwrap().is_empty());
    assert_eq!((found.dir, done.action), (skills.path().join("demo"), Action::Install));
    staging.clear().unwrap();
    assert_eq!(tree(skills.path()), expected(Before::Nothing, true));
}

#[test]
fn a_removal_that_was_cut_short_is_never_taken_for_a_package() {
    let (skills, staging) = staged(Before::Older);
    stopped_after(1, false, skills.path(), &staging);
    // As a crash in the middle of a clearing leaves it: the plan is gone first.
    staging.drop_plan().unwrap();
    fs::remove_file(staging.package().join("SKILL.md")).unwrap();
    staging.die();
    for recovered in recover_installs(skills.path()).unwrap() {
        assert_eq!(recovered.done, None);
        recovered.staging.clear().unwrap();
    }
    assert_eq!(tree(skills.path()), expected(Before::Older, false));
}

#[test]
fn only_a_strictly_newer_version_is_installed_and_every_replaced_one_is_kept() {
    let skills = tempfile::tempdir().unwrap();
    let install = |version: &str| {
        let staging = Staging::begin(skills.path(), Uuid::now_v7()).unwrap();
        write_package(&staging.unpacked().join("demo"), version);
        let installed = staging.install(&staging.unpacked().join("demo"), |_| {});
        match installed {
            Ok((_, done)) => {
                staging.clear().unwrap();
                format!("{:?}", done.action)
            }
            Err(InstallRefused::NotNewer { installed, given, .. }) => format!("{given} over {installed}"),
            Err(other) => panic!("{other}"),
        }
    };
    assert_eq!(install("1.0.0-rc.1"), "Install");
    assert_eq!(install("1.0.0"), "Update");
    assert_eq!(install("1.0.0"), "1.0.0 over 1.0.0");
    assert_eq!(install("1.0.0+build.2"), "1.0.0+build.2 over 1.0.0");
    assert_eq!(install("0.9.9"), "0.9.9 over 1.0.0");
    assert_eq!(install("1.0.1-alpha"), "Update");
    fs::remove_dir_all(skills.path().join("demo")).unwrap();
    assert_eq!(install("1.0.0"), "Install");
    assert_eq!(install("1.1.0"), "Update");
    let mut kept: Vec<_> =
        fs::read_dir(skills.path().join(".archive/demo")).unwrap().map(|e| e.unwrap().file_name()).collect();
    kept.sort();
    assert_eq!(kept, ["1.0.0", "1.0.0-rc.1", "1.0.0.1"]);
    let mut names: Vec<_> = fs::read_dir(skills.path()).unwrap().map(|e| e.unwrap().file_name()).collect();
    names.sort();
    assert_eq!(names, [".archive", "demo"]);
}

#[test]
fn a_skill_without_a_version_is_replaced_by_any_other_content_and_kept_under_its_fingerprint() {
    let skills = tempfile::tempdir().unwrap();
    let install = |script: &str| {
        let staging = Staging::begin(skills.path(), Uuid::now_v7()).unwrap();
        let package = staging.unpacked().join("demo");
        write_package(&package, "0.0.0");
        fs::write(package.join("scripts/run.sh"), script).unwrap();
        let installed = staging.install(&package, |_| {}).map(|(_, done)| done.action);
        staging.clear().unwrap();
        installed
    };
    let fingerprint = || Registry::new(skills.path()).lookup("demo").unwrap().skill.fingerprint.clone();
    assert!(matches!(install("one"), Ok(Action::Install)));
    let first = fingerprint();
    assert!(matches!(install("one"), Err(InstallRefused::NotNewer { .. })), "it is there already");
    assert!(matches!(install("two"), Ok(Action::Update)));
    let second = fingerprint();
    assert!(matches!(install("one"), Ok(Action::Update)));
    assert_eq!(fingerprint(), first);
    let archive = fs::read_dir(skills.path().join(".archive/demo")).unwrap();
    let kept: std::collections::BTreeSet<String> =
        archive.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    assert_eq!(kept, [first, second].into());
}

#[test]
fn installations_of_one_skill_wait_for_each_other() {
    let skills = tempfile::tempdir().unwrap();
    let done: Vec<bool> = std::thread::scope(|scope| {
        let install = |patch: usize| {
            let staging = Staging::begin(skills.path(), Uuid::now_v7()).unwrap();
            write_package(&staging.unpacked().join("demo"), &format!("1.0.{patch}"));
            let installed = staging.install(&staging.unpacked().join("demo"), |_| {});
            staging.clear().unwrap();
            match installed {
                Ok(_) => true,
                Err(InstallRefused::NotNewer { .. }) => false,
                Err(other) => panic!("{other}"),
            }
        };
        let threads: Vec<_> = (0..12).map(|patch| scope.spawn(move || install(patch))).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    assert!(done[11], "the newest is always newer");
    assert_eq!(Registry::new(skills.path()).lookup("demo").unwrap().skill.version.to_string(), "1.0.11");
    let archive = skills.path().join(".archive/demo");
    let kept = fs::read_dir(archive).map(Iterator::count).unwrap_or_default();
    assert_eq!(kept + 1, done.iter().filter(|done| **done).count());
}
