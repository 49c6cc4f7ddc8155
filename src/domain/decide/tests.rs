//! Each rule by itself: what a command means in a given state, as whole values.

use serde_json::{Map, Value, json};

use super::Decision;
use crate::domain::codes::ErrorCode;
use crate::domain::command::{Command, Conclusion, LastFiles, Refusal, RestartQueued};
use crate::domain::event::{
    AutoDecideTimeout, AutoDecided, CacheHit, CancelRequested, Event, Recovered, RecoveryState, ReplyAccepted, Started,
    StateChanged, TurnStarted, Uploaded, UserReply,
};
use crate::domain::fact::Fact;
use crate::domain::interaction::{Interaction, InteractionId, InteractionKind};
use crate::domain::outcome::{Completion, RunError};
use crate::domain::request::ExecutionMode::{Auto, Interactive};
use crate::domain::request::Passed;
use crate::domain::samples::{
    SOURCE, after, ask, at, bound, broken, cancel, end_turn, last_files, question, raw, reply, start_turn, started,
    succeed, take_from_cache, upload,
};
use crate::domain::state::RunState;
use crate::domain::statechart::{Status, Trigger};
use crate::domain::time::Timestamp;
use crate::domain::{Effect, Ending, decide, effects, ending};

const NOW: u64 = 100;

/// The decision at second 100, with the last files of a run that ends.
fn decided(run: &RunState, command: Command) -> Result<Decision, Refusal> {
    let files = last_files(run, &command);
    decide(Some(run), command, files, at(NOW))
}

/// What is logged, and how the run ends.
fn logged(run: &RunState, command: Command) -> (Vec<Event>, Option<Ending>) {
    let decision = decided(run, command).unwrap();
    (decision.facts.into_iter().map(|fact| fact.event).collect(), decision.terminal.map(|terminal| terminal.ending))
}

fn moved(from: Status, to: Status, trigger: Trigger, pending: Option<u64>) -> Event {
    let pending_interaction_id = pending.map(InteractionId);
    Event::StateChanged(StateChanged { from, to, trigger, updated_at: at(NOW), pending_interaction_id })
}

fn recovered(recovery_state: RecoveryState, reason: &str, recovered_at: Timestamp) -> Event {
    Event::Recovered(Recovered { recovery_state, recovery_reason: reason.into(), recovered_at })
}

fn reconcile(restart_queued: RestartQueued) -> Command {
    Command::Reconcile { restart_queued, facts: vec![] }
}

fn interactive(auto_reply: bool) -> Started {
    started(Interactive, false, auto_reply)
}

fn queued() -> RunState {
    after(&interactive(false), [])
}

fn running() -> RunState {
    after(&interactive(false), [start_turn()])
}

/// Asked at second 3, in a session that can be resumed.
fn waiting(auto_reply: bool) -> RunState {
    after(&interactive(auto_reply), [start_turn(), Command::Record(vec![bound()]), ask()])
}

/// Its question was answered, its second turn has not begun.
fn answered() -> RunState {
    after(
        &interactive(false),
        [start_turn(), Command::Record(vec![bound()]), ask(), reply(1, json!("blue"), Some("key"))],
    )
}

fn canceling() -> RunState {
    after(&interactive(false), [start_turn(), cancel()])
}

fn canceled() -> Ending {
    Ending::Canceled(RunError::new(ErrorCode::CanceledByUser, "the run was canceled on request"))
}

fn interrupted() -> Ending {
    let told = "the service ended while the run was under way; start the run again";
    Ending::Failed(RunError::new(ErrorCode::OrchestratorRestartInterrupted, told))
}

#[test]
fn an_upload_is_taken_once_and_only_where_one_is_awaited() {
    let waits = after(&started(Auto, true, false), []);
    let uploaded =
        Uploaded { files: vec![], manifest_sha256: "1".repeat(64), cache_key: "2".repeat(64), package: None };
    assert_eq!(logged(&waits, upload()), (vec![Event::Uploaded(Box::new(uploaded))], None));
    assert_eq!(decided(&waits, start_turn()), Err(Refusal::Illegal { status: Status::Queued }));
    let has = after(&started(Auto, true, false), [upload()]);
    assert_eq!(decided(&has, upload()), Err(Refusal::AlreadyUploaded));
    assert_eq!(decided(&queued(), upload()), Err(Refusal::AlreadyUploaded));
}

