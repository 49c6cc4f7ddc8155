//! Long answers and long questions: a run's row stays small, so there is always room for its end.

use serde_json::json;

use super::pose;
use super::{Scene, done, of_type, says};

#[test]
fn long_answers_one_after_another_leave_room_for_the_end() {
    let scene = Scene::new();
    let turns: Vec<String> = (0..6).map(|number| says(&format!("Question {number}?"))).chain([done()]).collect();
    scene.pose.plays(&turns);
    pose::skill(&scene.server.folder.path().join("skills"), "ask-on", None);
    let options = json!({"execution_mode": "interactive"});
    let body = json!({"skill_id": "ask-on", "engine": "codex", "runtime_options": options});
    let run = scene.server.create_with(&body).1;
    let long = "x".repeat(250 * 1024);
    for number in 1..=6 {
        scene.question(&run, number);
        let body = json!({"interaction_id": number, "response": format!("{number}{long}"), "idempotency_key": format!("key {number}")});
        assert_eq!(scene.reply_with(&run, body.clone()).status, 200);
        assert_eq!(scene.reply_with(&run, body).status, 200, "a repeat is known by the hash of its answer");
    }
    let (status, _, events) = scene.end(&run);
    assert_eq!(status, "succeeded");
    let session = of_type(&events, "session.bound")[0]["handle"].as_str().unwrap().to_owned();
    let told: Vec<String> = scene.pose.told(&session).iter().skip(1).map(|text| text.trim().to_owned()).collect();
    let expected: Vec<String> = (1..=6).map(|number| format!("{number}{long}")).collect();
    assert!(told == expected, "every answer is told whole");
}

#[test]
fn an_answer_that_is_too_long_is_refused_and_changes_nothing() {
    let scene = Scene::new();
    let run = scene.begin_with(&[says("Name?"), done()], json!({}));
    scene.question(&run, 1);
    let head = scene.job(&run)["head_seq"].clone();
    let refused = scene.reply(&run, 1, json!("x".repeat(256 * 1024)));
    assert_eq!(refused.refusal(), (413, "PAYLOAD_TOO_LARGE".into()));
    let key = json!({"interaction_id": 1, "response": "Ann", "idempotency_key": "k".repeat(257)});
    assert_eq!(scene.reply_with(&run, key).refusal(), (400, "INVALID_REQUEST".into()));
    assert_eq!(scene.job(&run)["head_seq"], head);
    assert_eq!(scene.reply(&run, 1, json!("Ann")).status, 200);
    assert_eq!(scene.end(&run).0, "succeeded");
}

#[test]
fn a_block_that_is_too_long_degrades_to_a_plain_question_with_a_warning() {
    let scene = Scene::new();
    let block =
        format!("Which?\n<ASK_USER_YAML>\nkind: open_text\ncontext: {}\n</ASK_USER_YAML>", "x".repeat(200 * 1024));
    let run = scene.begin_with(&[says(&block), done()], json!({}));
    let question = scene.question(&run, 1);
    assert_eq!((&question["kind"], &question["prompt"]), (&json!("open_text"), &json!("Which?")));
    assert_eq!(scene.job(&run)["warnings"][0]["code"], "ASK_BLOCK_INVALID");
    assert_eq!(scene.reply(&run, 1, json!("that")).status, 200);
    assert_eq!(scene.end(&run).0, "succeeded");
}

#[test]
fn a_message_longer_than_any_event_is_cut_in_the_log_and_whole_in_the_result() {
    let scene = Scene::new();
    let name = "\"".repeat(300 * 1024);
    let answer = json!({"name": name}).to_string();
    let asked = format!("Which?{}", "?".repeat(2 << 20));
    let run = scene.begin_with(&[says(&asked), says(&format!("{answer}\n__SKILL_DONE__"))], json!({}));
    let question = scene.question(&run, 1);
    assert!(question["prompt"].as_str().unwrap().starts_with("Which?"));
    assert_eq!(scene.reply(&run, 1, json!("that")).status, 200);
    let (status, error, events) = scene.end(&run);
    assert_eq!((&status, &error), (&json!("succeeded"), &json!(null)));
    let result = scene.server.get(&format!("/v1/jobs/{run}/result")).json()["result"]["data"].take();
    assert!(result == json!({"name": name}), "the result is made of the whole message");
    let texts: Vec<usize> =
        of_type(&events, "assistant.message.final").iter().map(|it| it["text"].as_str().unwrap().len()).collect();
    assert!(texts.len() == 2 && texts.iter().all(|length| *length < 132 * 1024), "{texts:?}");
}
