//! Requests that cannot be answered, each with its code and its envelope.

use serde_json::{Value, json};

use crate::support::Server;
use crate::support::skill::HELLO;

#[test]
fn unknown_routes_and_wrong_methods_have_the_envelope() {
    let server = Server::start();
    for path in
        ["/", "/v1", "/v1/", "/v1/jobs/", "/v2/jobs", "/v1/jobs/x/nothing", "/v1/jobs/x/artifacts/", "//v1/jobs"]
    {
        assert_eq!(server.get(path).refusal(), (404, "ROUTE_NOT_FOUND".into()), "{path}");
    }
    for (method, path, allow) in [
        ("DELETE", "/v1/jobs", "GET,HEAD,POST"),
        ("PUT", "/v1/jobs/x", "GET,HEAD,DELETE"),
        ("GET", "/v1/jobs/x/cancel", "POST"),
        ("POST", "/v1/jobs/x/events", "GET,HEAD"),
        ("PATCH", "/healthz", "GET,HEAD"),
    ] {
        let answer = server.call(method, path).send();
        assert_eq!(answer.refusal(), (405, "METHOD_NOT_ALLOWED".into()), "{method} {path}");
        assert_eq!(answer.header("allow"), allow);
    }
}

#[test]
fn an_id_nobody_knows_is_not_found_on_every_route() {
    let server = Server::start();
    let id = "0192f0c1-2d3e-7f40-8a51-6b7c8d9e0f11";
    for rest in [
        "",
        "/result",
        "/artifacts",
        "/artifacts/artifacts/x",
        "/bundle",
        "/logs",
        "/logs/range",
        "/events",
        "/events/history",
    ] {
        let answer = server.get(&format!("/v1/jobs/{id}{rest}"));
        assert_eq!(answer.refusal(), (404, "REQUEST_NOT_FOUND".into()), "{rest}");
        assert_eq!(answer.json()["error"]["request_id"], Value::Null);
    }
}

#[test]
fn bad_percent_encodings_are_refused() {
    let server = Server::start();
    for path in [
        "/v1/jobs/%zz",
        "/v1/jobs/%",
        "/v1/jobs/%f",
        "/v1/jobs/%ff",
        "/v1/skills/%ff",
        "/v1/jobs?skill_id=%ff",
        "/v1/jobs?skill_id=%2",
    ] {
        let raw = crate::support::client::raw(
            server.address,
            format!("GET {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n").as_bytes(),
        );
        assert!(raw.starts_with("HTTP/1.1 400") && raw.contains("\"code\":\"INVALID_REQUEST\""), "{path}: {raw}");
    }
}

#[test]
fn bodies_that_are_not_json_say_where() {
    let server = Server::start();
    let post = |body: &[u8]| server.call("POST", "/v1/jobs").body("application/json", body).send();
    for (body, place) in [
        (&b""[..], json!({"line": 1, "column": 0})),
        (b"{\"skill_id\":\n  oops}", json!({"line": 2, "column": 3})),
        (b"{\"skill_id\":\"a\"", json!({"line": 1, "column": 15})),
        (b"{\"skill_id\":\"a\"} x", json!({"line": 1, "column": 18})),
        (b"{'skill_id':1}", json!({"line": 1, "column": 2})),
    ] {
        let answer = post(body);
        assert_eq!(answer.refusal(), (400, "INVALID_JSON".into()));
        assert_eq!(answer.json()["error"]["details"], place, "{}", String::from_utf8_lossy(body));
    }
    assert_eq!(post(b"{\"skill_id\":\"\xff\"}").refusal(), (400, "INVALID_JSON".into()));
    let deep = format!("{{\"skill_id\":\"a\",\"input\":{{\"a\":{}", "[".repeat(100_000));
    assert_eq!(post(deep.as_bytes()).refusal(), (400, "INVALID_JSON".into()));
}

