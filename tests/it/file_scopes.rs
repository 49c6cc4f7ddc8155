//! `automation.fs_scope`: where a run can write, by each of its values.

use std::process::Command;

use serde_json::{Value, json};

use crate::support::{Server, sandbox};

/// Tries to write in five places, and answers with those where it could.
fn script(outside: &str) -> String {
    format!(
        "cat >/dev/null\ntried() {{ if (echo x > \"$2/probe\") 2>/dev/null; then written=\"$written$1 \"; fi; }}\n\
         tried run .; tried artifacts artifacts; tried result result; tried tmp \"$TMPDIR\"; tried operator {outside}\n\
         printf '{{\"success\":true,\"data\":{{\"written\":\"%s\"}}}}' \"$written\"\n"
    )
}

/// Where a run with this scope wrote, and its job.
fn run(server: &Server, outside: &str, scope: Option<&str>) -> (Value, Value) {
    let id = format!("writes-{}", scope.unwrap_or("unsaid").replace('_', "-"));
    let automation = scope.map_or(json!({}), |scope| json!({"fs_scope": scope}));
    server.skill(&id, &script(outside), json!({"runner": {"automation": automation}}));
    let (_, run) = server.finished(&id);
    let written = server.get(&format!("/v1/jobs/{run}/result")).json()["result"]["data"]["written"].take();
    (written, server.get(&format!("/v1/jobs/{run}")).json())
}

#[test]
fn each_scope_leaves_a_run_its_own_places_to_write_to() {
    if sandbox::left_out("file_scopes::each_scope_leaves_a_run_its_own_places_to_write_to") {
        return;
    }
    let outside = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let outside = outside.path().to_str().unwrap();
    let server = Server::with(&[("sandbox", "on"), ("sandbox_write", outside)]);
    let own = "run artifacts result tmp ";
    for (scope, written, files) in [
        (None, "run artifacts result tmp operator ", "run"),
        (Some("run"), own, "run"),
        (Some("workspace"), own, "run"),
        (Some("workspace_only"), own, "run"),
        (Some("read_only"), "artifacts result tmp ", "read-only"),
    ] {
        let (found, job) = run(&server, outside, scope);
        assert_eq!((&found, &job["isolation"]["files"]), (&json!(written), &json!(files)), "{scope:?}: {job:#}");
        assert_eq!(job["warnings"], json!([]), "{scope:?}");
    }
}

#[test]
fn what_the_operator_lets_every_run_read_is_seen_and_not_written_to() {
    if sandbox::left_out("file_scopes::what_the_operator_lets_every_run_read_is_seen_and_not_written_to") {
        return;
    }
    // No run sees the machine's own.
    let [shown, other] = [(), ()].map(|()| tempfile::tempdir_in("/tmp").unwrap());
    for folder in [&shown, &other] {
        std::fs::write(folder.path().join("file"), "words").unwrap();
    }
    let server = Server::with(&[("sandbox", "on"), ("sandbox_read", shown.path().to_str().unwrap())]);
    let looks = format!(
        "cat >/dev/null\nshown=$(cat {0}/file 2>/dev/null)\nother=$(cat {1}/file 2>/dev/null)\n\
         if (echo x > {0}/probe) 2>/dev/null; then written=yes; else written=no; fi\n\
         printf '{{\"success\":true,\"data\":{{\"shown\":\"%s\",\"other\":\"%s\",\"written\":\"%s\"}}}}' \"$shown\" \"$other\" $written\n",
        shown.path().display(),
        other.path().display()
    );
    for (id, scope) in [("looks", json!({})), ("only-looks", json!({"fs_scope": "read_only"}))] {
        server.skill(id, &looks, json!({"runner": {"automation": scope}}));
        let (_, run) = server.finished(id);
        let data = server.get(&format!("/v1/jobs/{run}/result")).json()["result"]["data"].take();
        assert_eq!(data, json!({"shown": "words", "other": "", "written": "no"}), "{id}");
    }
}

