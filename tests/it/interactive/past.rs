//! `at_seq`: question, artifacts, logs and result of a run as they were after each of its events.

use serde_json::{Value, json};

use super::{Scene, one_question};

#[test]
fn question_artifacts_logs_and_result_are_those_after_the_event_that_is_named() {
    let scene = Scene::new();
    scene.pose.runs_after(2, "mkdir -p artifacts; echo one > artifacts/one.md; echo two > artifacts/two.md");
    let run = scene.waiting(&one_question());
    assert_eq!(scene.reply(&run, 1, json!("Ann")).status, 200);
    let (status, _, events) = scene.end(&run);
    assert_eq!(status, "succeeded");
    let now = |path: &str| scene.server.get(&format!("/v1/jobs/{run}/{path}"));
    let at = |path: &str, seq: u64| now(&format!("{path}?at_seq={seq}"));
    let whole = now("logs").json();
    let (mut asked, mut artifacts, mut written, mut turns, mut ended) = (Value::Null, Vec::new(), 0, 0, false);
    for event in &events {
        let seq = event["seq"].as_u64().unwrap();
        match event["type"].as_str().unwrap() {
            "user.input.required" => asked = event["data"]["interaction_id"].clone(),
            // It comes with the answer, in one step.
            "conversation.state.changed" if event["data"]["from"] == "waiting_user" => asked = Value::Null,
            "artifact.indexed" => artifacts.push(event["data"]["path_rel"].clone()),
            "turn.started" => turns += 1,
            _ => {}
        }
        if event["raw_ref"]["stream"] == "stdout" {
            written = usize::try_from(event["raw_ref"]["byte_to"].as_u64().unwrap()).unwrap();
        }
        ended |= event["data"]["to"] == "succeeded";
        assert_eq!(at("interaction/pending", seq).json()["pending"]["interaction_id"], asked, "{event}");
        assert_eq!(at("artifacts", seq).json()["artifacts"], json!(artifacts), "{event}");
        let logs = at("logs", seq).json();
        assert_eq!(logs["stdout"], whole["stdout"].as_str().unwrap()[..written], "{event}");
        let (told, all) = (logs["prompt"].as_str().unwrap(), whole["prompt"].as_str().unwrap());
        let first = all.split("\n\n----- turn 2 -----\n\n").next().unwrap();
        assert_eq!(told, ["", first, all][turns], "{event}");
        let result = at("result", seq);
        if ended {
            assert_eq!(result.body, now("result").body);
        } else {
            assert_eq!(result.refusal(), (409, "RESULT_NOT_READY".into()), "{event}");
        }
    }
    assert_eq!((turns, artifacts.len(), written > 0, ended), (2, 2, true, true));
    for path in ["interaction/pending", "artifacts", "logs", "result"] {
        assert_eq!(at(path, 0).refusal(), (400, "SEQ_OUT_OF_RANGE".into()), "{path}");
        assert_eq!(at(path, events.len() as u64 + 1).refusal(), (400, "SEQ_OUT_OF_RANGE".into()), "{path}");
    }
    for path in ["bundle", "export", "explain", "explain/cache", "events", "events/history", "logs/range"] {
        assert_eq!(at(path, 1).refusal(), (400, "INVALID_REQUEST".into()), "{path}");
    }
}
