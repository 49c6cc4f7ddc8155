//! The registry on a real folder: what it finds, what it refuses, and that it sees every change.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::os::unix::fs::symlink;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, SystemTime};

use rustix::fs::{CWD, RenameFlags, renameat_with};
use serde_json::{Value, json};
use skill_runner::registry::{Entry, Installed, NotUsable, Registry, load_agent, load_dir};
use skill_runner::skill::{Intake, Severity};

fn runner_json(id: &str, version: &str) -> Value {
    json!({
        "id": id, "version": version, "execution_modes": ["auto"],
        "entrypoint": { "type": "script", "script": { "command": "python3 scripts/run.py" } },
        "schemas": { "output": "assets/output.schema.json" }
    })
}

fn package(skills: &Path, id: &str, version: &str) {
    let dir = skills.join(id);
    fs::create_dir_all(dir.join("assets")).unwrap();
    fs::create_dir_all(dir.join("scripts")).unwrap();
    fs::write(dir.join("SKILL.md"), format!("---\nname: {id}\ndescription: A test.\n---\nBody")).unwrap();
    fs::write(dir.join("scripts/run.py"), "print()").unwrap();
    fs::write(dir.join("assets/runner.json"), runner_json(id, version).to_string()).unwrap();
    fs::write(dir.join("assets/output.schema.json"), json!({ "type": "object" }).to_string()).unwrap();
}

/// Gives every file of a package an old date, as if it had been installed long ago.
fn age(dir: &Path) {
    for entry in fs::read_dir(dir).unwrap().map(Result::unwrap) {
        if entry.file_type().unwrap().is_dir() {
            age(&entry.path());
        } else {
            let past = SystemTime::now() - Duration::from_secs(3600);
            File::options().write(true).open(entry.path()).unwrap().set_modified(past).unwrap();
        }
    }
}

fn version(found: &Result<Arc<Installed>, NotUsable>) -> String {
    found.as_ref().expect("a usable skill").skill.version.to_string()
}

fn codes(found: Result<Arc<Installed>, NotUsable>) -> Vec<(&'static str, String)> {
    match found {
        Err(NotUsable::Invalid { findings }) => findings.into_iter().map(|f| (f.code.as_str(), f.file)).collect(),
        Err(other) => panic!("{other}"),
        Ok(installed) => panic!("usable: {}", installed.skill.id),
    }
}

#[test]
fn a_package_is_found_with_its_folder_and_files() {
    let skills = tempfile::tempdir().unwrap();
    package(skills.path(), "one", "1.2.3");
    fs::create_dir_all(skills.path().join("one/.git")).unwrap();
    fs::write(skills.path().join("one/.git/HEAD"), "x").unwrap();
    let found = Registry::new(skills.path()).lookup("one").unwrap();
    assert_eq!(found.dir, skills.path().join("one"));
    assert_eq!(found.files, ["SKILL.md", "assets/output.schema.json", "assets/runner.json", "scripts/run.py"]);
    assert_eq!((found.skill.id.as_str(), found.skill.body.as_str()), ("one", "Body"));
}

#[test]
fn what_is_not_there_is_not_found_and_no_name_leaves_the_folder() {
    let outer = tempfile::tempdir().unwrap();
    package(outer.path(), "outside", "1.0.0");
    fs::create_dir(outer.path().join("skills")).unwrap();
    fs::write(outer.path().join("skills/file"), "x").unwrap();
    let registry = Registry::new(outer.path().join("skills"));
    for name in ["nothing", "file", "", ".", "..", "../outside", "/", "a/b", "outside\0"] {
        assert_eq!(registry.lookup(name).err(), Some(NotUsable::NotFound), "{name:?}");
    }
    assert_eq!(Registry::new(outer.path().join("gone")).list().unwrap().len(), 0);
}

#[test]
fn an_unchanged_package_is_not_read_again() {
    let skills = tempfile::tempdir().unwrap();
    package(skills.path(), "one", "1.0.0");
    age(skills.path());
    let registry = Registry::new(skills.path());
    let first = registry.lookup("one").unwrap();
    assert!(Arc::ptr_eq(&first, &registry.lookup("one").unwrap()));
    // A run may link to the installed files instead of copying them.
    fs::hard_link(skills.path().join("one/SKILL.md"), skills.path().join(".copy")).unwrap();
    assert!(Arc::ptr_eq(&first, &registry.lookup("one").unwrap()));
}

