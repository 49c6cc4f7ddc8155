//! Logging in and out in a browser: the cookie, what it is worth, who may send it, and how often one may be wrong.

use std::fs;

use serde_json::{Value, json};
use skill_runner::http::{Route, all_routes};

use super::routes::{command, path_of};
use crate::cli::place::Place;
use crate::support::skill::{GATED, HELLO};
use crate::support::{Answer, Server};

const LOGIN: [(&str, &str); 3] =
    [("ui_basic_auth_enabled", "on"), ("ui_basic_auth_username", "ann"), ("ui_basic_auth_password", "secret")];

fn own_origin(server: &Server) -> String {
    format!("http://{}", server.address)
}

fn log_in(server: &Server, credentials: &Value) -> Answer {
    server.call("POST", "/ui/session").header("origin", &own_origin(server)).json(credentials).send()
}

/// The cookie of an answer, as a browser sends it back.
#[track_caller]
fn cookie_of(answer: &Answer) -> String {
    assert_eq!(answer.status, 200, "{}", answer.text());
    answer.header("set-cookie").split(';').next().unwrap().to_owned()
}

#[test]
fn a_browser_that_logged_in_is_let_in_by_a_cookie_that_no_script_reads_and_no_other_site_sends() {
    let server = Server::with(&[("token", "t0ken")]);
    let before = server.get("/ui/session").json();
    assert_eq!(before, json!({"log_in": true, "ways": ["token"], "access": "open", "name": null, "session": false}));
    let answer = log_in(&server, &json!({"token": "t0ken"}));
    let told = json!({"log_in": false, "ways": ["token"], "access": "admin", "name": null, "session": true});
    assert_eq!(answer.json(), told);
    let (name, rest) = answer.header("set-cookie").split_once('=').unwrap();
    assert_eq!(name, format!("skill_runner_session_{}", server.address.port()));
    let (value, attributes) = rest.split_once(';').unwrap();
    assert!(value.starts_with("ss_") && value.len() == 46, "{value}");
    assert_eq!(attributes, " Path=/; Max-Age=604800; HttpOnly; SameSite=Strict");
    let cookie = cookie_of(&answer);
    let get = |path: &str| server.call("GET", path).header("cookie", &cookie).send();
    assert_eq!((get("/v1/jobs").status, get("/docs").status, get("/ui").status), (200, 200, 200));
    assert_eq!(get("/ui/session").json(), told);

    // Over TLS, which the page or the proxy tells, the cookie is for TLS alone.
    for (header, value) in
        [("origin", format!("https://{}", server.address)), ("x-forwarded-proto", "https".to_owned())]
    {
        let call = server.call("POST", "/ui/session").header(header, &value).json(&json!({"token": "t0ken"}));
        assert!(call.send().header("set-cookie").ends_with("; SameSite=Strict; Secure"), "{header}");
    }

    let out =
        server.call("DELETE", "/ui/session").header("origin", &own_origin(&server)).header("cookie", &cookie).send();
    assert_eq!(out.json()["log_in"], true);
    assert!(out.header("set-cookie").contains("=; Path=/; Max-Age=0; HttpOnly"), "{}", out.header("set-cookie"));
    assert_eq!(get("/v1/jobs").refusal(), (401, "UNAUTHORIZED".into()), "the old cookie opens nothing");
    let file = fs::read_to_string(server.data().join("sessions.json")).unwrap();
    assert!(!file.contains(value) && !file.contains("t0ken"), "{file}");
}

