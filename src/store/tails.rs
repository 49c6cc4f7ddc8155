//! Wakes the readers that follow a run.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::sync::watch;

use crate::domain::ids::{RunId, Seq};

/// One `watch` channel per followed run.
#[derive(Default)]
pub(super) struct Tails(Mutex<Registry>);

#[derive(Default)]
struct Registry {
    senders: HashMap<RunId, watch::Sender<Seq>>,
    /// The size at which channels without receivers are removed.
    sweep_at: usize,
}

impl Tails {
    /// A receiver that begins at `head()`. The head is read under the lock that `publish` takes: an
    /// append that becomes durable after the reading is published after the registration.
    pub(super) fn subscribe(&self, run: &RunId, head: impl FnOnce() -> Seq) -> watch::Receiver<Seq> {
        let mut registry = self.lock();
        if let Some(sender) = registry.senders.get(run) {
            return sender.subscribe();
        }
        registry.sweep();
        let (sender, receiver) = watch::channel(head());
        registry.senders.insert(*run, sender);
        receiver
    }

    /// Tells the run's followers of its new durable head.
    pub(super) fn publish(&self, run: &RunId, head: Seq) {
        let mut registry = self.lock();
        if let Some(sender) = registry.senders.get(run)
            && sender.send(head).is_err()
        {
            registry.senders.remove(run);
        }
    }

    /// Tells the run's followers of a head that may be known already, or be older than the one that is.
    pub(super) fn raise(&self, run: &RunId, head: Seq) {
        if let Some(sender) = self.lock().senders.get(run) {
            sender.send_if_modified(|known| {
                let newer = head > *known;
                if newer {
                    *known = head;
                }
                newer
            });
        }
    }

    /// Whether somebody follows the run and was not told of this head.
    pub(super) fn is_behind(&self, run: &RunId, head: Seq) -> bool {
        let registry = self.lock();
        registry.senders.get(run).is_some_and(|sender| sender.receiver_count() > 0 && *sender.borrow() < head)
    }

    /// The runs that somebody follows.
    pub(super) fn followed(&self) -> Vec<RunId> {
        let registry = self.lock();
        let live = registry.senders.iter().filter(|(_, sender)| sender.receiver_count() > 0);
        live.map(|(run, _)| *run).collect()
    }

    /// Ends the run's tails: its log is gone.
    pub(super) fn close(&self, run: &RunId) {
        self.lock().senders.remove(run);
    }

    /// Ends all tails: the store has stopped.
    pub(super) fn close_all(&self) {
        self.lock().senders.clear();
    }

    fn lock(&self) -> MutexGuard<'_, Registry> {
        // The registry is consistent between any two statements, so a poisoned lock is usable.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Registry {
    /// Drops channels without receivers, each time their number has doubled: constant cost per
    /// subscription, and never more than twice the live ones.
    fn sweep(&mut self) {
        if self.senders.len() >= self.sweep_at {
            self.senders.retain(|_, sender| sender.receiver_count() > 0);
            self.sweep_at = (self.senders.len() * 2).max(64);
        }
    }
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;

    #[test]
    fn channels_without_receivers_do_not_pile_up() {
        let tails = Tails::default();
        for n in 0..10_000 {
            drop(tails.subscribe(&RunId(Uuid::from_u128(n)), || Seq::START));
        }
        assert!(tails.lock().senders.len() <= 64);
    }

    #[test]
    fn only_who_follows_a_run_and_was_not_told_of_its_head_is_behind() {
        let (tails, run) = (Tails::default(), RunId(Uuid::from_u128(1)));
        assert!(!tails.is_behind(&run, Seq(9)), "nobody follows it");
        let followed = tails.subscribe(&run, || Seq(3));
        assert!(!tails.is_behind(&run, Seq(3)) && tails.is_behind(&run, Seq(4)));
        drop(followed);
        assert!(!tails.is_behind(&run, Seq(4)), "nobody follows it any more");
    }
}
