//! The versions of an installed skill: listed, rolled back to, uninstalled; over the API and on the command line.

use std::fs;

use serde_json::{Value, json};

use super::{cli, install, json_of, package, tree, write_package};
use crate::support::zips::zip_folder;
use crate::support::{Server, script_skill};

/// What the archive and the place hold, as the API tells it: version and whether it is in place.
fn kept(server: &Server) -> Vec<(String, bool)> {
    let answer = server.get("/v1/skills/demo/versions").json();
    assert_eq!(answer["skill_id"], "demo");
    let versions = answer["versions"].as_array().unwrap().iter();
    versions.map(|kept| (kept["version"].as_str().unwrap().to_owned(), kept["current"] == true)).collect()
}

fn version_that_runs(server: &Server) -> Value {
    let body = json!({"skill_id": "demo", "runtime_options": {"no_cache": true}});
    server.post("/v1/jobs?wait=60", &body).json()["result"]["data"]["version"].clone()
}

fn named(versions: &[(&str, bool)]) -> Vec<(String, bool)> {
    versions.iter().map(|(version, current)| ((*version).to_owned(), *current)).collect()
}

#[test]
fn a_skill_goes_back_to_an_archived_version_and_forward_again() {
    let server = Server::start();
    for version in ["1.0.0", "1.1.0", "2.0.0"] {
        install(&server, &package(version));
    }
    assert_eq!(kept(&server), named(&[("2.0.0", true), ("1.1.0", false), ("1.0.0", false)]));
    let roll_back = |to: &str| server.post("/v1/skills/demo/rollback", &json!({"version": to}));
    let done = roll_back("1.0.0");
    let answer = done.json();
    assert_eq!(
        (done.status, &answer["status"], &answer["version"], &answer["action"]),
        (200, &json!("succeeded"), &json!("1.0.0"), &json!("rollback"))
    );
    assert_eq!(version_that_runs(&server), "1.0.0");
    // The one that was replaced is the latest in the archive.
    assert_eq!(kept(&server), named(&[("1.0.0", true), ("2.0.0", false), ("1.1.0", false)]));
    assert_eq!(roll_back("1.0.0").refusal(), (409, "SKILL_VERSION_IN_PLACE".into()));
    assert_eq!(roll_back("9.9.9").refusal(), (404, "SKILL_VERSION_NOT_FOUND".into()));
    let newest = server.get("/v1/skills/demo/versions").json()["versions"][1]["fingerprint"].clone();
    assert_eq!(roll_back(newest.as_str().unwrap()).status, 200);
    assert_eq!(version_that_runs(&server), "2.0.0");
    // It is on record, also after a restart.
    let server = server.restarted(&[]);
    let record = server.get(&format!("/v1/skill-packages/{}", answer["request_id"].as_str().unwrap()));
    assert_eq!(record.json(), answer);
    assert_eq!(kept(&server), named(&[("2.0.0", true), ("1.0.0", false), ("1.1.0", false)]));
    // Only a version newer than the one in place is an update.
    assert_eq!(install(&server, &package("2.0.0"))["error"]["code"], "VERSION_NOT_NEWER");
}

#[test]
fn an_uninstalled_skill_is_gone_for_new_runs_and_can_be_brought_back() {
    let server = Server::start();
    install(&server, &package("1.0.0"));
    let done = server.call("DELETE", "/v1/skills/demo").send();
    let answer = done.json();
    assert_eq!((done.status, &answer["action"], &answer["version"]), (200, &json!("uninstall"), &json!("1.0.0")));
    assert_eq!(kept(&server), named(&[("1.0.0", false)]));
    assert_eq!(server.get("/v1/skills/demo").refusal(), (404, "SKILL_NOT_FOUND".into()));
    let run = server.post("/v1/jobs", &json!({"skill_id": "demo"}));
    assert_eq!(run.refusal(), (404, "SKILL_NOT_FOUND".into()));
    let again = server.call("DELETE", "/v1/skills/demo").send();
    assert_eq!(again.refusal(), (404, "SKILL_NOT_FOUND".into()));
    assert!(again.text().contains("a rollback brings one back"), "{}", again.text());
    server.post("/v1/skills/demo/rollback", &json!({"version": "1.0.0"}));
    assert_eq!(version_that_runs(&server), "1.0.0");
    // It can also be installed anew, in any version.
    server.call("DELETE", "/v1/skills/demo").send();
    assert_eq!(install(&server, &package("0.9.0"))["action"], "install");
    assert_eq!(kept(&server), named(&[("0.9.0", true), ("1.0.0", false)]));
}

