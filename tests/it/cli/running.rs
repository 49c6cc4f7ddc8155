//! `run`: events, result, exit status, files, cancel.

use std::fs;

use rustix::process::Signal;
use serde_json::json;

use super::place::Place;
use crate::support::script_skill;
use crate::support::terminal::Terminal;

#[test]
fn a_run_prints_its_result_on_standard_output_and_all_else_on_standard_error() {
    let place = Place::new();
    let ran = place.run(&["run", "tiny", "--input", "name=ann"]);
    assert_eq!((ran.code, ran.stdout.as_str()), (Some(0), "{\n  \"greeting\": \"hi\"\n}\n"), "{ran:?}");
    let run = fs::read_dir(place.path().join("data/runs")).unwrap().next().unwrap().unwrap().path();
    let run = run.canonicalize().unwrap();
    let id = run.file_name().unwrap().to_str().unwrap();
    let said: Vec<&str> = ran.stderr.lines().collect();
    assert_eq!(said[..2], [&format!("run {id}: tiny 1.2.3 on script"), "40% computing"]);
    assert!(said[2].starts_with("succeeded after ") && said[2].ends_with(&format!(", run {id}")), "{ran:?}");
    let artifact = format!("  {} (text/plain, 5 bytes)", run.join("artifacts/note.txt").display());
    assert_eq!(said[3..], ["artifacts:", &artifact]);
}

#[test]
fn with_v_every_event_is_one_line() {
    let place = Place::new();
    let ran = place.run(&["run", "tiny", "-v"]);
    assert_eq!((ran.code, ran.json()), (Some(0), json!({"greeting": "hi"})), "{ran:?}");
    let events: Vec<&str> = ran.stderr.lines().take_while(|line| line.starts_with('#')).collect();
    assert_eq!((events.len(), events[0]), (10, "#1 conversation.started tiny 1.2.3 on script"), "{ran:?}");
    assert!(events.iter().any(|line| line.ends_with(" run.progress 40% computing")), "{ran:?}");
    assert!(events.last().unwrap().contains("conversation.completed succeeded"), "{ran:?}");
}

#[test]
fn with_json_standard_output_is_one_document() {
    let place = Place::new();
    let ran = place.run(&["run", "tiny", "--json"]);
    let document = ran.json();
    assert_eq!((ran.code, &document["status"]), (Some(0), &json!("succeeded")));
    assert_eq!((&document["result"]["data"], &document["head_seq"]), (&json!({"greeting": "hi"}), &json!(10)));
}

#[test]
fn a_failed_run_says_why_and_ends_with_1() {
    let place = Place::new();
    let answer =
        r#"{"success":false,"action":"run","error":{"code":"NO_LUCK","message":"not today","details":{"day":1}}}"#;
    place.skill("unlucky", &format!("cat > /dev/null\necho '{answer}'\nexit 3\n"));
    let ran = place.run(&["run", "unlucky"]);
    assert_eq!((ran.code, ran.stdout.as_str()), (Some(1), ""), "{ran:?}");
    let said: Vec<&str> = ran.stderr.lines().skip(1).collect();
    let id = said[0].rsplit(' ').next().unwrap();
    assert!(said[0].starts_with("failed after "), "{ran:?}");
    assert_eq!(said[1..3], ["error: NO_LUCK: not today", "decided by: event 6, conversation.failed"]);
    let next = format!("next: this code is the skill's own; `skill-runner logs {id}` shows what it wrote");
    assert_eq!(said[3..5], ["day: 1", &next]);
    assert!(said[5].starts_with("logs: /"), "{ran:?}");
    // `explain` tells the same.
    let told = place.run(&["explain", id]);
    assert_eq!((told.code, told.stdout.lines().skip(1).collect::<Vec<_>>()), (Some(0), said[1..5].to_vec()));
    let ran = place.run(&["run", "unlucky", "--json"]);
    assert_eq!((ran.code, &ran.json()["error"]["code"]), (Some(1), &json!("NO_LUCK")));
}

