//! Other users of the machine: without a token, only the service's own user and root are let in.

use std::fs;
use std::net::SocketAddr;
use std::os::unix::fs::{PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::process::{Command, Output, Stdio};

use rustix::process::geteuid;
use serde_json::{Value, json};
use skill_runner::http::all_routes;

use super::routes::path_of;
use crate::cli::place::Place;
use crate::support::skill::HELLO;
use crate::support::{Server, left_out, script_skill};

const NOBODY: u32 = 65534;
const OTHER: u32 = 65533;

/// Whether other users can be played; said loudly where they cannot.
pub fn can_play_others() -> bool {
    let root = geteuid().is_root();
    if !root {
        left_out::tell(
            "the tests do not run as root, so no other user of the machine can be played",
            "a test of http::users",
        );
    }
    root
}

/// What the service answers to a request that a process of this user sends.
fn ask_as(uid: u32, address: SocketAddr, request: &str) -> String {
    let output = asked_as(uid, address, request);
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).unwrap()
}

/// The same, also where the connection breaks.
pub fn asked_as(uid: u32, address: SocketAddr, request: &str) -> Output {
    let script = r#"exec 3<>"/dev/tcp/$1/$2" && printf '%s' "$3" >&3 && cat <&3"#;
    let (ip, port) = (address.ip().to_string(), address.port().to_string());
    let mut shell = Command::new("bash");
    shell.args(["-c", script, "bash", &ip, &port, request]).current_dir("/").stdin(Stdio::null());
    shell.uid(uid).gid(uid).output().unwrap()
}

fn get(path: &str, header: &str) -> String {
    format!("GET {path} HTTP/1.1\r\nhost: localhost\r\n{header}connection: close\r\n\r\n")
}

/// Status and, of a refusal, its error.
fn parts(answer: &str) -> (u16, Value) {
    let (head, body) = answer.split_once("\r\n\r\n").unwrap_or_else(|| panic!("no answer: {answer:?}"));
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    let body: Value = serde_json::from_str(body).unwrap_or_default();
    (status, body["error"].clone())
}

