//! What is told of the model is what the CLI asks for, whoever named it: a file of its home, a variable, or both.

use std::fs;

use serde_json::{Value, json};

use super::on_every_cli;
use super::service::{Service, of_type};
use crate::interactive::pose;
use crate::support::model_server::Reply;

on_every_cli!(the_model_that_is_told_is_on_the_wire_whether_a_file_or_a_variable_names_it);

/// Writes a model into the operator's home of the CLI.
fn name_in_home(service: &Service, model: &str) {
    let name = service.cli.adapter.name();
    let home = service.folder.path().join("data/agent-home").join(name);
    let write = |file: &str, text: String| {
        fs::create_dir_all(home.join(file).parent().unwrap()).unwrap();
        fs::write(home.join(file), text).unwrap();
    };
    let written = |file: &str| fs::read_to_string(home.join(file)).unwrap();
    match name {
        "codex" => {
            let file = ".codex/config.toml";
            write(file, format!("model = \"{model}\"\n{}", written(file)));
        }
        "opencode" => {
            let file = "config/opencode/opencode.json";
            let mut config: Value = serde_json::from_str(&written(file)).unwrap();
            config["model"] = json!(format!("scripted/{model}"));
            config["provider"]["scripted"]["models"][model] =
                json!({"name": model, "tool_call": true, "limit": {"context": 128_000, "output": 8192}});
            write(file, config.to_string());
        }
        "claude" => write("cfg/settings.json", json!({"model": model, "effortLevel": "high"}).to_string()),
        "gemini" | "qwen" => {
            let login = if name == "gemini" { "gemini-api-key" } else { "openai" };
            let settings = json!({"security": {"auth": {"selectedType": login}}, "model": {"name": model}});
            write(&format!(".{name}/settings.json"), settings.to_string());
        }
        other => panic!("say how {other} is told another model"),
    }
}

fn the_model_that_is_told_is_on_the_wire_whether_a_file_or_a_variable_names_it(name: &str) {
    let (in_file, in_variable) =
        if name == "gemini" { ("gemini-2.5-pro", "gemini-2.5-flash") } else { ("of-file", "of-variable") };
    let variables: &[&str] = match name {
        "gemini" => &["GEMINI_MODEL"],
        "claude" => &["ANTHROPIC_MODEL", "CLAUDE_CODE_EFFORT_LEVEL"],
        "qwen" => &["OPENAI_MODEL"],
        _ => &[],
    };
    let cases: &[(bool, bool)] =
        if variables.is_empty() { &[(true, false)] } else { &[(true, false), (false, true), (true, true)] };
    for &(file, variable) in cases {
        let mut passed: Vec<String> = service_variables(name);
        let mut set = Vec::new();
        if variable {
            passed.extend(variables.iter().map(|name| (*name).to_owned()));
            let value = |name: &str| if name == "CLAUDE_CODE_EFFORT_LEVEL" { "low" } else { in_variable };
            set.extend(variables.iter().map(|name| (*name, value(name))));
        }
        let (pass, passed) = (format!("SKILL_RUNNER_ENGINES_{}_ENV_PASS", name.to_uppercase()), passed.join(","));
        set.push((&pass, &passed));
        let mut service = Service::set(name, &set);
        pose::skill(&service.skills(), "say", None);
        if file {
            name_in_home(&service, in_file);
        }
        let body = json!({"skill_id": "say", "model": null});
        let run = service.start(&[Reply::Result(json!({"name": "Ann"}))], body);
        let events = service.finish(&run);
        let job = service.get(&format!("/v1/jobs/{run}"));
        assert_eq!(job["status"], "succeeded", "{job:#}\n{events:#?}");
        let asked = service.model.models();
        let started = &of_type(&events, "turn.started").next().unwrap()["data"];
        let recorded = fs::read_to_string(service.run_dir(&run).join("logs/engine_config.json"));
        let recorded: Value = serde_json::from_str(&recorded.unwrap()).unwrap();
        for told in [started, &recorded, &job] {
            let model = told["model"].as_str().unwrap_or_else(|| panic!("{told:#}"));
            // OpenCode writes the provider before the model.
            assert_eq!(asked, [model.rsplit('/').next().unwrap()], "{file} {variable} {told:#}");
            if name == "claude" {
                let effort = if variable { json!("low") } else { json!("high") };
                assert_eq!(told["effort"], effort, "{file} {variable} {told:#}");
            }
        }
        service.close();
    }
}

/// The variables that a service of this CLI passes on in any case.
fn service_variables(name: &str) -> Vec<String> {
    super::Cli::told_of("", name).env.into_iter().map(|(name, _)| name).collect()
}
