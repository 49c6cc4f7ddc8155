//! One contract per CLI: the model that is asked for, the way to hand over a result, and what is taken for it.

use std::fs;

use serde_json::{Value, json};

use super::on_every_cli;
use super::service::{Service, of_type};
use crate::interactive::pose;
use crate::support::model_server::Reply;

on_every_cli!(
    the_model_of_the_request_is_on_the_wire_and_told_everywhere_with_the_contract_of_this_cli,
    json_in_an_earlier_message_counts_and_of_two_objects_the_last,
);

/// A service with the skill `say`, whose output is a name.
pub(super) fn service(name: &str) -> Service {
    let service = Service::with(name);
    pose::skill(&service.skills(), "say", None);
    service
}

/// A configuration of the skill that names another model, and perhaps an effort.
fn other_model(name: &str) -> (&'static str, &'static str) {
    match name {
        "codex" => ("codex_config.toml", "model = \"other-1\"\nmodel_reasoning_effort = \"low\"\n"),
        "gemini" => ("gemini_settings.json", r#"{"model": {"name": "gemini-2.5-pro"}}"#),
        "opencode" => ("opencode_config.json", r#"{"model": "scripted/other-1"}"#),
        "claude" => ("claude_settings.json", r#"{"model": "other-1", "effortLevel": "low"}"#),
        "qwen" => ("qwen_settings.json", r#"{"model": {"name": "other-1"}}"#),
        other => panic!("say how {other} is told another model"),
    }
}

fn the_model_of_the_request_is_on_the_wire_and_told_everywhere_with_the_contract_of_this_cli(name: &str) {
    let mut service = service(name);
    let (file, text) = other_model(name);
    fs::write(service.skills().join("say/assets").join(file), text).unwrap();
    let run = service.start(&[Reply::Result(json!({"name": "Ann"}))], json!({"skill_id": "say"}));
    let events = service.finish(&run);
    let job = service.get(&format!("/v1/jobs/{run}"));
    assert_eq!(job["status"], "succeeded", "{job:#}\n{events:#?}");
    let asked = service.cli.model;
    // OpenCode writes the provider before the model.
    let on_the_wire = asked.rsplit('/').next().unwrap();
    assert_eq!(service.model.models(), [on_the_wire]);
    let effort = if ["codex", "claude"].contains(&name) { json!("low") } else { Value::Null };
    let started = &of_type(&events, "turn.started").next().unwrap()["data"];
    let recorded = fs::read_to_string(service.run_dir(&run).join("logs/engine_config.json"));
    let recorded: Value = serde_json::from_str(&recorded.unwrap()).unwrap();
    for told in [started, &recorded, &job] {
        assert_eq!((&told["model"], &told["effort"]), (&json!(asked), &effort), "{told:#}");
    }
    for told in [started, &recorded] {
        // No options are not written.
        let options = if told["options"].is_null() { json!({}) } else { told["options"].clone() };
        assert_eq!(options, job["engine_options"]);
    }
    let prompt = service.model.requests()[0].to_string();
    let told = match name {
        "claude" => "hand over the result by calling the tool `StructuredOutput` once",
        "qwen" => "hand over the result by calling the tool `structured_output` once",
        _ => "your last message holds that object",
    };
    assert!(prompt.contains(told), "{prompt}");
    service.close();
}

fn json_in_an_earlier_message_counts_and_of_two_objects_the_last(name: &str) {
    let mut service = service(name);
    let said = Reply::SayAndShell("It is {\"name\": \"Ann\"}, as I found.", "true".to_owned());
    // Where a result is handed over by a tool, the model is reminded of it, and speaks again.
    let replies = [said, Reply::Say("That is all."), Reply::Say("Really.")];
    // The two runs are equal but for what the model says.
    let say = json!({"skill_id": "say", "runtime_options": {"no_cache": true}});
    let run = service.start(&replies, say.clone());
    let events = service.finish(&run);
    assert_eq!(service.get(&format!("/v1/jobs/{run}/result"))["result"]["data"], json!({"name": "Ann"}), "{events:#?}");
    let account = &of_type(&events, "output.normalized").next().unwrap()["data"];
    assert_eq!((&account["level"], &account["source"]), (&json!("N0"), &json!("assistant_message")), "{account:#}");
    let steps: Vec<&Value> = account["steps"].as_array().unwrap().iter().map(|step| &step["step"]).collect();
    assert!(steps.contains(&&json!("earlier_message")), "{account:#}");

    let two = Reply::Say("Either {\"name\": \"Ann\"} or {\"name\": \"Bob\"}.");
    let run = service.start(&[two, Reply::Say("That is all.")], say);
    let events = service.finish(&run);
    assert_eq!(service.get(&format!("/v1/jobs/{run}/result"))["result"]["data"], json!({"name": "Bob"}), "{events:#?}");
    let warned: Vec<&Value> = of_type(&events, "diagnostic.warning")
        .map(|event| &event["data"])
        .filter(|warning| warning["code"] == "OUTPUT_AMBIGUOUS")
        .collect();
    assert_eq!(warned.len(), 1, "{events:#?}");
    let places = &warned[0]["details"];
    assert_eq!((&places["taken"]["byte_from"], &places["taken"]["byte_to"]), (&json!(26), &json!(41)), "{places:#}");
    assert_eq!((&places["others"][0]["byte_from"], &places["others"][0]["byte_to"]), (&json!(7), &json!(22)));
    service.close();
}
