//! `runs`, `show`, `result`, `rerun`, `rm`, `logs`: with and without a service, by id, by the begin of an id, and `last`.

use std::fs;
use std::net::SocketAddr;

use serde_json::json;

use super::place::Place;
use crate::support::{Call, script_skill};

/// Writes to standard output, and to standard error when it is told to.
const TALKS: &str = "cat > /dev/null\nmkfifo gate\n\
    echo '{\"success\":true,\"action\":\"run\",\"data\":{}}'\nread line < gate\necho one >&2\necho two >&2\n";

/// Ends when it is told to.
const GATED: &str =
    "cat > /dev/null\nmkfifo gate\necho ready >&2\nread line < gate\necho '{\"success\":true,\"data\":{}}'\n";

#[test]
fn runs_are_listed_shown_and_their_results_printed_with_and_without_a_service() {
    let place = Place::new();
    place.skill("bad", "cat > /dev/null\necho oh no >&2\nexit 1\n");
    assert_eq!(place.run(&["runs"]).stdout, "", "no data folder, no runs");
    let ran = place.run(&["run", "tiny", "--label", "team=x", "--label", "env=a", "--metadata", "{\"n\":1}", "--json"]);
    let good = ran.json()["run_id"].as_str().unwrap().to_owned();
    let bad = place.run(&["run", "bad", "--json"]).json()["run_id"].as_str().unwrap().to_owned();
    let all: &[&[&str]] = &[
        &["runs"],
        &["runs", "--status", "failed"],
        &["runs", "--skill", "tiny", "--since", "1h", "--engine", "script"],
        &["runs", "--label", "team=x", "--label", "env=a"],
        &["runs", "--label", "team=y"],
        &["runs", "--limit", "1"],
        &["show", "last"],
        &["show", &good],
        &["show", &good[..30]],
        &["result", &good],
        &["result", "last"],
        &["explain", "last"],
        &["logs", "last"],
    ];
    let alone: Vec<_> = all.iter().map(|args| place.run(args)).collect();
    let listed: Vec<Vec<&str>> =
        alone[..6].iter().map(|ran| ran.stdout.lines().map(|line| &line[..36]).collect()).collect();
    assert_eq!(listed, [vec![bad.as_str(), &good], vec![&bad], vec![&good], vec![&good], vec![], vec![&bad]]);
    let line: Vec<&str> = alone[3].stdout.trim_end().split('\t').collect();
    assert_eq!((line[1], line[3], line[4], line[6]), ("succeeded", "tiny", "script", "env=a,team=x"));
    assert!(alone[6].stdout.contains(&format!("next: `skill-runner explain {bad}` says why\n")), "{:?}", alone[6]);
    assert!(alone[7].stdout.contains("labels: env=a,team=x\nmetadata: {\"n\":1}\n"), "{:?}", alone[7]);
    assert_eq!(alone[7].stdout, alone[8].stdout, "the begin of an id is enough");
    assert_eq!((alone[9].code, alone[9].stdout.as_str()), (Some(0), "{\n  \"greeting\": \"hi\"\n}\n"));
    assert_eq!((alone[10].code, alone[10].stdout.as_str()), (Some(1), ""));
    assert!(
        alone[10].stderr.contains("error: ENGINE_FAILED: the script exited with status 1: oh no\n"),
        "{:?}",
        alone[10]
    );
    assert_eq!(alone[12].stdout, "oh no\n");
    let (_service, _) = place.start(&["serve", "--port", "0"], "listening on ");
    for (args, alone) in all.iter().zip(&alone) {
        let told = place.run(args);
        assert_eq!((told.code, &told.stdout, &told.stderr), (alone.code, &alone.stdout, &alone.stderr), "{args:?}");
    }
}