/// What is stored has some levels more around what was sent, and must still be read.
#[test]
fn a_body_is_as_deep_as_can_be_read_again_with_its_event_around() {
    let server = Server::start();
    server.skill("hello", HELLO, json!({}));
    for member in ["parameter", "metadata"] {
        let body = |levels: usize| {
            let (open, close) = ("[".repeat(levels - 2), "]".repeat(levels - 2));
            format!("{{\"skill_id\":\"hello\",\"{member}\":{{\"a\":{open}{close}}}}}")
        };
        let post = |body: String| server.call("POST", "/v1/jobs?wait=60").body("application/json", body).send();
        let done = post(body(120));
        assert_eq!((done.status, &done.json()["status"]), (201, &json!("succeeded")), "{member}: {}", done.text());
        let run = done.json()["run_id"].as_str().unwrap().to_owned();
        let report = server.get(&format!("/v1/jobs/{run}/audit")).json();
        assert_eq!(report["ok"], json!(true), "{member}: {report}");
        let refused = post(body(121));
        assert_eq!(refused.refusal(), (400, "INVALID_JSON".into()), "{member}");
        assert!(refused.text().contains("more than 120 arrays and objects"), "{}", refused.text());
        assert_eq!(refused.json()["error"]["details"]["line"], json!(1));
    }
}

