//! Rollbacks and uninstallations, stopped after each of their steps: a start leaves the state before or the one after, whole.

use uuid::Uuid;

use super::tests::{of, tree, write_package};
use super::*;
use crate::registry::archive::archived;
use crate::registry::plan::InPlace;
use crate::registry::{ChangeRefused, Registry};

/// What is in place before; 1.0.0 is in the archive.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Before {
    Nothing,
    Newer,
    Broken,
}

fn folder(before: Before) -> tempfile::TempDir {
    let skills = tempfile::tempdir().unwrap();
    write_package(&skills.path().join(".archive/demo/1.0.0"), "1.0.0");
    match before {
        Before::Nothing => {}
        Before::Newer => write_package(&skills.path().join("demo"), "2.0.0"),
        Before::Broken => {
            // The very same package as the archived one but for a link, which no fingerprint covers.
            write_package(&skills.path().join("demo"), "1.0.0");
            std::os::unix::fs::symlink("SKILL.md", skills.path().join("demo/link")).unwrap();
        }
    }
    skills
}

fn staging(skills: &Path) -> Staging {
    Staging::begin(skills, Uuid::now_v7()).unwrap()
}

/// The body of the skill in place, which is its version.
fn in_place(skills: &Path) -> Option<String> {
    Registry::new(skills).lookup("demo").ok().map(|found| found.skill.body.clone())
}

/// Takes so many renames and writes of a plan, with or without a file system that can exchange folders, and dies.
fn stopped_after(steps: usize, in_steps: bool, skills: &Path, plan: impl FnOnce(&InPlace) -> Plan) {
    let staging = staging(skills);
    let lock = SkillsLock::acquire(skills).unwrap();
    let plan = plan(&InPlace::look(skills, "demo").unwrap());
    let moves = Moves { staging: &staging, skills_dir: skills, lock: &lock, plan: &plan };
    let mut all: Vec<Box<dyn Fn() + '_>> = Vec::new();
    for step in plan.steps() {
        if in_steps && *step == Step::Exchange {
            for (from, to) in moves.exchange_in_steps() {
                let moves = &moves;
                all.push(Box::new(move || moves.rename(&from, &to).unwrap()));
            }
        } else {
            all.push(Box::new(|| moves.take(*step).unwrap()));
        }
    }
    assert!(steps <= all.len(), "there are as many steps");
    all.iter().take(steps).for_each(|step| step());
    drop(all);
    drop(lock);
    staging.die();
}

fn recovered(skills: &Path) -> Option<Done> {
    let [RecoveredInstall { staging, done }] = recover_installs(skills).unwrap().try_into().unwrap();
    staging.clear().unwrap();
    assert!(recover_installs(skills).unwrap().is_empty());
    done
}

fn roll_back(skills: &Path) -> impl FnOnce(&InPlace) -> Plan {
    let skills = skills.to_owned();
    move |now| {
        let [one] = archived(&skills, "demo").unwrap().try_into().unwrap();
        Plan::rollback(&skills, &one.skill.unwrap(), one.path, now)
    }
}

#[test]
fn a_rollback_stopped_after_any_step_is_finished_or_taken_back() {
    let broken = |place: &str| [of(place), vec![format!("{place}/link")]].concat();
    for before in [Before::Nothing, Before::Newer, Before::Broken] {
        for in_steps in [false, true] {
            let last = match (before, in_steps) {
                (Before::Nothing, _) => 2,
                (Before::Newer | Before::Broken, false) => 3,
                (Before::Newer | Before::Broken, true) => 5,
            };
            for steps in 0..=last {
                let skills = folder(before);
                let untouched = tree(skills.path());
                stopped_after(steps, in_steps, skills.path(), roll_back(skills.path()));
                let told = format!("{before:?} {in_steps} {steps}");
                if before == Before::Newer && !(in_steps && steps == 2) {
                    assert!(in_place(skills.path()).is_some(), "old or new, also before the next start: {told}");
                }
                let done = recovered(skills.path());
                let finished = steps >= 2;
                let whole = Done { skill_id: "demo".into(), version: Some("1.0.0".into()), action: Action::Rollback };
                assert_eq!(done, finished.then_some(whole), "{told}");
                let mut expected = match (finished, before) {
                    (false, _) => untouched,
                    (true, Before::Nothing) => of("demo"),
                    (true, Before::Newer) => [of(".archive/demo/2.0.0"), of("demo")].concat(),
                    (true, Before::Broken) => [broken(".invalid/demo"), of("demo")].concat(),
                };
                expected.sort();
                assert_eq!(tree(skills.path()), expected, "{told}");
                if finished {
                    assert_eq!(in_place(skills.path()).as_deref(), Some("1.0.0"), "{told}");
                }
            }
        }
    }
}

