//! What front ends look at before and after a run: a request that is only checked, packages and their differences, audits, settings.

use std::fs;

use serde_json::{Value, json};

use crate::support::openapi::check;
use crate::support::skill::HELLO;
use crate::support::zips::zip_folder;
use crate::support::{Answer, Server, script_skill};

fn asked(server: &Server, method: &str, path: &str) -> Answer {
    let answer = server.call(method, path).send();
    check(method, path, &answer);
    answer
}

fn sent(server: &Server, path: &str, zip: &[u8]) -> Answer {
    let answer = server.call("POST", path).parts(&[("file", zip)]).send();
    check("POST", path, &answer);
    answer
}

#[test]
fn a_request_is_checked_as_its_creation_would_and_nothing_is_created() {
    let server = Server::start();
    let number = json!({"type": "object", "properties": {"n": {"type": "integer", "x-input-source": "inline"}, "f": {"x-input-source": "file"}}, "required": ["f"]});
    server.skill("counts", HELLO, json!({"input": number}));
    let good = json!({"skill_id": "counts", "input": {"n": 3}});
    let answer = server.post("/v1/jobs/check", &good);
    check("POST", "/v1/jobs/check", &answer);
    let planned = json!({"skill_id": "counts", "skill_version": "1.2.3", "engine": "script", "model": null,
        "execution_mode": "auto", "awaiting_files": ["f"]});
    assert_eq!((answer.status, answer.json()), (200, planned));
    for wrong in [
        json!({"skill_id": "counts", "input": {"n": "three"}}),
        json!({"skill_id": "counts", "input": {"other": 1}}),
        json!({"skill_id": "none"}),
        json!({"skill_id": "counts", "engine": "codex"}),
        json!({"input": {}}),
    ] {
        let (checked, created) = (server.post("/v1/jobs/check", &wrong), server.post("/v1/jobs", &wrong));
        check("POST", "/v1/jobs/check", &checked);
        assert!(checked.status >= 400, "{wrong}");
        assert_eq!((checked.status, checked.json()), (created.status, created.json()), "{wrong}");
    }
    assert_eq!(server.get("/v1/jobs").json()["jobs"], json!([]));
}

#[test]
fn the_service_audits_its_runs_and_what_others_bring() {
    let server = Server::start();
    server.skill(
        "writes",
        "cat >/dev/null\necho hello > artifacts/a.txt\necho '{\"success\":true,\"data\":{}}'\n",
        json!({}),
    );
    let (_, run) = server.finished("writes");
    let path = format!("/v1/jobs/{run}/audit");
    let report = asked(&server, "GET", &path).json();
    assert_eq!((&report["ok"], &report["violations"]), (&json!(true), &json!([])));
    assert_eq!(report["status"], "succeeded");
    for same in ["temp-skill-runs", "management/runs"] {
        assert_eq!(asked(&server, "GET", &format!("/v1/{same}/{run}/audit")).json(), report, "{same}");
    }

    let export = server.get(&format!("/v1/jobs/{run}/export")).body;
    let told = sent(&server, "/v1/management/audit", &export).json();
    assert_eq!((&told["ok"], &told["run_id"]), (&json!(true), &json!(run)));
    let mut changed = export.clone();
    let at = changed.windows(5).position(|bytes| bytes == b"hello").unwrap();
    changed[at] = b'H';
    let told = sent(&server, "/v1/management/audit", &changed).json();
    let rules: Vec<&Value> = told["violations"].as_array().unwrap().iter().map(|found| &found["rule"]).collect();
    assert_eq!((&told["ok"], rules[0]), (&json!(false), &json!("SEAL")), "{told}");
    assert!(told["violations"].as_array().unwrap().iter().any(|found| found["file"] == "artifacts/a.txt"), "{told}");
    let told = sent(&server, "/v1/management/audit", b"no zip at all").json();
    assert_eq!(told["ok"], false, "{told}");

    fs::write(server.run_dir(&run).join("artifacts/a.txt"), "HELLO\n").unwrap();
    let report = asked(&server, "GET", &path).json();
    assert_eq!(
        (&report["ok"], &report["violations"][0]["file"]),
        (&json!(false), &json!("artifacts/a.txt")),
        "{report}"
    );
    let uploads = server.left_behind().into_iter().filter(|path| path.starts_with("tmp/"));
    assert_eq!(uploads.collect::<Vec<_>>(), Vec::<String>::new(), "nothing that was sent is kept");
}

