//! The REST API: each route's good path and each of its refusals.

use serde_json::json;

use crate::support::Server;
use crate::support::skill::HELLO;

#[test]
fn a_created_run_is_followed_to_its_end() {
    let server = Server::start();
    server.skill("hello", HELLO, json!({}));
    let (request, run) = server.create("hello");
    let events = server.finish(&run);
    assert_eq!(events.last().unwrap()["type"], "conversation.completed");
    let job = server.get(&format!("/v1/jobs/{request}")).json();
    assert_eq!(job["status"], "succeeded", "{job}");
}
