//! Pages of other origins: what they may send and read (CORS), and the tickets they open event streams with.

use std::fs;
use std::net::SocketAddr;

use serde_json::json;

use super::routes::command;
use crate::cli::place::Place;
use crate::support::client::{Call, Sse};
use crate::support::skill::{GATED, HELLO};
use crate::support::{Answer, Server};

const APP: &str = "https://app.example";

fn preflight(server: &Server, origin: &str, path: &str) -> Answer {
    let call = server.call("OPTIONS", path).header("origin", origin);
    let call = call.header("access-control-request-method", "POST");
    call.header("access-control-request-headers", "authorization,content-type").send()
}

#[test]
fn a_page_that_its_browser_does_not_name_changes_nothing() {
    let server = Server::start();
    server.skill("hello", HELLO, json!({}));
    let create = |site: &str| {
        server.call("POST", "/v1/jobs").header("sec-fetch-site", site).json(&json!({"skill_id": "hello"})).send()
    };
    for site in ["cross-site", "same-site"] {
        assert_eq!(create(site).refusal(), (403, "FORBIDDEN_ORIGIN".into()), "{site}");
    }
    for site in ["same-origin", "none"] {
        assert_eq!(create(site).status, 201, "{site}");
    }
}

#[test]
fn pages_of_a_listed_origin_use_the_api_with_a_token_and_others_read_nothing() {
    let server = Server::with(&[("allowed_origins", "https://app.example,http://localhost:5173")]);
    server.skill("hello", HELLO, json!({}));
    let bearer = format!("Bearer {}", command(&server, &["new", "app", "--scope", "run"]));

    let asked = preflight(&server, APP, "/v1/jobs");
    assert_eq!((asked.status, asked.body.len()), (204, 0));
    assert_eq!(asked.header("access-control-allow-origin"), APP);
    assert_eq!(asked.header("access-control-allow-methods"), "GET, HEAD, POST, DELETE");
    let headers = asked.header("access-control-allow-headers");
    for name in ["authorization", "content-type", "idempotency-key", "last-event-id", "range", "prefer"] {
        assert!(headers.split(", ").any(|allowed| allowed == name), "{name}: {headers}");
    }
    assert_eq!(asked.header("access-control-max-age"), "600");
    assert_eq!(asked.header("access-control-allow-private-network"), "", "it was not asked for");
    let vary: Vec<&str> = asked.headers.get_all("vary").iter().map(|value| value.to_str().unwrap()).collect();
    assert_eq!(vary, ["access-control-request-method, access-control-request-headers", "origin"]);

    let create = |origin: &str, authorization: Option<&str>| {
        let call = server.call("POST", "/v1/jobs").header("origin", origin);
        let call = authorization.into_iter().fold(call, |call, value| call.header("authorization", value));
        call.json(&json!({"skill_id": "hello"})).send()
    };
    let created = create(APP, Some(&bearer));
    assert_eq!((created.status, created.header("access-control-allow-origin")), (201, APP));
    assert!(created.header("access-control-expose-headers").contains("x-request-id"));
    assert_eq!(
        create("http://localhost:5173", Some(&bearer)).header("access-control-allow-origin"),
        "http://localhost:5173"
    );
    // The user who runs the browser is let in from nowhere but the service's own pages.
    for (method, path) in [("GET", "/v1/jobs"), ("POST", "/v1/jobs/cleanup")] {
        let answer = server.call(method, path).header("origin", APP).json(&json!({})).send();
        assert_eq!(answer.refusal(), (401, "UNAUTHORIZED".into()), "{path}");
        assert_eq!(answer.header("access-control-allow-origin"), APP, "the page may read why");
    }
    for origin in ["https://app.example.evil", "http://app.example", "https://evil.example", "null"] {
        let refused = preflight(&server, origin, "/v1/jobs");
        assert_eq!(refused.refusal(), (403, "FORBIDDEN_ORIGIN".into()), "{origin}");
        let sent = create(origin, Some(&bearer));
        assert_eq!(sent.refusal(), (403, "FORBIDDEN_ORIGIN".into()), "{origin}");
        let read = server.call("GET", "/v1/jobs").header("origin", origin).header("authorization", &bearer).send();
        for answer in [refused, sent, read] {
            assert_eq!(answer.header("access-control-allow-origin"), "", "{origin}");
            assert_eq!(answer.header("vary"), "origin", "{origin}");
        }
    }
    for answer in [asked, created] {
        assert_eq!(answer.header("access-control-allow-credentials"), "", "cookies are for the service's own pages");
    }
    let plain = server.get("/v1/jobs");
    assert_eq!((plain.header("vary"), plain.header("access-control-allow-origin")), ("origin", ""));
    let network =
        server.call("OPTIONS", "/v1/jobs").header("origin", APP).header("access-control-request-method", "GET");
    let network = network.header("access-control-request-private-network", "true").send();
    assert_eq!(network.header("access-control-allow-private-network"), "true");
    let host = format!(
        "OPTIONS /v1/jobs HTTP/1.1\r\nhost: evil.example\r\norigin: {APP}\r\naccess-control-request-method: GET\r\nconnection: close\r\n\r\n"
    );
    assert!(crate::support::client::raw(server.address, host.as_bytes()).starts_with("HTTP/1.1 403 "));
}

