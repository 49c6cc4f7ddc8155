//! Every recorded turn through the whole service: our own program poses as the CLI.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use serde_json::{Value, json};

use super::{Case, cases, code_of, play, whole};
use crate::support::Server;

/// A prompt skill that takes any answer, so that what is judged is the engine.
fn open_skill(skills: &Path) {
    let skill = skills.join("any");
    std::fs::create_dir_all(skill.join("assets")).unwrap();
    let front = "---\nname: any\ndescription: Takes any answer.\n---\n\nAnswer with JSON.\n";
    std::fs::write(skill.join("SKILL.md"), front).unwrap();
    let runner = json!({"id": "any", "version": "1.0.0", "execution_modes": ["auto"],
        "entrypoint": {"type": "prompt"}, "schemas": {"output": "assets/output.schema.json"}});
    std::fs::write(skill.join("assets/runner.json"), runner.to_string()).unwrap();
    std::fs::write(skill.join("assets/output.schema.json"), r#"{"type":"object"}"#).unwrap();
}

/// A program that poses as the engine of a case; which one is read from a file, so that one service serves all.
fn poses(folder: &Path, engine: &str) -> String {
    let path = folder.join(format!("pose-{engine}"));
    let runner = env!("CARGO_BIN_EXE_skill-runner");
    let case = folder.join(format!("case-{engine}"));
    let script = format!("#!/bin/sh\nexec {runner} replay --as-engine \"$(cat {})\" \"$@\"\n", case.display());
    std::fs::write(&path, script).unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
    path.to_str().unwrap().to_owned()
}

#[test]
fn every_recorded_first_turn_ends_in_the_service_as_its_golden_says() {
    let poses_in = tempfile::tempdir().unwrap();
    let engines = ["codex", "gemini", "opencode", "claude", "qwen"];
    let flags: Vec<(String, String)> = engines
        .iter()
        .map(|engine| (format!("engines.{engine}.command"), poses(poses_in.path(), engine)))
        .chain([("exit_grace_seconds".to_owned(), "1".to_owned())])
        .collect();
    let flags: Vec<(&str, &str)> = flags.iter().map(|(key, value)| (key.as_str(), value.as_str())).collect();
    for engine in engines {
        std::fs::write(poses_in.path().join(format!("case-{engine}")), "").unwrap();
    }
    let server = Server::with(&flags);
    open_skill(&server.folder.path().join("skills"));
    // A resumed turn needs a first one; those are played by themselves.
    let firsts: Vec<Case> = cases().into_iter().filter(|case| case.resumed_from.is_none()).collect();
    assert!(firsts.len() > 100, "{}", firsts.len());
    for case in &firsts {
        let engine = case.adapter.name();
        std::fs::write(poses_in.path().join(format!("case-{engine}")), case.folder.to_str().unwrap()).unwrap();
        let (_, run) = server.create_with(&json!({
            // The same request, and each time another answer.
            "skill_id": "any", "engine": engine, "runtime_options": {"no_cache": true},
        }));
        let events = server.finish(&run);
        let job = server.get(&format!("/v1/jobs/{run}")).json();
        ends_as_judged(case, &job);
        tells_the_same(case, &events);
    }
}

/// The engine's failure is the run's; an engine that did its part is judged by its answer.
fn ends_as_judged(case: &Case, job: &Value) {
    let place = case.folder.display();
    let verdict = play(case, whole).verdict;
    let told = job["error"]["code"].as_str();
    match code_of(&verdict) {
        "succeeded" => {
            let fine =
                job["status"] == "succeeded" || matches!(told, Some("OUTPUT_MISSING" | "SCHEMA_VALIDATION_FAILED"));
            assert!(fine, "{place}: {job}");
        }
        failure => assert_eq!(told, Some(failure), "{place}: {job}"),
    }
    assert_eq!(job["engine_version"], "1.0.0", "{place}");
}

/// What the pure parser says of the bytes is what stands in the log.
fn tells_the_same(case: &Case, events: &[Value]) {
    let claimed = |name: &str| !name.starts_with("raw.") && name != "diagnostic.warning";
    let expected: Vec<Value> = play(case, whole)
        .stdout
        .iter()
        .filter(|fact| claimed(fact.event.type_name()))
        .map(|fact| super::event_json(&fact.event))
        .collect();
    let logged: Vec<Value> = events
        .iter()
        .filter(|event| {
            event["raw_ref"]["stream"] == "stdout"
                || event["meta"]["kind"] == "engine_output"
                || event["type"] == "session.bound"
        })
        .filter(|event| claimed(event["type"].as_str().unwrap()))
        .map(|event| json!({"type": event["type"], "data": event["data"]}))
        .collect();
    assert_eq!(logged, expected, "{}", case.folder.display());
}

#[test]
fn reparse_reads_the_same_from_the_raw_bytes_and_shows_a_change_of_the_parser() {
    let poses_in = tempfile::tempdir().unwrap();
    let command = poses(poses_in.path(), "codex");
    let server = Server::with(&[("engines.codex.command", &command)]);
    open_skill(&server.folder.path().join("skills"));
    let case = Path::new(env!("CARGO_MANIFEST_DIR")).join("replay/codex/b_tool_then_json");
    std::fs::write(poses_in.path().join("case-codex"), case.to_str().unwrap()).unwrap();
    let (_, run) = server.create_with(&json!({"skill_id": "any", "engine": "codex"}));
    server.finish(&run);
    let data = server.data();
    let folder = server.folder.path().to_owned();
    let copy = tempfile::tempdir().unwrap();
    // A stopped service gives its data folder to the command.
    let kept = copy.path().join("data");
    server.drain();
    let status = std::process::Command::new("cp").args(["-a"]).arg(&data).arg(&kept).status().unwrap();
    assert!(status.success());
    drop(server);
    let reparse = || {
        let output = crate::support::program()
            .args(["--data-dir", kept.to_str().unwrap(), "reparse", &run])
            .current_dir(&copy)
            .output()
            .unwrap();
        (output.status.code(), String::from_utf8(output.stdout).unwrap(), String::from_utf8(output.stderr).unwrap())
    };
    let same = "no difference: this version's parser makes the same events of the raw bytes\n";
    assert_eq!(reparse(), (Some(0), same.to_owned(), String::new()), "{}", folder.display());
    // A parser of another version would read other events from the same bytes; other bytes do the same to this one.
    let stdout = kept.join("runs").join(&run).join("logs/stdout.txt");
    let bytes = std::fs::read_to_string(&stdout).unwrap().replacen("agent_message", "agent_massage", 1);
    std::fs::write(&stdout, bytes).unwrap();
    let (status, shown, _) = reparse();
    assert_eq!(status, Some(1));
    let signs: Vec<&str> = shown.lines().map(|line| &line[..1]).collect();
    assert!(signs.contains(&"-") && signs.contains(&"+"), "{shown}");
    assert!(shown.contains("- turn 1 stdout 300..405 assistant.message.final"), "{shown}");
}
