//! The table of routes: what each one needs, tried over a socket with every kind of credentials, and the page made from it.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;
use std::{env, fs};

use serde_json::json;
use skill_runner::http::{Route, all_routes};

use crate::support::skill::HELLO;
use crate::support::{Answer, Server, program, zips};

const LOGIN: [(&str, &str); 3] =
    [("ui_basic_auth_enabled", "on"), ("ui_basic_auth_username", "ann"), ("ui_basic_auth_password", "secret")];
const UNCOUNTED: (&str, &str) = ("max_failed_logins", "0");
const TOKEN: (&str, &str) = ("token", "t0ken");
const BASIC: &str = "Basic YW5uOnNlY3JldA==";
const WRONG_BASIC: &str = "Basic YW5uOndyb25n";
const BEARER: &str = "Bearer t0ken";

/// A path of the route that exists, about things that do not: whatever is let in changes nothing.
pub(super) fn path_of(route: &Route) -> String {
    let unknown = "0192f0c1-2d3e-7f40-8a51-6b7c8d9e0f11";
    route
        .path
        .replace("{id}", unknown)
        .replace("{engine}", "codex")
        .replace("{*page}", "runs/x")
        .replace("/ui/static/{*path}", "/ui/static/app.js")
        .replace("{*path}", "artifacts/x")
}

/// Asks a route with these credentials. The body is of no type that a route reads, so it changes nothing.
fn ask(server: &Server, route: &Route, credentials: Option<&str>, query: &str) -> Answer {
    let call = server.call(&route.method, &format!("{}{query}", path_of(route))).body("text/plain", "x");
    match credentials {
        Some(credentials) => call.header("authorization", credentials).send(),
        None => call.send(),
    }
}

/// Whether the request was let in; if so, a route must have answered it.
#[track_caller]
fn is_let_in(answer: &Answer, asked: &str) -> bool {
    if answer.status == 403 && answer.refusal().1 == "FORBIDDEN_SCOPE" {
        return false;
    }
    if answer.status == 401 {
        assert_eq!(answer.refusal(), (401, "UNAUTHORIZED".into()), "{asked}");
        assert!(!answer.header("www-authenticate").is_empty(), "{asked}");
        return false;
    }
    if answer.status >= 400 {
        let (status, code) = answer.refusal();
        assert!(status != 405 && code != "ROUTE_NOT_FOUND", "{asked}: a row without a route");
        assert!(status < 500, "{asked}: {code}");
    }
    true
}

/// Runs `token` on the data folder of a service; what it prints.
pub(super) fn command(server: &Server, args: &[&str]) -> String {
    let mut program = program();
    let done = program.arg("--data-dir").arg(server.data()).arg("token").args(args).output().unwrap();
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    String::from_utf8(done.stdout).unwrap().trim_end().to_owned()
}

/// A new token with this scope, named by it and by its number.
fn token_for(server: &Server, scope: &str) -> String {
    let number = command(server, &["list", "--json"]).matches("\"name\"").count() + 1;
    command(server, &["new", &format!("{scope}-{number}"), "--scope", scope])
}

#[test]
fn a_named_token_says_what_it_allows_and_who_else_there_is_but_never_its_text() {
    let server = Server::start();
    let token = token_for(&server, "read");
    assert!(token.starts_with("sr_") && token.len() == 46, "{token}");
    let call = |method: &str, path: &str| server.call(method, path).header("authorization", &format!("Bearer {token}"));
    assert_eq!(call("GET", "/v1/jobs").send().status, 200);
    let refused = call("POST", "/v1/jobs").json(&json!({"skill_id": "x"})).send();
    assert_eq!(
        refused.json()["error"],
        json!({
            "code": "FORBIDDEN_SCOPE",
            "message": "the token \"read-1\" allows read, and this needs run; use a token with that scope",
            "details": {"scope": "read", "needed": "run"},
            "request_id": null,
        })
    );
    assert_eq!(refused.status, 403);
    let listed = command(&server, &["list"]);
    assert!(listed.contains("read-1") && listed.contains("never") && !listed.contains(&token), "{listed}");
    command(&server, &["revoke", "read-1"]);
    assert_eq!(call("GET", "/v1/jobs").send().refusal(), (401, "UNAUTHORIZED".into()));
    let again = program().arg("--data-dir").arg(server.data()).args(["token", "revoke", "read-1"]).output().unwrap();
    assert_eq!(
        (again.status.code(), String::from_utf8_lossy(&again.stderr).as_ref()),
        (Some(4), "error: there is no token named \"read-1\"; skill-runner token list shows those there are\n")
    );
}

