//! A hostile skill on each agent CLI: the command that its model runs gets nowhere.

use std::fs;

use serde_json::{Value, json};

use super::on_every_cli;
use super::service::Service;
use crate::hostile_skill::{ANSWERED_WITHIN, ATTACK, Bait, HOG, HOGS, answering, keep_for, met, successes};
use crate::interactive::pose;
use crate::support::model_server::Reply;
use crate::support::sandbox;

on_every_cli!(
    a_command_of_a_hostile_skill_gets_nowhere,
    a_command_that_takes_all_it_can_get_is_ended_by_its_limit_and_the_service_answers_meanwhile,
);

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
    let mut aim = bait.aim(&data, &service.run_dir(&victim).join("input.json"), service.address, true);
    aim["operators_file"] = json!(keep_for(&data, name));
    fs::write(say.join("attack.json"), aim.to_string()).unwrap();
    let attack = "find . -name attack.py -exec python3 {} ';' > report.json";
    let run = service.start(&[Reply::Shell(attack.to_owned()), done], body);
    let events = service.finish(&run);
    let job = service.get(&format!("/v1/jobs/{run}"));
    assert_eq!((&job["status"], &job["isolation"]["tier"]), (&json!("succeeded"), &json!("sandbox")), "{events:#?}");
    let report = fs::read(service.run_dir(&run).join("report.json")).unwrap();
    let report: Value = serde_json::from_slice(&report).unwrap();
    assert!(report["data"].as_object().unwrap().len() > 57, "{report:#}");
    assert_eq!(successes(&report["data"]), [], "{report:#}");
    assert!(!bait.was_written_to());
    service.close();
}

fn a_command_that_takes_all_it_can_get_is_ended_by_its_limit_and_the_service_answers_meanwhile(name: &str) {
    let limits =
        HOGS.map(|(_, limit, value)| (format!("SKILL_RUNNER_LIMITS_{}", limit.to_uppercase()), value.to_string()));
    let mut variables: Vec<(&str, &str)> = limits.iter().map(|(key, value)| (key.as_str(), value.as_str())).collect();
    variables.push(("SKILL_RUNNER_HARD_TIMEOUT_SECONDS", "200"));
    let mut service = Service::set(name, &variables);
    pose::skill(&service.skills(), "say", None);
    fs::write(service.skills().join("say/hog.py"), HOG).unwrap();
    let body = json!({"skill_id": "say", "runtime_options": {"no_cache": true}});
    for (takes, limit, value) in HOGS {
        let command = format!("find . -name hog.py -exec python3 {{}} {takes} ';'");
        let run = service.start(&[Reply::Shell(command), Reply::Say("never")], body.clone());
        let slowest = answering(service.address, || {
            service.finish(&run);
        });
        met(&service.get(&format!("/v1/jobs/{run}")), limit, value);
        assert!(slowest < ANSWERED_WITHIN, "{takes}: an answer took {slowest:?}");
    }
    service.close();
}
