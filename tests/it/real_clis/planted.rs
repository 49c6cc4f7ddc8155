//! What a turn leaves in the home of its engine, and in the engine's own folder of the run, does not configure the next.

use std::fs;

use serde_json::{Value, json};

use super::on_every_cli;
use super::service::Service;
use crate::interactive::pose;
use crate::support::model_server::Reply;
use crate::support::{Call, sandbox};

on_every_cli!(nothing_that_a_turn_plants_in_the_home_of_its_engine_is_there_in_the_next);

/// Files that the CLI would read at its start: below its home, and below the run's folder.
fn read_by(name: &str) -> (Vec<&'static str>, Vec<&'static str>) {
    let mut home = vec![".bashrc", ".profile", ".agents/skills/planted/SKILL.md"];
    let own: &[&str] = match name {
        "codex" => {
            &[".codex/config.toml", ".codex/hooks.json", ".codex/AGENTS.md", ".codex/.env", ".codex/rules/a.rules"]
        }
        "gemini" => &[".gemini/settings.json", ".gemini/.env", ".env", ".gemini/GEMINI.md", ".gemini/tmp/bin/rg"],
        "claude" => &["cfg/settings.json", "cfg/settings.local.json", "cfg/CLAUDE.md", "cfg/hooks/start.sh"],
        "qwen" => &[".qwen/settings.json", ".qwen/.env", ".qwen/QWEN.md", ".qwen/output-language.md"],
        "opencode" => &[".opencode/plugin/planted.js", "data/opencode/bin/rg", "cache/opencode/planted.js"],
        other => panic!("say what {other} reads at its start"),
    };
    home.extend(own);
    let run: &[&str] = match name {
        "codex" => &[".codex/config.toml", ".codex/hooks.json"],
        "gemini" => &[".gemini/.env", ".env", ".gemini/extensions/x/gemini-extension.json"],
        "claude" => &[".claude/settings.json", ".claude/settings.local.json", ".mcp.json"],
        "qwen" => &[".qwen/.env", ".env", ".qwen/hooks/start.sh"],
        _ => &["opencode.json", ".opencode/plugin/planted.js"],
    };
    (home, run.to_vec())
}

fn nothing_that_a_turn_plants_in_the_home_of_its_engine_is_there_in_the_next(name: &str) {
    let mut service = Service::with(name);
    pose::skill(&service.skills(), "say", None);
    let (mut home, run_folder) = read_by(name);
    if name == "opencode" && sandbox::works() {
        // Without the sandbox this is the operator's own, which a run of his user can write to.
        home.push("config/opencode/plugin/planted.js");
    }
    // The words are put together by the shell, so that no transcript holds them.
    let word = "w=plan; w=${w}ted-7";
    let places = home.iter().map(|file| format!("\"$HOME/{file}\""));
    let places: Vec<String> = places.chain(run_folder.iter().map(|file| (*file).to_owned())).collect();
    let folders = places.iter().filter_map(|place| place.rsplit_once('/')).map(|(folder, _)| match folder {
        quoted if quoted.starts_with('"') => format!("{quoted}\""),
        plain => plain.to_owned(),
    });
    let folders = folders.collect::<Vec<_>>().join(" ");
    // Some CLIs run no command with $( ) or rm in it.
    let plant = "echo \"$w\" > new; mv new \"$f\"; cat \"$f\" >> planted";
    let plant = format!("{word}; mkdir -p {folders}; for f in {}; do {plant}; done", places.join(" "));
    let replies = [Reply::Shell(plant), Reply::Say("What is your name?")];
    let options = json!({"execution_mode": "interactive"});
    let run = service.start(&replies, json!({"skill_id": "say", "runtime_options": options}));
    let mut events = service.events(&run);
    let asked = std::iter::from_fn(|| events.next_chat()).find(|event| event["type"] == "user.input.required");
    let question = asked.unwrap_or_else(|| panic!("{:#}", service.get(&format!("/v1/jobs/{run}"))));
    drop(events);
    let planted = fs::read_to_string(service.run_dir(&run).join("planted")).unwrap_or_default();
    if sandbox::works() {
        // Elsewhere codex has its own sandbox, which keeps its commands from its home.
        assert_eq!(planted, "planted-7\n".repeat(places.len()), "the first turn can write to all of them");
    }

    // Codex tells its model of new instructions in the middle of a turn, and so they are in its transcript.
    let find = "grep -rls --exclude='*.jsonl' \"$w\" \"$HOME\"";
    let find = format!("{word}; {find} {} > found; true", run_folder.join(" "));
    let answer = Reply::Say("{\"name\": \"Ann\"}\n__SKILL_DONE__");
    service.model.script(&[Reply::Shell(find), answer]);
    let reply = json!({"interaction_id": question["data"]["interaction_id"], "response": "Ann"});
    let replied = Call::new(service.address, "POST", &format!("/v1/jobs/{run}/interaction/reply")).json(&reply).send();
    assert_eq!(replied.status, 200, "{}", replied.text());
    let events = service.finish(&run);
    let job: Value = service.get(&format!("/v1/jobs/{run}"));
    assert_eq!((&job["status"], &job["attempt"]), (&json!("succeeded"), &json!(2)), "{job:#}\n{events:#?}");
    assert_eq!(fs::read_to_string(service.run_dir(&run).join("found")).unwrap(), "");
    // The session went on all the same.
    assert!(service.model.requests()[0].to_string().contains("What is your name?"));
    service.close();
}
