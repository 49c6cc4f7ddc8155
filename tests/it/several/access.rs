//! Who may come in is the same on every service: tokens, sessions of browsers, tickets; and each knows the keys of all.

use std::fs;

use serde_json::json;

use super::{Service, Services, audited};
use crate::support::client::{Answer, Call, Sse};
use crate::support::postgres::{self, Proxy, When, fresh};
use crate::support::skill::GATED;

const HELLO: &str = "cat >/dev/null\necho '{\"success\":true,\"data\":{}}'\n";
/// The setting that all services have; without it, this machine's user would be let in by its connection.
const SETTING: &str = "t0ken";

fn start(services: &Services, name: &str, args: &[&str]) -> Service {
    let mut command = services.command(name, args);
    command.env("SKILL_RUNNER_TOKEN", SETTING);
    services.begin(name, command)
}

const SERVE: &[&str] = &["serve", "--port", "0"];
const API: &[&str] = &["serve", "--port", "0", "--no-work"];

/// What a command says that succeeds.
fn said(services: &Services, name: &str, args: &[&str]) -> String {
    let done = services.command(name, args).output().unwrap();
    assert!(done.status.success(), "{args:?}: {}", String::from_utf8_lossy(&done.stderr));
    String::from_utf8(done.stdout).unwrap().trim().to_owned()
}

fn bearer(token: &str) -> String {
    format!("Bearer {token}")
}

fn ask(service: &Service, token: &str) -> Answer {
    Call::new(service.address(), "GET", "/v1/jobs").header("authorization", &bearer(token)).send()
}

fn log_in(service: &Service, token: &str) -> String {
    let origin = format!("http://{}", service.address());
    let call = Call::new(service.address(), "POST", "/ui/session").header("origin", &origin);
    let answer = call.json(&json!({"token": token})).send();
    assert_eq!(answer.status, 200, "{}", answer.text());
    let cookie = answer.header("set-cookie").split(';').next().unwrap();
    cookie.split_once('=').unwrap().1.to_owned()
}

/// The cookie as a browser sends it that reaches all services by one name; here each has a port of its own.
fn cookie(service: &Service, session: &str) -> String {
    format!("skill_runner_session_{}={session}", service.address().port())
}

fn in_browser(service: &Service, session: &str) -> u16 {
    Call::new(service.address(), "GET", "/v1/jobs").header("cookie", &cookie(service, session)).send().status
}

/// A run that goes on until its gate is opened.
fn gated(service: &Service) -> String {
    let call = Call::new(service.address(), "POST", "/v1/jobs").header("authorization", &bearer(SETTING));
    let answer = call.json(&json!({"skill_id": "gated", "runtime_options": {"no_cache": true}})).send();
    assert_eq!(answer.status, 201, "{}", answer.text());
    answer.json()["run_id"].as_str().unwrap().to_owned()
}

/// A stream that has sent everything that there is.
fn open(service: &Service, run: &str, query: &str, header: (&str, &str)) -> Sse {
    let mut stream = Sse::open(service.address(), &format!("/v1/jobs/{run}/events{query}"), &[header]);
    assert_eq!(stream.status, 200);
    stream.until_chat(|event| event["data"].to_string().contains("ready"));
    stream
}

fn ticket(service: &Service, run: &str, token: &str) -> String {
    let call = Call::new(service.address(), "POST", &format!("/v1/jobs/{run}/events/ticket"));
    let made = call.header("authorization", &bearer(token)).send();
    assert_eq!(made.status, 200, "{}", made.text());
    format!("?ticket={}", made.json()["ticket"].as_str().unwrap())
}

