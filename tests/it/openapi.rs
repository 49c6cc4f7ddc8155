//! The OpenAPI document: complete, true to the routes and codes, valid in itself, and what the service answers.

mod fuzzed;
mod pairs;
mod whole_numbers;

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::{env, fs};

use serde_json::{Value, json};
use skill_runner::domain::codes::{ErrorCode, Kind};
use skill_runner::http::all_routes;

use crate::support::openapi::{DOCUMENT, check, path_of, resolved, validator};
use crate::support::{Answer, Call, Server, program, script_skill, zips};

/// Each operation: its method, its path and itself.
fn operations() -> Vec<(String, &'static str, &'static Value)> {
    let paths = DOCUMENT["paths"].as_object().unwrap().iter();
    let of_path = |(path, methods): (&'static String, &'static Value)| {
        let methods = methods.as_object().unwrap().iter();
        methods.map(move |(method, operation)| (method.to_uppercase(), path.as_str(), operation)).collect::<Vec<_>>()
    };
    paths.flat_map(of_path).collect()
}

#[test]
fn the_document_has_every_route_of_the_table_with_its_parameters_and_nothing_else() {
    let documented: BTreeSet<(String, String)> =
        operations().into_iter().map(|(method, path, _)| (method, path.to_owned())).collect();
    let routes = all_routes();
    let plain = |path: &str| path.replace("{*", "{");
    let known = routes.iter().map(|route| (route.method.clone(), plain(&route.path))).collect();
    assert_eq!(documented, known);
    for route in &routes {
        let asked = format!("{} {}", route.method, route.path);
        let operation = &DOCUMENT["paths"][plain(&route.path)][route.method.to_lowercase()];
        let named = |place: &str| -> BTreeSet<&str> {
            let parameters = operation["parameters"].as_array().unwrap().iter();
            parameters.filter(|given| given["in"] == place).map(|given| given["name"].as_str().unwrap()).collect()
        };
        assert_eq!(named("query"), route.parameters.unwrap_or_default().iter().copied().collect(), "{asked}");
        let in_path = route.path.split(['{', '}']).skip(1).step_by(2).map(|name| name.trim_start_matches('*'));
        assert_eq!(named("path"), in_path.collect(), "{asked}");
        assert_eq!(operation["x-needs"], route.needs, "{asked}");
        assert_eq!(operation.get("security").is_some(), route.needs != "open", "{asked}");
    }
}

#[test]
fn every_operation_parameter_and_answer_is_described_and_has_an_example() {
    let mut ids = BTreeSet::new();
    for (method, path, operation) in operations() {
        let asked = format!("{method} {path}");
        let id = operation["operationId"].as_str().unwrap();
        assert!(ids.insert(id), "{id} stands twice");
        assert!(operation["summary"].as_str().unwrap().ends_with('.'), "{asked}");
        for parameter in operation["parameters"].as_array().unwrap() {
            assert!(!parameter["description"].as_str().unwrap().is_empty(), "{asked}: {parameter}");
            assert!(!parameter["example"].is_null(), "{asked}: {parameter}");
        }
        let body = operation.get("requestBody").and_then(|body| body["content"]["application/json"].get("schema"));
        let answers = operation["responses"].as_object().unwrap().values().map(|answer| resolved(answer).0);
        let answers = answers.inspect(|answer| assert!(!answer["description"].as_str().unwrap().is_empty(), "{asked}"));
        let answers: Vec<&Value> = answers.filter_map(|answer| answer["content"].get("application/json")).collect();
        for media in answers {
            let schema = resolved(&media["schema"]).0;
            assert!(media.get("examples").is_some() || schema.get("examples").is_some(), "{asked}: {media}");
        }
        if let Some(schema) = body {
            assert!(resolved(schema).0.get("examples").is_some(), "{asked}: {schema}");
        }
    }
}

#[test]
fn every_code_of_a_request_is_documented_and_every_schema_is_used_and_fits_its_examples() {
    let mut codes = BTreeSet::new();
    let mut used = BTreeSet::new();
    let text = DOCUMENT.to_string();
    for rest in text.split("#/components/examples/").skip(1) {
        codes.insert(rest.split('"').next().unwrap());
    }
    for rest in text.split("#/components/schemas/").skip(1) {
        used.insert(rest.split(['"', '/']).next().unwrap());
    }
    let requests = ErrorCode::ALL.iter().filter(|code| code.info().kinds.contains(&Kind::Request));
    let requests: BTreeSet<&str> = requests.map(|code| code.as_str()).collect();
    assert_eq!(requests.difference(&codes).collect::<Vec<_>>(), Vec::<&&str>::new(), "no operation has these codes");
    let schemas = DOCUMENT["components"]["schemas"].as_object().unwrap();
    assert_eq!(schemas.keys().map(String::as_str).collect::<BTreeSet<_>>(), used);
    for (name, schema) in schemas {
        let validator = validator(&format!("#/components/schemas/{name}"));
        for example in schema.get("examples").and_then(Value::as_array).into_iter().flatten() {
            let flaws: Vec<String> = validator.iter_errors(example).map(|flaw| flaw.to_string()).collect();
            assert_eq!(flaws, Vec::<String>::new(), "{name}: {example}");
        }
    }
}

