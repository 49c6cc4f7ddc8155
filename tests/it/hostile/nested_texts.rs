//! JSON that is deep only to a reader that takes a name in it for one of its own: whoever sends it, the service goes on.

use std::fs;

use serde_json::{Value, json};

use super::packages::nested_texts;
use super::parsers::Service;
use crate::interactive::pose::{self, Pose};
use crate::support::{Server, script_skill};

/// Prints a file that lies beside it.
const PRINTS: &str = "cat > /dev/null\ncat \"$(dirname \"$0\")/deep.json\"\n";

#[test]
fn a_request_with_texts_to_be_read_as_json_is_refused() {
    let mut service = Service::start(|_| {});
    let deep = nested_texts(250);
    for body in [
        format!(r#"{{"skill_id":"sound","input":{{"a":{deep}}}}}"#),
        format!(r#"{{"skill_id":"sound","metadata":{{"a":{}}}}}"#, deep.replace('$', "\\u0024")),
        r#"{"skill_id":"sound","metadata":{"$serde_json::private::Number":"1"}}"#.to_owned(),
        r#"{"skill_id":"sound","metadata":{"a":{"$serde_json::private::Number":"1"}}}"#.to_owned(),
    ] {
        let refused = service.call("POST", "/v1/jobs").body("application/json", body).send();
        assert_eq!(refused.refusal(), (400, "INVALID_REQUEST".into()));
        assert!(refused.text().contains("is reserved: choose another name"), "{}", refused.text());
        service.lives();
    }
    let quoted = json!({"skill_id": "sound", "metadata": {"about": "{\"$serde_json::private::Number\":\"1\"}"}});
    assert_eq!(service.call("POST", "/v1/jobs?wait=60").json(&quoted).send().json()["status"], "succeeded");
}

#[test]
fn a_script_that_answers_with_such_texts_has_given_no_answer() {
    let mut service = Service::start(|skills| {
        script_skill(skills, "deep", PRINTS, json!({}));
        let answer = format!(r#"{{"success":true,"data":{{"a":{}}}}}"#, nested_texts(250));
        fs::write(skills.join("deep/scripts/deep.json"), answer).unwrap();
    });
    let job = service.call("POST", "/v1/jobs?wait=60").json(&json!({"skill_id": "deep"})).send().json();
    assert_eq!(job["status"], "failed", "{job}");
    let run = job["run_id"].as_str().unwrap();
    for path in ["explain", "result", "events/history", "export"] {
        let answer = service.call("GET", &format!("/v1/jobs/{run}/{path}")).send();
        assert!(answer.status < 500, "{path}: {}", answer.text());
    }
    service.lives();
}

#[test]
fn an_engine_that_prints_such_texts_is_quoted_and_not_believed() {
    let pose = Pose::new();
    let server = Server::with(&[("engines.codex.command", &pose.command())]);
    pose::skill(&server.folder.path().join("skills"), "posed", None);
    let line = format!(r#"{{"type":"item.completed","item":{}}}"#, nested_texts(80));
    let said = pose::says(&nested_texts(80));
    pose.plays(&[said.replacen('\n', &format!("\n{line}\n"), 1)]);
    let (_, run) = server.finished("posed");
    let last: Value = server.finish(&run).pop().unwrap();
    assert_eq!(last["data"]["status"], "failed", "{last}");
}

/// The check of a text that is to be JSON reads it, too: as input, and as output.
#[test]
fn a_text_that_a_schema_wants_to_be_json_is_refused_if_it_holds_such_texts() {
    let schema = |source: Value| {
        json!({"$schema": "http://json-schema.org/draft-07/schema#", "type": "object", "properties":
            {"text": {"type": "string", "contentMediaType": "application/json", "x-input-source": source}}})
    };
    let mut service = Service::start(|skills| {
        let schemas = json!({"input": schema(json!("inline")), "output": schema(Value::Null)});
        script_skill(skills, "media", PRINTS, schemas);
        let answer = json!({"success": true, "data": {"text": nested_texts(250)}});
        fs::write(skills.join("media/scripts/deep.json"), answer.to_string()).unwrap();
    });
    let asked = |text: &str| json!({"skill_id": "media", "input": {"text": text}});
    let refused = service.call("POST", "/v1/jobs").json(&asked(&nested_texts(180))).send();
    assert_eq!(refused.refusal(), (400, "INPUT_VALIDATION_FAILED".into()), "{}", refused.text());
    service.lives();
    let job = service.call("POST", "/v1/jobs?wait=60").json(&asked("[1]")).send().json();
    assert_eq!(
        (&job["status"], &job["error"]["code"]),
        (&json!("failed"), &json!("SCHEMA_VALIDATION_FAILED")),
        "{job}"
    );
    service.lives();
}
