//! Requests that meet each other on one run: each is answered as if it came before or after the others.

use std::thread;

use serde_json::json;

use crate::crash::until;
use crate::support::Server;
use crate::support::skill::HELLO;

#[test]
fn whoever_reads_a_run_while_it_is_deleted_gets_it_or_hears_that_it_is_not_there() {
    let server = Server::start();
    server.skill("hello", HELLO, json!({}));
    for _ in 0..15 {
        let (_, run) = server.finished("hello");
        let at = |path: &str| format!("/v1/jobs/{run}/{path}");
        thread::scope(|scope| {
            for path in ["export", "bundle", "explain", "result", "logs", "events/history", "artifacts"] {
                for _ in 0..2 {
                    let call = server.call("GET", &at(path));
                    scope.spawn(move || {
                        // A connection that is cut while the answer is sent is no wrong answer.
                        let Some(answer) = call.try_send() else { return };
                        assert!([200, 404].contains(&answer.status), "{path}: {}", answer.text());
                    });
                }
            }
            let delete = server.call("DELETE", &format!("/v1/jobs/{run}"));
            scope.spawn(move || assert_eq!(delete.send().status, 200));
        });
        assert_eq!(server.get(&at("result")).refusal(), (404, "REQUEST_NOT_FOUND".into()));
    }
    let damage = std::fs::read_to_string(server.data().join("damage.json")).unwrap_or("{}".into());
    assert_eq!(damage.trim(), "{}");
}

/// A skill whose run has many files, so that whatever goes over them takes a while.
const FILES: &str =
    "cat > /dev/null\nfor n in $(seq 300); do echo $n > artifacts/$n; done\necho '{\"success\":true,\"data\":{}}'\n";

#[test]
fn an_audit_of_a_run_that_is_deleted_meanwhile_tells_of_no_damage() {
    let server = Server::start();
    server.skill("files", FILES, json!({}));
    for _ in 0..8 {
        let run = server.create_with(&json!({"skill_id": "files", "runtime_options": {"no_cache": true}})).1;
        server.finish(&run);
        thread::scope(|scope| {
            for _ in 0..4 {
                let call = server.call("GET", &format!("/v1/jobs/{run}/audit"));
                scope.spawn(move || {
                    let Some(answer) = call.try_send() else { return };
                    let is_right = match answer.status {
                        200 => answer.json()["ok"] == true,
                        status => status == 404,
                    };
                    assert!(is_right, "{}", answer.text());
                });
            }
            let delete = server.call("DELETE", &format!("/v1/jobs/{run}"));
            scope.spawn(move || assert_eq!(delete.send().status, 200));
        });
    }
}

#[test]
fn clean_ups_and_deletions_at_once_delete_each_run_once() {
    let server = Server::start();
    server.skill("files", FILES, json!({}));
    for _ in 0..3 {
        let runs: Vec<String> = (0..4)
            .map(|_| server.create_with(&json!({"skill_id": "files", "runtime_options": {"no_cache": true}})).1)
            .collect();
        runs.iter().for_each(|run| drop(server.finish(run)));
        let deleted: u64 = thread::scope(|scope| {
            let calls = (0..6).map(|_| server.call("POST", "/v1/jobs/cleanup").json(&json!({})));
            let cleaning: Vec<_> = calls.map(|call| scope.spawn(move || call.send())).collect();
            let calls = runs.iter().map(|run| server.call("DELETE", &format!("/v1/jobs/{run}")));
            let deleting: Vec<_> = calls.map(|call| scope.spawn(move || call.send())).collect();
            let cleaned = cleaning.into_iter().map(|thread| {
                let answer = thread.join().unwrap();
                assert_eq!(answer.status, 200, "{}", answer.text());
                answer.json()["runs_deleted"].as_u64().unwrap()
            });
            let cleaned: u64 = cleaned.sum();
            let one_by_one = deleting.into_iter().map(|thread| {
                let answer = thread.join().unwrap();
                // A run that has just ended may still be at its last steps.
                assert!([200, 404, 409].contains(&answer.status), "{}", answer.text());
                u64::from(answer.status == 200)
            });
            cleaned + one_by_one.sum::<u64>()
        });
        assert!(deleted <= 4, "{deleted} of 4");
    }
    until("nothing of them is left", || {
        server.post("/v1/jobs/cleanup", &json!({}));
        server.left_behind().is_empty()
    });
}