#[test]
fn the_log_tells_with_which_token_a_run_was_created_and_canceled() {
    let server = Server::start();
    server.skill("gated", crate::support::skill::GATED, json!({}));
    let bearer = format!("Bearer {}", token_for(&server, "run"));
    let call = |path: &str| server.call("POST", path).header("authorization", &bearer);
    let created = call("/v1/jobs").json(&json!({"skill_id": "gated"})).send();
    assert_eq!(created.status, 201, "{}", created.text());
    let run = created.json()["run_id"].as_str().unwrap().to_owned();
    assert_eq!(call(&format!("/v1/jobs/{run}/cancel")).send().status, 200);
    let events = server.finish(&run);
    assert_eq!(events[0]["data"]["requested_by"], "run-1");
    let canceled = crate::support::of_type(&events, "run.cancel.requested");
    assert_eq!(canceled, [json!({"requested_by": "run-1", "reason": "canceled over the API"})]);
}

#[test]
fn every_route_lets_in_exactly_those_who_have_what_it_needs() {
    // How the service is set up; the credentials; the highest need that they fulfil for the service's own user.
    let own = Server::start();
    // Wrong credentials are sent more often than a client may.
    let login = Server::with(&[&LOGIN[..], &[UNCOUNTED]].concat());
    let token = Server::with(&[TOKEN, UNCOUNTED]);
    let both = Server::with(&[&LOGIN[..], &[TOKEN, UNCOUNTED]].concat());
    let named = Server::start();
    let [reads, runs, administers, revoked] =
        ["read", "run", "admin", "admin"].map(|scope| format!("Bearer {}", token_for(&named, scope)));
    command(&named, &["revoke", "admin-4"]);
    let and_named = format!("Bearer {}", token_for(&both, "read"));
    let grid: [(&str, &Server, Option<&str>, &str); 22] = [
        ("named tokens, nothing", &named, None, "admin"),
        ("named tokens, one to read", &named, Some(&reads), "read"),
        ("named tokens, one to run", &named, Some(&runs), "run"),
        ("named tokens, one for all", &named, Some(&administers), "admin"),
        ("named tokens, one that was revoked", &named, Some(&revoked), "open"),
        ("named tokens, a token nobody made", &named, Some(BEARER), "open"),
        ("login and token, a named one to read", &both, Some(&and_named), "read"),
        ("no settings, nothing", &own, None, "admin"),
        ("no settings, a token nobody set", &own, Some(BEARER), "admin"),
        ("login, nothing", &login, None, "run"),
        ("login, basic", &login, Some(BASIC), "admin"),
        ("login, wrong basic", &login, Some(WRONG_BASIC), "run"),
        ("login, a token nobody set", &login, Some(BEARER), "run"),
        ("token, nothing", &token, None, "open"),
        ("token, basic", &token, Some(BASIC), "open"),
        ("token, the token", &token, Some(BEARER), "admin"),
        ("token, a part of it", &token, Some("Bearer t0ke"), "open"),
        ("token, without its kind", &token, Some("t0ken"), "open"),
        ("login and token, nothing", &both, None, "open"),
        ("login and token, basic", &both, Some(BASIC), "open"),
        ("login and token, the token", &both, Some(BEARER), "admin"),
        ("login and token, wrong token", &both, Some("Bearer T0KEN"), "open"),
    ];
    let rank = |access: &str| ["open", "read", "run", "admin"].iter().position(|name| *name == access).unwrap();
    // A page is there for everybody: its status tells whether one has to log in first.
    for route in all_routes().into_iter().filter(|route| route.needs != "open") {
        for (said, server, credentials, fulfils) in &grid {
            let asked = format!("{} {} ({said})", route.method, route.path);
            let answer = ask(server, &route, *credentials, "");
            assert_eq!(is_let_in(&answer, &asked), rank(fulfils) >= rank(route.needs), "{asked}: {answer:?}");
        }
    }
    for server in [own, login, token, both, named] {
        assert_eq!(server.left_behind(), Vec::<String>::new());
    }
}

