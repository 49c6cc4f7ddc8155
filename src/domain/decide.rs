//! The rules: a state and a command become events, or a refusal.

use serde_json::Value;

use super::cache_key::{canonical, sha256_hex};
use super::command::{Command, Refusal, RestartQueued, TurnEnd};
use super::event::{
    AutoDecideTimeout, AutoDecided, CacheHit, CancelRequested, Completed, Event, Failed, Recovered, RecoveryState,
    ReplyAccepted, StateChanged, TurnStarted, Uploaded, UserReply,
};
use super::fact::Fact;
use super::interaction::InteractionId;
use super::outcome::{Completion, Evidence, RunError, code};
use super::request::ExecutionMode;
use super::state::RunState;
use super::statechart::{Status, Trigger, target};
use super::time::Timestamp;

/// Longest preview of a reply, in characters.
const PREVIEW_CHARS: usize = 200;

/// What a command means for a run: the facts to log, in one atomic batch.
pub fn decide(run: &RunState, command: Command, now: Timestamp) -> Result<Vec<Fact>, Refusal> {
    // A reply has codes of its own, and its repeat gets the first answer at any time.
    if run.status.is_final() && !matches!(&command, Command::Reply { .. }) {
        return match command {
            // Settling a settled run changes nothing.
            Command::Reconcile { .. } => Ok(Vec::new()),
            _ => Err(Refusal::RunFinal { status: run.status }),
        };
    }
    match command {
        Command::Upload { files, manifest_sha256, cache_key, package } => {
            if !run.awaiting_upload {
                return Err(Refusal::AlreadyUploaded);
            }
            Ok(vec![Fact::own(Event::Uploaded(Uploaded { files, manifest_sha256, cache_key, package }))])
        }
        Command::TakeFromCache { source, cache_key, result_path, evidence, facts } => {
            let mut log = vec![Fact::own(Event::CacheHit(CacheHit { source_run_id: source, cache_key }))];
            log.extend(facts);
            log.push(change(run, Trigger::RunCacheHit, now, None)?);
            log.push(completed(run, Completion::Cache, result_path, evidence));
            Ok(log)
        }
        Command::StartTurn { command, pid, engine_version, parser_version, isolation } => Ok(vec![
            change(run, Trigger::TurnStarted, now, None)?,
            Fact::own(Event::TurnStarted(TurnStarted {
                attempt: run.turns + 1,
                command,
                pid,
                engine_version,
                parser_version,
                isolation,
                resumed_from: if run.turns == 0 { None } else { run.session_handle.clone() },
            })),
        ]),
        Command::Record(facts) => match run.status {
            Status::Running => Ok(facts),
            status => Err(Refusal::Illegal { status }),
        },
        Command::EndTurn { facts, end, evidence } => end_turn(run, facts, end, evidence, now),
        Command::Reject { facts, error, evidence } => {
            let mut log = facts;
            log.push(change(run, Trigger::RunRejected, now, None)?);
            log.push(failed(run, Status::Failed, error, evidence));
            Ok(log)
        }
        Command::Reply { interaction_id, response, idempotency_key } => {
            reply(run, interaction_id, response, idempotency_key, now)
        }
        Command::AutoDecide => auto_decide(run, now),
        Command::Cancel { requested_by, reason, facts, evidence } => {
            let request = CancelRequested { requested_by, reason };
            cancel(run, request, facts, evidence, now)
        }
        Command::Reconcile { restart_queued, tails, evidence } => reconcile(run, restart_queued, tails, evidence, now),
    }
}

