//! What follows when a run has moved: it is queued, sealed, decided later; runs that waited for its result go on.

use std::sync::Arc;

use tracing::{info, warn};

use crate::domain::causes::chain;
use crate::domain::state::RunState;
use crate::domain::statechart::Status;
use crate::domain::{Effect, effects};
use crate::orchestrator::admission::cache::{self, Wanted};
use crate::orchestrator::admission::spent_config;
use crate::orchestrator::error::Error;
use crate::orchestrator::log::journal::{lost_race, met_final};
use crate::orchestrator::packages::temporary;
use crate::orchestrator::shared::Shared;
use crate::orchestrator::shared::single_flight::Follower;

/// Do what a run in this state needs.
pub(crate) fn perform(shared: &Arc<Shared>, state: &RunState) {
    for effect in effects(state) {
        match effect {
            Effect::Enqueue => shared.queue.requeue(shared.ticket(state)),
            Effect::Seal => {
                tell_end(shared, state);
                shared.awaiting_files.release(state.run_id);
                shared.sealer.seal_soon(state.run_id);
                leader_ended(shared, state);
                spent_config::remove_soon(shared, state);
            }
            Effect::RemovePackage => temporary::remove_soon(shared, state),
            Effect::DecideAt(moment) | Effect::EnqueueAt(moment) => shared.deadlines.at(moment, state.run_id),
            // The actor of a running run sees to these itself.
            Effect::Supervise | Effect::StopEngine => {}
        }
    }
}

/// The one line that every run leaves at its end, and its trace.
pub(crate) fn tell_end(shared: &Shared, state: &RunState) {
    if !shared.ended_runs.tell(state.run_id) {
        shared.metrics.exported("traces", 1, false);
    }
    let duration_ms = state.updated_at.as_micros().saturating_sub(state.created_at.as_micros()) / 1000;
    let code = state.error.as_ref().map_or("none", |error| error.code.as_str());
    let status = state.status().as_str();
    info!(run.id = %state.run_id, request.id = %state.request_id, status, code, duration_ms, "run ended");
}

/// The same for a run of an earlier process of the service. A run that may find an equal run's result is returned: it is to be
/// woken once the service is ready.
pub(crate) async fn perform_again(shared: &Arc<Shared>, state: &RunState) -> Option<Follower> {
    let run = state.run_id;
    let mut later = None;
    for effect in effects(state) {
        match effect {
            Effect::Enqueue => later = enter_again(shared, state).await,
            Effect::Seal => {
                shared.sealer.seal_anew(vec![run]);
                spent_config::remove_soon(shared, state);
            }
            Effect::RemovePackage => temporary::remove_soon(shared, state),
            // Nothing runs after a restart.
            Effect::Supervise | Effect::StopEngine => {}
            Effect::DecideAt(moment) => shared.deadlines.at(moment, run),
            Effect::EnqueueAt(moment) => {
                // It still leads the equal runs that follow it.
                if let Some(key) = state.shared_key() {
                    let _ = shared.single_flight.follow(key, Follower { ticket: shared.ticket(state), place: None });
                }
                shared.deadlines.at(moment, run);
            }
        }
    }
    later
}

/// A run that exists waits for the equal one that leads; if that is over meanwhile, it goes on at once.
pub(crate) fn follow(shared: &Arc<Shared>, key: &str, follower: Follower) {
    if let Some(leader) = shared.single_flight.follow(key, follower) {
        wake(shared, vec![leader]);
    }
}

/// A run is over: whoever followed it goes on. To call this twice does no harm.
pub(crate) fn leader_ended(shared: &Arc<Shared>, state: &RunState) {
    if let Some(key) = state.shared_key() {
        let with_result = state.status() == Status::Succeeded;
        wake(shared, shared.single_flight.ended(key, state.run_id, with_result));
    }
}

/// A queued run of an earlier process leads or follows again. It is returned if a result may be there for it: then it is to be
/// woken once the service is ready.
async fn enter_again(shared: &Arc<Shared>, state: &RunState) -> Option<Follower> {
    let ticket = shared.ticket(state);
    let Some(key) = state.shared_key() else {
        shared.queue.requeue(ticket);
        return None;
    };
    let leader = shared.single_flight.follow(key, Follower { ticket: ticket.clone(), place: None })?;
    if cache::find(shared, key).await.is_ok_and(|entry| entry.is_some()) {
        return Some(leader);
    }
    shared.queue.requeue(ticket);
    None
}

/// Let runs that followed take the result, or run themselves.
pub(crate) fn wake(shared: &Arc<Shared>, followers: Vec<Follower>) {
    for follower in followers {
        let (owned, ticket) = (shared.clone(), follower.ticket.clone());
        shared.tasks.spawn(async move {
            let _lock = owned.run_locks.lock(ticket.run).await;
            if let Err(error) = advance(&owned, follower).await {
                warn!(run.id = %ticket.run, error = %chain(&error), "no equal run's result could be taken; the run starts itself");
                owned.queue.requeue(ticket);
            }
        });
    }
}

async fn advance(shared: &Arc<Shared>, follower: Follower) -> Result<(), Error> {
    let state = shared.log.head(follower.ticket.run).await?.state;
    if state.status().is_final() {
        leader_ended(shared, &state);
        return Ok(());
    }
    let Some(wanted) = Wanted::of(&state) else { return Ok(()) };
    match finish_from_cache(shared, &state, &wanted).await {
        Ok(true) => return Ok(()),
        Ok(false) => {}
        // Whoever ended it sees to the rest.
        Err(error) if lost_race(&error) || met_final(&error).is_some() => return Ok(()),
        Err(error) => return Err(error),
    }
    let Some(leader) = shared.single_flight.follow(&wanted.key, follower) else { return Ok(()) };
    match leader.place {
        Some(place) => place.enter(leader.ticket),
        None => shared.queue.requeue(leader.ticket),
    }
    Ok(())
}

/// The cached result for a queued run, logged; whether there was one.
pub(crate) async fn finish_from_cache(shared: &Arc<Shared>, state: &RunState, wanted: &Wanted) -> Result<bool, Error> {
    let Ok(Some(entry)) = cache::find(shared, &wanted.key).await else { return Ok(false) };
    let held = shared.ensure_files(state).await?;
    let Some(step) = cache::take(shared, wanted, entry).await else { return Ok(false) };
    let mut journal = shared.journal(state.run_id).await?;
    let along = shared.files_after(state, step.last_files.as_ref()).await?;
    let mark = along.mark.clone();
    journal.commit_with(step, along).await?;
    held.settled(shared.files(), mark).await;
    perform(shared, journal.state());
    Ok(true)
}
