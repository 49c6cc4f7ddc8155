//! The README and the operator's page, taken at their word.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use skill_runner::settings::Settings;

use crate::interactive::pose::{Pose, says};
use crate::support::{SHIPPED, Server};

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
    let told = String::from_utf8(ran.stderr).unwrap();
    assert_eq!(ran.status.code(), Some(0), "{told}");
    for shown in ["demo-prime-number", "100% ", "succeeded after ", "primes.md"] {
        assert!(told.contains(shown), "{shown}: {told}");
    }
    let result: serde_json::Value = serde_json::from_slice(&ran.stdout).unwrap();
    assert!(result["primes"].is_array(), "{result}");
}

#[test]
fn the_requests_of_the_readme_work_one_after_the_other() {
    let readme = page("README.md");
    let requests = readme.split("```sh\n").find(|block| block.starts_with("# create a run")).unwrap();
    let server = Server::with(&[SHIPPED]);
    let script = requests.split("```").next().unwrap().replace("127.0.0.1:8000", &server.address.to_string());
    let place = tempfile::tempdir().unwrap();
    std::os::unix::fs::symlink(SHIPPED.1, place.path().join("skills")).unwrap();
    let ran = Command::new("sh").args(["-e", "-c", &script]).current_dir(place.path()).output().unwrap();
    let told = String::from_utf8(ran.stdout).unwrap();
    assert!(ran.status.success(), "{told}{}", String::from_utf8_lossy(&ran.stderr));
    let order = [
        "\"normalized\": false",
        "\"extracted_files\":[\"input_file\"]",
        "event: snapshot",
        "id: 1\n",
        "conversation.completed",
        "\"primes\": [",
        "# ",
    ];
    let mut rest = told.as_str();
    for shown in order {
        rest = rest.split_once(shown).unwrap_or_else(|| panic!("no {shown:?}: {told}")).1;
    }
}

#[test]
fn a_skill_runs_once_as_the_operators_page_says() {
    let operations = page("docs/operations.md");
    let requests = operations.split("```sh\n").find(|block| block.contains("skill_package=@")).unwrap();
    let server = Server::start();
    let script = requests.split("```").next().unwrap().replace("127.0.0.1:8000", &server.address.to_string());
    let place = tempfile::tempdir().unwrap();
    std::os::unix::fs::symlink(SHIPPED.1, place.path().join("skills")).unwrap();
    let ran = Command::new("sh").args(["-e", "-c", &script]).current_dir(place.path()).output().unwrap();
    assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
    let told: serde_json::Value = serde_json::from_slice(&ran.stdout).unwrap();
    assert_eq!(told["status"], "queued", "{told}");
    let job = server.get(&format!("/v1/temp-skill-runs/{}", told["request_id"].as_str().unwrap())).json();
    server.finish(job["run_id"].as_str().unwrap());
}

#[test]
fn a_run_asks_and_is_answered_as_the_page_on_interactive_runs_says() {
    let told_how = page("docs/interactive.md");
    let requests = told_how.split("```sh\n").nth(1).unwrap();
    let pose = Pose::new();
    pose.plays(&[says("What is your name?"), says(r#"{"name": "Ann", "colour": "red", "__SKILL_DONE__": true}"#)]);
    let command = pose.command();
    let server = Server::with(&[SHIPPED, ("engines.codex.command", &command)]);
    let script = requests.split("```").next().unwrap().replace("127.0.0.1:8000", &server.address.to_string());
    let ran = Command::new("sh").args(["-e", "-c", &script]).output().unwrap();
    let told = String::from_utf8(ran.stdout).unwrap();
    assert!(ran.status.success(), "{told}{}", String::from_utf8_lossy(&ran.stderr));
    let answers: Vec<serde_json::Value> =
        serde_json::Deserializer::from_str(&told).into_iter().collect::<Result<_, _>>().unwrap();
    let [pending, receipt, _] = answers.as_slice() else { panic!("{told}") };
    assert_eq!(pending["pending"]["prompt"], "What is your name?", "{told}");
    assert_eq!((&receipt["status"], &receipt["accepted"]), (&"queued".into(), &true.into()), "{told}");
    let job = server.get(&format!("/v1/jobs/{}", receipt["request_id"].as_str().unwrap())).json();
    let events = server.finish(job["run_id"].as_str().unwrap());
    assert_eq!(events.last().unwrap()["type"], "conversation.completed");
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
        .map(|key| match key.strip_prefix("engines.").and_then(|of_one| of_one.rsplit_once('.')) {
            Some((_, what)) => format!("engines.<name>.{what}"),
            None => key,
        })
        .filter(|key| !operations.contains(&format!("`{key}`")))
        .collect();
    assert_eq!(missing, Vec::<String>::new());
}

#[test]
fn every_crate_is_accounted_for() {
    let told = page("docs/dependencies.md");
    let manifest = page("Cargo.toml");
    let sections = manifest.split("\n[").filter(|section| section.split(']').next().unwrap().contains("dependencies"));
    let names = sections.flat_map(|section| section.lines().skip(1)).filter_map(|line| line.split_once(" = "));
    let names: Vec<&str> = names.map(|(name, _)| name.trim()).filter(|name| !name.starts_with('#')).collect();
    assert!(names.len() > 20, "{names:?}");
    let words: Vec<&str> = told.split(|c: char| !(c.is_alphanumeric() || c == '-' || c == '_')).collect();
    let missing: Vec<&&str> = names.iter().filter(|name| !words.contains(name)).collect();
    assert_eq!(missing, Vec::<&&str>::new());
}
