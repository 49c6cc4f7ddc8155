//! schemathesis sends the running service what the document allows and what it forbids; no answer may surprise it.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};

use crate::interactive::pose::{Pose, says};
use crate::interactive::service::Service;
use crate::support::{Call, script_skill, tools, zips};

const TOKEN: &str = "t0ken";
/// Longest time for all requests on a loaded machine; alone they take half a minute.
const LONGEST: &str = "600";
/// Runs that schemathesis may cancel and delete.
const VICTIMS: usize = 25;

const WRITES: &str =
    "cat >/dev/null\nmkdir -p artifacts\nprintf hello > artifacts/a.md\necho '{\"success\":true,\"data\":{\"n\":1}}'\n";

fn skill(skills: &Path, id: &str, sh: &str) {
    let input = json!({"type": "object", "properties": {"n": {"type": "integer", "x-input-source": "inline"}}});
    script_skill(skills, id, sh, json!({ "input": input }));
}

/// What `tests/api/hooks.py` is told of the service: runs, skills and an installation that are there.
fn known(service: &Service) -> Value {
    let ask = |call: Call| {
        let answer = call.header("authorization", &format!("Bearer {TOKEN}")).send();
        assert!(answer.status < 300, "{}", answer.text());
        answer.json()
    };
    let post = |path: &str, body: Value| ask(Call::new(service.address, "POST", path).json(&body));
    let ended =
        ["writes", "fails"].map(|skill| post("/v1/jobs?wait=60", json!({"skill_id": skill, "input": {"n": 1}})));
    let asks = json!({"skill_id": "ask", "engine": "codex", "runtime_options": {"execution_mode": "interactive"}});
    let asking = post("/v1/jobs?wait=60", asks);
    assert_eq!(asking["status"], "waiting_user", "{asking}");
    let waiting = post("/v1/jobs", json!({"skill_id": "writes", "await_upload": true}));
    let victim = |n| {
        let run = post("/v1/jobs", json!({"skill_id": "writes", "await_upload": true, "labels": {"victim": n}}));
        let run = run["run_id"].as_str().unwrap().to_owned();
        post(&format!("/v1/jobs/{run}/cancel"), json!({}));
        run
    };
    let victims: Vec<String> = (0..VICTIMS).map(|n| victim(n.to_string())).collect();
    let brought = tempfile::tempdir().unwrap();
    skill(brought.path(), "brought", WRITES);
    let package = zips::zip_folder(&brought.path().join("brought"));
    let install = Call::new(service.address, "POST", "/v1/skill-packages/install?wait=60").parts(&[("file", &package)]);
    let installation = ask(install);
    let open = [asking, waiting];
    let ids = |runs: &[Value], id: &str| runs.iter().map(|run| run[id].clone()).collect::<Vec<_>>();
    let all = [&ended[..], &open[..]].concat();
    let kept = [ids(&all, "run_id"), ids(&all, "request_id")].concat();
    json!({
        "ended": ids(&ended, "run_id"), "open": ids(&open, "run_id"),
        "kept": kept,
        "victims": victims, "skills": ["writes", "fails", "ask"], "skill_victim": "brought",
        "installation": installation["request_id"], "artifact": "artifacts/a.md", "file": "artifacts/a.md",
    })
}

#[test]
fn schemathesis_finds_no_answer_that_the_document_does_not_tell_of() {
    let Some(python) = tools::python("the API tried by schemathesis") else { return };
    let folder = tempfile::tempdir().unwrap();
    let skills = folder.path().join("skills");
    skill(&skills, "writes", WRITES);
    skill(&skills, "fails", "cat >/dev/null\necho bad >&2\nexit 3\n");
    // An upgrade of engines is begun and fails at once: nothing is installed.
    let programs = folder.path().join("programs");
    fs::create_dir(&programs).unwrap();
    fs::write(programs.join("npm"), "#!/bin/sh\necho 'not here' >&2\nexit 1\n").unwrap();
    fs::set_permissions(programs.join("npm"), fs::Permissions::from_mode(0o755)).unwrap();
    let path = format!("{}:{}", programs.display(), std::env::var("PATH").unwrap());
    let pose = Pose::new();
    pose.plays(&[says("What is your name?"), says("And the colour?")]);
    let home = folder.path().to_str().unwrap();
    let service = Service::set(folder.path(), &pose, &[("SKILL_RUNNER_TOKEN", TOKEN), ("PATH", &path), ("HOME", home)]);
    let url = format!("http://{}", service.address);

    let mut schemathesis = Command::new("timeout");
    // Its report and its cache of examples stay in the folder.
    schemathesis
        .args(["--kill-after=10", LONGEST])
        .arg(python.with_file_name("schemathesis"))
        .current_dir(folder.path());
    let config = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/api/schemathesis.toml");
    let hooks = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/api/hooks.py");
    schemathesis.args(["--no-color", "--config-file", config, "run", &format!("{url}/v1/openapi.json")]);
    schemathesis.env("SCHEMATHESIS_HOOKS", hooks).env("PYTHONDONTWRITEBYTECODE", "1").env("HOME", home);
    schemathesis.env("API_TEST_KNOWN", known(&service).to_string()).env("API_TEST_URL", &url);
    schemathesis.env("API_TEST_TOKEN", TOKEN);
    tools::succeeds(&mut schemathesis);
    let alive = Call::new(service.address, "GET", "/healthz").send();
    assert_eq!(alive.status, 200);
}
