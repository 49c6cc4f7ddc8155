//! What confines runs is said before any of them begins: by the start, the doctor, the lint, `skill show`, and the API.

use std::collections::BTreeMap;
use std::fs;
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, Command};

use seccompiler::{BpfProgram, SeccompAction, SeccompFilter};
use serde_json::{Value, json};

use super::place::{Place, Ran};
use crate::support::{Call, Server, sandbox};

const REASON: &str = "the kernel does not let the service make namespaces: Operation not permitted (os error 1)";
const FIX: &str = "allow user namespaces";

/// Starts a program for which this machine gives no sandbox: it and its children cannot make namespaces.
fn spawn_without_sandbox(mut command: Command) -> Child {
    let rules = BTreeMap::from([(libc::SYS_unshare, Vec::new())]);
    let refuse = SeccompAction::Errno(libc::EPERM.unsigned_abs());
    let machine = std::env::consts::ARCH.try_into().unwrap();
    let filter: BpfProgram =
        SeccompFilter::new(rules, SeccompAction::Allow, refuse, machine).unwrap().try_into().unwrap();
    // The filter is for one thread, and for what that one starts.
    let thread = std::thread::spawn(move || {
        seccompiler::apply_filter(&filter).unwrap();
        command.spawn().unwrap()
    });
    thread.join().unwrap()
}

fn without_sandbox(place: &Place, setting: &str, args: &[&str]) -> Ran {
    let mut command = place.command(args);
    command.env("SKILL_RUNNER_SANDBOX", setting).env("SKILL_RUNNER_PORT", "0");
    let output = spawn_without_sandbox(command).wait_with_output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    Ran { code: output.status.code(), stdout: text(output.stdout), stderr: text(output.stderr) }
}

/// A skill that asks for a sandbox.
fn asking(place: &Place) {
    let runner = place.skill("asking", "true").join("assets/runner.json");
    let mut manifest: Value = serde_json::from_slice(&fs::read(&runner).unwrap()).unwrap();
    manifest["automation"] = json!({"network": "off", "fs_scope": "run"});
    fs::write(runner, manifest.to_string()).unwrap();
}

fn control_groups_finding(report: &Value) -> Value {
    let findings = report["findings"].as_array().unwrap();
    findings.iter().find(|finding| finding["check"] == "control groups").unwrap_or_else(|| panic!("{report}")).clone()
}

/// The same as a service has, whatever this machine gives: its runs have a group exactly if the doctor says so.
#[test]
fn the_doctor_says_which_control_groups_runs_have_and_how_to_get_them() {
    let place = Place::new();
    place.skill("hello", crate::support::skill::HELLO);
    let doctor = |setting| {
        let ran = place.run_with(("SKILL_RUNNER_CONTROL_GROUPS", setting), &["doctor", "--json"]);
        control_groups_finding(&ran.json())
    };
    let off = doctor("off");
    assert!(off["message"].as_str().unwrap().starts_with("switched off: "), "{off}");
    assert_eq!((&off["grade"], &off["fix"]), (&json!("ok"), &json!("set control_groups: auto")));
    let told = doctor("auto");
    let mut serve = place.command(&["serve", "--port", "0"]);
    serve.env("SKILL_RUNNER_CONTROL_GROUPS", "auto");
    let (_running, line) = Place::started(serve, "listening on http://");
    let address: SocketAddr = line.strip_prefix("listening on http://").unwrap().parse().unwrap();
    let of_service = doctor("auto");
    let created = Call::new(address, "POST", "/v1/jobs?wait=60").json(&json!({"skill_id": "hello"})).send().json();
    let job = Call::new(address, "GET", &format!("/v1/jobs/{}", created["run_id"].as_str().unwrap())).send().json();
    let grouped = job["isolation"]["parts"].as_array().unwrap().contains(&json!("control-group"));
    for (found, whose) in [(told, "for a service that is started from here"), (of_service, "in use")] {
        let message = found["message"].as_str().unwrap();
        assert_eq!(found["grade"], "ok", "{found}");
        if grouped {
            assert!(message.starts_with("version ") && message.contains(whose) && found["fix"].is_null(), "{found}");
        } else {
            let fix = found["fix"].as_str().unwrap();
            assert!(message.starts_with("none") && fix.contains("Delegate=yes"), "{found}");
        }
    }
}

