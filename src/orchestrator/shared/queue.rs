//! The queue: which runs may start, which wait, and when a new one is refused.
//!
//! Where several services share a store, the store has the queue: this one holds only the runs that were taken from it.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

use crate::domain::fair_queue::{Bounds, FairQueue, Ticket};
use crate::domain::ids::RunId;

/// The queue and the slots; a plain structure behind a short lock.
#[derive(Debug)]
pub(crate) struct Queue {
    inner: Mutex<Inner>,
    changed: Notify,
}

#[derive(Debug)]
struct Inner {
    runs: FairQueue,
    closed: bool,
    /// Whether the store has the queue, for all services.
    in_store: bool,
}

/// A place in the queue, given back unless it is used.
#[derive(Debug)]
pub(crate) struct Place {
    queue: Arc<Queue>,
    share: String,
    used: bool,
}

impl Queue {
    pub(crate) fn new(bounds: Bounds) -> Arc<Self> {
        Self::with(Inner { runs: FairQueue::new(bounds), closed: false, in_store: false })
    }

    /// One that holds no more than the runs that were taken from the store's.
    pub(crate) fn in_store(bounds: Bounds) -> Arc<Self> {
        // Whoever takes runs from the store's queue keeps to the limits of all services.
        let own = Bounds { per_engine: None, per_skill: None, ..bounds };
        Self::with(Inner { runs: FairQueue::new(own), closed: false, in_store: true })
    }

    fn with(inner: Inner) -> Arc<Self> {
        Arc::new(Self { inner: Mutex::new(inner), changed: Notify::new() })
    }

    /// A place for one more run of this share, unless it has as many as it may.
    pub(crate) fn reserve(self: &Arc<Self>, share: &str) -> Option<Place> {
        let promised = self.lock().runs.promise(share);
        promised.then(|| Place { queue: self.clone(), share: share.to_owned(), used: false })
    }

    /// Whether [`Queue::reserve`] would refuse a run of this share now.
    pub(crate) fn refuses(&self, share: &str) -> bool {
        !self.lock().runs.has_place(share)
    }

    /// Queue a run that had its place before: it was answered, or the service was restarted.
    pub(crate) fn requeue(&self, ticket: Ticket) {
        let mut inner = self.lock();
        if !inner.in_store {
            inner.runs.push(ticket);
        }
        self.changed.notify_one();
    }

    /// Runs that were taken from the store's queue.
    pub(crate) fn taken(&self, tickets: Vec<Ticket>) {
        let mut inner = self.lock();
        tickets.into_iter().for_each(|ticket| inner.runs.push(ticket));
    }

    /// How many runs can be taken from the store's queue; none once this one is closed.
    pub(crate) fn free_slots(&self) -> usize {
        let inner = self.lock();
        if inner.closed { 0 } else { inner.runs.free_slots() }
    }

    /// So many runs of each share wait in the store's queue.
    pub(crate) fn wait_in_store(&self, runs: BTreeMap<String, usize>) {
        self.lock().runs.wait_elsewhere(runs);
    }

    /// The next run to start, if a slot is free. The slot is taken.
    pub(crate) fn next(&self) -> Option<RunId> {
        let mut inner = self.lock();
        if inner.closed {
            return None;
        }
        inner.runs.next().map(|ticket| ticket.run)
    }

    /// Give a slot back.
    pub(crate) fn finished(&self, run: RunId) {
        self.lock().runs.finished(run);
        self.changed.notify_one();
    }

    /// There may be another run to start.
    pub(crate) fn look_again(&self) {
        self.changed.notify_one();
    }

    /// Wait until there may be another run to start. A change since the last wait counts.
    pub(crate) async fn changed(&self) {
        self.changed.notified().await;
    }

    /// Take a run out of the queue, if it is there.
    pub(crate) fn remove(&self, run: RunId) -> Option<Ticket> {
        self.lock().runs.remove(run)
    }

    /// About how many runs are to start before this one.
    pub(crate) fn position(&self, run: RunId) -> Option<usize> {
        self.lock().runs.position(run)
    }

    /// Start no more runs.
    pub(crate) fn close(&self) {
        self.lock().closed = true;
    }

    /// Whether the run was taken from the store's queue and waits for its slot.
    pub(crate) fn holds(&self, run: RunId) -> bool {
        self.position(run).is_some()
    }

    /// How many wait, those in the store's queue included, and how many run.
    pub(crate) fn sizes(&self) -> (usize, usize) {
        let inner = self.lock();
        (inner.runs.waiting() + inner.runs.waiting_elsewhere(), inner.runs.running())
    }

    /// Nothing can panic while it holds the lock, so a poisoned one is as good as any.
    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Place {
    /// Put the run in the queue.
    pub(crate) fn enter(mut self, ticket: Ticket) {
        self.used = true;
        let mut inner = self.queue.lock();
        inner.runs.settle(&self.share);
        if !inner.in_store {
            inner.runs.push(ticket);
        }
        self.queue.changed.notify_one();
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        if !self.used {
            self.queue.lock().runs.settle(&self.share);
        }
    }
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;

    #[test]
    fn places_are_first_come_first_served_and_bounded() {
        let run = |n| RunId(Uuid::from_u128(n));
        let ticket =
            |n| Ticket { run: run(n), priority: 0, share: String::new(), engine: "script".into(), skill: "s".into() };
        let queue = Queue::new(Bounds { running: 1, waiting: 2, per_engine: None, per_skill: None });
        let reserve = || queue.reserve("");
        reserve().unwrap().enter(ticket(1));
        assert_eq!(queue.next(), Some(run(1)));
        reserve().unwrap().enter(ticket(2));
        let kept = reserve().unwrap();
        assert!(queue.refuses("") && reserve().is_none(), "one waits, one place is promised");
        drop(kept);
        assert!(!queue.refuses(""));
        reserve().unwrap().enter(ticket(3));
        assert!(reserve().is_none());
        assert_eq!((queue.position(run(3)), queue.next()), (Some(1), None));
        queue.finished(run(1));
        assert_eq!((queue.next(), queue.position(run(3))), (Some(run(2)), Some(0)));
        assert_eq!((queue.remove(run(3)), queue.remove(run(3))), (Some(ticket(3)), None));
        queue.finished(run(2));
        assert_eq!((queue.next(), queue.sizes()), (None, (0, 0)));
    }
    #[test]
    fn of_a_queue_that_services_share_a_share_holds_no_more_places_than_are_left_for_others() {
        let queue = Queue::in_store(Bounds { running: 1, waiting: 9, per_engine: None, per_skill: None });
        // With the slot there are ten places.
        let wait = |waiting: &[(&str, usize)]| {
            queue.wait_in_store(waiting.iter().map(|(share, count)| ((*share).to_owned(), *count)).collect());
        };
        wait(&[("@one", 5)]);
        assert!(!queue.refuses("@one"));
        wait(&[("@one", 6)]);
        assert!(queue.refuses("@one") && !queue.refuses("@two") && !queue.refuses(""));
        wait(&[("@one", 6), ("@two", 3), ("", 1)]);
        assert!(queue.refuses("@three") && queue.refuses(""));
        assert_eq!(queue.sizes(), (10, 0));
    }
}
