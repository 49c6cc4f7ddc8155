//! What a request may ask of a run: models, configurations, retries; and what the skill's schemas supply.

use std::fs;

use serde_json::{Value, json};

use crate::interactive::pose::{self, Pose, says};
use crate::support::{Server, of_type};

/// A server whose codex is a pose, and the folder of a skill that runs on codex alone.
fn scene(runner: &Value) -> (Server, Pose) {
    let pose = Pose::new();
    let server = Server::with(&[("engines.codex.command", &pose.command())]);
    let skills = server.folder.path().join("skills");
    pose::skill(&skills, "say", None);
    let path = skills.join("say/assets/runner.json");
    let mut manifest: Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
    manifest["engines"] = json!(["codex"]);
    manifest.as_object_mut().unwrap().extend(runner.as_object().unwrap().clone());
    fs::write(path, manifest.to_string()).unwrap();
    pose.plays(&[says("{\"name\": \"Ann\"}")]);
    (server, pose)
}

fn say(more: &Value) -> Value {
    let mut body = json!({"skill_id": "say"});
    body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    body
}

#[test]
fn a_model_outside_the_skills_list_is_refused_and_one_outside_the_clis_list_is_warned_of() {
    let (server, _pose) = scene(&json!({"models": {"codex": ["house-1", "house-2@low"]}}));
    for (body, place) in [
        (json!({"model": "other-1"}), "/model"),
        (json!({"codex_config": {"model": "other-1"}}), "/codex_config/model"),
        (json!({"model": "house-1", "codex_config": {"model": "other-1"}}), "/codex_config/model"),
    ] {
        let answer = server.post("/v1/jobs", &say(&body));
        assert_eq!(answer.refusal(), (400, "MODEL_NOT_ALLOWED".to_owned()), "{body}");
        let error = answer.json()["error"].clone();
        assert_eq!(error["details"][0]["path"], place, "{error:#}");
        assert!(error["message"].as_str().unwrap().contains("house-1, house-2@low"), "{error:#}");
    }
    assert_eq!(server.left_behind(), Vec::<String>::new());
    let (_, run) = server.create_with(&say(&json!({"model": "house-1"})));
    let events = server.finish(&run);
    let job = server.get(&format!("/v1/jobs/{run}")).json();
    assert_eq!(job["status"], "succeeded", "{job:#}");
    let warned: Vec<Value> = of_type(&events, "diagnostic.warning");
    let warned: Vec<&Value> = warned.iter().filter(|warning| warning["code"] == "MODEL_NOT_IN_CATALOG").collect();
    assert_eq!(warned.len(), 1, "{events:#?}");
    assert_eq!(warned[0]["details"]["model"], "house-1");
}

#[test]
fn a_configuration_for_another_engine_and_retries_without_end_are_refused_by_name() {
    let (server, _pose) = scene(&json!({}));
    for (body, place) in [
        (json!({"qwen_config": {}}), "/qwen_config"),
        (json!({"engine": "codex", "gemini_config": {"model": {"name": "x"}}}), "/gemini_config"),
        (json!({"runtime_options": {"retry": {"times": 11}}}), "/runtime_options/retry/times"),
        (
            json!({"runtime_options": {"retry": {"times": 1, "backoff_seconds": 700_000}}}),
            "/runtime_options/retry/backoff_seconds",
        ),
    ] {
        let answer = server.post("/v1/jobs", &say(&body));
        assert_eq!(answer.refusal(), (400, "INVALID_REQUEST".to_owned()), "{body}");
        assert_eq!(answer.json()["error"]["details"][0]["path"], place, "{}", answer.text());
    }
    for retry in [json!({}), json!({"times": -1}), json!({"times": 1, "often": true}), json!("twice")] {
        let answer = server.post("/v1/jobs", &say(&json!({"runtime_options": {"retry": retry}})));
        assert_eq!(answer.refusal(), (400, "INVALID_REQUEST".to_owned()), "{retry}");
    }
    assert_eq!(server.left_behind(), Vec::<String>::new());
}

#[test]
fn defaults_of_the_schemas_are_applied_and_recorded_as_such() {
    let (server, pose) = scene(&json!({
        "entrypoint": {"type": "prompt", "prompt": {"template": "In {{ parameter.lang }}: {{ input.topic }}."}},
        "schemas": {"output": "assets/output.schema.json", "input": "assets/input.json", "parameter": "assets/parameter.json"},
    }));
    let assets = server.folder.path().join("skills/say/assets");
    let topic = json!({"type": "string", "x-input-source": "inline", "default": "plums"});
    fs::write(assets.join("input.json"), json!({"type": "object", "properties": {"topic": topic}}).to_string())
        .unwrap();
    let lang = json!({"type": "object", "properties": {"lang": {"type": "string", "default": "German"}}});
    fs::write(assets.join("parameter.json"), lang.to_string()).unwrap();
    for (given, prompt, defaults) in [
        (json!({}), "In German: plums.", json!({"input": {"/topic": "plums"}, "parameter": {"/lang": "German"}})),
        (json!({"input": {"topic": "pears"}}), "In German: pears.", json!({"parameter": {"/lang": "German"}})),
        (json!({"input": {"topic": "figs"}, "parameter": {"lang": "Dutch"}}), "In Dutch: figs.", Value::Null),
    ] {
        let (_, run) = server.create_with(&say(&given));
        let events = server.finish(&run);
        let started = &of_type(&events, "conversation.started")[0];
        assert_eq!(started["defaults"], defaults, "{started:#}");
        let session = of_type(&events, "session.bound")[0]["handle"].as_str().unwrap().to_owned();
        let told = pose.told(&session)[0].clone();
        assert!(told.starts_with(prompt), "{told}");
        // A template of the skill's own gets the contract how to answer.
        assert!(told.contains("your last message holds that object"), "{told}");
    }
}

#[test]
fn an_optional_parameter_that_was_not_given_renders_as_nothing_and_a_name_of_no_field_is_told() {
    let template = |text: &str| {
        json!({
            "entrypoint": {"type": "prompt", "prompt": {"template": text}},
            "schemas": {"output": "assets/output.schema.json", "parameter": "assets/parameter.json"},
        })
    };
    let (server, pose) = scene(&template("In [{{ parameter.lang }}], please."));
    let parameter = json!({"type": "object", "properties": {"lang": {"type": "string"}}});
    let path = server.folder.path().join("skills/say/assets");
    fs::write(path.join("parameter.json"), parameter.to_string()).unwrap();
    let (_, run) = server.create_with(&say(&json!({})));
    let events = server.finish(&run);
    let session = of_type(&events, "session.bound")[0]["handle"].as_str().unwrap().to_owned();
    assert!(pose.told(&session)[0].starts_with("In [], please."), "{:?}", pose.told(&session));
    let mut manifest: Value = serde_json::from_slice(&fs::read(path.join("runner.json")).unwrap()).unwrap();
    manifest["entrypoint"]["prompt"]["template"] = json!("In [{{ parameter.language }}], please.");
    fs::write(path.join("runner.json"), manifest.to_string()).unwrap();
    // It was not linted: the run tells.
    let (_, run) = server.create_with(&say(&json!({})));
    server.finish(&run);
    let error = server.get(&format!("/v1/jobs/{run}")).json()["error"].take();
    assert_eq!(error["code"], "PROMPT_TEMPLATE_FAILED", "{error}");
    assert!(error["message"].as_str().unwrap().contains("parameter.language"), "{error}");
}
