//! Equal runs at the same time run once: who follows is woken, takes the result, or runs itself.

use std::sync::Arc;
use std::time::Duration;

use tracing::warn;

use crate::domain::causes::chain;
use crate::domain::ids::RunId;
use crate::domain::state::RunState;
use crate::domain::statechart::Status;
use crate::orchestrator::admission::cache::Wanted;
use crate::orchestrator::admission::single_flight::{Claim, Follower};
use crate::orchestrator::error::Error;
use crate::orchestrator::handle::Shared;
use crate::orchestrator::log::journal::{lost_race, met_final};

/// How long to wait for somebody who is ending the same run; it is a matter of one commit.
const CLAIM_AGAIN: Duration = Duration::from_millis(1);

/// The lead of a run that does not exist yet; given up unless it is kept.
pub(crate) struct Lead {
    shared: Arc<Shared>,
    key: String,
    run: RunId,
    kept: bool,
}

impl Lead {
    /// The run exists: its end will end the lead.
    pub fn keep(mut self) {
        self.kept = true;
    }
}

impl Drop for Lead {
    fn drop(&mut self) {
        if !self.kept {
            let next = self.shared.flights.ended(&self.key, self.run, false);
            self.shared.go_on(next);
        }
    }
}

impl Shared {
    /// The lead of all runs with this key, unless another run has it.
    pub(crate) fn lead(self: &Arc<Self>, key: &str, run: RunId) -> Option<Lead> {
        let leads = self.flights.lead(key, run);
        leads.then(|| Lead { shared: self.clone(), key: key.to_owned(), run, kept: false })
    }

    /// A run that exists waits for the equal one that leads; if that is over meanwhile, it goes on at once.
    pub(crate) fn follow(self: &Arc<Self>, key: &str, follower: Follower) {
        if let Some(leader) = self.flights.follow(key, follower) {
            self.go_on(vec![leader]);
        }
    }

    /// A run is over: whoever followed it goes on. To call this twice does no harm.
    pub(crate) fn settled(self: &Arc<Self>, state: &RunState) {
        if let Some(key) = state.shared_key() {
            self.go_on(self.flights.ended(key, state.run_id, state.status == Status::Succeeded));
        }
    }

    /// A queued run of an earlier life of the service takes its part again; whether it is to go on once the service is
    /// ready, because a result may be there for it.
    pub(crate) fn line_up_again(&self, state: &RunState) -> Option<Follower> {
        let run = state.run_id;
        let Some(key) = state.shared_key() else {
            self.queue.requeue(run);
            return None;
        };
        let leader = self.flights.follow(key, Follower { run, place: None })?;
        if self.cached(key).is_ok_and(|entry| entry.is_some()) {
            return Some(leader);
        }
        self.queue.requeue(run);
        None
    }

    /// Let runs that followed take the result, or run themselves.
    pub(crate) fn go_on(self: &Arc<Self>, followers: Vec<Follower>) {
        for follower in followers {
            let (shared, run) = (self.clone(), follower.run);
            // Begun before this returns, so that the service does not end in between.
            let working = self.flights.working();
            tokio::spawn(async move {
                let claim = shared.claimed(run).await;
                if let Err(error) = advance(&shared, follower).await {
                    warn!(run.id = %run, error = %chain(&error), "a run that waited for an equal one runs itself");
                    shared.queue.requeue(run);
                    shared.start_next();
                }
                drop((claim, working));
                shared.idle.notify_waiters();
            });
        }
    }

    /// The sole right to end a queued run.
    pub(crate) async fn claimed(&self, run: RunId) -> Claim {
        loop {
            if let Some(claim) = self.flights.claim(run) {
                return claim;
            }
            tokio::time::sleep(CLAIM_AGAIN).await;
        }
    }

    /// The cached result for a queued run, logged; whether there was one. The caller has the claim.
    pub(crate) async fn finish_from_cache(self: &Arc<Self>, state: &RunState) -> Result<bool, Error> {
        let Some(wanted) = Wanted::of(state) else { return Ok(false) };
        let Some(command) = self.take(wanted).await else { return Ok(false) };
        let mut journal = self.journal(state.run_id)?;
        journal.commit(command).await?;
        self.owe(journal.state());
        Ok(true)
    }
}

async fn advance(shared: &Arc<Shared>, follower: Follower) -> Result<(), Error> {
    let state = shared.log.head(follower.run)?.state;
    if state.status.is_final() {
        shared.settled(&state);
        return Ok(());
    }
    match shared.finish_from_cache(&state).await {
        Ok(true) => return Ok(()),
        Ok(false) => {}
        // Whoever ended it sees to the rest.
        Err(error) if lost_race(&error) || met_final(&error).is_some() => return Ok(()),
        Err(error) => return Err(error),
    }
    let Some(key) = state.shared_key() else { return Ok(()) };
    let Some(leader) = shared.flights.follow(key, follower) else { return Ok(()) };
    match leader.place {
        Some(place) => place.enter(leader.run),
        None => shared.queue.requeue(leader.run),
    }
    shared.start_next();
    Ok(())
}