#[test]
fn what_brings_code_or_changes_all_runs_needs_admin_and_nothing_is_open_but_health_and_pages() {
    let mut by_need: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for route in all_routes() {
        by_need.entry(route.needs).or_default().push(format!("{} {}", route.method, route.path));
        let name = format!("{} {}", route.method, route.path);
        // Whoever may read a run's events may have a ticket for them; logging in is open.
        let reads = route.method == "GET" || name.ends_with("/events/ticket") || route.path == "/ui/session";
        assert_eq!(reads, matches!(route.needs, "open" | "read"), "{name}");
    }
    let pages = ["GET /healthz", "GET /readyz", "GET /ui", "GET /ui/", "GET /ui/{*page}", "GET /ui/static/{*path}"];
    let session = ["GET /ui/session", "POST /ui/session", "DELETE /ui/session"];
    assert_eq!(by_need["open"], [&pages[..], &session].concat());
    assert_eq!(
        by_need["admin"],
        [
            "POST /v1/backups",
            "POST /v1/skills/{id}/rollback",
            "DELETE /v1/skills/{id}",
            "POST /v1/skill-packages/install",
            "POST /v1/skill-packages/check",
            "POST /v1/engines/upgrades",
            "POST /v1/engines/{engine}/models/snapshots",
            "POST /v1/jobs/cleanup",
            "POST /v1/temp-skill-runs",
            "DELETE /v1/jobs/{id}",
            "DELETE /v1/temp-skill-runs/{id}",
            "POST /v1/temp-skill-runs/{id}/upload",
            "POST /v1/management/nodes/{id}/drain",
            "DELETE /v1/management/runs/{id}",
        ]
    );
}

#[test]
fn a_query_parameter_that_a_route_does_not_read_is_refused_by_name_on_every_route() {
    let server = Server::start();
    for path in ["/healthz", "/readyz"] {
        assert_eq!(server.get(&format!("{path}?colour=red")).status, 200, "{path} takes any query");
    }
    for route in all_routes() {
        let asked = format!("{} {}", route.method, route.path);
        for (query, name) in [("?colour=red", "colour"), ("?c%6Flour", "colour"), ("?=1", "")] {
            let answer = ask(&server, &route, None, query);
            if route.parameters.is_none() {
                assert_eq!(answer.status, 200, "{asked}{query} takes any query");
                continue;
            }
            assert_eq!(answer.refusal(), (400, "INVALID_REQUEST".into()), "{asked}{query}");
            assert_eq!(answer.json()["error"]["details"][0]["path"], json!(name), "{asked}{query}");
        }
    }
}

