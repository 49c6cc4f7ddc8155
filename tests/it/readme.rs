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

/// A folder that has nothing, and a shell in it that knows the program by its name.
fn shell(place: &Path, script: &str) -> Command {
    let program = Path::new(env!("CARGO_BIN_EXE_skill-runner"));
    let found = [program.parent().unwrap().to_path_buf()].into_iter();
    let path = std::env::join_paths(found.chain(std::env::split_paths(&std::env::var_os("PATH").unwrap()))).unwrap();
    let mut shell = Command::new("sh");
    shell.args(["-e", "-c", script]).current_dir(place).env_clear().env("PATH", path).stdin(Stdio::null());
    shell
}

/// The commands of a block of a page, for a service at this address.
fn commands(page: &str, of: impl Fn(&str) -> bool, address: &str) -> String {
    let block = page.split("```sh\n").skip(1).map(|rest| rest.split("```").next().unwrap()).find(|block| of(block));
    block.unwrap().replace("127.0.0.1:8000", address)
}

#[test]
fn the_first_command_of_the_readme_shows_events_and_a_result_in_any_folder() {
    let script = commands(&page("README.md"), |block| block.contains("cargo run -- run"), "");
    let place = tempfile::tempdir().unwrap();
    let ran = shell(place.path(), &script.replace("cargo run -- ", "skill-runner ")).output().unwrap();
    let told = String::from_utf8(ran.stderr).unwrap();
    assert_eq!(ran.status.code(), Some(0), "{told}");
    for shown in ["demo-prime-number", "100% ", "succeeded after ", "primes.md"] {
        assert!(told.contains(shown), "{shown}: {told}");
    }
    let result: serde_json::Value = serde_json::from_slice(&ran.stdout).unwrap();
    assert!(result["primes"].is_array(), "{result}");
}

#[test]
fn the_examples_of_the_page_about_the_api_work_one_after_the_other() {
    let page = page("docs/api.md");
    let blocks: Vec<&str> = page.split("```sh\n").skip(1).map(|block| block.split("```").next().unwrap()).collect();
    let server = Server::with(&[SHIPPED]);
    let script = blocks.join("\n").replace("127.0.0.1:8000", &server.address.to_string());
    let place = tempfile::tempdir().unwrap();
    std::os::unix::fs::symlink(SHIPPED.1, place.path().join("skills")).unwrap();
    let ran = Command::new("sh").args(["-e", "-c", &script]).current_dir(place.path()).output().unwrap();
    let told = String::from_utf8(ran.stdout).unwrap();
    assert!(ran.status.success(), "{told}{}", String::from_utf8_lossy(&ran.stderr));
    let order = [
        "x-request-id: my-call-1",
        "\"status\":\"succeeded\"",
        "waited for",
        "run ",
        "run ",
        "\"status\":\"succeeded\"",
        "retry: 2000",
        "event: snapshot",
        "\nid: 1\n",
        "conversation.completed",
        "\nid: 4\n",
        "\n204\n",
        "\"counts\":{\"total\":3,",
        "INVALID_REQUEST",
    ];
    let mut rest = told.as_str();
    for shown in order {
        let at = rest.find(shown).unwrap_or_else(|| panic!("no {shown:?} in {rest}\n\nof {told}"));
        rest = &rest[at + shown.len()..];
    }
    let runs: Vec<&str> = told.lines().filter(|line| line.starts_with("run ")).collect();
    assert_eq!((runs.len(), runs[0]), (2, runs[1]));
}

#[test]
fn the_requests_of_the_readme_work_one_after_the_other_in_any_folder() {
    let server = Server::with(&[SHIPPED]);
    let script = commands(&page("README.md"), |block| block.starts_with("# create a run"), &server.address.to_string());
    let place = tempfile::tempdir().unwrap();
    let ran = shell(place.path(), &script).output().unwrap();
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
    let server = Server::start();
    let with_package = |block: &str| block.contains("skill_package=@");
    let script = commands(&page("docs/operations.md"), with_package, &server.address.to_string());
    let place = tempfile::tempdir().unwrap();
    let ran = shell(place.path(), &script).output().unwrap();
    assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
    // The commands that make the package say so first.
    let told = String::from_utf8(ran.stdout).unwrap();
    let told: serde_json::Value = serde_json::from_str(told.lines().last().unwrap()).unwrap();
    assert_eq!(told["status"], "queued", "{told}");
    let job = server.get(&format!("/v1/temp-skill-runs/{}", told["request_id"].as_str().unwrap())).json();
    server.finish(job["run_id"].as_str().unwrap());
}

#[test]
fn a_run_asks_and_is_answered_as_the_page_on_interactive_runs_says() {
    let pose = Pose::new();
    pose.plays(&[says("What is your name?"), says(r#"{"name": "Ann", "colour": "red", "__SKILL_DONE__": true}"#)]);
    let command = pose.command();
    let server = Server::with(&[SHIPPED, ("engines.codex.command", &command)]);
    let script = commands(&page("docs/interactive.md"), |_| true, &server.address.to_string());
    let place = tempfile::tempdir().unwrap();
    let ran = shell(place.path(), &script).output().unwrap();
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
