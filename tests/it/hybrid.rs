//! Hybrid skills: an engine speaks, a script makes the result of its words.

use std::fs;

use serde_json::{Value, json};

use crate::interactive::pose::{Pose, says};
use crate::support::{SHIPPED, Server, of_type, sandbox, script_skill};

/// Answers with what it was told by the engine.
const ECHO: &str = "cat > told.json\necho '40% reading' >&2\n\
    text=$(sed 's/.*\"engine_text\":\"\\([^\"]*\\)\".*/\\1/' told.json)\n\
    echo \"{\\\"success\\\":true,\\\"action\\\":\\\"run\\\",\\\"data\\\":{\\\"text\\\":\\\"$text\\\"}}\"\n";

struct Scene {
    pose: Pose,
    server: Server,
}

impl Scene {
    fn new(script: &str) -> Scene {
        Scene::with(script, &[])
    }

    fn with(script: &str, settings: &[(&str, &str)]) -> Scene {
        let pose = Pose::new();
        let command = pose.command();
        let own: [(&str, &str); 2] = [("engines.codex.command", &command), ("repair", "on")];
        let server = Server::with(&[&own, settings].concat());
        let runner = json!({
            "execution_modes": ["auto", "interactive"],
            "entrypoint": {"type": "hybrid", "script": {"command": "sh scripts/run.sh"}},
        });
        let output = json!({"type": "object", "required": ["text"], "properties": {"text": {"type": "string"}}});
        script_skill(&server.folder.path().join("skills"), "both", script, json!({"runner": runner, "output": output}));
        Scene { pose, server }
    }

    fn create(&self, turns: &[String], options: Value) -> String {
        self.pose.plays(turns);
        self.server.create_with(&json!({"skill_id": "both", "engine": "codex", "runtime_options": options})).1
    }

    fn result(&self, run: &str) -> Value {
        self.server.get(&format!("/v1/jobs/{run}/result")).json()["result"].clone()
    }
}

#[test]
fn the_script_gets_the_engines_words_and_makes_the_result() {
    let scene = Scene::new(ECHO);
    let run = scene.create(&[says("plain words")], json!({}));
    let events = scene.server.finish(&run);
    let result = scene.result(&run);
    assert_eq!((&result["status"], &result["data"]), (&json!("succeeded"), &json!({"text": "plain words"})));
    let folder = scene.server.run_dir(&run);
    let told: Value = serde_json::from_slice(&fs::read(folder.join("told.json")).unwrap()).unwrap();
    assert_eq!(told["context"]["engine_text"], "plain words");
    let path = told["context"]["engine_output_path"].as_str().unwrap();
    assert_eq!(fs::read_to_string(path).unwrap(), "plain words");
    assert_eq!((&told["action"], &told["context"]["run_id"]), (&json!("run"), &json!(run)));
    // Both processes are in one turn and one log.
    assert_eq!(of_type(&events, "turn.started").len(), 1);
    assert_eq!(of_type(&events, "assistant.message.final")[0]["text"], "plain words");
    assert_eq!(of_type(&events, "run.progress")[0]["message"], "reading");
    assert_eq!(of_type(&events, "conversation.completed")[0]["completion"], "exit");
    assert_eq!(of_type(&events, "output.normalized")[0]["source"], "stdout");
    let answer = fs::read_to_string(folder.join("raw/script_output.txt")).unwrap();
    assert!(answer.starts_with("{\"success\":true"), "{answer}");
    // The engine was told to speak, not to keep the schema of the script's result.
    let prompt = fs::read_to_string(folder.join("logs/prompt.txt")).unwrap();
    assert!(prompt.contains("A script reads that message") && !prompt.contains("# Output schema"), "{prompt}");
    let session = of_type(&events, "session.bound")[0]["handle"].as_str().unwrap().to_owned();
    assert!(!scene.pose.noted(&session, "argv")[0].contains("output-schema"));
}

#[test]
fn the_script_behind_an_engine_is_in_the_sandbox_of_its_run() {
    if sandbox::left_out("hybrid::the_script_behind_an_engine_is_in_the_sandbox_of_its_run") {
        return;
    }
    let outside = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let planted = outside.path().join("planted");
    let script = format!(
        "cat >/dev/null\ntouch {}\nnamespaces=\nfor of in net pid mnt; do namespaces=\"$namespaces $(readlink /proc/self/ns/$of)\"; done\n\
         echo \"{{\\\"success\\\":true,\\\"data\\\":{{\\\"text\\\":\\\"$namespaces\\\"}}}}\"\n",
        planted.display()
    );
    let scene = Scene::with(&script, &[("sandbox", "on")]);
    let run = scene.create(&[says("plain words")], json!({}));
    scene.server.finish(&run);
    let result = scene.result(&run);
    let found = result["data"]["text"].as_str().unwrap_or_else(|| panic!("{result:#}"));
    assert_eq!(found.split_whitespace().count(), 3, "{found}");
    for of in ["net", "pid", "mnt"] {
        let own = fs::read_link(format!("/proc/self/ns/{of}")).unwrap();
        assert!(!found.contains(own.to_str().unwrap()), "{found}");
    }
    assert!(!planted.exists(), "the script wrote to the machine");
}

