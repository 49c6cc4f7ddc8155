//! This service among others on the same store: its lease, and what hangs on it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::{Notify, watch};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::domain::ids::RunId;
use crate::store::{Cluster, NodeInfo};

/// How long a run that cannot be read or logged is set aside, at first and at last.
const SET_ASIDE: Duration = Duration::from_secs(1);
const SET_ASIDE_AT_MOST: Duration = Duration::from_secs(600);
/// With so few runs that are being taken over it is looked for more at once.
const ROOM_FROM: usize = 32;

/// A service that several share a store with.
pub(crate) struct Membership {
    pub cluster: Arc<dyn Cluster>,
    pub info: NodeInfo,
    /// Canceled when the lease is lost: engines must end then.
    lease: Mutex<CancellationToken>,
    /// Until when no other service may take its runs over, with some room for the end of engines.
    until: watch::Sender<Instant>,
    /// Somebody asked this service to start no more runs.
    draining: AtomicBool,
    /// How often each of these runs could be neither driven nor failed.
    unsettled: Mutex<BTreeMap<RunId, u32>>,
    /// Runs that could not be given back.
    kept: Mutex<BTreeSet<RunId>>,
    /// Runs that were taken over and are being recovered here: nobody else of this service gives them back.
    recovering: Mutex<BTreeSet<RunId>>,
    /// Runs that are being taken over, and who is told when there are few.
    taken_over: Mutex<BTreeSet<RunId>>,
    room: Notify,
    settled: Notify,
    /// Held while runs are taken from the queue, until they are in this service's own.
    pub taking: tokio::sync::Mutex<()>,
}

/// A run is being taken over.
pub(crate) struct TakesOver {
    member: Arc<Membership>,
    run: RunId,
}

impl Drop for TakesOver {
    fn drop(&mut self) {
        let left = {
            let mut under_way = self.member.under_way();
            under_way.remove(&self.run);
            under_way.len()
        };
        self.member.settled.notify_waiters();
        if left == ROOM_FROM {
            self.member.room.notify_one();
        }
    }
}

impl Membership {
    pub(crate) fn new(cluster: Arc<dyn Cluster>, info: NodeInfo) -> Self {
        let lease = CancellationToken::new();
        // There is none before the service has joined.
        lease.cancel();
        Self {
            cluster,
            info,
            lease: Mutex::new(lease),
            until: watch::Sender::new(Instant::now()),
            draining: AtomicBool::new(false),
            unsettled: Mutex::default(),
            kept: Mutex::default(),
            recovering: Mutex::default(),
            taken_over: Mutex::default(),
            room: Notify::new(),
            settled: Notify::new(),
            taking: Default::default(),
        }
    }

    /// How long after the last renewal that was answered the lease is given up: early enough for engines to end before others may
    /// take their runs.
    pub(crate) fn given_up_after(&self) -> Duration {
        self.info.lease / 2
    }

    /// How often the lease is renewed.
    pub(crate) fn renewed_every(&self) -> Duration {
        (self.info.lease / 8).min(Duration::from_secs(2))
    }

    /// A renewal that was sent then was answered.
    pub(crate) fn renewed(&self, sent: Instant) {
        self.until.send_replace(sent + self.info.lease - self.info.lease / 5);
    }

    /// Until when no other service may take its runs over.
    pub(crate) fn lease_until(&self) -> watch::Receiver<Instant> {
        self.until.subscribe()
    }

    /// The lease was got by what was sent then: what is begun from now on ends with it.
    pub(crate) fn joined(&self, sent: Instant) {
        self.renewed(sent);
        *self.token() = CancellationToken::new();
    }

    pub(crate) fn lost(&self) {
        self.token().cancel();
    }

    pub(crate) fn has_lease(&self) -> bool {
        !self.token().is_cancelled()
    }

    /// Whether this service has the run, and nobody can have taken it over: also right after it was stopped for a while. Whoever worked on
    /// it under a lease that was lost may not go on with it under the next one, under which it is recovered.
    pub(crate) fn may_work_on(&self, run: RunId) -> bool {
        self.has_good_lease() && self.cluster.owns(run) && !self.is_recovering(run)
    }

    fn has_good_lease(&self) -> bool {
        self.has_lease() && Instant::now() < *self.until.borrow()
    }

    /// How long a run that could be neither driven nor failed is kept from everybody, so that others have their turn: longer each
    /// time.
    pub(crate) fn set_aside_for(&self, run: RunId) -> Duration {
        let mut unsettled = self.unsettled();
        let times = unsettled.entry(run).or_default();
        *times = times.saturating_add(1);
        (SET_ASIDE * 2u32.saturating_pow(*times - 1)).min(SET_ASIDE_AT_MOST)
    }

    /// The run could be driven or failed.
    pub(crate) fn settled(&self, run: RunId) {
        self.unsettled().remove(&run);
    }

    fn unsettled(&self) -> MutexGuard<'_, BTreeMap<RunId, u32>> {
        self.unsettled.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The store could not be told that this run is given back: it is to be told again.
    pub(crate) fn not_given_back(&self, run: RunId) {
        self.kept().insert(run);
    }

    /// The runs that the store is to be told of again.
    pub(crate) fn take_not_given_back(&self) -> BTreeSet<RunId> {
        std::mem::take(&mut *self.kept())
    }

    /// These were taken over.
    pub(crate) fn recovers(&self, runs: &[RunId]) {
        self.recovering().extend(runs);
    }

    /// How many runs are being taken over.
    pub(crate) fn taken_over(&self) -> usize {
        self.under_way().len()
    }

    /// This one is being taken over, until what is returned is dropped. Nothing if it is already: it was given to this service again, under its
    /// next lease.
    pub(crate) fn takes_over(self: &Arc<Self>, run: RunId) -> Option<TakesOver> {
        self.under_way().insert(run).then(|| TakesOver { member: self.clone(), run })
    }

    /// Waits until no run is being taken over.
    pub(crate) async fn none_is_taken_over(&self) {
        loop {
            let settled = self.settled.notified();
            tokio::pin!(settled);
            // Register before looking: an end between the two would be missed.
            settled.as_mut().enable();
            if self.under_way().is_empty() {
                return;
            }
            settled.await;
        }
    }

    /// Until there is room again to take runs over.
    pub(crate) async fn has_room(&self) {
        self.room.notified().await;
    }

    /// What became of this one is on record, or is the concern of others.
    pub(crate) fn recovered(&self, run: RunId) {
        self.recovering().remove(&run);
    }

    pub(crate) fn is_recovering(&self, run: RunId) -> bool {
        self.recovering().contains(&run)
    }

    fn under_way(&self) -> MutexGuard<'_, BTreeSet<RunId>> {
        self.taken_over.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn recovering(&self) -> MutexGuard<'_, BTreeSet<RunId>> {
        self.recovering.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn kept(&self) -> MutexGuard<'_, BTreeSet<RunId>> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Canceled when the lease in force now is lost.
    pub(crate) fn lease(&self) -> CancellationToken {
        self.token().clone()
    }

    pub(crate) fn set_draining(&self, draining: bool) -> bool {
        self.draining.swap(draining, Ordering::Relaxed) != draining
    }

    /// Whether runs may be started here.
    pub(crate) fn starts_runs(&self) -> bool {
        // A lease whose answer was long on its way is good for nothing before it is renewed.
        self.info.works && self.has_good_lease() && !self.draining.load(Ordering::Relaxed)
    }

    /// Nothing can panic while it holds the lock, so a poisoned one is as good as any.
    fn token(&self) -> MutexGuard<'_, CancellationToken> {
        self.lease.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
