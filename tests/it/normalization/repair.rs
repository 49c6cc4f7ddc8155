//! N3: the engine's session is asked once more, within its turn, when the operator lets it be.

use serde_json::{Value, json};

use super::{data, read};
use crate::interactive::pose::{self, Pose, says};
use crate::interactive::service::Service;
use crate::support::{Server, Sse, of_type, processes_of};

struct Scene {
    pose: Pose,
    server: Server,
}

impl Scene {
    fn with(repair: &str) -> Scene {
        let pose = Pose::new();
        let server = Server::with(&[("engines.codex.command", &pose.command()), ("repair", repair)]);
        pose::skill(&server.folder.path().join("skills"), "ask", Some(3));
        Scene { pose, server }
    }

    fn create(&self, turns: &[String], options: Value) -> String {
        self.pose.plays(turns);
        self.server.create_with(&json!({"skill_id": "ask", "engine": "codex", "runtime_options": options})).1
    }

    /// What the session was told, in order.
    fn told(&self, events: &[Value]) -> Vec<String> {
        self.pose.told(of_type(events, "session.bound")[0]["handle"].as_str().unwrap())
    }
}

#[test]
fn without_the_setting_the_engine_is_not_asked_again() {
    let scene = Scene::with("off");
    let run = scene.create(&[says(r#"{"name": 3}"#), says(r#"{"name": "Ann"}"#)], json!({}));
    let events = scene.server.finish(&run);
    assert_eq!(data(&scene.server, &run)["error"]["code"], "SCHEMA_VALIDATION_FAILED");
    assert_eq!(scene.told(&events).len(), 1);
}

#[test]
fn the_same_session_is_asked_once_with_the_violations_and_the_drift_is_marked() {
    let scene = Scene::with("on");
    let run = scene.create(&[says(r#"{"name": 3}"#), says(r#"{"name": "Ann"}"#)], json!({}));
    let events = scene.server.finish(&run);
    let result = data(&scene.server, &run);
    assert_eq!((&result["status"], &result["data"]), (&json!("succeeded"), &json!({"name": "Ann"})));
    let told = scene.told(&events);
    assert_eq!(told.len(), 2);
    assert!(told[1].contains(r#"- at "/name": 3 is not of type "string""#), "{}", told[1]);
    // One attempt, one start, no change of state between the two answers.
    assert_eq!(of_type(&events, "turn.started").len(), 1);
    assert!(events.iter().all(|event| event["meta"]["attempt"] == 1));
    assert_eq!(of_type(&events, "conversation.state.changed").len(), 2);
    let answers: Vec<Value> =
        of_type(&events, "assistant.message.final").iter().map(|message| message["text"].clone()).collect();
    assert_eq!(answers, [r#"{"name": 3}"#, r#"{"name": "Ann"}"#]);
    let accounts = of_type(&events, "output.normalized");
    let levels: Vec<(&Value, &Value)> = accounts.iter().map(|account| (&account["level"], &account["valid"])).collect();
    assert_eq!(levels, [(&json!("none"), &json!(false)), (&json!("N3"), &json!(true))]);
    assert_eq!(accounts[1]["source"], "repair");
    let warning = &of_type(&events, "diagnostic.warning")[0];
    assert_eq!((&warning["code"], &warning["level"]), (&json!("OUTPUT_REPAIRED"), &json!("warning")));
    assert!(warning["message"].as_str().unwrap().contains("drifted"), "{warning}");
    assert_eq!(warning["normalization_level"], "N3");
    let folder = scene.server.run_dir(&run);
    let text = |name: &str| std::fs::read_to_string(folder.join(name)).unwrap();
    assert_eq!(
        (text("raw/engine_output.txt"), text("raw/repair_output.txt")),
        (r#"{"name": 3}"#.into(), r#"{"name": "Ann"}"#.into())
    );
    assert!(text("logs/prompt.txt").contains("----- turn 1, repair -----"));
    assert_eq!(read(&folder.join("result/validation.json")), accounts[1]);
}

#[test]
fn what_the_second_answer_uses_counts_too() {
    let scene = Scene::with("on");
    // A codex counts its whole session: the second report is the sum.
    let second = says(r#"{"name": "Ann"}"#).replace("\"input_tokens\":100", "\"input_tokens\":170");
    let run = scene.create(&[says(r#"{"name": 3}"#), second], json!({}));
    scene.server.finish(&run);
    assert_eq!(scene.server.get(&format!("/v1/jobs/{run}")).json()["usage"]["input_tokens"], 170);
}

#[test]
fn an_engine_that_stays_wrong_or_breaks_is_not_asked_a_third_time() {
    let scene = Scene::with("on");
    let broken = says("x").replace("turn.completed", "turn.other");
    for second in [says(r#"{"name": 4}"#), says("no json"), broken] {
        let run = scene.create(&[says(r#"{"name": 3}"#), second, says(r#"{"name": "Ann"}"#)], json!({}));
        let events = scene.server.finish(&run);
        let error = data(&scene.server, &run)["error"].clone();
        assert_eq!(error["code"], "SCHEMA_VALIDATION_FAILED");
        assert_eq!(error["details"]["validation_errors"][0]["message"], r#"3 is not of type "string""#);
        assert_eq!(scene.told(&events).len(), 2);
        let warnings = of_type(&events, "diagnostic.warning");
        let failed = warnings.iter().find(|warning| warning["code"] == "NORMALIZATION_FAILED").unwrap();
        assert_eq!(failed["normalization_level"], "N3");
    }
}

#[test]
fn a_done_marker_with_invalid_output_is_repaired_in_the_same_turn() {
    let scene = Scene::with("on");
    let turns = [says("{\"name\": 3}\n__SKILL_DONE__"), pose::done()];
    let run = scene.create(&turns, json!({"execution_mode": "interactive"}));
    let events = scene.server.finish(&run);
    assert_eq!(data(&scene.server, &run)["data"], json!({"name": "Ann"}));
    assert_eq!(of_type(&events, "conversation.completed")[0]["completion"], "done_marker");
    assert_eq!(of_type(&events, "turn.started").len(), 1);
    let turns = [says("{\"name\": 3}\n__SKILL_DONE__"), says("What do you mean?")];
    let run = scene.create(&turns, json!({"execution_mode": "interactive"}));
    scene.server.finish(&run);
    assert_eq!(data(&scene.server, &run)["error"]["code"], "SCHEMA_VALIDATION_FAILED");
}

#[test]
fn the_turns_time_counts_over_both_answers_and_a_cancel_ends_the_second() {
    let scene = Scene::with("on");
    scene.pose.runs_after(2, "echo under way >&2; sleep 600");
    let thread = says(r#"{"name": 3}"#);
    let unfinished: String = thread.lines().take(2).map(|line| format!("{line}\n")).collect();
    let run = scene.create(&[thread.clone(), unfinished.clone()], json!({"hard_timeout_seconds": 3}));
    scene.server.finish(&run);
    assert_eq!(data(&scene.server, &run)["error"]["code"], "TIMEOUT");
    let run = scene.create(&[thread, unfinished], json!({}));
    scene.server.wait_for(&run, "raw.stderr", "under way");
    scene.server.post(&format!("/v1/jobs/{run}/cancel"), &json!({}));
    scene.server.finish(&run);
    assert_eq!(data(&scene.server, &run)["status"], "canceled");
}

#[test]
fn a_service_that_is_killed_in_the_middle_of_the_repair_leaves_no_process_and_a_whole_log() {
    let (folder, pose) = (tempfile::tempdir().unwrap(), Pose::new());
    let first = says(r#"{"name": 3}"#);
    let unfinished: String = first.lines().take(2).map(|line| format!("{line}\n")).collect();
    pose.plays(&[first, unfinished]);
    pose.runs_after(2, "echo pid $$ >&2; sleep 600");
    let service = Service::set(folder.path(), &pose, &[("SKILL_RUNNER_REPAIR", "on")]);
    let created = service.post("/v1/jobs", &json!({"skill_id": "ask", "engine": "codex"}));
    let run = created.json()["run_id"].as_str().unwrap().to_owned();
    let mut events = Sse::open(service.address, &format!("/v1/jobs/{run}/events"), &[]);
    let pid: u32 = loop {
        let event = events.next_chat().unwrap();
        let printed = event["data"]["text"].as_str().filter(|_| event["type"] == "raw.stderr");
        if let Some(pid) = printed.and_then(|text| text.trim_end().strip_prefix("pid ")?.parse().ok()) {
            break pid;
        }
    };
    service.kill();
    let service = Service::set(folder.path(), &pose, &[("SKILL_RUNNER_REPAIR", "on")]);
    assert_eq!(service.ends(&run, "failed")["error"]["code"], "ORCHESTRATOR_RESTART_INTERRUPTED");
    service.audit(&run);
    assert_eq!(processes_of(&run), Vec::<u32>::new(), "{pid}");
    let events = service.history(&run);
    // The answer that was to be repaired is on record; the engine is not asked again by the next service.
    let accounts = of_type(&events, "output.normalized");
    assert_eq!((accounts.len(), &accounts[0]["level"], &accounts[0]["valid"]), (1, &json!("none"), &json!(false)));
    assert_eq!(of_type(&events, "turn.started").len(), 1);
    assert_eq!(pose.told(of_type(&events, "session.bound")[0]["handle"].as_str().unwrap()).len(), 2);
}