#[test]
fn an_engine_that_fails_runs_no_script() {
    let scene = Scene::new(ECHO);
    let run = scene.create(&[says("x").replace("turn.completed", "turn.other")], json!({}));
    scene.server.finish(&run);
    assert_eq!(scene.result(&run)["error"]["code"], "ENGINE_FAILED");
    assert!(!scene.server.run_dir(&run).join("told.json").exists());
}

#[test]
fn a_script_fails_for_itself_whatever_the_engine_said() {
    for (script, code) in [
        (
            "cat >/dev/null; echo '{\"success\":false,\"error\":{\"code\":\"DATA_NOT_FOUND\",\"message\":\"none\"}}'",
            "DATA_NOT_FOUND",
        ),
        ("cat >/dev/null; exit 4", "ENGINE_FAILED"),
        ("cat >/dev/null; echo words", "OUTPUT_MISSING"),
        ("cat >/dev/null; echo '{\"success\":true,\"data\":{}}'", "SCHEMA_VALIDATION_FAILED"),
        ("cat >/dev/null; sleep 600", "STALLED"),
    ] {
        let scene = Scene::new(script);
        let options = if code == "STALLED" { json!({"stall_timeout_seconds": 8}) } else { json!({}) };
        let run = scene.create(&[says(r#"{"text": "fine"}"#)], options);
        let events = scene.server.finish(&run);
        let error = scene.result(&run)["error"].clone();
        assert_eq!(error["code"], code, "{script}");
        if ["OUTPUT_MISSING", "SCHEMA_VALIDATION_FAILED"].contains(&code) {
            assert_eq!(error["details"]["raw_output_path"], "raw/script_output.txt");
        }
        assert_eq!(of_type(&events, "turn.started").len(), 1, "the engine cannot repair what its script does");
    }
}

#[test]
fn a_cancel_reaches_the_script() {
    let scene = Scene::new("cat >/dev/null; echo under way >&2; sleep 600");
    let run = scene.create(&[says("words")], json!({}));
    scene.server.wait_for(&run, "raw.stderr", "under way");
    scene.server.post(&format!("/v1/jobs/{run}/cancel"), &json!({}));
    scene.server.finish(&run);
    assert_eq!(scene.result(&run)["status"], "canceled");
}

#[test]
fn an_interactive_hybrid_asks_until_the_engine_says_that_it_is_done() {
    let scene = Scene::new(ECHO);
    let turns = [says("Which words?"), says("these words\n__SKILL_DONE__")];
    let run = scene.create(&turns, json!({"execution_mode": "interactive"}));
    scene.server.wait_for(&run, "conversation.state.changed", "waiting_user");
    assert!(!scene.server.run_dir(&run).join("told.json").exists());
    let reply = json!({"interaction_id": 1, "response": "these"});
    assert_eq!(scene.server.post(&format!("/v1/jobs/{run}/interaction/reply"), &reply).status, 200);
    scene.server.finish(&run);
    assert_eq!(scene.result(&run)["data"], json!({"text": "these words"}));
}

#[test]
fn the_demo_makes_a_list_and_a_file_of_what_the_engine_says() {
    let pose = Pose::new();
    let server = Server::with(&[("engines.codex.command", &pose.command()), SHIPPED]);
    pose.plays(&[says("- prune them\n- eat them\n")]);
    let body = json!({"skill_id": "demo-hybrid", "engine": "codex", "input": {"topic": "plums"}});
    let (_, run) = server.create_with(&body);
    let events = server.finish(&run);
    let result = server.get(&format!("/v1/jobs/{run}/result")).json()["result"].clone();
    assert_eq!(result["data"], json!({"topic": "plums", "ideas": ["prune them", "eat them"]}), "{result}");
    assert_eq!(of_type(&events, "artifact.indexed")[0]["role"], "ideas");
    let written = fs::read_to_string(server.run_dir(&run).join("artifacts/ideas.md")).unwrap();
    assert_eq!(written, "# plums\n\n- prune them\n- eat them\n");
}

#[test]
fn a_result_file_the_engine_left_is_not_the_scripts() {
    let scene = Scene::new(ECHO);
    scene.pose.runs_after(1, "mkdir -p result; echo '{\"text\": \"forged\"}' > result/result.json");
    let run = scene.create(&[says("words")], json!({}));
    scene.server.finish(&run);
    assert_eq!(scene.result(&run)["data"], json!({"text": "words"}));
}
