//! A run that has all it needs gets an equal run's result, waits for an equal run, or enters the queue.

use std::sync::Arc;

use tracing::debug;

use crate::domain::event::Started;
use crate::domain::ids::RunId;
use crate::domain::state::RunState;
use crate::orchestrator::admission::cache::{self, Entry, Wanted};
use crate::orchestrator::admission::effects::{follow, wake};
use crate::orchestrator::log::journal::Step;
use crate::orchestrator::shared::Shared;
use crate::orchestrator::shared::queue::Place;
use crate::orchestrator::shared::single_flight::Follower;

/// The lead of all runs with one key; given up when this is dropped, unless it is kept.
struct Lead {
    shared: Arc<Shared>,
    key: String,
    run: RunId,
    kept: bool,
}

impl Lead {
    /// The lead, unless another run has it.
    fn take(shared: &Arc<Shared>, wanted: &Wanted) -> Option<Self> {
        if shared.member.is_some() {
            // The store's queue sees to it that equal runs go one after the other.
            return None;
        }
        let leads = shared.single_flight.lead(&wanted.key, wanted.run);
        leads.then(|| Self { shared: shared.clone(), key: wanted.key.clone(), run: wanted.run, kept: false })
    }

    /// The run exists: its end will end the lead.
    fn keep(mut self) {
        self.kept = true;
    }
}

impl Drop for Lead {
    fn drop(&mut self) {
        if !self.kept {
            wake(&self.shared, self.shared.single_flight.ended(&self.key, self.run, false));
        }
    }
}

/// A run on its way in. Dropped before [`Admission::enter`], it leaves no trace.
pub(crate) struct Admission {
    wanted: Option<Wanted>,
    lead: Option<Lead>,
    entry: Option<Entry>,
}

impl Admission {
    /// See whether an equal run has a result or is making one. `wanted` is `None` for a run that shares with nobody.
    pub(crate) async fn begin(shared: &Arc<Shared>, wanted: Option<Wanted>) -> Self {
        // Whoever finds a result needs no lead, and does not wait for others that take the same one.
        if let Some(found) = &wanted
            && let Ok(Some(entry)) = cache::find(shared, &found.key).await
        {
            return Self { wanted, lead: None, entry: Some(entry) };
        }
        let lead = wanted.as_ref().and_then(|wanted| Lead::take(shared, wanted));
        // Asked again for once it leads: a run that led before has left its entry by then.
        let entry = match (&wanted, &lead) {
            (Some(wanted), Some(_)) => cache::find(shared, &wanted.key).await.unwrap_or_default(),
            (Some(_) | None, _) => None,
        };
        Self { wanted, lead, entry }
    }

    /// Whether an equal run's result seems to be there, so that no place in the queue is needed.
    pub(crate) fn expects_hit(&self) -> bool {
        self.entry.is_some()
    }

    /// The equal run's result, put into this run's folder, which must exist; `None` when it cannot be used after all.
    pub(crate) async fn take_result(&mut self, shared: &Arc<Shared>) -> Option<Step> {
        let (wanted, entry) = (self.wanted.as_ref()?, self.entry.take()?);
        let step = cache::take(shared, wanted, entry).await;
        if step.is_none() && self.lead.is_none() {
            self.lead = Lead::take(shared, wanted);
        }
        step
    }

    /// The equal run's result for a run that gets no folder; `None` when it cannot be used after all.
    pub(crate) async fn take_shared_result(&mut self, shared: &Arc<Shared>, started: &Started) -> Option<Step> {
        let (wanted, entry) = (self.wanted.as_ref()?, self.entry.take()?);
        let step = cache::take_shared(shared, wanted, entry, started).await;
        if step.is_none() && self.lead.is_none() {
            self.lead = Lead::take(shared, wanted);
        }
        step
    }

    /// The run is logged and has no result: it follows the run that leads, or enters the queue.
    pub(crate) fn enter(self, shared: &Arc<Shared>, state: &RunState, place: Place) {
        let ticket = shared.ticket(state);
        match (self.wanted, self.lead) {
            (Some(wanted), None) if shared.member.is_none() => {
                debug!(run.id = %ticket.run, "the run waits for the result of an equal one");
                follow(shared, &wanted.key, Follower { ticket, place: Some(place) });
            }
            (_, lead) => {
                keep(lead);
                place.enter(ticket);
            }
        }
    }

    /// The run is logged, and either has its result or waits for its files.
    pub(crate) fn stay(self) {
        keep(self.lead);
    }
}

fn keep(lead: Option<Lead>) {
    if let Some(lead) = lead {
        lead.keep();
    }
}
