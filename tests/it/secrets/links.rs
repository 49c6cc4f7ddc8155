//! Links in the data folder: nothing elsewhere is removed or written by way of them.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use rustix::process::Signal;

use crate::cli::place::Place;

const FOLDERS: [&str; 14] = [
    "environments",
    "skill-copies",
    "runs",
    "results",
    "homes",
    "requests",
    "tmp",
    "sealed",
    "cached",
    "installs",
    "builtin-skills",
    "engines",
    "logs",
    "store",
];

/// Everything below a folder, with the content of its files.
fn content(folder: &Path) -> BTreeMap<PathBuf, Option<Vec<u8>>> {
    let mut found = BTreeMap::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(content(&path));
            found.insert(path, None);
        } else {
            let text = fs::read(&path).unwrap();
            found.insert(path, Some(text));
        }
    }
    found
}

/// A folder with things of the operator, some with names as the runner gives them.
fn home(place: &Place) -> PathBuf {
    let home = place.path().join("home");
    for folder in [".ssh", "project/.git", ".unneeded-x", "01a1f23e-4a9f-753b-bcf7-000000000001"] {
        fs::create_dir_all(home.join(folder)).unwrap();
        fs::write(home.join(folder).join("file"), "kept").unwrap();
    }
    fs::write(home.join(".bashrc"), "kept").unwrap();
    home
}

/// Both commands that run skills refuse to start because of this path, and say what to do.
fn refused(place: &Place, path: &str) {
    let path = place.path().join("data").join(path);
    for command in [&["run", "tiny"][..], &["serve", "--port", "0"]] {
        let ran = place.run(command);
        assert_eq!(ran.code, Some(2), "{}: {ran:?}", path.display());
        let told =
            format!("data/{}: it is a symbolic link", path.strip_prefix(place.path().join("data")).unwrap().display());
        assert!(ran.stderr.contains(&told) && ran.stderr.contains("mount it there"), "{ran:?}");
    }
}

#[test]
fn a_link_in_the_place_of_a_folder_of_the_data_folder_is_refused_and_leads_nowhere() {
    let place = Place::new();
    place.finished_run();
    let (home, aside) = (home(&place), place.path().join("aside"));
    let before = content(&home);
    for folder in FOLDERS {
        let path = place.path().join("data").join(folder);
        let was_there = fs::rename(&path, &aside).is_ok();
        symlink(&home, &path).unwrap();
        refused(&place, folder);
        assert_eq!(content(&home), before, "{folder}");
        fs::remove_file(&path).unwrap();
        if was_there {
            fs::rename(&aside, &path).unwrap();
        }
    }
    place.finished_run();
}

#[test]
fn a_link_in_the_place_of_a_log_of_the_data_folder_is_refused_and_nothing_is_appended() {
    let place = Place::new();
    place.finished_run();
    let notes = place.path().join("notes");
    fs::write(&notes, "kept").unwrap();
    for log in ["logs/skill-runner.log", "logs/access.log"] {
        let path = place.path().join("data").join(log);
        let _ = fs::remove_file(&path);
        symlink(&notes, &path).unwrap();
        refused(&place, log);
        assert_eq!(fs::read_to_string(&notes).unwrap(), "kept");
        fs::remove_file(&path).unwrap();
    }
    place.finished_run();
}

#[test]
fn a_link_in_the_store_is_refused_by_every_command_that_opens_it_and_nothing_is_overwritten() {
    let place = Place::new();
    let run = place.finished_run();
    let (notes, aside) = (place.path().join("notes"), place.path().join("aside"));
    fs::write(&notes, "kept").unwrap();
    for file in ["index-1/db", "generation-1/db", "generation-1/conf", "generation-1"] {
        let path = place.path().join("data/store").join(file);
        fs::rename(&path, &aside).unwrap();
        symlink(&notes, &path).unwrap();
        let serve = &["serve", "--port", "0"][..];
        for command in [&["run", "tiny"][..], serve, &["runs"], &["verify"], &["show", &run], &["backup", "copy"]] {
            let ran = place.run(command);
            assert_eq!(ran.code, Some(1), "{command:?} {file}: {ran:?}");
            let told = format!("data/store/{file}: it is a symbolic link");
            assert!(ran.stderr.contains(&told) && ran.stderr.contains("mount it there"), "{ran:?}");
        }
        assert_eq!(fs::read_to_string(&notes).unwrap(), "kept", "{file}");
        fs::remove_file(&path).unwrap();
        fs::rename(&aside, &path).unwrap();
    }
    place.finished_run();
}

#[test]
fn the_data_folder_itself_may_be_a_link_and_its_logs_may_be_elsewhere() {
    let place = Place::new();
    fs::create_dir(place.path().join("other-disk")).unwrap();
    symlink("other-disk", place.path().join("data")).unwrap();
    place.finished_run();
    let (running, _) = place.start(&["serve", "--port", "0"], "listening on ");
    running.signal(Signal::TERM);
    assert_eq!(running.end().code, Some(0));
    assert_eq!(place.folders("other-disk/runs").len(), 1);
    let log = place.path().join("linked.log");
    symlink("notes", &log).unwrap();
    let ran = place.run_with(("SKILL_RUNNER_LOG_FILE", log.to_str().unwrap()), &["run", "tiny"]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
}
