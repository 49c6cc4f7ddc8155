//! The sandbox around codex, the runner's or its own: only the operator widens it.

use std::fs::{self, OpenOptions};
use std::io::Write;

use serde_json::json;

use super::contract::service;
use super::service::Service;
use crate::interactive::pose;
use crate::support::model_server::Reply;
use crate::support::{Call, clis};

#[test]
fn the_operator_alone_gives_commands_of_codex_another_folder_to_write_to() {
    const NAME: &str = "real_clis::sandbox::the_operator_alone_gives_commands_of_codex_another_folder_to_write_to";
    if clis::left_out(NAME) {
        return;
    }
    let mut service = service("codex");
    let outside = tempfile::tempdir().unwrap();
    let file = outside.path().join("file");
    let replies = [Reply::Shell(format!("echo x > {}; true", file.display())), Reply::Result(json!({"name": "Ann"}))];
    let body = json!({"skill_id": "say", "runtime_options": {"no_cache": true}});
    let writes = |service: &mut Service| {
        let run = service.start(&replies, body.clone());
        let events = service.finish(&run);
        let job = service.get(&format!("/v1/jobs/{run}"));
        assert_eq!(job["status"], "succeeded", "{job:#}\n{events:#?}");
        file.exists()
    };
    assert!(!writes(&mut service));
    let config = json!({"sandbox_workspace_write": {"writable_roots": [outside.path()]}});
    let asked = json!({"skill_id": "say", "engine": "codex", "codex_config": config});
    let answer = Call::new(service.address, "POST", "/v1/jobs").json(&asked).send();
    assert_eq!(answer.refusal(), (400, "ENGINE_CONFIG_REFUSED".to_owned()));
    let path = &answer.json()["error"]["details"][0]["path"];
    assert_eq!(path, "/codex_config/sandbox_workspace_write/writable_roots");

    service.close();

    // The runner's own sandbox is widened by its setting, codex's own by its configuration.
    let roots = fs::canonicalize(outside.path()).unwrap();
    let mut service = Service::set("codex", &[("SKILL_RUNNER_SANDBOX_WRITE", roots.to_str().unwrap())]);
    pose::skill(&service.skills(), "say", None);
    let operators = service.folder.path().join("data/agent-home/codex/.codex/config.toml");
    let mut operators = OpenOptions::new().append(true).open(operators).unwrap();
    write!(operators, "\n[sandbox_workspace_write]\nwritable_roots = [{:?}]\n", roots.to_str().unwrap()).unwrap();
    assert!(writes(&mut service));
    service.close();
}