#[test]
fn a_token_opens_every_service_at_once_and_none_after_it_was_revoked() {
    if !postgres::installed("a token opens every service, and none after it was revoked") {
        return;
    }
    let schema = fresh();
    let services = Services::on(postgres::shared().url(&schema));
    services.skill("gated", GATED, json!({}));
    let (mut one, mut other) = (start(&services, "one", SERVE), start(&services, "other", API));
    let run = gated(&one);
    // Made on a machine without any service.
    let [ann, eve] = ["ann", "eve"].map(|name| said(&services, "desk", &["token", "new", name, "--scope", "read"]));
    for service in [&one, &other] {
        assert_eq!([&ann, &eve].map(|token| ask(service, token).status), [200, 200]);
        assert_eq!(ask(service, "sr_unknown").refusal(), (401, "UNAUTHORIZED".into()));
    }
    let listed = said(&services, "one", &["token", "list", "--json"]);
    assert!(listed.contains("\"ann\"") && listed.contains("\"eve\""), "{listed}");
    let session = log_in(&one, &ann);
    assert_eq!([&one, &other].map(|service| in_browser(service, &session)), [200, 200]);

    let header = bearer(&ann);
    let of_ann = [
        open(&other, &run, "", ("authorization", &header)),
        open(&other, &run, &ticket(&one, &run, &ann), ("accept", "*/*")),
        open(&other, &run, "", ("cookie", &cookie(&other, &session))),
        open(&one, &run, &ticket(&other, &run, &ann), ("accept", "*/*")),
    ];
    let of_eve = open(&other, &run, "", ("authorization", &bearer(&eve)));
    let stale = ticket(&one, &run, &ann);
    let stored = postgres::shared().sql(&format!(
        "select string_agg(convert_from(value, 'UTF8'), ' ') from {schema}.records where kind <> 'skills'"
    ));
    for secret in [&ann, &eve, &session, &stale[8..].to_owned()] {
        assert!(!stored.contains(secret.as_str()) && !stored.contains(&secret[3..]), "{stored}");
    }
    assert!(stored.contains("\"ann\"") && !stored.contains(SETTING), "{stored}");

    said(&services, "other", &["token", "revoke", "ann"]);
    for service in [&one, &other] {
        assert_eq!(ask(service, &ann).refusal(), (401, "UNAUTHORIZED".into()), "revoked for the next request");
        assert_eq!(in_browser(service, &session), 401);
        let path = format!("/v1/jobs/{run}/events{stale}");
        assert_eq!(Call::new(service.address(), "GET", &path).send().status, 401, "its ticket, too");
    }
    of_ann.into_iter().for_each(Sse::until_cut);
    fs::write(one.data.join("runs").join(&run).join("gate"), "go\n").unwrap();
    assert_eq!(of_eve.until_end().pop().unwrap()["type"], "conversation.completed");

    // What was acknowledged is so after all were killed.
    one.kill_9();
    other.kill_9();
    let again = start(&services, "third", API);
    assert_eq!([&ann, &eve].map(|token| ask(&again, token).status), [401, 200]);
    let files = ["one", "other", "third", "desk"].map(|name| services.data(name).join("tokens.json").exists());
    assert_eq!(files, [false; 4]);
}

#[test]
fn a_browser_is_logged_in_on_every_service_and_logged_out_of_all() {
    if !postgres::installed("a browser is logged in on every service, and logged out of all") {
        return;
    }
    let services = Services::new();
    services.skill("gated", GATED, json!({}));
    let (one, other) = (start(&services, "one", SERVE), start(&services, "other", API));
    let run = gated(&other);
    let [session, stays] = [log_in(&one, SETTING), log_in(&other, SETTING)];
    assert_eq!([&one, &other].map(|service| in_browser(service, &session)), [200, 200]);
    let stream = open(&one, &run, "", ("cookie", &cookie(&one, &session)));
    let goes_on = open(&one, &run, "", ("cookie", &cookie(&one, &stays)));
    let origin = format!("http://{}", other.address());
    let call = Call::new(other.address(), "DELETE", "/ui/session").header("origin", &origin);
    let out = call.header("cookie", &cookie(&other, &session)).send();
    assert_eq!((out.status, &out.json()["session"]), (200, &json!(false)), "{}", out.text());
    assert_eq!([&one, &other].map(|service| in_browser(service, &session)), [401, 401]);
    assert_eq!([&one, &other].map(|service| in_browser(service, &stays)), [200, 200]);
    stream.until_cut();
    fs::write(one.data.join("runs").join(&run).join("gate"), "go\n").unwrap();
    assert_eq!(goes_on.until_end().pop().unwrap()["type"], "conversation.completed");
}