#[test]
fn a_script_that_fails_is_told_with_its_last_error_line_and_the_end_of_its_standard_error() {
    let place = Place::new();
    let script = "cat > /dev/null\nprintf 'Traceback:\\n  File x\\nModuleNotFoundError: No module named pandas\\n' >&2\nexit 1\n";
    place.skill("pandas", script);
    let ran = place.run(&["run", "pandas"]);
    assert_eq!((ran.code, ran.stdout.as_str()), (Some(1), ""), "{ran:?}");
    let cause = "error: ENGINE_FAILED: the script exited with status 1: ModuleNotFoundError: No module named pandas\n";
    let tail = "standard error ends with:\n  Traceback:\n    File x\n  ModuleNotFoundError: No module named pandas\n";
    for said in [cause, tail, "decided by: event 4, raw.stderr\n"] {
        assert!(ran.stderr.contains(said), "{said}: {ran:?}");
    }
}

#[test]
fn a_file_is_uploaded_under_its_key() {
    let place = Place::new();
    let script =
        r#"cat > /dev/null; printf '{"success":true,"action":"run","data":{"doc":"%s"}}' "$(cat uploads/doc)""#;
    place.skill("reader", script);
    fs::write(place.path().join("some.txt"), "content of it").unwrap();
    let ran = place.run(&["run", "reader", "--file", "doc=some.txt", "--json"]);
    assert_eq!(ran.json()["result"]["data"], json!({"doc": "content of it"}), "{ran:?}");

    let ran = place.run(&["run", "reader", "--file", "other=some.txt", "--json"]);
    assert_eq!((ran.code, &ran.json()["error"]["code"]), (Some(5), &json!("UNKNOWN_INPUT_KEY")), "{ran:?}");

    let ran = place.run(&["run", "reader", "--file", "doc=missing.txt"]);
    assert_eq!((ran.code, ran.stdout.as_str()), (Some(2), ""));
    assert!(ran.stderr.contains("--file doc=missing.txt: "), "{ran:?}");

    let input = json!({"type": "object", "properties": {"doc": {"type": "string"}}, "required": ["doc"]});
    script_skill(&place.path().join("skills"), "reader", script, json!({"input": input}));
    let ran = place.run(&["run", "reader"]);
    assert_eq!(ran.code, Some(1), "{ran:?}");
    for said in [
        "error: MISSING_INPUT_FILES: required input files are missing: doc\n",
        "next: give each file with --file KEY=PATH\n",
    ] {
        assert!(ran.stderr.contains(said), "{ran:?}");
    }
}

#[test]
fn values_reach_the_skill_as_json_where_they_are_json_and_else_as_text() {
    let place = Place::new();
    let script = r#"printf '{"success":true,"action":"run","data":{"asked":%s}}' "$(cat)""#;
    place.skill("echo", script);
    let ran = place.run(&[
        "run",
        "echo",
        "--input",
        "name=3 apples",
        "--param",
        "n=3",
        "--param",
        "list=[1,\"x\"]",
        "--json",
    ]);
    let params = &ran.json()["result"]["data"]["asked"]["params"];
    assert_eq!((&params["name"], &params["n"], &params["list"]), (&json!("3 apples"), &json!(3), &json!([1, "x"])));

    let ran = place.run(&["run", "echo", "--input", "name=3"]);
    assert_eq!((ran.code, ran.stdout.as_str()), (Some(5), ""), "{ran:?}");
    assert!(
        ran.stderr.starts_with("error: INPUT_VALIDATION_FAILED: ") && ran.stderr.contains("\n  --input name: "),
        "{ran:?}"
    );
}

#[test]
fn a_folder_outside_the_skills_folder_is_run_where_it_lies() {
    let place = Place::new();
    fs::rename(place.path().join("skills"), place.path().join("elsewhere")).unwrap();
    let ran = place.run(&["run", "./elsewhere/tiny", "--json"]);
    assert_eq!((ran.code, &ran.json()["status"]), (Some(0), &json!("succeeded")));
    let ran = place.run(&["run", "./elsewhere"]);
    assert_eq!(ran.code, Some(4), "{ran:?}");
    let ran = place.run(&["run", "./nowhere"]);
    assert_eq!(ran.code, Some(2), "{ran:?}");
}

