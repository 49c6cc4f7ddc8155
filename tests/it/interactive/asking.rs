//! What a turn comes to: a question of each kind, completion with and without its marker, or a failure.

use serde_json::{Value, json};

use super::pose::{done, says, says_after_command, says_elsewhere};
use super::{Scene, of_type, one_question};

#[test]
fn a_run_asks_waits_is_answered_and_ends_in_the_same_session() {
    let scene = Scene::new();
    let run = scene.begin(&one_question());
    let asked = scene.question(&run, 1);
    let expected = json!({
        "interaction_id": 1, "kind": "open_text", "prompt": "What is your name?", "options": [], "ui_hints": null,
        "required_fields": [], "default_decision_policy": "engine_judgement", "context": null,
    });
    assert_eq!(asked, expected);
    let job = scene.job(&run);
    assert_eq!((&job["status"], &job["pending_interaction_id"]), (&json!("waiting_user"), &json!(1)));
    let pending = scene.server.get(&format!("/v1/jobs/{run}/interaction/pending")).json();
    assert_eq!(pending, json!({"request_id": job["request_id"], "status": "waiting_user", "pending": expected}));
    let early = scene.server.get(&format!("/v1/jobs/{run}/result"));
    assert_eq!(early.refusal(), (409, "RESULT_NOT_READY".into()));
    let request = job["request_id"].as_str().unwrap();
    let told = format!("the run waits for an answer; GET /v1/jobs/{request}/interaction/pending shows the question");
    assert_eq!(early.json()["error"]["message"], json!(told));
    let receipt = scene.reply(&run, 1, json!("Ann"));
    assert_eq!(
        (receipt.status, receipt.json()),
        (200, json!({"request_id": job["request_id"], "status": "queued", "accepted": true}))
    );
    let (status, error, events) = scene.end(&run);
    assert_eq!((status, error), (json!("succeeded"), Value::Null));
    let completed = &of_type(&events, "conversation.completed")[0];
    assert_eq!(completed["completion"], "done_marker");
    let result = scene.server.get(&format!("/v1/jobs/{run}/result")).json();
    assert_eq!(result["result"]["data"], json!({"name": "Ann"}));
    let triggers: Vec<Value> =
        of_type(&events, "conversation.state.changed").iter().map(|change| change["trigger"].clone()).collect();
    let expected = ["turn.started", "turn.needs_input", "interaction.reply.accepted", "turn.started", "turn.succeeded"];
    assert_eq!(triggers, expected);
    // The second process was told to go on with the first one's session, in the same place with the same posture.
    let session = of_type(&events, "session.bound")[0]["handle"].as_str().unwrap().to_owned();
    let turns = of_type(&events, "turn.started");
    assert_eq!((&turns[0]["resumed_from"], &turns[1]["resumed_from"]), (&Value::Null, &json!(session)));
    let told = scene.pose.told(&session);
    assert_eq!((told.len(), told[1].trim()), (2, "Ann"));
    for same in ["cwd", "env"] {
        let noted = scene.pose.noted(&session, same);
        assert_eq!(noted[0], noted[1], "{same}");
    }
    let argv = scene.pose.noted(&session, "argv");
    assert_eq!(argv[1], argv[0].replace("\n-\n", &format!("\nresume\n{session}\n-\n")));
    assert_eq!(scene.job(&run)["usage"]["input_tokens"], 100, "a resumed codex counts the whole session");
}

