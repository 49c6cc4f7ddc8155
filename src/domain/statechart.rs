//! The state machine of a run, as one table.

use serde::{Deserialize, Serialize};

/// Where a run is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Status {
    /// Waits for its turn.
    Queued,
    /// An engine is at work.
    Running,
    /// A question is open.
    WaitingUser,
    Succeeded,
    Failed,
    Canceled,
}

impl Status {
    /// Every status, first to last.
    pub const ALL: [Status; 6] =
        [Status::Queued, Status::Running, Status::WaitingUser, Status::Succeeded, Status::Failed, Status::Canceled];

    /// Whether nothing can follow.
    pub fn is_final(self) -> bool {
        match self {
            Status::Queued | Status::Running | Status::WaitingUser => false,
            Status::Succeeded | Status::Failed | Status::Canceled => true,
        }
    }

    /// As it is written.
    pub fn as_str(self) -> &'static str {
        match self {
            Status::Queued => "queued",
            Status::Running => "running",
            Status::WaitingUser => "waiting_user",
            Status::Succeeded => "succeeded",
            Status::Failed => "failed",
            Status::Canceled => "canceled",
        }
    }
}

/// What moves a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(crate) enum Trigger {
    /// An engine process was started.
    #[serde(rename = "turn.started")]
    TurnStarted,
    /// The turn ended with a question.
    #[serde(rename = "turn.needs_input")]
    TurnNeedsInput,
    /// The turn ended with the result.
    #[serde(rename = "turn.succeeded")]
    TurnSucceeded,
    #[serde(rename = "turn.failed")]
    TurnFailed,
    /// The turn failed and is to be begun again.
    #[serde(rename = "turn.retry")]
    TurnRetry,
    /// A reply was accepted.
    #[serde(rename = "interaction.reply.accepted")]
    ReplyAccepted,
    #[serde(rename = "interaction.auto_decide.timeout")]
    AutoDecideTimeout,
    #[serde(rename = "run.canceled")]
    RunCanceled,
    /// A restart keeps the question open.
    #[serde(rename = "restart.preserve_waiting")]
    RestartPreserveWaiting,
    /// A restart ends the run.
    #[serde(rename = "restart.reconcile_failed")]
    RestartReconcileFailed,
    /// An equal run's result was taken.
    #[serde(rename = "run.cache_hit")]
    RunCacheHit,
    /// The run cannot start.
    #[serde(rename = "run.rejected")]
    RunRejected,
}

/// One row of the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Transition {
    /// Its name in the contract.
    pub(crate) id: &'static str,
    pub(crate) from: Status,
    pub(crate) trigger: Trigger,
    pub(crate) to: Status,
}

const fn row(id: &'static str, from: Status, trigger: Trigger, to: Status) -> Transition {
    Transition { id, from, trigger, to }
}

pub(crate) const TRANSITIONS: &[Transition] = &[
    row("TR-01", Status::Queued, Trigger::TurnStarted, Status::Running),
    row("TR-02", Status::Running, Trigger::TurnNeedsInput, Status::WaitingUser),
    row("TR-03", Status::WaitingUser, Trigger::ReplyAccepted, Status::Queued),
    row("TR-04", Status::WaitingUser, Trigger::AutoDecideTimeout, Status::Queued),
    row("TR-05", Status::Running, Trigger::TurnSucceeded, Status::Succeeded),
    row("TR-06", Status::Running, Trigger::TurnFailed, Status::Failed),
    row("TR-07", Status::WaitingUser, Trigger::RunCanceled, Status::Canceled),
    row("TR-08", Status::Queued, Trigger::RunCanceled, Status::Canceled),
    row("TR-09", Status::Running, Trigger::RunCanceled, Status::Canceled),
    row("TR-10", Status::WaitingUser, Trigger::RestartPreserveWaiting, Status::WaitingUser),
    row("TR-11", Status::WaitingUser, Trigger::RestartReconcileFailed, Status::Failed),
    row("TR-12", Status::Queued, Trigger::RestartReconcileFailed, Status::Failed),
    row("TR-13", Status::Running, Trigger::RestartReconcileFailed, Status::Failed),
    row("TR-14", Status::Queued, Trigger::RunCacheHit, Status::Succeeded),
    row("TR-15", Status::Queued, Trigger::RunRejected, Status::Failed),
    row("TR-16", Status::Running, Trigger::TurnRetry, Status::Queued),
];

/// The status after a trigger; `None` if the transition does not exist.
pub(crate) fn target(from: Status, trigger: Trigger) -> Option<Status> {
    TRANSITIONS.iter().find(|row| row.from == from && row.trigger == trigger).map(|row| row.to)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn final_states_have_no_way_out_and_every_other_state_reaches_one() {
        for status in Status::ALL {
            let ways: Vec<_> = TRANSITIONS.iter().filter(|row| row.from == status).collect();
            assert_eq!(ways.is_empty(), status.is_final(), "{status:?}");
            assert!(status.is_final() || ways.iter().any(|row| row.to.is_final()), "{status:?}");
        }
    }

    #[test]
    fn no_state_has_two_rows_for_one_trigger() {
        for (i, a) in TRANSITIONS.iter().enumerate() {
            assert!(!TRANSITIONS[i + 1..].iter().any(|b| a.from == b.from && a.trigger == b.trigger), "{}", a.id);
        }
    }
}