#[test]
fn a_configuration_for_an_engine_and_a_package_for_a_run_need_the_login_under_any_path() {
    let server = Server::with(&LOGIN);
    server.skill("hello", HELLO, json!({}));
    let create = |path: &str, body: serde_json::Value, header: &str| {
        server.call("POST", path).header("authorization", header).json(&body).send()
    };
    let configured = json!({"skill_id": "hello", "codex_config": {"model": "x"}});
    assert_eq!(create("/v1/jobs", configured.clone(), "").refusal(), (401, "UNAUTHORIZED".into()));
    assert_eq!(create("/v1/jobs", configured.clone(), WRONG_BASIC).refusal(), (401, "UNAUTHORIZED".into()));
    assert_eq!(create("/v1/jobs", json!({"skill_id": "hello", "codex_config": {}}), "").status, 401);
    assert_eq!(server.left_behind(), Vec::<String>::new());
    assert_ne!(create("/v1/jobs", configured, BASIC).status, 401);
    assert_eq!(create("/v1/jobs", json!({"skill_id": "hello", "codex_config": null}), "").status, 201);

    let temporary = create("/v1/temp-skill-runs", json!({}), BASIC);
    assert_eq!(temporary.status, 201, "{}", temporary.text());
    let id = temporary.json()["request_id"].as_str().unwrap().to_owned();
    let package = zips::deflated(&[("x/SKILL.md", b"x")]);
    for path in [format!("/v1/jobs/{id}/upload"), format!("/v1/temp-skill-runs/{id}/upload")] {
        let upload = |header: &str| {
            let call = server.call("POST", &path).header("authorization", header);
            call.parts(&[("skill_package", &package)]).send().refusal()
        };
        assert_eq!(upload(""), (401, "UNAUTHORIZED".into()), "{path}");
        assert_eq!(upload(BASIC), (400, "SKILL_PACKAGE_INVALID".into()), "{path}");
    }
    assert_eq!(server.get(&format!("/v1/jobs/{id}")).json()["awaiting_upload"], json!(true));
    let cancel = server.post(&format!("/v1/temp-skill-runs/{id}/cancel"), &json!({}));
    assert_eq!(cancel.status, 200, "canceling needs no login");
}

#[test]
fn routes_are_added_nowhere_but_in_the_table() {
    fn sources(folder: &Path, found: &mut Vec<(String, String)>) {
        for entry in fs::read_dir(folder).unwrap().flatten() {
            if entry.file_type().unwrap().is_dir() {
                sources(&entry.path(), found);
            } else {
                found.push((entry.path().display().to_string(), fs::read_to_string(entry.path()).unwrap()));
            }
        }
    }
    let mut all = Vec::new();
    sources(Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/src/http")), &mut all);
    for (path, text) in all.iter().filter(|(path, _)| !path.ends_with("/server/route_table.rs")) {
        for way in [".route(", ".route_service(", ".nest(", ".nest_service(", ".merge(", ".fallback_service("] {
            assert!(!text.contains(way), "{path} has {way}: routes are added in the table, with what they need");
        }
    }
}

const INTRODUCTION: &str = "\
# Routes

<!-- Made from the table in src/http/router.rs. To write it anew: UPDATE_DOCS=1 cargo test --test it http::routes -->

What each route of the API needs, and the query parameters it reads; any other is refused. `open` needs nothing, `read` looks, `run` runs
installed skills, `admin` brings code onto the machine or changes what all runs depend on. [security.md](security.md) says who has
what. A configuration for an engine in the body of `POST /v1/jobs` (`codex_config` and its like), and the upload for a run that brings its
own skill, need `admin` under any path.

| method | path | needs | query parameters |
| --- | --- | --- | --- |
";

#[test]
fn the_page_about_routes_is_made_from_the_table() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/routes.md");
    let mut page = INTRODUCTION.to_owned();
    for Route { method, path, needs, parameters } in all_routes() {
        let parameters = match parameters {
            None => "any".to_owned(),
            Some(names) => names.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", "),
        };
        let _ = writeln!(page, "| {method} | `{path}` | {needs} | {parameters} |");
    }
    if env::var_os("UPDATE_DOCS").is_some() {
        fs::write(path, &page).unwrap();
    }
    assert!(
        fs::read_to_string(path).is_ok_and(|written| written == page),
        "docs/routes.md differs from the table of routes; run: UPDATE_DOCS=1 cargo test --test it http::routes"
    );
}
