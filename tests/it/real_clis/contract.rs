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
    a_template_of_the_skill_is_given_defaults_and_the_contract_unless_it_opts_out,
    a_skill_in_the_open_format_answers_in_plain_words,
);

/// A service with the skill `say`, whose output is a name.
pub(super) fn service(name: &str) -> Service {
    let service = Service::with(name);
    pose::skill(&service.skills(), "say", None);
    service
}

/// A configuration of the skill that names another model, an option, and perhaps an effort; where the option stands, and its value.
fn other_model(name: &str) -> (&'static str, &'static str, &'static str, Value) {
    match name {
        "codex" => (
            "codex_config.toml",
            "model = \"other-1\"\nmodel_reasoning_effort = \"low\"\nmodel_context_window = 90000\n",
            "/model_context_window",
            json!(90000),
        ),
        "gemini" => (
            "gemini_settings.json",
            r#"{"model": {"name": "gemini-2.5-pro", "maxSessionTurns": 20}}"#,
            "/model/maxSessionTurns",
            json!(20),
        ),
        "opencode" => (
            "opencode_config.json",
            r#"{"model": "scripted/other-1", "compaction": {"auto": false}}"#,
            "/compaction/auto",
            json!(false),
        ),
        "claude" => (
            "claude_settings.json",
            r#"{"model": "other-1", "effortLevel": "low", "alwaysThinkingEnabled": false}"#,
            "/alwaysThinkingEnabled",
            json!(false),
        ),
        "qwen" => (
            "qwen_settings.json",
            r#"{"model": {"name": "other-1", "maxSessionTurns": 20}}"#,
            "/model/maxSessionTurns",
            json!(20),
        ),
        other => panic!("say how {other} is told another model"),
    }
}

fn the_model_of_the_request_is_on_the_wire_and_told_everywhere_with_the_contract_of_this_cli(name: &str) {
    let mut service = service(name);
    let (file, text, place, value) = other_model(name);
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
        assert_eq!(told["options"], job["engine_options"]);
        assert_eq!(told["options"].pointer(place), Some(&value), "{told:#}");
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

fn a_template_of_the_skill_is_given_defaults_and_the_contract_unless_it_opts_out(name: &str) {
    let mut service = service(name);
    let assets = service.skills().join("say/assets");
    let input = json!({"type": "object", "properties": {
        "topic": {"type": "string", "x-input-source": "inline", "default": "plums"},
    }});
    fs::write(assets.join("input.json"), input.to_string()).unwrap();
    let runner = assets.join("runner.json");
    let mut manifest: Value = serde_json::from_slice(&fs::read(&runner).unwrap()).unwrap();
    manifest["schemas"]["input"] = json!("assets/input.json");
    let result = Reply::Result(json!({"name": "Ann"}));
    let mut prompted = |template: &str, contract: bool| {
        manifest["entrypoint"]["prompt"] = json!({"template": template, "contract": contract});
        fs::write(&runner, manifest.to_string()).unwrap();
        let run = service.start(std::slice::from_ref(&result), json!({"skill_id": "say"}));
        let events = service.finish(&run);
        let defaults = of_type(&events, "conversation.started").next().unwrap()["data"]["defaults"].clone();
        assert_eq!(defaults, json!({"input": {"/topic": "plums"}}), "{events:#?}");
        let error = service.get(&format!("/v1/jobs/{run}"))["error"].clone();
        (error, service.model.requests().first().map(ToString::to_string).unwrap_or_default())
    };
    for (template, contract) in [("Who grew {{ input.topic }}?", true), ("Who sold {{ input.topic }}?", false)] {
        let (error, asked) = prompted(template, contract);
        assert_eq!(error, Value::Null);
        assert!(asked.contains(&template.replace("{{ input.topic }}", "plums")), "{asked}");
        assert_eq!(asked.contains("<!-- run contract -->"), contract, "{asked}");
    }
    let (error, asked) = prompted("Who ate {{ input.tropic }}?", true);
    assert_eq!((&error["code"], asked.as_str()), (&json!("PROMPT_TEMPLATE_FAILED"), ""), "{error:#}");
    assert!(error["message"].as_str().unwrap().contains("input.tropic"), "{error:#}");
    service.close();
}

fn a_skill_in_the_open_format_answers_in_plain_words(name: &str) {
    let mut service = Service::with(name);
    let folder = service.skills().join("hello");
    fs::create_dir_all(&folder).unwrap();
    fs::write(folder.join("SKILL.md"), "---\nname: hello\ndescription: Says hello.\n---\nSay hello.\n").unwrap();
    let body = json!({"skill_id": "hello", "input": {"prompt": "greet Ann"}});
    let shell = Reply::Shell("mkdir -p artifacts && echo hello > artifacts/hello.txt".to_owned());
    let run = service.start(&[shell, Reply::Say("Hello, Ann.")], body);
    let events = service.finish(&run);
    let told = service.get(&format!("/v1/jobs/{run}/result"));
    assert_eq!(told["result"]["data"], json!({"message": "Hello, Ann."}), "{told:#}\n{events:#?}");
    assert_eq!(told["result"]["artifacts"][0]["path_rel"], "artifacts/hello.txt", "{told:#}");
    let asked = service.model.requests().first().unwrap().to_string();
    assert!(asked.contains("greet Ann"), "{asked}");
    service.close();
}
