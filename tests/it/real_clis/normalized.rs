//! The steps behind the first validation on output of a real CLI: the skill's normalizer (N1), and its fallback (N2).

use std::fs;

use serde_json::{Value, json};

use super::on_every_cli;
use super::service::{Service, of_type};
use crate::interactive::pose;
use crate::support::clis;
use crate::support::model_server::Reply;

on_every_cli!(a_normalizer_and_a_fallback_make_the_output_of_this_cli_valid);

/// Those that hand on what their model says; the others hold it to the schema themselves.
#[test]
fn the_done_marker_of_a_model_is_no_part_of_the_result_of_a_run_without_questions() {
    for name in ["codex", "gemini", "opencode"] {
        if clis::left_out(&format!("the done marker on {name}")) {
            continue;
        }
        let mut service = Service::with(name);
        pose::skill(&service.skills(), "say", None);
        let said = Reply::Say("{\"name\": \"Ann\", \"__SKILL_DONE__\": true}");
        let run = service.start(&[said], json!({"skill_id": "say"}));
        let events = service.finish(&run);
        let result = service.get(&format!("/v1/jobs/{run}/result"))["result"].clone();
        assert_eq!(result["data"], json!({"name": "Ann"}), "{name}: {result:#}\n{events:#?}");
        service.close();
    }
}

fn a_normalizer_and_a_fallback_make_the_output_of_this_cli_valid(name: &str) {
    let mut service = Service::with(name);
    pose::skill(&service.skills(), "say", None);
    let scripts = service.skills().join("say/scripts");
    fs::create_dir_all(&scripts).unwrap();
    // It reads what the CLI said: the name under another key.
    let right = "sed -n 's/.*\"nom\": *\"\\([^\"]*\\)\".*/{\"name\": \"\\1\"}/p' \"$1\" > result/result.json\n";
    fs::write(scripts.join("right.sh"), right).unwrap();
    fs::write(scripts.join("wrong.sh"), "echo '{\"name\": 1}' > result/result.json\n").unwrap();
    let runner = service.skills().join("say/assets/runner.json");
    let mut manifest: Value = serde_json::from_slice(&fs::read(&runner).unwrap()).unwrap();
    let mut steps = |service: &mut Service, normalizer: &str, fallback: &str| {
        manifest["normalizer"] = json!({"command": format!("sh scripts/{normalizer}.sh")});
        manifest["fallback"] = json!({"command": format!("sh scripts/{fallback}.sh")});
        fs::write(&runner, manifest.to_string()).unwrap();
        // Where a result is handed over by a tool, the model is reminded of it, and speaks again.
        let said = Reply::Say("It is {\"nom\": \"Ann\"}.");
        let replies = [said.clone(), said.clone(), said];
        let body = json!({"skill_id": "say", "runtime_options": {"no_cache": true}});
        let run = service.start(&replies, body);
        let events = service.finish(&run);
        let result = service.get(&format!("/v1/jobs/{run}/result"))["result"].clone();
        assert_eq!(result["data"], json!({"name": "Ann"}), "{result:#}\n{events:#?}");
        let accounts = of_type(&events, "output.normalized").map(|event| &event["data"]);
        accounts.map(|account| (account["level"].clone(), account["valid"].clone())).collect::<Vec<_>>()
    };
    let by_normalizer = steps(&mut service, "right", "wrong");
    assert_eq!(by_normalizer.last(), Some(&(json!("N1"), json!(true))), "{by_normalizer:?}");
    let by_fallback = steps(&mut service, "wrong", "right");
    assert_eq!(by_fallback.last(), Some(&(json!("N2"), json!(true))), "{by_fallback:?}");
    service.close();
}
