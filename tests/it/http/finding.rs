//! Finding runs again: labels, metadata, times; running them again; deleting them.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::support::skill::{GATED, HELLO};
use crate::support::zips::deflated;
use crate::support::{Answer, Server, of_type};

fn ids(listed: &Value) -> Vec<String> {
    listed["jobs"].as_array().unwrap().iter().map(|job| job["run_id"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn runs_are_found_by_their_labels_and_keep_their_metadata() {
    let server = Server::start();
    server.skill("hello", HELLO, json!({}));
    let body = |labels: Value| json!({"skill_id": "hello", "labels": labels, "metadata": {"ticket": {"n": 7}}});
    let (request, one) = server.create_with(&body(json!({"team": "x", "env": "a:b"})));
    let (_, other) = server.create_with(&body(json!({"team": "x"})));
    let (_, plain) = server.create("hello");
    for run in [&one, &other, &plain] {
        server.finish(run);
    }
    let listed = |query: &str| ids(&server.get(&format!("/v1/jobs?{query}")).json());
    assert_eq!(listed("label=team:x"), [other.clone(), one.clone()]);
    assert_eq!(listed("label=team:x&label=env:a:b"), std::slice::from_ref(&one));
    assert_eq!(listed("label=team:y"), Vec::<String>::new());
    assert_eq!(ids(&server.get("/v1/management/runs?label=team:x").json()), [other.clone(), one.clone()]);
    let job = server.get(&format!("/v1/jobs/{request}")).json();
    assert_eq!((&job["labels"], &job["metadata"]), (&json!({"team": "x", "env": "a:b"}), &json!({"ticket": {"n": 7}})));
    assert_eq!(server.get(&format!("/v1/management/runs/{one}")).json()["metadata"], job["metadata"]);
    assert_eq!(server.get("/v1/jobs").json()["jobs"][0]["labels"], json!({}));
    let since = server.get(&format!("/v1/jobs/{other}")).json()["created_at"].as_str().unwrap().to_owned();
    assert_eq!(listed(&format!("since={since}")), [plain, other]);
    for wrong in ["label=team", "since=yesterday", "status=failed&status=failed"] {
        assert_eq!(server.get(&format!("/v1/jobs?{wrong}")).refusal(), (400, "INVALID_REQUEST".into()), "{wrong}");
    }
    let many: serde_json::Map<String, Value> = (0..17).map(|n| (format!("l{n}"), json!("x"))).collect();
    for (labels, metadata) in [
        (json!({"a b": "x"}), json!({})),
        (json!({"a:b": "x"}), json!({})),
        (json!({"a": "x".repeat(129)}), json!({})),
        (json!({"a": "x\n"}), json!({})),
        (json!({"a": 1}), json!({})),
        (Value::Object(many), json!({})),
        (json!({}), json!({"long": "x".repeat(17_000)})),
        (json!({}), json!("text")),
    ] {
        let answer = server.post("/v1/jobs", &json!({"skill_id": "hello", "labels": labels, "metadata": metadata}));
        assert_eq!(answer.refusal(), (400, "INVALID_REQUEST".into()), "{labels} {metadata}");
    }
    assert_eq!(ids(&server.get("/v1/jobs").json()).len(), 3, "what was refused made nothing");
}

/// A skill that answers with what it was asked.
const ASKED: &str = "printf '{\"success\":true,\"action\":\"run\",\"data\":{\"asked\":%s,\"file\":\"%s\"}}' \"$(cat)\" \"$(cat uploads/doc 2>/dev/null)\"\n";

fn file_input() -> Value {
    let name = json!({"type": "string", "x-input-source": "inline"});
    json!({"input": {"type": "object", "properties": {"name": name, "doc": {"type": "string"}}, "required": ["doc"]}})
}

#[test]
fn a_run_that_waits_for_files_says_which_and_can_be_waited_for_when_they_come() {
    let server = Server::start();
    server.skill("asked", ASKED, file_input());
    let (_, run) = server.create("asked");
    let job = server.get(&format!("/v1/jobs/{run}")).json();
    assert_eq!((&job["awaiting_upload"], &job["awaiting_files"]), (&json!(true), &json!(["doc"])));
    let answer = server.get(&format!("/v1/jobs/{run}/result"));
    assert_eq!(answer.refusal(), (409, "RESULT_NOT_READY".into()));
    let error = answer.json()["error"].clone();
    assert_eq!(error["details"]["awaiting_files"], json!(["doc"]));
    assert!(error["message"].as_str().unwrap().starts_with("the run waits for its files: doc; "), "{error}");
    let zip = deflated(&[("doc", b"content")]);
    let upload = server.call("POST", &format!("/v1/jobs/{run}/upload?wait=60")).parts(&[("file", &zip)]).send();
    assert_eq!(upload.status, 200, "{}", upload.text());
    let done = upload.json();
    assert_eq!((&done["status"], &done["awaiting_files"]), (&json!("succeeded"), &json!([])));
    assert_eq!(done["result"]["data"]["file"], "content");
}

#[test]
fn a_run_is_run_again_with_its_input_its_files_and_what_the_body_changes() {
    let server = Server::start();
    server.skill("asked", ASKED, file_input());
    let body = json!({"skill_id": "asked", "input": {"name": "ann"}, "labels": {"team": "x"}, "metadata": {"n": 1}});
    let (_, run) = server.create_with(&body);
    let zip = deflated(&[("doc", b"content")]);
    let upload = server.call("POST", &format!("/v1/jobs/{run}/upload?wait=60")).parts(&[("file", &zip)]).send();
    assert_eq!(upload.json()["status"], "succeeded", "{}", upload.text());
    let again = server.call("POST", &format!("/v1/jobs/{run}/rerun?wait=60")).send();
    assert_eq!(again.status, 201, "{}", again.text());
    let job = again.json();
    assert_ne!(job["run_id"], json!(run));
    assert_eq!(again.header("location"), format!("/v1/jobs/{}", job["request_id"].as_str().unwrap()));
    assert_eq!(
        (&job["cache_hit"], &job["labels"], &job["metadata"]),
        (&json!(false), &json!({"team": "x"}), &json!({"n": 1}))
    );
    let data =
        |job: &Value| (job["result"]["data"]["asked"]["params"]["name"].clone(), job["result"]["data"]["file"].clone());
    assert_eq!(data(&job), (json!("ann"), json!("content")));
    for prefix in ["jobs", "temp-skill-runs", "management/runs"] {
        let path = format!("/v1/{prefix}/{run}/rerun?wait=60");
        let changed = server.post(&path, &json!({"input": {"name": "bob"}, "labels": {"team": null}})).json();
        assert_eq!((data(&changed), &changed["labels"]), ((json!("bob"), json!("content")), &json!({})), "{prefix}");
    }
    let refused = |body: &Value| server.post(&format!("/v1/jobs/{run}/rerun"), body).refusal();
    assert_eq!(refused(&json!({"nope": 1})), (400, "INVALID_REQUEST".into()));
    assert_eq!(refused(&json!({"input": {"name": 3}})), (400, "INPUT_VALIDATION_FAILED".into()));
    assert_eq!(refused(&json!([])).0, 400);
    let nobody = "/v1/jobs/0192f0c1-2d3e-7f40-8a51-6b7c8d9e0f11/rerun";
    assert_eq!(server.post(nobody, &json!({})).refusal(), (404, "REQUEST_NOT_FOUND".into()));
}

#[test]
fn a_rerun_gets_exactly_the_files_of_the_earlier_run_also_empty_ones_and_none() {
    let server = Server::start();
    let input = json!({"type": "object", "properties": {
        "paper": {"type": "string", "extensions": [".txt"]}, "more": {"x-input-source": "files"},
    }});
    let counting = "cat >/dev/null\nn=$(find uploads -type f 2>/dev/null | wc -l)\necho '{\"success\":true,\"data\":{\"n\":'$n'}}'\n";
    server.skill("counting", counting, json!({"input": input}));
    let nested = deflated(&[("notes/a.md", b"a"), ("paper.txt", b"")]);
    type Files<'a> = &'a [(&'a str, &'a str, &'a [u8])];
    let cases: [(Files, usize); 4] = [
        (&[("paper", "mine.txt", b"")], 1),
        (&[("paper", "mine.txt", b"words"), ("more", "b.csv", b""), ("more", "c.csv", b"1")], 3),
        (&[("file", "all.zip", &nested)], 2),
        (&[("file", "empty.zip", &deflated(&[]))], 0),
    ];
    for (files, count) in cases {
        let (_, run) = server.create_with(&json!({"skill_id": "counting", "await_upload": true}));
        let upload = server.call("POST", &format!("/v1/jobs/{run}/upload?wait=60")).files(files).send();
        assert_eq!(upload.json()["status"], "succeeded", "{}", upload.text());
        let again = server.call("POST", &format!("/v1/jobs/{run}/rerun?wait=60")).send();
        let job = again.json();
        assert_eq!((again.status, &job["result"]["data"]), (201, &json!({"n": count})), "{job}");
        assert_eq!(job["warnings"], json!([]), "{job}");
        let given = |run: &str| of_type(&server.finish(run), "input.uploaded")[0]["files"].clone();
        assert_eq!(given(job["run_id"].as_str().unwrap()), given(&run));
    }
    // What is not what was uploaded, or gone, is no input of another run.
    let (_, run) = server.create_with(&json!({"skill_id": "counting", "await_upload": true}));
    let upload = server.call("POST", &format!("/v1/jobs/{run}/upload?wait=60")).files(&[("paper", "a.txt", b"one")]);
    assert_eq!(upload.send().status, 200);
    let (again, paper) = (format!("/v1/jobs/{run}/rerun"), server.run_dir(&run).join("uploads/paper"));
    let jobs = || server.get("/v1/jobs").json()["jobs"].as_array().unwrap().len();
    let before = jobs();
    std::fs::write(&paper, "two").unwrap();
    assert_eq!(server.call("POST", &again).send().refusal(), (500, "DATA_CORRUPT".into()));
    std::fs::remove_file(&paper).unwrap();
    assert_eq!(server.call("POST", &again).send().refusal(), (410, "RUN_FILES_GONE".into()));
    assert_eq!(jobs(), before);
    std::fs::write(&paper, "one").unwrap();
    assert_eq!(server.call("POST", &again).send().status, 201);
}

#[test]
fn one_key_for_reruns_of_two_runs_with_other_files_is_a_conflict_and_gives_nobody_the_result_of_the_other() {
    let server = Server::start();
    server.skill("asked", ASKED, file_input());
    let ran = |content: &[u8]| {
        let (_, run) = server.create_with(&json!({"skill_id": "asked", "input": {"name": "one"}}));
        let upload = server.call("POST", &format!("/v1/jobs/{run}/upload?wait=60")).files(&[("doc", "a", content)]);
        assert_eq!(upload.send().status, 200);
        run
    };
    let (one, other) = (ran(b"one"), ran(b"other"));
    let again = |run: &str| {
        server.call("POST", &format!("/v1/jobs/{run}/rerun?wait=60")).header("idempotency-key", "again").send()
    };
    let (first, same) = (again(&one), again(&one));
    assert_eq!((first.status, same.status), (201, 201), "{}", first.text());
    assert_eq!(first.json()["run_id"], same.json()["run_id"]);
    assert_eq!(again(&other).refusal(), (409, "IDEMPOTENCY_CONFLICT".into()));
    let given = |run: &str| of_type(&server.finish(run), "input.uploaded")[0]["files"].clone();
    assert_eq!(given(first.json()["run_id"].as_str().unwrap()), given(&one));
}

/// A client that waited too long sends its request again while the first one still has files to copy.
#[test]
fn reruns_with_one_key_at_the_same_time_are_one_run_with_its_files() {
    let server = Server::start();
    server.skill("asked", ASKED, file_input());
    let (_, run) = server.create_with(&json!({"skill_id": "asked", "input": {"name": "one"}}));
    let large = vec![b'x'; 8 << 20];
    let upload = server.call("POST", &format!("/v1/jobs/{run}/upload?wait=60")).files(&[("doc", "a", &large)]);
    assert_eq!(upload.send().status, 200);
    for key in ["a", "b", "c"] {
        let again = || server.call("POST", &format!("/v1/jobs/{run}/rerun")).header("idempotency-key", key).send();
        let answers: Vec<Answer> = std::thread::scope(|scope| {
            let sent: Vec<_> = (0..3).map(|_| scope.spawn(again)).collect();
            sent.into_iter().map(|sent| sent.join().unwrap()).collect()
        });
        let told: BTreeSet<(u16, String, bool)> = answers
            .iter()
            .map(|answer| {
                let told = answer.json();
                (answer.status, told["run_id"].to_string(), told["awaiting_upload"] == json!(true))
            })
            .collect();
        assert_eq!((told.len(), told.iter().next().map(|one| (one.0, one.2))), (1, Some((201, false))), "{told:?}");
        let rerun = answers[0].json()["run_id"].as_str().unwrap().to_owned();
        assert_eq!(server.finish(&rerun).last().unwrap()["data"]["status"], "succeeded");
    }
}

#[test]
fn an_upload_that_meets_a_cancel_and_a_deletion_is_refused_and_leaves_nothing() {
    let server = Server::start();
    server.skill("asked", ASKED, file_input());
    let large = vec![b'x'; 2 << 20];
    for round in 0..8 {
        let (request, run) = server.create_with(&json!({"skill_id": "asked", "input": {"name": format!("{round}")}}));
        let upload = || server.call("POST", &format!("/v1/jobs/{run}/upload")).files(&[("doc", "a", &large)]).send();
        let ended = || {
            server.call("POST", &format!("/v1/jobs/{run}/cancel")).send();
            server.call("DELETE", &format!("/v1/jobs/{run}")).send()
        };
        let (uploaded, deleted) = std::thread::scope(|scope| {
            let uploading = scope.spawn(upload);
            let deleted = ended();
            (uploading.join().unwrap(), deleted)
        });
        // Either the upload was first, and its run was canceled, or it came too late.
        match uploaded.status {
            200 => {}
            409 => assert_eq!(uploaded.refusal().1, "RUN_FINAL"),
            404 => assert_eq!(uploaded.refusal().1, "REQUEST_NOT_FOUND"),
            status => panic!("{status}: {}", uploaded.text()),
        }
        if deleted.status == 409 {
            // It was about to begin.
            server.finish(&run);
            assert_eq!(server.call("DELETE", &format!("/v1/jobs/{run}")).send().status, 200);
        } else {
            assert_eq!(deleted.status, 200, "{}", deleted.text());
        }
        assert_eq!(server.get(&format!("/v1/jobs/{run}")).status, 404);
        assert_eq!(upload().refusal(), (404, "REQUEST_NOT_FOUND".into()));
        let left: Vec<String> =
            server.left_behind().into_iter().filter(|path| path.contains(&request) || path.contains(&run)).collect();
        assert_eq!(left, Vec::<String>::new(), "round {round}, upload {}", uploaded.status);
    }
}

#[test]
fn a_run_that_has_ended_can_be_deleted_and_one_that_has_not_cannot() {
    let server = Server::start();
    server.skill("gated", GATED, json!({}));
    server.skill("hello", HELLO, json!({}));
    let delete = |path: String| server.call("DELETE", &path).send();
    let (_, run) = server.create("gated");
    server.wait_for(&run, "raw.stderr", "ready");
    assert_eq!(delete(format!("/v1/jobs/{run}")).refusal(), (409, "RUN_NOT_FINAL".into()));
    server.open_gate(&run, "go");
    server.finish(&run);
    for prefix in ["jobs", "temp-skill-runs", "management/runs"] {
        let (request, run) = server.finished("hello");
        let deleted = delete(format!("/v1/{prefix}/{run}"));
        assert_eq!(deleted.status, 200, "{}", deleted.text());
        let answer = deleted.json();
        assert_eq!(
            (&answer["request_id"], &answer["run_id"], &answer["deleted"]),
            (&json!(request), &json!(run), &json!(true))
        );
        assert_eq!(server.get(&format!("/v1/jobs/{run}")).refusal(), (404, "REQUEST_NOT_FOUND".into()));
        assert!(!server.run_dir(&run).exists());
        assert_eq!(delete(format!("/v1/jobs/{run}")).refusal(), (404, "REQUEST_NOT_FOUND".into()));
    }
    assert_eq!(server.get(&format!("/v1/jobs/{run}")).status, 200, "the others are still there");
}

#[test]
fn an_event_source_that_has_the_last_event_of_a_finished_run_is_told_to_stop() {
    let server = Server::start();
    server.skill("hello", HELLO, json!({}));
    let (_, run) = server.finished("hello");
    let head = server.get(&format!("/v1/jobs/{run}")).json()["head_seq"].as_u64().unwrap();
    let events = |query: String| server.call("GET", &format!("/v1/jobs/{run}/events{query}"));
    for (cursor, status) in [(0, 200), (head - 1, 200), (head, 204), (head + 5, 204)] {
        assert_eq!(events(format!("?cursor={cursor}")).send().status, status, "{cursor}");
    }
    assert_eq!(events(String::new()).header("last-event-id", &head.to_string()).send().status, 204);
    assert!(events(String::new()).send().text().starts_with("retry: 2000\nevent: snapshot\n"));
}