#[test]
fn json_that_does_not_fit_is_pointed_at() {
    let server = Server::start();
    let details = |path: &str, body: &str| {
        let answer = server.call("POST", path).body("application/json", body).send();
        assert_eq!(answer.refusal(), (400, "INVALID_REQUEST".into()), "{body}");
        let details = answer.json()["error"]["details"].clone();
        let [detail] = details.as_array().unwrap().as_slice() else { panic!("{details}") };
        assert!(!detail["message"].as_str().unwrap().is_empty());
        detail["path"].as_str().unwrap().to_owned()
    };
    for (body, path) in [
        ("[]", ""),
        ("null", ""),
        ("{}", ""),
        (r#"{"skill_id":7}"#, "/skill_id"),
        (r#"{"skill_id":"a","input":[]}"#, "/input"),
        (r#"{"skill_id":"a","colour":"red"}"#, "/colour"),
        (r#"{"skill_id":"a","runtime_options":{"debug":"yes"}}"#, "/runtime_options/debug"),
        (r#"{"skill_id":"a","runtime_options":{"speed":1}}"#, "/runtime_options/speed"),
        (r#"{"skill_id":"a","runtime_options":{"execution_mode":"fast"}}"#, "/runtime_options/execution_mode"),
        (r#"{"skill_id":"a","runtime_options":{"hard_timeout_seconds":-1}}"#, "/runtime_options/hard_timeout_seconds"),
    ] {
        assert_eq!(details("/v1/jobs", body), path, "{body}");
    }
    assert_eq!(details("/v1/jobs/cleanup", r#"{"keep_last":-1}"#), "/keep_last");
    assert_eq!(details("/v1/engines/upgrades", r#"{"mode":[]}"#), "/mode");
    assert_eq!(details("/v1/engines/upgrades", r#"{"mode":7}"#), "/mode");
    assert_eq!(details("/v1/jobs/cleanup", r#"{"all":true}"#), "/all");
}

#[test]
fn messages_about_a_body_speak_of_json_and_point_to_the_place() {
    let server = Server::start();
    // Each field of each body with a value of every kind; what fits leads to other refusals.
    let bodies = [
        (
            "/v1/jobs",
            &["skill_id", "engine", "input", "parameter", "model", "runtime_options", "await_upload", "codex_config"][..],
        ),
        ("/v1/temp-skill-runs", &["engine", "input", "runtime_options"]),
        ("/v1/jobs/cleanup", &["older_than_sec", "keep_last"]),
        ("/v1/engines/upgrades", &["mode", "engine"]),
        ("/v1/engines/codex/models/snapshots", &["cli_version", "models"]),
    ];
    let options = [
        "execution_mode",
        "no_cache",
        "debug",
        "debug_keep_temp",
        "verbose",
        "interactive_auto_reply",
        "interactive_reply_timeout_sec",
        "hard_timeout_seconds",
        "stall_timeout_seconds",
    ];
    let values = ["null", "true", "-1", "1.5", "99999999999999999999", "\"x\"", "[]", "[1]", "{}", "{\"x\":1}"];
    let check = |path: &str, body: &str| {
        let answer = server.call("POST", path).body("application/json", body).send();
        if answer.status < 400 {
            return;
        }
        let (status, code) = answer.refusal();
        assert!((400..500).contains(&status), "{path} {body}: {status} {code}");
        let told = answer.text();
        for rust in [
            "struct ",
            " u64",
            " u32",
            " i64",
            " f64",
            "usize",
            "enum ",
            "a map",
            " map,",
            "sequence",
            "tuple",
            "unit",
            "OptionsRequest",
            "expected a ",
        ] {
            assert!(!told.contains(rust), "{path} {body}: {told}");
        }
        if code == "INVALID_REQUEST" {
            for detail in answer.json()["error"]["details"].as_array().into_iter().flatten() {
                let place = detail["path"].as_str().unwrap();
                assert!(place.is_empty() || place.starts_with('/'), "{path} {body}: {place} is no JSON pointer");
            }
        }
    };
    for value in values {
        for (path, fields) in bodies {
            check(path, value);
            for field in fields {
                check(path, &format!("{{\"{field}\":{value}}}"));
            }
        }
        for option in options {
            check("/v1/jobs", &format!("{{\"skill_id\":\"none\",\"runtime_options\":{{\"{option}\":{value}}}}}"));
        }
    }
    let told = |body: Value| {
        let error = server.post("/v1/jobs", &body).json()["error"].clone();
        (error["message"].as_str().unwrap().to_owned(), error["details"][0]["path"].as_str().unwrap().to_owned())
    };
    assert_eq!(
        told(json!({"skill_id": "a", "runtime_options": []})),
        (
            "the body is not valid at /runtime_options: must be an object, not an array".into(),
            "/runtime_options".into()
        )
    );
    assert_eq!(
        told(json!({"skill_id": "a", "runtime_options": {"hard_timeout_seconds": -1}})).0,
        "the body is not valid at /runtime_options/hard_timeout_seconds: must be a whole number of 0 or more, not -1"
    );
}

#[test]
fn a_wrong_query_parameter_is_named() {
    let server = Server::start();
    server.skill("hello", HELLO, json!({}));
    let (_, run) = server.finished("hello");
    for (path, code, name) in [
        ("/v1/jobs?limit=x".to_owned(), "INVALID_REQUEST", "limit"),
        ("/v1/jobs?status=x".to_owned(), "INVALID_REQUEST", "status"),
        ("/v1/jobs?before=x".to_owned(), "INVALID_REQUEST", "before"),
        ("/v1/jobs?skill_id=%ff".to_owned(), "INVALID_REQUEST", "skill_id"),
        (format!("/v1/jobs/{run}?at_seq=x"), "INVALID_REQUEST", "at_seq"),
        (format!("/v1/jobs/{run}/events?cursor=x"), "INVALID_CURSOR", "cursor"),
        (format!("/v1/jobs/{run}/events/history?to_seq=x"), "INVALID_REQUEST", "to_seq"),
        (format!("/v1/jobs/{run}/logs/range?stream=x"), "INVALID_REQUEST", "stream"),
        (format!("/v1/jobs/{run}/logs/range?stream=stdout&byte_from=2&byte_to=1"), "INVALID_REQUEST", "byte_to"),
        (format!("/v1/jobs/{run}/explain?path=x"), "INVALID_REQUEST", "path"),
        (format!("/v1/management/runs/{run}/file"), "INVALID_REQUEST", "path"),
    ] {
        let answer = server.get(&path);
        assert_eq!(answer.refusal(), (400, code.to_owned()), "{path}");
        assert_eq!(answer.json()["error"]["details"][0]["path"], json!(name), "{path}");
    }
    let told = server.get("/v1/jobs?state=failed").json()["error"]["message"].clone();
    let reads = "status, skill_id, engine, limit, before, since, until, label";
    assert_eq!(told, json!(format!("state: is not a parameter of this route, which reads {reads}")));
}

#[test]
fn an_idempotency_key_is_one_header_that_is_not_empty() {
    let server = Server::start();
    server.skill("hello", HELLO, json!({}));
    let body = r#"{"skill_id":"hello"}"#;
    let long = format!("idempotency-key: {}\r\n", "k".repeat(257));
    for (headers, status) in [
        ("idempotency-key:\r\n", 400),
        ("idempotency-key:  \t \r\n", 400),
        ("idempotency-key: a\r\nidempotency-key: a\r\n", 400),
        ("idempotency-key: a\r\nIdempotency-Key: b\r\n", 400),
        ("idempotency-key: a\tb\r\n", 400),
        ("idempotency-key: \u{e4}\r\n", 400),
        (long.as_str(), 400),
        ("idempotency-key: a b\r\n", 201),
    ] {
        let request = format!(
            "POST /v1/jobs HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\ncontent-type: application/json\r\n\
             content-length: {}\r\n{headers}\r\n{body}",
            body.len()
        );
        let answer = crate::support::client::raw(server.address, request.as_bytes());
        assert!(answer.starts_with(&format!("HTTP/1.1 {status} ")), "{headers}: {answer}");
        assert_eq!(answer.contains("\"code\":\"INVALID_REQUEST\""), status == 400, "{headers}: {answer}");
    }
    assert_eq!(server.get("/v1/jobs").json()["jobs"].as_array().unwrap().len(), 1);
}

#[test]
fn a_part_of_an_upload_whose_head_does_not_end_is_refused_before_it_fills_the_memory() {
    let server = Server::start();
    let large = "x".repeat(8 << 20);
    for body in [
        format!("--EDGE\r\ncontent-disposition: form-data; name=\"{large}"),
        format!("--EDGE\r\ncontent-disposition: form-data; name=\"file\"\r\nx-more: {large}"),
        large,
    ] {
        let call = server.call("POST", "/v1/skill-packages/install");
        let refused = call.body("multipart/form-data; boundary=EDGE", body).send();
        assert_eq!(refused.refusal(), (400, "INVALID_REQUEST".into()));
        assert!(refused.text().contains("the head of a part is longer than 65536 bytes"), "{}", refused.text());
    }
    assert_eq!(server.left_behind(), Vec::<String>::new());
}

#[test]
fn the_names_of_the_parts_of_an_upload_are_refused_before_they_fill_the_memory() {
    let server = Server::start();
    server.skill(
        "reader",
        HELLO,
        json!({"input": {"type": "object", "properties": {"paper": {}}, "required": ["paper"]}}),
    );
    let (request, _) = server.create("reader");
    let long = "x".repeat(60_000);
    for (name, file_name) in [("paper", long.as_str()), (long.as_str(), "paper.txt")] {
        let part =
            format!("--EDGE\r\ncontent-disposition: form-data; name=\"{name}\"; filename=\"{file_name}\"\r\n\r\n\r\n");
        // The body has no end: the refusal comes from what came before.
        let call = server.call("POST", &format!("/v1/jobs/{request}/upload"));
        let refused = call.body("multipart/form-data; boundary=EDGE", part.repeat(20)).send();
        assert_eq!(refused.refusal(), (413, "PAYLOAD_TOO_LARGE".into()));
        assert_eq!(refused.json()["error"]["details"], json!({"limit_bytes": 640 * 1024}));
    }
    let job = server.get(&format!("/v1/jobs/{request}")).json();
    assert_eq!((&job["awaiting_upload"], &job["status"]), (&json!(true), &json!("queued")));
}

#[test]
fn an_array_in_the_place_of_an_object_is_refused_at_any_depth() {
    let server = Server::start();
    server.skill("hello", HELLO, json!({}));
    for (path, body, place) in [
        ("/v1/jobs", json!({"skill_id": "hello", "runtime_options": []}), "/runtime_options"),
        ("/v1/jobs", json!({"skill_id": "hello", "runtime_options": ["auto"]}), "/runtime_options"),
        ("/v1/engines/codex/models/snapshots", json!({"models": [["gpt-5"]]}), "/models/0"),
    ] {
        let refused = server.post(path, &body);
        assert_eq!(refused.refusal(), (400, "INVALID_REQUEST".into()), "{body}");
        let expected = json!([{"path": place, "message": "must be an object, not an array"}]);
        assert_eq!(refused.json()["error"]["details"], expected, "{body}");
    }
    assert_eq!(server.left_behind(), Vec::<String>::new());
}

#[test]
fn an_array_is_not_taken_for_an_object_whose_members_stand_in_order() {
    let server = Server::start();
    server.skill("hello", HELLO, json!({}));
    let (_, run) = server.finished("hello");
    for (path, body) in [("/v1/jobs", json!(["hello"])), ("/v1/jobs/cleanup", json!([]))] {
        let refused = server.post(path, &body);
        assert_eq!(refused.refusal(), (400, "INVALID_REQUEST".into()), "{path}");
    }
    assert_eq!(server.get(&format!("/v1/jobs/{run}")).status, 200, "nothing was cleaned up");
}

#[test]
fn a_small_schema_whose_references_multiply_makes_no_skill() {
    let server = Server::start();
    let next = |number: u32| json!({"$ref": format!("#/$defs/a{number}")});
    let mut defs: serde_json::Map<String, Value> =
        (0..40).map(|number| (format!("a{number}"), json!({"allOf": [next(number + 1), next(number + 1)]}))).collect();
    defs.insert("a40".into(), json!({"type": "object"}));
    let schema = json!({"type": "object", "$ref": "#/$defs/a0", "$defs": defs});
    for kind in ["input", "output"] {
        server.skill(&format!("slow-{kind}"), HELLO, json!({kind: schema}));
        let refused = server.post("/v1/jobs", &json!({"skill_id": format!("slow-{kind}")}));
        assert_eq!(refused.refusal(), (404, "SKILL_NOT_FOUND".into()));
    }
}

#[test]
fn a_request_without_a_content_type_is_told_so() {
    let server = Server::start();
    for (path, send) in
        [("/v1/jobs", "application/json"), ("/v1/skill-packages/install", "multipart/form-data, as `curl -F` does")]
    {
        let answer = server.call("POST", path).send();
        assert_eq!(answer.refusal(), (415, "UNSUPPORTED_MEDIA_TYPE".into()), "{path}");
        let told = format!("the request has no Content-Type header; send {send}");
        assert_eq!(answer.json()["error"]["message"], json!(told), "{path}");
    }
}

#[test]
fn bodies_of_another_type_or_size_are_refused() {
    let server = Server::start();
    for content_type in ["text/plain", "", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x"] {
        let answer = server.call("POST", "/v1/jobs").body(content_type, "{}").send();
        assert_eq!(answer.refusal(), (415, "UNSUPPORTED_MEDIA_TYPE".into()), "{content_type}");
    }
    for content_type in ["application/json; charset=utf-8", "APPLICATION/JSON", "application/vnd.x+json"] {
        let answer = server.call("POST", "/v1/jobs").body(content_type, r#"{"skill_id":"none"}"#).send();
        assert_eq!(answer.refusal(), (404, "SKILL_NOT_FOUND".into()), "{content_type}");
    }
    let large = json!({"skill_id": "a", "input": {"text": "x".repeat(9 << 20)}});
    assert_eq!(server.post("/v1/jobs", &large).refusal(), (413, "PAYLOAD_TOO_LARGE".into()));
}

#[test]
fn an_input_too_large_for_one_event_is_refused_and_leaves_nothing() {
    let server = Server::start();
    let note = json!({"type": "object", "properties": {"note": {"type": "string", "x-input-source": "inline"}}});
    server.skill("hello", HELLO, json!({"input": note}));
    let body = json!({"skill_id": "hello", "input": {"note": "x".repeat(3 << 20)}});
    assert_eq!(server.post("/v1/jobs", &body).refusal(), (413, "PAYLOAD_TOO_LARGE".into()));
    assert_eq!(server.left_behind(), Vec::<String>::new());
}

#[test]
fn what_the_skill_cannot_take_is_refused_with_its_code_and_place() {
    let server = Server::start();
    server.skill(
        "picky",
        HELLO,
        json!({
            "input": {"type": "object", "required": ["n"], "properties": {
                "paper": {"type": "string"},
                "n": {"type": "integer", "x-input-source": "inline"},
            }},
            "parameter": {"type": "object", "properties": {"k": {"type": "boolean"}}, "additionalProperties": false},
        }),
    );
    for (more, status, code, path) in [
        (json!({"input": {"paper": "text"}}), 400, "FILE_INPUT_INLINE", "/input/paper"),
        (json!({"input": {"pages": 1}}), 400, "UNKNOWN_INPUT_KEY", "/input/pages"),
        (json!({"input": {"a/b": 1}}), 400, "UNKNOWN_INPUT_KEY", "/input/a~1b"),
        (json!({"input": {"n": "one"}}), 400, "INPUT_VALIDATION_FAILED", "/input/n"),
        (json!({"input": {}}), 400, "INPUT_VALIDATION_FAILED", "/input"),
        (json!({"input": {"n": 1}, "parameter": {"k": 1}}), 400, "PARAMETER_VALIDATION_FAILED", "/parameter/k"),
        (json!({"input": {"n": 1}, "parameter": {"m": 1}}), 400, "PARAMETER_VALIDATION_FAILED", "/parameter"),
        (json!({"engine": "codex"}), 400, "SKILL_ENGINE_UNSUPPORTED", "/engine"),
        (json!({"model": "large"}), 400, "MODEL_NOT_ALLOWED", "/model"),
        (json!({"model": ""}), 400, "INVALID_REQUEST", "/model"),
        (json!({"model": " \t"}), 400, "INVALID_REQUEST", "/model"),
        (
            json!({"runtime_options": {"execution_mode": "interactive"}}),
            400,
            "SKILL_EXECUTION_MODE_UNSUPPORTED",
            "/runtime_options/execution_mode",
        ),
        (
            json!({"runtime_options": {"hard_timeout_seconds": 0}}),
            400,
            "INVALID_REQUEST",
            "/runtime_options/hard_timeout_seconds",
        ),
        (json!({"labels": {"": "x"}}), 400, "INVALID_REQUEST", "/labels/"),
    ] {
        let mut body = json!({"skill_id": "picky"});
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        let answer = server.post("/v1/jobs", &body);
        assert_eq!(answer.refusal(), (status, code.to_owned()), "{body}");
        assert_eq!(answer.json()["error"]["details"][0]["path"], path, "{}", answer.text());
    }
    for unknown in ["missing", "../picky"] {
        let answer = server.post("/v1/jobs", &json!({"skill_id": unknown}));
        assert_eq!(answer.refusal(), (404, "SKILL_NOT_FOUND".to_owned()), "{unknown}");
    }
    assert_eq!(server.left_behind(), Vec::<String>::new());
    for wrong in ["wait=x", "wait=-1", "wait=1&wait=2", "speed=1"] {
        let answer = server.post(&format!("/v1/jobs?{wrong}"), &json!({"skill_id": "picky"}));
        assert_eq!(answer.refusal(), (400, "INVALID_REQUEST".into()), "{wrong}");
    }
}

#[test]
fn after_the_stop_nothing_new_is_answered_and_the_server_ends() {
    use std::io::{BufRead, BufReader, Read, Write};
    let mut server = Server::start();
    // A connection that is open before the stop and in the middle of a request head is still answered.
    let connection = std::net::TcpStream::connect(server.address).unwrap();
    connection.set_read_timeout(Some(crate::support::LONG)).unwrap();
    let mut connection = BufReader::new(connection);
    let ask = |connection: &mut BufReader<std::net::TcpStream>, rest: &str| {
        write!(connection.get_mut(), "{rest}").unwrap();
        let mut status = String::new();
        connection.read_line(&mut status).unwrap();
        status
    };
    assert_eq!(ask(&mut connection, "GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n"), "HTTP/1.1 200 OK\r\n");
    server.stop();
    server.stopped();
    // Its address may be another test's by now, so the old connection tells.
    let mut rest = Vec::new();
    connection.read_to_end(&mut rest).unwrap();
    assert!(!rest.is_empty(), "the rest of the first answer, and nothing after it");
}
