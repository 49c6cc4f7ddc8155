//! Runs held against their artifact contracts: patterns, inference, roles, and what is logged of a run that fails.

use serde_json::{Value, json};

use crate::interactive::pose::{self, Pose, done, says};
use crate::support::{Server, of_type};

const DONE: &str = "echo '{\"success\":true,\"action\":\"run\",\"data\":{}}'\n";

fn declared(role: &str, pattern: &str, required: bool) -> Value {
    json!({"role": role, "pattern": pattern, "required": required})
}

/// The path, role and promise of every artifact that the log names.
fn indexed(events: &[Value]) -> Vec<(String, String, bool)> {
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    of_type(events, "artifact.indexed")
        .iter()
        .map(|entry| (text(&entry["path_rel"]), text(&entry["role"]), entry["required"].as_bool().unwrap()))
        .collect()
}

fn entry(path: &str, role: &str, required: bool) -> (String, String, bool) {
    (path.into(), role.into(), required)
}

fn error(server: &Server, run: &str) -> Value {
    server.get(&format!("/v1/jobs/{run}/result")).json()["result"]["error"].clone()
}

#[test]
fn patterns_with_globs_give_roles_and_the_required_ones_that_are_missing_are_all_named() {
    let server = Server::start();
    let sh = format!(
        "cat >/dev/null\nmkdir -p artifacts/charts/deep\ntouch artifacts/page1.md artifacts/page10.md artifacts/charts/a.svg \
         artifacts/charts/deep/b.svg\n{DONE}"
    );
    let contract = json!([
        declared("page", "artifacts/page?.md", true),
        declared("chart", "charts/*.svg", true),
        declared("any-chart", "**/*.svg", true),
        declared("table", "tables/**/*.csv", true),
        declared("cover", "artifacts/cover.p[dn][fg]", true),
        declared("extra", "*.txt", false),
    ]);
    server.skill("globs", &sh, json!({"runner": {"artifacts": contract}}));
    let (_, run) = server.finished("globs");
    let events = server.finish(&run);
    let expected = [
        entry("artifacts/charts/a.svg", "chart", true),
        entry("artifacts/charts/deep/b.svg", "any-chart", true),
        entry("artifacts/page1.md", "page", true),
        entry("artifacts/page10.md", "output", false),
    ];
    assert_eq!(indexed(&events), expected, "also of a run that fails");
    let error = error(&server, &run);
    assert_eq!(error["code"], "ARTIFACT_MISSING");
    assert_eq!(error["details"]["missing"], json!(["artifacts/tables/**/*.csv", "artifacts/cover.p[dn][fg]"]));
    for named in ["artifacts/tables/**/*.csv", "artifacts/cover.p[dn][fg]"] {
        assert!(error["message"].as_str().unwrap().contains(named), "{error}");
    }
}

#[test]
fn without_declared_artifacts_the_output_schema_says_what_a_run_leaves() {
    let server = Server::start();
    let output = json!({"type": "object", "required": ["report", "raw"], "properties": {
        "report": {"type": "string", "x-type": "artifact", "x-filename": "report.md", "x-role": "report"},
        "raw": {"type": "string", "x-type": "file"},
        "extra": {"type": "string", "x-type": "artifact", "x-role": "appendix"},
    }});
    let answer = r#"echo '{"success":true,"data":{"report":"artifacts/report.md","raw":"artifacts/raw"}}'"#;
    let sh = |files: &str| format!("cat >/dev/null\ncd artifacts && touch {files}\n{answer}\n");
    server.skill("whole", &sh("report.md raw extra"), json!({"output": output}));
    let (_, run) = server.finished("whole");
    let expected = [
        entry("artifacts/extra", "appendix", false),
        entry("artifacts/raw", "output", true),
        entry("artifacts/report.md", "report", true),
    ];
    assert_eq!(indexed(&server.finish(&run)), expected);
    server.skill("lacking", &sh("report.md"), json!({"output": output}));
    let (_, run) = server.finished("lacking");
    assert_eq!(error(&server, &run)["details"]["missing"], json!(["artifacts/raw"]));
}

#[test]
fn what_a_failed_or_canceled_run_left_is_logged_with_its_role_before_the_end() {
    let server = Server::start();
    let runner = json!({"artifacts": [declared("report", "*.md", false)]});
    let left = "cat >/dev/null\necho half > artifacts/a.md\n";
    let failing = format!("{left}echo '{{\"success\":false,\"error\":{{\"code\":\"MINE\",\"message\":\"no\"}}}}'\n");
    server.skill("fails", &failing, json!({"runner": runner}));
    server.skill("hangs", &format!("{left}echo ready >&2\nsleep 600\n"), json!({"runner": runner}));
    let (_, failed) = server.finished("fails");
    let (_, canceled) = server.create("hangs");
    server.wait_for(&canceled, "raw.stderr", "ready");
    server.post(&format!("/v1/jobs/{canceled}/cancel"), &json!({}));
    for run in [failed, canceled] {
        let events = server.finish(&run);
        assert_eq!(indexed(&events), [entry("artifacts/a.md", "report", false)]);
        let listed = server.get(&format!("/v1/jobs/{run}/artifacts")).json();
        assert_eq!(listed["artifacts"], json!(["artifacts/a.md"]));
    }
}

#[test]
fn a_run_that_is_canceled_while_it_waits_logs_what_its_turns_left() {
    let pose = Pose::new();
    let server = Server::with(&[("engines.codex.command", &pose.command())]);
    pose::skill(&server.folder.path().join("skills"), "ask", None);
    pose.runs_after(1, "echo draft > artifacts/draft.md");
    pose.plays(&[says("Good?"), done()]);
    let body = json!({"skill_id": "ask", "engine": "codex", "runtime_options": {"execution_mode": "interactive"}});
    let (_, run) = server.create_with(&body);
    server.wait_for(&run, "conversation.state.changed", "waiting_user");
    server.post(&format!("/v1/jobs/{run}/cancel"), &json!({}));
    let events = server.finish(&run);
    assert_eq!(indexed(&events), [entry("artifacts/draft.md", "output", false)]);
    assert_eq!(events.last().unwrap()["data"]["status"], "canceled");
}

#[test]
fn what_is_no_file_keeps_no_promise_and_is_named() {
    let server = Server::start();
    let sh = format!(
        "cat >/dev/null\necho x > outside.md\nln -s ../outside.md artifacts/a.md\nmkfifo artifacts/b.md\n{DONE}"
    );
    let runner = json!({"artifacts": [declared("report", "*.md", true)]});
    server.skill("tricks", &sh, json!({"runner": runner}));
    let (_, run) = server.finished("tricks");
    let events = server.finish(&run);
    assert_eq!((indexed(&events), &error(&server, &run)["code"]), (vec![], &json!("ARTIFACT_MISSING")));
    let refused: Vec<(Value, Value)> = of_type(&events, "diagnostic.warning")
        .iter()
        .map(|warning| (warning["code"].clone(), warning["details"]["path"].clone()))
        .collect();
    let expected = |path: &str| (json!("ARTIFACT_REFUSED"), json!(path));
    assert_eq!(refused, [expected("artifacts/a.md"), expected("artifacts/b.md")]);
}
