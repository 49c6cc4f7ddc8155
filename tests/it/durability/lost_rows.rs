//! A store that does not know runs whose files are there: an older one was put back, it was cut short unnoticed, or a database was
//! emptied. No file of an acknowledged run goes; what an unfinished creation or deletion left does.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::{DATABASE, Watched};
use crate::cli::place::Place;
use crate::support::file_calls::{Deed, Judgement};
use crate::support::{Call, Server};

const SOME_RUN: &str = "0192f0c1-2d3e-7f40-8a51-6b7c8d9e0f11";

/// Every file of runs below the data folder, with its content.
fn files_of_runs(data: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    fn walk(folder: &Path, found: &mut BTreeMap<PathBuf, Vec<u8>>) {
        for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
            let path = entry.path();
            match path.symlink_metadata().unwrap() {
                kind if kind.is_dir() => walk(&path, found),
                kind if kind.is_file() => drop(found.insert(path.clone(), fs::read(&path).unwrap())),
                _ => {}
            }
        }
    }
    let mut found = BTreeMap::new();
    for part in ["runs", "sealed", "requests", "homes", "results"] {
        walk(&data.join(part), &mut found);
    }
    found
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap().map(Result::unwrap) {
        let (from, to) = (entry.path(), to.join(entry.file_name()));
        match from.is_dir() {
            true => copy(&from, &to),
            false => assert!(fs::copy(from, to).is_ok()),
        }
    }
}

fn trouble(server: &Server) -> Value {
    server.get("/v1/system").json()["store"]["trouble"].clone()
}

#[test]
fn no_file_of_a_run_goes_because_an_older_store_was_put_back() {
    let server = Server::with(&[("seal_grace_seconds", "0"), ("max_running_jobs", "1")]);
    server.skill(
        "writes",
        "cat >/dev/null\necho kept > artifacts/kept.txt\necho '{\"success\":true,\"data\":{}}'\n",
        json!({}),
    );
    server.drain();
    let (folder, data) = (server.folder.clone(), server.data());
    let (store, older, newer) = (data.join("store"), folder.path().join("older"), folder.path().join("newer"));
    drop(server);
    copy(&store, &older);
    let flags = [("seal_grace_seconds", "0"), ("max_running_jobs", "1")];
    let server = Server::on_folder_with(folder.clone(), &flags);
    let (_, ended) = server.finished("writes");
    let leaving = server.watch_leave(&ended);
    leaving.wait(&server);
    // One that took its result and has no folder, one that waits for its files, and one that waits for its package.
    let hit = server.create_with(&json!({"skill_id": "writes"})).1;
    server.watch_leave(&hit).wait(&server);
    let waits = server.create_with(&json!({"skill_id": "writes", "await_upload": true})).1;
    assert_eq!(server.post("/v1/temp-skill-runs", &json!({"engine": "script"})).status, 201);
    // As the engine of a CLI leaves it.
    let home = data.join("homes").join(&ended);
    fs::create_dir_all(&home).unwrap();
    fs::write(home.join("session"), "said").unwrap();
    server.drain();
    drop(server);
    let before = files_of_runs(&data);
    for run in [&ended, &hit, &waits] {
        assert!(before.keys().any(|path| path.to_string_lossy().contains(run.as_str())), "{run}: {:?}", before.keys());
    }
    fs::rename(&store, &newer).unwrap();
    fs::rename(&older, &store).unwrap();
    let server = Server::on_folder_with(folder.clone(), &flags);
    let told = trouble(&server);
    let told = told.as_str().unwrap();
    assert!(told.starts_with("at least 4 runs and 1 requests have files"), "{told}");
    server.block_on(server.orchestrator.sweep_homes());
    server.block_on(server.orchestrator.cleanup(None, 0)).unwrap();
    server.drain();
    drop(server);
    assert_eq!(files_of_runs(&data), before);
    fs::remove_dir_all(&store).unwrap();
    fs::rename(&newer, &store).unwrap();
    let server = Server::on_folder_with(folder, &flags);
    assert_eq!(trouble(&server), Value::Null);
    for run in [&ended, &hit] {
        let report = server.get(&format!("/v1/jobs/{run}/audit")).json();
        assert_eq!(report["ok"], true, "{report}");
    }
    assert_eq!(server.get(&format!("/v1/jobs/{waits}")).json()["awaiting_upload"], true);
}

#[test]
fn what_an_unfinished_creation_left_goes_and_what_nobody_marked_stays() {
    let server = Server::start();
    let (folder, data) = (server.folder.clone(), server.data());
    drop(server);
    let other = SOME_RUN.replace("0192f0c1", "0192f0c2");
    for part in ["runs", "requests"] {
        fs::create_dir_all(data.join(part)).unwrap();
        for (id, mode) in [(SOME_RUN, 0o1700), (other.as_str(), 0o700)] {
            let place = data.join(part).join(id);
            fs::DirBuilder::new().mode(mode).create(&place).unwrap();
            fs::write(place.join("input.json"), "{}").unwrap();
        }
    }
    let server = Server::on_folder(folder);
    let left = ["runs", "requests"].map(|part| {
        fs::read_dir(data.join(part))
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect::<Vec<_>>()
    });
    assert_eq!(left, [vec![other.clone()], vec![other.clone()]]);
    let told = trouble(&server);
    assert!(
        told.as_str().unwrap().contains(&format!(
            "1 runs and 1 requests have files in the data folder, and the store does not know them, such as run {other}"
        )),
        "{told}"
    );
}

/// The mark is there while nobody was told of the run, and gone when somebody is; and there again before a deletion.
#[test]
fn a_run_is_marked_until_its_row_is_on_the_disk_and_again_before_its_row_goes() {
    let place = Place::new();
    let Some(service) = Watched::serve(&place, &[]) else { return };
    let runs = place.path().join("data/runs");
    let marks = || {
        let modes =
            fs::read_dir(&runs).into_iter().flatten().map(|run| run.unwrap().metadata().unwrap().permissions().mode());
        modes.map(|mode| mode & 0o1000 != 0).collect::<Vec<_>>()
    };
    let hold = || {
        service.watch.judge(|call| {
            if call.deed == Deed::Sync && call.path == DATABASE { Judgement::Hold } else { Judgement::Pass }
        });
    };
    hold();
    std::thread::scope(|scope| {
        let body = json!({"skill_id": "tiny", "await_upload": true});
        let creation = scope.spawn(move || Call::new(service.address, "POST", "/v1/jobs").json(&body).send());
        service.watch.until_held();
        assert_eq!(marks(), [true]);
        service.watch.release();
        let created = creation.join().unwrap().json();
        assert_eq!(marks(), [false], "{created}");
        let run = created["run_id"].as_str().unwrap().to_owned();
        assert_eq!(Call::new(service.address, "POST", &format!("/v1/jobs/{run}/cancel")).send().status, 200);
        hold();
        let deletion = scope.spawn(move || Call::new(service.address, "DELETE", &format!("/v1/jobs/{run}")).send());
        service.watch.until_held();
        assert_eq!(marks(), [true]);
        service.watch.release();
        let deleted = deletion.join().unwrap();
        assert_eq!((deleted.status, marks()), (200, vec![]));
    });
}
