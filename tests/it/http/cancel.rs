//! Canceling, in every state a run can be in.

use serde_json::{Value, json};

use crate::support::Server;
use crate::support::skill::{GATED, HELLO};

/// Processes that carry the run's mark.
fn processes_of(run: &str) -> Vec<String> {
    let mark = format!("{}={run}", skill_runner::supervisor::RUN_MARKER);
    let marked = |pid: &String| {
        let environment = std::fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
        environment.split(|byte| *byte == 0).any(|variable| variable == mark.as_bytes())
    };
    let entries = std::fs::read_dir("/proc").unwrap().flatten();
    let pids = entries.map(|entry| entry.file_name().to_string_lossy().into_owned());
    pids.filter(|name| name.bytes().all(|byte| byte.is_ascii_digit())).filter(marked).collect()
}

fn cancel(server: &Server, id: &str) -> Value {
    let answer = server.call("POST", &format!("/v1/jobs/{id}/cancel")).send();
    assert_eq!(answer.status, 200, "{}", answer.text());
    answer.json()
}

#[test]
fn a_running_run_is_stopped_with_all_its_processes() {
    let server = Server::start();
    let sh = "cat >/dev/null\nsetsid sleep 1000 &\n(trap '' TERM; sleep 1000) &\nmkfifo gate\necho ready >&2\nread line < gate\n";
    server.skill("stubborn", sh, json!({}));
    let (request, run) = server.create("stubborn");
    server.wait_for(&run, "raw.stderr", "ready");
    assert!(!processes_of(&run).is_empty());
    assert_eq!(
        cancel(&server, &request),
        json!({
            "request_id": request, "run_id": run, "status": "running", "accepted": true,
            "message": "the run is being stopped",
        })
    );
    let events = server.finish(&run);
    assert_eq!(processes_of(&run), Vec::<String>::new());
    let last = events.last().unwrap();
    assert_eq!(
        (&last["type"], &last["data"]["status"], &last["data"]["error"]["code"]),
        (&json!("conversation.failed"), &json!("canceled"), &json!("CANCELED_BY_USER"))
    );
    let asked = events.iter().find(|event| event["type"] == "run.cancel.requested").unwrap();
    assert_eq!(asked["data"], json!({"requested_by": "client", "reason": "canceled over the API"}));
    let result = server.get(&format!("/v1/jobs/{request}/result")).json();
    assert_eq!(result["result"]["status"], "canceled");
}

#[test]
fn an_engine_that_still_finishes_its_work_does_not_undo_an_accepted_cancel() {
    let server = Server::start();
    let answer = r#"{"success":true,"data":{}}"#;
    let sh = format!(
        "cat >/dev/null\ntrap 'echo \"$ANSWER\"; exit 0' TERM\nANSWER='{answer}'\necho ready >&2\nwhile :; do sleep 1; done\n"
    );
    server.skill("late", &sh, json!({}));
    let (request, run) = server.create("late");
    server.wait_for(&run, "raw.stderr", "ready");
    assert_eq!(cancel(&server, &run)["accepted"], true);
    let events = server.finish(&run);
    assert!(events.iter().any(|event| event["type"] == "raw.stdout"), "the engine gave its answer: {events:?}");
    let last = events.last().unwrap();
    assert_eq!((&last["type"], &last["data"]["status"]), (&json!("conversation.failed"), &json!("canceled")));
    let result = server.get(&format!("/v1/jobs/{request}/result")).json();
    assert_eq!((&result["result"]["status"], &result["result"]["data"]), (&json!("canceled"), &json!(null)));
}

#[test]
fn a_final_run_stays_as_it_is() {
    let server = Server::start();
    server.skill("hello", HELLO, json!({}));
    let (request, run) = server.finished("hello");
    let before = server.get(&format!("/v1/jobs/{run}")).body;
    let expected = json!({
        "request_id": request, "run_id": run, "status": "succeeded", "accepted": false,
        "message": "the run is over already",
    });
    assert_eq!(cancel(&server, &run), expected);
    assert_eq!(cancel(&server, &run), expected);
    assert_eq!(server.get(&format!("/v1/jobs/{run}")).body, before);
}