#[test]
fn the_committed_document_is_the_one_that_is_served() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/openapi.json");
    let written = format!("{}\n", serde_json::to_string_pretty(&*DOCUMENT).unwrap());
    if env::var_os("UPDATE_DOCS").is_some() {
        fs::write(path, &written).unwrap();
    }
    assert!(
        fs::read_to_string(path).is_ok_and(|found| found == written),
        "docs/openapi.json differs from the routes; run: UPDATE_DOCS=1 cargo test --test it openapi::the_committed"
    );
    let server = Server::with(&[("token", "t0ken")]);
    assert_eq!(server.get("/v1/openapi.json").refusal(), (401, "UNAUTHORIZED".into()));
    assert_eq!(server.get("/docs").refusal(), (401, "UNAUTHORIZED".into()));
    let opened = |path: &str| server.call("GET", path).header("authorization", "Bearer t0ken").send();
    assert_eq!(opened("/v1/openapi.json").json(), *DOCUMENT);
    let page = opened("/docs");
    assert_eq!((page.status, page.header("content-type")), (200, "text/html; charset=utf-8"));
    let policy = page.header("content-security-policy");
    assert!(policy.starts_with("default-src 'none'; script-src 'self'; ") && !policy.contains("unsafe"), "{policy}");
}

#[test]
fn an_answer_that_the_document_does_not_tell_of_fails_the_test_that_gets_it() {
    let server = Server::start();
    let good = server.get("/v1/system");
    let passes = |change: &dyn Fn(&mut Answer)| {
        let mut answer = good.clone();
        change(&mut answer);
        let checked = std::panic::AssertUnwindSafe(|| check("GET", "/v1/system", &answer));
        std::panic::catch_unwind(checked).is_ok()
    };
    assert!(passes(&|_| {}));
    assert!(!passes(&|answer| answer.status = 418));
    assert!(!passes(&|answer| answer.body = b"{}".to_vec()));
    assert!(!passes(&|answer| {
        let mut told = answer.json();
        told["more"] = json!(1);
        answer.body = told.to_string().into_bytes();
    }));
    assert!(!passes(&|answer| drop(answer.headers.insert("content-type", "text/plain".parse().unwrap()))));
}

/// Writes an artifact and answers.
const WRITES: &str =
    "cat >/dev/null\nmkdir -p artifacts\nprintf hello > artifacts/a.md\necho '{\"success\":true,\"data\":{\"n\":1}}'\n";

fn package(version: &str) -> Vec<u8> {
    let folder = tempfile::tempdir().unwrap();
    script_skill(folder.path(), "brought", WRITES, json!({"runner": {"version": version}}));
    zips::zip_folder(&folder.path().join("brought"))
}