#[test]
fn without_listed_origins_there_is_no_word_of_them() {
    let server = Server::start();
    assert_eq!(preflight(&server, APP, "/v1/jobs").refusal(), (403, "FORBIDDEN_ORIGIN".into()));
    let answer = server.call("GET", "/v1/jobs").header("origin", APP).send();
    assert_eq!((answer.header("access-control-allow-origin"), answer.header("vary")), ("", ""));
}

#[test]
fn a_ticket_opens_the_events_of_its_run_and_nothing_else() {
    let server = Server::with(&[("token", "t0ken"), ("allowed_origins", APP)]);
    server.skill("gated", GATED, json!({}));
    let named = command(&server, &["new", "app", "--scope", "run"]);
    let call = |method: &str, path: &str| {
        server.call(method, path).header("origin", APP).header("authorization", &format!("Bearer {named}"))
    };
    let create = || call("POST", "/v1/jobs").json(&json!({"skill_id": "gated"})).send().json();
    let (one, other) = (create(), create());
    let id = |job: &serde_json::Value, name: &str| job[name].as_str().unwrap().to_owned();
    let (request, run) = (id(&one, "request_id"), id(&one, "run_id"));
    let before = jiff::Timestamp::now();
    let made = call("POST", &format!("/v1/jobs/{request}/events/ticket")).send();
    assert_eq!((made.status, made.header("access-control-allow-origin")), (200, APP), "{}", made.text());
    let body = made.json();
    let ticket = id(&body, "ticket");
    assert_eq!(body.as_object().unwrap().keys().collect::<Vec<_>>(), ["ticket", "expires_at"]);
    let end: jiff::Timestamp = id(&body, "expires_at").parse().unwrap();
    let lasts = end.duration_since(before).as_secs();
    assert!((60..=120).contains(&lasts), "{lasts}");

    for path in ["jobs", "temp-skill-runs", "management/runs"] {
        for id in [&request, &run] {
            let mut stream =
                Sse::open(server.address, &format!("/v1/{path}/{id}/events?ticket={ticket}"), &[("origin", APP)]);
            assert_eq!(stream.status, 200, "{path}");
            assert!(stream.headers.contains(&format!("access-control-allow-origin: {APP}")), "{:?}", stream.headers);
            assert_eq!(stream.next_chat().unwrap()["seq"], 1);
        }
    }
    let mut resumed = Sse::open(server.address, &format!("/v1/jobs/{run}/events?cursor=1&ticket={ticket}"), &[]);
    assert_eq!(resumed.next_chat().unwrap()["seq"], 2);
    let unknown = "0192f0c1-2d3e-7f40-8a51-6b7c8d9e0f11";
    for path in [
        format!("/v1/jobs/{}/events?ticket={ticket}", id(&other, "run_id")),
        format!("/v1/jobs/{unknown}/events?ticket={ticket}"),
        format!("/v1/jobs/{run}/events?ticket=st_wrong"),
        format!("/v1/jobs/{run}/events?ticket="),
        format!("/v1/jobs/{run}/events"),
    ] {
        assert_eq!(server.get(&path).refusal(), (401, "UNAUTHORIZED".into()), "{path}");
    }
    for path in ["", "/result", "/logs", "/events/history", "/artifacts"] {
        let path = format!("/v1/jobs/{run}{path}?ticket={ticket}");
        assert_eq!(server.get(&path).refusal().0, 401, "{path}");
    }
    let doubled = server.get(&format!("/v1/jobs/{run}/events?ticket={ticket}&ticket={ticket}"));
    assert_eq!(doubled.refusal(), (400, "INVALID_REQUEST".into()));
    command(&server, &["revoke", "app"]);
    let over = server.get(&format!("/v1/jobs/{run}/events?ticket={ticket}"));
    assert_eq!(over.refusal(), (401, "UNAUTHORIZED".into()), "gone with the token it was made with");
}