#[test]
fn an_ask_block_makes_a_question_of_its_kind() {
    let scene = Scene::new();
    let ask = |yaml: &str| vec![says(&format!("Please.\n<ASK_USER_YAML>\n{yaml}\n</ASK_USER_YAML>")), done()];
    let option = |label: &str, value: Value| json!({"label": label, "value": value});
    for (yaml, asked, wrong, right) in [
        (
            "kind: choose_one\nprompt: Which colour?\noptions:\n  - red\n  - {label: Blue, value: b}\nui_hints: {columns: 2, strict: true}",
            json!({"kind": "choose_one", "prompt": "Which colour?", "ui_hints": {"columns": 2, "strict": true},
                "options": [option("red", json!("red")), option("Blue", json!("b"))]}),
            json!("green"),
            json!("b"),
        ),
        (
            "kind: confirm\nui_hints: {strict: true}",
            json!({"kind": "confirm", "prompt": "Please."}),
            json!("perhaps"),
            json!(true),
        ),
        (
            "kind: risk_ack\nprompt: It deletes files. Go on?\ncontext: {files: 3}",
            json!({"kind": "risk_ack", "prompt": "It deletes files. Go on?", "context": {"files": 3}}),
            json!(7),
            json!("yes"),
        ),
        (
            "kind: fill_fields\nprompt: Who?\nrequired_fields: [name, age]\nui_hints: {strict: true}",
            json!({"kind": "fill_fields", "prompt": "Who?", "required_fields": ["name", "age"]}),
            json!({"name": "Ann"}),
            json!({"name": "Ann", "age": 41}),
        ),
    ] {
        let run = scene.begin(&ask(yaml));
        let question = scene.question(&run, 1);
        for (key, value) in asked.as_object().unwrap() {
            assert_eq!(question[key], *value, "{key} of {yaml}");
        }
        let refused = scene.reply(&run, 1, wrong.clone());
        assert_eq!(refused.refusal(), (400, "INPUT_VALIDATION_FAILED".into()), "{wrong}");
        let details = refused.json()["error"]["details"].clone();
        assert!(details[0]["path"].as_str().unwrap().starts_with("/response"), "{details}");
        assert_eq!(scene.reply(&run, 1, right).status, 200, "{yaml}");
        let (status, _, events) = scene.end(&run);
        assert_eq!((status, of_type(&events, "diagnostic.warning").len()), (json!("succeeded"), 0), "{yaml}");
    }
}

#[test]
fn an_answer_in_other_words_than_the_offered_ones_is_handed_on_unless_the_question_is_strict() {
    let scene = Scene::new();
    let block = "<ASK_USER_YAML>\nkind: choose_one\nprompt: Which?\noptions: [red, blue]\n</ASK_USER_YAML>";
    let run = scene.begin(&[says(block), done()]);
    scene.question(&run, 1);
    assert_eq!(scene.reply(&run, 1, json!("whatever suits the walls")).status, 200);
    let (status, _, events) = scene.end(&run);
    let replies = of_type(&events, "interaction.reply.accepted");
    assert_eq!((status, &replies[0]["response"]), (json!("succeeded"), &json!("whatever suits the walls")));
}

#[test]
fn null_and_an_empty_text_are_answers_of_which_the_engine_is_told() {
    let scene = Scene::new();
    for (answer, told) in [(json!(null), "The answer is null"), (json!(""), "The answer is empty"), (json!(3), "3")] {
        let block = "<ASK_USER_YAML>\nkind: guess\nprompt: Why?\n</ASK_USER_YAML>";
        let run = scene.begin(&[says(block), done()]);
        let question = scene.question(&run, 1);
        assert_eq!((&question["kind"], &question["prompt"]), (&json!("open_text"), &json!("Why?")));
        assert_eq!(scene.reply(&run, 1, answer.clone()).status, 200, "{answer}");
        assert_eq!(scene.end(&run).0, "succeeded", "{answer}");
        let prompts =
            std::fs::read_to_string(scene.server.data().join("runs").join(&run).join("logs/prompt.txt")).unwrap();
        assert!(prompts.contains(told), "{prompts}");
    }
}

#[test]
fn a_broken_ask_block_is_asked_as_plain_text_with_a_warning() {
    let scene = Scene::new();
    for yaml in ["kind: [", "kind: choose_one", "{{{"] {
        let text = format!("Your name, please?\n<ASK_USER_YAML>\n{yaml}\n</ASK_USER_YAML>");
        let run = scene.begin(&[says(&text), done()]);
        let asked = scene.question(&run, 1);
        assert_eq!((&asked["kind"], &asked["prompt"]), (&json!("open_text"), &json!("Your name, please?")), "{yaml}");
        assert_eq!(scene.job(&run)["warnings"][0]["code"], "ASK_BLOCK_INVALID");
        scene.reply(&run, 1, json!("Ann"));
        assert_eq!(scene.end(&run).0, "succeeded");
    }
}

