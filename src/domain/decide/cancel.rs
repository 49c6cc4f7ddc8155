//! A cancel: a run at rest ends at once, a running one when its engine has stopped.

use super::decision::{Decision, finish};
use crate::domain::command::{LastFiles, Refusal};
use crate::domain::ending::Ending;
use crate::domain::event::{CancelRequested, Event};
use crate::domain::fact::Fact;
use crate::domain::state::RunState;
use crate::domain::statechart::Trigger;
use crate::domain::time::Timestamp;

/// `end` is how the run ends by the cancel; `None` while its engine runs.
pub(super) fn cancel(
    run: &RunState,
    request: CancelRequested,
    end: Option<Ending>,
    last_files: Option<LastFiles>,
    now: Timestamp,
) -> Result<Decision, Refusal> {
    // A second cancel request changes nothing.
    if run.cancel_requested {
        return Ok(Decision::default());
    }
    let request = Fact::own(Event::CancelRequested(request));
    match end {
        None => Ok(Decision::of(vec![request])),
        end => finish(run, vec![request], end, Trigger::RunCanceled, last_files, now),
    }
}
