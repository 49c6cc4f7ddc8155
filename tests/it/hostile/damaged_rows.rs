//! A row of the store that is damaged while services work: it costs its own run, and nobody else's.

use serde_json::json;

use crate::crash::until;
use crate::several::{Service, Services};
use crate::support::postgres;
use crate::support::skill::HELLO;

/// What is done to the row of a run that waits: its state is no JSON any more, or gone, or its log seems to have gone on without it.
const DAMAGES: [&str; 3] = ["state = '\\x00'", "state = null", "head = head + 5"];

/// How often a service has told of a run that it set it aside.
fn set_aside(service: &Service) -> usize {
    let log = std::fs::read_to_string(service.data.join("logs/skill-runner.log")).unwrap_or_default();
    log.lines().filter(|line| line.contains("the run is set aside for a while")).count()
}

#[test]
fn a_damaged_row_keeps_no_other_run_from_its_turn_no_list_from_its_rows_and_no_service_from_ending() {
    if !postgres::installed("a damaged row keeps no other run from its turn") {
        return;
    }
    for damage in DAMAGES {
        let mut services = Services::new();
        services.set("", "SKILL_RUNNER_MAX_RUNNING_JOBS", "1");
        services.skill("hello", HELLO, json!({}));
        services.skill(
            "waits",
            "until [ -e go ]; do sleep 0.05; done\necho '{\"success\":true,\"data\":{}}'\n",
            json!({}),
        );
        let mut service = services.serve("a");
        let first = service.create("waits");
        until("the first run has the only place", || service.job(&first)["status"] == "running");
        let damaged = service.create("hello");
        let update = format!("update {}.runs set {damage} where run = '{damaged}'", services.schema);
        postgres::shared().sql(&update);
        let behind = service.create("hello");
        std::fs::write(service.data.join("runs").join(&first).join("go"), "").unwrap();
        // It came before the one behind it, and would be taken before it for ever.
        until("the damaged run is set aside", || set_aside(&service) > 0);
        assert_eq!(service.finish(&behind).last().unwrap()["type"], "conversation.completed", "{damage}");
        let listed = service.get("/v1/jobs");
        assert_eq!(listed.status, 200, "{damage}: {}", listed.text());
        let told = listed.json()["jobs"].as_array().unwrap().iter().any(|job| job["run_id"] == json!(behind));
        assert!(told, "{damage}: {}", listed.text());
        let cleaned = service.post("/v1/jobs/cleanup", &json!({"keep_last": 1000}));
        assert_eq!(cleaned.status, 200, "{damage}: {}", cleaned.text());
        // A service that went on with it for ever would not end.
        rustix::process::kill_process(service.pid(), rustix::process::Signal::TERM).unwrap();
        assert!(service.child.wait().unwrap().success(), "{damage}");
    }
}
