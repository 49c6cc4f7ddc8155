//! Who may ask: the token, allowed hosts, foreign pages.

use serde_json::json;

use crate::support::Server;
use crate::support::client::raw;

#[test]
fn with_a_token_everything_under_v1_needs_it() {
    let server = Server::with(&[("token", "s3cret")]);
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
    for request in [
        "GET /v1/jobs HTTP/1.1\r\nconnection: close\r\n\r\n",
        "GET /v1/jobs HTTP/1.1\r\nhost: localhost\r\nhost: evil.example\r\nconnection: close\r\n\r\n",
        "GET http://evil.example/v1/jobs HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n",
    ] {
        let answer = raw(server.address, request.as_bytes());
        assert!(answer.starts_with("HTTP/1.1 4"), "{request}: {answer}");
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
