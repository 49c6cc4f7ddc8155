//! Replies: their codes, their repeats, and many at once; and the management twins of the job routes.

use serde_json::{Value, json};

use super::pose::{done, says};
use super::{Scene, of_type, one_question};
use crate::support::skill::HELLO;

#[test]
fn replies_that_cannot_be_taken_are_told_why() {
    let scene = Scene::new();
    scene.server.skill("hello", HELLO, json!({}));
    let (_, auto) = scene.server.finished("hello");
    assert_eq!(scene.reply(&auto, 1, json!("x")).refusal(), (400, "NOT_INTERACTIVE".into()));
    let pending = scene.server.get(&format!("/v1/jobs/{auto}/interaction/pending"));
    assert_eq!(pending.refusal(), (400, "NOT_INTERACTIVE".into()));

    let run = scene.waiting(&one_question());
    assert_eq!(scene.reply(&run, 2, json!("x")).refusal(), (409, "INTERACTION_STALE".into()));
    assert_eq!(scene.reply(&run, 0, json!("x")).refusal(), (409, "INTERACTION_STALE".into()));
    for body in [
        json!({"interaction_id": 1}),
        json!({"response": "x"}),
        json!({"interaction_id": "1", "response": "x"}),
        json!({"interaction_id": -1, "response": "x"}),
        json!({"interaction_id": 1, "response": "x", "more": 1}),
        json!({"interaction_id": 1, "response": "x", "idempotency_key": 3}),
    ] {
        assert_eq!(scene.reply_with(&run, body.clone()).refusal(), (400, "INVALID_REQUEST".into()), "{body}");
    }
    let nobody = "0192f0c1-2d3e-7f40-8a51-6b7c8d9e0f11";
    assert_eq!(scene.reply(nobody, 1, json!("x")).refusal(), (404, "REQUEST_NOT_FOUND".into()));
    assert_eq!(scene.job(&run)["status"], "waiting_user", "refusals change nothing");
    assert_eq!(scene.reply(&run, 1, json!("Ann")).status, 200);
    scene.end(&run);
    assert_eq!(scene.reply(&run, 1, json!("Ann")).refusal(), (409, "INTERACTION_NOT_PENDING".into()));
    let pending = scene.server.get(&format!("/v1/jobs/{run}/interaction/pending")).json();
    assert_eq!((&pending["status"], &pending["pending"]), (&json!("succeeded"), &Value::Null));
}

#[test]
fn the_same_key_gets_the_same_receipt_at_any_time_and_other_bodies_conflict() {
    let scene = Scene::new();
    let run = scene.waiting(&[says("Name?"), says("Colour?"), done()]);
    let body = json!({"interaction_id": 1, "response": "Ann", "idempotency_key": "k"});
    let first = scene.reply_with(&run, body.clone());
    assert_eq!(first.status, 200);
    let repeat = || {
        let again = scene.reply_with(&run, body.clone());
        assert_eq!((again.status, again.body), (200, first.body.clone()));
        for other in [
            json!({"interaction_id": 1, "response": "Bob", "idempotency_key": "k"}),
            json!({"interaction_id": 2, "response": "Ann", "idempotency_key": "k"}),
        ] {
            assert_eq!(scene.reply_with(&run, other).refusal(), (409, "IDEMPOTENCY_CONFLICT".into()));
        }
    };
    repeat();
    scene.question(&run, 2);
    repeat();
    assert_eq!(scene.reply(&run, 1, json!("Ann")).refusal(), (409, "INTERACTION_STALE".into()));
    assert_eq!(scene.reply(&run, 2, json!("blue")).status, 200);
    let (status, _, events) = scene.end(&run);
    repeat();
    assert_eq!((status, of_type(&events, "interaction.reply.accepted").len()), (json!("succeeded"), 2));
}

