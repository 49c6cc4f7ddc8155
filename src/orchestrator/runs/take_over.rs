//! Runs of services that are gone: taken over, each by itself, and brought into a state that is true now.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use tracing::{info, warn};

use crate::domain::causes::chain;
use crate::domain::ids::RunId;
use crate::orchestrator::environment::unbroken;
use crate::orchestrator::error::Error;
use crate::orchestrator::log::journal::{lost_race, not_owner};
use crate::orchestrator::runs::dispatch::{give_back, set_aside};
use crate::orchestrator::runs::recovery::{NotRecovered, recover_later, recover_one};
use crate::orchestrator::shared::Shared;
use crate::orchestrator::shared::membership::Membership;

/// Runs that are taken over side by side.
const AT_ONCE: usize = 64;

/// Takes runs over whose service is gone, and begins to bring each into a state that is true now. One that takes its time, because its files
/// are away or its actor has not left yet, holds up no other. Whether there may be more of them.
pub(crate) async fn recover_abandoned(shared: &Arc<Shared>, member: &Arc<Membership>) -> Result<bool, Error> {
    let room = AT_ONCE.saturating_sub(member.taken_over());
    if room == 0 {
        return Ok(false);
    }
    let taken = {
        let _taking = member.taking.lock().await;
        let taken = member.cluster.take_abandoned(room).await?;
        member.recovers(&taken);
        taken
    };
    for run in &taken {
        let (shared, member, run) = (shared.clone(), member.clone(), *run);
        let Some(under_way) = member.takes_over(run) else { continue };
        tokio::spawn(async move {
            unbroken("take a run over", take_over(&shared, &member, run)).await;
            drop(under_way);
        });
    }
    Ok(taken.len() == room)
}

/// The same at a start: all of them, and until each is settled.
pub(crate) async fn recover_all_abandoned(shared: &Arc<Shared>, member: &Arc<Membership>) -> Result<(), Error> {
    while recover_abandoned(shared, member).await? {
        member.none_is_taken_over().await;
    }
    member.none_is_taken_over().await;
    Ok(())
}

async fn take_over(shared: &Arc<Shared>, member: &Arc<Membership>, run: RunId) {
    // One that was overtaken by the end of its own lease may not be gone yet.
    shared.live.until_gone(run).await;
    match recover_one(shared, run).await {
        Ok(()) => {
            shared.recovered.fetch_add(1, Relaxed);
            info!(run.id = %run, "took over the run of a service that is gone");
        }
        Err(error) if lost_race(&error) => {
            shared.files().forget(run);
            // Who wrote first has moved it on; or its log takes nothing, and it would be taken over again at once.
            member.recovered(run);
            return set_aside(shared, member, run);
        }
        Err(error) if not_owner(&error) => shared.files().forget(run),
        // It is still owned, and tried again by whoever finds the lease ended.
        Err(error) => {
            warn!(run.id = %run, error = %chain(&error), "a run could not be taken over; trying again");
            match NotRecovered::now(shared, run).await {
                Some(left) => drop(tokio::spawn(recover_later(Arc::downgrade(shared), vec![left]))),
                None => member.recovered(run),
            }
            return;
        }
    }
    // One that is final or waits was given back by the append; one that is in the queue is given back here.
    {
        let _taking = member.taking.lock().await;
        member.recovered(run);
        give_back(shared, member, run).await;
    }
    shared.queue.look_again();
}
