//! What the document calls an integer may be written as JSON Schema allows: `2`, `2.0`, `0.2e1`.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::support::openapi::DOCUMENT;
use crate::support::skill::HELLO;
use crate::support::{Answer, Server};

/// The places of a schema that hold an integer, each as a JSON pointer into a body.
fn integers(schema: &Value, at: &str, found: &mut BTreeSet<String>) {
    if let Some(name) = schema["$ref"].as_str() {
        integers(DOCUMENT.pointer(&name[1..]).unwrap(), at, found);
    }
    let types = &schema["type"];
    if types == "integer" || types.as_array().is_some_and(|types| types.contains(&json!("integer"))) {
        found.insert(at.to_owned());
    }
    for (name, inner) in schema["properties"].as_object().into_iter().flatten() {
        integers(inner, &format!("{at}/{name}"), found);
    }
    for inner in ["oneOf", "anyOf", "allOf"].iter().flat_map(|word| schema[*word].as_array().into_iter().flatten()) {
        integers(inner, at, found);
    }
}

/// A body with this text at the place of the pointer.
fn with(pointer: &str, value: &str, others: &[(&str, Value)]) -> String {
    let (folder, name) = pointer.rsplit_once('/').unwrap();
    let folders: Vec<&str> = folder.split('/').skip(1).collect();
    let mut text = format!("{{\"{name}\": {value}}}");
    if name == "backoff_seconds" {
        // There is none without a number of retries.
        text = format!("{{\"times\": 1, \"{name}\": {value}}}");
    }
    for folder in folders.into_iter().rev() {
        text = format!("{{\"{folder}\": {text}}}");
    }
    let others: String = others.iter().map(|(name, value)| format!(", \"{name}\": {value}")).collect();
    format!("{}{others}}}", &text[..text.len() - 1])
}

#[test]
fn each_integer_of_a_body_may_be_written_with_a_fraction_of_zero_and_no_other() {
    let mut found = BTreeSet::new();
    for operation in DOCUMENT["paths"].as_object().unwrap().values().flat_map(|path| path.as_object().unwrap().values())
    {
        let schema = &operation["requestBody"]["content"]["application/json"]["schema"];
        integers(schema, "", &mut found);
    }
    let known = [
        "/interaction_id",
        "/keep_last",
        "/older_than_sec",
        "/priority",
        "/runtime_options/hard_timeout_seconds",
        "/runtime_options/interactive_reply_timeout_sec",
        "/runtime_options/retry/backoff_seconds",
        "/runtime_options/retry/times",
        "/runtime_options/stall_timeout_seconds",
    ];
    assert_eq!(found.iter().map(String::as_str).collect::<Vec<_>>(), known, "a new integer is to be tried here");

    let server = Server::start();
    server.skill("hello", HELLO, json!({}));
    let (_, run) = server.finished("hello");
    let sent = |pointer: &str, value: &str| -> Answer {
        let (path, others) = match pointer {
            "/interaction_id" => (format!("/v1/jobs/{run}/interaction/reply"), vec![("response", json!("x"))]),
            "/keep_last" | "/older_than_sec" => ("/v1/jobs/cleanup".to_owned(), Vec::new()),
            _ => ("/v1/jobs/check".to_owned(), vec![("skill_id", json!("hello"))]),
        };
        server.call("POST", &path).body("application/json", with(pointer, value, &others)).send()
    };
    for pointer in known {
        let plain = sent(pointer, "10");
        for form in ["10.00", "100e-1", "1e1"] {
            let answer = sent(pointer, form);
            assert_eq!(answer.status, plain.status, "{pointer} {form}: {}", answer.text());
            if plain.status >= 400 {
                assert_eq!(answer.refusal(), plain.refusal(), "{pointer} {form}");
            }
        }
        for wrong in ["1.5", "\"1\"", "1e300"] {
            let refused = sent(pointer, wrong);
            assert_eq!(refused.refusal(), (400, "INVALID_REQUEST".into()), "{pointer} {wrong}");
            assert_eq!(refused.json()["error"]["details"][0]["path"], pointer, "{wrong}: {}", refused.text());
        }
    }
    // A body that is patched is read in the same way.
    let rerun = server.call("POST", &format!("/v1/jobs/{run}/rerun")).body("application/json", "{\"priority\": 3.0}");
    assert_eq!(rerun.send().status, 201);
}
