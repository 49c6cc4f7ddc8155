//! Skill Protocol 1.0 as scripts see it, and what becomes of each way a script can break it.

use serde_json::{Value, json};

use crate::support::Server;

/// Run a script once; its job and its result.
fn outcome(server: &Server, sh: &str, extras: Value, body: Value) -> (Value, Value) {
    server.skill("script", sh, extras);
    let mut request = json!({"skill_id": "script"});
    request.as_object_mut().unwrap().extend(body.as_object().unwrap().clone());
    let (_, run) = server.create_with(&request);
    server.finish(&run);
    let job = server.get(&format!("/v1/jobs/{run}")).json();
    (job, server.get(&format!("/v1/jobs/{run}/result")).json()["result"].take())
}

/// A script that answers with what it was given and with two of its variables.
const MIRROR: &str = r#"request=$(cat)
printf '{"success":true,"data":{"request":%s,"debug":"%s","cwd":"%s"}}' "$request" "$SKILL_DEBUG" "$(pwd -P)"
"#;

#[test]
fn a_script_is_given_action_params_and_context_and_works_in_its_run_folder() {
    let server = Server::start();
    let inline = json!({"type": "object", "properties": {"text": {"type": "string", "x-input-source": "inline"}}});
    let body = json!({"input": {"text": "hi"}, "parameter": {"depth": 2}});
    let (job, result) = outcome(&server, MIRROR, json!({"input": inline}), body);
    let folder = server.run_dir(job["run_id"].as_str().unwrap()).canonicalize().unwrap();
    let expected = json!({
        "request": {
            "action": "run",
            "params": {"text": "hi", "depth": 2},
            "context": {
                "agent_id": "script", "user_id": null, "request_id": job["request_id"], "run_id": job["run_id"],
                "run_dir": server.run_dir(job["run_id"].as_str().unwrap()),
            },
        },
        "debug": "",
        "cwd": folder,
    });
    assert_eq!(result["data"], expected);
}

#[test]
fn a_script_is_told_who_its_run_is_for_and_another_user_gets_no_cached_result() {
    let server = Server::start();
    let context = |user: &str| json!({"context": {"user_id": user, "agent_id": "analyst"}});
    for (user, hit) in [("anna", false), ("ben", false), ("anna", true)] {
        let (job, result) = outcome(&server, MIRROR, json!({}), context(user));
        assert_eq!((&job["status"], &job["cache_hit"]), (&json!("succeeded"), &json!(hit)), "{user}: {job}");
        let told = &result["data"]["request"]["context"];
        assert_eq!((&told["user_id"], &told["agent_id"]), (&json!(user), &json!("analyst")));
    }
    for (context, place) in [
        (json!({"user_id": ""}), "/context/user_id"),
        (json!({"agent_id": "x".repeat(129)}), "/context/agent_id"),
        (json!({"agent_id": "a\nb"}), "/context/agent_id"),
        (json!({"group": "x"}), "/context/group"),
        (json!(["x"]), "/context"),
    ] {
        let refused = server.post("/v1/jobs", &json!({"skill_id": "script", "context": context}));
        assert_eq!(refused.refusal(), (400, "INVALID_REQUEST".into()), "{context}");
        let details = refused.json()["error"]["details"].to_string();
        assert!(details.contains(place), "{context}: {details}");
    }
}

#[test]
fn what_a_script_says_of_its_success_and_of_its_actions_reaches_the_result() {
    let server = Server::start();
    let says = r#"{"success":true,"data":{},"message":"all well","metadata":{"execution_time_ms":1234}}"#;
    let script = format!("cat >/dev/null\nmkdir -p artifacts\necho x > artifacts/a.txt\necho '{says}'\n");
    let artifact = json!({"runner": {"artifacts": [{"role": "a", "pattern": "a.txt"}]}});
    // The second run takes the first one's result.
    for _ in 0..2 {
        let (_, result) = outcome(&server, &script, artifact.clone(), json!({}));
        assert_eq!(result["message"], "all well", "{result}");
        assert_eq!(result["metadata"], json!({"execution_time_ms": 1234}), "{result}");
    }
    let says = r#"{"success":false,"error":{"code":"UNKNOWN_ACTION","message":"no","supported_actions":["a","b"]}}"#;
    let (_, result) = outcome(&server, &format!("cat >/dev/null\necho '{says}'\n"), json!({}), json!({}));
    assert_eq!(result["error"]["details"], json!({"supported_actions": ["a", "b"]}), "{result}");
}

