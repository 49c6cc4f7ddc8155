//! Normalization behind the first validation: the skill's normalizer, its fallback, the runner's repair.

mod repair;

use std::fs;
use std::path::Path;

use serde_json::{Value, json};

use crate::interactive::pose::Pose;
use crate::interactive::service::Service;
use crate::support::{Server, Sse, of_type, processes_of, sandbox, script_skill};

/// Output that is JSON and breaks the schema.
const INVALID: &str = "cat >/dev/null\necho '{\"success\":true,\"action\":\"run\",\"data\":{\"n\":\"one\"}}'\n";
const RIGHT: &str = r#"sh -c 'echo "{\"n\": 1}" > result/result.json' step"#;

fn output() -> Value {
    json!({"type": "object", "required": ["n"], "properties": {"n": {"type": "integer"}}})
}

/// A script skill whose output is invalid, with these steps behind it.
fn skill(server: &Server, id: &str, runner: Value) {
    server.skill(id, INVALID, json!({"output": output(), "runner": runner}));
}

fn read(path: &Path) -> Value {
    serde_json::from_slice(&fs::read(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))).unwrap()
}

fn data(server: &Server, run: &str) -> Value {
    server.get(&format!("/v1/jobs/{run}/result")).json()["result"].clone()
}

/// Runs a skill to its end; its run id and events.
fn finished(server: &Server, id: &str, options: Value) -> (String, Vec<Value>) {
    let (_, run) = server.create_with(&json!({"skill_id": id, "runtime_options": options}));
    let events = server.finish(&run);
    (run, events)
}

fn step(name: &str, ok: bool, detail: &str) -> Value {
    json!({"step": name, "ok": ok, "detail": detail})
}