#[test]
fn a_session_survives_a_restart_and_ends_with_the_token_or_password_it_was_opened_with() {
    let server = Server::with(&[("token", "t0ken")]);
    let by_setting = cookie_of(&log_in(&server, &json!({"token": "t0ken"})));
    let named = command(&server, &["new", "ann", "--scope", "run"]);
    let by_name = cookie_of(&log_in(&server, &json!({"token": named})));
    let short = command(&server, &["new", "short", "--scope", "read", "--expires", "30m"]);
    let by_short = cookie_of(&log_in(&server, &json!({"token": short})));
    // The port is another one after a restart, and with it the cookie's name.
    let asked = |server: &Server, cookie: &str| {
        let value = cookie.split_once('=').unwrap().1;
        let cookie = format!("skill_runner_session_{}={value}", server.address.port());
        let told = server.call("GET", "/ui/session").header("cookie", &cookie).send().json();
        (told["access"].as_str().unwrap().to_owned(), told["name"].clone())
    };
    let server = server.restarted(&[("token", "t0ken")]);
    assert_eq!(asked(&server, &by_setting), ("admin".into(), Value::Null));
    assert_eq!(asked(&server, &by_name), ("run".into(), json!("ann")));
    assert_eq!(asked(&server, &by_short), ("read".into(), json!("short")));

    command(&server, &["revoke", "ann"]);
    assert_eq!(asked(&server, &by_name), ("open".into(), Value::Null), "gone with its token");
    command(&server, &["new", "ann", "--scope", "admin"]);
    assert_eq!(asked(&server, &by_name), ("open".into(), Value::Null), "another token with the name is another");
    let tokens = server.data().join("tokens.json");
    let text = fs::read_to_string(&tokens).unwrap();
    let end = text.split("\"expires_at\": \"").nth(1).unwrap().split('"').next().unwrap().to_owned();
    fs::write(&tokens, text.replace(&end, "2020-01-01T00:00:00.000000Z")).unwrap();
    assert_eq!(asked(&server, &by_short), ("open".into(), Value::Null), "over with its token");

    let server = server.restarted(&[("token", "another")]);
    assert_eq!(asked(&server, &by_setting), ("open".into(), Value::Null), "the token of the settings is another");
    let server = server.restarted(&[&LOGIN[..], &[("token", "t0ken")]].concat());
    let by_password = cookie_of(&log_in(&server, &json!({"username": "ann", "password": "secret"})));
    assert_eq!(asked(&server, &by_password), ("admin".into(), json!("ann")));
    let changed = [LOGIN[0], LOGIN[1], ("ui_basic_auth_password", "changed"), ("token", "t0ken")];
    assert_eq!(asked(&server.restarted(&changed), &by_password), ("open".into(), Value::Null));
}

#[test]
fn only_pages_of_the_service_change_something_with_the_cookie() {
    let server = Server::with(&[("token", "t0ken"), ("allowed_origins", "https://app.example")]);
    server.skill("hello", HELLO, json!({}));
    let cookie = cookie_of(&log_in(&server, &json!({"token": "t0ken"})));
    let own = own_origin(&server);
    let create = |headers: &[(&str, &str)]| {
        let call = server.call("POST", "/v1/jobs").header("cookie", &cookie);
        let call = headers.iter().fold(call, |call, (name, value)| call.header(name, value));
        call.json(&json!({"skill_id": "hello"})).send()
    };
    assert_eq!(create(&[]).refusal(), (403, "FORBIDDEN_ORIGIN".into()), "a request that names no page");
    assert_eq!(create(&[("origin", "null")]).refusal().0, 401);
    assert_eq!(create(&[("origin", "http://evil.example")]).refusal().0, 401);
    // Pages of the same host on another port are of the same site, so that browsers send the cookie.
    assert_eq!(create(&[("origin", "http://127.0.0.1:1")]).refusal().0, 401);
    assert_eq!(create(&[("origin", "https://app.example")]).refusal().0, 401, "listed pages have tokens");
    assert_eq!(create(&[("sec-fetch-site", "same-site"), ("origin", &own)]).refusal().0, 401);
    assert_eq!(server.left_behind(), Vec::<String>::new());
    assert_eq!(create(&[("origin", &own)]).status, 201);
    assert_eq!(create(&[("sec-fetch-site", "same-origin")]).status, 201);

    let read =
        |site: &str| server.call("GET", "/v1/jobs").header("cookie", &cookie).header("sec-fetch-site", site).send();
    assert_eq!((read("same-origin").status, read("none").status), (200, 200));
    assert_eq!((read("same-site").status, read("cross-site").status), (401, 401));
    for origin in ["http://evil.example", "https://app.example", "null"] {
        for (method, body) in [("POST", json!({"token": "t0ken"})), ("DELETE", json!({}))] {
            let answer = server.call(method, "/ui/session").header("origin", origin).json(&body).send();
            assert_eq!(answer.refusal(), (403, "FORBIDDEN_ORIGIN".into()), "{method} {origin}");
        }
    }
}

