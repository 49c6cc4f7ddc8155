//! Tests of turns that are begun again because the model's service refused them.

use super::codes::ErrorCode;
use super::command::{Command, RestartQueued};
use super::event::{Event, RetryScheduled};
use super::outcome::RunError;
use super::request::{ExecutionMode, Retry, WAIT_MAX_SECONDS};
use super::samples::{RUN, ask, at, cancel, events, last_files, refused, reply, start_turn, started};
use super::state::RunState;
use super::statechart::{Status, Trigger};
use super::{Effect, decide, effects};

fn run(retry: Option<Retry>) -> RunState {
    let mut first = started(ExecutionMode::Interactive, false, false);
    first.runtime_options.retry = retry;
    RunState::open(RUN, &first, at(0))
}

fn once() -> RunState {
    run(Some(Retry { times: 1, backoff_seconds: 10 }))
}

/// Decide, with the last files if the run ends, and apply.
fn act(run: &mut RunState, command: Command, second: u64) -> Vec<Event> {
    let files = last_files(run, &command);
    let events = events(decide(Some(run), command, files, at(second)).unwrap());
    events.iter().for_each(|event| run.apply(event, at(second)));
    events
}

fn scheduled(events: &[Event]) -> Option<&RetryScheduled> {
    events.iter().find_map(|event| if let Event::RetryScheduled(scheduled) = event { Some(&**scheduled) } else { None })
}

#[test]
fn a_refused_turn_waits_outside_the_queue_and_is_begun_again_as_a_new_attempt_in_a_new_session() {
    let mut run = run(Some(Retry { times: 2, backoff_seconds: 10 }));
    act(&mut run, start_turn(), 1);
    run.session_handle = Some("first".into());
    let events = act(&mut run, refused(None), 2);
    let expected = RetryScheduled {
        retry: 1,
        times: 2,
        not_before: at(12),
        wait_seconds: 10,
        error: RunError::new(ErrorCode::EngineRateLimited, "busy"),
    };
    assert_eq!(scheduled(&events), Some(&expected));
    let Some(Event::StateChanged(change)) = events.last() else { panic!("{events:?}") };
    assert_eq!((change.from, change.to, change.trigger), (Status::Running, Status::Queued, Trigger::TurnRetry));
    assert_eq!(effects(&run), [Effect::EnqueueAt(at(12))]);
    assert_eq!((run.session_handle.clone(), run.resumes()), (None, false));

    let begun = act(&mut run, start_turn(), 12);
    let Some(Event::TurnStarted(turn)) = begun.last() else { panic!("{begun:?}") };
    assert_eq!((turn.attempt, &turn.resumed_from, run.attempt, run.retry_at), (2, &None, 2, None));
    assert_eq!(scheduled(&act(&mut run, refused(None), 13)).map(|it| it.wait_seconds), Some(20), "twice as long");
    act(&mut run, start_turn(), 33);
    act(&mut run, refused(None), 34);
    assert_eq!(run.status(), Status::Failed, "the retries are used up");
}

#[test]
fn the_service_is_not_asked_before_it_wants_to_be_and_not_again_when_that_is_too_late() {
    let mut run = once();
    act(&mut run, start_turn(), 1);
    let mut too_late = run.clone();
    assert_eq!(scheduled(&act(&mut run, refused(Some(3600)), 2)).map(|it| it.not_before), Some(at(3602)));
    act(&mut too_late, refused(Some(WAIT_MAX_SECONDS + 1)), 2);
    assert_eq!(too_late.status(), Status::Failed);
}

#[test]
fn a_run_without_the_option_fails_at_once() {
    let mut run = run(None);
    act(&mut run, start_turn(), 1);
    act(&mut run, refused(None), 2);
    assert_eq!(run.status(), Status::Failed);
}

#[test]
fn a_turn_that_was_told_an_answer_is_not_begun_again() {
    let mut run = once();
    act(&mut run, start_turn(), 1);
    run.session_handle = Some("first".into());
    act(&mut run, ask(), 2);
    act(&mut run, reply(1, "blue".into(), None), 3);
    act(&mut run, start_turn(), 4);
    act(&mut run, refused(None), 5);
    assert_eq!(run.status(), Status::Failed);
}

#[test]
fn a_waiting_retry_survives_a_restart_and_ends_with_a_cancel() {
    let mut run = once();
    act(&mut run, start_turn(), 1);
    act(&mut run, refused(None), 2);
    for restart_queued in [RestartQueued::Fail, RestartQueued::Requeue] {
        assert_eq!(act(&mut run, Command::Reconcile { restart_queued, facts: vec![] }, 3), []);
    }
    assert_eq!(effects(&run), [Effect::EnqueueAt(at(12))]);
    act(&mut run, cancel(), 4);
    assert_eq!(run.status(), Status::Canceled);
}

#[test]
fn a_cancel_that_was_accepted_stands_although_the_turn_could_be_begun_again() {
    let mut run = once();
    act(&mut run, start_turn(), 1);
    act(&mut run, cancel(), 2);
    act(&mut run, refused(None), 3);
    assert_eq!(run.status(), Status::Canceled);
}