#[test]
fn a_package_is_looked_at_before_it_is_installed_and_its_versions_are_compared() {
    let server = Server::start();
    let place = tempfile::tempdir().unwrap();
    let package = |version: &str, sh: &str, more: Value| {
        let mut runner = json!({"version": version});
        runner.as_object_mut().unwrap().extend(more.as_object().cloned().unwrap());
        script_skill(place.path(), "demo", sh, json!({"runner": runner}));
        fs::write(place.path().join("demo/logo.png"), b"\x89PNG\r\n\x1a\nx").unwrap();
        fs::write(place.path().join("demo/assets/codex_config.toml"), "model = \"secret\"\n").unwrap();
        zip_folder(&place.path().join("demo"))
    };
    let first = package("1.0.0", "echo 1\n", json!({}));
    let told = sent(&server, "/v1/skill-packages/check", &first).json();
    assert_eq!((&told["action"], &told["replaces"], &told["refused"]), (&json!("install"), &Value::Null, &Value::Null));
    assert_eq!(told["skill"]["version"], "1.0.0");
    assert_eq!(told["skill"]["schemas"]["input"]["type"], "object", "a form can be made of it: {told}");
    assert_eq!(told["skill"]["effective_engines"], json!(["script"]));
    assert!(told["changes"].as_array().unwrap().iter().all(|change| change["change"] == "added"), "{told}");
    assert_eq!(server.get("/v1/skills/demo").status, 404, "nothing was installed");
    assert_eq!(sent(&server, "/v1/skill-packages/install?wait=60", &first).status, 202);

    let second = package("1.1.0", "echo 2\n", json!({"automation": {"network": "on"}}));
    let told = sent(&server, "/v1/skill-packages/check", &second).json();
    assert_eq!((&told["action"], &told["replaces"]["version"]), (&json!("update"), &json!("1.0.0")));
    assert_eq!(told["skill"]["automation"]["network"], "on");
    let script = told["changes"].as_array().unwrap().iter().find(|change| change["path"] == "scripts/run.sh").unwrap();
    let expected = json!({"path": "scripts/run.sh", "change": "changed", "diff": "@@ -1 +1 @@\n-echo 1\n+echo 2\n"});
    assert_eq!(script, &expected);
    sent(&server, "/v1/skill-packages/install?wait=60", &second);

    let told = sent(&server, "/v1/skill-packages/check", &first).json();
    assert_eq!((&told["action"], &told["refused"]["code"]), (&Value::Null, &json!("VERSION_NOT_NEWER")));
    fs::write(place.path().join("demo/SKILL.md"), "no front matter").unwrap();
    let told = sent(&server, "/v1/skill-packages/check", &zip_folder(&place.path().join("demo"))).json();
    assert_eq!((&told["skill"], &told["refused"]["code"]), (&Value::Null, &json!("SKILL_PACKAGE_INVALID")));
    assert!(!told["findings"].as_array().unwrap().is_empty(), "{told}");

    let skill = "/v1/management/skills/demo";
    let compared = asked(&server, "GET", &format!("{skill}/changes?from=1.0.0")).json();
    assert_eq!((&compared["from"]["version"], &compared["to"]["version"]), (&json!("1.0.0"), &json!("1.1.0")));
    assert!(compared["changes"].as_array().unwrap().contains(&expected), "{compared}");
    let back = asked(&server, "GET", &format!("{skill}/changes?from=1.1.0&to=1.0.0")).json();
    let reversed = "@@ -1 +1 @@\n-echo 2\n+echo 1\n";
    assert!(back["changes"].as_array().unwrap().iter().any(|change| change["diff"] == reversed), "{back}");
    let none = asked(&server, "GET", &format!("{skill}/changes?from=9.9.9"));
    assert_eq!(none.refusal(), (404, "SKILL_VERSION_NOT_FOUND".into()));

    let show = |rest: &str| asked(&server, "GET", &format!("{skill}/file?{rest}"));
    let text = json!({"skill_id": "demo", "version": "1.1.0", "path": "scripts/run.sh", "size": 7, "preview": "text",
        "mime": null, "content": "echo 2\n"});
    assert_eq!(show("path=scripts/run.sh").json(), text);
    assert_eq!(show("path=scripts/run.sh&version=1.0.0").json()["content"], "echo 1\n");
    let image = show("path=logo.png").json();
    assert_eq!((&image["preview"], &image["mime"]), (&json!("image"), &json!("image/png")));
    assert_eq!(image["content"], "iVBORw0KGgp4");
    assert_eq!(show("path=assets/codex_config.toml").refusal(), (403, "FILE_NOT_SHOWN".into()));
    for hidden in ["path=../demo/SKILL.md", "path=/etc/passwd", "path=none", "path=scripts"] {
        assert_eq!(show(hidden).refusal(), (404, "FILE_NOT_FOUND".into()), "{hidden}");
    }
    let secret = compared["changes"].as_array().unwrap().iter().any(|change| change.to_string().contains("secret"));
    assert!(!secret, "{compared}");
}

#[test]
fn the_settings_in_force_are_told_without_secrets() {
    let server = Server::with(&[("token", "t0ken-very-secret")]);
    let answer =
        server.call("GET", "/v1/management/settings").header("authorization", "Bearer t0ken-very-secret").send();
    check("GET", "/v1/management/settings", &answer);
    let settings = answer.json()["settings"].as_array().unwrap().clone();
    let port = settings.iter().find(|row| row["key"] == "token").unwrap();
    assert_eq!(port["variable"], "SKILL_RUNNER_TOKEN");
    assert!(!answer.text().contains("t0ken-very-secret"));
    assert!(settings.iter().any(|row| row["key"] == "max_queued_jobs" && row["source"] == "default"), "{settings:?}");
}
