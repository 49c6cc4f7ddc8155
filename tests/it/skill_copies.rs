//! The copy of a skill that runs share: none of them can change it for another, and who reads a run's files finds it.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

use serde_json::{Value, json};

use crate::support::Server;

/// Tells what an earlier run left beside the script, and leaves something there, if it can.
const MARKING: &str = "cat >/dev/null\nhere=$(dirname \"$0\")\nleft=$(ls \"$here\")\n( echo x > \"$here/mark\" ) 2>/dev/null\n\
    echo \"{\\\"success\\\":true,\\\"data\\\":{\\\"left\\\":\\\"$left\\\"}}\"\n";

fn run(server: &Server, skill: &str) -> (String, Value) {
    let body = json!({"skill_id": skill, "runtime_options": {"no_cache": true}});
    let job = server.post("/v1/jobs?wait=60", &body).json();
    assert_eq!(job["status"], "succeeded", "{job}");
    (job["run_id"].as_str().unwrap().to_owned(), job["result"]["data"].clone())
}

fn copies(server: &Server) -> Vec<PathBuf> {
    let folder = server.folder.path().join("data/skill-copies");
    let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    entries.filter(|path| !path.file_name().unwrap().to_string_lossy().starts_with('.')).collect()
}

#[test]
fn no_run_sees_what_another_wrote_beside_its_script() {
    let server = Server::start();
    server.skill("marking", MARKING, json!({}));
    for _ in 0..3 {
        assert_eq!(run(&server, "marking").1, json!({"left": "run.sh"}));
    }
    assert_eq!(copies(&server).len(), 1, "they share one copy");
}

#[test]
fn a_shared_copy_that_was_changed_is_not_run() {
    let server = Server::start();
    server.skill("marking", MARKING, json!({}));
    let (_, before) = run(&server, "marking");
    for _ in 0..2 {
        let [copy] = copies(&server)[..].to_vec().try_into().unwrap();
        let script = copy.join("marking/scripts/run.sh");
        fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).unwrap();
        fs::write(&script, "#!/bin/sh\necho '{\"success\":true,\"data\":{\"forged\":true}}'\n").unwrap();
        assert_eq!(run(&server, "marking").1, before);
    }
}

#[test]
fn an_edit_reaches_the_next_run_at_once() {
    let server = Server::start();
    for round in 0..20 {
        let script = format!("cat >/dev/null\necho '{{\"success\":true,\"data\":{{\"round\":{round}}}}}'\n");
        server.skill("edited", &script, json!({}));
        assert_eq!(run(&server, "edited").1, json!({"round": round}));
    }
    assert_eq!(copies(&server).len(), 20);
}

#[test]
fn the_files_of_a_run_show_the_skill_it_ran() {
    let server = Server::start();
    server.skill("marking", MARKING, json!({}));
    let (id, _) = run(&server, "marking");
    let listed = server.get(&format!("/v1/management/runs/{id}/files")).json();
    let paths: Vec<&str> =
        listed["files"].as_array().unwrap().iter().map(|entry| entry["path"].as_str().unwrap()).collect();
    let expected = [".script", ".script/skills", ".script/skills/marking", ".script/skills/marking/SKILL.md"];
    assert_eq!(paths[..4], expected, "{paths:?}");
    assert_eq!(paths.iter().filter(|path| **path == ".script/skills/marking/scripts/run.sh").count(), 1, "{paths:?}");
    let preview = server.get(&format!("/v1/management/runs/{id}/file?path=.script/skills/marking/scripts/run.sh"));
    assert!(preview.json()["content"].as_str().unwrap().contains("here=$(dirname"), "{preview:?}");
    let missing = server.get(&format!("/v1/management/runs/{id}/file?path=.script/skills/marking/none"));
    assert_eq!(missing.refusal(), (404, "FILE_NOT_FOUND".into()));
}

#[test]
fn runs_that_leave_their_skill_alone_hand_one_copy_on_and_still_show_it() {
    let server = Server::start();
    server.skill("quiet", "cat >/dev/null\nls -i \"$0\" | { read -r inode _; echo \"{\\\"success\\\":true,\\\"data\\\":{\\\"inode\\\":\\\"$inode\\\"}}\"; }\n", json!({}));
    let copy = |id: &str| server.run_dir(id).join(".script");
    let mut seen = std::collections::HashMap::<String, usize>::new();
    // The first runs may come before a spare copy is at rest.
    let (id, data) = loop {
        let (id, data) = run(&server, "quiet");
        let times = seen.entry(data["inode"].as_str().unwrap().to_owned()).or_default();
        *times += 1;
        if *times == 3 {
            break (id, data);
        }
        assert!(seen.len() < 500, "no run takes what another one gave back");
    };
    assert!(!copy(&id).exists(), "it was given back: {data}");
    let preview = server.get(&format!("/v1/management/runs/{id}/file?path=.script/skills/quiet/scripts/run.sh"));
    assert!(preview.json()["content"].as_str().unwrap().contains("ls -i"), "{preview:?}");
}
