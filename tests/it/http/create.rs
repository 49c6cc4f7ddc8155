//! Creating runs: inline inputs, waiting, idempotency, the queue's limit, uploads.

use serde_json::{Value, json};

use super::without;
use crate::support::Server;
use crate::support::skill::{GATED, HELLO};

/// Copies its file input into its answer.
const READER: &str = "cat >/dev/null\n\
    echo \"{\\\"success\\\":true,\\\"data\\\":{\\\"text\\\":\\\"$(cat uploads/paper)\\\"}}\"\n";

fn reader_extras() -> Value {
    json!({"input": {"type": "object", "properties": {"paper": {"type": "string"}}, "required": ["paper"]}})
}

pub fn zip_of(files: &[(&str, &[u8])]) -> Vec<u8> {
    use std::io::Write;
    let mut zip = zip::ZipWriter::new(std::io::Cursor::new(Vec::new()));
    for (name, content) in files {
        zip.start_file(*name, zip::write::SimpleFileOptions::default()).unwrap();
        zip.write_all(content).unwrap();
    }
    zip.finish().unwrap().into_inner()
}

#[test]
fn a_create_answers_at_once_with_the_ids() {
    let server = Server::start();
    server.skill("hello", HELLO, json!({}));
    let answer =
        server.post("/v1/jobs", &json!({"skill_id": "hello", "engine": "script", "input": {}, "parameter": {}}));
    assert_eq!(answer.status, 201);
    let created = answer.json();
    assert_eq!(answer.header("location"), format!("/v1/jobs/{}", created["request_id"].as_str().unwrap()));
    assert_ne!(created["request_id"], created["run_id"]);
    server.finish(created["run_id"].as_str().unwrap());
    assert_eq!(
        without(created, &["request_id", "run_id"]),
        json!({"cache_hit": false, "status": "queued", "awaiting_upload": false})
    );
}

#[test]
fn waiting_gives_the_job_with_its_result() {
    let server = Server::start();
    server.skill("hello", HELLO, json!({}));
    for (path, prefer) in [("/v1/jobs?wait=30", None), ("/v1/jobs", Some("respond-async, wait=30"))] {
        let mut call = server.call("POST", path).json(&json!({"skill_id": "hello"}));
        if let Some(prefer) = prefer {
            call = call.header("prefer", prefer);
        }
        let answer = call.send();
        assert_eq!(answer.status, 201);
        assert_eq!(answer.header("preference-applied"), if prefer.is_some() { "wait=30" } else { "" });
        let mut waited = answer.json();
        let run = waited["run_id"].as_str().unwrap().to_owned();
        let result = waited.as_object_mut().unwrap().remove("result").unwrap();
        assert_eq!(waited, server.get(&format!("/v1/jobs/{run}")).json());
        assert_eq!(result, server.get(&format!("/v1/jobs/{run}/result")).json()["result"]);
        assert_eq!(result["data"], json!({"greeting": "hello"}));
    }
}

#[test]
fn a_wait_that_is_over_answers_with_the_job_as_it_is() {
    let server = Server::start();
    server.skill("gated", GATED, json!({}));
    let answer = server.post("/v1/jobs?wait=1", &json!({"skill_id": "gated"}));
    let job = answer.json();
    assert_eq!((answer.status, job.get("result")), (201, None));
    assert!(["queued", "running"].contains(&job["status"].as_str().unwrap()), "{job}");
    let run = job["run_id"].as_str().unwrap();
    server.open_gate(run, "late");
    server.finish(run);
}

#[test]
fn a_run_that_needs_files_is_not_waited_for() {
    let server = Server::start();
    server.skill("reader", READER, reader_extras());
    // Were it waited for, the client would give up long before the answer.
    let answer = server.post("/v1/jobs?wait=500", &json!({"skill_id": "reader"}));
    let told = answer.json();
    let job = server.get(&format!("/v1/jobs/{}", told["request_id"].as_str().unwrap())).json();
    assert_eq!((answer.status, &told["awaiting_upload"]), (201, &json!(true)));
    assert_eq!(told, job, "the answer to a wait is the job as it then is");
}

