//! `history`, `skill`, `config`, and the help of every command.

use std::fs;

use serde_json::json;

use super::place::Place;

#[test]
fn the_history_in_ndjson_is_the_stored_log_byte_for_byte() {
    let place = Place::new();
    let run = place.finished_run();
    let stored = fs::read_to_string(place.run_folder(&run).join("logs/events.jsonl")).unwrap();
    let ran = place.run(&["history", &run, "--ndjson"]);
    assert_eq!((ran.code, ran.stdout), (Some(0), stored.clone()));
    let ran = place.run(&["history", &run, "--ndjson", "--from-seq", "3", "--to-seq", "4"]);
    let wanted: String = stored.lines().skip(2).take(2).map(|line| format!("{line}\n")).collect();
    assert_eq!((ran.code, ran.stdout), (Some(0), wanted));
}

#[test]
fn the_history_is_found_by_request_id_too_and_reads_as_lines() {
    let place = Place::new();
    let document = place.run(&["run", "tiny", "--json"]).json();
    let request = document["request_id"].as_str().unwrap();
    let ran = place.run(&["history", request]);
    assert_eq!((ran.code, ran.stdout.lines().count()), (Some(0), 10), "{ran:?}");
    let progress = ran.stdout.lines().find(|line| line.contains("run.progress")).unwrap();
    assert!(progress.ends_with("40% computing"), "{ran:?}");
    let ran = place.run(&["history", request, "--json"]);
    let events = ran.json();
    assert_eq!((&events["run_id"], &events["count"]), (&document["run_id"], &json!(10)));
    assert_eq!(events["events"][0]["type"], json!("conversation.started"));
}

#[test]
fn an_unknown_run_is_an_error_with_4_and_makes_no_data_directory() {
    let place = Place::new();
    let unknown = "0192f3c1-8a54-7cc2-b0a1-d2f8a6c1e9b7";
    for command in ["history", "audit"] {
        let ran = place.run(&[command, unknown]);
        assert_eq!((ran.code, ran.stdout.as_str()), (Some(4), ""), "{ran:?}");
        assert!(ran.stderr.starts_with("error: there are no runs in "), "{ran:?}");
    }
    assert!(!place.path().join("data").exists());
    place.finished_run();
    for command in ["history", "audit"] {
        let ran = place.run(&[command, unknown]);
        assert_eq!((ran.code, ran.stdout.as_str()), (Some(4), ""), "{ran:?}");
        assert_eq!(ran.stderr, format!("error: REQUEST_NOT_FOUND: no run has the request id or run id {unknown:?}\n"));
    }
    assert_eq!(place.run(&["history", "not-an-id"]).code, Some(4));
    let reversed = place.run(&["history", unknown, "--from-seq", "5", "--to-seq", "2"]);
    assert_eq!((reversed.code, reversed.stderr.as_str()), (Some(2), "error: --to-seq must not be before --from-seq\n"));
}

#[test]
fn a_good_skill_passes_the_lint_and_a_bad_one_is_told_every_place() {
    let place = Place::new();
    let ran = place.run(&["skill", "lint", "skills/tiny"]);
    assert_eq!((ran.code, ran.stdout.as_str()), (Some(0), "tiny 1.2.3 is ok\n"), "{ran:?}");

    let dir = place.skill("bad", "true\n");
    fs::write(
        dir.join("assets/runner.json"),
        r#"{"id":"other","version":"one","execution_modes":["auto"],"schemas":{}}"#,
    )
    .unwrap();
    let ran = place.run(&["skill", "lint", "skills/bad"]);
    assert_eq!(ran.code, Some(1), "{ran:?}");
    assert!(ran.stdout.contains("error assets/runner.json#/version: "), "{ran:?}");
    assert!(ran.stdout.contains("\n  hint: "), "{ran:?}");
    let ran = place.run(&["skill", "lint", "skills/bad", "--json"]);
    let findings = ran.json();
    assert_eq!((ran.code, &findings["ok"]), (Some(1), &json!(false)));
    let pointers: Vec<_> = findings["findings"].as_array().unwrap().iter().map(|found| &found["pointer"]).collect();
    assert!(pointers.contains(&&json!("/version")), "{findings}");
    assert_eq!(place.run(&["skill", "lint", "nowhere"]).code, Some(2));
}