#[test]
fn tokens_of_a_data_folder_become_those_of_all_services_once() {
    if !postgres::installed("tokens of a data folder become those of all services once") {
        return;
    }
    let services = Services::new();
    let alone = |name: &str, args: &[&str]| said(&services, name, &[&["--store", "sled", "token"], args].concat());
    let token = alone("one", &["new", "ci", "--scope", "read"]);
    let before = fs::read(services.data("one").join("tokens.json")).unwrap();
    let other = start(&services, "other", API);
    assert_eq!(ask(&other, &token).status, 401);
    let mut one = start(&services, "one", API);
    assert_eq!([&one, &other].map(|service| ask(service, &token).status), [200, 200]);
    let there = |name: &str| services.data("one").join(name).exists();
    assert_eq!([there("tokens.json"), there("tokens-moved.json")], [false, true]);

    said(&services, "other", &["token", "revoke", "ci"]);
    one.kill_9();
    // A backup of the folder was put back, or the service was killed before the file was put aside.
    fs::write(services.data("one").join("tokens.json"), before).unwrap();
    let one = start(&services, "one", API);
    assert_eq!([&one, &other].map(|service| ask(service, &token).status), [401, 401], "revoked for good");

    said(&services, "other", &["token", "new", "ci", "--scope", "read"]);
    alone("third", &["new", "ci", "--scope", "admin"]);
    let mut refused = services.command("third", API);
    let done = refused.env("SKILL_RUNNER_TOKEN", SETTING).output().unwrap();
    let told = String::from_utf8_lossy(&done.stderr).into_owned();
    assert!(done.status.code() == Some(2) && told.contains("token revoke NAME"), "{told}");
    alone("third", &["revoke", "ci"]);
    assert_eq!(start(&services, "third", API).get("/healthz").status, 200);
}

#[test]
fn nobody_is_let_in_by_a_shared_token_while_the_database_is_away() {
    if !postgres::installed("nobody is let in by a shared token while the database is away") {
        return;
    }
    let server = postgres::shared();
    let proxy = Proxy::to(server.address(), |_| When::Pass);
    let services = Services::on(server.url_at(proxy.address, &fresh()));
    let one = start(&services, "one", API);
    let token = said(&services, "desk", &["token", "new", "ci", "--scope", "read"]);
    let session = log_in(&one, &token);
    assert_eq!((ask(&one, &token).status, in_browser(&one, &session)), (200, 200));
    proxy.refuse(true);
    proxy.cut();
    let answer = ask(&one, &token);
    assert_eq!(answer.refusal(), (503, "STORE_UNREACHABLE".into()));
    assert!(!answer.header("retry-after").is_empty());
    assert_eq!(in_browser(&one, &session), 503);
    let lives = Call::new(one.address(), "GET", "/healthz").header("cookie", &cookie(&one, &session)).send();
    assert_eq!(lives.status, 200, "whether it lives is told all the same");
    proxy.refuse(false);
    crate::crash::until("the token opens again", || ask(&one, &token).status == 200);
}

#[test]
fn every_service_knows_the_keys_of_all_also_of_those_that_are_gone() {
    if !postgres::installed("every service knows the keys of all") {
        return;
    }
    let services = Services::new();
    services.skill("hello", HELLO, json!({}));
    let api = services.api("api");
    let mut worker = services.worker("worker");
    let run = api.create("hello");
    api.finish(&run);
    audited(&api, std::slice::from_ref(&run));
    worker.kill_9();
    let later = services.api("later");
    let key = said(&services, "worker", &["key"]);
    for service in [&api, &later] {
        let report = service.get(&format!("/v1/jobs/{run}/audit"));
        crate::support::openapi::check("GET", &format!("/v1/jobs/{run}/audit"), &report);
        let report = report.json();
        assert_eq!([&report["trust"], &report["signed_by"]], [&json!("trusted"), &json!(key)], "{report}");
        assert_eq!(report["signed_on"]["name"], "worker", "{report}");
    }
    let told = said(&services, "later", &["audit", &run]);
    assert!(told.contains(&format!("signed by {key} of worker (")), "{told}");
    let all = said(&services, "desk", &["key", "--all"]);
    assert!(
        all.lines().count() == 3 && all.lines().any(|line| line.contains(&key) && line.contains("worker")),
        "{all}"
    );
}
