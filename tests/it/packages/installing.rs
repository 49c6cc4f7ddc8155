//! The install route of a real service: what it answers, what it leaves in the skills folder, and who may use it.

use std::collections::BTreeSet;
use std::fs;
use std::time::Instant;

use serde_json::{Value, json};

use super::{install, package, send, tree, write_package};
use crate::support::zips::{deflated, zip_folder};
use crate::support::{LONG, Server, script_skill};

fn brief(install: &Value) -> Value {
    json!([install["status"], install["skill_id"], install["version"], install["action"], install["error"]["code"]])
}

fn version_that_runs(server: &Server) -> Value {
    let body = json!({"skill_id": "demo", "runtime_options": {"no_cache": true}});
    server.post("/v1/jobs?wait=60", &body).json()["result"]["data"]["version"].clone()
}

#[test]
fn a_package_is_queued_installed_and_runs_without_a_restart() {
    let server = Server::start();
    let answer = server.call("POST", "/v1/skill-packages/install").parts(&[("file", &package("1.0.0"))]).send();
    let queued = answer.json();
    let id = queued["request_id"].as_str().unwrap();
    assert_eq!((answer.status, &queued), (202, &json!({"request_id": id, "status": "queued"})));
    let place = format!("/v1/skill-packages/{id}");
    assert_eq!(answer.header("location"), place);
    let deadline = Instant::now() + LONG;
    let ended = loop {
        let now = server.get(&place).json();
        if now["status"] == "succeeded" || now["status"] == "failed" {
            break now;
        }
        assert!(["queued", "running"].contains(&now["status"].as_str().unwrap()) && Instant::now() < deadline, "{now}");
        std::thread::yield_now();
    };
    assert_eq!(brief(&ended), json!(["succeeded", "demo", "1.0.0", "install", null]));
    assert_eq!(version_that_runs(&server), "1.0.0");
    let names: Vec<String> = tree(&server.folder.path().join("skills")).into_iter().map(|(name, _)| name).collect();
    let mut expected = vec!["demo".to_owned()];
    let inside = ["SKILL.md", "assets", "scripts", "scripts/run.sh", "assets/runner.json"];
    expected.extend(inside.map(|name| format!("demo/{name}")));
    expected.extend(["input", "output", "parameter"].map(|kind| format!("demo/assets/{kind}.schema.json")));
    expected.sort();
    assert_eq!(names, expected);
}

#[test]
fn an_update_archives_the_old_version_and_only_a_newer_one_is_an_update() {
    let server = Server::start();
    install(&server, &package("1.0.0"));
    assert_eq!(brief(&install(&server, &package("1.1.0"))), json!(["succeeded", "demo", "1.1.0", "update", null]));
    assert_eq!(version_that_runs(&server), "1.1.0");
    assert_eq!(send(&server, &package("1.1.0")).status, 409, "it is the client's mistake");
    for given in ["1.1.0", "1.0.9", "1.1.0-rc.1", "1.1.0+newer"] {
        let refused = install(&server, &package(given));
        assert_eq!(brief(&refused), json!(["failed", "demo", given, null, "VERSION_NOT_NEWER"]));
        assert_eq!(refused["error"]["details"], json!({"installed": "1.1.0", "given": given}));
    }
    let skills = server.folder.path().join("skills");
    let archived = skill_runner::registry::load_dir(&skills.join("demo"), skill_runner::skill::Intake::New).unwrap();
    assert_eq!(archived.skill.version.to_string(), "1.1.0");
    let runner = fs::read_to_string(skills.join(".archive/demo/1.0.0/assets/runner.json")).unwrap();
    assert!(runner.contains("\"1.0.0\""), "{runner}");
    let tops: BTreeSet<String> =
        tree(&skills).into_iter().map(|(name, _)| name.split('/').next().unwrap().to_owned()).collect();
    assert_eq!(tops, BTreeSet::from([".archive".to_owned(), "demo".to_owned()]));
    let listed = server.get("/v1/skills").json();
    assert_eq!((listed["skills"].as_array().unwrap().len(), &listed["invalid"]), (1, &json!([])));
}

