//! Who may ask: the token, allowed hosts, foreign pages.

use serde_json::json;

use crate::support::Server;
use crate::support::client::raw;

#[test]
fn with_a_token_everything_under_v1_needs_it() {
    let server = Server::with(&[("token", "s3cret"), ("max_failed_logins", "0")]);
    for path in ["/v1/jobs", "/v1/skills", "/v1/system", "/v1/nothing", "/docs", "/metrics"] {
        for header in ["", "Bearer", "Bearer ", "Bearer wrong", "Bearer s3cret2", "Basic s3cret", "s3cret"] {
            let call = server.call("GET", path);
            let answer = if header.is_empty() { call } else { call.header("authorization", header) }.send();
            assert_eq!(answer.refusal(), (401, "UNAUTHORIZED".into()), "{path} {header}");
            assert_eq!(answer.header("www-authenticate"), "Bearer");
        }
    }
    for header in ["Bearer s3cret", "bearer s3cret"] {
        assert_eq!(server.call("GET", "/v1/jobs").header("authorization", header).send().status, 200);
    }
    let nothing = server.call("GET", "/v1/nothing").header("authorization", "Bearer s3cret").send();
    assert_eq!(nothing.refusal(), (404, "ROUTE_NOT_FOUND".into()));
    assert_eq!((server.get("/healthz").status, server.get("/readyz").status), (200, 200));
}

#[test]
fn a_host_that_is_not_allowed_is_refused() {
    let server = Server::with(&[("allowed_hosts", "localhost,127.0.0.1,runner.example")]);
    let port = server.address.port();
    for (host, status) in [
        (format!("localhost:{port}"), 200),
        ("runner.example".to_owned(), 200),
        ("RUNNER.example:9".to_owned(), 200),
        ("evil.example".to_owned(), 403),
        ("localhost.evil.example".to_owned(), 403),
        ("localhost:evil".to_owned(), 403),
        ("localhost:80:evil".to_owned(), 403),
        ("evil.example@localhost".to_owned(), 403),
        ("localhost:99999".to_owned(), 403),
        (format!("evil.example:{port}"), 403),
        (String::new(), 403),
    ] {
        for path in ["/v1/jobs", "/healthz"] {
            let answer = raw(
                server.address,
                format!("GET {path} HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\n\r\n").as_bytes(),
            );
            assert!(answer.starts_with(&format!("HTTP/1.1 {status}")), "{host}: {answer}");
            assert_eq!(answer.contains("FORBIDDEN_HOST"), status == 403);
        }
    }
}

#[test]
fn the_host_in_the_request_line_and_the_one_in_the_header_must_both_be_allowed() {
    for allowed in ["localhost,127.0.0.1", "*", "*.example,localhost"] {
        let server = Server::with(&[("allowed_hosts", allowed)]);
        let all = allowed == "*";
        let evil_example = if allowed == "localhost,127.0.0.1" { 403 } else { 200 };
        for (target, headers, expected) in [
            ("/v1/jobs", "host: localhost\r\n", 200),
            ("http://localhost/v1/jobs", "host: localhost\r\n", 200),
            ("http://localhost:8000/v1/jobs", "host: localhost:1\r\n", 200),
            ("http://evil.example/v1/jobs", "host: localhost\r\n", evil_example),
            ("http://localhost/v1/jobs", "host: evil.example\r\n", evil_example),
            ("http://localhost/v1/jobs", "host: evil.test\r\n", if all { 200 } else { 403 }),
            ("http://evil.test/v1/jobs", "host: localhost\r\n", if all { 200 } else { 403 }),
            // What is no host is allowed by nothing.
            ("http://me@localhost/v1/jobs", "host: localhost\r\n", 403),
            ("http://me:secret@a.example/v1/jobs", "host: localhost\r\n", 403),
            ("http://localhost/v1/jobs", "host: localhost:evil\r\n", 403),
            ("/v1/jobs", "host: me@localhost\r\n", 403),
            ("/v1/jobs", "", 403),
            ("/v1/jobs", "host: localhost\r\nhost: localhost\r\n", 403),
            ("http://localhost/v1/jobs", "", 403),
        ] {
            let request = format!("GET {target} HTTP/1.1\r\n{headers}connection: close\r\n\r\n");
            let answer = raw(server.address, request.as_bytes());
            let status: u16 = answer.split(' ').nth(1).unwrap().parse().unwrap();
            assert_eq!(status, expected, "{allowed}: {request}{answer}");
            assert_eq!(answer.contains("FORBIDDEN_HOST"), expected == 403, "{allowed}: {request}{answer}");
        }
    }
}

#[test]
fn a_foreign_page_changes_nothing() {
    let server = Server::start();
    let own = format!("http://{}", server.address);
    for origin in ["http://evil.example", "null", "http://127.0.0.1", "http://127.0.0.1:1", "", "file://"] {
        for path in ["/v1/jobs", "/v1/jobs/cleanup", "/v1/jobs/x/cancel"] {
            let answer = server.call("POST", path).header("origin", origin).json(&json!({})).send();
            assert_eq!(answer.refusal(), (403, "FORBIDDEN_ORIGIN".into()), "{origin} {path}");
        }
        assert_eq!(server.call("GET", "/v1/jobs").header("origin", origin).send().status, 200, "reading is free");
    }
    let cleaned = server.call("POST", "/v1/jobs/cleanup").header("origin", &own).json(&json!({})).send();
    assert_eq!(cleaned.status, 200);
}
