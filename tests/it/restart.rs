//! What a start makes of the runs that a killed service left behind.

use std::net::SocketAddr;

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::cli::place::{Place, Running};
use crate::support::{Call, Sse};

/// A service with one slot, in this place.
fn serve(place: &Place, restart_queued: &str) -> (Running, SocketAddr) {
    let settings = format!("max_running_jobs: 1\nrestart_queued: {restart_queued}\n");
    std::fs::write(place.path().join("skill-runner.yaml"), settings).unwrap();
    let (running, line) = place.start(&["serve", "--port", "0"], "listening on ");
    (running, line.strip_prefix("listening on http://").unwrap().parse().unwrap())
}

fn create(address: SocketAddr, body: &Value, key: &str) -> Value {
    Call::new(address, "POST", "/v1/jobs").header("Idempotency-Key", key).json(body).send().json()
}

fn job(address: SocketAddr, created: &Value) -> Value {
    let path = format!("/v1/jobs/{}", created["request_id"].as_str().unwrap());
    Call::new(address, "GET", &path).send().json()
}

fn follow(address: SocketAddr, created: &Value) -> Sse {
    Sse::open(address, &format!("/v1/jobs/{}/events", created["run_id"].as_str().unwrap()), &[])
}

/// A service killed while one run runs, one is queued and one waits for its files; the three.
fn killed(place: &Place) -> [Value; 3] {
    place.skill("hangs", "echo ready >&2\nsleep 1000\n");
    let (running, address) = serve(place, "fail");
    let runs = create(address, &json!({"skill_id": "hangs"}), "runs");
    let mut events = follow(address, &runs);
    while events.next_chat().unwrap()["type"] != "raw.stderr" {}
    let queued = create(address, &json!({"skill_id": "tiny"}), "queued");
    let waits = create(address, &json!({"skill_id": "tiny", "await_upload": true}), "waits");
    assert_eq!(job(address, &queued)["queue_position"], json!(0));
    running.signal(Signal::KILL);
    running.end();
    [runs, queued, waits]
}

#[test]
fn running_and_queued_runs_fail_and_one_that_waits_for_its_files_goes_on_waiting() {
    let place = Place::new();
    let [runs, queued, waits] = killed(&place);
    // As a service leaves it that dies between the last files and the event that speaks of them.
    let result = place.path().join("data/runs").join(runs["run_id"].as_str().unwrap()).join("result");
    std::fs::create_dir_all(&result).unwrap();
    std::fs::write(result.join("validation.json"), "{\"level\":\"none\",\"valid\":true,\"source\":\"stdout\"}")
        .unwrap();
    let (_running, address) = serve(&place, "fail");
    for created in [&runs, &queued] {
        let job = job(address, created);
        assert_eq!(job["status"], "failed", "{job}");
        assert_eq!(job["error"]["code"], "ORCHESTRATOR_RESTART_INTERRUPTED", "{job}");
        assert_eq!(job["recovery_state"], "failed_reconciled", "{job}");
        assert!(job["recovered_at"].is_string() && job["recovery_reason"].is_string(), "{job}");
        let told: Vec<Value> = follow(address, created).until_end();
        assert!(told.iter().any(|event| event["type"] == "run.recovered"), "{told:?}");
        let audit = place.run(&["audit", created["run_id"].as_str().unwrap()]);
        assert_eq!(audit.code, Some(0), "{audit:?}");
    }
    let left = job(address, &waits);
    assert_eq!((&left["status"], &left["awaiting_upload"]), (&json!("queued"), &json!(true)));
}

#[test]
fn queued_runs_are_queued_again_where_that_is_configured() {
    let place = Place::new();
    let [runs, queued, _] = killed(&place);
    let (_running, address) = serve(&place, "requeue");
    assert_eq!(job(address, &runs)["error"]["code"], "ORCHESTRATOR_RESTART_INTERRUPTED");
    let told = follow(address, &queued).until_end();
    assert_eq!(told.last().unwrap()["type"], "conversation.completed", "{told:?}");
}

#[test]
fn an_idempotency_key_is_known_after_the_restart() {
    let place = Place::new();
    let [_, queued, _] = killed(&place);
    let (_running, address) = serve(&place, "fail");
    let again = create(address, &json!({"skill_id": "tiny"}), "queued");
    assert_eq!(again["run_id"], queued["run_id"]);
    let other = create(address, &json!({"skill_id": "hangs"}), "queued");
    assert_eq!(other["error"]["code"], "IDEMPOTENCY_CONFLICT");
}

/// What a run's processes can do with the rights of their user.
#[test]
fn pipes_in_the_data_folder_are_not_waited_for() {
    let place = Place::new();
    drop(serve(&place, "fail"));
    let data = place.path().join("data");
    for pipe in ["damage.json", "service.json", "runs/pipe", "requests/pipe"] {
        let _ = std::fs::remove_file(data.join(pipe));
        std::fs::create_dir_all(data.join(pipe).parent().unwrap()).unwrap();
        rustix::fs::mknodat(rustix::fs::CWD, data.join(pipe), rustix::fs::FileType::Fifo, rustix::fs::Mode::RWXU, 0)
            .unwrap();
    }
    let (_running, address) = serve(&place, "fail");
    assert_eq!(Call::new(address, "GET", "/readyz").send().status, 200);
}

/// Read into memory and logged, such a file would keep the service from starting.
#[test]
fn a_run_that_made_its_own_log_file_longer_does_not_delay_the_next_start() {
    let place = Place::new();
    place.skill("inflates", "truncate -s 3G logs/stdout.txt\necho ready >&2\nsleep 1000\n");
    let (running, address) = serve(&place, "fail");
    let run = create(address, &json!({"skill_id": "inflates"}), "inflates");
    let mut events = follow(address, &run);
    while events.next_chat().unwrap()["type"] != "raw.stderr" {}
    let stdout = place.run_folder(run["run_id"].as_str().unwrap()).join("logs/stdout.txt");
    assert_eq!(std::fs::metadata(&stdout).unwrap().len(), 3 << 30);
    running.signal(Signal::KILL);
    running.end();
    let (_running, address) = serve(&place, "fail");
    assert_eq!(job(address, &run)["error"]["code"], "ORCHESTRATOR_RESTART_INTERRUPTED");
    assert_eq!(std::fs::metadata(&stdout).unwrap().len(), 16 << 20);
}