#[test]
fn the_action_is_the_parameters_then_the_skills_and_debug_runs_are_told_so() {
    let server = Server::start();
    let entrypoint = json!({"type": "script", "script": {"command": "sh scripts/run.sh", "action": "count"}});
    let extras = json!({"runner": {"entrypoint": entrypoint}});
    let (_, result) = outcome(&server, MIRROR, extras.clone(), json!({"runtime_options": {"debug": true}}));
    assert_eq!((&result["data"]["request"]["action"], &result["data"]["debug"]), (&json!("count"), &json!("1")));
    let (_, result) = outcome(&server, MIRROR, extras, json!({"parameter": {"action": "list"}}));
    assert_eq!(result["data"]["request"]["action"], "list");
}

#[test]
fn a_script_has_300_seconds_unless_the_skill_or_the_request_says_otherwise() {
    let server = Server::start();
    let limit = |extras: Value, options: Value| {
        let (job, _) = outcome(&server, MIRROR, extras, json!({"runtime_options": options}));
        let started =
            server.get(&format!("/v1/jobs/{}/events/history?limit=1", job["run_id"].as_str().unwrap())).json();
        started["events"][0]["data"]["runtime_options"]["hard_timeout_seconds"].as_u64().unwrap()
    };
    let slow = json!({"runner": {"automation": {"timeout_sec": 700}}});
    let found =
        [limit(json!({}), json!({})), limit(slow.clone(), json!({})), limit(slow, json!({"hard_timeout_seconds": 9}))];
    assert_eq!(found, [300, 700, 9]);
}

#[test]
fn each_way_to_break_the_protocol_has_its_code() {
    let server = Server::start();
    let failure = r#"{"success":false,"error":{"code":"DATA_NOT_FOUND","message":"none","details":{"days":7}}}"#;
    for (script, code) in [
        // A valid failure keeps its code, whatever the exit status says.
        (format!("echo '{failure}'"), "DATA_NOT_FOUND"),
        (format!("echo '{failure}'; exit 3"), "DATA_NOT_FOUND"),
        ("echo '{\"success\":true,\"data\":{}}'; exit 3".to_owned(), "ENGINE_FAILED"),
        ("kill -9 $$".to_owned(), "ENGINE_FAILED"),
        ("exit 0".to_owned(), "OUTPUT_MISSING"),
        ("echo no json here".to_owned(), "OUTPUT_MISSING"),
        ("echo '{\"data\":{}}'".to_owned(), "SCHEMA_VALIDATION_FAILED"),
        ("echo '[1]'".to_owned(), "SCHEMA_VALIDATION_FAILED"),
    ] {
        let (job, result) = outcome(&server, &format!("cat >/dev/null\n{script}\n"), json!({}), json!({}));
        assert_eq!((&job["status"], &job["error"]["code"]), (&json!("failed"), &json!(code)), "{script}: {job}");
        assert_eq!(result["error"], job["error"], "{script}");
        if code == "DATA_NOT_FOUND" {
            assert_eq!(result["error"], json!({"code": code, "message": "none", "details": {"days": 7}}));
        } else {
            let details = &result["error"]["details"];
            assert_eq!(details["raw_output_path"], "raw/engine_output.txt", "{script}: {details}");
            assert!(details["hint"].is_string(), "{script}: {details}");
        }
    }
}

#[test]
fn a_script_that_prints_nothing_has_answered_with_its_result_file_if_it_exits_with_0() {
    let server = Server::start();
    let writes =
        |end: &str| format!("cat >/dev/null\nmkdir -p result\nprintf '{{\"n\":1}}' > result/result.json\n{end}\n");
    let (job, result) = outcome(&server, &writes("exit 0"), json!({}), json!({}));
    assert_eq!((&job["status"], &result["data"]), (&json!("succeeded"), &json!({"n": 1})), "{job}");
    for (end, code) in [("exit 3", "ENGINE_FAILED"), ("echo some words", "OUTPUT_MISSING")] {
        let (job, result) = outcome(&server, &writes(end), json!({}), json!({}));
        assert_eq!((&job["status"], &job["error"]["code"]), (&json!("failed"), &json!(code)), "{end}: {job}");
        assert_eq!(result["data"], json!(null));
    }
}

#[test]
fn a_program_that_is_not_there_is_named() {
    let server = Server::start();
    let entrypoint = json!({"type": "script", "script": {"command": "no-such-program-here scripts/run.sh"}});
    let (job, _) = outcome(&server, "", json!({"runner": {"entrypoint": entrypoint}}), json!({}));
    assert_eq!(job["error"]["code"], "ENGINE_NOT_INSTALLED");
    assert!(job["error"]["message"].as_str().unwrap().contains("no-such-program-here"), "{job}");
}

