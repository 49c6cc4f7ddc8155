//! Services that die, are paused, or lose the database.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};
use std::time::Instant;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use skill_runner::domain::time::Timestamp;

use super::{LEASE_SECONDS, Services, audited};
use crate::support::postgres::{self, Proxy, When};
use crate::support::{of_type, processes_of};

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
    assert!(killed.elapsed().as_secs() <= LEASE_SECONDS + 5, "more than the lease and 5 s: {:?}", killed.elapsed());
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

/// A run that is taken over may take its time, here because its files are away.
#[test]
fn a_service_that_starts_keeps_its_lease_while_it_takes_runs_over() {
    if !postgres::installed("a service that starts keeps its lease while it takes runs over") {
        return;
    }
    let services = Services::new();
    services.skill("endless", ENDLESS, json!({}));
    let mut one = services.serve("one");
    let run = one.create("endless");
    one.follow(&run).until_chat(|event| event["type"] == "run.progress");
    one.kill_9();
    let (shared, away) = (services.blobs(), services.data("away"));
    std::fs::rename(&shared, &away).unwrap();
    std::fs::create_dir(&shared).unwrap();
    let holds = |name: &str| {
        let asked =
            format!("select count(*) from {}.nodes where name = '{name}' and lease_until > now()", services.schema);
        postgres::shared().sql(&asked) == "1"
    };
    crate::crash::until("the lease of the killed one has ended", || !holds("one"));
    let two = std::thread::scope(|scope| {
        let starting = scope.spawn(|| services.serve("two"));
        crate::crash::until("it has a lease", || holds("two"));
        let began = Instant::now();
        while began.elapsed().as_secs() < 2 * LEASE_SECONDS {
            assert!(holds("two"), "lost after {:?}", began.elapsed());
            assert!(!starting.is_finished(), "it waits for the files");
            std::thread::sleep(std::time::Duration::from_millis(100));
        }
        std::fs::remove_dir_all(&shared).unwrap();
        std::fs::rename(&away, &shared).unwrap();
        starting.join().unwrap()
    });
    assert_eq!(two.job(&run)["status"], "failed", "before it is ready");
    audited(&two, &[run]);
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

/// How long after the end of the lease of the service of this name the event was logged.
fn after_the_lease(services: &Services, name: &str, event: &Value) -> f64 {
    let logged: Timestamp = serde_json::from_value(event["ts"].clone()).unwrap();
    let lease_until = postgres::shared().sql(&format!(
        "select (extract(epoch from lease_until) * 1000000)::bigint from {}.nodes where name = '{name}'",
        services.schema
    ));
    (logged.as_micros() - lease_until.parse::<i64>().unwrap()) as f64 / 1e6
}

#[test]
fn a_service_that_is_stopped_in_the_middle_of_an_append_keeps_nobody_from_its_runs() {
    if !postgres::installed("a service that is stopped in the middle of an append keeps nobody from its runs") {
        return;
    }
    let mut services = Services::new();
    services.skill("talks", "cat >/dev/null\nwhile :; do echo '1% on' >&2; sleep 0.1; done\n", json!({}));
    // Stops the worker when the database has all of an append but its commit, which holds the run's row.
    let (worker_pid, is_time) = (Arc::new(AtomicI32::new(0)), Arc::new(AtomicBool::new(false)));
    let (pid, now) = (worker_pid.clone(), is_time.clone());
    let proxy = Proxy::to(postgres::shared().address(), move |bytes| {
        let is_commit = bytes.windows(8).any(|window| window == b"\x0bcommit\0");
        if !is_commit || !now.swap(false, Ordering::SeqCst) {
            return When::Pass;
        }
        kill_process(Pid::from_raw(pid.load(Ordering::SeqCst)).unwrap(), Signal::STOP).unwrap();
        When::Swallow
    });
    services.set("two", "SKILL_RUNNER_STORE", postgres::shared().url_at(proxy.address, &services.schema));
    let (api, worker) = (services.api("one"), services.worker("two"));
    worker_pid.store(worker.pid().as_raw_nonzero().get(), Ordering::SeqCst);
    let run = api.create("talks");
    api.follow(&run).until_chat(|event| event["type"] == "run.progress");
    is_time.store(true, Ordering::SeqCst);
    let events = api.finish(&run);
    assert_eq!(events.last().unwrap()["data"]["error"]["code"], "ORCHESTRATOR_RESTART_INTERRUPTED", "{events:?}");
    assert_eq!(proxy.cuts.load(Ordering::Relaxed), 1, "it was stopped there");
    let recovered = of_type(&events, "run.recovered");
    assert_eq!(recovered.len(), 1);
    let late = after_the_lease(&services, "two", events.last().unwrap());
    assert!((0.0..5.0).contains(&late), "{late} s after the end of the lease");
    audited(&api, &[run]);
}