fn sandbox_finding(report: &Value) -> Value {
    let findings = report["findings"].as_array().unwrap();
    findings.iter().find(|finding| finding["check"] == "sandbox").unwrap_or_else(|| panic!("{report}")).clone()
}

#[test]
fn a_sandbox_that_must_be_there_and_is_not_stops_the_start_with_the_reason_and_the_fix() {
    let place = Place::new();
    for command in [&["serve"][..], &["run", "tiny"]] {
        let ran = without_sandbox(&place, "on", command);
        assert_eq!((ran.code, ran.stdout.as_str()), (Some(2), ""), "{ran:?}");
        assert!(ran.stderr.contains(&format!("no run can be confined here: {REASON}")), "{ran:?}");
        assert!(ran.stderr.contains(FIX) && ran.stderr.contains("set sandbox: auto or off"), "{ran:?}");
    }
    assert!(!place.path().join("data/runs").exists() || place.folders("data/runs").is_empty());
}

#[test]
fn a_sandbox_that_may_be_there_and_is_not_is_a_warning_at_the_start_and_the_api_tells_the_reason() {
    let place = Place::new();
    let mut command = place.command(&["serve", "--port", "0"]);
    command.env("SKILL_RUNNER_SANDBOX", "auto");
    let (mut running, line) = Place::attached(spawn_without_sandbox(command), "listening on ");
    running.wait_for_stderr("runs are not confined: this machine gives no sandbox");
    let log = fs::read_to_string(place.path().join("data/logs/skill-runner.log")).unwrap();
    assert!(log.contains(REASON), "{log}");
    let address: SocketAddr = line.strip_prefix("listening on http://").unwrap().parse().unwrap();
    for (path, at) in [("/v1/engines", ""), ("/v1/management/engines", "/engines")] {
        let answer = Call::new(address, "GET", path).send().json();
        for engine in answer.pointer(at).unwrap().as_array().unwrap() {
            // Only codex confines its commands itself.
            let own = engine["engine"] == "codex";
            let told = json!({"sandbox": "auto", "tier": "process-tree", "engine_sandbox": own, "reason": REASON});
            assert_eq!(engine["isolation"], told, "{path}: {engine}");
        }
    }
    // The command asks the service.
    let told = place.run(&["engines"]);
    assert!(told.stdout.contains(&format!("runs are not confined: {REASON}")), "{told:?}");
}

#[test]
fn the_doctor_says_whether_runs_are_confined() {
    let place = Place::new();
    for (setting, code, grade, said) in [
        ("auto", Some(0), "warning", "runs are not confined, and skills have all rights of the service's user: "),
        ("on", Some(1), "broken", "sandbox is on, so the service does not start: "),
        ("off", Some(0), "ok", "switched off; it would not work here: "),
    ] {
        let ran = without_sandbox(&place, setting, &["doctor", "--json"]);
        let found = sandbox_finding(&ran.json());
        assert_eq!((ran.code, &found["grade"]), (code, &json!(grade)), "{setting}: {ran:?}");
        assert_eq!(found["message"], format!("{said}{REASON}"), "{setting}");
        assert_eq!(found["fix"].as_str().is_some_and(|fix| fix.contains(FIX)), setting != "off", "{found}");
    }
    if sandbox::left_out("cli::isolation::the_doctor_says_whether_runs_are_confined") {
        return;
    }
    for (setting, grade) in [("auto", "ok"), ("on", "ok"), ("off", "warning")] {
        let ran = place.run_with(("SKILL_RUNNER_SANDBOX", setting), &["doctor", "--json"]);
        assert_eq!(sandbox_finding(&ran.json())["grade"], grade, "{setting}: {ran:?}");
    }
}

