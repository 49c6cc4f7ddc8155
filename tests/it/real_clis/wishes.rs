//! What a skill asks for itself, on each agent CLI: where it writes, and which tools its model has.

use std::fs;

use serde_json::{Value, json};

use super::on_every_cli;
use super::service::Service;
use crate::interactive::pose;
use crate::support::model_server::Reply;
use crate::support::{clis, sandbox};

/// What codex is not held to where commands may be run.
const WITHOUT_EDITS: &str = "allowed-tools without Edit and Write";

on_every_cli!(
    a_run_that_may_only_read_writes_its_artifacts_alone,
    a_command_that_the_skill_does_not_allow_is_not_run_or_the_log_says_that_it_may,
    a_skill_without_the_shell_among_its_tools_has_none,
    a_call_of_a_tool_that_was_taken_away_is_not_carried_out,
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
    let tried = ["touch refused", "mkdir made", "mkdir made; touch refused", "mkdir made$(touch refused)"];
    let commands = tried.map(|command| Reply::Shell(command.to_owned()));
    let run = service.start(&[&commands[..], &[done()]].concat(), body());
    let events = service.finish(&run);
    let job = service.get(&format!("/v1/jobs/{run}"));
    assert_eq!(job["status"], "succeeded", "{job:#}\n{events:#?}");
    let folder = service.run_dir(&run);
    assert!(folder.join("made").exists(), "{events:#?}");
    let parentheses = json!("what stands in parentheses in allowed-tools");
    let told = match name {
        "codex" => vec![parentheses, json!(WITHOUT_EDITS)],
        "qwen" => vec![parentheses],
        _ => Vec::new(),
    };
    assert_eq!(not_enforced(&job), told, "{job:#}");
    assert_eq!(folder.join("refused").exists(), !told.is_empty(), "{events:#?}");
    service.close();
}

/// The tool of an engine that runs commands.
fn shell_of(name: &str) -> &'static str {
    match name {
        "claude" => "Bash",
        "opencode" => "bash",
        "codex" => "exec_command",
        _ => "run_shell_command",
    }
}

fn a_skill_without_the_shell_among_its_tools_has_none(name: &str) {
    let mut service = Service::with(name);
    for (tools, allowed) in [("Read, Bash", true), ("Read, Grep", false)] {
        with_tools(&service, tools);
        let run = service.start(&[done()], body());
        let events = service.finish(&run);
        let job = service.get(&format!("/v1/jobs/{run}"));
        assert_eq!(job["status"], "succeeded", "{tools}: {job:#}\n{events:#?}");
        assert_eq!(service.model.offers(shell_of(name)), allowed, "{tools}");
        let told = if name == "codex" && allowed { vec![json!(WITHOUT_EDITS)] } else { Vec::new() };
        assert_eq!(not_enforced(&job), told, "{tools}: {job:#}");
    }
    service.close();
}

/// What is not offered must not be there either: a model may call it nevertheless.
fn a_call_of_a_tool_that_was_taken_away_is_not_carried_out(name: &str) {
    let mut service = Service::with(name);
    // Codex that may write nothing could not run the command for another reason.
    with_tools(&service, "Read, Write");
    let command = match name {
        "codex" => json!({"cmd": "touch made"}),
        _ => json!({"command": "touch made", "description": "a scripted command"}),
    };
    let run = service.start(&[Reply::Call(shell_of(name), command), done()], body());
    let events = service.finish(&run);
    let job = service.get(&format!("/v1/jobs/{run}"));
    assert_eq!(job["status"], "succeeded", "{job:#}\n{events:#?}");
    assert_eq!(service.model.requests().len(), 2, "the model was not told that its call failed: {events:#?}");
    assert!(!service.run_dir(&run).join("made").exists(), "{events:#?}");
    service.close();
}

/// A model of which codex knows that it can be offered the tool for changes.
const KNOWN_MODEL: &str = "gpt-5.5";
/// A picture of one point.
const PICTURE: &str = "89504e470d0a1a0a0000000d49484452000000010000000108000000003a7e9b550000000a49444154789c6360\
    00000002000148afa4710000000049454e44ae426082";

/// Codex has no switch for the tool that changes files: it is offered, and each change is refused, unless the skill may edit or run commands.
#[test]
fn codex_changes_files_only_where_the_skill_may_and_other_tools_are_gone_for_models_that_it_knows() {
    if clis::left_out("wishes::codex::files") {
        return;
    }
    let tiers: &[&str] = if sandbox::works() { &["on", "off"] } else { &["off"] };
    for tier in tiers {
        let mut service = Service::set("codex", &[("SKILL_RUNNER_SANDBOX", tier)]);
        for (tools, changes) in [("Read, Grep", false), ("Read, Edit", true)] {
            with_tools(&service, tools);
            let bytes: Vec<u8> = hex(PICTURE);
            fs::write(service.skills().join("say/assets/point.png"), bytes).unwrap();
            let patch = "*** Begin Patch\n*** Add File: patched\n+x\n*** End Patch\n";
            let calls = [
                Reply::Call("apply_patch", json!(patch)),
                Reply::Call("exec_command", json!({"cmd": "touch made"})),
                Reply::Call("view_image", json!({"path": ".codex/skills/say/assets/point.png"})),
            ];
            let mut asked = body();
            asked["model"] = json!(KNOWN_MODEL);
            let run = service.start(&[&calls[..], &[done()]].concat(), asked);
            let events = service.finish(&run);
            let job = service.get(&format!("/v1/jobs/{run}"));
            let told = (&job["status"], not_enforced(&job));
            assert_eq!(told, (&json!("succeeded"), Vec::new()), "{tier} {tools}: {job:#}\n{events:#?}");
            let folder = service.run_dir(&run);
            assert_eq!(folder.join("patched").exists(), changes, "{tier} {tools}: {events:#?}");
            assert!(!folder.join("made").exists(), "{tier} {tools}: {events:#?}");
            for gone in ["exec_command", "spawn_agent", "web_search", "create_goal", "request_user_input"] {
                assert!(!service.model.offers(gone), "{tier} {tools}: {gone}");
            }
            let requests = service.model.requests();
            let seen = requests.last().unwrap()["input"].to_string().contains("data:image/png");
            assert!(seen, "{tier} {tools}: a picture cannot be read: {:#}", requests.last().unwrap()["input"]);
        }
        service.close();
    }
}

fn hex(text: &str) -> Vec<u8> {
    let digits: Vec<u8> = text.chars().filter_map(|digit| digit.to_digit(16)).map(|digit| digit as u8).collect();
    digits.chunks(2).map(|pair| pair[0] << 4 | pair[1]).collect()
}
