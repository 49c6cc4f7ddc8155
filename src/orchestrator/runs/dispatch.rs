//! Starts queued runs while slots are free, each with an actor of its own.

use std::sync::{Arc, Weak};

use tracing::field::Empty;
use tracing::{Instrument, debug, error, error_span, warn};

use crate::domain::causes::chain;
use crate::domain::ids::RunId;
use crate::orchestrator::admission::effects::leader_ended;
use crate::orchestrator::environment::unbroken;
use crate::orchestrator::error::Error;
use crate::orchestrator::runs::actor::{self, Left};
use crate::orchestrator::shared::Shared;
use crate::orchestrator::shared::context::bounds;
use crate::orchestrator::shared::live::Mailbox;
use crate::orchestrator::shared::membership::Membership;
use crate::orchestrator::shared::queue::Queue;
use crate::store;

/// Start runs as they become ready, until the service ends.
pub(crate) async fn dispatch(shared: Weak<Shared>, queue: Arc<Queue>, closing: tokio_util::sync::CancellationToken) {
    loop {
        match shared.upgrade() {
            Some(shared) => {
                let round = async {
                    if let Some(member) = &shared.member {
                        take_from_store(&shared, member).await;
                    }
                    start_ready(&shared);
                };
                unbroken("start queued runs", round).await;
            }
            None => return,
        }
        tokio::select! {
            // In a fixed order, so that two equal simulations go the same way.
            biased;
            () = closing.cancelled() => return,
            () = queue.changed() => {}
        }
    }
}

/// Takes as many runs from the queue of all services as can start here.
async fn take_from_store(shared: &Arc<Shared>, member: &Membership) {
    let free = shared.queue.free_slots();
    if free == 0 || !member.starts_runs() {
        return;
    }
    let _taking = member.taking.lock().await;
    let taken = match member.cluster.take(free, &bounds(&shared.settings.runs)).await {
        Ok(taken) => taken,
        Err(error) => return debug!(error = %chain(&error), "no runs could be taken from the queue; trying again"),
    };
    let mut tickets = Vec::with_capacity(taken.len());
    for run in taken {
        match shared.log.head(run).await {
            Ok(head) => tickets.push(shared.ticket(&head.state)),
            Err(error) => {
                warn!(run.id = %run, error = %chain(&error), "a run that was taken from the queue cannot be read");
                if is_damaged(&error) {
                    set_aside(shared, member, run);
                } else {
                    give_back(shared, member, run).await;
                }
            }
        }
    }
    shared.queue.taken(tickets);
}

/// Whether every service will find the row as this one did.
fn is_damaged(error: &Error) -> bool {
    matches!(error, Error::Corrupt { .. } | Error::RunNotFound { .. } | Error::Store(store::Error::Corrupt { .. }))
}

/// Lets another service have the run, unless it was taken from the queue again. To be called while nothing is taken.
pub(crate) async fn give_back(shared: &Shared, member: &Membership, run: RunId) {
    if member.cluster.owns(run)
        && !shared.queue.holds(run)
        && !shared.live.contains(run)
        // An actor that was overtaken does not give back what recovery has taken since.
        && !member.is_recovering(run)
        && let Err(error) = member.cluster.release(run).await
    {
        warn!(run.id = %run, error = %chain(&error), "a run could not be given back; trying again");
        member.not_given_back(run);
    }
}

/// Keeps a run for a while that can be neither driven nor failed, and then lets others have it: given back at once, it would be the next
/// to be taken, and nobody else's run would ever be.
pub(crate) fn set_aside(shared: &Arc<Shared>, member: &Membership, run: RunId) {
    let pause = member.set_aside_for(run);
    warn!(run.id = %run, seconds = pause.as_secs(), "the run is set aside for a while, so that others have their turn");
    let shared = Arc::downgrade(shared);
    tokio::spawn(async move {
        tokio::time::sleep(pause).await;
        let Some(shared) = shared.upgrade() else { return };
        let Some(member) = &shared.member else { return };
        let _taking = member.taking.lock().await;
        if !member.cluster.owns(run) {
            // Somebody has moved it on.
            member.settled(run);
        }
        give_back(&shared, member, run).await;
    });
}

fn start_ready(shared: &Arc<Shared>) {
    // Leaving the queue and getting an actor is one step for whoever holds this lock: a cancel meets one or the other.
    let mut live = shared.live.lock();
    while let Some(run) = shared.queue.next() {
        let mailbox = live.enter(run);
        // At the level of errors, so that no log level removes the ids from the lines it leaves.
        let span = error_span!(parent: None, "run", run.id = %run, request.id = Empty);
        shared.tasks.spawn(drive(shared.clone(), run, mailbox).instrument(span));
    }
}

async fn drive(shared: Arc<Shared>, run: RunId, mailbox: Mailbox) {
    // In a task of its own, so that a panic costs one run and no slot.
    let driven = tokio::spawn(actor::run(shared.clone(), run, mailbox).in_current_span());
    let left = match driven.await {
        Ok(left) => left,
        Err(panic) => {
            error!(%panic, "the actor of a run broke");
            give_up_broken(&shared, run).await
        }
    };
    shared.files().released(run);
    shared.live.leave(run);
    if let Some(member) = &shared.member {
        match left {
            Left::Settled => {
                member.settled(run);
                // An actor that has come to the end of its turn has given the run back with its last append.
                let _taking = member.taking.lock().await;
                give_back(&shared, member, run).await;
            }
            Left::Unsettled => set_aside(&shared, member, run),
        }
    }
    shared.queue.finished(run);
    if let Ok(head) = shared.log.head(run).await
        && head.state.status().is_final()
    {
        // Done before, unless its actor broke or found it over: whoever follows it must not wait for ever.
        leader_ended(&shared, &head.state);
    }
}

/// Fails a run whose actor broke.
async fn give_up_broken(shared: &Arc<Shared>, run: RunId) -> Left {
    let broken = Error::io("drive the run")(std::io::Error::other("its actor panicked"));
    let giving_up = shared.clone();
    // Also in a task of its own: what broke the actor may break this, too.
    let given_up = tokio::spawn(async move { actor::give_up(&giving_up, run, &broken).await }.in_current_span());
    match given_up.await {
        Ok(Ok(())) => return Left::Settled,
        Ok(Err(again)) => error!(error = %chain(&again), "the run's failure could not be logged"),
        Err(panic) => error!(%panic, "the run's failure could not be logged"),
    }
    Left::Unsettled
}