/// A way through the operations, on one service; each answer is held against the document.
#[test]
fn every_operation_answers_with_a_success_that_is_as_documented() {
    let server = Server::start();
    server.skill(
        "writes",
        WRITES,
        json!({"input": {"type": "object", "properties": {"n": {"type": "integer", "x-input-source": "inline"}}}}),
    );
    let file = json!({"type": "object", "properties": {"doc": {"x-input-source": "file"}}, "required": ["doc"]});
    server.skill("reads", WRITES, json!({"input": file}));
    let seen = RefCell::new(BTreeSet::new());
    let ask = |call: Call, method: &str, path: &str| {
        let answer = call.send();
        assert!(answer.status < 300, "{method} {path}: {}", answer.text());
        check(method, path, &answer);
        seen.borrow_mut().insert(format!("{method} {}", path_of(path).unwrap()));
        answer
    };
    let get = |path: &str| ask(server.call("GET", path), "GET", path);
    let post = |path: &str, body: Value| ask(server.call("POST", path).json(&body), "POST", path).json();
    let send = |path: &str, parts: &[(&str, &[u8])]| ask(server.call("POST", path).parts(parts), "POST", path).json();
    let delete = |path: &str| ask(server.call("DELETE", path), "DELETE", path);

    send("/v1/skill-packages/install?wait=60", &[("file", &package("1.0.0"))]);
    send("/v1/skill-packages/check", &[("file", &package("2.0.0"))]);
    let update = send("/v1/skill-packages/install?wait=60", &[("file", &package("2.0.0"))]);
    get("/v1/management/skills/brought/changes?from=1.0.0");
    get("/v1/management/skills/brought/file?path=SKILL.md");
    get("/v1/management/settings");
    get("/v1/management/nodes");
    post("/v1/jobs/check", json!({"skill_id": "writes"}));
    get(&format!("/v1/skill-packages/{}", update["request_id"].as_str().unwrap()));
    post("/v1/skills/brought/rollback", json!({"version": "1.0.0"}));
    for path in [
        "/healthz",
        "/readyz",
        "/metrics",
        "/ui",
        "/ui/",
        "/ui/skills",
        "/ui/static/app.js",
        "/docs",
        "/v1/openapi.json",
        "/v1/system",
    ] {
        get(path);
    }
    for path in ["/v1/skills", "/v1/skills/brought", "/v1/skills/brought/versions", "/v1/management/skills"] {
        get(path);
    }
    for path in ["/v1/management/skills/brought", "/v1/management/skills/brought/schemas", "/v1/engines"] {
        get(path);
    }
    for path in ["/v1/engines/auth-status", "/v1/engines/codex/models", "/v1/engines/codex/models/manifest"] {
        get(path);
    }
    for path in ["/v1/management/engines", "/v1/management/engines/codex", "/v1/management/engines/script"] {
        get(path);
    }
    for path in ["/ui/session", "/ui/skills/table", "/ui/engines/table", "/ui/runs/table"] {
        get(path);
    }
    let mut made = program();
    made.arg("--data-dir").arg(server.data()).args(["token", "new", "ann", "--scope", "read"]);
    let token = String::from_utf8(made.output().unwrap().stdout).unwrap();
    assert_eq!(post("/ui/session", json!({"token": token.trim()}))["name"], "ann");
    delete("/ui/session");
    post(
        "/v1/engines/codex/models/snapshots",
        json!({"cli_version": "9.9.9", "models": [{"id": "m", "efforts": ["low"]}]}),
    );
    for (n, prefix) in ["jobs", "temp-skill-runs", "management/runs"].into_iter().enumerate() {
        let created = post("/v1/jobs?wait=60", json!({"skill_id": "writes", "input": {"n": n}, "labels": {"a": "b"}}));
        let run = created["run_id"].as_str().unwrap().to_owned();
        let at = |rest: &str| format!("/v1/{prefix}/{run}{rest}");
        get(&format!("/v1/{prefix}?limit=5"));
        post(&at("/rerun?wait=60"), json!({"runtime_options": {"no_cache": true}}));
        let export = server.get(&format!("/v1/jobs/{run}/export")).body;
        send("/v1/management/audit", &[("file", &export)]);
        for path in ["", "?at_seq=1", "/explain", "/audit", "/events", "/events/history", "/logs/range?stream=stdout"] {
            get(&at(path));
        }
        let own: &[&str] = match prefix {
            "management/runs" => &["/files", "/file?path=artifacts/a.md"],
            _ => {
                &["/result", "/artifacts", "/artifacts/artifacts/a.md", "/bundle", "/explain/cache", "/export", "/logs"]
            }
        };
        own.iter().for_each(|path| drop(get(&at(path))));
        post(&at("/events/ticket"), json!({}));
        get(&format!("/ui/runs/{run}/view?path=artifacts/a.md"));
        get(&format!("/ui/runs/{run}/logs/tail"));
        ask(server.call("POST", &at("/cancel")), "POST", &at("/cancel"));
        delete(&at(""));
    }
    let waiting = post("/v1/jobs", json!({"skill_id": "reads"}));
    let upload = format!("/v1/jobs/{}/upload?wait=60", waiting["run_id"].as_str().unwrap());
    assert_eq!(send(&upload, &[("doc", b"text")])["status"], "succeeded");
    let waiting = post("/v1/temp-skill-runs", json!({}));
    let upload = format!("/v1/temp-skill-runs/{}/upload?wait=60", waiting["run_id"].as_str().unwrap());
    assert_eq!(send(&upload, &[("skill_package", &package("1.0.0"))])["status"], "succeeded");
    delete("/v1/skills/brought");
    post("/v1/jobs/cleanup", json!({"keep_last": 1}));
    let backup = post("/v1/backups", json!({"name": "one"}));
    get(&format!("/v1/backups/{}", backup["backup_id"].as_str().unwrap()));

    let all = operations().into_iter().map(|(method, path, _)| format!("{method} {path}"));
    let left: Vec<String> = all.filter(|operation| !seen.borrow().contains(operation)).collect();
    // Questions and upgrades need an agent CLI or npm, and only services on a shared store drain; they have tests of their own.
    let elsewhere = |operation: &String| {
        ["pending", "reply", "upgrades", "upgrades/{id}", "/drain"].iter().any(|end| operation.ends_with(end))
    };
    assert_eq!(left.iter().filter(|operation| !elsewhere(operation)).collect::<Vec<_>>(), Vec::<&String>::new());
    assert_eq!(left.len(), 9);
}
