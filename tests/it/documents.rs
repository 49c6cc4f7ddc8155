//! What the design documents give as examples, sent and run as they give it. The example for an agent CLI is in `real_clis`.

mod requests;

use std::fs;
use std::path::Path;

use serde_json::{Value, json};

use crate::interactive::pose::{Pose, says};
use crate::support::{Server, of_type, program, script_skill};

fn shipped() -> Server {
    Server::with(&[("skills_dir", concat!(env!("CARGO_MANIFEST_DIR"), "/skills"))])
}

fn uploaded(server: &Server, request: &str, files: &[(&str, &str, &[u8])]) -> Value {
    let answer = server.call("POST", &format!("/v1/jobs/{request}/upload?wait=60")).files(files).send();
    assert_eq!(answer.status, 200, "{}", answer.text());
    answer.json()
}

fn result(server: &Server, id: &str) -> Value {
    server.get(&format!("/v1/jobs/{id}/result")).json()["result"].take()
}

/// The members of an object, in their order.
fn members(value: &Value) -> Vec<&str> {
    value.as_object().unwrap().keys().map(String::as_str).collect()
}

#[test]
fn the_request_with_a_parameter_alone_waits_for_its_file_and_finds_the_primes() {
    let server = shipped();
    let body = json!({"skill_id": "demo-prime-number", "parameter": {"divisor": 1}});
    let created = server.post("/v1/jobs", &body).json();
    assert_eq!((&created["status"], &created["cache_hit"]), (&json!("queued"), &json!(false)), "{created}");
    let request = created["request_id"].as_str().unwrap();
    uploaded(&server, request, &[("input_file", "input.txt", b"1 2 3 4 5 6 7")]);
    let found = result(&server, request);
    // What the skill says of itself comes behind them.
    assert_eq!(members(&found)[..5], ["status", "data", "artifacts", "validation_warnings", "error"]);
    assert_eq!(found["data"]["primes"], json!([2, 3, 5, 7]));
    assert_eq!(found["data"]["count"], 4);
    assert_eq!(found["artifacts"][0]["path_rel"], "artifacts/primes.md");
    // What the run keeps of the request.
    let run = created["run_id"].as_str().unwrap();
    let kept: Value = serde_json::from_slice(&fs::read(server.run_dir(run).join("input.json")).unwrap()).unwrap();
    assert_eq!((&kept["skill_id"], &kept["parameter"]), (&body["skill_id"], &body["parameter"]));
}

#[test]
fn a_run_without_its_required_file_fails_as_the_document_shows() {
    let server = shipped();
    let body = json!({"skill_id": "demo-prime-number", "parameter": {"divisor": 1}, "await_upload": false});
    let (request, run) = server.create_with(&body);
    server.finish(&run);
    let found = result(&server, &request);
    assert_eq!((&found["status"], &found["data"]), (&json!("failed"), &json!(null)));
    assert_eq!(found["error"]["code"], "MISSING_INPUT_FILES");
    assert!(found["error"]["message"].as_str().unwrap().ends_with("input_file"), "{found}");
}

#[test]
fn the_echo_skill_answers_with_the_four_members_of_the_document() {
    let server = shipped();
    let done = server.post("/v1/jobs?wait=60", &json!({"skill_id": "demo-echo", "input": {"text": "héllo"}})).json();
    let expected = json!({"text": "héllo", "length": 5, "normalized": false, "warnings": []});
    assert_eq!(done["result"]["data"], expected, "{done}");
}

#[test]
fn the_attachment_skill_takes_its_three_inputs_and_leaves_both_artifacts() {
    let server = shipped();
    let skill = server.get("/v1/skills/zotero-parse-attachment").json();
    let schemas = &skill["schemas"];
    let fields = |kind: &str| schemas[kind]["properties"].as_object().unwrap().keys().cloned().collect::<Vec<_>>();
    let given: Vec<String> = fields("input").into_iter().chain(fields("parameter")).collect();
    for field in ["attachment_path", "item_key", "output_format"] {
        assert!(given.iter().any(|known| known == field), "{field} is not in {given:?} of {skill}");
    }
    for field in ["title", "summary", "tags", "attachments"] {
        assert!(fields("output").iter().any(|known| known == field), "{field}: {schemas}");
    }
    let artifacts = skill["artifacts"].to_string();
    assert!(artifacts.contains("parsed.json") && artifacts.contains("notes.md"), "{artifacts}");
}