#[test]
fn a_pipe_and_a_program_at_work_can_be_shown_where_they_are_there_already() {
    if sandbox::left_out("file_scopes::a_pipe_and_a_program_at_work_can_be_shown_where_they_are_there_already") {
        return;
    }
    // Each is in a folder that is shown, too. The sandbox has a place for it then, and must not open what is there.
    let shown = tempfile::tempdir_in("/tmp").unwrap();
    let [pipe, program] = ["pipe", "program"].map(|name| shown.path().join(name));
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    // Copied by a process of its own: no other one that is started meanwhile can write to it.
    assert!(Command::new("cp").args(["/bin/sleep".as_ref(), program.as_os_str()]).status().unwrap().success());
    let mut at_work = Command::new(&program).arg("600").spawn().unwrap();
    let read = [shown.path(), &pipe, &program].map(|path| path.to_str().unwrap()).join(",");
    let server = Server::with(&[("sandbox", "on"), ("sandbox_read", &read)]);
    let looks = format!(
        "cat >/dev/null\nif test -p {} && test -x {}; then seen=true; else seen=false; fi\n\
         printf '{{\"success\":true,\"data\":{{\"seen\":%s}}}}' $seen\n",
        pipe.display(),
        program.display()
    );
    server.skill("looks", &looks, json!({"runner": {"automation": {"timeout_sec": 20}}}));
    let (_, run) = server.finished("looks");
    let result = server.get(&format!("/v1/jobs/{run}/result")).json();
    at_work.kill().unwrap();
    at_work.wait().unwrap();
    assert_eq!(result["result"]["data"], json!({"seen": true}), "{result}");
}

#[test]
fn a_scope_that_nobody_knows_is_taken_for_the_runs_own_folders_and_the_log_and_the_lint_say_so() {
    if sandbox::left_out(
        "file_scopes::a_scope_that_nobody_knows_is_taken_for_the_runs_own_folders_and_the_log_and_the_lint_say_so",
    ) {
        return;
    }
    let outside = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let outside = outside.path().to_str().unwrap();
    let server = Server::with(&[("sandbox", "on"), ("sandbox_write", outside)]);
    let (written, job) = run(&server, outside, Some("galaxy"));
    assert_eq!(written, "run artifacts result tmp ");
    let warnings = job["warnings"].as_array().unwrap();
    let codes: Vec<&Value> = warnings.iter().map(|warning| &warning["code"]).collect();
    assert_eq!(codes, ["ISOLATION_NOT_ENFORCED"], "{job:#}");
    assert_eq!(
        warnings[0]["message"],
        "automation.fs_scope: a value that is not known is not enforced: it is \"run\" or \"read_only\", and is taken for \"run\" here"
    );
    let skill = server.get("/v1/management/skills/writes-galaxy").json();
    assert_eq!(skill["isolation"]["not_enforced"], json!(["automation.fs_scope: a value that is not known"]));
    let findings = skill["warnings"].as_array().unwrap();
    let found: Vec<(&Value, &Value)> = findings.iter().map(|finding| (&finding["code"], &finding["pointer"])).collect();
    assert_eq!(found, [(&json!("FS_SCOPE_UNKNOWN"), &json!("/automation/fs_scope"))], "{skill:#}");
}

#[test]
fn without_a_sandbox_each_scope_is_said_not_to_be_enforced() {
    let outside = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let outside = outside.path().to_str().unwrap();
    let server = Server::with(&[("sandbox", "off")]);
    for (scope, asked) in [
        ("run", "automation.fs_scope: run"),
        ("read_only", "automation.fs_scope: read_only"),
        ("galaxy", "automation.fs_scope: a value that is not known"),
    ] {
        let (written, job) = run(&server, outside, Some(scope));
        assert_eq!(written, "run artifacts result tmp operator ");
        let warning = &job["warnings"][0];
        assert_eq!(
            (&warning["code"], &warning["details"]["asked"]),
            (&json!("ISOLATION_NOT_ENFORCED"), &json!([asked]))
        );
    }
}
