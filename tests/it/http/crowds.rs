//! Many who ask for much at once: they wait for each other, within limits, and nobody else waits for them.

use std::io::{Read, Write};
use std::net::TcpStream;

use serde_json::json;

use crate::support::skill::{GATED, HELLO};
use crate::support::{LONG, Server, Sse};

#[test]
fn a_body_of_a_million_values_is_refused_before_it_is_read() {
    let server = Server::start();
    server.skill("hello", HELLO, json!({}));
    let body = format!("{{\"skill_id\":\"hello\",\"parameter\":{{\"a\":[{}[]]}}}}", "[],".repeat(1_000_000));
    let refused = server.call("POST", "/v1/jobs").body("application/json", body).send();
    assert_eq!(refused.refusal(), (413, "PAYLOAD_TOO_LARGE".into()), "{}", refused.text());
    assert_eq!(refused.json()["error"]["details"], json!({"limit_values": 300_000}));
    // As many values as fit into the limit of inline values are read.
    let body = format!("{{\"skill_id\":\"hello\",\"parameter\":{{\"a\":[{}0]}}}}", "0,".repeat(250_000));
    let read = server.call("POST", "/v1/jobs").body("application/json", body).send();
    assert_eq!(read.status, 201, "{}", read.text());
}

/// Sends the beginning of a request to create a run, with a body of this many bytes that does not end.
fn half_sent(server: &Server, bytes: usize) -> TcpStream {
    let mut connection = TcpStream::connect(server.address).unwrap();
    connection.set_read_timeout(Some(LONG)).unwrap();
    let head = format!(
        "POST /v1/jobs HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n",
        bytes + 10
    );
    connection.write_all(head.as_bytes()).unwrap();
    // The service closes a connection that it refuses.
    let _ = connection.write_all(&vec![b' '; bytes]);
    connection
}

#[test]
fn large_bodies_that_do_not_end_take_no_more_memory_than_their_room() {
    let server = Server::start();
    server.skill("hello", HELLO, json!({}));
    let mut half: Vec<TcpStream> = (0..9).map(|_| half_sent(&server, 8_000_000)).collect();
    // There is room for eight of them. Which one is refused depends on when its bytes came.
    let (tell, told) = std::sync::mpsc::channel();
    for mut connection in half.drain(..) {
        let tell = tell.clone();
        std::thread::spawn(move || {
            let mut answer = [0; 12];
            if connection.read_exact(&mut answer).is_ok() {
                // The test may be over.
                let _ = tell.send(String::from_utf8_lossy(&answer).into_owned());
            }
        });
    }
    assert_eq!(told.recv_timeout(LONG).unwrap(), "HTTP/1.1 503");
    server.finished("hello");
    let small = json!({"skill_id": "hello", "parameter": {"text": "x".repeat(10_000)}});
    assert_eq!(server.post("/v1/jobs", &small).status, 201);
}

#[test]
fn many_who_ask_for_the_same_bundle_get_the_same_bytes_and_leave_one_zip() {
    let server = Server::start();
    server.skill("hello", HELLO, json!({}));
    let (_, run) = server.finished("hello");
    let path = format!("/v1/jobs/{run}/bundle");
    let bundles: Vec<Vec<u8>> = std::thread::scope(|scope| {
        let asked: Vec<_> = (0..40).map(|_| scope.spawn(|| server.get(&path))).collect();
        asked.into_iter().map(|asked| asked.join().unwrap().body).collect()
    });
    assert!(bundles.iter().all(|bundle| *bundle == bundles[0] && !bundle.is_empty()));
    let mut left: Vec<_> = std::fs::read_dir(server.run_dir(&run).join("bundle")).unwrap().flatten().collect();
    left.retain(|entry| entry.file_name().to_string_lossy().starts_with('.'));
    assert!(left.is_empty(), "{left:?}");
}

#[test]
fn whoever_takes_every_connection_for_feeds_keeps_nobody_from_asking_whether_the_service_lives() {
    let server = Server::with(&[("max_connections", "16")]);
    server.skill("waits", GATED, json!({}));
    let (_, run) = server.create("waits");
    let mut feeds: Vec<Sse> = (0..14).map(|_| server.events(&run, 0)).collect();
    feeds.iter_mut().for_each(|feed| drop(feed.next_event()));
    let refused = server.get(&format!("/v1/jobs/{run}/events"));
    assert_eq!(refused.refusal(), (503, "TOO_MANY_CONNECTIONS".into()));
    assert_eq!((server.get("/healthz").status, server.get("/readyz").status), (200, 200));
    feeds.pop();
    let limit = std::time::Instant::now() + LONG;
    while server.get(&format!("/v1/jobs/{run}")).status != 200 {
        assert!(std::time::Instant::now() < limit, "a feed that was closed never makes room");
    }
}
