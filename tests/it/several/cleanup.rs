//! Shared files that nothing needs go, cached folders of runs go, and a disk may vanish: what was acknowledged is served.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use serde_json::json;

use super::{Service, Services, audited};
use crate::support::postgres;

/// Each run leaves files of its own.
const MAKES: &str = "cat >/dev/null\nmkdir -p artifacts\nhead -c 3000 /dev/urandom > artifacts/own.bin\n\
    echo made >&2\necho '{\"success\":true,\"data\":{\"n\":1}}'\n";

/// Services that remove shared files as soon as nothing needs them.
fn tidy() -> Services {
    let mut services = Services::new();
    services.set("", "SKILL_RUNNER_SHARED_FILES_GRACE_SECONDS", "0");
    services
}

impl Services {
    fn shared_files(&self) -> Vec<PathBuf> {
        let all = Command::new("find").arg(self.data("blobs")).args(["-type", "f", "-not", "-name", ".*"]).output();
        String::from_utf8(all.unwrap().stdout).unwrap().lines().map(PathBuf::from).collect()
    }
}

fn artifact(service: &Service, run: &str) -> Vec<u8> {
    let answer = service.get(&format!("/v1/jobs/{run}/artifacts/artifacts/own.bin"));
    assert_eq!(answer.status, 200, "{}", answer.text());
    answer.body
}

fn until(what: &str, is_so: impl FnMut() -> bool) {
    crate::crash::until(what, is_so);
}

#[test]
fn deleted_runs_leave_no_shared_file_and_no_folder_on_any_service_and_others_lose_nothing() {
    if !postgres::installed("deleted runs leave no shared file and no folder on any service") {
        return;
    }
    let services = tidy();
    services.skill("makes", MAKES, json!({}));
    let (one, two) = (services.serve("one"), services.serve("two"));
    let runs: Vec<String> = (0..4).map(|n| if n % 2 == 0 { &one } else { &two }.create("makes")).collect();
    for run in &runs {
        one.finish(run);
        assert_eq!(artifact(&one, run), artifact(&two, run));
    }
    let (gone, kept) = (&runs[..2], &runs[2..]);
    // Their logs are sealed, and shared, before they go.
    let sealed = |run: &String| {
        let sealed = |service: &Service| service.data.join("runs").join(run).join("logs/events.jsonl").exists();
        sealed(&one) || sealed(&two)
    };
    until("the logs are sealed", || runs.iter().all(sealed));
    for run in gone {
        let deleted = crate::support::client::Call::new(one.address(), "DELETE", &format!("/v1/jobs/{run}")).send();
        assert_eq!(deleted.status, 200, "{}", deleted.text());
        assert_eq!(two.get(&format!("/v1/jobs/{run}")).status, 404);
    }
    let before = services.shared_files().len();
    for service in [&one, &two] {
        let asked = service.post("/v1/jobs/cleanup", &json!({"keep_last": 100}));
        assert_eq!(asked.status, 200, "{}", asked.text());
    }
    until("unneeded shared files are gone", || services.shared_files().len() < before);
    let folder = |service: &Service, run: &String| service.data.join("runs").join(run).exists();
    until("no service has a folder", || !gone.iter().any(|run| folder(&one, run) || folder(&two, run)));
    // A service that is killed while it removes files leaves them to others for minutes.
    let under_way = format!(
        "select (select count(*) from {0}.file_clean_up where turn is not null or all_looked_at is null) \
         + (select count(*) from {0}.file_removals where number is null)",
        services.schema
    );
    until("the clean-up is over", || postgres::shared().sql(&under_way) == "0");
    // What is left is needed, and whole: also for a service that has nothing of its own.
    for service in [one, two] {
        drop(service);
    }
    for name in ["one", "two"] {
        fs::remove_dir_all(services.data(name)).unwrap();
    }
    let three = services.serve("three");
    for run in kept {
        assert_eq!(artifact(&three, run).len(), 3000);
    }
    audited(&three, kept);
    // And when the last run is gone, so is the last file.
    three.post("/v1/jobs/cleanup", &json!({}));
    until("no shared file is left", || {
        three.post("/v1/jobs/cleanup", &json!({}));
        services.shared_files().is_empty()
    });
}

#[test]
fn folders_that_vanish_under_a_service_come_back_from_the_shared_files() {
    if !postgres::installed("folders that vanish under a service come back") {
        return;
    }
    let services = tidy();
    services.skill("makes", MAKES, json!({}));
    let api = services.api("one");
    let waits = api.create("makes");
    assert_eq!(api.job(&waits)["status"], "queued");
    let vanish = || {
        for folder in ["runs", "homes", "requests", "sealed", "skill-copies"] {
            let _ = fs::remove_dir_all(services.data("one").join(folder));
        }
    };
    drop(api);
    vanish();
    // It is in the queue, and its files are had from elsewhere.
    let one = services.serve("one");
    let events = one.finish(&waits);
    assert_eq!(events.last().unwrap()["data"]["status"], "succeeded", "{events:?}");
    let made = artifact(&one, &waits);
    until("the log is sealed", || one.data.join("runs").join(&waits).join("logs/events.jsonl").exists());
    until("the log has left the store", || {
        let left =
            postgres::shared().sql(&format!("select count(*) from {}.events where run = '{waits}'", services.schema));
        left == "0"
    });
    vanish();
    assert_eq!(artifact(&one, &waits), made);
    assert_eq!(one.finish(&waits), events);
    audited(&one, &[waits]);
}
