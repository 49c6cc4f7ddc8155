//! Properties of the core, over random histories: decisions are legal, folds compose, and recovering twice has the effect of
//! recovering once. How often each command met each state is counted, and too seldom is a failure.

mod histories;

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;

use self::histories::{Play, any_command, any_history, play};
use super::command::{Command, Refusal, RestartQueued};
use super::event::Event;
use super::request::ExecutionMode;
use super::samples::{RUN, at, events, last_files, started};
use super::state::RunState;
use super::statechart::{Status, TRANSITIONS, target};
use super::{Decision, Ending, decide, effects, ending};

/// Histories that are counted.
const COUNTED: usize = 2_000;
/// Every command meets every state at least so often in them.
const MEETINGS_MIN: usize = 30;
/// Every row of the table is taken at least so often in them.
const ROWS_MIN: usize = 30;

proptest! {
    #[test]
    fn every_decision_is_legal_in_the_table_and_ends_at_most_once((first, commands) in any_history()) {
        let Play { log, state, .. } = play(&first, &commands);
        let mut status = Status::Queued;
        let mut terminal = 0;
        for (event, _) in &log {
            prop_assert_eq!(terminal, 0, "nothing follows the terminal event");
            match event {
                Event::StateChanged(change) => {
                    prop_assert_eq!(change.from, status);
                    prop_assert_eq!(target(change.from, change.trigger), Some(change.to));
                    status = change.to;
                }
                Event::Completed(_) | Event::Failed(_) => terminal += 1,
                _ => {}
            }
        }
        prop_assert_eq!(status, state.status());
        prop_assert_eq!(status.is_final(), terminal == 1);
        prop_assert_eq!(state.pending().is_some(), status == Status::WaitingUser);
        prop_assert_eq!(state.head_seq.0, log.len() as u64 + 1);
    }

    #[test]
    fn a_fold_of_a_prefix_and_then_the_rest_is_the_fold_of_all((first, commands) in any_history(), cut in any::<prop::sample::Index>()) {
        let Play { log, state: whole, .. } = play(&first, &commands);
        let (before, after) = log.split_at(cut.index(log.len() + 1));
        let mut state = RunState::open(RUN, &first, at(0));
        for (event, at) in before {
            state.apply(event, *at);
        }
        // A stored row is a fold too: it must survive being written and read.
        let text = serde_json::to_string(&state).unwrap();
        let mut state: RunState = serde_json::from_str(&text).unwrap();
        for (event, at) in after {
            state.apply(event, *at);
        }
        prop_assert_eq!(state, whole);
    }

    #[test]
    fn to_reconcile_twice_is_to_reconcile_once(
        (first, commands) in any_history(), requeue in any::<bool>(), clock_set_back in any::<bool>(),
    ) {
        let mut state = play(&first, &commands).state;
        let now = at(if clock_set_back { 0 } else { 1_000 });
        let restart_queued = if requeue { RestartQueued::Requeue } else { RestartQueued::Fail };
        let reconcile = || Command::Reconcile { restart_queued, facts: vec![] };
        let files = last_files(&state, &reconcile());
        for event in events(decide(Some(&state), reconcile(), files, now).unwrap()) {
            state.apply(&event, now);
        }
        prop_assert_eq!(decide(Some(&state), reconcile(), None, now.plus_seconds(1)), Ok(Decision::default()));
        prop_assert!(state.status() != Status::Running, "nothing is left running");
        prop_assert_eq!(effects(&state).is_empty(), !state.status().is_final() && (state.awaiting_upload
            || (state.status() == Status::WaitingUser && !state.decides_without_user())));
    }

    #[test]
    fn a_run_ends_exactly_when_and_how_it_was_said_to_and_not_without_its_last_files(
        (first, commands) in any_history(), command in any_command(), seconds in 0u64..10,
    ) {
        let state = play(&first, &commands).state;
        let now = state.updated_at.plus_seconds(seconds);
        let said = ending(&state, &command);
        let without = decide(Some(&state), command.clone(), None, now);
        match &said {
            None => prop_assert!(without.map_or(true, |decision| decision.terminal.is_none())),
            Some(_) => prop_assert_eq!(without, Err(Refusal::LastFilesMissing)),
        }
        let files = last_files(&state, &command);
        let decided = decide(Some(&state), command, files, now);
        let ended: Option<Ending> = decided.ok().and_then(|decision| decision.terminal).map(|terminal| terminal.ending);
        prop_assert_eq!(ended, said);
    }

    #[test]
    fn a_question_is_resolved_at_most_once((first, commands) in any_history()) {
        let log = play(&first, &commands).log;
        let mut resolved = BTreeSet::new();
        for (event, _) in &log {
            let id = match event {
                Event::ReplyAccepted(reply) => reply.interaction_id,
                Event::AutoDecided(decided) => decided.interaction_id,
                _ => continue,
            };
            prop_assert!(resolved.insert(id), "{} twice", id);
        }
    }

    #[test]
    fn an_answer_is_kept_until_its_turn_begins_and_no_restart_ends_a_run_before_that((first, commands) in any_history()) {
        let (mut state, mut answered) = (RunState::open(RUN, &first, at(0)), None);
        for (event, now) in play(&first, &commands).log {
            state.apply(&event, now);
            match event {
                Event::ReplyAccepted(reply) => answered = Some(reply.response),
                Event::TurnStarted(_) | Event::Failed(_) | Event::Completed(_) => answered = None,
                _ => {}
            }
            if answered.is_some() && state.status() == Status::Queued {
                prop_assert_eq!(&state.answer, &answered);
                let restart = Command::Reconcile { restart_queued: RestartQueued::Fail, facts: vec![] };
                prop_assert_eq!(decide(Some(&state), restart, None, now), Ok(Decision::default()));
            }
        }
    }
}

