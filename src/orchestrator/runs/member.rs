//! One of several services on a store: it keeps its lease, and sees to runs that nobody else sees to.
//!
//! Whatever it finds is settled by what is stored: two services that look at the same run at once do no harm.

use std::sync::{Arc, Weak};
use std::time::Duration;

use tokio::time::Instant;
use tracing::{debug, info, warn};

use crate::domain::causes::chain;
use crate::orchestrator::environment::unbroken;
use crate::orchestrator::error::Error;
use crate::orchestrator::handle::Orchestrator;
use crate::orchestrator::runs::dispatch::give_back;
use crate::orchestrator::runs::{deadlines, take_over};
use crate::orchestrator::shared::Shared;
use crate::orchestrator::shared::membership::Membership;
use crate::store::{self, Control, NodeLoad};

/// How often a service looks for what it was not told of.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// How often it looks for runs that should have been sealed by another one.
const SEAL_EVERY: Duration = Duration::from_secs(5);
/// How often the open runs of all services are counted, for the metrics.
const COUNT_EVERY: Duration = Duration::from_secs(10);
/// Runs that are looked at together.
const AT_ONCE: usize = 64;
/// A run that is over is sealed by the service that ended it. After this long, and what a sealed log is kept in the store for
/// besides, any other does it.
const SEALED_BY_OTHERS_AFTER: Duration = Duration::from_secs(60);
/// Pause after a lease that could not be had.
const JOIN_AGAIN_AFTER: Duration = Duration::from_millis(500);

/// Keeps the lease that was got by what was sent then, and gets another one after it was lost, until the service ends.
pub(crate) async fn keep_lease(shared: Weak<Shared>, member: Arc<Membership>, joined: Instant) {
    // When the last renewal that was answered was sent.
    let mut renewed = joined;
    // At once: the answer to the request for the lease may have come late, when engines have little of it left.
    let mut next = renewed;
    loop {
        tokio::time::sleep_until(next).await;
        let Some(shared) = shared.upgrade() else { return };
        let sent = Instant::now();
        next = sent + member.renewed_every();
        // Who gets no answer in time has lost it, whatever the answer would be.
        let patience = (renewed + member.given_up_after()).saturating_duration_since(sent);
        match tokio::time::timeout(patience, member.cluster.renew(load(&shared, &member))).await {
            Ok(Ok(answer)) => {
                renewed = sent;
                member.renewed(sent);
                shared.queue.wait_in_store(answer.queued);
                if member.set_draining(answer.draining) {
                    info!(draining = answer.draining, "this service was asked to start no more runs, or some again");
                    member.cluster.wake().notify_one();
                }
                continue;
            }
            Ok(Err(store::Error::NotOwner)) => warn!("the lease of this service has ended; its engines are stopped"),
            Ok(Err(error)) if renewed.elapsed() < member.given_up_after() => {
                debug!(error = %chain(&error), "the lease could not be renewed; trying again");
                continue;
            }
            Ok(Err(error)) => {
                warn!(error = %chain(&error), "the lease could not be renewed in time; engines are stopped");
            }
            Err(_) => warn!("the lease was not renewed in time; engines are stopped"),
        }
        member.lost();
        // What it owned is abandoned as soon as it joins again. Its engines have ended by then, or their shims have ended them.
        let over = renewed + member.info.lease;
        let _ = tokio::time::timeout_at(over, shared.live.until_none()).await;
        drop(shared);
        renewed = join_again(&member).await;
        member.joined(renewed);
        next = renewed + member.renewed_every();
        info!("this service has a lease again");
    }
}

/// Joins again, however long it takes; when the answered request was sent.
async fn join_again(member: &Membership) -> Instant {
    loop {
        let sent = Instant::now();
        match member.cluster.join(member.info.clone()).await {
            Ok(()) => return sent,
            Err(error) => debug!(error = %chain(&error), "no new lease could be had; trying again"),
        }
        tokio::time::sleep(JOIN_AGAIN_AFTER).await;
    }
}

fn load(shared: &Shared, member: &Membership) -> NodeLoad {
    let (_, running) = shared.queue.sizes();
    let number = |count: usize| u32::try_from(count).unwrap_or(u32::MAX);
    let slots = if member.info.works { number(shared.settings.runs.max_running_jobs) } else { 0 };
    NodeLoad { running: number(running), slots }
}

