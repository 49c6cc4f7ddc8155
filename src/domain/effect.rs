//! What the orchestrator has to do for a run in a given state.

use super::state::{Phase, RunState};
use super::time::Timestamp;

/// One thing to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Effect {
    /// Put it in the queue.
    Enqueue,
    /// Supervise its engine until the turn ends.
    Supervise,
    StopEngine,
    /// Put it in the queue at this moment.
    EnqueueAt(Timestamp),
    /// Decide for the user at this moment.
    DecideAt(Timestamp),
    /// Remove the skill package that only this run uses.
    RemovePackage,
    /// Seal its log into a file.
    Seal,
}

/// Everything the orchestrator has to do for the run.
pub(crate) fn effects(run: &RunState) -> Vec<Effect> {
    match &run.phase {
        Phase::Queued if run.awaiting_upload => vec![],
        Phase::Queued if run.retry_at.is_some() => run.retry_at.map(Effect::EnqueueAt).into_iter().collect(),
        Phase::Queued => vec![Effect::Enqueue],
        Phase::Running | Phase::Asking(_) if run.cancel_requested => vec![Effect::Supervise, Effect::StopEngine],
        Phase::Running | Phase::Asking(_) => vec![Effect::Supervise],
        Phase::WaitingUser(pending) if run.decides_without_user() => {
            vec![Effect::DecideAt(pending.asked_at.plus_seconds(run.options.interactive_reply_timeout_sec))]
        }
        Phase::WaitingUser(_) => vec![],
        Phase::Succeeded | Phase::Failed | Phase::Canceled if run.temporary && !run.options.debug_keep_temp => {
            vec![Effect::RemovePackage, Effect::Seal]
        }
        Phase::Succeeded | Phase::Failed | Phase::Canceled => vec![Effect::Seal],
    }
}