#[test]
fn the_login_guards_the_pages_and_what_brings_code_and_its_name_stands_in_the_log() {
    let server = Server::with(&LOGIN);
    server.skill("gated", GATED, json!({}));
    for path in ["/ui", "/ui/", "/ui/skills/x"] {
        let answer = server.get(path);
        assert_eq!((answer.status, answer.header("www-authenticate")), (401, "Basic"), "{path}");
        assert_eq!(answer.header("content-type"), "text/html; charset=utf-8", "it shows the log-in page");
        let browser = server.call("GET", path).header("user-agent", "Mozilla/5.0 (X11)").send();
        assert_eq!(browser.header("www-authenticate"), "Bearer", "no dialog of the browser before the page");
        let basic = server.call("GET", path).header("authorization", "Basic YW5uOnNlY3JldA==").send();
        assert_eq!(basic.status, 200, "{path}");
    }
    assert_eq!(server.get("/ui/static/app.js").status, 200, "files of the program are no secret");
    let person = server.call("GET", "/v1/nothing").header("accept", "text/html").send();
    assert_eq!(person.refusal(), (404, "ROUTE_NOT_FOUND".into()), "the service's own user may read");
    let wrong = [json!({"username": "ann", "password": "wrong"}), json!({"username": "", "password": "secret"})];
    for credentials in wrong.into_iter().chain([json!({"token": "secret"})]) {
        assert_eq!(log_in(&server, &credentials).refusal(), (401, "UNAUTHORIZED".into()), "{credentials}");
    }
    for credentials in [json!({}), json!({"token": 1}), json!({"username": "ann"}), json!([])] {
        assert_eq!(log_in(&server, &credentials).status, 400, "{credentials}");
    }
    let answer = log_in(&server, &json!({"username": "ann", "password": "secret"}));
    assert_eq!(answer.json()["ways"], json!(["password", "token"]));
    let cookie = cookie_of(&answer);
    let post = |path: &str| {
        let call = server.call("POST", path).header("cookie", &cookie).header("origin", &own_origin(&server));
        call.json(&json!({"skill_id": "gated"})).send()
    };
    assert_eq!(server.post("/v1/engines/upgrades", &json!({})).refusal(), (401, "UNAUTHORIZED".into()));
    assert_eq!(post("/v1/engines/upgrades").refusal().0, 400, "let in");
    let run = post("/v1/jobs").json()["run_id"].as_str().unwrap().to_owned();
    assert_eq!(post(&format!("/v1/jobs/{run}/cancel")).status, 200);
    let events = server.finish(&run);
    assert_eq!(events[0]["data"]["requested_by"], "ann");
    let canceled = crate::support::of_type(&events, "run.cancel.requested");
    assert_eq!(canceled, [json!({"requested_by": "ann", "reason": "canceled over the API"})]);
}

#[test]
fn whoever_is_wrong_too_often_waits_and_neither_named_tokens_nor_sessions_do() {
    let server = Server::with(&[("token", "t0ken"), ("max_failed_logins", "3")]);
    let named = command(&server, &["new", "ci", "--scope", "read"]);
    let cookie = cookie_of(&log_in(&server, &json!({"token": "t0ken"})));
    let bearer =
        |token: &str| server.call("GET", "/v1/jobs").header("authorization", &format!("Bearer {token}")).send();
    assert_eq!(bearer("wrong").refusal(), (401, "UNAUTHORIZED".into()));
    assert_eq!(log_in(&server, &json!({"token": "wrong"})).refusal(), (401, "UNAUTHORIZED".into()));
    assert_eq!(server.get("/v1/jobs").status, 401, "nothing was sent, so nothing was wrong");
    assert_eq!(bearer("wrong again").refusal(), (401, "UNAUTHORIZED".into()));
    for answer in [bearer("wrong"), bearer("t0ken"), log_in(&server, &json!({"token": "t0ken"}))] {
        assert_eq!(answer.refusal(), (429, "TOO_MANY_FAILED_LOGINS".into()));
        let seconds: u64 = answer.header("retry-after").parse().unwrap();
        assert!((1..=31).contains(&seconds), "{seconds}");
        assert_eq!(answer.json()["error"]["details"], json!({"seconds": seconds}));
    }
    assert_eq!(bearer(&named).status, 200, "no guess");
    assert_eq!(server.call("GET", "/v1/jobs").header("cookie", &cookie).send().status, 200, "no guess");
    assert_eq!(server.get("/v1/jobs").status, 401);
}

/// All large bodies share their room in memory, and anybody may send this one.
#[test]
fn whoever_logs_in_sends_no_more_than_a_log_in_takes() {
    let server = Server::with(&[("token", "t0ken")]);
    let long = log_in(&server, &json!({"token": "x".repeat(16 * 1024)}));
    assert_eq!(long.refusal(), (413, "PAYLOAD_TOO_LARGE".to_owned()));
    assert_eq!(log_in(&server, &json!({"token": "t0ken"})).status, 200);
}

#[test]
fn a_person_who_opens_the_page_about_the_api_is_led_to_the_log_in_and_a_program_is_refused() {
    let server = Server::with(&[("token", "t0ken")]);
    let person = server.call("GET", "/docs").header("accept", "text/html,*/*");
    let raw = crate::support::client::raw(
        server.address,
        format!("GET /docs HTTP/1.1\r\nhost: {}\r\naccept: text/html,*/*\r\nconnection: close\r\n\r\n", server.address)
            .as_bytes(),
    );
    assert!(raw.starts_with("HTTP/1.1 303 ") && raw.contains("\r\nlocation: /ui/log-in?to=%2Fdocs\r\n"), "{raw}");
    assert_eq!(person.send().status, 401, "and from there to the page that asks");
    assert_eq!(server.get("/docs").refusal(), (401, "UNAUTHORIZED".into()));
}

