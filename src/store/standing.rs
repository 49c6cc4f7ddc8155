//! Where a run is in the queue of all services, as its row says.

use crate::domain::fair_queue::{ShareRule, Ticket};
use crate::domain::state::RunState;
use crate::domain::statechart::Status;
use crate::domain::{Effect, effects};
use crate::fcmp::LogHead;

use super::Labels;

/// What follows from a run's row for services that share the store.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Standing {
    /// Whether it is in the queue, or is to be from `not_before` on.
    pub(super) waits: bool,
    /// Microseconds after the epoch, as all times here.
    pub(super) not_before: Option<i64>,
    /// When somebody has to decide for the user.
    pub(super) due_at: Option<i64>,
    /// As what it is queued; not known of a run that is not. Where it was queued before, it counts as that.
    pub(super) queued: Option<Queued>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Queued {
    pub(super) ticket: Ticket,
    /// Runs with the same key have the same result.
    pub(super) shared_key: Option<String>,
}

impl Standing {
    /// That of a row; most are not read for it, because a run at work has none.
    pub(super) fn of_row(row: &[u8], labels: &Labels, rule: &ShareRule) -> Standing {
        match labels.status {
            Status::Queued | Status::WaitingUser => Standing::of_any(row, rule),
            Status::Running | Status::Succeeded | Status::Failed | Status::Canceled => Standing::default(),
        }
    }

    /// The same, also of a run at work: as what it was queued.
    pub(super) fn of_any(row: &[u8], rule: &ShareRule) -> Standing {
        LogHead::from_row(row).map_or_else(|_| Standing::default(), |head| Standing::of(&head.state, rule))
    }

    fn of(state: &RunState, rule: &ShareRule) -> Standing {
        let ticket = Ticket {
            run: state.run_id,
            priority: state.priority,
            share: rule.share_of(&state.labels, state.requested_by.as_deref()),
            engine: state.engine.clone(),
            skill: state.skill.id.clone(),
        };
        let queued = Some(Queued { ticket, shared_key: state.shared_key().map(str::to_owned) });
        let mut standing = Standing { queued, ..Standing::default() };
        for effect in effects(state) {
            match effect {
                Effect::Enqueue => standing.waits = true,
                Effect::EnqueueAt(moment) => {
                    (standing.waits, standing.not_before) = (true, Some(moment.as_micros()));
                }
                Effect::DecideAt(moment) => standing.due_at = Some(moment.as_micros()),
                Effect::Supervise | Effect::StopEngine | Effect::RemovePackage | Effect::Seal => {}
            }
        }
        standing
    }
}
