//! What authors type: a new package, a lint, an installation, an agent's folder.

use std::fs;
use std::path::Path;

use serde_json::{Value, json};
use tempfile::TempDir;

use super::{cli, json_of, package, tree, write_package};
use crate::support::Server;
use crate::support::zips::deflated;

#[track_caller]
fn good(folder: &Path, args: &[&str]) -> String {
    let output = cli(folder, args);
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{args:?}: {text}{}", String::from_utf8_lossy(&output.stderr));
    text
}

#[track_caller]
fn refused(folder: &Path, args: &[&str], status: i32) -> String {
    let output = cli(folder, args);
    let text = format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert_eq!(output.status.code(), Some(status), "{args:?}: {text}");
    text
}

/// A folder with the agent `clerk`, who sorts mail with the help of a module.
fn with_agent() -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    let scripts = folder.path().join("agents/clerk/.claude/skills");
    fs::create_dir_all(&scripts).unwrap();
    fs::write(
        folder.path().join("agents/clerk/agent.yaml"),
        "name: Clerk\nskills:\n- name: sort_mail\n  entry: .claude/skills/sort_mail.py\n  timeout: 30\n- name: stamp\n",
    )
    .unwrap();
    let script = "import json, sys\nfrom letters import order\nrequest = json.load(sys.stdin)\n\
        print(json.dumps({'success': True, 'action': 'run', 'data': {'sorted': order(request['params']['mail'])}}))\n";
    fs::write(scripts.join("sort_mail.py"), script).unwrap();
    fs::write(scripts.join("letters.py"), "def order(letters):\n    return sorted(letters)\n").unwrap();
    fs::write(scripts.join("stamp.py"), "print('{\"success\": true, \"data\": {}}')\n").unwrap();
    folder
}

#[test]
fn a_new_script_package_lints_clean_runs_and_is_installed() {
    let place = tempfile::tempdir().unwrap();
    let folder = place.path();
    assert!(good(folder, &["skill", "new", "word-count"]).contains("skill-runner run ./word-count"));
    assert_eq!(json_of(folder, &["skill", "lint", "word-count", "--json"]), json!({"ok": true, "findings": []}));
    let run = ["run", "./word-count", "--input", "text=to be or not to be", "--json"];
    assert_eq!(json_of(folder, &run)["result"]["data"], json!({"text": "to be or not to be", "words": 6}));
    let installed = json_of(folder, &["skill", "install", "word-count", "--json"]);
    assert_eq!(
        (&installed["ok"], &installed["skill_id"], &installed["version"], &installed["action"]),
        (&json!(true), &json!("word-count"), &json!("0.1.0"), &json!("install"))
    );
    let installed = ["run", "word-count", "--input", "text=one", "--json"];
    assert_eq!(json_of(folder, &installed)["result"]["data"], json!({"text": "one", "words": 1}));
    let before = tree(folder);
    assert!(refused(folder, &["skill", "new", "word-count"], 2).contains("already exists"));
    refused(folder, &["skill", "new", "Word_Count"], 2);
    assert_eq!(tree(folder), before);
}

#[test]
fn a_new_prompt_package_lints_clean() {
    let place = tempfile::tempdir().unwrap();
    good(place.path(), &["skill", "new", "ask-it", "--type", "prompt", "--into", "drafts"]);
    let linted = json_of(place.path(), &["skill", "lint", "drafts/ask-it", "--json"]);
    assert_eq!(linted, json!({"ok": true, "findings": []}));
    good(place.path(), &["skill", "install", "drafts/ask-it"]);
    let listed = json_of(place.path(), &["skill", "list", "--json"]);
    assert_eq!((&listed["skills"][0]["id"], &listed["skills"][0]["engines"][0]), (&json!("ask-it"), &json!("codex")));
}

#[test]
fn install_gives_the_findings_of_lint_and_changes_nothing() {
    let place = tempfile::tempdir().unwrap();
    let folder = place.path();
    write_package(&folder.join("drafts"), "1.0.0");
    fs::write(folder.join("drafts/demo/assets/output.schema.json"), "{").unwrap();
    fs::remove_file(folder.join("drafts/demo/scripts/run.sh")).unwrap();
    std::os::unix::fs::symlink("SKILL.md", folder.join("drafts/demo/link")).unwrap();
    fs::create_dir(folder.join("skills")).unwrap();
    let before = tree(folder);
    let linted = json_of(folder, &["skill", "lint", "drafts/demo", "--json"]);
    let installed = json_of(folder, &["skill", "install", "drafts/demo", "--json"]);
    assert_eq!(installed["findings"], linted["findings"]);
    let codes: Vec<&str> =
        linted["findings"].as_array().unwrap().iter().map(|finding| finding["code"].as_str().unwrap()).collect();
    assert_eq!(codes, ["SYMLINK", "INVALID_JSON", "FILE_MISSING"]);
    let told = refused(folder, &["skill", "install", "drafts/demo"], 5);
    assert_eq!(told.matches("\n  hint: ").count(), 3, "{told}");
    assert_eq!(told, refused(folder, &["skill", "lint", "drafts/demo"], 1));
    assert_eq!(tree(folder), before);
}