fn end_turn(
    run: &RunState,
    facts: Vec<Fact>,
    end: TurnEnd,
    evidence: Evidence,
    now: Timestamp,
) -> Result<Vec<Fact>, Refusal> {
    let mut log = facts;
    // A cancel that was accepted stands, whatever the engine managed to finish meanwhile.
    if run.cancel_requested {
        log.push(change(run, Trigger::RunCanceled, now, None)?);
        log.push(failed(run, Status::Canceled, canceled(), evidence));
        return Ok(log);
    }
    match end {
        TurnEnd::Succeeded { completion, result_path } => {
            log.push(change(run, Trigger::TurnSucceeded, now, None)?);
            log.push(completed(run, completion, result_path, evidence));
        }
        TurnEnd::Failed(error) => {
            log.push(change(run, Trigger::TurnFailed, now, None)?);
            log.push(failed(run, Status::Failed, error, evidence));
        }
        TurnEnd::NeedsInput(mut interaction) => {
            if run.options.execution_mode != ExecutionMode::Interactive {
                return Err(Refusal::NotInteractive);
            }
            let id = InteractionId(run.interaction_count + 1);
            interaction.interaction_id = id;
            log.push(Fact::own(Event::InputRequired(interaction)));
            log.push(change(run, Trigger::TurnNeedsInput, now, Some(id))?);
        }
    }
    Ok(log)
}