#[test]
fn ids_that_fit_no_run_or_several_are_told_apart() {
    let place = Place::new();
    assert_eq!(place.run(&["show", "last"]).code, Some(4));
    let one = place.finished_run();
    let other = place.run(&["run", "tiny", "--no-cache", "--json"]).json()["run_id"].as_str().unwrap().to_owned();
    let common: String = one.chars().zip(other.chars()).take_while(|(a, b)| a == b).map(|(a, _)| a).collect();
    assert!(common.len() >= 6, "{one} {other}");
    let ran = place.run(&["show", &common]);
    assert_eq!(ran.code, Some(2), "{ran:?}");
    assert!(ran.stderr.starts_with("error: several runs begin with ") && ran.stderr.contains(&one), "{ran:?}");
    for unknown in ["0000000", "nothing", "0192f0c1-2d3e-7f40-8a51-6b7c8d9e0f11"] {
        let ran = place.run(&["show", unknown]);
        assert_eq!(ran.code, Some(4), "{ran:?}");
        assert!(ran.stderr.starts_with("error: REQUEST_NOT_FOUND: "), "{ran:?}");
    }
    for wrong in
        [&["runs", "--status", "gone"][..], &["runs", "--since", "yesterday"], &["runs", "--label", "x"], &["rm"]]
    {
        assert_eq!(place.run(wrong).code, Some(2), "{wrong:?}");
    }
}

#[test]
fn a_run_is_run_again_and_deleted_with_and_without_a_service() {
    let place = Place::new();
    let script =
        r#"printf '{"success":true,"action":"run","data":{"asked":%s,"doc":"%s"}}' "$(cat)" "$(cat uploads/doc)""#;
    place.skill("reader", script);
    fs::write(place.path().join("some.txt"), "content").unwrap();
    let first = place.run(&["run", "reader", "--input", "name=ann", "--file", "doc=some.txt", "--json"]).json();
    let first = first["run_id"].as_str().unwrap();
    let again = |id: &str| {
        let ran = place.run(&["rerun", id, "--param", "n=3"]);
        assert_eq!(ran.code, Some(0), "{ran:?}");
        let data = ran.json();
        assert_eq!((&data["doc"], &data["asked"]["params"]["name"]), (&json!("content"), &json!("ann")), "{data}");
        assert_eq!(data["asked"]["params"]["n"], 3, "{data}");
    };
    again(first);
    let gone = |id: &str| {
        let ran = place.run(&["rm", id]);
        assert_eq!((ran.code, ran.stdout.lines().count()), (Some(0), 1), "{ran:?}");
        let run = ran.stdout.trim_end().strip_prefix("deleted ").unwrap().to_owned();
        assert_eq!(place.run(&["show", &run]).code, Some(4));
    };
    gone("last");
    let (_service, _) = place.start(&["serve", "--port", "0"], "listening on ");
    again(first);
    gone("last");
    gone(first);
    assert_eq!(place.run(&["rm", "last"]).code, Some(4));
}

#[test]
fn a_rerun_of_a_run_without_its_files_ends_and_does_not_wait_for_them() {
    let place = Place::new();
    let input = json!({"type": "object", "properties": {"doc": {"type": "string"}}, "required": ["doc"]});
    let script = "cat > /dev/null\necho '{\"success\":true,\"data\":{}}'\n";
    script_skill(&place.path().join("skills"), "reader", script, json!({"input": input}));
    let first = place.run(&["run", "reader"]);
    assert!(first.code == Some(1) && first.stderr.contains("error: MISSING_INPUT_FILES: "), "{first:?}");
    let again = place.run(&["rerun", "last"]);
    assert!(again.code == Some(1) && again.stderr.contains("error: MISSING_INPUT_FILES: "), "{again:?}");
    // Nor does one of a run that was canceled before its files came; nothing is left of it.
    let (_service, line) = place.start(&["serve", "--port", "0"], "listening on ");
    let address: SocketAddr = line.strip_prefix("listening on http://").unwrap().parse().unwrap();
    let waiting = Call::new(address, "POST", "/v1/jobs").json(&json!({"skill_id": "reader"})).send().json();
    let run = waiting["run_id"].as_str().unwrap();
    assert_eq!(place.run(&["cancel", run]).code, Some(0));
    let shown = place.run(&["show", run]);
    assert!(shown.stdout.contains("status: canceled\n") && !shown.stdout.contains("waits for"), "{shown:?}");
    let again = place.run(&["rerun", run]);
    assert_eq!((again.code, again.stdout.as_str()), (Some(1), ""), "{again:?}");
    let told = "error: MISSING_INPUT_FILES: the earlier run never got its files; give them with `skill-runner run SKILL --file KEY=PATH`\n";
    assert_eq!(again.stderr, told);
    let runs = place.run(&["runs"]);
    assert_eq!(runs.stdout.lines().count(), 3, "{runs:?}");
}

