//! Connections: how many there may be, how long each may take, and that every refusal has its envelope.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};

use serde_json::{Value, json};

use crate::support::client::raw;
use crate::support::skill::{GATED, HELLO};
use crate::support::{LONG, Server};

fn connect(address: SocketAddr) -> TcpStream {
    let connection = TcpStream::connect(address).unwrap();
    connection.set_read_timeout(Some(LONG)).unwrap();
    connection
}

/// Status, error code and headers of an answer as it was sent.
fn refusal(answer: &str) -> (u16, String, String) {
    let (head, body) = answer.split_once("\r\n\r\n").unwrap_or_else(|| panic!("no answer: {answer:?}"));
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    let body: Value = serde_json::from_str(body).unwrap_or_else(|error| panic!("{error}: {answer:?}"));
    let error = body["error"].as_object().unwrap();
    assert_eq!(error.keys().collect::<Vec<_>>(), ["code", "message", "details", "request_id"], "{body}");
    assert!(head.contains("content-type: application/json"), "{head}");
    (status, error["code"].as_str().unwrap().to_owned(), head.to_owned())
}

#[test]
fn half_a_request_is_not_waited_for() {
    let server = Server::with(&[("header_timeout_seconds", "1")]);
    for half in ["G", "GET /v1/jobs HTTP/1.1\r\nhost: localhost\r\n", "POST /v1/jobs HTTP/1.1\r\nhost"] {
        let (status, code, head) = refusal(&raw(server.address, half.as_bytes()));
        assert_eq!((status, code.as_str()), (408, "REQUEST_TIMEOUT"), "{half}");
        assert!(head.contains("connection: close"), "{head}");
    }
    assert_eq!(raw(server.address, b""), "", "a connection without a request is closed without a word");
    let kept_alive = raw(server.address, b"GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n");
    assert!(kept_alive.starts_with("HTTP/1.1 200") && kept_alive.matches("HTTP/1.1").count() == 1, "{kept_alive}");
}

#[test]
fn what_is_no_request_after_an_answer_is_refused_with_an_envelope() {
    let server = Server::start();
    let mut connection = connect(server.address);
    connection.write_all(b"GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n").unwrap();
    let mut answer = Vec::new();
    while !answer.ends_with(b"}") {
        let mut byte = [0];
        connection.read_exact(&mut byte).unwrap();
        answer.push(byte[0]);
    }
    connection.write_all(b"this is no request\r\n\r\n").unwrap();
    let mut rest = String::new();
    connection.read_to_string(&mut rest).unwrap();
    assert_eq!(refusal(&rest).0, 400);
}

#[test]
fn a_body_that_stops_coming_is_not_waited_for_and_leaves_nothing() {
    let server = Server::with(&[("body_timeout_seconds", "1")]);
    server.skill(
        "reader",
        HELLO,
        json!({"input": {
            "type": "object", "properties": {"paper": {"type": "string"}}, "required": ["paper"],
        }}),
    );
    let (request, _) = server.create("reader");
    let before = server.left_behind();
    let upload = format!(
        "POST /v1/jobs/{request}/upload HTTP/1.1\r\nhost: localhost\r\ncontent-type: multipart/form-data; boundary=EDGE\r\n\
         content-length: 100000\r\n\r\n--EDGE\r\ncontent-disposition: form-data; name=\"file\"\r\n\r\n{}",
        "x".repeat(50_000)
    );
    let create = "POST /v1/jobs HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n";
    let sized = format!("{create}content-length: 100\r\n\r\n{{\"skill_id\":");
    let chunked = format!("{create}transfer-encoding: chunked\r\n\r\n1\r\n{{\r\n");
    for half in [upload, sized, chunked] {
        let (status, code, _) = refusal(&raw(server.address, half.as_bytes()));
        assert_eq!((status, code.as_str()), (408, "REQUEST_TIMEOUT"), "{half}");
    }
    assert_eq!(server.left_behind(), before);
}