#[test]
fn the_lint_and_skill_show_say_what_of_a_skills_wishes_is_not_enforced_here() {
    let place = Place::new();
    asking(&place);
    let lint = ["skill", "lint", "skills/asking", "--json"];
    let found = without_sandbox(&place, "auto", &lint).json();
    let finding = &found["findings"][0];
    assert_eq!((&found["ok"], &finding["code"]), (&json!(true), &json!("SANDBOX_MISSING")), "{found}");
    assert_eq!((&finding["severity"], &finding["pointer"]), (&json!("warning"), &json!("/automation")));
    let asked = "automation.network: off and automation.fs_scope: run";
    assert_eq!(finding["message"], format!("{asked} is not enforced on this machine: not confined: {REASON}"));
    let off = place.run_with(("SKILL_RUNNER_SANDBOX", "off"), &lint).json();
    assert_eq!(off["findings"][0]["code"], "SANDBOX_MISSING", "{off}");
    // Who asks for nothing is not told.
    let tiny = without_sandbox(&place, "auto", &["skill", "lint", "skills/tiny", "--json"]).json();
    assert_eq!(tiny, json!({"ok": true, "findings": []}));

    let shown = without_sandbox(&place, "auto", &["skill", "show", "asking", "--json"]).json();
    let asked = json!(["automation.network: off", "automation.fs_scope: run"]);
    let told = json!({"sandbox": "auto", "tier": "process-tree", "engine_sandbox": false, "reason": REASON,
        "asked": asked, "not_enforced": asked});
    assert_eq!(shown["isolation"], told);
    let text = without_sandbox(&place, "auto", &["skill", "show", "asking"]).stdout;
    assert!(text.contains("not confined: ") && text.contains("is not enforced"), "{text}");

    if sandbox::left_out("cli::isolation::the_lint_and_skill_show_say_what_of_a_skills_wishes_is_not_enforced_here") {
        return;
    }
    assert_eq!(place.run(&lint).json(), json!({"ok": true, "findings": []}));
    let told = json!({"sandbox": "auto", "tier": "sandbox", "engine_sandbox": false, "reason": null,
        "asked": asked, "not_enforced": []});
    assert_eq!(place.run(&["skill", "show", "asking", "--json"]).json()["isolation"], told);
}

#[test]
fn the_api_tells_of_engines_and_skills_what_is_asked_for_and_what_is_in_force() {
    let works = sandbox::works();
    for setting in ["auto", "off"] {
        let server = Server::with(&[("sandbox", setting)]);
        let automation = json!({"network": "allowlist", "allowlist": ["example.org"]});
        server.skill("asking", "true", json!({"runner": {"automation": automation}}));
        let confined = works && setting == "auto";
        let tier = if confined { "sandbox" } else { "process-tree" };
        let codex = server.get("/v1/management/engines/codex").json()["isolation"].take();
        assert_eq!((&codex["sandbox"], &codex["tier"]), (&json!(setting), &json!(tier)), "{codex}");
        assert_eq!(codex["reason"].is_null(), confined, "{codex}");
        let skill = server.get("/v1/management/skills/asking").json()["isolation"].take();
        let asked = json!(["automation.network: allowlist"]);
        let not_enforced = if confined { json!([]) } else { asked.clone() };
        assert_eq!((&skill["tier"], &skill["asked"], &skill["not_enforced"]), (&json!(tier), &asked, &not_enforced));
    }
}

#[test]
fn a_run_sees_neither_the_configuration_of_the_service_nor_its_backups_nor_its_skills() {
    if sandbox::left_out(
        "cli::isolation::a_run_sees_neither_the_configuration_of_the_service_nor_its_backups_nor_its_skills",
    ) {
        return;
    }
    // What is below /tmp is hidden anyway.
    let place = Place::inside(Path::new(env!("CARGO_TARGET_TMPDIR")));
    fs::write(place.path().join("skill-runner.yaml"), "token: never-to-be-seen\n").unwrap();
    for folder in ["backups/one", "configs"] {
        fs::create_dir_all(place.path().join(folder)).unwrap();
        fs::write(place.path().join(folder).join("secret"), "never-to-be-seen\n").unwrap();
    }
    let look = format!(
        "cat > /dev/null\ncd {}\nseen=$(cat skill-runner.yaml backups/one/secret configs/secret 2> /dev/null | tr -d '\\n')\n\
         echo '{{\"success\":true,\"action\":\"run\",\"data\":{{\"seen\":\"'\"$seen$(ls skills)\"'\"}}}}'\n",
        place.path().display()
    );
    place.skill("looks", &look);
    fs::remove_dir_all(place.path().join("skills/tiny")).unwrap();
    let ran = place.run(&["run", "looks", "--json"]);
    assert_eq!(ran.json()["result"]["data"], json!({"seen": ""}), "{ran:?}");
}

#[test]
fn a_service_has_its_folder_for_backups_from_its_start_so_that_no_run_sees_it_made() {
    let place = Place::new();
    let _running = place.start(&["serve", "--port", "0"], "listening on http://");
    assert!(place.path().join("backups").is_dir());
}
