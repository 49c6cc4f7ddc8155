//! The rules: a state and a command become events, or a refusal.

use serde_json::Value;

use super::cache_key::{canonical, sha256_hex};
use super::command::{Command, Conclusion, LastFiles, Refusal};
use super::ending::{Ending, Terminal, ending};
use super::event::{
    AutoDecideTimeout, AutoDecided, CacheHit, CancelRequested, Event, Recovered, RecoveryState, ReplyAccepted,
    StateChanged, TurnStarted, Uploaded, UserReply,
};
use super::fact::Fact;
use super::interaction::{Interaction, InteractionId};
use super::request::ExecutionMode;
use super::state::{Phase, RunState};
use super::statechart::{Status, Trigger, target};
use super::time::Timestamp;

/// Longest preview of a reply, in characters.
const PREVIEW_CHARS: usize = 200;

/// What a command means for a run: facts to log in one atomic batch, followed by the terminal event if the run ends.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Decision {
    /// What is logged, in order.
    pub facts: Vec<Fact>,
    /// The last event, if the run ends.
    pub terminal: Option<Terminal>,
}

impl Decision {
    /// Whether nothing is logged.
    pub(crate) fn is_empty(&self) -> bool {
        self.facts.is_empty() && self.terminal.is_none()
    }

    fn of(facts: Vec<Fact>) -> Self {
        Self { facts, terminal: None }
    }
}

/// What a command means for a run, which is `None` before its creation. The last files of a run must be on disk before
/// a command that ends it; see [`ending`].
///
/// ```
/// use skill_runner::domain::command::{Command, Refusal};
/// use skill_runner::domain::decide;
/// use skill_runner::domain::time::Timestamp;
///
/// let cancel = Command::Cancel { requested_by: "client".into(), reason: "no longer needed".into() };
/// let decision = decide(None, cancel, None, Timestamp::from_micros(0));
/// assert!(matches!(decision, Err(Refusal::NotCreated)));
/// ```
pub fn decide(
    run: Option<&RunState>,
    command: Command,
    last_files: Option<LastFiles>,
    now: Timestamp,
) -> Result<Decision, Refusal> {
    match (run, command) {
        (None, Command::Create(started)) => Ok(Decision::of(vec![Fact::own(Event::Started(*started))])),
        (None, _) => Err(Refusal::NotCreated),
        (Some(run), command) => decide_for(run, command, last_files, now),
    }
}

fn decide_for(
    run: &RunState,
    command: Command,
    last_files: Option<LastFiles>,
    now: Timestamp,
) -> Result<Decision, Refusal> {
    let status = run.status();
    // A reply has error codes of its own, and a repeated reply gets the first answer, even after the run has ended.
    if status.is_final() && !matches!(&command, Command::Reply { .. }) {
        return match command {
            // A final run does not change.
            Command::Reconcile { .. } => Ok(Decision::default()),
            _ => Err(Refusal::RunFinal { status }),
        };
    }
    let end = ending(run, &command);
    match command {
        Command::Create(_) => Err(Refusal::AlreadyCreated),
        Command::Upload { files, manifest_sha256, cache_key, package } => {
            if !run.awaiting_upload {
                return Err(Refusal::AlreadyUploaded);
            }
            let uploaded = Uploaded { files, manifest_sha256, cache_key, package };
            Ok(Decision::of(vec![Fact::own(Event::Uploaded(uploaded))]))
        }
        Command::TakeFromCache { source, cache_key } => {
            let hit = Fact::own(Event::CacheHit(CacheHit { source_run_id: source, cache_key }));
            finish(run, vec![hit], end, Trigger::RunCacheHit, last_files, now)
        }
        Command::StartTurn { command, pid, engine_version, parser_version, isolation } => Ok(Decision::of(vec![
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
        ])),
        Command::Record(facts) => match status {
            Status::Running => Ok(Decision::of(facts)),
            _ => Err(Refusal::Illegal { status }),
        },
        Command::EndTurn { facts, conclusion } => match (end, conclusion) {
            (None, Conclusion::NeedsInput(interaction)) => ask(run, facts, interaction, now),
            (end, conclusion) => finish(run, facts, end, trigger_of(&conclusion), last_files, now),
        },
        Command::Reject { .. } => finish(run, Vec::new(), end, Trigger::RunRejected, last_files, now),
        Command::Reply { interaction_id, response, idempotency_key } => {
            reply(run, interaction_id, response, idempotency_key, now).map(Decision::of)
        }
        Command::AutoDecide => auto_decide(run, now).map(Decision::of),
        // A second cancel request changes nothing.
        Command::Cancel { .. } if run.cancel_requested => Ok(Decision::default()),
        Command::Cancel { requested_by, reason } => {
            let request = Fact::own(Event::CancelRequested(CancelRequested { requested_by, reason }));
            match end {
                None => Ok(Decision::of(vec![request])),
                end => finish(run, vec![request], end, Trigger::RunCanceled, last_files, now),
            }
        }
        // What becomes of queued runs is part of `end`.
        Command::Reconcile { facts, restart_queued: _ } => reconcile(run, facts, end, last_files, now),
    }
}

