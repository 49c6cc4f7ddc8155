//! One sync of a file system for all who ask for it at the same time.

use std::collections::HashMap;
use std::sync::{Arc, Condvar, LazyLock, Mutex, MutexGuard, PoisonError};

/// The syncs of each file system, by its device.
static GROUPS: LazyLock<Mutex<HashMap<u64, Arc<Group>>>> = LazyLock::new(Mutex::default);

#[derive(Default)]
struct Group {
    state: Mutex<State>,
    ended: Condvar,
}

#[derive(Default)]
struct State {
    under_way: bool,
    /// Number of the sync that was begun last, and of the last one that succeeded.
    begun: u64,
    done: u64,
}

/// Calls `sync`, or waits for somebody else's call on the same device that began after this one was asked for. What was
/// written before is durable then, as after a sync of one's own.
pub(super) fn shared<E>(device: u64, sync: impl FnOnce() -> Result<(), E>) -> Result<(), E> {
    let group = GROUPS.lock().unwrap_or_else(PoisonError::into_inner).entry(device).or_default().clone();
    group.shared(sync)
}

impl Group {
    fn shared<E>(&self, sync: impl FnOnce() -> Result<(), E>) -> Result<(), E> {
        let mut state = self.state();
        // One that is under way may have passed over what was written last.
        let needed = state.begun + 1;
        while state.under_way {
            state = self.ended.wait(state).unwrap_or_else(PoisonError::into_inner);
            if state.done >= needed {
                return Ok(());
            }
        }
        state.under_way = true;
        state.begun += 1;
        let number = state.begun;
        drop(state);
        let synced = sync();
        let mut state = self.state();
        state.under_way = false;
        if synced.is_ok() {
            state.done = number;
        }
        drop(state);
        // After a failure each of the others tries itself, and is told why it failed.
        self.ended.notify_all();
        synced
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // Every change of the state is a few assignments, so a poisoned lock is usable.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::sync::mpsc::channel;

    use super::*;

    #[test]
    fn a_sync_that_began_before_it_was_asked_for_is_not_enough_and_the_next_one_is() {
        let (group, count) = (Arc::new(Group::default()), Arc::new(AtomicUsize::new(0)));
        let (go, wait) = channel::<()>();
        let (begun, first_begun) = channel();
        let first = {
            let group = group.clone();
            std::thread::spawn(move || {
                group.shared(|| {
                    begun.send(()).unwrap();
                    wait.recv().map_err(|_| ())
                })
            })
        };
        first_begun.recv().unwrap();
        let others: Vec<_> = (0..8)
            .map(|_| {
                let (group, count) = (group.clone(), count.clone());
                std::thread::spawn(move || {
                    group.shared(|| {
                        count.fetch_add(1, Ordering::SeqCst);
                        Ok::<(), ()>(())
                    })
                })
            })
            .collect();
        go.send(()).unwrap();
        assert_eq!(first.join().unwrap(), Ok(()));
        others.into_iter().for_each(|other| assert_eq!(other.join().unwrap(), Ok(())));
        // Those who came in time share one; whoever came later needs its own.
        assert!((1..=8).contains(&count.load(Ordering::SeqCst)));
    }

    #[test]
    fn a_failed_sync_makes_nothing_durable_for_others() {
        let group = Group::default();
        assert_eq!(group.shared(|| Err("full")), Err("full"));
        assert_eq!(group.state().done, 0);
        assert_eq!(group.shared(|| Ok::<(), &str>(())), Ok(()));
        let state = group.state();
        assert_eq!((state.begun, state.done), (2, 2));
    }
}