#[test]
fn a_script_that_writes_more_than_10_mb_to_standard_output_is_ended() {
    let server = Server::start();
    // It would write for ever.
    server.skill("flood", "cat >/dev/null\nyes\n", json!({}));
    // Only waited for: to ask for the bytes of each event of so long a log would take a minute.
    let job = server.post("/v1/jobs?wait=60", &json!({"skill_id": "flood"})).json();
    let error = &job["result"]["error"];
    assert_eq!((&error["code"], &job["error"]), (&json!("OUTPUT_LIMIT_EXCEEDED"), error), "{job}");
    assert_eq!(error["details"], json!({"limit_bytes": 10 * 1024 * 1024}));
}

#[test]
fn output_with_prose_around_it_is_taken_at_level_n0_with_a_warning() {
    let server = Server::start();
    let script = "cat >/dev/null\necho 'Here it is:'\necho '```json'\necho '{\"success\":true,\"data\":{\"a\":1,}}'\necho '```'\n";
    let (job, result) = outcome(&server, script, json!({}), json!({}));
    assert_eq!((&result["status"], &result["data"]), (&json!("succeeded"), &json!({"a": 1})));
    let warning = &result["validation_warnings"][0];
    let keys: Vec<&String> = warning.as_object().unwrap().keys().collect();
    assert_eq!(keys, ["code", "message", "level", "normalization_level", "details"]);
    assert_eq!((&warning["level"], &warning["normalization_level"]), (&json!("info"), &json!("N0")));
    assert_eq!(job["warnings"][0], *warning);
    let run = server.run_dir(job["run_id"].as_str().unwrap());
    let validation: Value =
        serde_json::from_slice(&std::fs::read(run.join("result/validation.json")).unwrap()).unwrap();
    assert_eq!((&validation["level"], &validation["valid"]), (&json!("N0"), &json!(true)));
}

#[test]
fn a_result_file_of_the_skill_is_taken_kept_and_replaced_by_the_envelope() {
    let server = Server::start();
    let script = "cat >/dev/null\nmkdir -p result\necho '{\"from\":\"file\"}' > result/result.json\n\
                  echo '{\"success\":true,\"data\":{\"from\":\"answer\"}}'\n";
    let (job, result) = outcome(&server, script, json!({}), json!({}));
    assert_eq!(result["data"], json!({"from": "file"}));
    let run = server.run_dir(job["run_id"].as_str().unwrap());
    assert_eq!(std::fs::read_to_string(run.join("raw/skill_result.json")).unwrap(), "{\"from\":\"file\"}\n");
    let written: Value = serde_json::from_slice(&std::fs::read(run.join("result/result.json")).unwrap()).unwrap();
    assert_eq!(written, result);
}

#[test]
fn a_log_beyond_its_limit_is_cut_with_a_warning_and_the_run_goes_on() {
    let server = Server::with(&[("max_log_bytes", "1000000")]);
    let script = "cat >/dev/null\nhead -c 1500000 /dev/zero | tr '\\0' x >&2\necho '{\"success\":true,\"data\":{}}'\n";
    let (job, _) = outcome(&server, script, json!({}), json!({}));
    assert_eq!((&job["status"], &job["warnings"][0]["code"]), (&json!("succeeded"), &json!("LOG_LIMIT_EXCEEDED")));
    assert_eq!(job["warnings"][0]["details"], json!({"stream": "stderr", "dropped_bytes": 500_000}));
}

#[test]
fn a_run_leaves_the_files_of_the_contract() {
    let server = Server::start();
    let (job, _) = outcome(
        &server,
        "cat >/dev/null\necho x > artifacts/x.txt\necho '{\"success\":true,\"data\":{}}'\n",
        json!({}),
        json!({}),
    );
    server.drain();
    let run = server.run_dir(job["run_id"].as_str().unwrap());
    for file in [
        "skill.json",
        "input.json",
        "manifest.json",
        "artifacts/x.txt",
        "result/result.json",
        "result/validation.json",
        "raw/engine_output.txt",
        "raw/engine_output.json",
        "logs/stdout.txt",
        "logs/stderr.txt",
        "logs/events.jsonl",
        ".script/skills/script/SKILL.md",
    ] {
        assert!(run.join(file).is_file(), "{file}");
    }
    for folder in ["uploads", "bundle"] {
        assert!(!run.join(folder).exists(), "{folder} is there when it is needed");
    }
}
