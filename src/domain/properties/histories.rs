//! Random histories of a run that get somewhere: most commands fit the state they come in, the others are any at all.

use proptest::prelude::*;
use serde_json::json;

use crate::domain::codes::ErrorCode;
use crate::domain::command::{Command, Conclusion, Refusal, RestartQueued};
use crate::domain::event::{Event, Started, UploadedPackage};
use crate::domain::outcome::{Completion, RunError};
use crate::domain::request::{Defaults, ExecutionMode};
use crate::domain::samples::{
    RUN, at, bound, broken, cancel, end_turn, events, last_files, options, question, raw, refused, reply, start_turn,
    started, take_from_cache, upload,
};
use crate::domain::state::{Phase, RunState};
use crate::domain::statechart::Status;
use crate::domain::time::Timestamp;
use crate::domain::{Decision, decide};

/// What happens next to a run.
#[derive(Debug, Clone)]
pub(super) enum Move {
    /// One of the commands that its state allows, by this number.
    Fitting(u16),
    /// This command, whatever the state is.
    Any(Box<Command>),
}

/// A history: how the run begins, and what happens to it with so many seconds before each.
pub(super) type History = (Started, Vec<(Move, u8)>);

fn reconcile(again: bool) -> Command {
    let restart_queued = if again { RestartQueued::Requeue } else { RestartQueued::Fail };
    Command::Reconcile { restart_queued, facts: vec![] }
}

fn reject() -> Command {
    Command::Reject { error: RunError::new(ErrorCode::MissingInputFiles, "x") }
}

fn upload_with_package() -> Command {
    let started = started(ExecutionMode::Interactive, false, true);
    let package = UploadedPackage {
        skill: started.skill,
        engine: "own".into(),
        runtime_options: options(ExecutionMode::Interactive, true),
        engine_config_sha256: None,
        sha256: "4".repeat(64),
        defaults: Defaults::default(),
    };
    match upload() {
        Command::Upload { files, manifest_sha256, cache_key, warnings, .. } => {
            Command::Upload { files, manifest_sha256, cache_key, package: Some(package), warnings }
        }
        other => other,
    }
}

pub(super) fn any_command() -> impl Strategy<Value = Command> {
    let ends = prop_oneof![
        Just(Conclusion::Succeeded(Completion::Exit)),
        Just(Conclusion::Failed(broken())),
        Just(Conclusion::NeedsInput(question())),
        Just(Conclusion::Transient {
            error: RunError::new(ErrorCode::EngineRateLimited, "busy"),
            retry_after_seconds: Some(5),
        }),
    ];
    prop_oneof![
        Just(upload()),
        Just(take_from_cache()),
        Just(start_turn()),
        prop::collection::vec(prop_oneof![Just(raw()), Just(bound())], 0..3).prop_map(Command::Record),
        ends.prop_map(end_turn),
        Just(reject()),
        (1u64..4, 0u8..3, prop::option::of("[ab]")).prop_map(|(id, body, key)| reply(id, json!(body), key.as_deref())),
        Just(Command::AutoDecide),
        Just(cancel()),
        any::<bool>().prop_map(reconcile),
    ]
}

pub(super) fn any_history() -> impl Strategy<Value = History> {
    let mode = prop_oneof![1 => Just(ExecutionMode::Auto), 6 => Just(ExecutionMode::Interactive)];
    let first = (mode, prop::bool::weighted(0.3), any::<bool>(), prop::bool::weighted(0.2))
        .prop_map(|(mode, upload, auto, temporary)| Started { temporary, ..started(mode, upload || temporary, auto) });
    let next = prop_oneof![
        4 => any::<u16>().prop_map(Move::Fitting),
        1 => any_command().prop_map(|command| Move::Any(Box::new(command))),
    ];
    (first, prop::collection::vec((next, 0u8..10), 0..40))
}

/// What a run in this state can expect, the likely things several times.
fn fitting(run: &RunState) -> Vec<Command> {
    let open = run.pending().map_or(run.interaction_count, |pending| pending.interaction.interaction_id.0);
    let answer = |key: Option<&str>| reply(open, json!(open), key);
    let session = || Command::Record(vec![raw(), bound()]);
    let key = format!("key-{open}");
    match &run.phase {
        Phase::Queued if run.awaiting_upload && run.temporary => vec![upload_with_package(); 20],
        Phase::Queued if run.awaiting_upload => vec![upload(); 20],
        Phase::Queued => vec![start_turn(); 30],
        Phase::Running | Phase::Asking(_) => {
            let mut likely = vec![session(); 12];
            likely.extend(vec![end_turn(Conclusion::NeedsInput(question())); 18]);
            likely.extend([Command::Record(vec![raw()]), end_turn(Conclusion::Succeeded(Completion::Schema))]);
            likely.push(end_turn(Conclusion::Failed(broken())));
            likely.extend([refused(None), refused(Some(5))]);
            likely
        }
        Phase::WaitingUser(_) => {
            let mut likely = [vec![answer(None); 8], vec![answer(Some(&key)); 8]].concat();
            likely.extend(vec![Command::AutoDecide; 6]);
            likely.push(reply(open, json!(" "), None));
            likely
        }
        // A repeat of the last answer.
        Phase::Succeeded | Phase::Failed | Phase::Canceled => vec![answer(Some(&key)); 3],
    }
    .into_iter()
    // What can come at any time.
    .chain([cancel(), reconcile(true), reconcile(false)])
    .chain((run.turns == 0).then(take_from_cache))
    .chain((run.turns == 0).then(reject))
    .collect()
}

/// One command and what came of it.
pub(super) struct Played {
    pub(super) before: Status,
    pub(super) command: &'static str,
    pub(super) decision: Result<Decision, Refusal>,
}

/// A history played to its end.
pub(super) struct Play {
    pub(super) moves: Vec<Played>,
    /// Every logged event with its moment.
    pub(super) log: Vec<(Event, Timestamp)>,
    pub(super) state: RunState,
}

pub(super) fn play(first: &Started, moves: &[(Move, u8)]) -> Play {
    let mut now = at(0);
    let mut state = RunState::open(RUN, first, now);
    let (mut log, mut played) = (Vec::new(), Vec::new());
    for (next, seconds) in moves {
        now = now.plus_seconds(u64::from(*seconds));
        let command = match next {
            Move::Any(command) => (**command).clone(),
            Move::Fitting(number) => {
                let mut fitting = fitting(&state);
                fitting.swap_remove(usize::from(*number) % fitting.len())
            }
        };
        let (before, name) = (state.status(), command.name());
        let files = last_files(&state, &command);
        let decision = decide(Some(&state), command, files, now);
        for event in decision.clone().map(events).unwrap_or_default() {
            state.apply(&event, now);
            log.push((event, now));
        }
        played.push(Played { before, command: name, decision });
    }
    Play { moves: played, log, state }
}