#[test]
fn runs_that_have_begun_or_wait_for_files_end_with_the_skill_they_began_with() {
    let server = Server::start();
    let gated = "cat >/dev/null\nmkfifo gate\necho ready >&2\nread line < gate\n\
        echo \"{\\\"success\\\":true,\\\"action\\\":\\\"run\\\",\\\"data\\\":{\\\"version\\\":\\\"$(cat \"$1\")\\\"}}\"\n";
    let folder = tempfile::tempdir().unwrap();
    let script = json!({"type": "script", "script": {"command": "sh scripts/run.sh assets/version.txt"}});
    script_skill(folder.path(), "demo", gated, json!({"runner": {"version": "1.0.0", "entrypoint": script}}));
    fs::write(folder.path().join("demo/assets/version.txt"), "1.0.0").unwrap();
    install(&server, &zip_folder(&folder.path().join("demo")));
    let (_, running) = server.create("demo");
    server.wait_for(&running, "raw.stderr", "ready");
    // An equal run would take the result of the first.
    let own = json!({"skill_id": "demo", "await_upload": true, "runtime_options": {"no_cache": true}});
    let (_, waiting) = server.create_with(&own);
    assert_eq!(server.call("DELETE", "/v1/skills/demo").send().status, 200);
    let upload = server.call("POST", &format!("/v1/jobs/{waiting}/upload"));
    let uploaded = upload.parts(&[("file", &crate::support::zips::deflated(&[]))]).send();
    assert_eq!(uploaded.status, 200, "{}", uploaded.text());
    // One after the other: how many run at once depends on the machine.
    for run in [&running, &waiting] {
        server.wait_for(run, "raw.stderr", "ready");
        server.open_gate(run, "go");
        server.finish(run);
        let result = server.get(&format!("/v1/jobs/{run}/result")).json();
        assert_eq!(result["result"]["data"], json!({"version": "1.0.0"}));
    }
    let again = server.call("POST", &format!("/v1/jobs/{running}/rerun")).send();
    assert_eq!(again.refusal(), (404, "SKILL_NOT_FOUND".into()));
}

#[test]
fn what_is_not_there_or_not_in_the_skills_folder_is_refused_and_nothing_changes() {
    let folder = tempfile::tempdir().unwrap();
    let agent = folder.path().join("agents/clerk/.claude/skills");
    fs::create_dir_all(&agent).unwrap();
    fs::write(folder.path().join("agents/clerk/agent.yaml"), "skills: [{name: stamp}]").unwrap();
    fs::write(agent.join("stamp.py"), "print('{}')").unwrap();
    let server = Server::with(&[("agents_dir", folder.path().join("agents").to_str().unwrap())]);
    install(&server, &package("1.0.0"));
    let before = tree(server.folder.path());
    let delete = |id: &str| server.call("DELETE", &format!("/v1/skills/{id}")).send();
    assert_eq!(delete("clerk-stamp").refusal(), (409, "SKILL_NOT_REMOVABLE".into()));
    for unknown in ["dema", "%2e%2e", ".archive", "X"] {
        assert_eq!(delete(unknown).refusal(), (404, "SKILL_NOT_FOUND".into()), "{unknown}");
        let versions = server.get(&format!("/v1/skills/{unknown}/versions"));
        assert_eq!(versions.refusal(), (404, "SKILL_NOT_FOUND".into()), "{unknown}");
        let rollback = server.post(&format!("/v1/skills/{unknown}/rollback"), &json!({"version": "1.0.0"}));
        assert_eq!(rollback.refusal(), (404, "SKILL_NOT_FOUND".into()), "{unknown}");
    }
    for body in [json!({}), json!({"version": 1}), json!({"version": "1.0.0", "more": true}), json!([])] {
        assert_eq!(server.post("/v1/skills/demo/rollback", &body).refusal().0, 400, "{body}");
    }
    let agents = server.get("/v1/skills/clerk-stamp/versions").json();
    assert_eq!(agents["versions"].as_array().unwrap().len(), 1);
    assert_eq!(tree(server.folder.path()), before);
}