#[test]
fn the_histories_meet_every_command_in_every_state_and_take_every_row_of_the_table() {
    let mut meetings: BTreeMap<(Status, &str), (usize, usize)> = BTreeMap::new();
    let mut rows: BTreeMap<&str, usize> = TRANSITIONS.iter().map(|row| (row.id, 0)).collect();
    let (mut began, mut asked, mut resumed) = (0, 0, 0);
    let mut runner = TestRunner::deterministic();
    for _ in 0..COUNTED {
        let (first, moves) = any_history().new_tree(&mut runner).unwrap().current();
        let Play { moves, log, state } = play(&first, &moves);
        for played in moves {
            let (accepted, refused) = meetings.entry((played.before, played.command)).or_default();
            *(if played.decision.is_ok() { accepted } else { refused }) += 1;
        }
        for (event, _) in &log {
            let Event::StateChanged(change) = event else { continue };
            let taken = TRANSITIONS.iter().find(|row| (row.from, row.trigger) == (change.from, change.trigger));
            *rows.get_mut(taken.unwrap().id).unwrap() += 1;
        }
        began += usize::from(state.turns > 0);
        asked += usize::from(state.interaction_count > 0);
        resumed += usize::from(state.turns > 1);
    }
    for ((status, command), (accepted, refused)) in &meetings {
        println!("{:>12} {command:<16} {accepted:>6} accepted {refused:>6} refused", status.as_str());
    }
    println!("{rows:?}\nof {COUNTED} histories {began} began a turn, {asked} asked, {resumed} began a second turn");
    let commands = BTreeSet::from_iter(meetings.keys().map(|(_, command)| *command));
    assert_eq!(commands.len(), 10, "every command but the first: {commands:?}");
    for status in Status::ALL {
        for command in &commands {
            let (accepted, refused) = meetings.get(&(status, *command)).copied().unwrap_or_default();
            assert!(accepted + refused >= MEETINGS_MIN, "{command} met {} {accepted}+{refused} times", status.as_str());
        }
    }
    for (row, taken) in rows {
        assert!(taken >= ROWS_MIN, "{row} was taken {taken} times");
    }
    assert!(began * 3 > COUNTED * 2 && asked * 3 > COUNTED && resumed * 5 > COUNTED, "{began}, {asked}, {resumed}");
}

#[test]
fn a_run_begins_with_its_creation_and_is_created_once() {
    let now = at(0);
    let create = || Command::Create(Box::new(started(ExecutionMode::Auto, false, false)));
    let created = events(decide(None, create(), None, now).unwrap());
    assert_eq!(created, [Event::Started(Box::new(started(ExecutionMode::Auto, false, false)))]);
    assert_eq!(decide(None, Command::AutoDecide, None, now), Err(Refusal::NotCreated));
    let state = RunState::open(RUN, &started(ExecutionMode::Auto, false, false), now);
    assert_eq!(decide(Some(&state), create(), None, now), Err(Refusal::AlreadyCreated));
}