#[test]
fn a_stranger_without_a_token_gets_nothing_from_any_route() {
    let server = Server::with(&[("token", "t0ken")]);
    server.skill("hello", HELLO, json!({}));
    let created = server.call("POST", "/v1/jobs?wait=60").header("authorization", "Bearer t0ken");
    let run = created.json(&json!({"skill_id": "hello"})).send().json()["run_id"].as_str().unwrap().to_owned();
    let no_cookie = "skill_runner_session=ss_x".to_owned();
    let wrong_cookie = format!("skill_runner_session_{}=ss_{}", server.address.port(), "x".repeat(43));
    for route in all_routes() {
        let Route { method, needs, .. } = &route;
        let real = path_of(&route).replace("0192f0c1-2d3e-7f40-8a51-6b7c8d9e0f11", &run);
        for cookie in [&no_cookie, &wrong_cookie] {
            let call = server.call(method, &real).header("cookie", cookie).json(&json!({}));
            let answer = call.send();
            let asked = format!("{method} {real}: {answer:?}");
            if *needs == "open" {
                // Whether the service lives, and the files of the program, which are the same everywhere.
                assert!(!answer.text_lossy().contains(&run) && !answer.text_lossy().contains("hello"), "{asked}");
                continue;
            }
            assert_eq!(answer.refusal(), (401, "UNAUTHORIZED".into()), "{asked}");
            assert!(!answer.text_lossy().contains(&run), "{asked}");
        }
        let ticket = server.call(method, &format!("{real}?ticket=st_x")).json(&json!({})).send();
        assert!(*needs == "open" || ticket.refusal() == (401, "UNAUTHORIZED".into()), "{method} {real}: {ticket:?}");
    }
    for path in ["/v1/nothing", "/metrics", "/data/tokens.json", "/../data/tokens.json"] {
        assert_eq!(server.get(path).refusal(), (401, "UNAUTHORIZED".into()), "{path}");
    }
    let jobs = server.call("GET", "/v1/jobs").header("authorization", "Bearer t0ken").send().json();
    assert_eq!(jobs["jobs"].as_array().unwrap().len(), 1, "nothing was made or removed");
}

#[test]
fn every_answer_tells_browsers_to_take_it_for_nothing_else() {
    let server = Server::with(&[("token", "t0ken")]);
    for (method, path, status) in [
        ("GET", "/healthz", 200),
        ("GET", "/ui", 401),
        ("GET", "/ui/static/app.js", 200),
        ("GET", "/v1/jobs", 401),
        ("GET", "/v1/nothing", 401),
        ("OPTIONS", "/v1/jobs", 401),
        ("POST", "/v1/jobs?wait=x", 401),
    ] {
        let answer = server.call(method, path).send();
        assert_eq!(answer.status, status, "{method} {path}");
        for (name, value) in [
            ("x-content-type-options", "nosniff"),
            ("x-frame-options", "DENY"),
            ("referrer-policy", "no-referrer"),
            ("cross-origin-resource-policy", "same-origin"),
        ] {
            assert_eq!(answer.header(name), value, "{method} {path}: {name}");
        }
        let policy = answer.header("content-security-policy");
        assert!(policy.starts_with("default-src 'none'; ") && policy.contains("frame-ancestors 'none'"), "{policy}");
        assert_eq!(answer.header("cache-control"), if path.starts_with("/ui") { "no-cache" } else { "no-store" });
    }
}

#[test]
fn an_address_that_others_can_reach_needs_a_token_of_the_settings_or_one_with_a_name() {
    let place = Place::new();
    let serve = ["serve", "--host", "0.0.0.0", "--port", "0"];
    let refused = place.run(&serve);
    assert_eq!(refused.code, Some(2), "{}", refused.stderr);
    let told = "host (--host): 0.0.0.0 can be reached from other machines: set token (SKILL_RUNNER_TOKEN) as well, or make a named one with skill-runner token new NAME --scope read|run|admin";
    assert!(refused.stderr.contains(told), "{}", refused.stderr);
    assert!(!place.path().join("data").exists(), "nothing was written");
    assert_eq!(place.run(&["token", "new", "ops", "--scope", "admin"]).code, Some(0));
    let (service, _) = place.start(&serve, "listening on http://");
    service.signal(rustix::process::Signal::TERM);
    assert_eq!(service.end().code, Some(0));
    assert_eq!(place.run(&["token", "revoke", "ops"]).code, Some(0));
    assert_eq!(place.run(&serve).code, Some(2), "no token is left");
}