#[test]
fn a_turn_begins_in_the_queue_alone_and_a_later_one_resumes_the_session() {
    let first = TurnStarted {
        attempt: 1,
        command: vec!["true".into()],
        pid: 7,
        engine_version: "1".into(),
        parser_version: "2".into(),
        isolation: "none".into(),
        limits: None,
        resumed_from: None,
        passed: Passed::default(),
    };
    let begins = moved(Status::Queued, Status::Running, Trigger::TurnStarted, None);
    assert_eq!(
        logged(&queued(), start_turn()),
        (vec![begins.clone(), Event::TurnStarted(Box::new(first.clone()))], None)
    );
    let second = TurnStarted { attempt: 2, resumed_from: Some("h".into()), ..first };
    assert_eq!(logged(&answered(), start_turn()), (vec![begins, Event::TurnStarted(Box::new(second))], None));
    assert_eq!(decided(&running(), start_turn()), Err(Refusal::Illegal { status: Status::Running }));
    assert_eq!(decided(&waiting(false), start_turn()), Err(Refusal::Illegal { status: Status::WaitingUser }));
}

#[test]
fn facts_are_recorded_while_an_engine_runs_alone() {
    let facts = vec![raw(), bound()];
    assert_eq!(decided(&running(), Command::Record(facts.clone())), Ok(Decision { facts, terminal: None }));
    for run in [queued(), waiting(false), answered()] {
        let status = run.status();
        assert_eq!(decided(&run, Command::Record(vec![raw()])), Err(Refusal::Illegal { status }));
    }
}

#[test]
fn the_end_of_a_turn_logs_its_facts_then_its_files_then_the_change() {
    let found = Fact::own(raw().event);
    let files = last_files(&running(), &succeed()).map(|files| LastFiles { facts: vec![found.clone()], ..files });
    let end = Command::EndTurn { facts: vec![bound()], conclusion: Conclusion::Succeeded(Completion::Schema) };
    let decision = decide(Some(&running()), end, files, at(NOW)).unwrap();
    let change = moved(Status::Running, Status::Succeeded, Trigger::TurnSucceeded, None);
    assert_eq!(decision.facts, [bound(), found, Fact::own(change)]);
    assert_eq!(decision.terminal.unwrap().ending, Ending::Succeeded(Completion::Schema));

    let failed = logged(&running(), end_turn(Conclusion::Failed(broken())));
    let change = moved(Status::Running, Status::Failed, Trigger::TurnFailed, None);
    assert_eq!(failed, (vec![change], Some(Ending::Failed(broken()))));
    for run in [queued(), waiting(false)] {
        assert_eq!(decided(&run, succeed()), Err(Refusal::Illegal { status: run.status() }));
    }
}

#[test]
fn a_decision_without_facts_and_end_is_empty_and_no_other() {
    assert!(Decision::default().is_empty());
    assert!(!decided(&running(), Command::Record(vec![raw()])).unwrap().is_empty());
    let ends = decided(&running(), succeed()).unwrap();
    assert!(!ends.is_empty() && !Decision { facts: vec![], ..ends }.is_empty());
}

#[test]
fn nothing_ends_a_run_without_its_last_files() {
    let ends = [(running(), succeed()), (queued(), take_from_cache()), (waiting(false), cancel())];
    for (run, command) in ends {
        assert_eq!(decide(Some(&run), command, None, at(NOW)), Err(Refusal::LastFilesMissing));
    }
}

#[test]
fn questions_are_numbered_from_one_and_asked_in_interactive_runs_alone() {
    let asked = |run: &RunState, number: u64| {
        let numbered = Interaction { interaction_id: InteractionId(number), ..question() };
        let change = moved(Status::Running, Status::WaitingUser, Trigger::TurnNeedsInput, Some(number));
        let end = Command::EndTurn { facts: vec![raw()], conclusion: Conclusion::NeedsInput(question()) };
        assert_eq!(logged(run, end), (vec![raw().event, Event::InputRequired(Box::new(numbered)), change], None));
    };
    asked(&running(), 1);
    let again = [start_turn(), ask(), reply(1, json!("blue"), None), start_turn()];
    asked(&after(&interactive(false), again), 2);
    let auto = after(&started(Auto, false, false), [start_turn()]);
    assert_eq!(decided(&auto, ask()), Err(Refusal::NotInteractive));
}