#[test]
fn of_50_replies_at_once_one_is_taken_and_the_engine_goes_on_once() {
    let scene = Scene::new();
    let run = scene.waiting(&one_question());
    let barrier = std::sync::Barrier::new(50);
    let answers: Vec<(u16, String)> = std::thread::scope(|scope| {
        let ask = |number: usize| {
            let (scene, run, barrier) = (&scene, &run, &barrier);
            scope.spawn(move || {
                barrier.wait();
                let answer = scene.reply(run, 1, json!(format!("client {number}")));
                if answer.status == 200 { (200, number.to_string()) } else { answer.refusal() }
            })
        };
        let threads: Vec<_> = (0..50).map(ask).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    let taken: Vec<&(u16, String)> = answers.iter().filter(|(status, _)| *status == 200).collect();
    assert_eq!(taken.len(), 1, "{answers:?}");
    for refused in answers.iter().filter(|(status, _)| *status != 200) {
        assert_eq!(*refused, (409, "INTERACTION_NOT_PENDING".into()));
    }
    let (status, _, events) = scene.end(&run);
    assert_eq!(status, "succeeded");
    let attempts: Vec<Value> = of_type(&events, "turn.started").iter().map(|turn| turn["attempt"].clone()).collect();
    assert_eq!(attempts, [1, 2]);
    let session = of_type(&events, "session.bound")[0]["handle"].as_str().unwrap().to_owned();
    assert_eq!(scene.pose.told(&session)[1].trim(), format!("client {}", taken[0].1));
}

#[test]
fn of_50_equal_replies_under_one_key_all_get_the_receipt_and_the_engine_goes_on_once() {
    let scene = Scene::new();
    let run = scene.waiting(&one_question());
    let barrier = std::sync::Barrier::new(50);
    let answers: Vec<(u16, Value)> = std::thread::scope(|scope| {
        let ask = |_| {
            let (scene, run, barrier) = (&scene, &run, &barrier);
            scope.spawn(move || {
                barrier.wait();
                let body = json!({"interaction_id": 1, "response": "Ann", "idempotency_key": "once"});
                let answer = scene.reply_with(run, body);
                (answer.status, answer.json())
            })
        };
        let threads: Vec<_> = (0..50).map(ask).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    let receipt = &answers[0];
    assert_eq!((receipt.0, &receipt.1["accepted"]), (200, &json!(true)), "{receipt:?}");
    assert_eq!(answers.iter().filter(|answer| *answer != receipt).collect::<Vec<_>>(), Vec::<&(u16, Value)>::new());
    let (status, _, events) = scene.end(&run);
    assert_eq!((status, of_type(&events, "interaction.reply.accepted").len()), (json!("succeeded"), 1));
    let attempts: Vec<Value> = of_type(&events, "turn.started").iter().map(|turn| turn["attempt"].clone()).collect();
    assert_eq!(attempts, [1, 2]);
    let session = of_type(&events, "session.bound")[0]["handle"].as_str().unwrap().to_owned();
    let told: Vec<String> = scene.pose.told(&session).iter().skip(1).map(|text| text.trim().to_owned()).collect();
    assert_eq!(told, ["Ann"]);
}

#[test]
fn a_reply_the_moment_a_question_is_seen_finds_one_actor_and_one_slot() {
    let scene = Scene::with(&[("max_running_jobs", "1")]);
    let turns: Vec<String> = vec![says("One?"), says("Two?"), done()];
    for _ in 0..5 {
        let run = scene.begin(&turns);
        for number in 1..=2 {
            let mut events = scene.server.events(&run, 0);
            while events.next_chat().unwrap()["data"]["pending_interaction_id"] != number {}
            assert_eq!(scene.reply(&run, number, json!("now")).status, 200);
        }
        assert_eq!(scene.end(&run).0, "succeeded");
        let queue = scene.server.get("/v1/system").json()["queue"].clone();
        assert!(queue["running"].as_u64().unwrap() <= 1, "{queue}");
    }
}

#[test]
fn management_routes_answer_as_their_job_twins_do() {
    let scene = Scene::new();
    let run = scene.waiting(&one_question());
    let get = |path: &str| scene.server.get(path);
    let mut job = scene.job(&run);
    job["poll_logs"] = json!(false);
    assert_eq!(get(&format!("/v1/management/runs/{run}")).json(), job);
    for (management, twin) in [
        ("/v1/management/runs".to_owned(), "/v1/jobs".to_owned()),
        (
            "/v1/management/runs?status=waiting_user&limit=1".to_owned(),
            "/v1/jobs?status=waiting_user&limit=1".to_owned(),
        ),
        (format!("/v1/management/runs/{run}/pending"), format!("/v1/jobs/{run}/interaction/pending")),
        (format!("/v1/management/runs/{run}/events/history"), format!("/v1/jobs/{run}/events/history")),
        (
            format!("/v1/management/runs/{run}/logs/range?stream=stdout&byte_to=20"),
            format!("/v1/jobs/{run}/logs/range?stream=stdout&byte_to=20"),
        ),
        ("/v1/management/runs?status=odd".to_owned(), "/v1/jobs?status=odd".to_owned()),
        ("/v1/management/runs/nothing".to_owned(), "/v1/jobs/nothing".to_owned()),
    ] {
        let (one, other) = (get(&management), get(&twin));
        let mut told = one.json();
        // What lists of the management say besides; `openapi::pairs` holds it against the runs.
        if let Some(list) = told.as_object_mut().filter(|told| told.contains_key("jobs")) {
            assert!(list.remove("counts").is_some(), "{management}");
        }
        assert_eq!((one.status, told), (other.status, other.json()), "{management}");
    }
    let refused =
        scene.server.post(&format!("/v1/management/runs/{run}/reply"), &json!({"interaction_id": 9, "response": 1}));
    assert_eq!(refused.refusal(), (409, "INTERACTION_STALE".into()));
    let reply = json!({"interaction_id": 1, "response": "Ann"});
    let taken = scene.server.post(&format!("/v1/management/runs/{run}/reply"), &reply);
    assert_eq!((taken.status, &taken.json()["accepted"]), (200, &json!(true)));
    let streamed = crate::support::Sse::open(scene.server.address, &format!("/v1/management/runs/{run}/events"), &[]);
    assert_eq!(streamed.until_end(), scene.server.finish(&run));

    let second = scene.waiting(&one_question());
    let canceled = scene.server.call("POST", &format!("/v1/management/runs/{second}/cancel")).send();
    assert_eq!((canceled.status, &canceled.json()["status"]), (200, &json!("canceled")));
}

#[test]
fn the_files_of_a_run_are_listed_and_shown() {
    let scene = Scene::new();
    let run = scene.waiting(&one_question());
    let root = scene.server.run_dir(&run);
    std::fs::write(root.join("artifacts/big.txt"), vec![b'x'; 256 * 1024 + 1]).unwrap();
    std::fs::write(root.join("artifacts/full.txt"), vec![b'x'; 256 * 1024]).unwrap();
    std::fs::write(root.join("artifacts/image.bin"), [0xff, 0xd8, 0]).unwrap();
    std::fs::write(root.join("artifacts/note.txt"), "grün").unwrap();
    std::os::unix::fs::symlink("/etc/passwd", root.join("artifacts/link")).unwrap();
    let tree = scene.server.get(&format!("/v1/management/runs/{run}/files")).json();
    let entry = |path: &str| {
        let files = tree["files"].as_array().unwrap();
        files.iter().find(|entry| entry["path"] == path).cloned().unwrap_or(Value::Null)
    };
    assert_eq!(entry("artifacts"), json!({"path": "artifacts", "kind": "folder", "size": null}));
    assert_eq!(entry("artifacts/note.txt"), json!({"path": "artifacts/note.txt", "kind": "file", "size": 5}));
    assert_eq!(entry("artifacts/link"), json!({"path": "artifacts/link", "kind": "other", "size": null}));
    assert_eq!((&tree["run_id"], &tree["truncated"]), (&json!(run), &json!(false)));
    let show = |path: &str| scene.server.get(&format!("/v1/management/runs/{run}/file?path={path}"));
    let shown = |path: &str| {
        let found = show(path).json();
        (found["preview"].as_str().unwrap().to_owned(), found["size"].as_u64().unwrap(), found["content"].clone())
    };
    assert_eq!(shown("artifacts/note.txt"), ("text".into(), 5, json!("grün")));
    assert_eq!(shown("artifacts/image.bin"), ("binary".into(), 3, Value::Null));
    assert_eq!(shown("artifacts/big.txt"), ("too_large".into(), 256 * 1024 + 1, Value::Null));
    assert_eq!(shown("artifacts/full.txt").0, "text");
    for (path, refusal) in [
        ("artifacts/none", (404, "FILE_NOT_FOUND".into())),
        ("artifacts", (404, "FILE_NOT_FOUND".into())),
        ("../x", (400, "UNSAFE_PATH".into())),
        ("/etc/passwd", (400, "UNSAFE_PATH".into())),
        ("artifacts/link", (400, "UNSAFE_PATH".into())),
        ("", (400, "UNSAFE_PATH".into())),
    ] {
        assert_eq!(show(path).refusal(), refusal, "{path}");
    }
    let unnamed = scene.server.get(&format!("/v1/management/runs/{run}/file"));
    assert_eq!(unnamed.refusal(), (400, "INVALID_REQUEST".into()));
}
