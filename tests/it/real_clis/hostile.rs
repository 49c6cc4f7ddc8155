//! A hostile skill on each agent CLI: the command that its model runs gets nowhere.

use std::fs;

use serde_json::{Value, json};

use super::on_every_cli;
use super::service::Service;
use crate::hostile_skill::{ATTACK, Bait, successes};
use crate::interactive::pose;
use crate::support::model_server::Reply;
use crate::support::sandbox;

on_every_cli!(a_command_of_a_hostile_skill_gets_nowhere);

fn a_command_of_a_hostile_skill_gets_nowhere(name: &str) {
    if sandbox::left_out(&format!("real_clis::hostile::{name}::a_command_of_a_hostile_skill_gets_nowhere")) {
        return;
    }
    let bait = Bait::set();
    let mut service = Service::set(name, &[("SKILL_RUNNER_SANDBOX", "on")]);
    pose::skill(&service.skills(), "say", None);
    let (say, data) = (service.skills().join("say"), service.folder.path().join("data"));
    let done = Reply::Result(json!({"name": "Ann"}));
    let body = json!({"skill_id": "say", "runtime_options": {"no_cache": true}});
    let victim = service.start(std::slice::from_ref(&done), body.clone());
    service.finish(&victim);

    fs::write(say.join("attack.py"), ATTACK).unwrap();
    let aim = bait.aim(&data, &service.run_dir(&victim).join("input.json"), service.address, true);
    fs::write(say.join("attack.json"), aim.to_string()).unwrap();
    let attack = "find . -name attack.py -exec python3 {} ';' > report.json";
    let run = service.start(&[Reply::Shell(attack.to_owned()), done], body);
    let events = service.finish(&run);
    let job = service.get(&format!("/v1/jobs/{run}"));
    assert_eq!((&job["status"], &job["isolation"]["tier"]), (&json!("succeeded"), &json!("sandbox")), "{events:#?}");
    let report = fs::read(service.run_dir(&run).join("report.json")).unwrap();
    let report: Value = serde_json::from_slice(&report).unwrap();
    assert!(report["data"].as_object().unwrap().len() > 30, "{report:#}");
    assert_eq!(successes(&report["data"]), [], "{report:#}");
    assert!(!bait.was_written_to());
    service.close();
}
