//! The skills that ship: each lints clean, and its script keeps the protocol.

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use serde_json::{Value, json};
use skill_runner::domain::engine::Engine;
use skill_runner::registry::{Entry, Installed, Registry, load_dir};
use skill_runner::skill::{Intake, command, inputs};

fn skills_dir() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("skills")
}

fn shipped(id: &str) -> Installed {
    load_dir(&skills_dir().join(id), Intake::New).expect("a package without errors")
}

/// What a script did.
#[derive(Debug, PartialEq)]
struct Answer {
    status: Option<i32>,
    stdout: Value,
    stderr: String,
}

/// A script started as a run would start it: its own words, its files in place, the run as working directory.
fn start(skill: &Installed, run_dir: &Path) -> Child {
    let script = skill.skill.manifest.entrypoint.script.as_ref().unwrap();
    let words = command::split(&script.command).unwrap();
    let argv = command::in_copy(&words, |path| skill.files.iter().any(|file| file == path), &skill.dir);
    Command::new(&argv[0])
        .args(&argv[1..])
        .current_dir(run_dir)
        // Python would leave its cache inside the package otherwise.
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap()
}

fn say(child: &mut Child, request: &str) {
    child.stdin.take().unwrap().write_all(request.as_bytes()).unwrap();
}

fn run_raw(id: &str, run_dir: &Path, request: &str) -> Answer {
    let mut child = start(&shipped(id), run_dir);
    say(&mut child, request);
    let output = child.wait_with_output().unwrap();
    let stdout = String::from_utf8(output.stdout).unwrap();
    Answer {
        status: output.status.code(),
        stdout: serde_json::from_str(&stdout).unwrap_or(Value::String(stdout)),
        stderr: String::from_utf8(output.stderr).unwrap(),
    }
}

fn run(id: &str, action: &str, params: Value) -> Answer {
    let run_dir = tempfile::tempdir().unwrap();
    let request = json!({ "action": action, "params": params, "context": { "run_dir": run_dir.path() } });
    run_raw(id, run_dir.path(), &request.to_string())
}

fn failure_code(answer: &Answer) -> &str {
    assert_eq!(answer.stdout["success"], json!(false), "{answer:?}");
    answer.stdout["error"]["code"].as_str().unwrap()
}

#[test]
fn every_shipped_skill_lints_clean_by_the_rules_for_new_packages() {
    let ids: Vec<String> = Registry::new(skills_dir())
        .list()
        .unwrap()
        .into_iter()
        .map(|entry| match entry {
            Entry::Valid(found) => found.skill.id.clone(),
            Entry::Invalid { folder, findings } => panic!("{folder}: {findings:#?}"),
        })
        .collect();
    let expected = [
        "demo-echo",
        "demo-fail-artifact",
        "demo-fail-code",
        "demo-fail-exit",
        "demo-fail-schema",
        "demo-hang",
        "demo-prime-number",
        "demo-progress",
    ];
    assert!(expected.iter().all(|id| ids.iter().any(|found| found == id)), "{ids:?}");
    for id in expected {
        let skill = shipped(id).skill;
        assert_eq!(skill.findings, []);
        // The script comes first, so that no model is asked where none is named.
        assert_eq!(skill.effective_engines()[0], Engine::Script);
        assert_eq!(skill.effective_engines().len() > 1, id == "demo-prime-number");
        assert!(skill.body.contains(&format!("skill-runner run {id}")), "{id} shows how to run it");
    }
}

#[test]
fn every_script_that_reads_its_request_refuses_another_action_and_a_request_that_is_none() {
    let run_dir = tempfile::tempdir().unwrap();
    for id in [
        "demo-echo",
        "demo-fail-artifact",
        "demo-fail-code",
        "demo-fail-schema",
        "demo-hang",
        "demo-prime-number",
        "demo-progress",
    ] {
        assert_eq!(failure_code(&run(id, "dance", json!({}))), "UNKNOWN_ACTION", "{id}");
        for request in ["", "{", "[]", "{\"params\": 7}"] {
            assert_eq!(failure_code(&run_raw(id, run_dir.path(), request)), "INVALID_JSON", "{id} {request}");
        }
    }
}