#[test]
fn every_change_is_seen_at_the_next_question() {
    let skills = tempfile::tempdir().unwrap();
    package(skills.path(), "one", "1.0.0");
    age(skills.path());
    let registry = Registry::new(skills.path());
    let mut last = registry.lookup("one");
    assert_eq!(version(&last), "1.0.0");
    for patch in 1..=9 {
        package(skills.path(), "one", &format!("1.0.{patch}"));
        let now = registry.lookup("one");
        assert_eq!(version(&now), format!("1.0.{patch}"));
        assert_ne!(now.as_ref().unwrap().skill.fingerprint, last.unwrap().skill.fingerprint);
        last = now;
    }
    fs::write(skills.path().join("one/references.md"), "new").unwrap();
    assert!(registry.lookup("one").unwrap().files.contains(&"references.md".into()));
    fs::remove_file(skills.path().join("one/scripts/run.py")).unwrap();
    assert_eq!(codes(registry.lookup("one")), [("FILE_MISSING", "assets/runner.json".into())]);
    fs::remove_dir_all(skills.path().join("one")).unwrap();
    assert_eq!(registry.lookup("one").err(), Some(NotUsable::NotFound));
    package(skills.path(), "one", "2.0.0");
    assert_eq!(version(&registry.lookup("one")), "2.0.0");
}

#[test]
fn two_edits_within_one_tick_of_the_clock_are_both_seen() {
    let skills = tempfile::tempdir().unwrap();
    package(skills.path(), "one", "1.0.0");
    age(skills.path());
    let registry = Registry::new(skills.path());
    // The same file, size and date: only that the date is not yet past says that it may have changed again.
    let tick = SystemTime::now() + Duration::from_secs(60);
    for patch in 1..=3 {
        let path = skills.path().join("one/assets/runner.json");
        fs::write(&path, runner_json("one", &format!("1.0.{patch}")).to_string()).unwrap();
        File::options().write(true).open(&path).unwrap().set_modified(tick).unwrap();
        assert_eq!(version(&registry.lookup("one")), format!("1.0.{patch}"));
    }
}

#[test]
fn a_folder_swapped_by_rename_is_seen_whole() {
    let skills = tempfile::tempdir().unwrap();
    let staged = tempfile::tempdir_in(skills.path()).unwrap();
    package(skills.path(), "one", "1.0.0");
    package(staged.path(), "one", "1.0.1");
    age(skills.path());
    let registry = Registry::new(skills.path());
    assert_eq!(version(&registry.lookup("one")), "1.0.0");
    fs::rename(skills.path().join("one"), staged.path().join("old")).unwrap();
    fs::rename(staged.path().join("one"), skills.path().join("one")).unwrap();
    assert_eq!(version(&registry.lookup("one")), "1.0.1");
}

#[test]
fn readers_never_see_half_of_a_swap() {
    let skills = tempfile::tempdir().unwrap();
    let spare = skills.path().join(".spare");
    package(skills.path(), "one", "1.0.0");
    package(&spare, "one", "2.0.0");
    for (dir, body) in [(skills.path(), "1.0.0"), (&spare, "2.0.0")] {
        fs::write(dir.join("one/SKILL.md"), format!("---\nname: one\ndescription: x\n---\n{body}")).unwrap();
    }
    let registry = Registry::new(skills.path());
    let (here, there) = (skills.path().join("one"), spare.join("one"));
    let done = AtomicBool::new(false);
    let seen: BTreeSet<String> = std::thread::scope(|scope| {
        scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                renameat_with(CWD, &here, CWD, &there, RenameFlags::EXCHANGE).unwrap();
                // About as long as a reader takes, so that some reads are hit and some are not.
                load_dir(&there, Intake::New).unwrap();
            }
        });
        let look = |_| match registry.lookup("one") {
            Ok(found) => Some((found.skill.version.to_string(), found.skill.body.clone())),
            // It may say that the package keeps changing, and nothing else.
            Err(NotUsable::Invalid { findings }) if findings[0].code == "CHANGING" => None,
            Err(other) => Some((String::new(), other.to_string())),
        };
        let pairs: BTreeSet<_> = (0..500).filter_map(look).collect();
        done.store(true, Ordering::Relaxed);
        pairs.into_iter().map(|(version, body)| format!("{version} with {body}")).collect()
    });
    let whole = BTreeSet::from(["1.0.0 with 1.0.0".to_string(), "2.0.0 with 2.0.0".to_string()]);
    assert_eq!(seen, whole);
    assert_eq!(registry.lookup("one").unwrap().skill.body, version(&registry.lookup("one")));
}

#[test]
fn the_list_holds_the_good_and_the_bad_by_name_and_no_dot_folders() {
    let skills = tempfile::tempdir().unwrap();
    package(skills.path(), "good", "1.0.0");
    package(&skills.path().join(".archive"), "good", "0.9.0");
    package(skills.path(), "Bad_Name", "1.0.0");
    fs::create_dir(skills.path().join("empty")).unwrap();
    fs::write(skills.path().join("README.md"), "x").unwrap();
    let registry = Registry::new(skills.path());
    let names = || -> Vec<(String, bool)> {
        let name = |entry| match entry {
            Entry::Valid(found) => (found.skill.id.clone(), true),
            Entry::Invalid { folder, findings } => {
                (folder, findings.iter().all(|finding| finding.severity != Severity::Error))
            }
        };
        registry.list().unwrap().into_iter().map(name).collect()
    };
    assert_eq!(names(), [("Bad_Name".into(), false), ("empty".into(), false), ("good".into(), true)]);
    fs::remove_dir_all(skills.path().join("Bad_Name")).unwrap();
    assert_eq!(names(), [("empty".into(), false), ("good".into(), true)]);
}