#[test]
fn a_queued_run_never_starts() {
    let server = Server::with(&[("max_running_jobs", "1")]);
    server.skill("gated", GATED, json!({}));
    let (_, running) = server.create("gated");
    let (request, queued) = server.create("gated");
    server.wait_for(&running, "raw.stderr", "ready");
    assert_eq!(
        cancel(&server, &queued),
        json!({
            "request_id": request, "run_id": queued, "status": "canceled", "accepted": true,
            "message": "the run is canceled",
        })
    );
    let events = server.finish(&queued);
    assert!(events.iter().all(|event| event["type"] != "turn.started"));
    server.open_gate(&running, "on");
    server.finish(&running);
    assert_eq!(server.get("/v1/system").json()["queue"]["queued"], 0);
}

#[test]
fn a_run_that_waits_for_its_files_is_canceled_and_takes_none_then() {
    let server = Server::start();
    let input = json!({"type": "object", "properties": {"paper": {"type": "string"}}, "required": ["paper"]});
    server.skill("reader", HELLO, json!({"input": input}));
    let (request, run) = server.create("reader");
    let answer = cancel(&server, &request);
    assert_eq!((&answer["status"], &answer["accepted"]), (&json!("canceled"), &json!(true)));
    server.finish(&run);
    let zip = super::create::zip_of(&[("paper", b"late")]);
    let upload = server.call("POST", &format!("/v1/jobs/{request}/upload")).parts(&[("file", &zip)]).send();
    assert_eq!(upload.refusal(), (409, "RUN_FINAL".into()));
    assert!(server.left_behind().iter().all(|path| !path.contains("requests/")));
}

#[test]
fn many_cancels_at_once_are_one() {
    let server = Server::start();
    server.skill("gated", GATED, json!({}));
    let (_, run) = server.create("gated");
    server.wait_for(&run, "raw.stderr", "ready");
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| cancel(&server, &run));
        }
    });
    let events = server.finish(&run);
    assert_eq!(events.iter().filter(|event| event["type"] == "run.cancel.requested").count(), 1);
}

#[test]
fn a_run_nobody_knows_cannot_be_canceled() {
    let server = Server::start();
    for id in ["nothing", "0192f0c1-2d3e-7f40-8a51-6b7c8d9e0f11", "..%2F..", "%00"] {
        let answer = server.call("POST", &format!("/v1/jobs/{id}/cancel")).send();
        assert_eq!(answer.refusal(), (404, "REQUEST_NOT_FOUND".into()), "{id}");
    }
}

#[test]
fn a_cancel_while_large_artifacts_are_read_takes_effect_at_once() {
    let server = Server::start();
    // A hole of 3 GiB takes no disk, and seconds to read.
    let sh = "cat >/dev/null\nmkdir -p artifacts\ntruncate -s 3G artifacts/large.bin\necho '{\"success\":true,\"data\":{}}'\n";
    server.skill("large", sh, json!({}));
    let (request, run) = server.create("large");
    server.wait_for(&run, "turn.started", "");
    // The service is in this process: it reads the file when it has it open.
    let large = server.run_dir(&run).canonicalize().unwrap().join("artifacts/large.bin");
    let is_read = || {
        let open = std::fs::read_dir("/proc/self/fd").unwrap().flatten();
        open.filter_map(|fd| std::fs::read_link(fd.path()).ok()).any(|path| path == large)
    };
    while !is_read() {
        std::thread::yield_now();
    }
    assert_eq!(cancel(&server, &request)["accepted"], true);
    let events = server.finish(&run);
    let last = events.last().unwrap();
    assert_eq!(
        (&last["data"]["status"], &last["data"]["error"]["code"]),
        (&json!("canceled"), &json!("CANCELED_BY_USER"))
    );
    let result = server.get(&format!("/v1/jobs/{request}/result")).json()["result"].take();
    assert_eq!((&result["status"], &result["artifacts"]), (&json!("canceled"), &json!([])), "{result}");
    let warning = &result["validation_warnings"][0];
    assert_eq!(warning["code"], "ARTIFACT_REFUSED", "{result}");
    assert!(server.run_dir(&run).join(".aside-1-artifacts/large.bin").exists(), "nothing is lost");
}
