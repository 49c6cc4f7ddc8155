//! `engines` and `doctor`, alone and with a service.

use std::fs;
use std::io::{BufRead, BufReader};
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;

use serde_json::{Value, json};

use super::place::{Place, Ran};

/// A directory whose programs are scripts.
fn place_with(programs: &[(&str, &str)]) -> (Place, String) {
    let place = Place::new();
    let bin = place.path().join("bin");
    fs::create_dir(&bin).unwrap();
    for (name, text) in programs {
        fs::write(bin.join(name), format!("#!/bin/sh\n{text}\n")).unwrap();
        fs::set_permissions(bin.join(name), fs::Permissions::from_mode(0o755)).unwrap();
    }
    let path = format!("{}:/usr/bin:/bin", bin.display());
    (place, path)
}

fn run(place: &Place, path: &str, args: &[&str]) -> Ran {
    place.run_with(("PATH", path), args)
}

fn finding<'a>(report: &'a Value, check: &str) -> &'a Value {
    let all = report["findings"].as_array().unwrap();
    all.iter().find(|finding| finding["check"] == check).unwrap_or_else(|| panic!("{check} is not in {report}"))
}

#[test]
fn engines_are_listed_with_version_login_and_what_installs_the_missing() {
    let (place, path) = place_with(&[("claude", "echo '2.1.325 (Claude Code)'")]);
    let ran = run(&place, &path, &["engines", "--json"]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    let listed = ran.json();
    let claude = &listed["engines"][4];
    assert_eq!((&claude["engine"], &claude["cli_version_detected"]), (&json!("claude"), &json!("2.1.325")));
    let ran = run(&place, &path, &["engines"]);
    assert!(ran.stdout.contains("skill-runner engines --install codex"), "{ran:?}");
    let ran = run(&place, &path, &["engines", "--models", "codex"]);
    assert!(ran.stdout.lines().all(|line| line.contains('@')) && !ran.stdout.is_empty(), "{ran:?}");
    assert_eq!(run(&place, &path, &["engines", "--models", "none"]).code, Some(2));
}

#[test]
fn what_an_engine_is_configured_with_is_shown_with_the_source_of_each_value() {
    let place = Place::new();
    let configs = place.path().join("configs/codex");
    fs::create_dir_all(&configs).unwrap();
    fs::write(configs.join("default.toml"), "model = \"gpt-5.2-codex\"\n[x]\napi_key = \"canary\"\n").unwrap();
    let shown = place.run(&["config", "--engine", "codex", "--json"]);
    assert_eq!(shown.code, Some(0), "{shown:?}");
    assert!(!shown.stdout.contains("canary"), "{shown:?}");
    let document = shown.json();
    let default = configs.canonicalize().unwrap().join("default.toml");
    let of = |key: &str| {
        let values = document["values"].as_array().unwrap();
        let found = values.iter().find(|value| value["key"] == key).unwrap_or_else(|| panic!("no {key}: {document}"));
        (found["value"].clone(), found["source"].clone(), found["enforced"].clone())
    };
    assert_eq!(of("model"), (json!("gpt-5.2-codex"), json!(default), json!(false)));
    assert_eq!(of("x.api_key").0, json!("********"));
    assert_eq!(of("approval_policy"), (json!("never"), json!("built in"), json!(true)));
    assert_eq!(document["files"]["enforced"]["exists"], false);
    let told = place.run(&["config", "--engine", "codex"]);
    assert!(told.stdout.contains("enforced.toml: does not exist"), "{told:?}");
    fs::write(configs.join("enforced.toml"), "model = \"house-1\"\n").unwrap();
    let shown = place.run(&["config", "--engine", "codex", "--json"]).json();
    let enforced = configs.canonicalize().unwrap().join("enforced.toml");
    let model = shown["values"].as_array().unwrap().iter().find(|value| value["key"] == "model").unwrap();
    assert_eq!(
        (&model["value"], &model["source"], &model["enforced"]),
        (&json!("house-1"), &json!(enforced), &json!(true)),
        "{shown:#}"
    );
    fs::write(configs.join("enforced.toml"), "model = ").unwrap();
    let refused = place.run(&["config", "--engine", "codex"]);
    assert_eq!(refused.code, Some(2), "{refused:?}");
    assert!(refused.stderr.contains("enforced.toml") && refused.stderr.contains("it is not TOML"), "{refused:?}");
    let report = place.run(&["doctor", "--json"]).json();
    assert_eq!(finding(&report, "engine configuration")["grade"], "broken", "{report}");
    let unknown = place.run(&["config", "--engine", "vim"]);
    assert_eq!(unknown.code, Some(2), "{unknown:?}");
    assert!(unknown.stderr.contains("it may be codex, gemini"), "{unknown:?}");
}

#[test]
fn an_engine_is_installed_and_a_failed_installation_is_exit_status_1() {
    let npm = "mkdir -p node_modules/.bin; echo at work; for word; do package=$word; done
        case $package in @google/*) printf '#!/bin/sh\\necho 0.61.0\\n' > node_modules/.bin/gemini; chmod +x node_modules/.bin/gemini;; *) exit 1;; esac";
    let (place, path) = place_with(&[("npm", npm)]);
    let ran = run(&place, &path, &["engines", "--install", "gemini"]);
    assert_eq!((ran.code, ran.stdout.as_str()), (Some(0), "gemini 0.61.0 is installed\n"), "{ran:?}");
    assert!(ran.stderr.contains("at work"), "{ran:?}");
    let ran = run(&place, &path, &["engines", "--install", "codex", "--json"]);
    assert_eq!((ran.code, &ran.json()["status"]), (Some(1), &json!("failed")), "{ran:?}");
}

#[test]
fn what_npm_says_is_seen_while_it_is_at_work() {
    // It goes on only when its first words were seen.
    let npm = "echo at work; until [ -e ../../seen ]; do sleep 0.05; done; exit 1";
    let (place, path) = place_with(&[("npm", npm)]);
    let mut command = place.command(&["engines", "--install", "gemini"]);
    let mut child = command.env("PATH", &path).spawn().unwrap();
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines().map_while(Result::ok);
    let seen = lines.find(|line| line.contains("at work"));
    assert!(seen.is_some(), "npm has ended before anybody saw what it said");
    fs::write(place.path().join("seen"), "").unwrap();
    lines.for_each(drop);
    assert_eq!(child.wait().unwrap().code(), Some(1));
}

#[test]
fn the_doctor_names_what_is_broken_with_its_fix() {
    let (place, path) = place_with(&[("claude", "exit 1")]);
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port().to_string();
    let doctor = |port: &str| {
        let mut command = place.command(&["doctor", "--json"]);
        command.env("PATH", &path).env("SKILL_RUNNER_PORT", port);
        let output = command.output().unwrap();
        (output.status.code(), serde_json::from_slice::<Value>(&output.stdout).unwrap())
    };
    let (code, report) = doctor("0");
    assert_eq!((code, &report["ok"]), (Some(0), &json!(true)), "{report}");
    assert_eq!(finding(&report, "skills")["grade"], "ok");
    assert!(finding(&report, "engine claude")["message"].as_str().unwrap().contains("--version failed"));
    assert!(finding(&report, "engine codex")["fix"].as_str().unwrap().contains("engines --install codex"));

    let (code, report) = doctor(&port);
    assert_eq!((code, &finding(&report, "port")["grade"]), (Some(1), &json!("broken")), "{report}");
    let (code, report) = doctor("many");
    assert_eq!((code, &finding(&report, "configuration")["grade"]), (Some(1), &json!("broken")), "{report}");

    fs::remove_dir_all(place.path().join("skills")).unwrap();
    let (code, report) = doctor("0");
    assert_eq!((code, &finding(&report, "skills")["grade"]), (Some(0), &json!("warning")), "{report}");
}

#[test]
fn the_doctor_asks_the_running_service() {
    let (place, _) = place_with(&[]);
    let (_running, line) = place.start(&["serve", "--port", "0"], "listening on ");
    let ran = place.run(&["doctor", "--json"]);
    let report = ran.json();
    let url = line.strip_prefix("listening on ").unwrap();
    assert_eq!(finding(&report, "service")["message"], json!(format!("running at {url}")), "{report}");
    assert_eq!(finding(&report, "event store")["grade"], "ok");
    assert_eq!(place.run(&["engines", "--json"]).json()["engines"][6]["engine"], "script");
}
