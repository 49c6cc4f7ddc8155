//! The queue: which runs may start, which wait, and when a new one is refused.

use std::collections::{HashSet, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

use crate::domain::ids::RunId;

/// The queue and the slots; a plain structure behind a short lock.
#[derive(Debug)]
pub(crate) struct Queue {
    inner: Mutex<Inner>,
    max_running: usize,
    max_queued: usize,
    changed: Notify,
}

#[derive(Debug, Default)]
struct Inner {
    waiting: VecDeque<RunId>,
    /// Places promised to runs that are being created.
    reserved: usize,
    running: HashSet<RunId>,
    closed: bool,
}

/// A place in the queue, given back unless it is used.
#[derive(Debug)]
pub(crate) struct Place {
    queue: Arc<Queue>,
    used: bool,
}

impl Queue {
    pub(crate) fn new(max_running: usize, max_queued: usize) -> Arc<Self> {
        Arc::new(Self { inner: Mutex::default(), max_running, max_queued, changed: Notify::new() })
    }

    /// A place for one more run, unless the queue is full.
    pub(crate) fn reserve(self: &Arc<Self>) -> Option<Place> {
        let mut inner = self.lock();
        // A run that can start at once does not wait, so free slots count as well.
        let free_slots = self.max_running.saturating_sub(inner.running.len());
        if inner.waiting.len() + inner.reserved >= self.max_queued + free_slots {
            return None;
        }
        inner.reserved += 1;
        Some(Place { queue: self.clone(), used: false })
    }

    /// Queue a run that had its place before: it was answered, or the service was restarted.
    pub(crate) fn requeue(&self, run: RunId) {
        self.lock().waiting.push_back(run);
        self.changed.notify_one();
    }

    /// The next run to start, if a slot is free. The slot is taken.
    pub(crate) fn next(&self) -> Option<RunId> {
        let mut inner = self.lock();
        if inner.closed || inner.running.len() >= self.max_running {
            return None;
        }
        // A run that was answered before its last turn's actor had gone waits for that: one run, one actor, one slot.
        let at = inner.waiting.iter().position(|run| !inner.running.contains(run))?;
        let run = inner.waiting.remove(at)?;
        inner.running.insert(run);
        Some(run)
    }

    /// Give a slot back.
    pub(crate) fn finished(&self, run: RunId) {
        self.lock().running.remove(&run);
        self.changed.notify_one();
    }

    /// Wait until there may be another run to start. A change since the last wait counts.
    pub(crate) async fn changed(&self) {
        self.changed.notified().await;
    }

    /// Take a run out of the queue; whether it was there.
    pub(crate) fn remove(&self, run: RunId) -> bool {
        let mut inner = self.lock();
        let before = inner.waiting.len();
        inner.waiting.retain(|waiting| *waiting != run);
        inner.waiting.len() < before
    }

    /// How many runs are to start before this one.
    pub(crate) fn position(&self, run: RunId) -> Option<usize> {
        self.lock().waiting.iter().position(|waiting| *waiting == run)
    }

    /// Start no more runs.
    pub(crate) fn close(&self) {
        self.lock().closed = true;
    }

    /// How many wait and how many run.
    pub(crate) fn sizes(&self) -> (usize, usize) {
        let inner = self.lock();
        (inner.waiting.len(), inner.running.len())
    }

    /// Nothing can panic while it holds the lock, so a poisoned one is as good as any.
    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Place {
    /// Put the run in the queue.
    pub(crate) fn enter(mut self, run: RunId) {
        self.used = true;
        let mut inner = self.queue.lock();
        inner.reserved -= 1;
        inner.waiting.push_back(run);
        self.queue.changed.notify_one();
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        if !self.used {
            self.queue.lock().reserved -= 1;
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
        let queue = Queue::new(1, 2);
        queue.reserve().unwrap().enter(run(1));
        assert_eq!(queue.next(), Some(run(1)));
        queue.reserve().unwrap().enter(run(2));
        let kept = queue.reserve().unwrap();
        assert!(queue.reserve().is_none(), "one waits, one place is promised");
        drop(kept);
        queue.reserve().unwrap().enter(run(3));
        assert!(queue.reserve().is_none());
        assert_eq!((queue.position(run(3)), queue.next()), (Some(1), None));
        queue.finished(run(1));
        assert_eq!((queue.next(), queue.position(run(3))), (Some(run(2)), Some(0)));
        assert_eq!((queue.remove(run(3)), queue.remove(run(3))), (true, false));
        queue.finished(run(2));
        assert_eq!((queue.next(), queue.sizes()), (None, (0, 0)));
    }

    #[test]
    fn a_run_that_is_queued_again_before_it_left_its_slot_waits_and_holds_up_nobody() {
        let run = |n| RunId(Uuid::from_u128(n));
        let queue = Queue::new(2, 2);
        queue.requeue(run(1));
        assert_eq!(queue.next(), Some(run(1)));
        queue.requeue(run(1));
        queue.requeue(run(2));
        assert_eq!((queue.next(), queue.next()), (Some(run(2)), None));
        queue.finished(run(1));
        assert_eq!((queue.next(), queue.sizes()), (Some(run(1)), (0, 2)));
    }
}