#[test]
fn a_cancel_that_was_accepted_wins_over_whatever_the_engine_still_did() {
    let request = Event::CancelRequested(CancelRequested { requested_by: "user".into(), reason: "enough".into() });
    assert_eq!(logged(&running(), cancel()), (vec![request.clone()], None));
    assert_eq!(decided(&canceling(), cancel()), Ok(Decision::default()));
    let change = moved(Status::Running, Status::Canceled, Trigger::RunCanceled, None);
    let ends = [
        Conclusion::Succeeded(Completion::DoneMarker),
        Conclusion::Failed(broken()),
        Conclusion::NeedsInput(question()),
    ];
    for conclusion in ends {
        assert_eq!(logged(&canceling(), end_turn(conclusion)), (vec![change.clone()], Some(canceled())));
    }
    assert_eq!(logged(&canceling(), reconcile(RestartQueued::Requeue)), (vec![change], Some(canceled())));
    for run in [queued(), waiting(false), answered(), after(&started(Auto, true, false), [])] {
        let change = moved(run.status(), Status::Canceled, Trigger::RunCanceled, None);
        assert_eq!(logged(&run, cancel()), (vec![request.clone(), change], Some(canceled())));
    }
}

#[test]
fn a_result_of_an_equal_run_and_a_rejection_end_a_queued_run_alone() {
    let hit = Event::CacheHit(CacheHit { source_run_id: SOURCE, cache_key: "3".repeat(64) });
    let change = moved(Status::Queued, Status::Succeeded, Trigger::RunCacheHit, None);
    assert_eq!(logged(&queued(), take_from_cache()), (vec![hit, change], Some(Ending::Succeeded(Completion::Cache))));
    let reject = || Command::Reject { error: broken() };
    let change = moved(Status::Queued, Status::Failed, Trigger::RunRejected, None);
    assert_eq!(logged(&queued(), reject()), (vec![change], Some(Ending::Failed(broken()))));
    for run in [running(), waiting(false)] {
        let status = run.status();
        assert_eq!(decided(&run, take_from_cache()), Err(Refusal::Illegal { status }));
        assert_eq!(decided(&run, reject()), Err(Refusal::Illegal { status }));
    }
}

#[test]
fn an_answer_is_logged_with_its_preview_and_queues_the_run() {
    let accepted = |response: Value, preview: &str, key: Option<&str>| {
        let reply = ReplyAccepted {
            interaction_id: InteractionId(1),
            resolution_mode: UserReply::UserReply,
            accepted_at: at(NOW),
            response,
            response_preview: preview.into(),
            idempotency_key: key.map(str::to_owned),
            requested_by: None,
        };
        let change = moved(Status::WaitingUser, Status::Queued, Trigger::ReplyAccepted, None);
        (vec![Event::ReplyAccepted(Box::new(reply)), change], None)
    };
    let answer = |response: Value, key| logged(&waiting(false), reply(1, response, key));
    assert_eq!(answer(json!("blue"), Some("key")), accepted(json!("blue"), "blue", Some("key")));
    assert_eq!(answer(json!({"a": 1}), None), accepted(json!({"a": 1}), "{\"a\":1}", None));
    let long = "ä".repeat(201);
    assert_eq!(answer(json!(long), None), accepted(json!(long), &"ä".repeat(200), None));
}

#[test]
fn an_answer_must_be_for_the_open_question_of_an_interactive_run_and_fit_it() {
    let (given, open) = (InteractionId(2), InteractionId(1));
    assert_eq!(decided(&waiting(false), reply(2, json!("x"), None)), Err(Refusal::InteractionStale { given, open }));
    let confirm = Interaction { kind: InteractionKind::RiskAck, ..question() };
    let confirms = after(&interactive(false), [start_turn(), end_turn(Conclusion::NeedsInput(confirm.clone()))]);
    let flaws = confirm.flaws(&json!("perhaps"));
    let invalid = decided(&confirms, reply(1, json!("perhaps"), None));
    assert_eq!((flaws.len(), invalid), (1, Err(Refusal::ResponseInvalid { id: open, flaws })));
    assert!(decided(&confirms, reply(1, json!(true), None)).is_ok());
    for run in [queued(), running(), answered()] {
        let status = run.status();
        assert_eq!(decided(&run, reply(1, json!("x"), None)), Err(Refusal::InteractionNotPending { status }));
    }
    let auto = after(&started(Auto, false, false), [start_turn()]);
    assert_eq!(decided(&auto, reply(1, json!("x"), None)), Err(Refusal::NotInteractive));
}

