//! Answers of users: each question is answered once, and the run is queued with the answer.

use std::time::Duration;

use serde::Serialize;
use serde_json::Value;

use crate::domain::codes::ErrorCode;
use crate::domain::command::{Command, Refusal};
use crate::domain::event::ValidationError;
use crate::domain::ids::{RequestId, RunId};
use crate::domain::interaction::{Interaction, InteractionId};
use crate::domain::request::ExecutionMode;
use crate::domain::state::RunState;
use crate::domain::statechart::Status;
use crate::orchestrator::admission::effects::perform;
use crate::orchestrator::error::Error;
use crate::orchestrator::handle::Orchestrator;
use crate::orchestrator::log::journal::lost_race;
use crate::orchestrator::shared::again::Again;

/// Longest answer as JSON, and longest key of one. The answer goes into the run's row until its turn begins.
const RESPONSE_MAX: usize = 256 * 1024;
const KEY_MAX: usize = 256;
/// How long a reply goes on that somebody else is always faster than.
const RACES_FOR: Duration = Duration::from_secs(15);

/// Answer to an accepted reply.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Replied {
    /// The client's name for the run.
    pub request_id: RequestId,
    /// Where the reply put the run.
    pub status: Status,
    /// Always true: a reply that is not accepted is refused.
    pub accepted: bool,
}

/// The open question of a run.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct PendingQuestion {
    /// The client's name for the run.
    pub request_id: RequestId,
    /// Where the run is.
    pub status: Status,
    pub pending: Option<Interaction>,
}

impl PendingQuestion {
    /// The question that a run in this state waits with.
    pub(crate) fn of(state: &RunState) -> Result<Self, Error> {
        if state.options.execution_mode != ExecutionMode::Interactive {
            return Err(Refusal::NotInteractive.into());
        }
        let pending = state.pending().map(|pending| pending.interaction.clone());
        Ok(Self { request_id: state.request_id, status: state.status(), pending })
    }
}

impl Orchestrator {
    /// The question a run waits with.
    pub async fn pending(&self, run: RunId) -> Result<PendingQuestion, Error> {
        PendingQuestion::of(&self.state(run).await?)
    }

    /// Answer a run's question. The accepted reply and the run's return to the queue are one commit.
    pub async fn reply(
        &self,
        run: RunId,
        interaction_id: InteractionId,
        response: Value,
        idempotency_key: Option<String>,
        requested_by: Option<String>,
    ) -> Result<Replied, Error> {
        check_lengths(&response, idempotency_key.as_deref())?;
        let mut again = Again::within(run, RACES_FOR);
        loop {
            // Held until the run is queued: a cancel in between would end a run that is about to start.
            let _lock = self.shared.run_locks.lock(run).await;
            let mut journal = self.shared.journal(run).await?;
            let before = journal.state().head_seq;
            let command = Command::Reply {
                interaction_id,
                response: response.clone(),
                idempotency_key: idempotency_key.clone(),
                requested_by: requested_by.clone(),
            };
            match journal.commit(command).await {
                Ok(()) => {
                    // A repeat wrote nothing and moves nothing.
                    if journal.state().head_seq > before {
                        perform(&self.shared, journal.state());
                    }
                    let request_id = journal.state().request_id;
                    return Ok(Replied { request_id, status: Status::Queued, accepted: true });
                }
                Err(error) if lost_race(&error) => again.lost(error, &*self.shared.store).await?,
                Err(error) => return Err(error),
            }
        }
    }
}

fn check_lengths(response: &Value, idempotency_key: Option<&str>) -> Result<(), Error> {
    let rejected = |code, path: &str, message: String| {
        let details = vec![ValidationError { path: path.to_owned(), message: message.clone() }];
        Err(Error::Rejected { code, message, details })
    };
    let bytes = response.to_string().len();
    if bytes > RESPONSE_MAX {
        let message = format!("the response is {bytes} bytes of JSON, more than {RESPONSE_MAX}: answer in fewer words");
        return rejected(ErrorCode::PayloadTooLarge, "/response", message);
    }
    if idempotency_key.is_some_and(|key| key.is_empty() || key.len() > KEY_MAX) {
        let message = format!("idempotency_key must have 1 to {KEY_MAX} bytes");
        return rejected(ErrorCode::InvalidRequest, "/idempotency_key", message);
    }
    Ok(())
}
