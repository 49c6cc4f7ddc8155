//! `watch` beside a service, and what the service itself says: why a run failed, what one waits for, what goes on.

use std::net::SocketAddr;

use rustix::process::Signal;
use serde_json::json;

use super::place::{Place, Ran, Running};
use crate::support::skill::GATED;
use crate::support::{Call, script_skill};

/// A service of the place, and its address.
fn service(place: &Place) -> (Running, SocketAddr) {
    let (running, line) = place.start(&["serve", "--port", "0"], "listening on ");
    (running, line.strip_prefix("listening on http://").unwrap().parse().unwrap())
}

fn created(address: SocketAddr, skill: &str) -> String {
    let answer = Call::new(address, "POST", "/v1/jobs").json(&json!({"skill_id": skill})).send();
    assert_eq!(answer.status, 201, "{}", answer.text());
    answer.json()["run_id"].as_str().unwrap().to_owned()
}

/// The lines that tell why a run failed: from the cause to what to do next.
fn told(text: &str) -> Vec<String> {
    let from = text.lines().skip_while(|line| !line.starts_with("error: "));
    let mut lines: Vec<String> = Vec::new();
    for line in from {
        lines.push(line.to_owned());
        if line.starts_with("next: ") {
            break;
        }
    }
    lines
}

#[test]
fn run_watch_result_and_explain_tell_a_failure_in_the_same_words() {
    let place = Place::new();
    let output =
        json!({"type": "object", "properties": {"n": {"type": "integer"}, "list": {"items": {"type": "string"}}}});
    let script =
        "cat > /dev/null\necho thinking >&2\necho '{\"success\":true,\"data\":{\"n\":\"three\",\"list\":[\"a\",7]}}'\n";
    script_skill(&place.path().join("skills"), "wrong", script, json!({"output": output}));
    let alone = place.run(&["run", "wrong", "--no-cache"]);
    let (_service, _) = service(&place);
    let ran = place.run(&["run", "wrong", "--no-cache"]);
    assert_eq!((alone.code, ran.code), (Some(1), Some(1)), "{ran:?}");
    let expected = told(&ran.stderr);
    let shown: Vec<&str> = expected.iter().map(String::as_str).collect();
    let [cause, decided, head, places @ .., tail, next] = shown.as_slice() else { panic!("{ran:?}") };
    assert!(cause.starts_with("error: SCHEMA_VALIDATION_FAILED: "), "{ran:?}");
    assert!(decided.starts_with("decided by: event ") && decided.ends_with(", output.normalized"), "{decided}");
    assert_eq!((*head, *tail), ("the output breaks its schema:", "  thinking"));
    assert!(next.len() > "next: ".len(), "{next}");
    let pointers: Vec<&str> = places
        .iter()
        .filter_map(|line| line.strip_prefix("  /")?.split_once(':'))
        .map(|(pointer, _)| pointer)
        .collect();
    assert!(pointers == ["list/1", "n"] || pointers == ["n", "list/1"], "{places:?}");
    let bytes = places.iter().filter(|line| line.contains(" of logs/stdout.txt, event "));
    assert_eq!(bytes.count(), 2, "{places:?}");
    let watched = place.run(&["watch", "last"]);
    assert_eq!((watched.code, told(&watched.stdout)), (Some(1), expected.clone()), "{watched:?}");
    let explained = place.run(&["explain", "last"]);
    assert_eq!((explained.code, told(&explained.stdout)), (Some(0), expected.clone()), "{explained:?}");
    let result = place.run(&["result", "last"]);
    assert_eq!((result.code, told(&result.stderr)), (Some(1), expected.clone()), "{result:?}");
    // Another run has other numbers of events, and its own id in the advice.
    let words = |lines: &[String]| {
        let cause = &lines[..lines.len() - 1];
        cause.join("\n").replace(|letter: char| letter.is_ascii_digit(), "")
    };
    assert_eq!(words(&told(&alone.stderr)), words(&expected), "without a service");
}