#[test]
fn a_repeated_answer_is_answered_again_at_any_time_and_its_key_is_good_for_nothing_else() {
    let ended = after(
        &interactive(false),
        [start_turn(), ask(), reply(1, json!("blue"), Some("key")), start_turn(), succeed()],
    );
    for run in [answered(), ended.clone()] {
        assert_eq!(decided(&run, reply(1, json!("blue"), Some("key"))), Ok(Decision::default()));
        assert_eq!(decided(&run, reply(1, json!("red"), Some("key"))), Err(Refusal::IdempotencyConflict));
        assert_eq!(decided(&run, reply(2, json!("blue"), Some("key"))), Err(Refusal::IdempotencyConflict));
        let status = run.status();
        let other = decided(&run, reply(1, json!("blue"), Some("other")));
        assert_eq!(other, Err(Refusal::InteractionNotPending { status }));
    }
}

#[test]
fn the_deadline_decides_when_it_has_passed_and_only_for_a_user_who_is_not_to_be_waited_for() {
    let decide_at = |run: &RunState, second| decide(Some(run), Command::AutoDecide, None, at(second));
    // Asked at second 3, with 5 seconds to answer.
    assert_eq!(decide_at(&waiting(true), 7), Err(Refusal::Illegal { status: Status::WaitingUser }));
    assert!(decide_at(&waiting(true), 8).is_ok());
    let by_policy = AutoDecided {
        interaction_id: InteractionId(1),
        resolution_mode: AutoDecideTimeout::AutoDecideTimeout,
        timeout_sec: 5,
        policy: "engine_judgement".into(),
        accepted_at: at(NOW),
    };
    let change = moved(Status::WaitingUser, Status::Queued, Trigger::AutoDecideTimeout, None);
    let expected = (vec![Event::AutoDecided(by_policy), change], None);
    assert_eq!(logged(&waiting(true), Command::AutoDecide), expected);
    assert_eq!(decided(&waiting(false), Command::AutoDecide), Err(Refusal::Illegal { status: Status::WaitingUser }));
    let status = Status::Running;
    assert_eq!(decided(&running(), Command::AutoDecide), Err(Refusal::InteractionNotPending { status }));
    // An engine that always asks is not answered for ever.
    for (count, expected) in [(100, Ok(())), (101, Err(Refusal::Illegal { status: Status::WaitingUser }))] {
        let run = RunState { interaction_count: count, ..waiting(true) };
        assert_eq!(decided(&run, Command::AutoDecide).map(drop), expected);
        assert_eq!(effects(&run).is_empty(), expected.is_err());
    }
}

#[test]
fn a_restart_ends_what_was_under_way_and_keeps_what_only_waited() {
    let ends = |run: &RunState, reason: &str, ending: Ending| {
        let told = recovered(RecoveryState::FailedReconciled, reason, at(NOW));
        let change = moved(run.status(), Status::Failed, Trigger::RestartReconcileFailed, None);
        assert_eq!(logged(run, reconcile(RestartQueued::Fail)), (vec![told, change], Some(ending)));
    };
    ends(&running(), "orchestrator_restart_interrupted", interrupted());
    ends(&queued(), "orchestrator_restart_interrupted", interrupted());
    let lost = "the service was restarted and the engine's session cannot be resumed; start the run again";
    let lost = Ending::Failed(RunError::new(ErrorCode::SessionResumeFailed, lost));
    ends(&after(&interactive(false), [start_turn(), ask()]), "session_handle_invalid", lost);

    let stays = |run: &RunState, restart| assert_eq!(decided(run, reconcile(restart)), Ok(Decision::default()));
    stays(&queued(), RestartQueued::Requeue);
    stays(&answered(), RestartQueued::Fail);
    stays(&after(&started(Auto, true, false), []), RestartQueued::Fail);
    stays(&after(&interactive(false), [start_turn(), succeed()]), RestartQueued::Fail);
}

#[test]
fn raw_output_that_was_not_logged_comes_before_the_end_of_a_run_that_a_restart_ends() {
    let restart = Command::Reconcile { restart_queued: RestartQueued::Fail, facts: vec![raw()] };
    assert_eq!(logged(&running(), restart).0.first(), Some(&raw().event));
}

