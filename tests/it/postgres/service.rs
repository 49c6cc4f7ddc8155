//! The whole service on PostgreSQL: runs, feeds, kills, the command line and what is told about the store.

use std::sync::Arc;

use serde_json::{Value, json};

use super::{open, open_with};
use crate::crash;
use crate::support::postgres::{self, Proxy, Server as Postgres, When, fresh};
use crate::support::{Server, program, script_skill};

/// Writes a line, waits for a line of the test, and does so three times.
const STEPS: &str = "cat >/dev/null\nmkfifo gate\nfor i in 1 2 3; do echo \"$i% step\" >&2; until read line < gate; do :; done; done\n\
    echo '{\"success\":true,\"data\":{}}'\n";

const HELLO: &str = "cat >/dev/null\necho '{\"success\":true,\"data\":{}}'\n";

#[test]
fn a_follower_sees_each_event_once_while_the_server_restarts() {
    if !postgres::installed("a follower sees each event once while PostgreSQL restarts") {
        return;
    }
    let database = Postgres::start(&[]);
    let server = Server::with_store(Arc::new(open(&database, "s")));
    server.skill("steps", STEPS, json!({}));
    let (_, run) = server.create("steps");
    let mut follower = server.events(&run, 0);
    let mut seen: Vec<Value> = Vec::new();
    let mut until_step = |seen: &mut Vec<Value>, step: f64| loop {
        let event = follower.next_chat().expect("the stream goes on");
        let found = event["type"] == "run.progress" && event["data"]["percent"].as_f64() == Some(step);
        seen.push(event);
        if found {
            return;
        }
    };
    for step in 1..=3_u8 {
        until_step(&mut seen, f64::from(step));
        if step % 2 == 0 {
            database.crash()
        } else {
            database.end()
        }
        if step == 3 {
            // What the run does while the server is away is logged when it is back.
            server.open_gate(&run, "go on");
            database.run();
        } else {
            database.run();
            server.open_gate(&run, "go on");
        }
    }
    while let Some(event) = follower.next_chat() {
        seen.push(event);
    }
    let seqs: Vec<u64> = seen.iter().map(|event| event["seq"].as_u64().unwrap()).collect();
    assert_eq!(seqs, (1..=seqs.len() as u64).collect::<Vec<_>>());
    assert_eq!(server.get(&format!("/v1/jobs/{run}")).json()["status"], "succeeded");
    assert_eq!(seen, server.finish(&run));
    drop(server);
}

/// An outage that lasts longer than reads wait for.
#[test]
fn a_client_is_told_to_come_back_while_the_database_is_away() {
    if !postgres::installed("a client is told to come back while PostgreSQL is away") {
        return;
    }
    let (database, schema) = (postgres::shared(), fresh());
    let proxy = Proxy::to(database.address(), |_| When::Pass);
    let url = database.url_at(proxy.address, &schema);
    let patience = std::time::Duration::from_millis(200);
    let store = open_with(&skill_runner::store::Postgres {
        read_patience: patience,
        ..skill_runner::store::Postgres::new(url)
    });
    let server = Server::with_store(Arc::new(store));
    server.skill("hello", HELLO, json!({}));
    let (_, run) = server.finished("hello");
    proxy.refuse(true);
    for path in ["/v1/jobs?limit=3".to_owned(), "/v1/jobs?label=a:b".to_owned()] {
        let answer = server.get(&path);
        assert_eq!(answer.refusal(), (503, "STORE_UNREACHABLE".into()), "{path}: {}", answer.text());
        assert!(answer.header("retry-after").parse::<u64>().is_ok_and(|seconds| seconds > 0), "{path}");
        assert!(!answer.text().contains("not-a-secret"), "{}", answer.text());
    }
    assert!(server.get("/v1/system").json()["store"]["trouble"].is_string());
    proxy.refuse(false);
    let back = std::iter::repeat_with(|| server.get("/v1/jobs?limit=3")).find(|answer| answer.status != 503).unwrap();
    assert_eq!((back.status, &back.json()["jobs"][0]["run_id"]), (200, &json!(run)), "{}", back.text());
}