#[test]
fn a_flood_of_half_bodies_takes_no_place_from_others() {
    let server = Server::with(&[("max_connections", "4"), ("token", "t0ken"), ("body_timeout_seconds", "3600")]);
    let half = |authorization: &str| {
        format!(
            "POST /v1/jobs HTTP/1.1\r\nhost: localhost\r\n{authorization}content-type: application/json\r\n\
             content-length: 1000\r\n\r\n{{\"skill_id\":"
        )
    };
    let mut flood = Vec::new();
    for number in 0..40 {
        // Those who may do it, and those who may not.
        let request = half(if number % 2 == 0 { "authorization: Bearer t0ken\r\n" } else { "" });
        let mut connection = connect(server.address);
        // It may have had to go already.
        let _ = connection.write_all(request.as_bytes());
        flood.push(connection);
    }
    let limit = std::time::Instant::now() + LONG;
    // While one connection is being told to come later, the next may be closed without a word.
    let is_served = || server.call("GET", "/healthz").try_send().is_some_and(|answer| answer.status == 200);
    while !is_served() {
        assert!(std::time::Instant::now() < limit, "half bodies keep others out");
    }
    drop(flood);
}

#[test]
fn a_flood_of_half_requests_takes_no_place_from_others() {
    let server = Server::with(&[("max_connections", "4")]);
    let mut flood: Vec<TcpStream> = (0..40)
        .map(|_| {
            let mut connection = connect(server.address);
            // It may have had to go already.
            let _ = connection.write_all(b"GET /healthz HTTP/1.1\r\nhost: loc");
            connection
        })
        .collect();
    assert_eq!(server.get("/healthz").status, 200);
    let closed = flood.iter_mut().take(36).all(|connection| !matches!(connection.read(&mut [0; 1]), Ok(1)));
    assert!(closed, "the first ones had to make room");
}

#[test]
fn when_every_connection_is_in_use_the_next_is_told_to_come_later() {
    let server = Server::with(&[("max_connections", "2")]);
    server.skill("gated", GATED, json!({}));
    let (_, run) = server.create("gated");
    server.wait_for(&run, "raw.stderr", "ready");
    let feeds = [server.events(&run, 0), server.events(&run, 0)].map(|mut feed| {
        feed.next_event().unwrap();
        feed
    });
    let (status, code, head) = refusal(&raw(server.address, b"GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n"));
    assert_eq!((status, code.as_str()), (503, "TOO_MANY_CONNECTIONS"));
    assert!(head.contains("retry-after: 1"), "{head}");
    let [first, second] = feeds;
    drop(first);
    let limit = std::time::Instant::now() + LONG;
    // While one connection is being told to come later, the next may be closed without a word.
    let is_served = || server.call("GET", "/healthz").try_send().is_some_and(|answer| answer.status == 200);
    while !is_served() {
        assert!(std::time::Instant::now() < limit, "the place is never free again");
    }
    server.open_gate(&run, "on");
    assert!(second.until_end().len() > 2);
}

#[test]
fn a_feed_that_is_read_outlives_every_timeout() {
    let times = ["header_timeout_seconds", "body_timeout_seconds", "send_timeout_seconds"].map(|name| (name, "1"));
    let server = Server::with(&times);
    server.skill("gated", GATED, json!({}));
    let (_, run) = server.create("gated");
    server.wait_for(&run, "raw.stderr", "ready");
    let feed = server.events(&run, 0);
    let waiting = connect(server.address);
    let body = r#"{"skill_id":"gated","runtime_options":{"no_cache":true}}"#;
    let wait = format!(
        "POST /v1/jobs?wait=2 HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\ncontent-type: application/json\r\n\
         content-length: {}\r\n\r\n{body}",
        body.len()
    );
    (&waiting).write_all(wait.as_bytes()).unwrap();
    let mut answer = String::new();
    (&waiting).read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 201"), "{answer}");
    let second = answer.split("\"run_id\":\"").nth(1).unwrap().split('"').next().unwrap().to_owned();
    server.wait_for(&second, "raw.stderr", "ready");
    for run in [&run, &second] {
        server.open_gate(run, "on");
    }
    let last = feed.until_end().pop().unwrap();
    assert_eq!(last["type"], "conversation.completed", "{last}");
    server.finish(&second);
}

