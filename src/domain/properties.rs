//! Properties of the core, over random commands: decisions are legal, folds compose, and recovering twice has the effect of
//! recovering once.

use proptest::prelude::*;
use serde_json::{Map, Value, json};
use uuid::Uuid;

use super::codes::ErrorCode;
use super::command::{Command, Conclusion, LastFiles, Refusal, RestartQueued};
use super::event::{Event, Started};
use super::fact::{Fact, RawRange, Stream};
use super::ids::{RequestId, RunId};
use super::interaction::{Interaction, InteractionId, InteractionKind};
use super::outcome::{Completion, Evidence, RunError, Usage};
use super::request::{ExecutionMode, RuntimeOptions, SkillRef};
use super::state::RunState;
use super::statechart::{Status, target};
use super::time::Timestamp;
use super::{Decision, Ending, decide, effects, ending};

fn started(mode: ExecutionMode, awaiting_upload: bool, auto_reply: bool) -> Started {
    Started {
        request_id: RequestId(Uuid::from_u128(2)),
        skill: SkillRef { id: "demo".into(), version: "1.0.0".into(), fingerprint: String::new() },
        engine: "script".into(),
        model: None,
        execution_mode: mode,
        runtime_options: RuntimeOptions {
            execution_mode: mode,
            no_cache: false,
            debug: false,
            debug_keep_temp: false,
            verbose: false,
            interactive_auto_reply: auto_reply,
            interactive_reply_timeout_sec: 5,
            hard_timeout_seconds: 60,
            stall_timeout_seconds: 60,
        },
        input: Map::new(),
        parameter: Map::new(),
        awaiting_upload,
        idempotency_sha256: None,
        cache_key: None,
        engine_config_sha256: None,
        temporary: false,
        labels: Default::default(),
        metadata: None,
        awaiting_files: Vec::new(),
    }
}

/// Last files that were written for exactly the runs that end.
fn last_files(run: &RunState, command: &Command) -> Option<LastFiles> {
    let evidence = Evidence {
        streams: Default::default(),
        artifacts_sha256: "0".repeat(64),
        files_sha256: "0".repeat(64),
        result_sha256: "0".repeat(64),
    };
    ending(run, command).map(|_| LastFiles { facts: vec![], evidence })
}

/// The events of a decision; the proof in the terminal event is a placeholder.
fn events(decision: Decision) -> Vec<Event> {
    let terminal = decision.terminal.map(|terminal| terminal.into_event(0, "0".repeat(64), Usage::default()));
    decision.facts.into_iter().map(|fact| fact.event).chain(terminal).collect()
}

fn question() -> Interaction {
    Interaction {
        interaction_id: InteractionId(0),
        kind: InteractionKind::OpenText,
        prompt: "Which?".into(),
        options: vec![],
        ui_hints: Value::Null,
        required_fields: vec![],
        default_decision_policy: "engine_judgement".into(),
        context: Value::Null,
    }
}

fn any_command() -> impl Strategy<Value = Command> {
    let raw = Fact::raw_text(RawRange { stream: Stream::Stdout, from: 0, to: 1 }, "x".into());
    let bound =
        Fact::own(Event::SessionBound(super::event::SessionBound { handle_kind: "thread".into(), handle: "h".into() }));
    let ends = prop_oneof![
        Just(Conclusion::Succeeded(Completion::Exit)),
        Just(Conclusion::Failed(RunError::new(ErrorCode::EngineFailed, "broken"))),
        Just(Conclusion::NeedsInput(question())),
    ];
    let requeue = any::<bool>().prop_map(|again| if again { RestartQueued::Requeue } else { RestartQueued::Fail });
    prop_oneof![
        1 => Just(Command::Upload {
            files: vec![],
            manifest_sha256: "0".repeat(64),
            cache_key: "0".repeat(64),
            package: None,
        }),
        1 => Just(Command::TakeFromCache {
            source: RunId(Uuid::from_u128(9)),
            cache_key: "0".repeat(64),
        }),
        3 => Just(Command::StartTurn {
            command: vec!["true".into()],
            pid: 1,
            engine_version: "1".into(),
            parser_version: "1".into(),
            isolation: "none".into(),
            passed: super::request::Passed::default(),
        }),
        2 => prop::collection::vec(prop_oneof![Just(raw), Just(bound)], 0..3).prop_map(Command::Record),
        3 => ends.prop_map(|conclusion| Command::EndTurn { facts: vec![], conclusion }),
        1 => Just(Command::Reject { error: RunError::new(ErrorCode::MissingInputFiles, "x") }),
        3 => (1u64..4, 0u8..3, prop::option::of("[ab]")).prop_map(|(id, body, key)| Command::Reply {
            interaction_id: InteractionId(id),
            response: json!(body),
            idempotency_key: key,
        }),
        2 => Just(Command::AutoDecide),
        1 => Just(Command::Cancel { requested_by: "user".into(), reason: String::new() }),
        1 => requeue.prop_map(|restart_queued| Command::Reconcile { restart_queued, facts: vec![] }),
    ]
}

