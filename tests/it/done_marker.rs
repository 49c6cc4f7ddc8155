//! The member by which an engine says that it is done is no part of the result, in runs that ask nothing as in those that do.

use std::fs;

use serde_json::{Value, json};

use crate::interactive::pose::{self, Pose, says};
use crate::support::{Server, of_type};

/// A service with the skill `say`, whose output has a name and nothing else, on an engine that plays this.
fn scene(turn: &str) -> (Server, Pose) {
    let pose = Pose::new();
    let server = Server::with(&[("engines.codex.command", &pose.command())]);
    pose::skill(&server.folder.path().join("skills"), "say", None);
    pose.plays(&[says(turn)]);
    (server, pose)
}

/// Runs `say` without questions; how it ended: its result, and its last account of the output.
fn ran(server: &Server) -> (Value, Value) {
    let created = server.post("/v1/jobs?wait=60", &json!({"skill_id": "say", "engine": "codex"})).json();
    let run = created["run_id"].as_str().unwrap();
    assert_eq!(created["execution_mode"], "auto", "{created:#}");
    let account = of_type(&server.finish(run), "output.normalized").pop().unwrap_or_default();
    (server.get(&format!("/v1/jobs/{run}/result")).json()["result"].take(), account)
}

#[test]
fn in_a_run_without_questions_the_marker_is_taken_out_before_the_schema_is_asked() {
    let ann = json!({"name": "Ann"});
    for said in [
        r#"{"name": "Ann", "__SKILL_DONE__": true}"#,
        r#"{"__SKILL_DONE__": true, "name": "Ann"}"#,
        "It is done:\n```json\n{\"name\": \"Ann\", \"__SKILL_DONE__\": true}\n```",
        "{\"name\": \"Ann\"}\n__SKILL_DONE__",
    ] {
        let (server, _pose) = scene(said);
        let (result, account) = ran(&server);
        assert_eq!((&result["status"], &result["data"]), (&json!("succeeded"), &ann), "{said}: {result:#}");
        assert_eq!(account["valid"], true, "{said}: {account:#}");
        // What stands around JSON is told of; the marker inside is none of that.
        let level = if said.starts_with('{') { "none" } else { "N0" };
        assert_eq!(account["level"], level, "{said}: {account:#}");
    }
    // Any other member is still one too many.
    let (server, _pose) = scene(r#"{"name": "Ann", "__SKILL_DONE__": true, "more": 1}"#);
    let (result, account) = ran(&server);
    assert_eq!(result["error"]["code"], "SCHEMA_VALIDATION_FAILED", "{result:#}");
    let told = account["validation_errors"].to_string();
    assert!(told.contains("more") && !told.contains("__SKILL_DONE__"), "{account:#}");
}

#[test]
fn the_marker_in_a_result_file_is_taken_out_too() {
    let (server, pose) = scene("I wrote it.");
    let runner = server.folder.path().join("skills/say/assets/runner.json");
    let mut manifest: Value = serde_json::from_slice(&fs::read(&runner).unwrap()).unwrap();
    manifest["entrypoint"]["prompt"] = json!({"result_mode": "file", "result_file": "out/answer.json"});
    fs::write(&runner, manifest.to_string()).unwrap();
    let writes = r#"mkdir -p out; echo '{"name": "Ann", "__SKILL_DONE__": true}' > out/answer.json"#;
    pose.runs_after(1, writes);
    let (result, account) = ran(&server);
    assert_eq!((&result["status"], &result["data"]), (&json!("succeeded"), &json!({"name": "Ann"})), "{result:#}");
    assert_eq!(account["source"], "result_file", "{account:#}");
    let session = fs::read_dir(pose.sessions()).unwrap().next().unwrap().unwrap().file_name().into_string().unwrap();
    let told = pose.told(&session)[0].clone();
    assert!(told.contains("out/answer.json"), "the engine is told where to write: {told}");
}