#[test]
fn every_command_that_takes_a_run_takes_last_and_the_begin_of_an_id() {
    let place = Place::new();
    let run = place.finished_run();
    for id in ["last", &run[..20]] {
        for (command, more) in [
            ("audit", &[][..]),
            ("show", &[]),
            ("result", &[]),
            ("explain", &["--path", "/data"]),
            ("logs", &[]),
            ("history", &[]),
            ("reparse", &[]),
            ("export", &["-o", "run.zip"]),
        ] {
            let ran = place.run(&[&[command, id], more].concat());
            assert_eq!(ran.code, Some(0), "{command} {id}: {ran:?}");
            let _ = fs::remove_file(place.path().join("run.zip"));
        }
    }
    // A file of that name is what is meant.
    fs::write(place.path().join("last"), "no event\n").unwrap();
    let audited = place.run(&["audit", "last"]);
    assert!(audited.code != Some(0) && !audited.stdout.contains(&run), "{audited:?}");
}

#[test]
fn logs_are_in_the_order_of_the_log_as_a_whole_by_event_and_by_bytes() {
    let place = Place::new();
    place.skill("talks", TALKS);
    let talking = place.start_run("talks", "raw.stdout");
    place.open_gate();
    assert_eq!(talking.end().code, Some(0));
    let merged = "{\"success\":true,\"action\":\"run\",\"data\":{}}\none\ntwo\n";
    let history = place.run(&["history", "last", "--json"]).json();
    let event = history["events"]
        .as_array()
        .unwrap()
        .iter()
        .find(|event| event["data"]["text"].as_str().is_some_and(|text| text.ends_with("two\n")))
        .unwrap();
    let (seq, text) = (event["seq"].to_string(), event["data"]["text"].as_str().unwrap());
    let all: &[(&[&str], &str)] = &[
        (&["logs", "last"], merged),
        (&["logs", "last", "-f"], merged),
        (&["logs", "last", "--stream", "stderr"], "one\ntwo\n"),
        (&["logs", "last", "--stream", "stdout"], "{\"success\":true,\"action\":\"run\",\"data\":{}}\n"),
        (&["logs", "last", "--event", &seq], text),
        (&["logs", "last", "--stream", "stdout", "--bytes", "2-9"], "success"),
        (&["logs", "last", "--stream", "stderr", "--bytes", "4-999"], "two\n"),
        (&["logs", "last", "--stream", "stderr", "--bytes", "8-8"], ""),
    ];
    let check = || {
        for (args, expected) in all {
            let ran = place.run(args);
            assert_eq!((ran.code, ran.stdout.as_str()), (Some(0), *expected), "{args:?}: {ran:?}");
        }
        for (args, code) in
            [(["--event", "1"], 4), (["--event", "999"], 4), (["--bytes", "1-2"], 2), (["--event", "0"], 2)]
        {
            assert_eq!(place.run(&[&["logs", "last"], &args[..]].concat()).code, Some(code), "{args:?}");
        }
    };
    check();
    let (_service, _) = place.start(&["serve", "--port", "0"], "listening on ");
    check();
}

