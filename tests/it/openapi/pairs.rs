//! The management routes and their twins: one says what the other says, and perhaps more.

use serde_json::{Value, json};

use crate::support::openapi::check;
use crate::support::skill::HELLO;
use crate::support::{Answer, Server};

/// Whether the management route tells everything that the other does.
#[track_caller]
fn holds(told: &Value, plain: &Value) {
    match plain {
        Value::Object(members) => members.iter().for_each(|(name, value)| assert_eq!(&told[name], value, "{name}")),
        other => assert_eq!(told, other),
    }
}

#[test]
fn a_management_route_of_a_run_says_what_its_twin_says() {
    let server = Server::start();
    server.skill("hello", HELLO, json!({}));
    server.skill("fails", "cat >/dev/null\necho bad >&2\nexit 3\n", json!({}));
    let (_, good) = server.finished("hello");
    let (_, bad) = server.finished("fails");
    let unknown = "0192f0c1-2d3e-7f40-8a51-6b7c8d9e0f11".to_owned();
    let twins = [
        ("GET", "", ""),
        ("GET", "?at_seq=2", "?at_seq=2"),
        ("GET", "?at_seq=99999", "?at_seq=99999"),
        ("GET", "/pending", "/interaction/pending"),
        ("POST", "/reply", "/interaction/reply"),
        ("POST", "/cancel", "/cancel"),
        ("GET", "/events", "/events"),
        ("GET", "/events?cursor=x", "/events?cursor=x"),
        ("GET", "/events/history?limit=3", "/events/history?limit=3"),
        ("GET", "/logs/range?stream=stderr", "/logs/range?stream=stderr"),
        ("GET", "/logs/range?stream=none", "/logs/range?stream=none"),
        ("GET", "/explain", "/explain"),
        ("GET", "/audit", "/audit"),
        ("GET", "/explain?path=/data/none", "/explain?path=/data/none"),
    ];
    for run in [&good, &bad, &unknown] {
        for (method, managed, plain) in twins {
            let ask = |path: String| -> Answer {
                let call = server.call(method, &path);
                if managed == "/reply" {
                    call.json(&json!({"interaction_id": 1, "response": 1})).send()
                } else {
                    call.send()
                }
            };
            let told = ask(format!("/v1/management/runs/{run}{managed}"));
            let twin = ask(format!("/v1/jobs/{run}{plain}"));
            let asked = format!("{method} {run}{managed}");
            check(method, &format!("/v1/management/runs/{run}{managed}"), &told);
            check(method, &format!("/v1/jobs/{run}{plain}"), &twin);
            assert_eq!(
                (told.status, told.header("content-type")),
                (twin.status, twin.header("content-type")),
                "{asked}"
            );
            if twin.header("content-type") == "application/json" {
                holds(&told.json(), &twin.json());
            } else {
                assert_eq!(told.body, twin.body, "{asked}");
            }
        }
    }
    for (method, managed, plain) in [("POST", "/rerun", "/rerun"), ("DELETE", "", "")] {
        for (prefix, rest) in [("management/runs", managed), ("jobs", plain)] {
            let answer = server.call(method, &format!("/v1/{prefix}/{unknown}{rest}")).send();
            assert_eq!(answer.refusal(), (404, "REQUEST_NOT_FOUND".into()), "{method} {prefix}{rest}");
        }
    }
}

#[test]
fn the_management_list_is_the_list_of_jobs_with_the_number_of_runs() {
    let server = Server::start();
    let counted =
        json!({"input": {"type": "object", "properties": {"n": {"type": "integer", "x-input-source": "inline"}}}});
    server.skill("hello", HELLO, counted.clone());
    server.skill("fails", "cat >/dev/null\nexit 3\n", counted);
    for (n, skill) in ["hello", "hello", "fails", "hello"].into_iter().enumerate() {
        let labels = json!({"team": if n % 2 == 0 { "x" } else { "y" }});
        let (_, run) = server.create_with(&json!({"skill_id": skill, "input": {"n": n}, "labels": labels}));
        server.finish(&run);
    }
    let all = server.get("/v1/jobs").json();
    let created = |at: usize| all["jobs"][at]["created_at"].as_str().unwrap().to_owned();
    let counts = |succeeded: u64, failed: u64| {
        let by_status = json!({"queued": 0, "running": 0, "waiting_user": 0, "succeeded": succeeded, "failed": failed, "canceled": 0});
        json!({"total": succeeded + failed, "by_status": by_status})
    };
    let cases = [
        (String::new(), 4, counts(3, 1)),
        ("?status=failed".to_owned(), 1, counts(3, 1)),
        ("?skill_id=hello&limit=1".to_owned(), 1, counts(3, 0)),
        ("?skill_id=none".to_owned(), 0, counts(0, 0)),
        ("?engine=script&label=team:x".to_owned(), 2, counts(1, 1)),
        ("?label=team:x&label=team:y".to_owned(), 0, counts(0, 0)),
        (format!("?since={}", created(1)), 2, counts(1, 1)),
        (format!("?until={}", created(1)), 2, counts(2, 0)),
        (format!("?since={}&until={}&status=succeeded", created(2), created(0)), 1, counts(1, 1)),
    ];
    for (query, listed, counted) in cases {
        let told = server.get(&format!("/v1/management/runs{query}")).json();
        let twin = server.get(&format!("/v1/jobs{query}")).json();
        holds(&told, &twin);
        assert_eq!(twin["jobs"].as_array().unwrap().len(), listed, "{query}");
        assert_eq!(told["counts"], counted, "{query}");
    }
    // Pages follow each other without a gap, also of a filter.
    let mut before = String::new();
    let mut found = Vec::new();
    loop {
        let page = server.get(&format!("/v1/management/runs?label=team:x&limit=1{before}")).json();
        found.extend(page["jobs"].as_array().unwrap().iter().map(|job| job["skill_id"].clone()));
        assert_eq!(page["counts"], counts(1, 1));
        let Some(next) = page["next_before"].as_str() else { break };
        before = format!("&before={next}");
    }
    assert_eq!(found, ["fails", "hello"]);
}

#[test]
fn an_engine_tells_its_sandbox_its_last_upgrade_and_what_went_wrong() {
    let server = Server::with(&[("sandbox", "off"), ("engines.codex.command", "/nowhere/codex")]);
    let codex = server.get("/v1/management/engines/codex").json();
    assert_eq!((&codex["sandbox_status"], &codex["upgrade_status"]), (&json!("off"), &Value::Null));
    assert_eq!(codex["last_error"], json!({"source": "program", "message": codex["problem"]}));
    let script = server.get("/v1/management/engines/script").json();
    let told = ["engine", "cli_version", "auth_ready", "models_count", "upgrade_status", "last_error"]
        .map(|name| &script[name]);
    let version = json!(env!("CARGO_PKG_VERSION"));
    assert_eq!(told, [&json!("script"), &version, &json!(true), &json!(0), &Value::Null, &Value::Null]);
    let listed = server.get("/v1/management/engines").json();
    let listed = listed["engines"].as_array().unwrap().iter();
    for engine in listed {
        let name = engine["engine"].as_str().unwrap();
        holds(&server.get(&format!("/v1/management/engines/{name}")).json(), engine);
    }
}
