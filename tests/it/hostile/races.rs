//! Requests that meet each other on one run: each is answered as if it came before or after the others.

use std::thread;

use serde_json::json;

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