#[test]
fn another_user_of_the_machine_needs_a_token() {
    if !can_play_others() {
        return;
    }
    let server = Server::start();
    server.skill("hello", HELLO, json!({}));
    let body = r#"{"skill_id":"hello"}"#;
    let create = format!(
        "POST /v1/jobs HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    );
    for request in [get("/v1/jobs", ""), get("/v1/nothing", ""), get("/v1/jobs", "authorization: Bearer x\r\n"), create]
    {
        let answer = ask_as(NOBODY, server.address, &request);
        let (status, error) = parts(&answer);
        assert_eq!((status, &error["code"]), (401, &json!("UNAUTHORIZED")), "{answer}");
        let message = error["message"].as_str().unwrap();
        assert!(message.contains("uid 65534") && message.contains("SKILL_RUNNER_TOKEN"), "{message}");
        assert!(answer.to_lowercase().contains("\r\nwww-authenticate: bearer\r\n"), "{answer}");
    }
    for path in ["/healthz", "/readyz"] {
        assert_eq!(parts(&ask_as(NOBODY, server.address, &get(path, ""))).0, 200, "{path}");
    }
    assert_eq!(server.get("/v1/jobs").json()["jobs"], json!([]), "nothing was created");
    assert_eq!(parts(&ask_as(0, server.address, &get("/v1/jobs", ""))).0, 200);
}

#[test]
fn another_user_of_the_machine_gets_nothing_from_any_route() {
    if !can_play_others() {
        return;
    }
    let server = Server::start();
    server.skill("hello", HELLO, json!({}));
    let (_, run) = server.finished("hello");
    let mut refused = 0;
    for route in all_routes() {
        let path = path_of(&route).replace("0192f0c1-2d3e-7f40-8a51-6b7c8d9e0f11", &run);
        let request = format!(
            "{} {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\ncontent-type: application/json\r\ncontent-length: 2\r\n\r\n{{}}",
            route.method
        );
        let answer = ask_as(NOBODY, server.address, &request);
        assert!(!answer.contains(&run) && !answer.contains("hello"), "{} {path}: {answer}", route.method);
        if route.needs != "open" {
            let (status, error) = parts(&answer);
            assert_eq!((status, &error["code"]), (401, &json!("UNAUTHORIZED")), "{} {path}", route.method);
            refused += 1;
        }
    }
    assert!(refused > 80, "{refused}");
    assert_eq!(server.get("/v1/jobs").json()["jobs"].as_array().unwrap().len(), 1, "nothing was made or removed");
}

#[test]
fn with_a_token_or_the_login_it_does_not_matter_who_asks() {
    if !can_play_others() {
        return;
    }
    let token = Server::with(&[("token", "t0ken")]);
    for (header, status) in [("authorization: Bearer t0ken\r\n", 200), ("", 401)] {
        assert_eq!(parts(&ask_as(NOBODY, token.address, &get("/v1/jobs", header))).0, status, "{header}");
    }
    let login = Server::with(&[
        ("ui_basic_auth_enabled", "on"),
        ("ui_basic_auth_username", "ann"),
        ("ui_basic_auth_password", "secret"),
    ]);
    for (header, status) in [("authorization: Basic YW5uOnNlY3JldA==\r\n", 200), ("", 401)] {
        let answer = ask_as(NOBODY, login.address, &get("/v1/jobs", header));
        assert_eq!(parts(&answer).0, status, "{header}");
        assert!(status == 200 || answer.to_lowercase().contains("\r\nwww-authenticate: basic\r\n"), "{answer}");
    }
}

#[test]
fn whoever_sends_a_request_and_is_gone_is_not_taken_for_root() {
    if !can_play_others() {
        return;
    }
    let server = Server::start();
    server.skill("hello", HELLO, json!({}));
    // Of a closed socket older kernels say that root owns it.
    let script = r#"for i in 1 2 3 4 5 6 7 8 9 10; do
        exec 3<>"/dev/tcp/127.0.0.1/$1"
        printf 'POST /v1/jobs HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: 20\r\n\r\n{"skill_id":"hello"}' >&3
        exec 3>&-
    done"#;
    let mut shell = Command::new("bash");
    shell.args(["-c", script, "bash", &server.address.port().to_string()]).current_dir("/");
    assert!(shell.uid(NOBODY).gid(NOBODY).status().unwrap().success());
    assert_eq!(parts(&ask_as(NOBODY, server.address, &get("/v1/jobs", ""))).0, 401);
    assert_eq!(server.get("/v1/jobs").json()["jobs"], json!([]));
}

#[test]
fn a_service_of_another_user_lets_in_that_user_and_root_and_nobody_else() {
    if !can_play_others() {
        return;
    }
    let folder = tempfile::Builder::new().permissions(fs::Permissions::from_mode(0o755)).tempdir().unwrap();
    let program = folder.path().join("skill-runner");
    fs::copy(env!("CARGO_BIN_EXE_skill-runner"), &program).unwrap();
    let home = folder.path().join("home");
    fs::create_dir(&home).unwrap();
    script_skill(&home.join("skills"), "hello", HELLO, json!({}));
    chown(&home, Some(NOBODY), Some(NOBODY)).unwrap();
    let mut serve = Command::new(&program);
    serve.args(["serve", "--port", "0"]).current_dir(&home).uid(NOBODY).gid(NOBODY).env_clear();
    serve.env("PATH", std::env::var_os("PATH").unwrap()).env("SKILL_RUNNER_MIN_FREE_BYTES", "0");
    serve.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let (running, line) = Place::started(serve, "listening on http://");
    let address: SocketAddr = line.strip_prefix("listening on http://").unwrap().parse().unwrap();
    for (uid, expected) in [(NOBODY, 200), (0, 200), (OTHER, 401)] {
        assert_eq!(parts(&ask_as(uid, address, &get("/v1/jobs", ""))).0, expected, "uid {uid}");
    }
    running.signal(rustix::process::Signal::TERM);
    assert_eq!(running.end().code, Some(0));
}
