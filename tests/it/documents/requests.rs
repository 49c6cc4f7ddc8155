//! Every request that the design documents show or list, sent to a service.

use std::fs;

use serde_json::{Value, json};

use super::{members, result, uploaded};
use crate::cli::place::Place;
use crate::interactive::pose::{self, Pose, says};
use crate::support::{Call, Server, Sse, script_skill};

/// The example of a request, on the engine and the model that it names.
fn primes_on_codex(divisor: u32) -> Value {
    json!({
        "skill_id": "demo-prime-number",
        "engine": "codex",
        "parameter": {"divisor": divisor},
        "model": "gpt-5.2-codex@high",
        "runtime_options": {"debug": false, "interactive_reply_timeout_sec": 1200},
    })
}

#[test]
fn every_route_that_the_documents_list_answers_about_the_run_of_their_example() {
    let pose = Pose::new();
    let skills = concat!(env!("CARGO_MANIFEST_DIR"), "/skills");
    let server = Server::with(&[("skills_dir", skills), ("engines.codex.command", &pose.command())]);
    pose.plays(&[says("{\"primes\": [2, 3, 5, 7], \"count\": 4}")]);
    pose.runs_after(1, "mkdir -p artifacts && echo 2 3 5 7 > artifacts/primes.md");
    let created = server.post("/v1/jobs", &primes_on_codex(10));
    assert_eq!(created.status, 201, "{}", created.text());
    let created = created.json();
    assert_eq!((&created["cache_hit"], &created["status"]), (&json!(false), &json!("queued")));
    let id = created["request_id"].as_str().unwrap();
    uploaded(&server, id, &[("input_file", "input.txt", b"1 2 3 4 5 6 7")]);
    assert_eq!(result(&server, id)["data"], json!({"primes": [2, 3, 5, 7], "count": 4}));

    let run = server.get(&format!("/v1/jobs/{id}")).json();
    for member in [
        "request_id",
        "status",
        "skill_id",
        "engine",
        "created_at",
        "updated_at",
        "pending_interaction_id",
        "interaction_count",
        "recovery_state",
        "recovered_at",
        "recovery_reason",
        "auto_decision_count",
        "last_auto_decision_at",
        "warnings",
        "error",
    ] {
        assert!(run.get(member).is_some(), "{member} is not in {run:#}");
    }
    let since = run["created_at"].as_str().unwrap().replace('+', "%2B");
    let of_job = |rest: &str| format!("/v1/jobs/{id}{rest}");
    let managed = |rest: &str| format!("/v1/management/runs/{id}{rest}");
    for path in [
        "/v1/skills".to_owned(),
        "/v1/skills/demo-prime-number".to_owned(),
        "/v1/engines".to_owned(),
        "/v1/engines/codex/models".to_owned(),
        of_job("/result"),
        of_job("/artifacts"),
        of_job("/artifacts/artifacts/primes.md"),
        of_job("/bundle"),
        of_job("/logs"),
        of_job("/events/history"),
        of_job("/events/history?from_seq=2&to_seq=4"),
        of_job(&format!("/events/history?from_ts={since}&to_ts=2999-01-01T00:00:00Z")),
        of_job("/logs/range?stream=stdout&byte_from=0&byte_to=10"),
        "/v1/management/skills".to_owned(),
        "/v1/management/skills/demo-prime-number".to_owned(),
        "/v1/management/skills/demo-prime-number/schemas".to_owned(),
        "/v1/management/engines".to_owned(),
        "/v1/management/engines/codex".to_owned(),
        managed(""),
        managed("/files"),
        managed("/file?path=artifacts/primes.md"),
        managed("/events/history?from_seq=1"),
        managed("/logs/range?stream=stderr&byte_from=0&byte_to=0"),
    ] {
        let answer = server.get(&path);
        assert_eq!(answer.status, 200, "{path}: {}", answer.text());
    }
    for path in [of_job("/events"), of_job("/events?cursor=3"), managed("/events")] {
        let told = Sse::open(server.address, &path, &[]).rest();
        assert_eq!(told[0].event, "snapshot", "{path}");
        assert_eq!(told.last().unwrap().event, "chat_event", "{path}");
    }
    // Questions are for interactive runs, and a run that has ended cannot be canceled.
    for path in [of_job("/interaction/pending"), managed("/pending")] {
        assert_eq!(server.get(&path).status, 400, "{path}");
    }
    for path in [of_job("/interaction/reply"), managed("/reply")] {
        let reply = server.post(&path, &json!({"interaction_id": 1, "response": "x"}));
        assert_eq!(reply.status, 400, "{path}: {}", reply.text());
    }
    for path in [of_job("/cancel"), managed("/cancel")] {
        let answer = server.call("POST", &path).send();
        assert_eq!((answer.status, &answer.json()["accepted"]), (200, &json!(false)), "{path}: {}", answer.text());
    }
    let cleaned = server.call("POST", "/v1/jobs/cleanup").send();
    assert_eq!(cleaned.status, 200, "{}", cleaned.text());
    assert_eq!(server.get(&of_job("")).status, 404);
}