#[test]
fn echo_gives_the_text_back() {
    let answer = run("demo-echo", "run", json!({ "text": "héllo world" }));
    let data = json!({ "text": "héllo world", "length": 11, "normalized": false, "warnings": [] });
    assert_eq!(answer.stdout, json!({ "success": true, "action": "run", "data": data }));
    assert_eq!(shipped("demo-echo").skill.output_validator().errors(&data), Ok(vec![]));
    let twice = run("demo-echo", "run", json!({ "text": "a", "uppercase": true, "repeat": 2 }));
    assert_eq!(twice.stdout["data"], json!({ "text": "AA", "length": 2, "normalized": false, "warnings": [] }));
    let apart = run("demo-echo", "run", json!({ "text": "e\u{301}" }));
    assert_eq!(apart.stdout["data"], json!({ "text": "é", "length": 1, "normalized": true, "warnings": [] }));
    let empty = run("demo-echo", "run", json!({ "text": "" }));
    assert_eq!(empty.stdout["data"]["warnings"], json!(["the text is empty"]));
    assert_eq!(failure_code(&run("demo-echo", "run", json!({}))), "MISSING_PARAM");
    assert_eq!(failure_code(&run("demo-echo", "run", json!({ "text": 1 }))), "INVALID_PARAM");
    assert_eq!(failure_code(&run("demo-echo", "run", json!({ "text": "a", "repeat": 0 }))), "INVALID_PARAM");
}

#[test]
fn primes_are_found_in_the_sample_and_reported() {
    let run_dir = tempfile::tempdir().unwrap();
    let uploads = run_dir.path().join("uploads");
    std::fs::create_dir(&uploads).unwrap();
    let skill = shipped("demo-prime-number");
    std::fs::copy(skill.dir.join("assets/sample-numbers.txt"), uploads.join("input_file")).unwrap();
    let parameter = json!({ "divisor": 5 });
    inputs::check_request(&skill.skill, None, Some(&parameter)).unwrap();
    let input = inputs::resolve(&skill.skill, None, &uploads, &BTreeSet::from(["input_file".into()])).unwrap();
    let params = inputs::script_params(&input, Some(&parameter));
    let request = json!({ "action": "run", "params": params, "context": { "run_dir": run_dir.path() } });
    let answer = run_raw("demo-prime-number", run_dir.path(), &request.to_string());
    let primes = json!([2, 3, 5, 7, 11, 97, 7919, 1_000_000_007]);
    let data = json!({ "primes": primes, "count": 8, "divisible": [5, 15, 100] });
    let message = "8 of 13 numbers are prime";
    assert_eq!(answer.stdout, json!({ "success": true, "action": "run", "data": data, "message": message }));
    assert_eq!(skill.skill.output_validator().errors(&data), Ok(vec![]));
    assert!(answer.stderr.ends_with("100% 1000000007\n"), "{}", answer.stderr);
    let report = std::fs::read_to_string(run_dir.path().join("artifacts/primes.md")).unwrap();
    assert!(report.contains("8 of 13 numbers are prime.") && report.contains("| 15 | no | yes |"), "{report}");
}

#[test]
fn primes_refuse_what_is_no_number() {
    let place = tempfile::tempdir().unwrap();
    let file = place.path().join("numbers");
    std::fs::write(&file, "1 2\n3 four\n").unwrap();
    let answer = run("demo-prime-number", "run", json!({ "input_file": file }));
    assert_eq!(failure_code(&answer), "INVALID_PARAM");
    assert!(answer.stdout["error"]["message"].as_str().unwrap().starts_with("line 2: 'four'"), "{answer:?}");
    assert_eq!(failure_code(&run("demo-prime-number", "run", json!({}))), "MISSING_PARAM");
    let params = json!({ "input_file": file, "divisor": 1 });
    assert_eq!(failure_code(&run("demo-prime-number", "run", params)), "INVALID_PARAM");
    assert_eq!(failure_code(&run("demo-prime-number", "run", json!({ "input_file": "/nowhere" }))), "INVALID_PARAM");
    std::fs::write(&file, "# none\n").unwrap();
    let none = run("demo-prime-number", "run", json!({ "input_file": file }));
    assert_eq!(none.stdout["data"], json!({ "primes": [], "count": 0 }));
}