#[test]
fn a_second_run_on_the_same_data_directory_waits_for_the_first_and_says_why() {
    let place = Place::new();
    place.skill("gated", GATED);
    let first = place.start_run("gated", "raw.stderr ready");
    let mut second = place.command(&["run", "tiny"]).spawn().unwrap();
    let mut said = std::io::BufReader::new(second.stderr.take().unwrap());
    let mut line = String::new();
    std::io::BufRead::read_line(&mut said, &mut line).unwrap();
    assert!(line.starts_with("another skill-runner uses this data directory: "), "{line}");
    place.open_gate();
    assert_eq!(first.end().code, Some(0));
    let ended = second.wait_with_output().unwrap();
    assert_eq!(
        (ended.status.code(), String::from_utf8(ended.stdout).unwrap().as_str()),
        (Some(0), "{\n  \"greeting\": \"hi\"\n}\n")
    );
    // A service does not wait.
    place.skill("also-gated", GATED);
    let _first = place.start_run("also-gated", "raw.stderr ready");
    let ran = place.run(&["serve", "--port", "0", "--log-level", "ERROR"]);
    assert_eq!(ran.code, Some(1), "{ran:?}");
    assert!(ran.stderr.contains("error: another skill-runner uses this data directory: "), "{ran:?}");
}