#[test]
fn an_unknown_skill_is_named_and_nothing_is_made() {
    let place = Place::new();
    let ran = place.run(&["run", "nope"]);
    assert_eq!((ran.code, ran.stdout.as_str()), (Some(4), ""));
    assert!(ran.stderr.starts_with("error: SKILL_NOT_FOUND: no skill \"nope\""), "{ran:?}");
    assert!(!place.path().join("data").exists());
}

#[test]
fn wrong_usage_ends_with_2() {
    let place = Place::new();
    for wrong in [
        &["run"][..],
        &["run", "tiny", "--input", "novalue"],
        &["run", "tiny", "--input", "a=1", "--input", "a=2"],
        &["run", "tiny", "--timeout", "0"],
        &["run", "tiny", "--server", "ftp://x"],
        &["frobnicate"],
        &["run", "tiny", "--config", "missing.yaml"],
    ] {
        let ran = place.run(wrong);
        assert_eq!((ran.code, ran.stdout.as_str()), (Some(2), ""), "{wrong:?}: {ran:?}");
        assert!(!ran.stderr.is_empty());
    }
}

#[test]
fn a_run_that_takes_too_long_is_ended() {
    let place = Place::new();
    place.skill("slow", "sleep 600\n");
    let ran = place.run(&["run", "slow", "--timeout", "1", "--json"]);
    assert_eq!((ran.code, &ran.json()["error"]["code"]), (Some(1), &json!("TIMEOUT")));
}

#[test]
fn ctrl_c_cancels_the_run_and_shows_its_end() {
    let place = Place::new();
    place.skill("slow", "sleep 600\n");
    let running = place.start_run("slow", "turn.started");
    running.signal(Signal::INT);
    let ran = running.end();
    assert_eq!(ran.code, Some(130), "{ran:?}");
    assert_eq!(ran.stdout, "");
    for said in [
        "canceling the run and waiting for its end; press Ctrl-C again to quit at once\n",
        "\ncanceled after ",
        "\nerror: CANCELED_BY_USER: ",
    ] {
        assert!(ran.stderr.contains(said), "{said}: {ran:?}");
    }
}

#[test]
fn a_second_ctrl_c_quits_at_once_and_leaves_no_process() {
    let place = Place::new();
    place.skill("stubborn", "trap '' TERM INT\necho ready >&2\nwhile :; do sleep 600; done\n");
    let settings = place.path().join("skill-runner.yaml");
    fs::write(&settings, "kill_grace_seconds: 60\n").unwrap();
    let mut running = place.start_run("stubborn", "raw.stderr ready");
    running.signal(Signal::INT);
    running.wait_for_stderr("canceling the run and waiting for its end; press Ctrl-C again to quit at once");
    running.wait_for_stderr("run.cancel.requested");
    running.signal(Signal::INT);
    let ran = running.end();
    assert_eq!((ran.code, ran.stdout.as_str()), (Some(130), ""), "{ran:?}");
    assert!(!ran.stderr.contains("canceled after "), "it did not wait: {ran:?}");
    // The next command finds the run where it was left, and ends it.
    fs::remove_file(&settings).unwrap();
    let shown = place.run(&["run", "tiny"]);
    assert_eq!(shown.code, Some(0), "{shown:?}");
    let runs = place.run(&["runs", "--skill", "stubborn", "--json"]).json();
    assert!(["canceled", "failed"].contains(&runs["jobs"][0]["status"].as_str().unwrap()), "{runs:#}");
}