#[test]
fn the_skills_normalizer_makes_output_valid_and_every_step_is_on_record() {
    let server = Server::start();
    let command = r#"sh -c 'echo working; echo "50% half" >&2; echo "{\"n\": 1}" > result/result.json' step"#;
    skill(&server, "normalized", json!({"normalizer": {"command": command}}));
    let (run, events) = finished(&server, "normalized", json!({}));
    let violation = r#""one" is not of type "integer""#;
    let first_steps = vec![
        step("as_is", true, "the text is JSON as it stands"),
        step("validate", false, &format!("1 violations, the first at \"/n\": {violation}")),
    ];
    let first = json!({"level": "none", "valid": false, "source": "stdout", "steps": first_steps,
        "validation_errors": [{"path": "/n", "message": violation}]});
    let mut steps = first_steps.clone();
    steps.extend([
        step("normalizer", true, "it wrote 9 bytes to result/result.json"),
        step("as_is", true, "the text is JSON as it stands"),
        step("validate", true, "the value keeps the output schema"),
    ]);
    let last = json!({"level": "N1", "valid": true, "source": "normalizer", "steps": steps, "validation_errors": []});
    assert_eq!(of_type(&events, "output.normalized"), [first, last.clone()]);
    let warning = json!({"code": "OUTPUT_NORMALIZED", "message": "the output was made valid by the skill's normalizer",
        "level": "info", "normalization_level": "N1",
        "details": {"step": "normalizer", "detail": "it wrote 9 bytes to result/result.json"}});
    assert_eq!(Value::from(of_type(&events, "diagnostic.warning")), json!([warning]));
    // What the step printed is in the log, between the two accounts.
    let seen: Vec<&str> = events.iter().filter_map(|event| event["type"].as_str()).collect();
    let at = |name: &str| seen.iter().rposition(|seen| *seen == name).unwrap();
    let first_account = seen.iter().position(|seen| *seen == "output.normalized").unwrap();
    for printed in ["raw.stdout", "run.progress"] {
        assert!(first_account < at(printed) && at(printed) < at("output.normalized"), "{seen:?}");
    }
    let folder = server.run_dir(&run);
    assert_eq!(read(&folder.join("result/validation.json")), last);
    assert_eq!(read(&folder.join("raw/skill_result.json")), json!({"n": 1}));
    let raw = fs::read_to_string(folder.join("raw/engine_output.txt")).unwrap();
    assert_eq!(raw.trim(), r#"{"success":true,"action":"run","data":{"n":"one"}}"#);
    let result = data(&server, &run);
    assert_eq!((&result["data"], &result["status"]), (&json!({"n": 1}), &json!("succeeded")));
    assert_eq!(result["validation_warnings"], json!([warning]));
    assert_eq!(of_type(&events, "conversation.completed")[0]["completion"], "exit");
}

#[test]
fn normalizer_and_fallback_are_in_the_sandbox_of_their_run() {
    if sandbox::left_out("normalization::normalizer_and_fallback_are_in_the_sandbox_of_their_run") {
        return;
    }
    let outside = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let server = Server::with(&[("sandbox", "on")]);
    fs::write(server.data().join("secret"), "secret").unwrap();
    let tries = |name: &str, last: &str| {
        let (secret, outside) = (server.data().join("secret"), outside.path().join(name));
        let (secret, outside) = (secret.display(), outside.display());
        let code = format!(
            "cat {secret} > artifacts/{name}; touch {outside}; for of in net pid mnt; do readlink /proc/self/ns/$of >> artifacts/{name}; done; {last}"
        );
        json!({"command": format!("sh -c '{code}' step")})
    };
    let runner = json!({
        "normalizer": tries("normalizer", "true"),
        "fallback": tries("fallback", "echo \"{\\\"n\\\": 1}\" > result/result.json"),
    });
    skill(&server, "curious", runner);
    let (run, events) = finished(&server, "curious", json!({}));
    assert_eq!(server.get(&format!("/v1/jobs/{run}")).json()["status"], "succeeded", "{events:#?}");
    let own = ["net", "pid", "mnt"].map(|of| fs::read_link(format!("/proc/self/ns/{of}")).unwrap());
    for name in ["normalizer", "fallback"] {
        let found = fs::read_to_string(server.run_dir(&run).join("artifacts").join(name)).unwrap();
        assert_eq!(found.lines().count(), 3, "the data folder was read: {found}");
        assert!(own.iter().all(|own| !found.contains(own.to_str().unwrap())), "{name}: {found}");
        assert!(!outside.path().join(name).exists(), "{name} wrote to the machine");
    }
}

#[test]
fn a_step_is_told_raw_output_schema_and_run_folder_and_sees_nothing_of_the_service() {
    let server = Server::start();
    let code = "printf '%s\\n' \"$@\" > artifacts/told; pwd > artifacts/pwd; env | cut -d= -f1 | sort > artifacts/env; \
                cat > artifacts/stdin; cp \"$3\" artifacts/schema; echo '{\"n\": 1}' > result/result.json\n";
    let package = server.folder.path().join("skills/told/scripts");
    fs::create_dir_all(&package).unwrap();
    fs::write(package.join("normalize.sh"), code).unwrap();
    skill(&server, "told", json!({"normalizer": {"command": "sh scripts/normalize.sh --strict"}}));
    let (run, _) = finished(&server, "told", json!({}));
    let folder = server.run_dir(&run).canonicalize().unwrap();
    let found = |name: &str| fs::read_to_string(folder.join("artifacts").join(name)).unwrap();
    let path = |rest: &str| format!("{}\n", folder.join(rest).display());
    let told = ["--strict\n".to_owned(), path("raw/engine_output.txt"), path("raw/output.schema.json")].concat();
    assert_eq!(found("told"), format!("{told}{}\n", folder.display()));
    assert_eq!(found("pwd"), format!("{}\n", folder.display()));
    assert_eq!(serde_json::from_str::<Value>(&found("schema")).unwrap(), output());
    assert_eq!(found("stdin"), "");
    let expected = ["HOME", "LANG", "PATH", "PWD", "PYTHONDONTWRITEBYTECODE", "SKILL_RUNNER_RUN_ID", "TMPDIR"];
    assert_eq!(
        found("env")
            .lines()
            .filter(|name| !["_", "OLDPWD", "SHLVL", "NODE_USE_ENV_PROXY"].contains(name))
            .filter(|name| !name.to_uppercase().ends_with("_PROXY"))
            .collect::<Vec<_>>(),
        expected
    );
}

#[test]
fn whatever_a_normalizer_does_wrong_the_fallback_comes_next() {
    let server = Server::start();
    let wrong = [
        ("exit", "sh -c 'echo \"{\\\"n\\\": 1}\" > result/result.json; exit 3' step", "it exited with status 3"),
        ("signal", "sh -c 'kill -9 $$' step", "it was ended by signal 9"),
        ("nothing", "true", "it ended well but wrote no result/result.json"),
        ("garbage", "sh -c 'head -c 4096 /dev/urandom > result/result.json' step", "it wrote"),
        (
            "invalid",
            "sh -c 'echo \"{\\\"n\\\": \\\"two\\\"}\" > result/result.json' step",
            "it wrote 13 bytes to result/result.json",
        ),
        ("absent", "no-such-program-anywhere", "it could not be started: program no-such-program-anywhere not found"),
        (
            "flood",
            "sh -c 'yes 0123456789012345678901234567890123456789 | head -c 11000000' step",
            "it wrote more than 10485760 bytes to standard output",
        ),
        (
            "link",
            "sh -c 'echo \"{\\\"n\\\": 1}\" > x; ln -s ../x result/result.json' step",
            "it ended well but wrote no result/result.json",
        ),
        ("folder", "mkdir result/result.json", "it exited with status 1"),
        ("stall", "sh -c 'sleep 600' step", "it wrote nothing for 8 s"),
    ];
    for (id, command, _) in wrong {
        skill(&server, id, json!({"normalizer": {"command": command}, "fallback": {"command": RIGHT}}));
    }
    for (id, _, detail) in wrong {
        let options = if id == "stall" { json!({"stall_timeout_seconds": 8}) } else { json!({}) };
        let body = json!({"skill_id": id, "runtime_options": options});
        let (_, run) = server.create_with(&body);
        // To look at every byte of a flood would take a while; the log as a whole is checked when the server goes.
        let events = if id == "flood" { server.events(&run, 0).until_end() } else { server.finish(&run) };
        let accounts = of_type(&events, "output.normalized");
        let tried: Vec<(&Value, &Value)> =
            accounts.iter().map(|account| (&account["level"], &account["valid"])).collect();
        let expected = [(&json!("none"), &json!(false)), (&json!("N1"), &json!(false)), (&json!("N2"), &json!(true))];
        assert_eq!(tried, expected, "{id}");
        let steps = accounts[2]["steps"].as_array().unwrap();
        let taken = steps.iter().find(|step| step["step"] == "normalizer").unwrap();
        assert!(taken["detail"].as_str().unwrap().starts_with(detail), "{id}: {taken}");
        let warnings = of_type(&events, "diagnostic.warning");
        let said: Vec<(&Value, &Value)> = warnings
            .iter()
            .filter(|warning| !warning["normalization_level"].is_null())
            .map(|warning| (&warning["code"], &warning["normalization_level"]))
            .collect();
        let expected = [(&json!("NORMALIZATION_FAILED"), &json!("N1")), (&json!("OUTPUT_NORMALIZED"), &json!("N2"))];
        assert_eq!(said, expected, "{id}");
        assert_eq!(data(&server, &run)["data"], json!({"n": 1}), "{id}");
        assert_eq!(read(&server.run_dir(&run).join("result/validation.json")), accounts[2], "{id}");
    }
}

#[test]
fn a_normalizer_that_hangs_takes_at_most_half_of_the_time_left() {
    let server = Server::start();
    let hangs = json!({"command": "sh -c 'while :; do echo still; sleep 0.1; done' step"});
    skill(&server, "hangs", json!({"normalizer": hangs, "fallback": {"command": RIGHT}}));
    let (run, events) = finished(&server, "hangs", json!({"hard_timeout_seconds": 24}));
    assert_eq!(data(&server, &run)["data"], json!({"n": 1}));
    let steps = of_type(&events, "output.normalized")[1]["steps"].clone();
    assert!(steps[2]["detail"].as_str().unwrap().starts_with("it did not finish within"), "{steps}");
}

#[test]
fn steps_that_are_switched_off_are_not_taken() {
    let server = Server::start();
    let off = json!({"command": RIGHT, "enabled": false});
    skill(&server, "off", json!({"normalizer": off, "fallback": off}));
    let (run, events) = finished(&server, "off", json!({}));
    assert_eq!(of_type(&events, "output.normalized").len(), 1);
    assert_eq!(data(&server, &run)["error"]["code"], "SCHEMA_VALIDATION_FAILED");
    skill(&server, "half", json!({"normalizer": off, "fallback": {"command": RIGHT}}));
    let (_, events) = finished(&server, "half", json!({}));
    let levels: Vec<Value> =
        of_type(&events, "output.normalized").iter().map(|account| account["level"].clone()).collect();
    assert_eq!(levels, ["none", "N2"]);
}

#[test]
fn output_that_passes_at_once_takes_no_step() {
    let server = Server::start();
    let good = INVALID.replace("\"one\"", "7");
    server.skill("good", &good, json!({"output": output(), "runner": {"normalizer": {"command": RIGHT}}}));
    let (run, events) = finished(&server, "good", json!({}));
    let accounts = of_type(&events, "output.normalized");
    assert_eq!((accounts.len(), &accounts[0]["level"]), (1, &json!("none")));
    assert_eq!(data(&server, &run)["data"], json!({"n": 7}));
}

#[test]
fn when_no_step_helps_the_first_verdict_stands_with_all_that_is_known() {
    let server = Server::start();
    let failing = json!({"normalizer": {"command": "false"}, "fallback": {"command": "false"}});
    skill(&server, "invalid", failing.clone());
    let silent = json!({"output": output(), "runner": failing});
    server.skill("silent", "cat >/dev/null\necho no json at all\n", silent);
    for (id, code, errors) in [
        (
            "invalid",
            "SCHEMA_VALIDATION_FAILED",
            json!([{"path": "/n", "message": "\"one\" is not of type \"integer\""}]),
        ),
        ("silent", "OUTPUT_MISSING", json!([])),
    ] {
        let (run, events) = finished(&server, id, json!({}));
        let error = data(&server, &run)["error"].clone();
        assert_eq!((&error["code"], &error["details"]["validation_errors"]), (&json!(code), &errors));
        assert_eq!(error["details"]["raw_output_path"], "raw/engine_output.txt");
        assert!(error["details"]["hint"].as_str().unwrap().contains("raw/engine_output.txt"), "{error}");
        let account = of_type(&events, "output.normalized").pop().unwrap();
        assert_eq!((&account["level"], &account["valid"]), (&json!("N2"), &json!(false)));
        assert_eq!(read(&server.run_dir(&run).join("result/validation.json")), account);
    }
}

#[test]
fn a_normalizer_can_help_where_there_was_no_json_at_all() {
    let server = Server::start();
    let reads = r#"sh -c 'echo "{\"n\": $(cat "$1")}" > result/result.json' step"#;
    let extras = json!({"output": output(), "runner": {"normalizer": {"command": reads}}});
    server.skill("plain", "cat >/dev/null\necho 42\n", extras.clone());
    server.skill("words", "cat >/dev/null\necho none > artifacts/x\nprintf 5 # said\n", extras);
    for (id, n) in [("plain", 42), ("words", 5)] {
        let (run, _) = finished(&server, id, json!({}));
        assert_eq!(data(&server, &run)["data"], json!({"n": n}));
    }
}

#[test]
fn a_result_file_that_is_invalid_is_what_the_normalizer_gets_and_both_are_kept() {
    let server = Server::start();
    let writes = format!("{INVALID}echo '{{\"n\": \"many\"}}' > result/result.json\n");
    let reads = r#"sh -c 'grep -q many "$1" && echo "{\"n\": 2}" > result/result.json' step"#;
    server.skill("both", &writes, json!({"output": output(), "runner": {"normalizer": {"command": reads}}}));
    let (run, _) = finished(&server, "both", json!({}));
    assert_eq!(data(&server, &run)["data"], json!({"n": 2}));
    let raw = server.run_dir(&run).join("raw");
    assert_eq!(read(&raw.join("skill_result.json")), json!({"n": "many"}));
    assert_eq!(read(&raw.join("skill_result.N1.json")), json!({"n": 2}));
}

#[test]
fn what_a_step_leaves_running_is_ended_with_it() {
    let server = Server::start();
    let leaves = r#"sh -c '(setsid sleep 600 >/dev/null 2>&1 &); echo "{\"n\": 1}" > result/result.json' step"#;
    skill(&server, "leaves", json!({"normalizer": {"command": leaves}}));
    let (_, events) = finished(&server, "leaves", json!({}));
    let codes: Vec<Value> =
        of_type(&events, "diagnostic.warning").iter().map(|warning| warning["code"].clone()).collect();
    assert_eq!(codes, ["PROCESSES_LEFT_BEHIND", "OUTPUT_NORMALIZED"]);
}

/// A skill whose normalizer says that it is there and then waits.
fn waiting(server: &Server) -> String {
    let waits = json!({"command": "sh -c 'echo under way; sleep 600' step"});
    skill(server, "waits", json!({"normalizer": waits, "fallback": {"command": RIGHT}}));
    let (_, run) = server.create("waits");
    server.wait_for(&run, "raw.stdout", "under way");
    run
}

#[test]
fn a_cancel_in_the_middle_of_normalization_ends_the_step_and_the_run() {
    let server = Server::start();
    let run = waiting(&server);
    assert_eq!(server.post(&format!("/v1/jobs/{run}/cancel"), &json!({})).status, 200);
    let events = server.finish(&run);
    let result = data(&server, &run);
    assert_eq!((&result["status"], &result["error"]["code"]), (&json!("canceled"), &json!("CANCELED_BY_USER")));
    let account = of_type(&events, "output.normalized").pop().unwrap();
    assert_eq!(account["steps"][2], step("normalizer", false, "the run was canceled meanwhile"));
    assert_eq!(account["steps"].as_array().unwrap().len(), 3, "the fallback is not tried");
}

#[test]
fn a_service_that_ends_in_the_middle_of_normalization_ends_the_run() {
    let server = Server::start();
    let run = waiting(&server);
    server.drain();
    let events = server.finish(&run);
    let failed = &of_type(&events, "conversation.failed")[0];
    assert_eq!(failed["error"]["code"], "ORCHESTRATOR_RESTART_INTERRUPTED");
    let server = server.restarted(&[]);
    assert_eq!(server.get(&format!("/v1/jobs/{run}")).json()["status"], "failed");
}

#[test]
fn a_service_that_is_killed_in_the_middle_of_normalization_leaves_no_process_and_a_whole_log() {
    let (folder, pose) = (tempfile::tempdir().unwrap(), Pose::new());
    let waits = json!({"command": "sh -c 'echo $$; sleep 600' step"});
    let extras = json!({"output": output(), "runner": {"normalizer": waits}});
    script_skill(&folder.path().join("skills"), "waits", INVALID, extras);
    let service = Service::start(folder.path(), &pose);
    let run = service.post("/v1/jobs", &json!({"skill_id": "waits"})).json()["run_id"].as_str().unwrap().to_owned();
    let mut events = Sse::open(service.address, &format!("/v1/jobs/{run}/events"), &[]);
    // In a sandbox this is its number there, which means nothing outside.
    let _: u32 = loop {
        let event = events.next_chat().unwrap();
        let printed = event["data"]["text"].as_str().filter(|_| event["type"] == "raw.stdout");
        if let Some(pid) = printed.and_then(|text| text.lines().last()?.parse().ok()) {
            break pid;
        }
    };
    assert_ne!(processes_of(&run), Vec::<u32>::new());
    service.kill();
    let service = Service::start(folder.path(), &pose);
    assert_eq!(service.ends(&run, "failed")["error"]["code"], "ORCHESTRATOR_RESTART_INTERRUPTED");
    service.audit(&run);
    assert_eq!(processes_of(&run), Vec::<u32>::new());
}

#[test]
fn raw_output_stays_as_the_engine_gave_it_whatever_a_step_does_to_it() {
    let server = Server::start();
    for (id, deed) in [
        ("writes", "echo LIES > raw/engine_output.txt"),
        ("removes", "rm -r raw"),
        ("links", "ln -sf /etc/hostname raw/engine_output.txt"),
        ("builds", "rm raw/engine_output.txt; mkdir raw/engine_output.txt"),
    ] {
        let command = format!(r#"sh -c '{deed}; echo "{{\"n\": 1}}" > result/result.json' step"#);
        skill(&server, id, json!({"normalizer": {"command": command}}));
        let (run, events) = finished(&server, id, json!({}));
        let raw = fs::read_to_string(server.run_dir(&run).join("raw/engine_output.txt")).unwrap();
        assert_eq!(raw.trim(), r#"{"success":true,"action":"run","data":{"n":"one"}}"#, "{id}");
        assert_eq!(data(&server, &run)["data"], json!({"n": 1}), "{id}");
        let codes: Vec<Value> = of_type(&events, "diagnostic.warning").iter().map(|it| it["code"].clone()).collect();
        assert_eq!(codes, ["RAW_OUTPUT_RESTORED", "OUTPUT_NORMALIZED"], "{id}");
    }
}