#[test]
fn the_attachment_of_the_document_is_parsed_to_both_formats() {
    let pose = Pose::new();
    let skills = concat!(env!("CARGO_MANIFEST_DIR"), "/skills");
    let server = Server::with(&[("skills_dir", skills), ("engines.codex.command", &pose.command())]);
    let answer = json!({"title": "A title", "summary": "Birds and bees.", "tags": ["birds"],
        "attachments": [{"role": "notes", "filename": "notes.md"}]});
    pose.plays(&[says(&answer.to_string())]);
    pose.runs_after(1, "mkdir -p artifacts && echo '{}' > artifacts/parsed.json && echo x > artifacts/notes.md");
    for format in ["json", "md"] {
        let input = json!({"item_key": "ABCD1234", "output_format": format});
        let (request, _) = server.create_with(&json!({"skill_id": "zotero-parse-attachment", "input": input}));
        uploaded(&server, &request, &[("attachment_path", "paper.txt", b"A title\n\nWords about birds and bees.\n")]);
        let found = result(&server, &request);
        assert_eq!(found["status"], "succeeded", "{found:#}");
        assert_eq!(members(&found["data"]), ["title", "summary", "tags", "attachments"], "{found:#}");
        let artifacts = found["artifacts"].to_string();
        assert!(artifacts.contains("artifacts/parsed.json") && artifacts.contains("artifacts/notes.md"), "{artifacts}");
    }
}

#[test]
fn a_question_of_an_interactive_run_is_asked_for_and_answered_on_both_routes() {
    let pose = Pose::new();
    let server = Server::with(&[("engines.codex.command", &pose.command())]);
    pose::skill(&server.folder.path().join("skills"), "asks", None);
    let asks = "<ASK_USER_YAML>\nkind: open_text\nprompt: Which name?\n</ASK_USER_YAML>";
    pose.plays(&[says(asks), pose::done()]);
    for (pending, reply) in [
        ("/v1/jobs/ID/interaction/pending", "/v1/jobs/ID/interaction/reply"),
        ("/v1/management/runs/ID/pending", "/v1/management/runs/ID/reply"),
    ] {
        let options = json!({"execution_mode": "interactive", "no_cache": true});
        let (id, run) = server.create_with(&json!({"skill_id": "asks", "engine": "codex", "runtime_options": options}));
        server.wait_for(&run, "user.input.required", "Which name?");
        let asked = server.get(&pending.replace("ID", &id)).json();
        let question = &asked["pending"];
        assert_eq!(question["prompt"], "Which name?", "{asked:#}");
        let body = json!({"interaction_id": question["interaction_id"], "response": "Ann"});
        let answered = server.post(&reply.replace("ID", &id), &body);
        assert_eq!(answered.status, 200, "{}", answered.text());
        server.finish(&run);
        assert_eq!(result(&server, &id)["data"], json!({"name": "Ann"}));
    }
}

#[test]
fn every_action_that_the_protocol_shows_reaches_the_script_as_it_was_sent() {
    let server = Server::start();
    let mirror = "printf '{\"success\":true,\"data\":%s}' \"$(cat)\"\n";
    script_skill(&server.folder.path().join("skills"), "mirror", mirror, json!({}));
    for (action, params) in [
        ("test", json!({"key": "value"})),
        ("test", json!({})),
        ("analyze", json!({"target": "ci_builds", "days": 7})),
        ("report", json!({"type": "daily", "format": "markdown"})),
        ("fetch", json!({"source": "database", "query": "select 1"})),
        ("push", json!({"destination": "supabase", "data": {"n": 1}})),
        ("full", json!({})),
        ("daily_briefing", json!({})),
    ] {
        let mut parameter = params.clone();
        parameter["action"] = json!(action);
        let context = json!({"agent_id": "a-1", "user_id": "u-1"});
        let body = json!({"skill_id": "mirror", "parameter": parameter, "context": context});
        let done = server.post("/v1/jobs?wait=60", &body).json();
        let told = &done["result"]["data"];
        assert_eq!((&told["action"], &told["params"]), (&json!(action), &parameter), "{done:#}");
        let context = &told["context"];
        assert_eq!((&context["agent_id"], &context["user_id"]), (&json!("a-1"), &json!("u-1")), "{done:#}");
        assert_eq!(context["request_id"], done["request_id"]);
    }
}

#[test]
fn the_log_goes_where_the_variables_of_the_document_say() {
    let place = Place::new();
    let log = place.path().join("skill_runner.log");
    let mut serve = place.command(&["serve", "--port", "0"]);
    serve.env("LOG_LEVEL", "DEBUG").env("LOG_FILE", &log);
    serve.env("LOG_MAX_BYTES", "1048576").env("LOG_BACKUP_COUNT", "3");
    let (service, line) = Place::started(serve, "listening on ");
    let address = line.strip_prefix("listening on http://").unwrap().parse().unwrap();
    assert_eq!(Call::new(address, "GET", "/v1/skills").send().status, 200);
    service.signal(rustix::process::Signal::TERM);
    assert_eq!(service.end().code, Some(0));
    let told = fs::read_to_string(&log).unwrap();
    assert!(told.contains("DEBUG") && told.contains("the service has ended"), "{told}");
}
