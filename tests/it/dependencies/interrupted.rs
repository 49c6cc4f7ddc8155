//! Installations that are cut short: by a cancel, by their time, and by a kill -9 of the service.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};

use serde_json::json;

use super::{progress, slow_skill, waiting_place};
use crate::support::{Call, Server, Sse, program};

#[test]
fn a_cancel_ends_the_installation_and_leaves_nothing_of_it() {
    let waits = waiting_place();
    let server = Server::with(&[("sandbox_read", waits.path().to_str().unwrap())]);
    slow_skill(&server.skills(), "slow", &waits.path().join("waits"));
    let (_, run) = server.create("slow");
    server.wait_for(&run, "run.progress", "installing the Python packages of the skill: ./vendor/slow");
    let canceled = server.post(&format!("/v1/jobs/{run}/cancel"), &json!({}));
    assert_eq!(canceled.status, 200, "{}", canceled.json());
    server.finish(&run);
    let job = server.get(&format!("/v1/jobs/{run}")).json();
    assert_eq!((&job["status"], &job["error"]["code"]), (&json!("canceled"), &json!("CANCELED_BY_USER")), "{job}");
    assert_eq!(server.environments(), Vec::<String>::new());
}

#[test]
fn a_kill_of_the_process_that_installs_fails_the_run_and_leaves_nothing_half() {
    let waits = waiting_place();
    let server = Server::with(&[("sandbox_read", waits.path().to_str().unwrap())]);
    slow_skill(&server.skills(), "slow", &waits.path().join("waits"));
    let (_, run) = server.create("slow");
    let started = server.wait_for(&run, "turn.started", "");
    server.wait_for(&run, "run.progress", "installing the Python packages of the skill: ./vendor/slow");
    let killed = Command::new("kill").args(["-9", &started["data"]["pid"].to_string()]).status().unwrap();
    assert!(killed.success());
    server.finish(&run);
    let job = server.get(&format!("/v1/jobs/{run}")).json();
    assert_eq!(
        (&job["status"], &job["error"]["code"]),
        (&json!("failed"), &json!("DEPENDENCIES_UNAVAILABLE")),
        "{job}"
    );
    assert_eq!(server.environments(), Vec::<String>::new());
}

#[test]
fn an_installation_that_takes_too_long_is_ended() {
    let waits = waiting_place();
    let read = waits.path().to_str().unwrap();
    let server = Server::with(&[("python_install_timeout_seconds", "1"), ("sandbox_read", read)]);
    slow_skill(&server.skills(), "slow", &waits.path().join("waits"));
    let (_, run) = server.create("slow");
    server.finish(&run);
    let job = server.get(&format!("/v1/jobs/{run}")).json();
    assert_eq!((&job["status"], &job["error"]["code"]), (&json!("failed"), &json!("TIMEOUT")), "{job}");
    assert!(job["error"]["message"].as_str().unwrap().contains("python_install_timeout_seconds"), "{job}");
    assert_eq!(server.environments(), Vec::<String>::new());
}

/// A service in a process of its own, and its address.
fn serve(server: &std::path::Path, read: &std::path::Path) -> (Child, std::net::SocketAddr) {
    let mut child = program()
        .args(["serve", "--port", "0", "--data-dir"])
        .arg(server.join("data"))
        .arg("--skills-dir")
        .arg(server.join("skills"))
        .env("SKILL_RUNNER_SANDBOX_READ", read)
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
    let address = lines
        .by_ref()
        .find_map(|line| {
            let line = line.unwrap();
            let after = line.split_once("http://127.0.0.1:")?.1;
            let port: String = after.chars().take_while(char::is_ascii_digit).collect();
            Some(format!("127.0.0.1:{port}").parse().unwrap())
        })
        .expect("the service tells its address");
    std::thread::spawn(move || lines.for_each(drop));
    (child, address)
}

#[test]
fn a_kill_of_the_service_during_an_installation_leaves_nothing_half_and_the_next_run_installs() {
    let folder = std::sync::Arc::new(tempfile::tempdir().unwrap());
    let place = waiting_place();
    let waits = place.path().join("waits");
    slow_skill(&folder.path().join("skills"), "slow", &waits);
    let (mut child, address) = serve(folder.path(), place.path());
    let created = Call::new(address, "POST", "/v1/jobs").json(&json!({"skill_id": "slow"})).send().json();
    let run = created["run_id"].as_str().unwrap().to_owned();
    let mut events = Sse::open(address, &format!("/v1/jobs/{run}/events?cursor=0"), &[]);
    loop {
        let event = events.next_chat().expect("the installation begins");
        if event["data"]["message"].as_str().is_some_and(|message| message.starts_with("installing")) {
            break;
        }
    }
    child.kill().unwrap();
    child.wait().unwrap();
    drop(events);

    let server = Server::on_folder(folder);
    assert_eq!(server.environments(), Vec::<String>::new(), "the start has swept what was half made");
    let job = server.get(&format!("/v1/jobs/{run}")).json();
    assert_eq!(job["error"]["code"], "ORCHESTRATOR_RESTART_INTERRUPTED", "{job}");
    std::fs::remove_file(&waits).unwrap();
    let (events, result) = server.ran("slow");
    assert_eq!(result["status"], "succeeded", "{result}");
    assert!(progress(&events).iter().any(|line| line.starts_with("installing")));
}