#[test]
fn a_mistyped_skill_is_answered_with_the_one_that_was_meant() {
    let server = Server::start();
    install(&server, &package("1.0.0"));
    let answers = [
        server.get("/v1/skills/dmeo"),
        server.post("/v1/jobs", &json!({"skill_id": "dmeo"})),
        server.get("/v1/skills/dmeo/versions"),
        server.call("DELETE", "/v1/skills/dmeo").send(),
    ];
    for answer in answers {
        let error = answer.json()["error"].clone();
        assert_eq!((answer.status, &error["details"]), (404, &json!({"did_you_mean": "demo"})));
        assert!(error["message"].as_str().unwrap().contains("did you mean \"demo\"?"), "{error}");
    }
    assert_eq!(server.get("/v1/skills/pdf-tools").json()["error"]["details"], json!({}));
    let place = tempfile::tempdir().unwrap();
    write_package(&place.path().join("skills"), "1.0.0");
    for args in [&["run", "dmeo"][..], &["skill", "versions", "dmeo"], &["skill", "uninstall", "dmeo"]] {
        let output = cli(place.path(), args);
        let told = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(4), "{args:?}: {told}");
        assert!(told.contains("did you mean \"demo\"?"), "{args:?}: {told}");
    }
    let told = String::from_utf8(cli(place.path(), &["run", "demo-ehco"]).stderr).unwrap();
    assert!(told.contains("did you mean \"demo\"?") || told.contains("did you mean \"demo-echo\"?"), "{told}");
}

#[test]
fn the_commands_do_the_same_beside_a_running_service_which_sees_it_at_once() {
    let server = Server::start();
    let folder = server.folder.path();
    for version in ["1.0.0", "2.0.0"] {
        install(&server, &package(version));
    }
    let listed = json_of(folder, &["skill", "versions", "demo", "--json"]);
    assert_eq!(listed, server.get("/v1/skills/demo/versions").json());
    let table = String::from_utf8(cli(folder, &["skill", "versions", "demo"]).stdout).unwrap();
    let cells: Vec<Vec<&str>> = table.lines().map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(cells[0], ["VERSION", "STATE", "SINCE", "FINGERPRINT"]);
    assert_eq!((&cells[1][..2], &cells[2][..2]), (&["2.0.0", "current"][..], &["1.0.0", "archived"][..]));
    let done = json_of(folder, &["skill", "rollback", "demo", "1.0.0", "--json"]);
    assert_eq!(done, json!({"ok": true, "skill_id": "demo", "version": "1.0.0", "action": "rollback"}));
    assert_eq!(version_that_runs(&server), "1.0.0");
    let told = cli(folder, &["skill", "uninstall", "demo"]);
    let told = String::from_utf8(told.stdout).unwrap();
    assert!(told.contains("skill-runner skill rollback demo 1.0.0"), "{told}");
    assert_eq!(server.get("/v1/skills/demo").refusal(), (404, "SKILL_NOT_FOUND".into()));
    let refused = cli(folder, &["skill", "rollback", "demo", "3.0.0"]);
    let told = String::from_utf8(refused.stderr).unwrap();
    assert_eq!(refused.status.code(), Some(4), "{told}");
    assert!(told.contains("there are 1.0.0, 2.0.0"), "{told}");
    assert!(cli(folder, &["skill", "rollback", "demo", "2.0.0"]).status.success());
    assert_eq!(version_that_runs(&server), "2.0.0");
}

#[test]
fn packages_without_a_version_go_by_their_fingerprint() {
    let place = tempfile::tempdir().unwrap();
    let folder = place.path();
    let mut fingerprints = Vec::new();
    for text in ["one", "two", "three"] {
        let package = folder.join("note");
        fs::create_dir_all(&package).unwrap();
        fs::write(package.join("SKILL.md"), format!("---\nname: note\ndescription: A note.\n---\n{text}\n")).unwrap();
        assert!(cli(folder, &["skill", "install", "./note"]).status.success());
        fingerprints
            .push(json_of(folder, &["skill", "show", "note", "--json"])["fingerprint"].as_str().unwrap().to_owned());
    }
    let refused = cli(folder, &["skill", "rollback", "note", "0.0.0"]);
    let told = String::from_utf8(refused.stderr).unwrap();
    assert_eq!(refused.status.code(), Some(5), "{told}");
    assert!(told.contains(&fingerprints[0][..12]) && told.contains(&fingerprints[1][..12]), "{told}");
    assert!(cli(folder, &["skill", "rollback", "note", &fingerprints[0][..12]]).status.success());
    assert_eq!(json_of(folder, &["skill", "show", "note", "--json"])["fingerprint"], fingerprints[0]);
    let told = String::from_utf8(cli(folder, &["skill", "uninstall", "note"]).stdout).unwrap();
    assert!(told.contains(&format!("skill rollback note {}", &fingerprints[0][..12])), "{told}");
    let versions = json_of(folder, &["skill", "versions", "note", "--json"]);
    let mut kept: Vec<&str> =
        versions["versions"].as_array().unwrap().iter().map(|kept| kept["fingerprint"].as_str().unwrap()).collect();
    kept.sort_unstable();
    fingerprints.sort();
    assert_eq!(kept, fingerprints);
}
