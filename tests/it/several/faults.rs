//! Services that die, are paused, or lose the database.

use std::time::Instant;

use rustix::process::{Signal, kill_process};
use serde_json::{Value, json};

use super::{LEASE_SECONDS, Services, audited};
use crate::support::{of_type, postgres, processes_of};

const ENDLESS: &str = "cat >/dev/null\necho '1% begun' >&2\nsleep 600\necho '{\"success\":true,\"data\":{}}'\n";

fn status(events: &[Value]) -> &Value {
    &events.last().unwrap()["data"]["status"]
}

#[test]
fn the_runs_of_a_service_that_was_killed_are_ended_by_another_one() {
    if !postgres::installed("the runs of a killed service are ended by another one") {
        return;
    }
    let services = Services::new();
    services.skill("endless", ENDLESS, json!({}));
    let (api, mut worker) = (services.api("one"), services.worker("two"));
    let run = api.create("endless");
    let mut follower = api.follow(&run);
    follower.until_chat(|event| event["type"] == "run.progress");
    worker.kill_9();
    let killed = Instant::now();
    let events = api.finish(&run);
    assert!(
        killed.elapsed().as_secs() <= LEASE_SECONDS + 30,
        "far more than the lease and 5 s: {:?}",
        killed.elapsed()
    );
    assert_eq!(status(&events), "failed", "{events:?}");
    assert_eq!(events.last().unwrap()["data"]["error"]["code"], "ORCHESTRATOR_RESTART_INTERRUPTED", "{events:?}");
    assert_eq!(of_type(&events, "run.recovered").len(), 1);
    let rest: Vec<Value> = std::iter::from_fn(|| follower.next_chat()).collect();
    assert!(events.ends_with(&rest), "a follower on another service misses nothing");
    audited(&api, &[run]);
}

#[test]
fn a_service_that_starts_again_takes_its_own_runs_at_once() {
    if !postgres::installed("a service that starts again takes its own runs at once") {
        return;
    }
    let services = Services::new();
    services.skill("endless", ENDLESS, json!({}));
    let mut one = services.serve("one");
    let run = one.create("endless");
    one.follow(&run).until_chat(|event| event["type"] == "run.progress");
    one.kill_9();
    let one = services.serve("one");
    assert_eq!(one.job(&run)["status"], "failed", "before it is ready");
    audited(&one, &[run]);
}

#[test]
fn a_service_that_is_paused_past_its_lease_has_no_engine_left_and_writes_nothing_more() {
    if !postgres::installed("a service that is paused past its lease writes nothing more") {
        return;
    }
    let services = Services::new();
    services.skill("endless", ENDLESS, json!({}));
    let (api, worker) = (services.api("one"), services.worker("two"));
    let run = api.create("endless");
    api.follow(&run).until_chat(|event| event["type"] == "run.progress");
    assert!(!processes_of(&run).is_empty());
    kill_process(worker.pid(), Signal::STOP).unwrap();
    let events = api.finish(&run);
    assert_eq!(status(&events), "failed", "{events:?}");
    assert_eq!(processes_of(&run), Vec::<u32>::new(), "they ended before the run was taken over");
    kill_process(worker.pid(), Signal::CONT).unwrap();
    // It gets another lease and works again; the run is as it was.
    services.skill("hello", "cat >/dev/null\necho '{\"success\":true,\"data\":{}}'\n", json!({}));
    let next = api.create("hello");
    assert_eq!(status(&api.finish(&next)), "succeeded");
    assert_eq!(api.finish(&run), events);
    audited(&api, &[run, next]);
}

#[test]
fn a_run_whose_engine_ended_with_the_lease_says_that_the_service_was_interrupted() {
    if !postgres::installed("a run whose engine ended with the lease says so") {
        return;
    }
    let services = Services::new();
    services.skill("endless", ENDLESS, json!({}));
    let (api, worker) = (services.api("one"), services.worker("two"));
    let runs = [(); 2].map(|()| api.create("endless"));
    for run in &runs {
        api.follow(run).until_chat(|event| event["type"] == "run.progress");
    }
    kill_process(worker.pid(), Signal::STOP).unwrap();
    // The shim ends them before the lease does; the worker is back before others take its runs over, or after it.
    crate::crash::until("the engines have ended", || runs.iter().all(|run| processes_of(run).is_empty()));
    kill_process(worker.pid(), Signal::CONT).unwrap();
    for run in &runs {
        let events = api.finish(run);
        assert_eq!(events.last().unwrap()["data"]["error"]["code"], "ORCHESTRATOR_RESTART_INTERRUPTED", "{events:?}");
    }
    audited(&api, &runs);
}