fn any_history() -> impl Strategy<Value = (Started, Vec<(Command, u8)>)> {
    let mode = prop_oneof![1 => Just(ExecutionMode::Auto), 3 => Just(ExecutionMode::Interactive)];
    let first = (mode, any::<bool>(), any::<bool>()).prop_map(|(mode, upload, auto)| started(mode, upload, auto));
    (first, prop::collection::vec((any_command(), 0u8..10), 0..25))
}

const RUN: RunId = RunId(Uuid::from_u128(1));

/// Play commands; returns every logged event with its moment, and the states after each decision.
fn play(first: &Started, commands: &[(Command, u8)]) -> (Vec<(Event, Timestamp)>, RunState) {
    let mut now = Timestamp::from_micros(0);
    let mut state = RunState::open(RUN, first, now);
    let mut log = Vec::new();
    for (command, seconds) in commands {
        now = now.plus_seconds(u64::from(*seconds));
        let files = last_files(&state, command);
        let Ok(decision) = decide(Some(&state), command.clone(), files, now) else { continue };
        for event in events(decision) {
            state.apply(&event, now);
            log.push((event, now));
        }
    }
    (log, state)
}

proptest! {
    #[test]
    fn every_decision_is_legal_in_the_table_and_ends_at_most_once((first, commands) in any_history()) {
        let (log, state) = play(&first, &commands);
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
        let (log, whole) = play(&first, &commands);
        let (before, after) = log.split_at(cut.index(log.len() + 1));
        let mut state = RunState::open(RUN, &first, Timestamp::from_micros(0));
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
        let (_, mut state) = play(&first, &commands);
        let now = Timestamp::from_micros(if clock_set_back { 0 } else { 1_000_000_000 });
        let restart_queued = if requeue { RestartQueued::Requeue } else { RestartQueued::Fail };
        let reconcile = || Command::Reconcile { restart_queued, facts: vec![] };
        let files = last_files(&state, &reconcile());
        for event in events(decide(Some(&state), reconcile(), files, now).unwrap()) {
            state.apply(&event, now);
        }
        prop_assert_eq!(decide(Some(&state), reconcile(), None, now.plus_seconds(1)), Ok(Decision::default()));
        prop_assert!(state.status() != Status::Running, "nothing is left running");
        prop_assert_eq!(effects(&state).is_empty(), !state.status().is_final() && (state.awaiting_upload
            || (state.status() == Status::WaitingUser && !state.options.interactive_auto_reply)));
    }

    #[test]
    fn a_run_ends_exactly_when_and_how_it_was_said_to_and_not_without_its_last_files(
        (first, commands) in any_history(), command in any_command(), seconds in 0u64..10,
    ) {
        let (_, state) = play(&first, &commands);
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
        let (log, _) = play(&first, &commands);
        let mut resolved = std::collections::BTreeSet::new();
        for (event, _) in &log {
            let id = match event {
                Event::ReplyAccepted(reply) => reply.interaction_id,
                Event::AutoDecided(decided) => decided.interaction_id,
                _ => continue,
            };
            prop_assert!(resolved.insert(id), "{} twice", id);
        }
    }
}

#[test]
fn a_run_begins_with_its_creation_and_is_created_once() {
    let now = Timestamp::from_micros(0);
    let create = || Command::Create(Box::new(started(ExecutionMode::Auto, false, false)));
    let created = events(decide(None, create(), None, now).unwrap());
    assert_eq!(created, [Event::Started(started(ExecutionMode::Auto, false, false))]);
    assert_eq!(decide(None, Command::AutoDecide, None, now), Err(Refusal::NotCreated));
    let state = RunState::open(RUN, &started(ExecutionMode::Auto, false, false), now);
    assert_eq!(decide(Some(&state), create(), None, now), Err(Refusal::AlreadyCreated));
}
