//! The start and the end of a turn.

use super::decision::{Decision, change, finish};
use crate::domain::command::{Conclusion, LastFiles, Refusal};
use crate::domain::ending::Ending;
use crate::domain::event::{Event, RetryScheduled, TurnStarted};
use crate::domain::fact::Fact;
use crate::domain::interaction::{Interaction, InteractionId};
use crate::domain::outcome::RunError;
use crate::domain::request::ExecutionMode;
use crate::domain::state::RunState;
use crate::domain::statechart::Trigger;
use crate::domain::time::Timestamp;

pub(super) fn start(run: &RunState, started: TurnStarted, now: Timestamp) -> Result<Decision, Refusal> {
    Ok(Decision::of(vec![
        change(run, Trigger::TurnStarted, now, None)?,
        Fact::own(Event::TurnStarted(Box::new(started))),
    ]))
}

pub(super) fn end(
    run: &RunState,
    facts: Vec<Fact>,
    conclusion: Conclusion,
    end: Option<Ending>,
    last_files: Option<LastFiles>,
    now: Timestamp,
) -> Result<Decision, Refusal> {
    match (end, conclusion) {
        (None, Conclusion::NeedsInput(interaction)) => ask(run, facts, interaction, now),
        (None, Conclusion::Transient { error, retry_after_seconds }) => {
            begin_again(run, facts, error, retry_after_seconds, now)
        }
        (end, conclusion) => finish(run, facts, end, trigger_of(&conclusion), last_files, now),
    }
}

fn trigger_of(conclusion: &Conclusion) -> Trigger {
    match conclusion {
        Conclusion::Succeeded(_) => Trigger::TurnSucceeded,
        Conclusion::Failed(_) | Conclusion::Transient { .. } => Trigger::TurnFailed,
        Conclusion::NeedsInput(_) => Trigger::TurnNeedsInput,
    }
}

/// The run waits outside the queue until its turn may be begun again.
fn begin_again(
    run: &RunState,
    mut facts: Vec<Fact>,
    error: RunError,
    asked: Option<u64>,
    now: Timestamp,
) -> Result<Decision, Refusal> {
    let Some(retry) = run.options.retry else { return Err(Refusal::Illegal { status: run.status() }) };
    let wait_seconds = retry.wait_seconds(run.retries, asked);
    facts.push(Fact::own(Event::RetryScheduled(Box::new(RetryScheduled {
        retry: run.retries + 1,
        times: retry.times,
        not_before: now.plus_seconds(wait_seconds),
        wait_seconds,
        error: error.bounded(),
    }))));
    facts.push(change(run, Trigger::TurnRetry, now, None)?);
    Ok(Decision::of(facts))
}

fn ask(run: &RunState, facts: Vec<Fact>, interaction: Interaction, now: Timestamp) -> Result<Decision, Refusal> {
    if run.options.execution_mode != ExecutionMode::Interactive {
        return Err(Refusal::NotInteractive);
    }
    let id = InteractionId(run.interaction_count + 1);
    let change = change(run, Trigger::TurnNeedsInput, now, Some(id))?;
    let mut log = facts;
    log.push(Fact::own(Event::InputRequired(Box::new(Interaction { interaction_id: id, ..interaction }))));
    log.push(change);
    Ok(Decision::of(log))
}