#[test]
fn a_question_that_survives_a_restart_is_told_of_once_even_if_the_clock_was_set_back() {
    let keeps = |now: u64, told_at: u64| {
        let told = recovered(RecoveryState::RecoveredWaiting, "resumable_waiting_preserved", at(told_at));
        let change = StateChanged {
            from: Status::WaitingUser,
            to: Status::WaitingUser,
            trigger: Trigger::RestartPreserveWaiting,
            updated_at: at(told_at),
            pending_interaction_id: Some(InteractionId(1)),
        };
        let mut run = waiting(false);
        let decision = decide(Some(&run), reconcile(RestartQueued::Fail), None, at(now)).unwrap();
        assert_eq!(decision.facts, [Fact::own(told), Fact::own(Event::StateChanged(change))]);
        decision.facts.iter().for_each(|fact| run.apply(&fact.event, at(told_at)));
        let again = decide(Some(&run), reconcile(RestartQueued::Fail), None, at(now));
        assert_eq!(again, Ok(Decision::default()));
    };
    keeps(NOW, NOW);
    keeps(1, 3);
}

#[test]
fn a_final_run_takes_nothing_but_a_repeated_answer_and_a_restart() {
    let over = after(&interactive(false), [start_turn(), succeed()]);
    let status = Status::Succeeded;
    for command in [upload(), take_from_cache(), start_turn(), succeed(), cancel(), Command::AutoDecide] {
        assert_eq!(ending(&over, &command), None, "{command:?}");
        assert_eq!(decided(&over, command), Err(Refusal::RunFinal { status }));
    }
    assert_eq!(decided(&over, Command::Record(vec![raw()])), Err(Refusal::RunFinal { status }));
    assert_eq!(decided(&over, Command::Reject { error: broken() }), Err(Refusal::RunFinal { status }));
    assert_eq!(decided(&over, reply(1, json!("x"), None)), Err(Refusal::InteractionNotPending { status }));
}

#[test]
fn what_is_to_be_done_for_a_run_follows_from_its_state() {
    assert_eq!(effects(&after(&started(Auto, true, false), [])), []);
    assert_eq!(effects(&queued()), [Effect::Enqueue]);
    assert_eq!(effects(&running()), [Effect::Supervise]);
    assert_eq!(effects(&canceling()), [Effect::Supervise, Effect::StopEngine]);
    // Nobody decides for a user who is to be waited for.
    assert_eq!(effects(&waiting(false)), []);
    assert_eq!(effects(&waiting(true)), [Effect::DecideAt(at(8))]);
    let over = |first: &Started| effects(&after(first, [upload(), start_turn(), succeed()]));
    let temporary = Started { temporary: true, ..started(Auto, true, false) };
    assert_eq!(over(&started(Auto, true, false)), [Effect::Seal]);
    assert_eq!(over(&temporary), [Effect::RemovePackage, Effect::Seal]);
    let mut kept = temporary;
    kept.runtime_options.debug_keep_temp = true;
    assert_eq!(over(&kept), [Effect::Seal]);
    for end in [cancel(), Command::Reject { error: broken() }] {
        assert_eq!(effects(&after(&interactive(false), [end])), [Effect::Seal]);
    }
}

#[test]
fn a_terminal_event_carries_its_ending_bounded_and_its_proof() {
    let long = RunError { message: "m".repeat(5_000), details: Map::new(), ..broken() };
    let decision = decided(&running(), end_turn(Conclusion::Failed(long.clone()))).unwrap();
    let usage = Default::default();
    let Event::Failed(failed) = decision.terminal.unwrap().into_event(4, "5".repeat(64), usage) else { panic!() };
    assert_eq!((failed.status, failed.error.message.chars().count()), (Status::Failed, 4_001));
    assert_eq!((failed.proof.events, failed.proof.chain_sha256), (4, "5".repeat(64)));
    let decision = decided(&canceling(), succeed()).unwrap();
    let Event::Failed(failed) = decision.terminal.unwrap().into_event(4, "5".repeat(64), usage) else { panic!() };
    assert_eq!((failed.status, failed.error), (Status::Canceled, canceled().error().unwrap().clone()));
    let decision = decided(&running(), succeed()).unwrap();
    let Event::Completed(completed) = decision.terminal.unwrap().into_event(4, "5".repeat(64), usage) else { panic!() };
    assert_eq!((completed.status, completed.completion), (Status::Succeeded, Completion::Exit));
    assert_eq!((completed.result_path.as_str(), completed.proof.events), ("result/result.json", 4));
}
