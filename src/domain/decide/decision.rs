//! What a decision consists of, and the two ways every run moves: a change of state, and its end.

use crate::domain::command::{LastFiles, Refusal};
use crate::domain::ending::{Ending, Terminal};
use crate::domain::event::{Event, Recovered, RecoveryState, StateChanged};
use crate::domain::fact::Fact;
use crate::domain::interaction::InteractionId;
use crate::domain::state::RunState;
use crate::domain::statechart::{Status, Trigger, target};
use crate::domain::time::Timestamp;

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

    pub(super) fn of(facts: Vec<Fact>) -> Self {
        Self { facts, terminal: None }
    }
}

/// End the run: what its last files hold, the state change, the last event. `trigger` is what moves a run that was not
/// canceled.
pub(super) fn finish(
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

/// Why a restart ends a run, as its log says it.
fn failed_reason(run: &RunState) -> &'static str {
    match run.status() {
        Status::WaitingUser => "session_handle_invalid",
        Status::Queued | Status::Running | Status::Succeeded | Status::Failed | Status::Canceled => {
            "orchestrator_restart_interrupted"
        }
    }
}

pub(super) fn recovered(recovery_state: RecoveryState, reason: &str, recovered_at: Timestamp) -> Fact {
    Fact::own(Event::Recovered(Recovered { recovery_state, recovery_reason: reason.to_owned(), recovered_at }))
}

pub(super) fn change(
    run: &RunState,
    trigger: Trigger,
    now: Timestamp,
    pending: Option<InteractionId>,
) -> Result<Fact, Refusal> {
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