/// Sees to what was asked of this service, and to runs whose service is gone, until this one ends.
pub(crate) async fn look_often(shared: Weak<Shared>, member: Arc<Membership>) {
    let asked = member.cluster.wake();
    let (mut counted, mut looked, mut sealed): (Option<Instant>, Option<Instant>, Option<Instant>) = Default::default();
    loop {
        let Some(held) = shared.upgrade().filter(|shared| !shared.closing.is_cancelled()) else { return };
        let due = looked.is_none_or(|last| last.elapsed() >= LOOK_EVERY);
        if due {
            looked = Some(Instant::now());
        }
        if member.has_lease() {
            let round = async {
                // Whoever was woken for the queue alone has nothing to answer.
                if member.cluster.was_asked() || due {
                    answer(&held, &member).await?;
                }
                give_back_again(&held, &member).await;
                let more = due && look(&held, &member).await?;
                if sealed.is_none_or(|last| last.elapsed() >= SEAL_EVERY) {
                    sealed = Some(Instant::now());
                    seal(&held, &member).await?;
                }
                Ok::<_, Error>(more)
            };
            match unbroken("look at runs of other services", round).await {
                // What is asked of this service does not wait until all of them are seen to.
                Some(Ok(true)) => {
                    looked = None;
                    member.cluster.wake().notify_one();
                }
                Some(Err(error)) => {
                    debug!(error = %chain(&error), "runs of other services could not be looked at; trying again");
                }
                Some(Ok(false)) | None => {}
            }
        }
        if counted.is_none_or(|last| last.elapsed() >= COUNT_EVERY) {
            counted = Some(Instant::now());
            match member.cluster.open_counts().await {
                Ok(counts) => held.metrics.open_runs_are(&counts.unwrap_or_default()),
                Err(error) => debug!(error = %chain(&error), "open runs could not be counted; trying again"),
            }
        }
        let closing = held.closing.clone();
        drop(held);
        tokio::select! {
            biased;
            () = closing.cancelled() => return,
            () = asked.notified() => {}
            // There is room to take over more of them.
            () = member.has_room() => looked = None,
            () = tokio::time::sleep_until(looked.unwrap_or_else(Instant::now) + LOOK_EVERY) => {}
        }
    }
}

/// Does what was asked of this service.
async fn answer(shared: &Arc<Shared>, member: &Arc<Membership>) -> Result<(), Error> {
    for (run, control) in member.cluster.asked().await? {
        let Control::Cancel { requested_by, reason } = control;
        let orchestrator = Orchestrator { shared: shared.clone() };
        // Its engine may take its time to end.
        shared.tasks.spawn(async move {
            if let Err(error) = orchestrator.cancel(run, &requested_by, &reason).await {
                warn!(run.id = %run, error = %chain(&error), "a cancel that another service asked for failed");
            }
        });
    }
    Ok(())
}

/// Gives back what could not be given back, and has the queue looked at: whoever was woken for it is told so.
async fn give_back_again(shared: &Arc<Shared>, member: &Arc<Membership>) {
    for run in member.take_not_given_back() {
        let _taking = member.taking.lock().await;
        give_back(shared, member, run).await;
    }
    shared.queue.look_again();
}

/// Sees to runs that nobody sees to. Whether there may be more of them.
async fn look(shared: &Arc<Shared>, member: &Arc<Membership>) -> Result<bool, Error> {
    let more = take_over::recover_abandoned(shared, member).await?;
    for run in member.cluster.due(AT_ONCE).await? {
        if let Err(error) = deadlines::decide(shared, run).await {
            warn!(run.id = %run, error = %chain(&error), "what was due for a run could not be done; trying again");
        }
    }
    Ok(more)
}

/// Seals runs that nobody else has sealed.
async fn seal(shared: &Arc<Shared>, member: &Arc<Membership>) -> Result<(), Error> {
    let grace = Duration::from_secs(shared.settings.store.seal_grace_seconds);
    let unsealed = member.cluster.unsealed(grace + SEALED_BY_OTHERS_AFTER, AT_ONCE).await?;
    let unsealed: Vec<_> = unsealed.into_iter().filter(|run| !shared.sealer.is_pending(*run)).collect();
    if !unsealed.is_empty() {
        shared.sealer.seal_anew(unsealed);
    }
    Ok(())
}
