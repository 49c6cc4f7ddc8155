//! A conversation with a real CLI that goes on in another service, which has nothing of the first one but the database and the shared files.

use serde_json::{Value, json};

use super::on_every_cli;
use super::service::Service;
use crate::support::model_server::Reply;
use crate::support::{Call, of_type, postgres};

on_every_cli!(an_answer_goes_on_in_another_service_with_a_home_of_its_own);

fn an_answer_goes_on_in_another_service_with_a_home_of_its_own(name: &str) {
    if !postgres::installed(&format!("an answer to {name} goes on in another service")) {
        return;
    }
    let (url, blobs) = (postgres::shared().url(&postgres::fresh()), tempfile::tempdir().unwrap());
    let variables = [
        ("SKILL_RUNNER_STORE", url.as_str()),
        ("SKILL_RUNNER_BLOBS", blobs.path().to_str().unwrap()),
        ("SKILL_RUNNER_NODE_NAME", "one"),
    ];
    let mut service = Service::set(name, &variables);
    let result = json!({"name": "Ada", "colour": "plum", "__SKILL_DONE__": true});
    let body = json!({"skill_id": "demo-interview", "runtime_options": {"execution_mode": "interactive"}});
    let run = service.start(&[Reply::Say("What is your name?"), Reply::Result(result)], body);
    let mut events = service.events(&run);
    let waits = |event: &Value| event["data"]["to"] == "waiting_user";
    assert!(
        std::iter::from_fn(|| events.next_chat()).any(|event| waits(&event)),
        "{:#}",
        service.get(&format!("/v1/jobs/{run}"))
    );
    service.another_machine(&variables);
    let reply = json!({"interaction_id": 1, "response": "Ada, and plum."});
    let replied = Call::new(service.address, "POST", &format!("/v1/jobs/{run}/interaction/reply")).json(&reply).send();
    assert_eq!(replied.status, 200, "{}", replied.text());
    let events = service.finish(&run);
    let job = service.get(&format!("/v1/jobs/{run}"));
    assert_eq!(job["status"], "succeeded", "{job:#}\n{events:#?}");
    let sessions: Vec<Value> =
        of_type(&events, "session.bound").iter().map(|event| event["data"]["handle"].clone()).collect();
    assert!(!sessions.is_empty() && sessions.iter().all(|handle| *handle == sessions[0]), "{sessions:?}");
    let carried = service.model.requests().last().unwrap().to_string();
    for words in ["Find out two things from the user", "What is your name?", "Ada, and plum."] {
        assert!(carried.contains(words), "{words:?} is not in {carried}");
    }
    let audit = service.get(&format!("/v1/jobs/{run}/audit"));
    assert_eq!(audit["ok"], true, "{audit:#}");
}