#[test]
fn an_uninstallation_stopped_after_any_step_is_finished_or_taken_back() {
    for before in [Before::Newer, Before::Broken] {
        for steps in 0..=2 {
            let skills = folder(before);
            let untouched = tree(skills.path());
            stopped_after(steps, false, skills.path(), |now| Plan::uninstall(skills.path(), "demo", now).unwrap());
            let done = recovered(skills.path());
            let version = (before == Before::Newer).then(|| "2.0.0".to_owned());
            let whole = Done { skill_id: "demo".into(), version, action: Action::Uninstall };
            assert_eq!(done, (steps == 2).then_some(whole), "{before:?} {steps}");
            if steps < 2 {
                assert_eq!(tree(skills.path()), untouched);
            } else {
                let aside = if before == Before::Newer { ".archive/demo/2.0.0" } else { ".invalid/demo" };
                assert!(skills.path().join(aside).join("SKILL.md").is_file() && !skills.path().join("demo").exists());
            }
        }
    }
}

#[test]
fn versions_go_back_and_forth_and_none_is_lost() {
    let skills = folder(Before::Newer);
    let roll_back = |to: &str| {
        let staging = staging(skills.path());
        let done = staging.rollback("demo", to, |_| {});
        staging.clear().unwrap();
        done.map(|done| done.version.unwrap()).map_err(|refused| refused.to_string())
    };
    let uninstall = || {
        let staging = staging(skills.path());
        let done = staging.uninstall("demo", |_| {});
        staging.clear().unwrap();
        done.map(|done| done.version.unwrap())
    };
    let kept = || {
        let versions = Registry::new(skills.path()).versions("demo").unwrap();
        let mut shown: Vec<(String, bool)> =
            versions.into_iter().map(|kept| (kept.version.unwrap(), kept.current)).collect();
        shown.sort();
        shown
    };
    let both = |current: Option<&str>| ["1.0.0", "2.0.0"].map(|version| (version.to_owned(), current == Some(version)));
    assert_eq!(kept(), both(Some("2.0.0")));
    assert_eq!(roll_back("1.0.0").unwrap(), "1.0.0");
    assert_eq!((in_place(skills.path()).as_deref(), kept()), (Some("1.0.0"), both(Some("1.0.0")).to_vec()));
    assert!(roll_back("1.0.0").unwrap_err().contains("in place already"));
    assert_eq!(roll_back("3.0.0").unwrap_err(), "demo has no archived version \"3.0.0\"; there are 2.0.0");
    let newer = archived(skills.path(), "demo").unwrap()[0].kept.fingerprint.clone().unwrap();
    assert!(roll_back(&newer[..7]).is_err(), "too short to be meant");
    assert_eq!(roll_back(&newer[..8]).unwrap(), "2.0.0");
    assert_eq!(uninstall().unwrap(), "2.0.0");
    assert_eq!((in_place(skills.path()), kept()), (None, both(None).to_vec()));
    assert!(matches!(uninstall(), Err(ChangeRefused::NotFound)));
    assert_eq!(roll_back("2.0.0").unwrap(), "2.0.0");
    assert_eq!(kept(), both(Some("2.0.0")));
}

#[test]
fn a_version_that_several_contents_have_is_named_by_its_fingerprint() {
    let skills = folder(Before::Newer);
    let other = skills.path().join(".archive/demo/1.0.0.1");
    write_package(&other, "1.0.0");
    fs::write(other.join("scripts/run.sh"), "other").unwrap();
    let staging = staging(skills.path());
    let refused = staging.rollback("demo", "1.0.0", |_| {}).unwrap_err();
    let ChangeRefused::Ambiguous { fingerprints, .. } = &refused else { panic!("{refused}") };
    assert_eq!(fingerprints.len(), 2);
    assert_eq!(staging.rollback("demo", &fingerprints[0], |_| {}).unwrap().version.as_deref(), Some("1.0.0"));
}

#[test]
fn a_link_in_the_place_of_a_skill_is_left_alone() {
    let skills = folder(Before::Nothing);
    let elsewhere = tempfile::tempdir().unwrap();
    write_package(elsewhere.path(), "2.0.0");
    std::os::unix::fs::symlink(elsewhere.path(), skills.path().join("demo")).unwrap();
    let staging = staging(skills.path());
    assert!(matches!(staging.uninstall("demo", |_| {}), Err(ChangeRefused::Link { .. })));
    assert!(matches!(staging.rollback("demo", "1.0.0", |_| {}), Err(ChangeRefused::Link { .. })));
    for not_an_id in ["../x", "", ".archive"] {
        assert!(matches!(staging.uninstall(not_an_id, |_| {}), Err(ChangeRefused::NotFound)), "{not_an_id:?}");
    }
}
