//! The README and the operator's page, taken at their word.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::{Value, json};
use skill_runner::settings::Settings;

use crate::support::Server;

fn page(name: &str) -> String {
    fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(name)).unwrap()
}

#[test]
fn the_first_command_of_the_readme_shows_events_and_a_result() {
    let readme = page("README.md");
    let line = readme.lines().find_map(|line| line.strip_prefix("cargo run -- ")).unwrap();
    let data = tempfile::tempdir().unwrap();
    let ran = Command::new(env!("CARGO_BIN_EXE_skill-runner"))
        .args(line.split_whitespace())
        .arg("--data-dir")
        .arg(data.path())
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .env_clear()
        .env("PATH", std::env::var_os("PATH").unwrap())
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let told = String::from_utf8(ran.stdout).unwrap();
    assert_eq!((ran.status.code(), String::from_utf8(ran.stderr).unwrap()), (Some(0), String::new()), "{told}");
    for shown in
        ["#1 conversation.started", "run.progress 100%", "conversation.completed", "primes.md", "\"primes\": ["]
    {
        assert!(told.contains(shown), "{shown}: {told}");
    }
}

#[test]
fn the_request_of_the_readme_creates_a_run_that_succeeds() {
    let readme = page("README.md");
    let body = readme.lines().find_map(|line| line.trim().strip_prefix("-d '")?.strip_suffix('\'')).unwrap();
    let body: Value = serde_json::from_str(body).unwrap();
    let server = Server::start();
    let skills = Path::new(env!("CARGO_MANIFEST_DIR")).join("skills");
    let id = body["skill_id"].as_str().unwrap();
    copy(&skills.join(id), &server.folder.path().join("skills").join(id));
    let answer = server.post("/v1/jobs?wait=30", &body);
    assert_eq!((answer.status, &answer.json()["status"]), (201, &json!("succeeded")), "{}", answer.text());
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap().flatten() {
        if entry.file_type().unwrap().is_dir() {
            copy(&entry.path(), &to.join(entry.file_name()));
        } else {
            fs::copy(entry.path(), to.join(entry.file_name())).unwrap();
        }
    }
}

#[test]
fn every_file_the_readme_leads_to_is_there() {
    let readme = page("README.md");
    let links: Vec<&str> = readme.split("](").skip(1).filter_map(|rest| rest.split(')').next()).collect();
    assert!(links.len() > 3, "{links:?}");
    for link in links {
        assert!(Path::new(env!("CARGO_MANIFEST_DIR")).join(link).is_file(), "{link}");
    }
}

#[test]
fn every_setting_stands_on_the_operators_page() {
    let operations = page("docs/operations.md");
    let settings = Settings::load(None, &Default::default(), &[], 2).unwrap();
    let missing: Vec<String> = settings
        .describe()
        .iter()
        .map(|setting| setting.key.clone())
        // One row stands for all engines.
        .map(|key| if let Some((_, what)) = key.rsplit_once('.') { format!("engines.<name>.{what}") } else { key })
        .filter(|key| !operations.contains(&format!("`{key}`")))
        .collect();
    assert_eq!(missing, Vec::<String>::new());
}