/// End the run: what its last files hold, the state change, the last event. `trigger` is what moves a run that was not
/// canceled.
fn finish(
    run: &RunState,
    mut facts: Vec<Fact>,
    end: Option<Ending>,
    trigger: Trigger,
    last_files: Option<LastFiles>,
    now: Timestamp,
) -> Result<Decision, Refusal> {
    let Some(end) = end else { return Err(Refusal::Illegal { status: run.status() }) };
    let LastFiles { facts: found, evidence } = last_files.ok_or(Refusal::LastFilesMissing)?;
    facts.extend(found);
    let trigger = match &end {
        Ending::Canceled(_) => Trigger::RunCanceled,
        Ending::Succeeded(_) | Ending::Failed(_) => trigger,
    };
    if trigger == Trigger::RestartReconcileFailed {
        facts.push(recovered(RecoveryState::FailedReconciled, failed_reason(run), now));
    }
    facts.push(change(run, trigger, now, None)?);
    Ok(Decision { facts, terminal: Some(Terminal { ending: end, evidence }) })
}

fn trigger_of(conclusion: &Conclusion) -> Trigger {
    match conclusion {
        Conclusion::Succeeded(_) => Trigger::TurnSucceeded,
        Conclusion::Failed(_) => Trigger::TurnFailed,
        Conclusion::NeedsInput(_) => Trigger::TurnNeedsInput,
    }
}

fn ask(run: &RunState, facts: Vec<Fact>, interaction: Interaction, now: Timestamp) -> Result<Decision, Refusal> {
    if run.options.execution_mode != ExecutionMode::Interactive {
        return Err(Refusal::NotInteractive);
    }
    let id = InteractionId(run.interaction_count + 1);
    let change = change(run, Trigger::TurnNeedsInput, now, Some(id))?;
    let mut log = facts;
    log.push(Fact::own(Event::InputRequired(Interaction { interaction_id: id, ..interaction })));
    log.push(change);
    Ok(Decision::of(log))
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
        // The same key and body get the first answer again, at any time; nothing is logged a second time.
        let same = earlier.interaction_id == interaction_id
            && earlier.response_sha256 == sha256_hex(canonical(&response).as_bytes());
        return if same { Ok(Vec::new()) } else { Err(Refusal::IdempotencyConflict) };
    }
    let Phase::WaitingUser(pending) = &run.phase else {
        return Err(Refusal::InteractionNotPending { status: run.status() });
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
    let Phase::WaitingUser(pending) = &run.phase else {
        return Err(Refusal::InteractionNotPending { status: run.status() });
    };
    let timeout_sec = run.options.interactive_reply_timeout_sec;
    let due = pending.asked_at.plus_seconds(timeout_sec) <= now;
    if !run.options.interactive_auto_reply || !due {
        return Err(Refusal::Illegal { status: run.status() });
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

fn reconcile(
    run: &RunState,
    facts: Vec<Fact>,
    end: Option<Ending>,
    last_files: Option<LastFiles>,
    now: Timestamp,
) -> Result<Decision, Refusal> {
    // If the clock was set back, this start must still be later than the question that stays open.
    let now = now.max(run.updated_at);
    if end.is_some() {
        return finish(run, facts, end, Trigger::RestartReconcileFailed, last_files, now);
    }
    match &run.phase {
        // Logged once for each question, however often the service is restarted.
        Phase::WaitingUser(pending) if run.recovered_at.is_none_or(|at| at < pending.asked_at) => {
            Ok(Decision::of(vec![
                recovered(RecoveryState::RecoveredWaiting, "resumable_waiting_preserved", now),
                change(run, Trigger::RestartPreserveWaiting, now, Some(pending.interaction.interaction_id))?,
            ]))
        }
        Phase::WaitingUser(_)
        | Phase::Queued
        | Phase::Running
        | Phase::Asking(_)
        | Phase::Succeeded
        | Phase::Failed
        | Phase::Canceled => Ok(Decision::default()),
    }
}

/// Why a restart ends a run, as its log says it.
fn failed_reason(run: &RunState) -> &'static str {
    match run.status() {
        Status::WaitingUser => "session_handle_invalid",
        Status::Queued | Status::Running | Status::Succeeded | Status::Failed | Status::Canceled => {
            "orchestrator_restart_interrupted"
        }
    }
}

fn recovered(recovery_state: RecoveryState, reason: &str, recovered_at: Timestamp) -> Fact {
    Fact::own(Event::Recovered(Recovered { recovery_state, recovery_reason: reason.to_owned(), recovered_at }))
}

fn change(run: &RunState, trigger: Trigger, now: Timestamp, pending: Option<InteractionId>) -> Result<Fact, Refusal> {
    let status = run.status();
    let Some(to) = target(status, trigger) else {
        return Err(Refusal::Illegal { status });
    };
    // A run that waits for its files is not in the queue yet.
    if run.awaiting_upload && trigger == Trigger::TurnStarted {
        return Err(Refusal::Illegal { status });
    }
    Ok(Fact::own(Event::StateChanged(StateChanged {
        from: status,
        to,
        trigger,
        updated_at: now,
        pending_interaction_id: pending,
    })))
}