#[test]
fn a_client_that_goes_away_while_waiting_does_not_cancel_the_run() {
    use std::io::Write;
    let server = Server::start();
    server.skill("gated", GATED, json!({}));
    let body = json!({"skill_id": "gated"}).to_string();
    let mut connection = std::net::TcpStream::connect(server.address).unwrap();
    write!(
        connection,
        "POST /v1/jobs?wait=60 HTTP/1.1\r\nhost: {}\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
        server.address,
        body.len()
    )
    .unwrap();
    let run = loop {
        let jobs = server.get("/v1/jobs").json();
        if let Some(run) = jobs["jobs"][0]["run_id"].as_str() {
            break run.to_owned();
        }
    };
    server.wait_for(&run, "raw.stderr", "ready");
    drop(connection);
    server.open_gate(&run, "alone");
    assert_eq!(server.finish(&run).last().unwrap()["type"], "conversation.completed");
}

#[test]
fn an_upload_triggers_the_run() {
    let server = Server::start();
    server.skill("reader", READER, reader_extras());
    let created = server.post("/v1/jobs", &json!({"skill_id": "reader"})).json();
    assert_eq!(created["awaiting_upload"], json!(true));
    let (request, run) = (created["request_id"].as_str().unwrap(), created["run_id"].as_str().unwrap());
    let path = format!("/v1/jobs/{request}/upload");
    let zip = zip_of(&[("paper", b"from the zip")]);
    let uploaded = server.call("POST", &path).parts(&[("file", &zip)]).send();
    assert_eq!(
        (uploaded.status, uploaded.json()),
        (
            200,
            json!({
                "request_id": request, "cache_hit": false, "status": "queued", "extracted_files": ["paper"],
            })
        )
    );
    let events = server.finish(run);
    assert!(events.iter().any(|event| event["type"] == "input.uploaded"));
    let result = server.get(&format!("/v1/jobs/{request}/result")).json();
    assert_eq!(result["result"]["data"], json!({"text": "from the zip"}));
    let again = server.call("POST", &path).parts(&[("file", &zip)]).send();
    assert_eq!(again.refusal(), (409, "RUN_FINAL".into()));
    assert!(server.left_behind().iter().all(|path| !path.contains("upload-")), "{:?}", server.left_behind());
}