/// The smallest contract of the documents: a file, a text beside it, and an artifact that follows from the output schema.
fn smallest(skills: &Path) {
    let input = json!({
        "type": "object",
        "properties": {
            "input_file": {"type": "string", "x-input-source": "file", "extensions": [".txt"]},
            "query": {"type": "string", "x-input-source": "inline"},
        },
        "required": ["input_file", "query"],
    });
    let output = json!({
        "type": "object",
        "properties": {"report": {"type": "string", "x-type": "artifact", "x-role": "report", "x-filename": "report.md"}},
        "required": ["report"],
    });
    let sh = "cat > request.json\nmkdir -p artifacts\ncp uploads/input_file artifacts/report.md\n\
        echo '{\"success\":true,\"data\":{\"report\":\"artifacts/report.md\"}}'\n";
    script_skill(skills, "your-skill-id", sh, json!({"input": input, "output": output}));
}

#[test]
fn the_contract_with_id_modes_and_schemas_alone_is_installed_and_runs() {
    let (place, pose) = (tempfile::tempdir().unwrap(), Pose::new());
    pose.plays(&[says("{\"answer\": 42}")]);
    let server = Server::with(&[("engines.codex.command", &pose.command())]);
    let dir = place.path().join("your-skill-id");
    fs::create_dir_all(dir.join("assets")).unwrap();
    fs::write(dir.join("SKILL.md"), "---\nname: your-skill-id\ndescription: Answers.\n---\nAnswer.\n").unwrap();
    let names = ["input", "parameter", "output"].map(|name| (name, format!("assets/{name}.schema.json")));
    for (_, path) in &names {
        fs::write(dir.join(path), r#"{"type": "object", "properties": {}}"#).unwrap();
    }
    let schemas: Value =
        names.iter().map(|(name, path)| ((*name).to_owned(), json!(path))).collect::<serde_json::Map<_, _>>().into();
    let runner = json!({"id": "your-skill-id", "execution_modes": ["auto"], "schemas": schemas});
    fs::write(dir.join("assets/runner.json"), runner.to_string()).unwrap();
    let skills = server.folder.path().join("skills");
    let mut install = program();
    install.args(["skill", "install", "your-skill-id", "--skills-dir"]).arg(&skills).current_dir(place.path());
    let installed = install.output().unwrap();
    assert!(installed.status.success(), "{installed:?}");
    let skill = server.get("/v1/skills/your-skill-id").json();
    assert_eq!((&skill["version"], &skill["type"]), (&json!("0.0.0"), &json!("prompt")), "{skill}");
    let (_, run) = server.create_with(&json!({"skill_id": "your-skill-id", "engine": "codex"}));
    server.finish(&run);
    assert_eq!(result(&server, &run)["data"], json!({"answer": 42}));
}

#[test]
fn a_file_and_a_value_are_checked_and_told_apart_as_the_input_protocol_says() {
    let server = Server::start();
    smallest(&server.folder.path().join("skills"));
    let create = |input: Value| server.post("/v1/jobs", &json!({"skill_id": "your-skill-id", "input": input}));
    for (input, told) in [
        (json!({"query": "q", "other": 1}), "other"),
        (json!({"query": "q", "input_file": "/etc/passwd"}), "upload"),
        (json!({"query": 7}), "query"),
        (json!({}), "query"),
    ] {
        let refused = create(input.clone());
        assert_eq!(refused.status, 400, "{input}: {}", refused.text());
        assert!(refused.text().contains(told), "{input}: {}", refused.text());
    }
    let created = create(json!({"query": "which?"})).json();
    assert_eq!(created["awaiting_upload"], true, "{created}");
    let (request, run) = (created["request_id"].as_str().unwrap(), created["run_id"].as_str().unwrap());
    // The file of another name is none; then the strictly named one.
    let zip = crate::support::zips::deflated(&[("input_file", b"words")]);
    let answer = server.call("POST", &format!("/v1/jobs/{request}/upload?wait=60")).parts(&[("file", &zip)]).send();
    assert_eq!(answer.status, 200, "{}", answer.text());
    let told: Value = serde_json::from_slice(&fs::read(server.run_dir(run).join("request.json")).unwrap()).unwrap();
    let path = server.run_dir(run).join("uploads/input_file");
    assert_eq!(told["params"], json!({"input_file": path, "query": "which?"}));
    let found = result(&server, request);
    let artifact = &found["artifacts"][0];
    assert_eq!((&artifact["role"], &artifact["required"]), (&json!("report"), &json!(true)), "{found}");
    let listed = server.get(&format!("/v1/jobs/{request}/artifacts")).json().to_string();
    assert!(listed.contains("artifacts/report.md"), "{listed}");
    assert_eq!(server.get(&format!("/v1/jobs/{request}/artifacts/artifacts/report.md")).text(), "words");
    assert_eq!(server.get(&format!("/v1/jobs/{request}/bundle")).status, 200);
}

/// A script in the form of the protocol's template: it tells actions apart, and knows the folder of its agent.
const TEMPLATE: &str = r#"import json, os, sys
from pathlib import Path

AGENT_DIR = Path(__file__).parent.parent.parent

def analyze(params):
    days = params.get("days", 7)
    if days < 0:
        return {"success": False, "error": {"code": "INVALID_PARAM", "message": f"days={days}"}}
    print("50% complete", file=sys.stderr)
    return {"success": True, "data": {"days_analyzed": days, "agent": (AGENT_DIR / "agent.yaml").is_file(),
        "behaviour": (AGENT_DIR / "CLAUDE.md").read_text(), "debug": os.getenv("SKILL_DEBUG") == "1"},
        "message": "done", "metadata": {"items_count": days}}

request = json.loads(sys.stdin.read())
action = request.get("action")
if action == "analyze":
    answer = analyze(request.get("params", {}))
else:
    answer = {"success": False, "error": {"code": "UNKNOWN_ACTION", "message": f"Unknown action: {action}",
        "supported_actions": ["analyze"]}}
answer["action"] = action
print(json.dumps(answer, ensure_ascii=False, indent=2))
"#;

#[test]
fn a_script_in_the_form_of_the_protocols_template_runs_in_its_agents_folder() {
    let folder = tempfile::tempdir().unwrap();
    let agent = folder.path().join("dev_efficiency_analyst");
    fs::create_dir_all(agent.join(".claude/skills")).unwrap();
    fs::write(agent.join("CLAUDE.md"), "be kind").unwrap();
    fs::write(agent.join(".claude/skills/README.md"), "words").unwrap();
    fs::write(agent.join(".claude/skills/build_analysis.py"), TEMPLATE).unwrap();
    let listed = "skills:\n  - name: build_analysis\n    entry: .claude/skills/build_analysis.py\n    timeout: 600\n";
    fs::write(agent.join("agent.yaml"), listed).unwrap();
    let server = Server::with(&[("agents_dir", folder.path().to_str().unwrap())]);
    let skill = "dev-efficiency-analyst-build-analysis";
    assert_eq!(server.get(&format!("/v1/skills/{skill}")).json()["timeout_seconds"], 600);
    let run = |parameter: Value, options: Value| {
        let body = json!({"skill_id": skill, "parameter": parameter, "runtime_options": options});
        let (request, run) = server.create_with(&body);
        (server.finish(&run), result(&server, &request))
    };
    let (events, found) = run(json!({"action": "analyze"}), json!({"debug": true}));
    let data = json!({"days_analyzed": 7, "agent": true, "behaviour": "be kind", "debug": true});
    assert_eq!(found["data"], data, "{found}");
    assert_eq!((&found["message"], &found["metadata"]), (&json!("done"), &json!({"items_count": 7})));
    let progress = &of_type(&events, "run.progress")[0];
    assert_eq!((&progress["percent"], &progress["message"]), (&json!(50.0), &json!("complete")));
    for (parameter, code) in [
        (json!({"action": "analyze", "days": -1}), "INVALID_PARAM"),
        (json!({"action": "daily_briefing"}), "UNKNOWN_ACTION"),
        (json!({}), "UNKNOWN_ACTION"),
    ] {
        let (_, found) = run(parameter.clone(), json!({}));
        assert_eq!(found["error"]["code"], code, "{parameter}: {found}");
        if code == "UNKNOWN_ACTION" {
            assert_eq!(found["error"]["details"]["supported_actions"], json!(["analyze"]));
        }
    }
}