#[test]
fn everything_that_is_wrong_with_a_package_is_told_at_once_by_file_and_pointer() {
    let server = Server::start();
    let before = tree(&server.folder.path().join("skills"));
    let runner = json!({
        "id": "other", "version": "one", "unsupport_engine": ["codex"], "schemas": {},
        "entrypoint": {"type": "script", "script": {"command": "sh scripts/gone.sh"}}
    });
    let zip = deflated(&[
        ("demo/SKILL.md", b"---\nname: demo\n---\n"),
        ("demo/assets/runner.json", runner.to_string().as_bytes()),
        ("demo/assets/input.schema.json", br#"{"type":"object","properties":{"a":{"x-input-source":"web"}}}"#),
        ("demo/assets/output.schema.json", br#"{"type":"array"}"#),
    ]);
    let refused = install(&server, &zip);
    assert_eq!(brief(&refused), json!(["failed", null, null, null, "SKILL_PACKAGE_INVALID"]));
    let findings = refused["error"]["details"]["findings"].as_array().unwrap();
    let places: BTreeSet<String> = findings
        .iter()
        .map(|it| {
            format!(
                "{} {}#{}",
                it["code"].as_str().unwrap(),
                it["file"].as_str().unwrap(),
                it["pointer"].as_str().unwrap()
            )
        })
        .collect();
    let expected = [
        "SHAPE_INVALID SKILL.md#",
        "NAME_MISMATCH assets/runner.json#/id",
        "VERSION_INVALID assets/runner.json#/version",
        "OLD_KEY assets/runner.json#/unsupport_engine",
        "EXECUTION_MODES_MISSING assets/runner.json#/execution_modes",
        "FILE_MISSING assets/runner.json#/entrypoint/script/command",
        "SCHEMA_EXTENSION_INVALID assets/input.schema.json#/properties/a/x-input-source",
        "SCHEMA_NOT_OBJECT assets/output.schema.json#/type",
    ];
    assert_eq!(places, expected.map(str::to_owned).into());
    assert!(
        findings
            .iter()
            .all(|it| !it["hint"].as_str().unwrap().is_empty() && !it["message"].as_str().unwrap().is_empty())
    );
    for (zip, what) in
        [(deflated(&[("SKILL.md", b"x")]), "a file"), (deflated(&[("a/x", b""), ("b/x", b"")]), "two folders")]
    {
        let refused = install(&server, &zip);
        assert_eq!(refused["error"]["details"]["findings"][0]["code"], "TOP_LEVEL_INVALID", "{what}");
    }
    assert_eq!(tree(&server.folder.path().join("skills")), before);
}

#[test]
fn a_broken_folder_of_that_name_moves_to_the_invalid_ones() {
    let server = Server::start();
    let skills = server.folder.path().join("skills");
    for round in ["demo", "demo.1"] {
        let _ = fs::remove_dir_all(skills.join("demo"));
        fs::create_dir_all(skills.join("demo")).unwrap();
        fs::write(skills.join("demo/notes.txt"), round).unwrap();
        assert_eq!(brief(&install(&server, &package("1.0.0"))), json!(["succeeded", "demo", "1.0.0", "install", null]));
        assert_eq!(fs::read_to_string(skills.join(".invalid").join(round).join("notes.txt")).unwrap(), round);
    }
    assert_eq!(version_that_runs(&server), "1.0.0");
}

#[test]
fn what_version_control_left_in_a_package_is_not_installed() {
    let server = Server::start();
    let folder = tempfile::tempdir().unwrap();
    write_package(folder.path(), "1.0.0");
    fs::create_dir_all(folder.path().join("demo/.git/objects")).unwrap();
    fs::write(folder.path().join("demo/.git/objects/x"), "x").unwrap();
    install(&server, &zip_folder(&folder.path().join("demo")));
    assert!(!server.folder.path().join("skills/demo/.git").exists());
    assert_eq!(version_that_runs(&server), "1.0.0");
}

#[test]
fn a_run_that_has_begun_keeps_the_version_it_began_with() {
    let server = Server::start();
    let gated = "cat >/dev/null\nmkfifo gate\necho ready >&2\nread line < gate\nversion=$(cat \"$1\")\n\
        echo \"{\\\"success\\\":true,\\\"action\\\":\\\"run\\\",\\\"data\\\":{\\\"version\\\":\\\"$version\\\"}}\"\n";
    let of_version = |version: &str| {
        let folder = tempfile::tempdir().unwrap();
        let script = json!({"type": "script", "script": {"command": "sh scripts/run.sh assets/version.txt"}});
        script_skill(folder.path(), "demo", gated, json!({"runner": {"version": version, "entrypoint": script}}));
        fs::write(folder.path().join("demo/assets/version.txt"), version).unwrap();
        zip_folder(&folder.path().join("demo"))
    };
    install(&server, &of_version("1.0.0"));
    let (_, run) = server.create("demo");
    server.wait_for(&run, "raw.stderr", "ready");
    assert_eq!(install(&server, &of_version("2.0.0"))["status"], "succeeded");
    server.open_gate(&run, "go");
    server.finish(&run);
    let result = server.get(&format!("/v1/jobs/{run}/result")).json();
    assert_eq!(result["result"]["data"], json!({"version": "1.0.0"}));
}

#[test]
fn runs_created_while_versions_change_have_one_version_each() {
    let server = Server::start();
    install(&server, &package("1.0.0"));
    std::thread::scope(|scope| {
        let updates = scope.spawn(|| {
            for patch in 1..=10 {
                assert_eq!(install(&server, &package(&format!("1.0.{patch}")))["status"], "succeeded");
            }
        });
        while !updates.is_finished() {
            let body = json!({"skill_id": "demo", "runtime_options": {"no_cache": true}});
            let answer = server.post("/v1/jobs?wait=60", &body).json();
            assert_eq!(answer["status"], "succeeded", "{answer}");
            let run = server.run_dir(answer["run_id"].as_str().unwrap());
            let skill: Value = serde_json::from_slice(&fs::read(run.join("skill.json")).unwrap()).unwrap();
            assert_eq!(skill["version"], answer["result"]["data"]["version"], "{answer}");
        }
    });
    assert_eq!(version_that_runs(&server), "1.0.10");
}

#[test]
fn installs_of_one_skill_sent_at_once_end_with_the_newest() {
    let server = Server::start();
    let actions: Vec<Value> = std::thread::scope(|scope| {
        let send = |patch: u32| install(&server, &package(&format!("1.0.{patch}")))["status"].clone();
        let threads: Vec<_> = (0..8).map(|patch| scope.spawn(move || send(patch))).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    assert_eq!(actions[7], "succeeded", "{actions:?}");
    assert_eq!(version_that_runs(&server), "1.0.7");
}

#[test]
fn records_survive_a_restart_and_unknown_ones_are_not_found() {
    let server = Server::start();
    let (good, bad) = (install(&server, &package("1.0.0")), install(&server, &deflated(&[("x", b"")])));
    let unfinished = json!({
        "request_id": "0192f0c1-2d3e-7f40-8a51-6b7c8d9e0f11", "status": "running", "skill_id": "demo", "version": "9.0.0",
        "action": null, "error": null, "warnings": [], "created_at": "2026-01-01T00:00:00Z", "finished_at": null
    });
    let id = unfinished["request_id"].as_str().unwrap();
    fs::write(server.data().join(format!("installs/{id}.json")), unfinished.to_string()).unwrap();
    let server = server.restarted(&[]);
    for install in [good, bad] {
        let id = install["request_id"].as_str().unwrap();
        assert_eq!(server.get(&format!("/v1/skill-packages/{id}")).json(), install);
    }
    let interrupted = server.get(&format!("/v1/skill-packages/{id}")).json();
    assert_eq!(brief(&interrupted), json!(["failed", "demo", "9.0.0", null, "ORCHESTRATOR_RESTART_INTERRUPTED"]));
    for unknown in ["0192f0c1-2d3e-7f40-8a51-6b7c8d9e0f12", "x", "%2e%2e"] {
        let answer = server.get(&format!("/v1/skill-packages/{unknown}"));
        assert_eq!(answer.refusal(), (404, "INSTALL_NOT_FOUND".into()), "{unknown}");
    }
}

#[test]
fn the_wait_may_be_a_preference_and_other_bodies_are_refused() {
    let server = Server::start();
    let call = || server.call("POST", "/v1/skill-packages/install");
    let preferred = call().header("prefer", "wait=60").parts(&[("file", &package("1.0.0"))]).send();
    assert_eq!((preferred.status, preferred.header("preference-applied")), (202, "wait=60"));
    assert_eq!(preferred.json()["status"], "succeeded");
    assert_eq!(call().json(&json!({})).send().refusal(), (415, "UNSUPPORTED_MEDIA_TYPE".into()));
    assert_eq!(call().parts(&[("other", b"x")]).send().refusal(), (400, "INVALID_REQUEST".into()));
    let twice = server.call("POST", "/v1/skill-packages/install?wait=x").parts(&[("file", b"x")]).send();
    assert_eq!(twice.refusal(), (400, "INVALID_REQUEST".into()));
    assert_eq!(server.get("/v1/skill-packages/install").refusal(), (405, "METHOD_NOT_ALLOWED".into()));
}

#[test]
fn the_login_of_the_user_interface_guards_it_and_the_token_opens_it() {
    let login =
        [("ui_basic_auth_enabled", "on"), ("ui_basic_auth_username", "ann"), ("ui_basic_auth_password", "secret")];
    let server = Server::with(&login);
    assert_eq!(send(&server, &package("1.0.0")).refusal(), (401, "UNAUTHORIZED".into()));
    assert!(!server.folder.path().join("skills/demo").exists());
    let call = |header: &str| {
        server
            .call("POST", "/v1/skill-packages/install?wait=60")
            .header("authorization", header)
            .parts(&[("file", &package("1.0.0"))])
            .send()
    };
    assert_eq!(call("Basic YW5uOndyb25n").refusal(), (401, "UNAUTHORIZED".into()));
    assert_eq!(call("Basic YW5uOnNlY3JldA==").json()["status"], "succeeded");
    let with_token = Server::with(&[&login[..], &[("token", "t0ken")]].concat());
    assert_eq!(send(&with_token, &package("1.0.0")).refusal(), (401, "UNAUTHORIZED".into()));
    let opened = with_token
        .call("POST", "/v1/skill-packages/install?wait=60")
        .header("authorization", "Bearer t0ken")
        .parts(&[("file", &package("1.0.0"))])
        .send();
    assert_eq!(opened.json()["status"], "succeeded");
}