fn reply(
    run: &RunState,
    interaction_id: InteractionId,
    response: Value,
    idempotency_key: Option<String>,
    now: Timestamp,
) -> Result<Vec<Fact>, Refusal> {
    if run.options.execution_mode != ExecutionMode::Interactive {
        return Err(Refusal::NotInteractive);
    }
    let earlier =
        idempotency_key.as_ref().and_then(|key| run.replies.iter().find(|reply| reply.idempotency_key == *key));
    if let Some(earlier) = earlier {
        // The same key and body get the first answer again, at any time; nothing is logged twice.
        let same = earlier.interaction_id == interaction_id
            && earlier.response_sha256 == sha256_hex(canonical(&response).as_bytes());
        return if same { Ok(Vec::new()) } else { Err(Refusal::IdempotencyConflict) };
    }
    let Some(pending) = &run.pending else {
        return Err(Refusal::InteractionNotPending { status: run.status });
    };
    let open = pending.interaction.interaction_id;
    if open != interaction_id {
        return Err(Refusal::InteractionStale { given: interaction_id, open });
    }
    let flaws = pending.interaction.flaws(&response);
    if !flaws.is_empty() {
        return Err(Refusal::ResponseInvalid { id: open, flaws });
    }
    let shown = match &response {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    Ok(vec![
        Fact::own(Event::ReplyAccepted(ReplyAccepted {
            interaction_id,
            resolution_mode: UserReply::UserReply,
            accepted_at: now,
            response,
            response_preview: shown.chars().take(PREVIEW_CHARS).collect(),
            idempotency_key,
        })),
        change(run, Trigger::ReplyAccepted, now, None)?,
    ])
}

fn auto_decide(run: &RunState, now: Timestamp) -> Result<Vec<Fact>, Refusal> {
    let Some(pending) = &run.pending else {
        return Err(Refusal::InteractionNotPending { status: run.status });
    };
    let timeout_sec = run.options.interactive_reply_timeout_sec;
    let due = pending.asked_at.plus_seconds(timeout_sec) <= now;
    if !run.options.interactive_auto_reply || !due {
        return Err(Refusal::Illegal { status: run.status });
    }
    Ok(vec![
        Fact::own(Event::AutoDecided(AutoDecided {
            interaction_id: pending.interaction.interaction_id,
            resolution_mode: AutoDecideTimeout::AutoDecideTimeout,
            timeout_sec,
            policy: pending.interaction.default_decision_policy.clone(),
            accepted_at: now,
        })),
        change(run, Trigger::AutoDecideTimeout, now, None)?,
    ])
}

fn cancel(
    run: &RunState,
    request: CancelRequested,
    facts: Vec<Fact>,
    evidence: Evidence,
    now: Timestamp,
) -> Result<Vec<Fact>, Refusal> {
    if run.cancel_requested {
        return Ok(Vec::new());
    }
    let mut log = vec![Fact::own(Event::CancelRequested(request))];
    // A running engine must be stopped first; its end then ends the run.
    if run.status != Status::Running {
        log.extend(facts);
        log.push(change(run, Trigger::RunCanceled, now, None)?);
        log.push(failed(run, Status::Canceled, canceled(), evidence));
    }
    Ok(log)
}

fn reconcile(
    run: &RunState,
    restart_queued: RestartQueued,
    tails: Vec<Fact>,
    evidence: Evidence,
    now: Timestamp,
) -> Result<Vec<Fact>, Refusal> {
    // A clock that was set back must not make this start seem earlier than the question it preserves.
    let now = now.max(run.updated_at);
    let recovered = |state: RecoveryState, reason: &str| {
        Fact::own(Event::Recovered(Recovered {
            recovery_state: state,
            recovery_reason: reason.to_owned(),
            recovered_at: now,
        }))
    };
    let end = |tails: Vec<Fact>, reason: &str, error: RunError| -> Result<Vec<Fact>, Refusal> {
        let mut log = tails;
        log.push(recovered(RecoveryState::FailedReconciled, reason));
        log.push(change(run, Trigger::RestartReconcileFailed, now, None)?);
        log.push(failed(run, Status::Failed, error, evidence.clone()));
        Ok(log)
    };
    match run.status {
        // A restart took nothing from a run whose files are still to come.
        Status::Queued if run.awaiting_upload => Ok(Vec::new()),
        Status::Queued if goes_on_queued(run, restart_queued) => Ok(Vec::new()),
        Status::Queued => end(tails, "orchestrator_restart_interrupted", interrupted()),
        Status::Running if run.cancel_requested => {
            let mut log = tails;
            log.push(change(run, Trigger::RunCanceled, now, None)?);
            log.push(failed(run, Status::Canceled, canceled(), evidence.clone()));
            Ok(log)
        }
        Status::Running => end(tails, "orchestrator_restart_interrupted", interrupted()),
        Status::WaitingUser => match (&run.pending, &run.session_handle) {
            // Said once for each question, however often the service is started.
            (Some(pending), Some(_)) if run.recovered_at.is_some_and(|at| at >= pending.asked_at) => Ok(Vec::new()),
            (Some(pending), Some(_)) => Ok(vec![
                recovered(RecoveryState::RecoveredWaiting, "resumable_waiting_preserved"),
                change(run, Trigger::RestartPreserveWaiting, now, Some(pending.interaction.interaction_id))?,
            ]),
            (Some(_), None) | (None, _) => end(
                tails,
                "session_handle_invalid",
                RunError::new(
                    code::SESSION_RESUME_FAILED,
                    "the service was restarted and the engine's session cannot be resumed; start the run again",
                ),
            ),
        },
        Status::Succeeded | Status::Failed | Status::Canceled => Ok(Vec::new()),
    }
}

/// Whether a restart leaves a queued run in the queue. An answer that was accepted is never lost: the run that was
/// queued by it goes on, whatever becomes of runs that have not begun.
pub fn goes_on_queued(run: &RunState, restart_queued: RestartQueued) -> bool {
    run.turns > 0 || restart_queued == RestartQueued::Requeue
}

fn change(run: &RunState, trigger: Trigger, now: Timestamp, pending: Option<InteractionId>) -> Result<Fact, Refusal> {
    let Some(to) = target(run.status, trigger) else {
        return Err(Refusal::Illegal { status: run.status });
    };
    // A run that waits for its files is not in the queue yet.
    if run.awaiting_upload && trigger == Trigger::TurnStarted {
        return Err(Refusal::Illegal { status: run.status });
    }
    Ok(Fact::own(Event::StateChanged(StateChanged {
        from: run.status,
        to,
        trigger,
        updated_at: now,
        pending_interaction_id: pending,
    })))
}

fn completed(run: &RunState, completion: Completion, result_path: String, evidence: Evidence) -> Fact {
    Fact::own(Event::Completed(Completed {
        status: Status::Succeeded,
        completion,
        result_path,
        usage: run.usage,
        proof: evidence.into_proof(),
    }))
}

fn failed(run: &RunState, status: Status, error: RunError, evidence: Evidence) -> Fact {
    Fact::own(Event::Failed(Failed { status, error: error.bounded(), usage: run.usage, proof: evidence.into_proof() }))
}

fn canceled() -> RunError {
    RunError::new(code::CANCELED_BY_USER, "the run was canceled on request")
}

fn interrupted() -> RunError {
    RunError::new(
        code::ORCHESTRATOR_RESTART_INTERRUPTED,
        "the service ended while the run was under way; start the run again",
    )
}
