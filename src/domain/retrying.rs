//! Tests of turns that are begun again because the model's service refused them.

use serde_json::{Map, json};
use uuid::Uuid;

use super::codes::ErrorCode;
use super::command::{Command, Conclusion, LastFiles, RestartQueued};
use super::event::{Event, RetryScheduled, Started};
use super::ids::RunId;
use super::outcome::{Evidence, RunError};
use super::request::Passed;
use super::state::RunState;
use super::statechart::{Status, Trigger};
use super::time::Timestamp;
use super::{Effect, decide, effects, ending};

fn run(retry: serde_json::Value) -> RunState {
    let mut options = json!({
        "execution_mode": "auto", "no_cache": false, "debug": false, "debug_keep_temp": false, "verbose": false,
        "interactive_auto_reply": false, "interactive_reply_timeout_sec": 1, "hard_timeout_seconds": 60,
        "stall_timeout_seconds": 0,
    });
    if !retry.is_null() {
        options["retry"] = retry;
    }
    let started: Started = serde_json::from_value(json!({
        "request_id": Uuid::from_u128(2), "skill": {"id": "s", "version": "1.0.0", "fingerprint": ""}, "engine": "codex",
        "model": null, "execution_mode": "auto", "runtime_options": options, "input": Map::new(), "parameter": Map::new(),
        "awaiting_upload": false, "idempotency_sha256": null,
    }))
    .unwrap();
    RunState::open(RunId(Uuid::from_u128(1)), &started, moment(0))
}

fn moment(seconds: u64) -> Timestamp {
    Timestamp::from_micros(0).plus_seconds(seconds)
}

/// Decide, with the last files if the run ends, and apply; the events but the last.
fn act(run: &mut RunState, command: Command, at: u64) -> Vec<Event> {
    let evidence = Evidence {
        streams: Default::default(),
        artifacts_sha256: "0".repeat(64),
        files_sha256: "0".repeat(64),
        result_sha256: "0".repeat(64),
    };
    let files = ending(run, &command).map(|_| LastFiles { facts: vec![], evidence });
    let decided = decide(Some(run), command, files, moment(at)).unwrap();
    let events: Vec<Event> = decided.facts.into_iter().map(|fact| fact.event).collect();
    events.iter().for_each(|event| run.apply(event, moment(at)));
    events
}

fn start() -> Command {
    Command::StartTurn {
        command: vec!["codex".into()],
        pid: 1,
        engine_version: "1".into(),
        parser_version: "1".into(),
        isolation: "none".into(),
        passed: Passed::default(),
    }
}

fn refused(retry_after_seconds: Option<u64>) -> Command {
    let error = RunError::new(ErrorCode::EngineRateLimited, "busy");
    Command::EndTurn { facts: vec![], conclusion: Conclusion::Transient { error, retry_after_seconds } }
}

fn scheduled(events: &[Event]) -> Option<&RetryScheduled> {
    events.iter().find_map(|event| if let Event::RetryScheduled(scheduled) = event { Some(scheduled) } else { None })
}

#[test]
fn a_refused_turn_waits_outside_the_queue_and_is_begun_again_as_a_new_attempt_in_a_new_session() {
    let mut run = run(json!({"times": 2, "backoff_seconds": 10}));
    act(&mut run, start(), 1);
    run.session_handle = Some("first".into());
    let events = act(&mut run, refused(None), 2);
    let expected = RetryScheduled {
        retry: 1,
        times: 2,
        not_before: moment(12),
        wait_seconds: 10,
        error: RunError::new(ErrorCode::EngineRateLimited, "busy"),
    };
    assert_eq!(scheduled(&events), Some(&expected));
    let Some(Event::StateChanged(change)) = events.last() else { panic!("{events:?}") };
    assert_eq!((change.from, change.to, change.trigger), (Status::Running, Status::Queued, Trigger::TurnRetry));
    assert_eq!(effects(&run), [Effect::EnqueueAt(moment(12))]);
    assert_eq!((run.session_handle.clone(), run.resumes()), (None, false));

    let begun = act(&mut run, start(), 12);
    let Some(Event::TurnStarted(turn)) = begun.last() else { panic!("{begun:?}") };
    assert_eq!((turn.attempt, &turn.resumed_from, run.attempt, run.retry_at), (2, &None, 2, None));
    assert_eq!(scheduled(&act(&mut run, refused(None), 13)).map(|it| it.wait_seconds), Some(20), "twice as long");
    act(&mut run, start(), 33);
    act(&mut run, refused(None), 34);
    assert_eq!(run.status(), Status::Failed, "the retries are used up");
}

#[test]
fn the_service_is_not_asked_before_it_wants_to_be() {
    let mut run = run(json!({"times": 1, "backoff_seconds": 10}));
    act(&mut run, start(), 1);
    assert_eq!(scheduled(&act(&mut run, refused(Some(3600)), 2)).map(|it| it.not_before), Some(moment(3602)));
}

#[test]
fn a_run_without_the_option_fails_at_once() {
    let mut run = run(json!(null));
    act(&mut run, start(), 1);
    act(&mut run, refused(None), 2);
    assert_eq!(run.status(), Status::Failed);
}

#[test]
fn a_waiting_retry_survives_a_restart_and_ends_with_a_cancel() {
    let mut run = run(json!({"times": 1, "backoff_seconds": 10}));
    act(&mut run, start(), 1);
    act(&mut run, refused(None), 2);
    let restart = Command::Reconcile { restart_queued: RestartQueued::Fail, facts: vec![] };
    assert_eq!(act(&mut run, restart, 3), []);
    assert_eq!(effects(&run), [Effect::EnqueueAt(moment(12))]);
    act(&mut run, Command::Cancel { requested_by: "user".into(), reason: String::new() }, 4);
    assert_eq!(run.status(), Status::Canceled);
}

#[test]
fn a_cancel_that_was_accepted_stands_although_the_turn_could_be_begun_again() {
    let mut run = run(json!({"times": 1, "backoff_seconds": 10}));
    act(&mut run, start(), 1);
    act(&mut run, Command::Cancel { requested_by: "user".into(), reason: String::new() }, 2);
    act(&mut run, refused(None), 3);
    assert_eq!(run.status(), Status::Canceled);
}