#[test]
fn a_file_may_come_in_a_part_of_its_own_and_keeps_its_name() {
    let server = Server::start();
    let input = json!({"type": "object", "required": ["paper"], "properties": {
        "paper": {"type": "string", "extensions": [".txt", "md"]},
        "more": {"x-input-source": "files", "extensions": ["csv"]},
    }});
    server.skill("reader", READER, json!({"input": input}));
    let (request, run) = server.create("reader");
    let path = format!("/v1/jobs/{request}/upload");
    let refused = server.call("POST", &path).files(&[("pages", "x.txt", b"1")]).send();
    assert_eq!(refused.refusal(), (400, "UNKNOWN_INPUT_KEY".into()));
    let twice = server.call("POST", &path).files(&[("paper", "x.txt", b"1"), ("paper", "y.txt", b"1")]).send();
    assert_eq!(twice.refusal(), (400, "INVALID_REQUEST".into()));
    let files: [(&str, &str, &[u8]); 3] =
        [("paper", "plan.PDF", b"by itself"), ("more", "a.CSV", b"1"), ("more", "b.tsv", b"2")];
    let uploaded = server.call("POST", &format!("{path}?wait=60")).files(&files).send();
    assert_eq!((uploaded.status, &uploaded.json()["status"]), (200, &json!("succeeded")), "{}", uploaded.text());
    let events = server.finish(&run);
    let told = events.iter().find(|event| event["type"] == "input.uploaded").unwrap();
    let files = told["data"]["files"].as_array().unwrap().iter();
    let names: Vec<String> = files.map(|file| format!("{} {}", file["name"], file["file_name"])).collect();
    assert_eq!(names, [r#""a.CSV" null"#, r#""b.tsv" null"#, r#""paper" "plan.PDF""#]);
    let warned = events.iter().filter(|event| event["type"] == "diagnostic.warning").map(|event| &event["data"]);
    let warned: Vec<(&Value, &Value)> = warned.map(|warning| (&warning["code"], &warning["details"])).collect();
    let code = json!("INPUT_EXTENSION_UNEXPECTED");
    let files = [
        json!({"field": "more", "file": "b.tsv", "expected": [".csv"]}),
        json!({"field": "paper", "file": "plan.PDF", "expected": [".txt", ".md"]}),
    ];
    assert_eq!(warned, [(&code, &files[0]), (&code, &files[1])]);
    assert_eq!(server.get(&format!("/v1/jobs/{request}")).json()["warnings"][0]["code"], "INPUT_EXTENSION_UNEXPECTED");
    let again = server.post(&format!("/v1/jobs/{request}/rerun?wait=60"), &json!({})).json();
    assert_eq!(again["result"]["data"], json!({"text": "by itself"}), "{again:#}");
}

#[test]
fn what_a_zip_has_for_no_input_is_left_out_and_named() {
    let server = Server::start();
    server.skill("reader", READER, reader_extras());
    let (request, run) = server.create("reader");
    let mut entries = vec![("pack/paper.txt".to_owned(), b"in a folder".as_slice())];
    entries.extend((0..20).map(|number| (format!("pack/other-{number:02}"), b"".as_slice())));
    entries.push(("pack/.DS_Store".to_owned(), b""));
    let entries: Vec<(&str, &[u8])> = entries.iter().map(|(name, content)| (name.as_str(), *content)).collect();
    let uploaded = server.call("POST", &format!("/v1/jobs/{request}/upload")).parts(&[("file", &zip_of(&entries))]);
    assert_eq!(uploaded.send().json()["extracted_files"], json!(["paper"]));
    let events = server.finish(&run);
    let warnings = events.iter().filter(|event| event["data"]["code"] == "UPLOAD_ENTRY_IGNORED");
    let told: Vec<_> = warnings.map(|event| event["data"]["details"].clone()).collect();
    let mut expected: Vec<_> = (0..16).map(|number| json!({"entry": format!("pack/other-{number:02}")})).collect();
    expected.push(json!({"count": 4}));
    assert_eq!(told, expected);
    assert_eq!(server.get(&format!("/v1/jobs/{request}/result")).json()["result"]["data"]["text"], "in a folder");
}

#[test]
fn a_file_that_is_sent_as_a_zip_is_told_how_it_is_sent_without_one() {
    let server = Server::start();
    server.skill("reader", READER, reader_extras());
    let (request, _) = server.create("reader");
    let path = format!("/v1/jobs/{request}/upload");
    let refused = server.call("POST", &path).parts(&[("file", b"some text")]).send();
    assert_eq!(refused.refusal(), (400, "INVALID_ZIP".into()));
    let told = refused.json()["error"]["message"].as_str().unwrap().to_owned();
    assert!(told.ends_with("; a file that is not in a zip is sent in a part named like its input: paper"), "{told}");
    let refused = server.call("POST", &path).body("text/plain", "some text").send();
    assert_eq!(refused.refusal(), (415, "UNSUPPORTED_MEDIA_TYPE".into()));
    assert!(refused.text().contains("send multipart/form-data, as `curl -F` does"), "{}", refused.text());
    let sent = server.call("POST", &format!("{path}?wait=60")).files(&[("paper", "a.txt", b"some text")]).send();
    assert_eq!(sent.json()["result"]["data"]["text"], "some text", "{}", sent.text());
}

#[test]
fn await_upload_overrides_the_default_both_ways() {
    let server = Server::start();
    server.skill("reader", READER, reader_extras());
    server.skill("optional", HELLO, json!({"input": {"type": "object", "properties": {"paper": {"type": "string"}}}}));
    let (request, run) = server.create_with(&json!({"skill_id": "reader", "await_upload": false}));
    server.finish(&run);
    assert_eq!(server.get(&format!("/v1/jobs/{request}")).json()["error"]["code"], "MISSING_INPUT_FILES");

    let (request, run) = server.create_with(&json!({"skill_id": "optional", "await_upload": true}));
    let path = format!("/v1/jobs/{request}/upload");
    let zip = zip_of(&[]);
    assert_eq!(server.call("POST", &path).parts(&[("file", &zip)]).send().status, 200);
    assert_eq!(server.finish(&run).last().unwrap()["type"], "conversation.completed");

    server.skill("gated", GATED, json!({}));
    let (request, run) = server.create("gated");
    let early = server.call("POST", &format!("/v1/jobs/{request}/upload")).parts(&[("file", &zip)]).send();
    assert_eq!(early.refusal(), (409, "ALREADY_UPLOADED".into()));
    server.open_gate(&run, "on");
    server.finish(&run);
}

#[test]
fn the_same_key_and_body_give_the_first_answer_and_another_body_is_a_conflict() {
    let server = Server::start();
    server.skill("hello", HELLO, json!({}));
    let create = |body: &str| {
        server.call("POST", "/v1/jobs").header("idempotency-key", "one").body("application/json", body).send()
    };
    let first = create(r#"{"skill_id":"hello","parameter":{"a":1,"b":2}}"#);
    assert_eq!(first.status, 201);
    server.finish(first.json()["run_id"].as_str().unwrap());
    let again = create(r#" { "parameter": {"b":2, "a":1}, "skill_id": "hello" } "#);
    assert_eq!((again.status, again.json()), (201, first.json()));
    assert_eq!(create(r#"{"skill_id":"hello"}"#).refusal(), (409, "IDEMPOTENCY_CONFLICT".into()));
    assert_eq!(server.get("/v1/jobs").json()["jobs"].as_array().unwrap().len(), 1);
    for wrong in [" ", &"k".repeat(257)] {
        let call = server.call("POST", "/v1/jobs").header("idempotency-key", wrong).json(&json!({"skill_id": "hello"}));
        assert_eq!(call.send().refusal(), (400, "INVALID_REQUEST".into()));
    }
}

#[test]
fn equal_requests_at_the_same_time_make_one_run() {
    let server = Server::start();
    server.skill("hello", HELLO, json!({}));
    let answers: Vec<Value> = std::thread::scope(|scope| {
        let create = || {
            let call = server.call("POST", "/v1/jobs").header("idempotency-key", "same");
            call.json(&json!({"skill_id": "hello"})).send().json()
        };
        let threads: Vec<_> = (0..12).map(|_| scope.spawn(create)).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    assert!(answers.iter().all(|answer| *answer == answers[0] && answer["run_id"].is_string()), "{answers:?}");
    server.finish(answers[0]["run_id"].as_str().unwrap());
    assert_eq!(server.get("/v1/jobs").json()["jobs"].as_array().unwrap().len(), 1);
    let runs = std::fs::read_dir(server.data().join("runs")).unwrap().count();
    assert_eq!(runs, 1, "the losers' folders are gone");
}

#[test]
fn a_full_queue_says_when_to_come_back() {
    let server = Server::with(&[("max_running_jobs", "1"), ("max_queued_jobs", "1")]);
    server.skill("gated", GATED, json!({}));
    let alone = json!({"skill_id": "gated", "runtime_options": {"no_cache": true}});
    let (_, running) = server.create_with(&alone);
    server.wait_for(&running, "raw.stderr", "ready");
    let (_, waiting) = server.create_with(&alone);
    assert_eq!(server.get(&format!("/v1/jobs/{waiting}")).json()["queue_position"], 0);
    let before = server.left_behind();
    let refused = server.post("/v1/jobs", &alone);
    assert_eq!(refused.refusal(), (429, "QUEUE_FULL".into()));
    assert_eq!(refused.header("retry-after"), "1");
    assert_eq!(server.left_behind(), before, "nothing was created");
    server.open_gate(&running, "one");
    server.finish(&running);
    server.wait_for(&waiting, "raw.stderr", "ready");
    server.open_gate(&waiting, "two");
    server.finish(&waiting);
}
