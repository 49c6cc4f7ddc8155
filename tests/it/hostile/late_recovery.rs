//! A run of an earlier service that takes long to recover: whoever asks for it is told so, and nobody waits for it.

use std::sync::Arc;

use serde_json::{Value, json};
use skill_runner::domain::ids::RunId;

use crate::recording::held_store::HeldStore;
use crate::support::Server;

/// The running one, those that a start recovers before it is ready, and two that it does not.
const RUNS: usize = 1 + 64 + 2;

#[test]
fn a_run_that_is_still_being_recovered_is_told_of_and_nobody_waits_for_it() {
    let store = HeldStore::default();
    let folder = Arc::new(tempfile::tempdir().unwrap());
    std::fs::create_dir(folder.path().join("data")).unwrap();
    let flags = [("max_running_jobs", "1"), ("restart_queued", "fail")];
    let server = Server::on_folder_and_store(folder.clone(), &flags, Arc::new(store.clone()));
    server.skill("waits", "cat > /dev/null\nmkfifo gate\nread go < gate\n", json!({}));
    let runs: Vec<String> = (0..RUNS).map(|_| server.create("waits").1).collect();
    drop(server);

    let (slow, quick) = (&runs[RUNS - 1], &runs[RUNS - 2]);
    store.hold_run(RunId(slow.parse().unwrap()));
    let server = Server::on_folder_and_store(folder, &flags, Arc::new(store.clone()));
    let status = |run: &str| server.get(&format!("/v1/jobs/{run}")).json()["status"].clone();
    assert_eq!(status(quick), "failed", "another run that is recovered later");
    let refused = server.get(&format!("/v1/jobs/{slow}"));
    assert_eq!(
        (refused.refusal(), &refused.headers["retry-after"]),
        ((503, "RUN_NOT_RECOVERED".into()), &"1".parse().unwrap())
    );
    let listed = server.get("/v1/jobs?limit=3").json();
    let listed: Vec<&Value> = listed["jobs"].as_array().unwrap().iter().map(|job| &job["status"]).collect();
    assert_eq!(listed, ["queued", "failed", "failed"], "as it is on record");

    store.release();
    let mut last = server.get(&format!("/v1/jobs/{slow}"));
    while last.status == 503 {
        last = server.get(&format!("/v1/jobs/{slow}"));
    }
    assert_eq!((last.status, &last.json()["status"]), (200, &json!("failed")));
}
