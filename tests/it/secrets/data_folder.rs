//! The data folder belongs to the service's user alone.

use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use rustix::process::Signal;

use crate::cli::place::Place;

/// Everything below a folder that another user could read, write or enter, with its mode.
pub fn open_to_others(folder: &Path) -> Vec<(PathBuf, String)> {
    let mut found = Vec::new();
    let mut waiting = vec![folder.to_owned()];
    while let Some(path) = waiting.pop() {
        let metadata = fs::symlink_metadata(&path).unwrap();
        if metadata.mode() & 0o077 != 0 && !metadata.is_symlink() {
            found.push((path.clone(), format!("{:o}", metadata.mode() & 0o777)));
        }
        if metadata.is_dir() {
            waiting.extend(fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path()));
        }
    }
    found
}

#[test]
fn everything_a_service_and_its_runs_write_is_for_their_user_alone() {
    let place = Place::new();
    let (running, _) = place.start(&["serve", "--port", "0"], "listening on ");
    let run = place.finished_run();
    running.signal(Signal::TERM);
    assert_eq!(running.end().code, Some(0));
    let data = place.path().join("data");
    assert!(data.join("runs").join(run).join("artifacts/note.txt").exists());
    assert_eq!(open_to_others(&data), []);
    assert_eq!(fs::metadata(data.join("LOCK")).unwrap().mode() & 0o777, 0o600);
}

#[test]
fn a_run_without_a_service_keeps_others_out_as_well() {
    let place = Place::new();
    place.finished_run();
    assert_eq!(open_to_others(&place.path().join("data")), []);
}

#[test]
fn a_data_folder_that_is_open_to_others_is_closed_at_start_with_a_warning() {
    let place = Place::new();
    let data = place.path().join("data");
    fs::create_dir(&data).unwrap();
    fs::create_dir(data.join("runs")).unwrap();
    for folder in [&data, &data.join("runs")] {
        fs::set_permissions(folder, Permissions::from_mode(0o755)).unwrap();
    }
    for warnings in [1, 1] {
        let (running, _) = place.start(&["serve", "--port", "0"], "listening on ");
        running.signal(Signal::TERM);
        assert_eq!(running.end().code, Some(0));
        assert_eq!(open_to_others(&data), [(data.join("runs"), "755".to_owned())], "what is inside cannot be reached");
        let log = fs::read_to_string(data.join("logs/skill-runner.log")).unwrap();
        let said = log.lines().filter(|line| line.contains("WARN") && line.contains("(mode 0755)")).count();
        assert_eq!(said, warnings, "{log}");
    }
}

#[test]
fn a_link_in_the_place_of_the_lock_is_not_followed() {
    let place = Place::new();
    let (data, outside) = (place.path().join("data"), place.path().join("outside"));
    fs::create_dir(&data).unwrap();
    std::os::unix::fs::symlink(&outside, data.join("LOCK")).unwrap();
    let ran = place.run(&["run", "tiny", "--json"]);
    assert_eq!(ran.code, Some(1), "{ran:?}");
    assert!(ran.stderr.contains("LOCK"), "{ran:?}");
    assert!(!outside.exists());
}