#[test]
fn a_watch_that_is_interrupted_says_that_the_run_goes_on() {
    let place = Place::new();
    place.skill("gated", GATED);
    let (_service, address) = service(&place);
    let run = created(address, "gated");
    let (watching, _) = place.start(&["watch", &run, "--verbose"], "raw.stderr ready");
    watching.signal(Signal::INT);
    let Ran { code, stderr, .. } = watching.end();
    assert_eq!(
        (code, stderr),
        (
            Some(130),
            format!(
                "\nno longer watching; the run goes on\n  `skill-runner watch {run}` watches it again, `skill-runner cancel {run}` cancels it\n"
            )
        )
    );
    assert!(place.run(&["show", &run]).stdout.contains("status: running\n"));
    place.open_gate();
    let watched = place.run(&["watch", &run]);
    let last = watched.stdout.lines().last().unwrap();
    assert!(last.starts_with("succeeded after ") && last.ends_with(&format!(", run {run}")), "{watched:?}");
    assert_eq!(watched.code, Some(0));
}

#[test]
fn a_run_that_waits_for_files_is_told_so_by_show_result_and_watch() {
    let place = Place::new();
    let input = json!({"type": "object", "properties": {"doc": {"type": "string"}}, "required": ["doc"]});
    let script = "cat > /dev/null\necho '{\"success\":true,\"data\":{}}'\n";
    script_skill(&place.path().join("skills"), "reader", script, json!({"input": input}));
    let (_service, address) = service(&place);
    let run = created(address, "reader");
    let waits = format!("waits for its files: doc; send them to the service with POST /v1/jobs/{run}/upload");
    let shown = place.run(&["show", &run]);
    assert!(shown.stdout.contains(&format!("\n{waits}\n")), "{shown:?}");
    let result = place.run(&["result", &run]);
    assert_eq!(
        (result.code, result.stderr.as_str()),
        (Some(1), format!("error: RESULT_NOT_READY: the run {waits}\n").as_str()),
        "{result:?}"
    );
    let (watching, _) = place.start(&["watch", &run], &format!("the run {waits}"));
    let upload = Call::new(address, "POST", &format!("/v1/jobs/{run}/upload")).files(&[("doc", "doc.txt", b"text")]);
    assert_eq!(upload.send().status, 200);
    assert_eq!(watching.end().code, Some(0));
}

#[test]
fn a_service_says_which_runs_it_recovered_and_which_it_waits_for() {
    let place = Place::new();
    place.skill("gated", GATED);
    std::fs::write(place.path().join("skill-runner.yaml"), "drain_grace_seconds: 3000\n").unwrap();
    let (killed, address) = service(&place);
    let interrupted = created(address, "gated");
    let (_, _) = place.start(&["watch", &interrupted, "--verbose"], "raw.stderr ready");
    drop(killed);
    let (mut again, line) = place.start(&["serve", "--port", "0"], "listening on ");
    let address: SocketAddr = line.strip_prefix("listening on http://").unwrap().parse().unwrap();
    let told = [again.next_line(), again.next_line()];
    assert!(told[0].starts_with("data: "), "{told:?}");
    assert_eq!(told[1], "runs recovered from an earlier service: 1\n");
    let explained = place.run(&["explain", &interrupted]);
    assert!(explained.stdout.contains("error: ORCHESTRATOR_RESTART_INTERRUPTED: "), "{explained:?}");
    let run = created(address, "gated");
    let (_, _) = place.start(&["watch", &run, "--verbose"], "raw.stderr ready");
    again.signal(Signal::INT);
    again.wait_for_stderr(&format!("waiting up to 3000 s for the runs {run}; press Ctrl-C again to end them at once"));
    std::fs::write(place.run_folder(&run).join("gate"), "go\n").unwrap();
    assert_eq!(again.end().code, Some(0));
    assert!(place.run(&["show", &run]).stdout.contains("status: succeeded\n"));
}