#[test]
fn an_answer_that_nobody_takes_is_cut_off() {
    let server = Server::with(&[("send_timeout_seconds", "1")]);
    let sh = "cat >/dev/null\nhead -c 60000000 /dev/zero > artifacts/big\necho '{\"success\":true,\"data\":{}}'\n";
    server.skill("big", sh, json!({"artifacts": [{"role": "big", "pattern": "big", "required": true}]}));
    let (request, _) = server.finished("big");
    let mut connection = connect(server.address);
    write!(connection, "GET /v1/jobs/{request}/artifacts/artifacts/big HTTP/1.1\r\nhost: localhost\r\n\r\n").unwrap();
    let mut head = [0; 12];
    connection.read_exact(&mut head).unwrap();
    assert_eq!(&head, b"HTTP/1.1 200");
    std::thread::sleep(std::time::Duration::from_millis(2500));
    let mut taken = 0;
    let mut buffer = vec![0; 1 << 16];
    while let Ok(read) = connection.read(&mut buffer)
        && read > 0
    {
        taken += read;
    }
    assert!(taken < 60_000_000, "all of it came");
}

#[test]
fn heads_that_are_too_large_or_not_http_are_refused_with_an_envelope() {
    let server = Server::start();
    let long = "y".repeat(40_000);
    let many: String = (0..200).map(|n| format!("x-{n}: 1\r\n")).collect();
    for (request, status, code) in [
        (format!("GET /healthz HTTP/1.1\r\nhost: localhost\r\nx: {long}\r\n\r\n"), 431, "HEADERS_TOO_LARGE"),
        (format!("GET /healthz HTTP/1.1\r\nhost: localhost\r\n{many}\r\n"), 431, "HEADERS_TOO_LARGE"),
        (format!("GET /healthz?{} HTTP/1.1\r\nhost: localhost\r\n\r\n", &long[..20_000]), 414, "URI_TOO_LONG"),
        ("G@T /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n".to_owned(), 400, "INVALID_REQUEST"),
        ("GET /healthz HTTP/1.1\r\nhost localhost\r\n\r\n".to_owned(), 400, "INVALID_REQUEST"),
    ] {
        let closes = request.replacen("\r\n", "\r\nconnection: close\r\n", 1);
        let answer = refusal(&raw(server.address, closes.as_bytes()));
        assert_eq!((answer.0, answer.1.as_str()), (status, code), "{}", request.chars().take(80).collect::<String>());
    }
    // All of it is sent before the answer is read.
    let huge = format!("GET / HTTP/1.1\r\nhost: localhost\r\nx: {}\r\n\r\n", "y".repeat(900_000));
    assert_eq!(refusal(&raw(server.address, huge.as_bytes())).0, 431);
    assert_eq!(server.get("/healthz").status, 200);
}

#[test]
fn a_refused_client_that_asks_before_it_sends_is_not_asked_to_send() {
    let server = Server::with(&[("token", "s3cret")]);
    let head = "POST /v1/jobs HTTP/1.1\r\nhost: localhost\r\nexpect: 100-continue\r\ncontent-length: 1000\r\n\r\n";
    let answer = raw(server.address, head.as_bytes());
    assert!(answer.starts_with("HTTP/1.1 401"), "{answer}");
}

#[test]
fn requests_sent_in_one_piece_are_answered_one_after_another() {
    let server = Server::start();
    let one = "GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n";
    let last = "GET /readyz HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n";
    let answers = raw(server.address, format!("{}{last}", one.repeat(20)).as_bytes());
    assert_eq!((answers.matches("HTTP/1.1 200").count(), answers.matches("\"ready\"").count()), (21, 1), "{answers}");
}

#[test]
fn nothing_behind_a_body_whose_length_is_in_doubt_is_taken_for_a_request() {
    let server = Server::start();
    let body = "0\r\n\r\nGET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n";
    for (headers, body) in [
        (format!("content-length: {}\r\ntransfer-encoding: chunked\r\n", body.len()), body),
        ("transfer-encoding: chunked\r\ncontent-length: 5\r\n".to_owned(), body),
        ("transfer-encoding: xchunked\r\n".to_owned(), body),
        ("transfer-encoding: chunked, identity\r\n".to_owned(), body),
    ] {
        let head = "POST /v1/jobs HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n";
        let answer = raw(server.address, format!("{head}{headers}\r\n{body}").as_bytes());
        assert!(answer.starts_with("HTTP/1.1 400"), "{headers}: {answer}");
        assert_eq!(answer.matches("HTTP/1.1 200").count(), 0, "{headers}: {answer}");
    }
}
