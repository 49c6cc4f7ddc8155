//! What becomes of a run when the service was restarted, or ends.

use super::decision::{Decision, change, finish, recovered};
use crate::domain::command::{LastFiles, Refusal};
use crate::domain::ending::Ending;
use crate::domain::event::RecoveryState;
use crate::domain::fact::Fact;
use crate::domain::state::{Phase, RunState};
use crate::domain::statechart::Trigger;
use crate::domain::time::Timestamp;

pub(super) fn reconcile(
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
        Phase::WaitingUser(pending) if run.is_restart_unnoted() => Ok(Decision::of(vec![
            recovered(RecoveryState::RecoveredWaiting, "resumable_waiting_preserved", now),
            change(run, Trigger::RestartPreserveWaiting, now, Some(pending.interaction.interaction_id))?,
        ])),
        Phase::WaitingUser(_)
        | Phase::Queued
        | Phase::Running
        | Phase::Asking(_)
        | Phase::Succeeded
        | Phase::Failed
        | Phase::Canceled => Ok(Decision::default()),
    }
}
