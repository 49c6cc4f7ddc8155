//! Moments of runs at rest: a question that nobody answered is decided, a turn is begun again. The time is the wall clock's, across
//! restarts.

use std::collections::BTreeSet;
use std::sync::{Arc, Weak};
use std::time::Duration;

use tokio::sync::mpsc;
use tracing::warn;

use crate::domain::causes::chain;
use crate::domain::command::{Command, Refusal};
use crate::domain::ids::RunId;
use crate::domain::statechart::Status;
use crate::domain::time::Timestamp;
use crate::orchestrator::admission::effects::perform;
use crate::orchestrator::environment::{Clock, unbroken};
use crate::orchestrator::error::Error;
use crate::orchestrator::log::journal::lost_race;
use crate::orchestrator::shared::Shared;
use crate::orchestrator::shared::again::Again;

/// Longest wait: the wall clock may be set meanwhile.
const NAP: Duration = Duration::from_secs(30);

/// When a decision that could not be logged is tried again.
const AGAIN_AFTER_SECONDS: u64 = 5;

/// How long a decision goes on that somebody else is always faster than: what is due for others waits meanwhile.
const RACES_FOR: Duration = Duration::from_secs(1);

/// Decide whatever is due, until the service ends.
pub(crate) async fn watch(
    shared: Weak<Shared>,
    clock: Arc<dyn Clock>,
    mut orders: mpsc::UnboundedReceiver<(Timestamp, RunId)>,
) {
    let mut due: BTreeSet<(Timestamp, RunId)> = BTreeSet::new();
    loop {
        let nap = due.first().map_or(NAP, |(moment, _)| until(*moment, clock.now()).min(NAP));
        tokio::select! {
            // In a fixed order, so that two equal simulations go the same way.
            biased;
            order = orders.recv() => match order {
                Some(order) => { due.insert(order); }
                None => return,
            },
            () = tokio::time::sleep(nap) => {}
        }
        let now = clock.now();
        while let Some(run) = take_due(&mut due, now) {
            let Some(shared) = shared.upgrade() else { return };
            let decided = unbroken("decide what is due", decide(&shared, run)).await;
            if let Some(Err(error)) = &decided {
                warn!(run.id = %run, error = %chain(error), "what was due for a run could not be done; trying again");
            }
            if !matches!(decided, Some(Ok(()))) {
                due.insert((now.plus_seconds(AGAIN_AFTER_SECONDS), run));
            }
        }
    }
}

/// The run whose moment came first, if it has come; it is not among the others any more.
fn take_due(due: &mut BTreeSet<(Timestamp, RunId)>, now: Timestamp) -> Option<RunId> {
    let first = due.first().copied().filter(|(moment, _)| *moment <= now)?;
    due.remove(&first);
    Some(first.1)
}

fn until(moment: Timestamp, now: Timestamp) -> Duration {
    let micros = moment.as_micros().saturating_sub(now.as_micros());
    Duration::from_micros(u64::try_from(micros).unwrap_or(0))
}

/// If a user answers at the same moment, either the answer or this decision is logged, never both.
pub(crate) async fn decide(shared: &Arc<Shared>, run: RunId) -> Result<(), Error> {
    let mut again = Again::within(run, RACES_FOR);
    loop {
        // Not while a cancel writes the run's last files: the turn to come would find them.
        let _lock = shared.run_locks.lock(run).await;
        let mut journal = shared.journal(run).await?;
        if journal.state().status() == Status::Queued {
            // Whoever was answered or woken meanwhile has no such moment.
            if journal.state().retry_at.is_some_and(|moment| moment <= shared.clock.now()) {
                shared.queue.requeue(shared.ticket(journal.state()));
            }
            return Ok(());
        }
        match journal.commit(Command::AutoDecide).await {
            Ok(()) => {
                perform(shared, journal.state());
                return Ok(());
            }
            Err(error) if lost_race(&error) => again.lost(error, &*shared.store).await?,
            // Answered, canceled or asked anew meanwhile: there is nothing to decide.
            Err(Error::Refused(
                Refusal::InteractionNotPending { .. } | Refusal::RunFinal { .. } | Refusal::Illegal { .. },
            )) => return Ok(()),
            Err(error) => return Err(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;

    #[test]
    fn whatever_is_due_is_taken_in_order_and_what_is_not_keeps_nothing_back() {
        let (run, at) = (|n| RunId(Uuid::from_u128(n)), Timestamp::from_micros);
        let mut due = BTreeSet::from([(at(30), run(1)), (at(10), run(2)), (at(20), run(3)), (at(20), run(4))]);
        assert_eq!(take_due(&mut due, at(9)), None);
        let taken: Vec<RunId> = std::iter::from_fn(|| take_due(&mut due, at(20))).collect();
        assert_eq!(taken, [run(2), run(3), run(4)]);
        assert_eq!(due, BTreeSet::from([(at(30), run(1))]));
    }
}