#[test]
fn the_demo_skills_run_in_a_folder_that_has_nothing_and_a_folders_own_skill_wins() {
    let place = Place::new();
    fs::remove_dir_all(place.path().join("skills")).unwrap();
    let ran = place.run(&["run", "demo-echo", "--input", "text=hi"]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    assert_eq!(ran.json()["text"], "hi");
    // What somebody tries next.
    let again = place.run(&["rerun", "last", "--input", "text=ho"]);
    assert_eq!((again.code, &again.json()["text"]), (Some(0), &json!("ho")), "{again:?}");
    let listed = place.run(&["skill", "list"]);
    assert!(listed.stderr.contains("the program has demo skills of its own: demo-echo, "), "{listed:?}");
    let shown = place.run(&["skill", "show", "demo-prime-number"]);
    assert!(shown.code == Some(0) && shown.stdout.contains("input_file"), "{shown:?}");
    fs::write(place.path().join("numbers.txt"), "2 3 4\n").unwrap();
    let primes = place.run(&["run", "demo-prime-number", "--file", "input_file=numbers.txt", "--param", "divisor=1"]);
    assert_eq!((primes.code, &primes.json()["primes"]), (Some(0), &json!([2, 3])), "{primes:?}");
    place.skill("demo-echo", "cat > /dev/null\necho '{\"success\":true,\"data\":{\"own\":true}}'\n");
    assert_eq!(place.run(&["run", "demo-echo"]).json(), json!({"own": true}));
    let ran = place.run(&["run", "demo-ech"]);
    assert_eq!(ran.code, Some(4));
    assert!(ran.stderr.contains("demo-echo, "), "{ran:?}");
}

#[test]
fn a_configuration_file_completions_and_manual_pages_are_written() {
    let place = Place::new();
    let ran = place.run(&["config", "init"]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    let text = fs::read_to_string(place.path().join("skill-runner.yaml")).unwrap();
    assert!(text.contains("\n# port to listen on; 0 takes any free one (SKILL_RUNNER_PORT)\n# port: 8000\n"), "{text}");
    assert_eq!(place.run(&["config"]).code, Some(0), "the file is a configuration");
    let again = place.run(&["config", "init"]);
    assert_eq!(again.code, Some(2), "{again:?}");
    assert_eq!(fs::read_to_string(place.path().join("skill-runner.yaml")).unwrap(), text, "it is not overwritten");
    for shell in ["bash", "zsh", "fish"] {
        let ran = place.run(&["completions", shell]);
        assert!(ran.code == Some(0) && ran.stdout.contains("rerun"), "{shell}");
    }
    assert!(place.run(&["man"]).stdout.contains(".TH skill-runner"));
    assert_eq!(place.run(&["man", "--into", "man1"]).code, Some(0));
    for page in ["skill-runner.1", "skill-runner-run.1", "skill-runner-skill-lint.1"] {
        let text = fs::read_to_string(place.path().join("man1").join(page)).unwrap();
        assert!(text.contains(page.trim_end_matches(".1")), "{page}: {text}");
    }
}

#[test]
fn a_service_says_what_it_works_with() {
    let place = Place::new();
    fs::create_dir_all(place.path().join("skills/broken")).unwrap();
    fs::write(place.path().join("skills/broken/SKILL.md"), "no front matter").unwrap();
    let (mut service, line) = place.start(&["serve", "--port", "0"], "listening on ");
    assert!(line.starts_with("listening on http://127.0.0.1:"), "{line}");
    assert!(service.next_line().starts_with("data: "));
    assert!(service.next_line().starts_with("skills: tiny in "));
    assert!(service.next_line().starts_with("  refused: broken: "));
    assert!(service.next_line().starts_with("engines ready: script"));
    service.signal(rustix::process::Signal::TERM);
    assert_eq!(service.end().code, Some(0));
    fs::remove_dir_all(place.path().join("skills")).unwrap();
    let (mut service, _) = place.start(&["serve", "--port", "0"], "skills: none in ");
    service.wait_for_stderr("there is no skills folder; write a skill with `skill-runner skill new NAME`");
    drop(service);
    fs::create_dir(place.path().join("skills")).unwrap();
    let (mut service, _) = place.start(&["serve", "--port", "0"], "skills: none in ");
    service.wait_for_stderr("the skills folder has no skill that can be used; write a skill with");
}

#[test]
fn a_service_without_skills_has_the_demos_until_there_is_one() {
    let place = Place::new();
    let _ = fs::remove_dir_all(place.path().join("skills"));
    let (mut service, line) = place.start(&["serve", "--port", "0"], "listening on ");
    let address: SocketAddr = line.strip_prefix("listening on http://").unwrap().parse().unwrap();
    let told = [service.next_line(), service.next_line()];
    assert!(told[1].contains("until there are, the demos: demo-echo"), "{told:?}");
    // A command beside the service does what it does without one.
    let ran = place.run(&["run", "demo-echo", "--input", "text=hi"]);
    assert_eq!((ran.code, &ran.json()["length"]), (Some(0), &json!(2)), "{ran:?}");
    let listed = || {
        let skills = Call::new(address, "GET", "/v1/skills").send().json()["skills"].take();
        let ids = skills.as_array().unwrap().iter().map(|skill| skill["id"].as_str().unwrap().to_owned());
        ids.collect::<Vec<String>>()
    };
    assert!(listed().contains(&"demo-prime-number".to_owned()), "{:?}", listed());
    let mistyped = place.run(&["run", "demo-ecko"]);
    let told = "error: SKILL_NOT_FOUND: no skill \"demo-ecko\" is installed; did you mean \"demo-echo\"? `skill-runner skill list` lists the skills\n";
    assert_eq!((mistyped.code, mistyped.stderr.as_str()), (Some(4), told));
    let body = json!({"skill_id": "demo-ecko", "input": {"text": "hi"}});
    let refused = Call::new(address, "POST", "/v1/jobs").json(&body).send();
    assert!(refused.status == 404 && refused.text().contains("demo-echo"), "{}", refused.text());
    place.skill("tiny", "cat >/dev/null\necho '{\"success\":true,\"data\":{}}'\n");
    assert_eq!(listed(), ["tiny"]);
    let body = json!({"skill_id": "demo-echo", "input": {"text": "hi"}});
    assert_eq!(Call::new(address, "POST", "/v1/jobs").json(&body).send().status, 404);
}

#[test]
fn a_data_folder_that_cannot_be_written_is_named() {
    let place = Place::new();
    fs::write(place.path().join("file"), "").unwrap();
    for args in [&["serve", "--port", "0"][..], &["run", "tiny"]] {
        let ran = place.run(&[args, &["--data-dir", "file/data"]].concat());
        assert_eq!(ran.code, Some(2), "{ran:?}");
        assert!(
            ran.stderr.contains("  data_dir (") && ran.stderr.contains("file/data): cannot be written: "),
            "{ran:?}"
        );
    }
}
