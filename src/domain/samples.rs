//! Values that the tests of the core share.

use serde_json::{Map, Value};
use uuid::Uuid;

use super::codes::ErrorCode;
use super::command::{Command, Conclusion, LastFiles};
use super::event::{Event, SessionBound, Started};
use super::fact::{Fact, RawRange, Stream};
use super::ids::{RequestId, RunId};
use super::interaction::{Interaction, InteractionId, InteractionKind};
use super::outcome::{Completion, Evidence, RunError, Usage};
use super::request::{ExecutionMode, Passed, Retry, RuntimeOptions, SkillRef};
use super::state::RunState;
use super::time::Timestamp;
use super::{Decision, decide, ending};

pub(crate) const RUN: RunId = RunId(Uuid::from_u128(1));
/// Another run.
pub(crate) const SOURCE: RunId = RunId(Uuid::from_u128(9));

/// So many seconds after the first moment.
pub(crate) fn at(seconds: u64) -> Timestamp {
    Timestamp::from_micros(0).plus_seconds(seconds)
}

pub(crate) fn options(mode: ExecutionMode, auto_reply: bool) -> RuntimeOptions {
    RuntimeOptions {
        execution_mode: mode,
        no_cache: false,
        debug: false,
        debug_keep_temp: false,
        verbose: false,
        interactive_auto_reply: auto_reply,
        interactive_reply_timeout_sec: 5,
        hard_timeout_seconds: 60,
        stall_timeout_seconds: 60,
        retry: auto_reply.then_some(Retry { times: 1, backoff_seconds: 1 }),
    }
}

pub(crate) fn started(mode: ExecutionMode, awaiting_upload: bool, auto_reply: bool) -> Started {
    Started {
        request_id: RequestId(Uuid::from_u128(2)),
        skill: SkillRef { id: "demo".into(), version: "1.0.0".into(), fingerprint: String::new() },
        engine: "script".into(),
        model: None,
        execution_mode: mode,
        runtime_options: options(mode, auto_reply),
        input: Map::new(),
        parameter: Map::new(),
        awaiting_upload,
        idempotency_sha256: None,
        cache_key: None,
        engine_config_sha256: None,
        temporary: false,
        labels: Default::default(),
        requested_by: None,
        traceparent: None,
        priority: 0,
        metadata: None,
        context: None,
        awaiting_files: vec![],
        defaults: Box::default(),
    }
}

pub(crate) fn question() -> Interaction {
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

pub(crate) fn broken() -> RunError {
    RunError::new(ErrorCode::EngineFailed, "broken")
}

pub(crate) fn start_turn() -> Command {
    Command::StartTurn {
        command: vec!["true".into()],
        pid: 7,
        engine_version: "1".into(),
        parser_version: "2".into(),
        isolation: "none".into(),
        limits: None,
        passed: Passed::default(),
    }
}

pub(crate) fn raw() -> Fact {
    Fact::raw_text(RawRange { stream: Stream::Stdout, from: 0, to: 1 }, "x".into())
}

/// The engine names its session.
pub(crate) fn bound() -> Fact {
    Fact::own(Event::SessionBound(SessionBound { handle_kind: "thread".into(), handle: "h".into() }))
}

pub(crate) fn end_turn(conclusion: Conclusion) -> Command {
    Command::EndTurn { facts: vec![], conclusion }
}

/// The model's service refuses the turn, and says when to come again.
pub(crate) fn refused(retry_after_seconds: Option<u64>) -> Command {
    let error = RunError::new(ErrorCode::EngineRateLimited, "busy");
    end_turn(Conclusion::Transient { error, retry_after_seconds })
}

pub(crate) fn succeed() -> Command {
    end_turn(Conclusion::Succeeded(Completion::Exit))
}

pub(crate) fn ask() -> Command {
    end_turn(Conclusion::NeedsInput(question()))
}

pub(crate) fn reply(id: u64, response: Value, key: Option<&str>) -> Command {
    Command::Reply {
        interaction_id: InteractionId(id),
        response,
        idempotency_key: key.map(str::to_owned),
        requested_by: None,
    }
}

pub(crate) fn cancel() -> Command {
    Command::Cancel { requested_by: "user".into(), reason: "enough".into() }
}

pub(crate) fn upload() -> Command {
    Command::Upload {
        files: vec![],
        manifest_sha256: "1".repeat(64),
        cache_key: "2".repeat(64),
        package: None,
        warnings: vec![],
    }
}

pub(crate) fn take_from_cache() -> Command {
    Command::TakeFromCache { source: SOURCE, cache_key: "3".repeat(64) }
}

pub(crate) fn evidence() -> Evidence {
    Evidence {
        streams: Default::default(),
        artifacts_sha256: "0".repeat(64),
        files_sha256: "0".repeat(64),
        result_sha256: "0".repeat(64),
    }
}

/// Last files that were written for exactly the runs that end.
pub(crate) fn last_files(run: &RunState, command: &Command) -> Option<LastFiles> {
    ending(run, command).map(|_| LastFiles { facts: vec![], evidence: evidence() })
}

/// The events of a decision; the proof in the terminal event is a placeholder.
pub(crate) fn events(decision: Decision) -> Vec<Event> {
    let terminal = decision.terminal.map(|terminal| terminal.into_event(0, "0".repeat(64), Usage::default()));
    decision.facts.into_iter().map(|fact| fact.event).chain(terminal).collect()
}

/// A run of this beginning after these commands, all of which are accepted, one second apart.
pub(crate) fn after(first: &Started, commands: impl IntoIterator<Item = Command>) -> RunState {
    let mut run = RunState::open(RUN, first, at(0));
    for (second, command) in (1..).zip(commands) {
        let files = last_files(&run, &command);
        for event in events(decide(Some(&run), command, files, at(second)).unwrap()) {
            run.apply(&event, at(second));
        }
    }
    run
}