#[test]
fn links_and_special_files_make_a_package_unusable() {
    let skills = tempfile::tempdir().unwrap();
    package(skills.path(), "one", "1.0.0");
    let registry = Registry::new(skills.path());
    symlink("/etc/hostname", skills.path().join("one/assets/link")).unwrap();
    assert_eq!(codes(registry.lookup("one")), [("SYMLINK", "assets/link".into())]);
    fs::remove_file(skills.path().join("one/assets/link")).unwrap();
    symlink("..", skills.path().join("one/loop")).unwrap();
    assert_eq!(codes(registry.lookup("one")), [("SYMLINK", "loop".into())]);
    fs::remove_file(skills.path().join("one/loop")).unwrap();
    assert!(registry.lookup("one").is_ok());
    let pipe = skills.path().join("one/pipe");
    let status = std::process::Command::new("mkfifo").arg(&pipe).status().expect("mkfifo is there");
    assert!(status.success());
    assert_eq!(codes(registry.lookup("one")), [("SPECIAL_FILE", "pipe".into())]);
}

#[test]
fn a_package_beyond_all_measure_is_refused_without_being_read() {
    let skills = tempfile::tempdir().unwrap();
    let registry = Registry::new(skills.path());
    package(skills.path(), "vast", "1.0.0");
    File::create(skills.path().join("vast/hole")).unwrap().set_len(1 << 40).unwrap();
    assert_eq!(codes(registry.lookup("vast")), [("PACKAGE_TOO_LARGE", String::new())]);
    package(skills.path(), "deep", "1.0.0");
    fs::create_dir_all(skills.path().join("deep").join("d/".repeat(40))).unwrap();
    assert_eq!(codes(registry.lookup("deep")), [("PACKAGE_TOO_LARGE", String::new())]);
    package(skills.path(), "many", "1.0.0");
    for number in 0..10_001 {
        File::create(skills.path().join(format!("many/{number}"))).unwrap();
    }
    assert_eq!(codes(registry.lookup("many")), [("PACKAGE_TOO_LARGE", String::new())]);
}

#[test]
fn a_large_file_counts_into_the_fingerprint() {
    let skills = tempfile::tempdir().unwrap();
    package(skills.path(), "one", "1.0.0");
    let registry = Registry::new(skills.path());
    let mut bytes = vec![7; 3 * 1024 * 1024];
    fs::write(skills.path().join("one/data.bin"), &bytes).unwrap();
    let before = registry.lookup("one").unwrap().skill.fingerprint.clone();
    bytes[2_000_000] = 8;
    fs::write(skills.path().join("one/data.bin"), &bytes).unwrap();
    assert_ne!(before, registry.lookup("one").unwrap().skill.fingerprint);
}

#[test]
fn a_folder_outside_is_read_by_the_rules_it_is_given() {
    let place = tempfile::tempdir().unwrap();
    package(place.path(), "one", "1.0.0");
    assert_eq!(load_dir(&place.path().join("one"), Intake::New).unwrap().skill.id, "one");
    let mut runner = runner_json("one", "1.0.0");
    runner.as_object_mut().unwrap().remove("execution_modes");
    fs::write(place.path().join("one/assets/runner.json"), runner.to_string()).unwrap();
    assert!(load_dir(&place.path().join("one"), Intake::Installed).is_ok());
    let findings = load_dir(&place.path().join("one"), Intake::New).unwrap_err().findings();
    assert_eq!(findings.iter().map(|finding| finding.code).collect::<Vec<_>>(), ["EXECUTION_MODES_MISSING"]);
    for not_a_package in ["gone", "one/SKILL.md"] {
        let findings = load_dir(&place.path().join(not_a_package), Intake::New).unwrap_err().findings();
        assert_eq!(findings[0].code, "UNREADABLE", "{not_a_package}");
    }
}

#[test]
fn an_agents_folder_becomes_packages_that_can_be_installed() {
    let place = tempfile::tempdir().unwrap();
    let agent = place.path().join("agents/clerk");
    fs::create_dir_all(agent.join(".claude/skills")).unwrap();
    fs::write(agent.join("agent.yaml"), "skills:\n- {name: sort_mail, timeout: 9}\n").unwrap();
    fs::write(agent.join(".claude/skills/sort_mail.py"), "print()").unwrap();
    let made = load_agent(&agent).unwrap();
    let skills = place.path().join("skills");
    for package in &made {
        for (path, text) in &package.files {
            let file = skills.join(&package.id).join(path);
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            fs::write(file, text).unwrap();
        }
    }
    let found = Registry::new(&skills).lookup("clerk-sort-mail").unwrap();
    assert_eq!((found.skill.timeout_seconds(), found.skill.findings.as_slice()), (Some(9), &[][..]));
    assert_eq!(load_agent(&place.path().join("agents/gone")).unwrap_err()[0].code, "UNREADABLE");
}