#[test]
fn an_upload_that_is_refused_leaves_no_run_behind() {
    let place = Place::new();
    fs::write(place.path().join("some.txt"), "text").unwrap();
    let refuse = || {
        let ran = place.run(&["run", "tiny", "--file", "other=some.txt"]);
        assert_eq!(ran.code, Some(5), "{ran:?}");
        assert_eq!(ran.stderr, "error: UNKNOWN_INPUT_KEY: the skill has no file input \"other\"; it has doc\n");
        assert_eq!(place.run(&["runs"]).stdout, "", "a run was left");
    };
    refuse();
    let (_service, _) = place.start(&["serve", "--port", "0"], "listening on ");
    refuse();
}

#[test]
fn what_is_wrong_with_the_values_is_told_in_flags() {
    let place = Place::new();
    let name = json!({"type": "string", "x-input-source": "inline"});
    let input =
        json!({"type": "object", "properties": {"name": name, "doc": {"type": "string"}}, "required": ["name"]});
    let parameter = json!({"type": "object", "properties": {"n": {"type": "integer", "minimum": 1}}});
    script_skill(&place.path().join("skills"), "strict", "", json!({"input": input, "parameter": parameter}));
    for (args, told) in [
        (
            &[][..],
            "INPUT_VALIDATION_FAILED: --input does not match the skill's schema\n  --input name=VALUE: is required\n",
        ),
        (
            &["--input", "name=x", "--param", "n=0"],
            "PARAMETER_VALIDATION_FAILED: --param does not match the skill's schema\n  --param n: 0 is less than the minimum of 1\n",
        ),
        (
            &["--input", "name=x", "--input", "doc=some.txt"],
            "FILE_INPUT_INLINE: give the file with --file KEY=PATH instead of --input\n  --input doc: it is a file; give it with --file doc=PATH\n",
        ),
    ] {
        let ran = place.run(&[&["run", "strict"], args].concat());
        assert_eq!((ran.code, ran.stderr.as_str()), (Some(5), format!("error: {told}").as_str()), "{args:?}");
    }
    assert_eq!(place.run(&["runs"]).stdout, "", "what was refused made no run");
}

#[test]
fn a_write_that_fails_in_the_store_ends_the_process_at_once() {
    let place = Place::new();
    // Files may not grow past half a KiB here, so the store's first write fails.
    let script = format!("trap '' XFSZ; ulimit -f 1; exec '{}' run tiny --json", env!("CARGO_BIN_EXE_skill-runner"));
    let mut shell = std::process::Command::new("sh");
    shell.args(["-c", &script]).current_dir(place.path()).env_clear().env("PATH", std::env::var_os("PATH").unwrap());
    let ended = shell.output().unwrap();
    let stderr = String::from_utf8(ended.stderr).unwrap();
    assert_eq!((ended.status.code(), ended.stdout), (Some(1), Vec::new()), "{stderr}");
    assert!(stderr.contains("the event store failed; ending"), "{stderr}");
    // The next start finds a data folder it can use.
    assert_eq!(place.run(&["run", "tiny"]).code, Some(0));
}

/// What a run writes on a terminal.
fn on_a_terminal(place: &Place, variables: &[(&str, &str)]) -> String {
    let mut command = place.command(&["run", "tiny", "--no-cache"]);
    command.envs(variables.iter().copied());
    let (code, shown) = Terminal::start(command, 80).end();
    assert_eq!(code, Some(0), "{shown}");
    shown
}

#[test]
fn on_a_terminal_progress_is_a_moving_line_and_colours_can_be_turned_off() {
    let place = Place::new();
    let bar = "\r\u{1b}[2K████████░░░░░░░░░░░░  40% computing";
    let (green, plain) = ("\u{1b}[32msucceeded\u{1b}[0m after ", "succeeded after ");
    let shown = on_a_terminal(&place, &[]);
    assert!(shown.contains(bar) && shown.contains(green), "{shown:?}");
    let shown = on_a_terminal(&place, &[("NO_COLOR", "1")]);
    assert!(shown.contains(bar) && shown.contains(plain) && !shown.contains("\u{1b}[32m"), "{shown:?}");
    let shown = on_a_terminal(&place, &[("TERM", "dumb")]);
    assert!(shown.contains("40% computing") && !shown.contains('\u{1b}'), "{shown:?}");
}
