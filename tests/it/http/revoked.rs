//! An event stream that is open ends soon after the token or the session that it was opened with.

use std::fs;

use serde_json::{Value, json};

use super::routes::command;
use crate::support::Server;
use crate::support::client::Sse;
use crate::support::skill::GATED;

const TOKEN: (&str, &str) = ("token", "t0ken");

fn bearer(token: &str) -> String {
    format!("Bearer {token}")
}

/// A run that goes on until its gate is opened.
fn gated(server: &Server) -> String {
    server.skill("gated", GATED, json!({}));
    let call = server.call("POST", "/v1/jobs").header("authorization", &bearer("t0ken"));
    call.json(&json!({"skill_id": "gated"})).send().json()["run_id"].as_str().unwrap().to_owned()
}

/// A stream that has sent everything that there is.
fn open(server: &Server, run: &str, query: &str, header: (&str, &str)) -> Sse {
    let mut stream = Sse::open(server.address, &format!("/v1/jobs/{run}/events{query}"), &[header]);
    assert_eq!(stream.status, 200);
    stream.until_chat(|event| event["data"].to_string().contains("ready"));
    stream
}

fn log_in(server: &Server, token: &str) -> String {
    let origin = format!("http://{}", server.address);
    let answer = server.call("POST", "/ui/session").header("origin", &origin).json(&json!({"token": token})).send();
    answer.header("set-cookie").split(';').next().unwrap().to_owned()
}

fn log_out(server: &Server, cookie: &str) -> Value {
    let origin = format!("http://{}", server.address);
    server.call("DELETE", "/ui/session").header("origin", &origin).header("cookie", cookie).send().json()
}

fn ticket(server: &Server, run: &str, header: (&str, &str)) -> String {
    let origin = format!("http://{}", server.address);
    let call = server.call("POST", &format!("/v1/jobs/{run}/events/ticket")).header("origin", &origin);
    let made = call.header(header.0, header.1).send().json();
    format!("?ticket={}", made["ticket"].as_str().unwrap())
}

#[test]
fn streams_are_cut_when_their_token_is_revoked_and_those_of_others_go_on() {
    let server = Server::with(&[TOKEN]);
    let run = gated(&server);
    let [ann, eve] = ["ann", "eve"].map(|name| command(&server, &["new", name, "--scope", "read"]));
    let shown = bearer(&ann);
    let of_ann = ("authorization", shown.as_str());
    let direct = open(&server, &run, "", of_ann);
    let by_ticket = open(&server, &run, &ticket(&server, &run, of_ann), ("accept", "*/*"));
    let in_browser = open(&server, &run, "", ("cookie", &log_in(&server, &ann)));
    let of_eve = open(&server, &run, "", ("authorization", &bearer(&eve)));
    let of_setting = open(&server, &run, "", ("authorization", &bearer("t0ken")));
    command(&server, &["revoke", "ann"]);
    for stream in [direct, by_ticket, in_browser] {
        stream.until_cut();
    }
    let back = server.call("GET", &format!("/v1/jobs/{run}/events")).header("authorization", &bearer(&ann)).send();
    assert_eq!(back.refusal(), (401, "UNAUTHORIZED".into()), "whoever comes back learns why");
    server.open_gate(&run, "go");
    for stream in [of_eve, of_setting] {
        let last = stream.until_end().pop().unwrap();
        assert_eq!(last["type"], "conversation.completed", "{last}");
    }
}

#[test]
fn streams_are_cut_when_their_session_ends_and_those_of_other_sessions_go_on() {
    let server = Server::with(&[TOKEN]);
    let run = gated(&server);
    let (one, other) = (log_in(&server, "t0ken"), log_in(&server, "t0ken"));
    let direct = open(&server, &run, "", ("cookie", &one));
    let by_ticket = open(&server, &run, &ticket(&server, &run, ("cookie", &one)), ("accept", "*/*"));
    let of_other = open(&server, &run, "", ("cookie", &other));
    assert_eq!(log_out(&server, &one)["log_in"], true);
    direct.until_cut();
    by_ticket.until_cut();
    server.open_gate(&run, "go");
    assert_eq!(of_other.until_end().pop().unwrap()["type"], "conversation.completed");
}

#[test]
fn a_stream_is_cut_at_the_moment_its_token_expires_and_not_before() {
    let server = Server::with(&[TOKEN]);
    let run = gated(&server);
    let short = command(&server, &["new", "short", "--scope", "read", "--expires", "30m"]);
    let stream = open(&server, &run, "", ("authorization", &bearer(&short)));
    let tokens = server.data().join("tokens.json");
    let text = fs::read_to_string(&tokens).unwrap();
    let end = text.split("\"expires_at\": \"").nth(1).unwrap().split('"').next().unwrap().to_owned();
    // Two seconds later than now: the stream knows the end before it comes.
    let soon = jiff::Timestamp::now() + jiff::SignedDuration::from_secs(2);
    fs::write(&tokens, text.replace(&end, &format!("{soon:.6}"))).unwrap();
    stream.until_cut();
    assert!(jiff::Timestamp::now() >= soon, "not before its time");
}