#[test]
fn no_ticket_token_password_or_session_stands_in_the_log_or_in_an_answer() {
    let place = Place::new();
    place.skill("tiny", "cat >/dev/null\necho '{\"success\":true,\"data\":{}}'\n");
    let named = place.run(&["token", "new", "ann", "--scope", "run"]).stdout.trim().to_owned();
    let arguments = ["serve", "--port", "0", "--log-level", "TRACE"];
    let mut command = place.command(&arguments);
    command.env("UI_BASIC_AUTH_ENABLED", "on").env("UI_BASIC_AUTH_USERNAME", "ann");
    command.env("UI_BASIC_AUTH_PASSWORD", "pa55word-x").env("SKILL_RUNNER_TOKEN", "setting-t0ken");
    command
        .stdin(std::process::Stdio::null())
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped());
    let (service, line) = Place::started(command, "listening on ");
    let address: SocketAddr = line.strip_prefix("listening on http://").unwrap().parse().unwrap();
    let call = |method: &str, path: &str| Call::new(address, method, path);
    let mut answers = Vec::new();
    let mut sessions = Vec::new();
    for credentials in [
        json!({"username": "ann", "password": "pa55word-x"}),
        json!({"token": "setting-t0ken"}),
        json!({"token": named}),
        json!({"token": "wrong-guess-1"}),
        json!({"token": 5, "password": "wrong-guess-2"}),
    ] {
        let answer = call("POST", "/ui/session").json(&credentials).send();
        sessions.extend(answer.header("set-cookie").split(['=', ';']).nth(1).map(str::to_owned));
        answers.push(answer.text());
    }
    sessions.retain(|session| session.starts_with("ss_"));
    assert_eq!(sessions.len(), 3);
    let bearer = format!("Bearer {named}");
    let created =
        call("POST", "/v1/jobs?wait=60").header("authorization", &bearer).json(&json!({"skill_id": "tiny"})).send();
    let run = created.json()["run_id"].as_str().unwrap().to_owned();
    let made = call("POST", &format!("/v1/jobs/{run}/events/ticket")).header("authorization", &bearer).send();
    let ticket = made.json()["ticket"].as_str().unwrap().to_owned();
    for path in [format!("/v1/jobs/{run}/events?ticket={ticket}"), format!("/v1/jobs/nothing/events?ticket={ticket}")] {
        answers.push(call("GET", &path).send().text());
    }
    answers.push(call("GET", &format!("/v1/jobs/{run}/events?ticket={ticket}&colour=red")).send().text());
    answers.push(call("GET", "/v1/system").header("authorization", &bearer).send().text());
    answers.push(call("GET", &format!("/v1/jobs/{run}/explain")).header("authorization", &bearer).send().text());
    service.signal(rustix::process::Signal::TERM);
    let ended = service.end();
    assert_eq!(ended.code, Some(0));
    let log = fs::read_to_string(place.path().join("data/logs/skill-runner.log")).unwrap();
    assert!(log.contains("a browser has logged in") && log.contains("/v1/jobs/{id}/events"), "{log}");
    let secrets = [&ticket, &named, "setting-t0ken", "pa55word-x", "wrong-guess-1", "wrong-guess-2"];
    let said = [log, ended.stdout, ended.stderr, answers.join("\n")];
    for secret in secrets.into_iter().map(ToOwned::to_owned).chain(sessions) {
        assert!(said.iter().all(|text| !text.contains(&secret)), "{secret} stands in {said:?}");
    }
    let mut left = Vec::new();
    for entry in walk(&place.path().join("data")) {
        let bytes = fs::read(&entry).unwrap_or_default();
        let found = |secret: &str| bytes.windows(secret.len()).any(|window| window == secret.as_bytes());
        if [ticket.as_str(), &named, "setting-t0ken", "pa55word-x"].into_iter().any(found) {
            left.push(entry);
        }
    }
    assert_eq!(left, Vec::<std::path::PathBuf>::new(), "no file keeps a secret");
}

fn walk(folder: &std::path::Path) -> Vec<std::path::PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path());
    entries.flat_map(|path| if path.is_dir() { walk(&path) } else { vec![path] }).collect()
}
