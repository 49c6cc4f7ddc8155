//! What the shell owes a run in a given state.

use super::state::RunState;
use super::statechart::Status;
use super::time::Timestamp;

/// One thing to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Effect {
    /// Put it in the queue.
    Enqueue,
    /// See its engine's turn through to the end.
    Supervise,
    /// Stop its engine.
    StopEngine,
    /// Decide for the user at this moment.
    DecideAt(Timestamp),
    /// Remove the package that was this run's alone.
    RemovePackage,
    /// Seal its log into a file.
    Seal,
}

/// Everything the shell owes.
pub fn effects(run: &RunState) -> Vec<Effect> {
    match run.status {
        Status::Queued if run.awaiting_upload => vec![],
        Status::Queued => vec![Effect::Enqueue],
        Status::Running if run.cancel_requested => vec![Effect::Supervise, Effect::StopEngine],
        Status::Running => vec![Effect::Supervise],
        Status::WaitingUser => match &run.pending {
            Some(pending) if run.options.interactive_auto_reply => {
                vec![Effect::DecideAt(pending.asked_at.plus_seconds(run.options.interactive_reply_timeout_sec))]
            }
            Some(_) | None => vec![],
        },
        Status::Succeeded | Status::Failed | Status::Canceled if run.temporary && !run.options.debug_keep_temp => {
            vec![Effect::RemovePackage, Effect::Seal]
        }
        Status::Succeeded | Status::Failed | Status::Canceled => vec![Effect::Seal],
    }
}