#[test]
fn a_backup_of_it_is_a_data_folder_with_an_embedded_store() {
    if !postgres::installed("a backup from PostgreSQL is a data folder with an embedded store") {
        return;
    }
    let (database, schema) = (postgres::shared(), fresh());
    let url = database.url(&schema);
    let place = tempfile::tempdir().unwrap();
    script_skill(&place.path().join("skills"), "hello", HELLO, json!({}));
    let run = |args: &[&str], store: &str, data: &str| {
        let mut command = program();
        command.args(args).args(["--data-dir", data, "--skills-dir", "skills"]).env("SKILL_RUNNER_STORE", store);
        let done = command.current_dir(place.path()).output().unwrap();
        assert!(done.status.success(), "{args:?}: {}", String::from_utf8_lossy(&done.stderr));
        String::from_utf8(done.stdout).unwrap()
    };
    for n in 0..3 {
        run(&["run", "hello", "--json", "--no-cache", "--label", &format!("n={n}")], &url, "data");
    }
    let service = crash::Server::start_on(place.path(), "fail", Some(&url));
    run(&["backup", "warm"], &url, "data");
    drop(service);
    run(&["backup", "cold"], &url, "data");
    let listed = |store: &str, data: &str| {
        let runs: Value = serde_json::from_str(&run(&["runs", "--json"], store, data)).unwrap();
        let jobs = runs["jobs"].as_array().unwrap().clone();
        let log = |job: &Value| run(&["history", job["run_id"].as_str().unwrap()], store, data);
        jobs.iter().map(log).collect::<Vec<_>>()
    };
    let original = listed(&url, "data");
    assert_eq!(original.len(), 3);
    for backup in ["backups/warm", "backups/cold"] {
        assert_eq!(listed("sled", backup), original, "{backup}");
        let checked: Value = serde_json::from_str(&run(&["verify", "--json"], "sled", backup)).unwrap();
        assert_eq!((&checked["runs"], &checked["ok"]), (&json!(3), &json!(true)), "{checked}");
    }
}

#[test]
fn kill_9_at_any_moment_loses_nothing_that_was_seen() {
    if !postgres::installed("kill -9 on PostgreSQL loses nothing that was seen") {
        return;
    }
    crash::kill_9(20, Some(&postgres::shared().url(&fresh())));
}

#[test]
fn the_command_line_works_on_it_and_never_shows_the_password() {
    if !postgres::installed("the command line works on PostgreSQL") {
        return;
    }
    let (database, schema) = (postgres::shared(), fresh());
    let url = database.url(&schema);
    let place = tempfile::tempdir().unwrap();
    script_skill(&place.path().join("skills"), "hello", HELLO, json!({}));
    let run = |args: &[&str], store: &str, data: &str| {
        let mut command = program();
        command.args(args).args(["--data-dir", data, "--skills-dir", "skills"]).env("SKILL_RUNNER_STORE", store);
        let done = command.current_dir(place.path()).output().unwrap();
        let said = [&done.stdout[..], &done.stderr[..]].map(String::from_utf8_lossy).join("\n");
        assert!(!said.contains("not-a-secret"), "{said}");
        (done.status.code(), said)
    };
    let (status, said) = run(&["doctor"], &url, "data");
    assert!(said.contains("PostgreSQL 1") && said.contains("do not exist yet"), "{status:?} {said}");
    let (status, said) = run(&["run", "hello", "--json"], &url, "data");
    assert_eq!(status, Some(0), "{said}");
    let (status, said) = run(&["runs"], &url, "data");
    assert!(status == Some(0) && said.contains("hello"), "{said}");
    let (status, said) = run(&["config"], &url, "data");
    assert!(status == Some(0) && said.contains("postgres://runner:********@127.0.0.1"), "{said}");

    let service = crash::Server::start_on(place.path(), "fail", Some(&url));
    let system = crash::get(&service.address, "/v1/system");
    let kind = system["store"]["kind"].as_str().unwrap().to_owned();
    assert!(kind.starts_with("postgres://runner:********@") && system["store"]["trouble"].is_null(), "{system}");
    // A second service may share the tables only if both share files.
    let (status, said) = run(&["serve", "--port", "0"], &url, "other-data");
    assert!(status == Some(1) && said.contains("another skill-runner uses this store"), "{status:?} {said}");
    drop(service);
    let (status, said) = run(&["serve", "--port", "0"], &url, "other-data");
    assert!(status == Some(2) && said.contains("belongs to another data folder"), "{status:?} {said}");
    let (status, said) = run(&["serve", "--port", "0"], &url.replace("not-a-secret", "wrong"), "data");
    assert!(status == Some(2) && said.contains("password authentication failed"), "{status:?} {said}");
    let (status, said) = run(&["doctor"], &url.replace("not-a-secret", "wrong"), "data");
    assert!(said.contains("password authentication failed"), "{status:?} {said}");
    let (status, said) = run(&["serve"], "postgres://runner:not-a-secret@127.0.0.1/x?schema=A", "data");
    assert!(status == Some(2) && said.contains("schema must be a name"), "{status:?} {said}");
    let (status, said) = run(&["serve"], "mysql://runner:not-a-secret@127.0.0.1/x", "data");
    assert!(status == Some(2) && said.contains("must be sled or a URL"), "{status:?} {said}");
}
