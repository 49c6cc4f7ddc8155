//! What a skill asks for itself, on each agent CLI: where it writes, and which tools its model has.

use std::fs;

use serde_json::{Value, json};

use super::on_every_cli;
use super::service::Service;
use crate::interactive::pose;
use crate::support::model_server::Reply;
use crate::support::sandbox;

on_every_cli!(
    a_run_that_may_only_read_writes_its_artifacts_alone,
    a_command_that_the_skill_does_not_allow_is_not_run_or_the_log_says_that_it_may,
    a_skill_without_the_shell_among_its_tools_has_none_or_the_log_says_so,
);

fn done() -> Reply {
    Reply::Result(json!({"name": "Ann"}))
}

fn body() -> Value {
    json!({"skill_id": "say", "runtime_options": {"no_cache": true}})
}

fn a_run_that_may_only_read_writes_its_artifacts_alone(name: &str) {
    if sandbox::left_out(&format!("real_clis::wishes::{name}::a_run_that_may_only_read_writes_its_artifacts_alone")) {
        return;
    }
    let mut service = Service::set(name, &[("SKILL_RUNNER_SANDBOX", "on")]);
    pose::skill(&service.skills(), "say", None);
    let manifest = service.skills().join("say/assets/runner.json");
    let mut runner: Value = serde_json::from_slice(&fs::read(&manifest).unwrap()).unwrap();
    runner["automation"] = json!({"fs_scope": "read_only"});
    fs::write(manifest, runner.to_string()).unwrap();
    let writes = "echo x > artifacts/own; (echo x > own) 2> artifacts/refused; true";
    let run = service.start(&[Reply::Shell(writes.to_owned()), done()], body());
    let events = service.finish(&run);
    let job = service.get(&format!("/v1/jobs/{run}"));
    let told = (&job["status"], &job["isolation"]["files"]);
    assert_eq!(told, (&json!("succeeded"), &json!("read-only")), "{job:#}\n{events:#?}");
    let folder = service.run_dir(&run);
    let refused = fs::read_to_string(folder.join("artifacts/refused")).unwrap();
    assert!(refused.contains("Read-only file system"), "{refused}");
    assert!(folder.join("artifacts/own").exists() && !folder.join("own").exists());
    service.close();
}

/// The skill `say` with these tools.
fn with_tools(service: &Service, tools: &str) {
    pose::skill(&service.skills(), "say", None);
    let text = format!("---\nname: say\ndescription: Asks.\nallowed-tools: {tools}\n---\n\nAsk for a name.\n");
    fs::write(service.skills().join("say/SKILL.md"), text).unwrap();
}

/// What the run is said not to keep to.
fn not_enforced(job: &Value) -> Vec<Value> {
    let warnings = job["warnings"].as_array().unwrap();
    let told = warnings.iter().filter(|warning| warning["code"] == "ISOLATION_NOT_ENFORCED");
    told.flat_map(|warning| warning["details"]["asked"].as_array().cloned().unwrap_or_default()).collect()
}

fn a_command_that_the_skill_does_not_allow_is_not_run_or_the_log_says_that_it_may(name: &str) {
    let mut service = Service::with(name);
    with_tools(&service, "Read Bash(mkdir:*)");
    let commands = ["touch refused", "mkdir made"].map(|command| Reply::Shell(command.to_owned()));
    let run = service.start(&[&commands[..], &[done()]].concat(), body());
    let events = service.finish(&run);
    let job = service.get(&format!("/v1/jobs/{run}"));
    assert_eq!(job["status"], "succeeded", "{job:#}\n{events:#?}");
    let folder = service.run_dir(&run);
    assert!(folder.join("made").exists(), "{events:#?}");
    let told = match name {
        "codex" => vec![json!("allowed-tools")],
        "qwen" => vec![json!("what stands in parentheses in allowed-tools")],
        _ => Vec::new(),
    };
    assert_eq!(not_enforced(&job), told, "{job:#}");
    assert_eq!(folder.join("refused").exists(), !told.is_empty(), "{events:#?}");
    service.close();
}

fn a_skill_without_the_shell_among_its_tools_has_none_or_the_log_says_so(name: &str) {
    let mut service = Service::with(name);
    let shell = match name {
        "claude" => "Bash",
        "opencode" => "bash",
        "codex" => "exec_command",
        _ => "run_shell_command",
    };
    for (tools, allowed) in [("Read, Bash", true), ("Read, Grep", false)] {
        with_tools(&service, tools);
        let run = service.start(&[done()], body());
        let events = service.finish(&run);
        let job = service.get(&format!("/v1/jobs/{run}"));
        assert_eq!(job["status"], "succeeded", "{tools}: {job:#}\n{events:#?}");
        let offered = service.model.requests()[0].to_string().contains(&format!("\"name\":\"{shell}\""));
        let kept = name != "codex";
        assert_eq!(offered, allowed || !kept, "{tools}");
        assert_eq!(not_enforced(&job).is_empty(), kept, "{tools}: {job:#}");
    }
    service.close();
}
