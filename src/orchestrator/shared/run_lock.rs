//! One writer at a time for a run at rest: two at once would write each other's last files.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use tokio::sync::{Mutex as AsyncMutex, OwnedMutexGuard};

use crate::domain::ids::RunId;

/// A lock for each run that somebody holds or waits for.
#[derive(Debug, Default)]
pub(crate) struct RunLocks {
    locks: Mutex<HashMap<RunId, Weak<AsyncMutex<()>>>>,
}

/// The lock of one run, held until this is dropped.
#[derive(Debug)]
pub(crate) struct RunLock {
    locks: Arc<RunLocks>,
    run: RunId,
    guard: Option<OwnedMutexGuard<()>>,
}

impl RunLocks {
    /// Wait for the lock of a run.
    pub(crate) async fn lock(self: &Arc<Self>, run: RunId) -> RunLock {
        let lock = {
            let mut locks = self.locks();
            match locks.get(&run).and_then(Weak::upgrade) {
                Some(lock) => lock,
                None => {
                    let lock = Arc::default();
                    locks.insert(run, Arc::downgrade(&lock));
                    lock
                }
            }
        };
        RunLock { locks: self.clone(), run, guard: Some(lock.lock_owned().await) }
    }

    /// Nothing can panic while it holds the lock, so a poisoned one is as good as any.
    fn locks(&self) -> MutexGuard<'_, HashMap<RunId, Weak<AsyncMutex<()>>>> {
        self.locks.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for RunLock {
    fn drop(&mut self) {
        drop(self.guard.take());
        let mut locks = self.locks.locks();
        if locks.get(&self.run).is_some_and(|lock| lock.strong_count() == 0) {
            locks.remove(&self.run);
        }
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;
    use uuid::Uuid;

    use super::*;

    #[tokio::test]
    async fn a_run_is_locked_by_one_at_a_time_and_leaves_nothing_behind() {
        let run = |n| RunId(Uuid::from_u128(n));
        let locks = Arc::new(RunLocks::default());
        let first = locks.lock(run(1)).await;
        let mut second = Box::pin(locks.lock(run(1)));
        assert!(second.as_mut().now_or_never().is_none(), "the first one has it");
        drop(locks.lock(run(2)).await);
        drop(first);
        drop(second.await);
        assert!(locks.locks().is_empty());
    }
}