#[test]
fn a_zip_is_installed_beside_a_running_service_which_sees_it_at_once() {
    let server = Server::start();
    let folder = server.folder.path();
    for (version, action) in [("1.0.0", "install"), ("1.0.1", "update")] {
        fs::write(folder.join("demo.zip"), package(version)).unwrap();
        let installed = json_of(folder, &["skill", "install", "demo.zip", "--json"]);
        assert_eq!((&installed["version"], &installed["action"]), (&json!(version), &json!(action)));
        let run = server.post("/v1/jobs?wait=60", &json!({"skill_id": "demo"})).json();
        assert_eq!(run["result"]["data"]["version"], version);
    }
    let told = refused(folder, &["skill", "install", "demo.zip"], 5);
    assert!(told.contains("VERSION_NOT_NEWER"), "{told}");
    fs::write(folder.join("evil.zip"), deflated(&[("demo/../../x", b"x")])).unwrap();
    assert!(refused(folder, &["skill", "install", "evil.zip"], 5).contains("UNSAFE_PATH"));
    assert!(refused(folder, &["skill", "install", "gone.zip"], 2).contains("gone.zip"));
}

#[test]
fn the_skills_of_an_agents_folder_are_listed_and_run() {
    let folder = with_agent();
    let listed = json_of(folder.path(), &["skill", "list", "--json"]);
    let ids: Vec<&Value> = listed["skills"].as_array().unwrap().iter().map(|skill| &skill["id"]).collect();
    assert_eq!(ids, ["clerk-sort-mail", "clerk-stamp"]);
    let run = ["run", "clerk-sort-mail", "--param", "mail=[\"b\", \"a\"]", "--json"];
    assert_eq!(json_of(folder.path(), &run)["result"]["data"], json!({"sorted": ["a", "b"]}));

    let agents = folder.path().join("agents");
    let server = Server::with(&[("agents_dir", agents.to_str().unwrap())]);
    let ask = || {
        let body = json!({"skill_id": "clerk-sort-mail", "parameter": {"mail": ["d", "c"]}});
        server.post("/v1/jobs?wait=60", &body).json()
    };
    assert_eq!(ask()["result"]["data"], json!({"sorted": ["c", "d"]}));
    assert_eq!(server.get("/v1/skills/clerk-sort-mail").json()["timeout_seconds"], 30);
    // A change is seen without a restart, also a change for the worse.
    let module = agents.join("clerk/.claude/skills/letters.py");
    fs::write(&module, "def order(letters):\n    return letters[::-1] + ['z']\n").unwrap();
    assert_eq!(ask()["result"]["data"], json!({"sorted": ["c", "d", "z"]}));
    fs::remove_file(agents.join("clerk/.claude/skills/stamp.py")).unwrap();
    let listed = server.get("/v1/skills").json();
    assert_eq!((&listed["skills"], &listed["invalid"][0]["folder"]), (&json!([]), &json!("agents/clerk")));
    assert_eq!(server.get("/v1/skills/clerk-stamp").refusal(), (404, "SKILL_NOT_FOUND".into()));
    assert_eq!(server.get("/v1/skills/clerks-stamp").refusal(), (404, "SKILL_NOT_FOUND".into()));
}

#[test]
fn an_imported_agent_is_a_package_of_its_own() {
    let folder = with_agent();
    good(folder.path(), &["skill", "import", "agents/clerk"]);
    fs::remove_dir_all(folder.path().join("agents")).unwrap();
    for id in ["clerk-sort-mail", "clerk-stamp"] {
        let linted = json_of(folder.path(), &["skill", "lint", &format!("skills/{id}"), "--json"]);
        assert_eq!(linted, json!({"ok": true, "findings": []}));
    }
    let run = ["run", "clerk-sort-mail", "--param", "mail=[\"b\", \"a\"]", "--json"];
    assert_eq!(json_of(folder.path(), &run)["result"]["data"], json!({"sorted": ["a", "b"]}));
    let again = with_agent();
    fs::create_dir_all(again.path().join("skills/clerk-stamp")).unwrap();
    let before = tree(again.path());
    assert!(refused(again.path(), &["skill", "import", "agents/clerk"], 2).contains("already exists"));
    fs::write(again.path().join("agents/clerk/agent.yaml"), "skills: [{name: gone}]").unwrap();
    assert!(refused(again.path(), &["skill", "import", "agents/clerk"], 5).contains("FILE_MISSING"));
    assert_eq!(tree(again.path()).len(), before.len());
}
