//! Properties of the core, over random commands: what it decides is legal, folds compose, settling is idempotent.

use proptest::prelude::*;
use serde_json::{Map, Value, json};
use uuid::Uuid;

use super::command::{Command, RestartQueued, TurnEnd};
use super::event::{Event, Started};
use super::fact::{Fact, RawRange, Stream};
use super::ids::{RequestId, RunId};
use super::interaction::{Interaction, InteractionId, InteractionKind};
use super::outcome::{Completion, Evidence, RunError};
use super::request::{ExecutionMode, RuntimeOptions, SkillRef};
use super::state::RunState;
use super::statechart::{Status, target};
use super::time::Timestamp;
use super::{decide, effects};

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
    }
}

fn evidence() -> Evidence {
    Evidence { streams: Default::default(), artifacts_sha256: "0".repeat(64) }
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
        Just(TurnEnd::Succeeded { completion: Completion::Exit, result_path: "result/result.json".into() }),
        Just(TurnEnd::Failed(RunError::new("ENGINE_FAILED", "broken"))),
        Just(TurnEnd::NeedsInput(question())),
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
            result_path: "result/result.json".into(),
            evidence: evidence(),
            facts: vec![],
        }),
        3 => Just(Command::StartTurn {
            command: vec!["true".into()],
            pid: 1,
            engine_version: "1".into(),
            parser_version: "1".into(),
            isolation: "none".into(),
        }),
        2 => prop::collection::vec(prop_oneof![Just(raw), Just(bound)], 0..3).prop_map(Command::Record),
        3 => ends.prop_map(|end| Command::EndTurn { facts: vec![], end, evidence: evidence() }),
        1 => Just(Command::Reject { facts: vec![], error: RunError::new("MISSING_INPUT_FILES", "x"), evidence: evidence() }),
        3 => (1u64..4, 0u8..3, prop::option::of("[ab]")).prop_map(|(id, body, key)| Command::Reply {
            interaction_id: InteractionId(id),
            response: json!(body),
            idempotency_key: key,
        }),
        2 => Just(Command::AutoDecide),
        1 => Just(Command::Cancel { requested_by: "user".into(), reason: String::new(), facts: vec![], evidence: evidence() }),
        1 => requeue.prop_map(|restart_queued| Command::Reconcile { restart_queued, tails: vec![], evidence: evidence() }),
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
        let Ok(facts) = decide(&state, command.clone(), now) else { continue };
        for fact in facts {
            state.apply(&fact.event, now);
            log.push((fact.event, now));
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
        prop_assert_eq!(status, state.status);
        prop_assert_eq!(status.is_final(), terminal == 1);
        prop_assert_eq!(state.pending.is_some(), status == Status::WaitingUser);
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
        let settle = || Command::Reconcile { restart_queued, tails: vec![], evidence: evidence() };
        for fact in decide(&state, settle(), now).unwrap() {
            state.apply(&fact.event, now);
        }
        prop_assert_eq!(decide(&state, settle(), now.plus_seconds(1)), Ok(vec![]));
        prop_assert!(state.status != Status::Running, "nothing is left running");
        prop_assert_eq!(effects(&state).is_empty(), !state.status.is_final() && (state.awaiting_upload
            || (state.status == Status::WaitingUser && !state.options.interactive_auto_reply)));
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
