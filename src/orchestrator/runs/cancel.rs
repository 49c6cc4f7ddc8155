//! A cancel, wherever the run is: asked of its actor, or carried out at rest.

use std::time::Duration;

use serde::Serialize;
use tokio::time::Instant;
use tracing::info;

use crate::domain::command::{Command, Refusal};
use crate::domain::ids::{RequestId, RunId};
use crate::domain::statechart::Status;
use crate::orchestrator::error::Error;
use crate::orchestrator::handle::Orchestrator;
use crate::orchestrator::log::journal::{lost_race, met_final, not_owner};
use crate::orchestrator::runs::actor;
use crate::orchestrator::shared::again::Again;
use crate::orchestrator::turn::at_rest;
use crate::store::{self, Control};

/// When a service that was asked to stop a run is asked again.
const ASKED_AGAIN_AFTER: Duration = Duration::from_secs(2);
/// When a run that nobody works on is looked at again.
const LOOKED_AGAIN_AFTER: Duration = Duration::from_millis(50);
/// How long a cancel goes on that somebody else is always faster than.
const RACES_FOR: Duration = Duration::from_secs(15);

/// Answer to a cancel.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Canceled {
    /// The client's name for the run.
    pub request_id: RequestId,
    pub run_id: RunId,
    /// Where it is now.
    pub status: Status,
    /// Whether the cancel has an effect.
    pub accepted: bool,
    pub message: String,
}

impl Orchestrator {
    /// Stop a run, wherever it is.
    pub async fn cancel(&self, run: RunId, requested_by: &str, reason: &str) -> Result<Canceled, Error> {
        let mut again = Again::within(run, RACES_FOR);
        loop {
            let outcome = match self.shared.live.cancel(run, requested_by, reason).await {
                Some(outcome) => outcome,
                None => self.cancel_at_rest(run, requested_by, reason).await,
            };
            match outcome {
                Ok(status) => {
                    info!(run.id = %run, status = status.as_str(), requested_by, "cancel accepted");
                    let message = if status.is_final() { "the run is canceled" } else { "the run is being stopped" };
                    return self.canceled(run, status, true, message).await;
                }
                Err(error) if not_owner(&error) => {
                    if let Some(canceled) = self.cancel_elsewhere(run, requested_by, reason).await? {
                        return Ok(canceled);
                    }
                }
                // Somebody else wrote first, or it has got an actor: look again.
                Err(error) if lost_race(&error) => again.lost(error, &*self.shared.store).await?,
                Err(error) => {
                    let Some(status) = met_final(&error) else { return Err(error) };
                    return self.canceled(run, status, false, "the run is over already").await;
                }
            }
        }
    }

    /// Asks the service that works on the run; `None` if there may be no such service any more.
    async fn cancel_elsewhere(&self, run: RunId, requested_by: &str, reason: &str) -> Result<Option<Canceled>, Error> {
        let Some(member) = &self.shared.member else { return Ok(None) };
        // Watch before asking: an append between the two would be missed.
        let mut head = self.shared.log.watch(run);
        let control = Control::Cancel { requested_by: requested_by.into(), reason: reason.into() };
        let is_asked = member.cluster.ask(run, control).await?;
        // Where nobody has it, its service may have died, or has just given it back.
        let patience = if is_asked { ASKED_AGAIN_AFTER } else { LOOKED_AGAIN_AFTER };
        let deadline = Instant::now() + patience;
        loop {
            let state = self.state(run).await?;
            let status = state.status();
            let message = match (status, state.cancel_requested) {
                (Status::Canceled, _) => "the run is canceled",
                (_, true) if !status.is_final() => "the run is being stopped",
                _ if status.is_final() => {
                    return Ok(Some(self.canceled(run, status, false, "the run is over already").await?));
                }
                _ => match tokio::time::timeout_at(deadline, head.changed()).await {
                    Ok(Ok(())) => continue,
                    // Its log was sealed, so it is over.
                    Ok(Err(_)) => {
                        tokio::time::sleep(LOOKED_AGAIN_AFTER).await;
                        return Ok(None);
                    }
                    Err(_) => return Ok(None),
                },
            };
            return Ok(Some(self.canceled(run, status, true, message).await?));
        }
    }

    async fn cancel_at_rest(&self, run: RunId, requested_by: &str, reason: &str) -> Result<Status, Error> {
        let shared = &self.shared;
        let _lock = shared.run_locks.lock(run).await;
        // Whoever had the lock before may have let it start. If not, it is taken out of the queue: nobody starts it any
        // more while it is being ended.
        let was_queued = {
            let live = shared.live.lock();
            if live.contains(run) { None } else { Some(shared.queue.remove(run)) }
        };
        let Some(was_queued) = was_queued else { return Err(self.conflict(run).await?) };
        let ended = self.end_at_rest(run, requested_by, reason).await;
        if let (Some(ticket), Err(_)) = (was_queued, &ended) {
            // It could not be ended, so it goes back into the queue; the dispatcher skips one that is over by now.
            shared.queue.requeue(ticket);
        }
        ended
    }

    async fn end_at_rest(&self, run: RunId, requested_by: &str, reason: &str) -> Result<Status, Error> {
        let shared = &self.shared;
        let mut journal = shared.journal(run).await?;
        let status = journal.state().status();
        if status.is_final() {
            return Err(Refusal::RunFinal { status }.into());
        }
        if status == Status::Running {
            if let Some(member) = &shared.member {
                if !member.cluster.owns(run) {
                    return Err(store::Error::NotOwner.into());
                }
                if !shared.live.contains(run) {
                    // This service took it over from one that is gone, and is about to say what became of it.
                    tokio::time::sleep(LOOKED_AGAIN_AFTER).await;
                    return Err(self.conflict(run).await?);
                }
            }
            // Unless it has got its actor meanwhile, or its actor has just ended it, nobody drives it any more: its actor
            // broke and could not log it. Either the run is failed now, or the cancel is refused.
            if !shared.live.contains(run) && !self.state(run).await?.status().is_final() {
                let broken = Error::io("drive the run")(std::io::Error::other("its actor is gone"));
                actor::give_up(shared, run, &broken).await?;
            }
            return Err(self.conflict(run).await?);
        }
        let (requested_by, reason) = (requested_by.into(), reason.into());
        at_rest::commit(shared, &mut journal, Command::Cancel { requested_by, reason }).await?;
        Ok(journal.state().status())
    }

    /// The run has moved: whoever decided on what it was looks again.
    async fn conflict(&self, run: RunId) -> Result<Error, Error> {
        Ok(store::Error::Conflict { actual: self.state(run).await?.head_seq }.into())
    }

    async fn canceled(&self, run: RunId, status: Status, accepted: bool, message: &str) -> Result<Canceled, Error> {
        let request_id = self.state(run).await?.request_id;
        Ok(Canceled { request_id, run_id: run, status, accepted, message: message.into() })
    }
}