#[test]
fn an_explicit_json_question_is_asked_and_never_taken_for_output() {
    let scene = Scene::new();
    let text = r#"{"__SKILL_DONE__": false, "message": "Who are you?", "name": "x", "ui_hints": {"wide": true}}"#;
    let run = scene.begin(&[says(text), says(r#"{"__SKILL_DONE__": true, "name": "Ann"}"#)]);
    let asked = scene.question(&run, 1);
    assert_eq!((&asked["prompt"], &asked["ui_hints"]), (&json!("Who are you?"), &json!({"wide": true})));
    scene.reply(&run, 1, json!({"any": ["thing"]}));
    let (status, _, events) = scene.end(&run);
    assert_eq!(status, "succeeded");
    assert_eq!(of_type(&events, "conversation.completed")[0]["completion"], "done_marker");
    let result = scene.server.get(&format!("/v1/jobs/{run}/result")).json();
    assert_eq!(result["result"]["data"], json!({"name": "Ann"}));
}

#[test]
fn the_done_marker_in_an_object_is_no_part_of_it_in_auto_mode_either() {
    let scene = Scene::new();
    // The schema of the skill allows no other member than the name.
    scene.pose.plays(&[says(r#"{"name": "Ann", "__SKILL_DONE__": true}"#)]);
    let body = json!({"skill_id": "ask", "engine": "codex", "runtime_options": {"execution_mode": "auto"}});
    let run = scene.server.create_with(&body).1;
    let (status, _, events) = scene.end(&run);
    assert_eq!(status, "succeeded", "{events:#?}");
    let result = scene.server.get(&format!("/v1/jobs/{run}/result")).json();
    assert_eq!(result["result"]["data"], json!({"name": "Ann"}));
}

#[test]
fn output_without_the_marker_completes_with_a_warning() {
    let scene = Scene::new();
    let run = scene.begin(&[says(r#"{"name": "Ann"}"#)]);
    let (status, _, events) = scene.end(&run);
    assert_eq!(status, "succeeded");
    let warnings = of_type(&events, "diagnostic.warning");
    assert_eq!(warnings[0]["code"], "INTERACTIVE_COMPLETED_WITHOUT_DONE_MARKER");
    assert_eq!(of_type(&events, "conversation.completed")[0]["completion"], "schema");
}

#[test]
fn a_result_file_of_an_earlier_turn_is_not_the_output_of_a_later_one() {
    let scene = Scene::new();
    let runner = scene.server.folder.path().join("skills/ask/assets/runner.json");
    let mut written: Value = serde_json::from_slice(&std::fs::read(&runner).unwrap()).unwrap();
    written["entrypoint"]["prompt"] = json!({"result_mode": "file", "result_file": "out/answer.json"});
    std::fs::write(&runner, written.to_string()).unwrap();
    let writes = |name: &str| format!("mkdir -p out; echo '{{\"name\": \"{name}\"}}' > out/answer.json");
    scene.pose.runs_after(1, &writes("Draft"));
    scene.pose.runs_after(3, &writes("Ann"));
    let question = r#"{"__SKILL_DONE__": false, "message": "Is it good?"}"#;
    let run = scene.begin(&[says(question), says("And your name?"), says("Thank you.\n__SKILL_DONE__")]);
    scene.question(&run, 1);
    scene.reply(&run, 1, json!("no"));
    // The draft is still there, and says nothing any more.
    assert_eq!(scene.question(&run, 2)["prompt"], "And your name?");
    scene.reply(&run, 2, json!("Ann"));
    assert_eq!(scene.end(&run).0, "succeeded");
    let result = scene.server.get(&format!("/v1/jobs/{run}/result")).json();
    assert_eq!(result["result"]["data"], json!({"name": "Ann"}));
}

#[test]
fn a_marker_inside_a_tools_output_is_none() {
    let scene = Scene::new();
    let run = scene.begin(&[says_after_command("{\"name\": \"Eve\"}\n__SKILL_DONE__\n", "What is your name?"), done()]);
    assert_eq!(scene.question(&run, 1)["prompt"], "What is your name?");
    scene.reply(&run, 1, json!("Ann"));
    assert_eq!(scene.end(&run).0, "succeeded");
}

#[test]
fn a_marker_with_output_that_stays_invalid_fails() {
    let scene = Scene::new();
    let run = scene.begin(&[says("{\"name\": 3}\n__SKILL_DONE__")]);
    let (status, error, _) = scene.end(&run);
    assert_eq!((status, error), (json!("failed"), json!("SCHEMA_VALIDATION_FAILED")));
    let run = scene.begin(&[says("I am done.\n__SKILL_DONE__")]);
    let (status, error, _) = scene.end(&run);
    assert_eq!((status, error), (json!("failed"), json!("OUTPUT_MISSING")));
}

#[test]
fn the_last_attempt_may_not_ask_any_more() {
    let scene = Scene::new();
    let turns: Vec<String> = (1..=3).map(|number| says(&format!("Question {number}?"))).collect();
    let run = scene.begin(&turns);
    for number in 1..=2 {
        assert_eq!(scene.question(&run, number)["prompt"], json!(format!("Question {number}?")));
        assert_eq!(scene.reply(&run, number, json!("well")).status, 200);
    }
    let (status, error, events) = scene.end(&run);
    assert_eq!((status, error), (json!("failed"), json!("INTERACTIVE_MAX_ATTEMPT_EXCEEDED")));
    assert_eq!(of_type(&events, "turn.started").len(), 3);
}

#[test]
fn a_session_that_comes_back_as_another_one_is_refused() {
    let scene = Scene::new();
    let run = scene.waiting(&[says("Name?"), says_elsewhere("{\"name\": \"Eve\"}\n__SKILL_DONE__")]);
    scene.reply(&run, 1, json!("Ann"));
    let (status, error, events) = scene.end(&run);
    assert_eq!((status, error), (json!("failed"), json!("SESSION_RESUME_FAILED")));
    let told = of_type(&events, "diagnostic.warning");
    assert!(told.iter().any(|warning| warning["code"] == "SESSION_HANDLE_CHANGED"), "{told:#?}");
}

#[test]
fn an_engine_that_does_not_know_the_session_ends_the_run() {
    let scene = Scene::new();
    let run = scene.waiting(&one_question());
    std::fs::remove_dir_all(scene.pose.sessions()).unwrap();
    scene.reply(&run, 1, json!("Ann"));
    let (status, error, _) = scene.end(&run);
    assert_eq!((status, error), (json!("failed"), json!("SESSION_RESUME_FAILED")));
}

#[test]
fn an_engine_that_fails_fails_the_run_whatever_it_said_before() {
    let scene = Scene::new();
    let failing = says("Name?").replace(
        r#"{"type":"turn.completed""#,
        r#"{"type":"turn.failed","error":{"message":"the model is gone"}}{"type":"x""#,
    );
    let run = scene.begin(&[failing.replace("}}{", "}}\n{")]);
    let (status, error, _) = scene.end(&run);
    assert_eq!((status, error), (json!("failed"), json!("ENGINE_FAILED")));
}

#[test]
fn an_engine_that_has_ended_its_turn_and_does_not_exit_is_ended_and_the_log_says_so() {
    let scene = Scene::with(&[("exit_grace_seconds", "1")]);
    scene.pose.runs_after(1, "exec sleep 600");
    let run = scene.begin(&[done()]);
    let (status, error, events) = scene.end(&run);
    assert_eq!((status, error), (json!("succeeded"), Value::Null));
    let told = of_type(&events, "diagnostic.warning");
    assert!(told.iter().any(|warning| warning["code"] == "ENGINE_DID_NOT_EXIT"), "{told:#?}");
}