#[test]
fn progress_is_told_in_percent() {
    let answer = run("demo-progress", "run", json!({ "steps": 4, "delay_ms": 0 }));
    assert_eq!(
        answer,
        Answer {
            status: Some(0),
            stdout: json!({ "success": true, "action": "run", "data": { "steps": 4 } }),
            stderr: "starting 4 steps\n25% step 1 of 4\n50% step 2 of 4\n75% step 3 of 4\n100% step 4 of 4\n".into(),
        }
    );
    assert_eq!(failure_code(&run("demo-progress", "run", json!({ "steps": 0 }))), "INVALID_PARAM");
}

#[test]
fn a_failure_has_the_code_that_was_asked_for() {
    let details = json!({ "on_purpose": true });
    let failed = |code: &str| {
        json!({ "success": false, "action": "run",
            "error": { "code": code, "message": "this skill always fails", "details": details } })
    };
    let answer = |status, code| Answer { status: Some(status), stdout: failed(code), stderr: String::new() };
    assert_eq!(run("demo-fail-code", "run", json!({})), answer(0, "DEMO_REFUSED"));
    let params = json!({ "code": "PRINTER_ON_FIRE", "exit_status": 3 });
    assert_eq!(run("demo-fail-code", "run", params), answer(3, "PRINTER_ON_FIRE"));
    assert_eq!(failure_code(&run("demo-fail-code", "run", json!({ "code": "no" }))), "INVALID_PARAM");
}

#[test]
fn the_schema_failure_breaks_its_schema_in_two_places() {
    let answer = run("demo-fail-schema", "run", json!({}));
    assert_eq!(answer.stdout, json!({ "success": true, "action": "run", "data": { "count": "three" } }));
    assert_eq!(shipped("demo-fail-schema").skill.output_validator().errors(&answer.stdout["data"]).unwrap().len(), 2);
}

#[test]
fn the_artifact_failure_leaves_nothing_of_what_it_promised() {
    let run_dir = tempfile::tempdir().unwrap();
    let answer = run_raw("demo-fail-artifact", run_dir.path(), "{\"action\":\"run\",\"params\":{}}");
    assert_eq!(answer.stdout, json!({ "success": true, "action": "run", "data": { "written": true } }));
    let contract = shipped("demo-fail-artifact").skill.artifact_contract();
    assert_eq!(
        contract.iter().map(|rule| (rule.pattern.as_str(), rule.required)).collect::<Vec<_>>(),
        [("report.md", true)]
    );
    assert_eq!(std::fs::read_dir(run_dir.path()).unwrap().count(), 0);
}

#[test]
fn the_exit_failure_prints_no_json() {
    let answer = run("demo-fail-exit", "run", json!({}));
    assert_eq!(
        answer,
        Answer {
            status: Some(7),
            stdout: json!("Segmentation fault (this is only a demonstration)\n"),
            stderr: "cannot open the database: no such file\n".into(),
        }
    );
}

#[test]
fn the_hanging_skill_hangs_until_it_is_killed() {
    let quick = run("demo-hang", "run", json!({ "seconds": 0 }));
    assert_eq!(quick.stdout, json!({ "success": true, "action": "run", "data": { "slept": 0 } }));
    assert_eq!(failure_code(&run("demo-hang", "run", json!({ "child": "yes" }))), "INVALID_PARAM");
    let run_dir = tempfile::tempdir().unwrap();
    let mut child = start(&shipped("demo-hang"), run_dir.path());
    say(&mut child, "{\"action\":\"run\",\"params\":{}}");
    let mut line = String::new();
    BufReader::new(child.stderr.take().unwrap()).read_line(&mut line).unwrap();
    assert_eq!((line.as_str(), child.try_wait().unwrap()), ("ready\n", None));
    child.kill().unwrap();
    child.wait().unwrap();
}