#[test]
fn installed_skills_are_listed_the_broken_ones_too() {
    let place = Place::new();
    fs::create_dir(place.path().join("skills/broken")).unwrap();
    let ran = place.run(&["skill", "list"]);
    let firsts: Vec<&str> = ran.stdout.lines().filter_map(|line| line.split_whitespace().next()).collect();
    assert_eq!((ran.code, firsts), (Some(0), vec!["broken", "tiny"]), "{ran:?}");
    let listed = place.run(&["skill", "list", "--json"]).json();
    assert_eq!(
        (&listed["skills"][0]["valid"], &listed["skills"][1]["id"], &listed["skills"][1]["engines"]),
        (&json!(false), &json!("tiny"), &json!(["script"]))
    );
    let ran = place.run(&["skill", "list", "--skills-dir", "elsewhere"]);
    assert_eq!((ran.code, ran.stdout.as_str()), (Some(0), ""));
    assert!(ran.stderr.starts_with("there are no skills in ") && ran.stderr.contains("elsewhere; choose "), "{ran:?}");
}

#[test]
fn the_configuration_shows_sources_and_masks_secrets() {
    let place = Place::new();
    fs::write(place.path().join("skill-runner.yaml"), "port: 1234\n").unwrap();
    let ran = place.run_with(("SKILL_RUNNER_TOKEN", "hush-hush"), &["config", "--data-dir", "/elsewhere"]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    let line = |key: &str| {
        let found = ran.stdout.lines().find(|line| line.starts_with(key)).unwrap();
        found.split_whitespace().map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(line("token"), ["token", "********", "SKILL_RUNNER_TOKEN"]);
    assert_eq!(line("port"), ["port", "1234", "skill-runner.yaml"]);
    assert_eq!(line("data_dir"), ["data_dir", "/elsewhere", "--data-dir"]);
    assert!(!ran.stdout.contains("hush"), "{ran:?}");
    let ran = place.run_with(("SKILL_RUNNER_TOKEN", "hush-hush"), &["config", "--json"]);
    assert!(!ran.stdout.contains("hush"), "{ran:?}");
    let settings = ran.json();
    let token = json!({"key": "token", "value": "********", "source": "SKILL_RUNNER_TOKEN", "variable": "SKILL_RUNNER_TOKEN",
        "about": "secret that clients send as Authorization: Bearer"});
    assert!(settings["settings"].as_array().unwrap().contains(&token), "{settings}");
}

#[test]
fn every_problem_of_the_configuration_is_named_with_its_place() {
    let place = Place::new();
    fs::write(place.path().join("skill-runner.yaml"), "prot: 1\nport: many\n").unwrap();
    for args in [&["config"][..], &["run", "tiny"], &["serve"]] {
        let ran = place.run_with(("SKILL_RUNNER_HEARTBEAT_SECONDS", "0"), args);
        assert_eq!((ran.code, ran.stdout.as_str()), (Some(2), ""), "{args:?}: {ran:?}");
        for named in [
            "prot (skill-runner.yaml): ",
            "port (skill-runner.yaml): ",
            "heartbeat_seconds (SKILL_RUNNER_HEARTBEAT_SECONDS): ",
        ] {
            assert!(ran.stderr.contains(named), "{named}: {ran:?}");
        }
    }
    let ran = place.run(&["config", "--config", "missing.yaml"]);
    assert_eq!(ran.code, Some(2));
    assert!(ran.stderr.contains("the file (missing.yaml): "), "{ran:?}");
}

/// The commands that a help text lists.
fn listed(help: &str) -> Vec<String> {
    let list = help.split("Commands:\n").nth(1).unwrap_or_default().split("\n\n").next().unwrap();
    let names =
        list.lines().filter_map(|line| line.strip_prefix("  ")?.split_whitespace().next().map(|name| (line, name)));
    // A description that goes on is further to the right.
    let names = names.filter(|(line, name)| line.starts_with(&format!("  {name}")) && *name != "help");
    names.map(|(_, name)| name.to_owned()).collect()
}

#[test]
fn every_command_has_help_with_examples_that_can_be_copied() {
    let place = Place::new();
    let mut waiting: Vec<Vec<String>> = vec![vec![]];
    let mut seen = 0;
    while let Some(command) = waiting.pop() {
        let args: Vec<&str> = command.iter().map(String::as_str).chain(["--help"]).collect();
        let ran = place.run(&args);
        assert_eq!(ran.code, Some(0));
        let example = ran.stdout.split("Example").nth(1).unwrap_or_default();
        let name = format!("skill-runner {}", command.join(" "));
        assert!(example.contains(&name), "{command:?}: {ran:?}");
        let lines = example.lines().skip(1).filter(|line| !line.is_empty());
        // One that is broken at the edge of the help is two commands to whoever copies it.
        lines.for_each(|line| assert!(line.contains("skill-runner"), "{command:?}: {line}"));
        waiting.extend(listed(&ran.stdout).into_iter().map(|below| [command.clone(), vec![below]].concat()));
        seen += 1;
    }
    assert!(seen > 35, "{seen}");
}
