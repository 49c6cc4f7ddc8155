//! Room for requests that wait for their turn, by how long they are as JSON, and turns for checks that take long.
//!
//! A request takes many times its length in memory, and it goes on waiting when its client has left.

use std::time::Duration;

use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::time::timeout;

use crate::orchestrator::error::Error;

/// Checks that take long, at once.
const CHECKS_MAX: usize = 4;
/// KiB of JSON of all requests that wait.
const WAITING_KIB: usize = 4 * 1024;
/// What each of them counts at least.
const LEAST_KIB: usize = 4;
/// How long a request waits for its turn.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

#[derive(Debug)]
pub(crate) struct RequestRoom {
    waiting: Semaphore,
    checks: Semaphore,
}

impl Default for RequestRoom {
    fn default() -> Self {
        Self { waiting: Semaphore::new(WAITING_KIB), checks: Semaphore::new(CHECKS_MAX) }
    }
}

impl RequestRoom {
    /// Room for a request of so many bytes, until the permit is dropped. Who finds none is told so at once.
    pub(crate) fn hold(&self, bytes: usize) -> Result<SemaphorePermit<'_>, Error> {
        let kib = bytes.div_ceil(1024).clamp(LEAST_KIB, WAITING_KIB);
        let kib = u32::try_from(kib).unwrap_or(u32::MAX);
        self.waiting.try_acquire_many(kib).map_err(|_| Error::RequestsBusy)
    }

    /// Waits for the turn of a check of a request of so many bytes, which lasts until the permit is dropped.
    pub(crate) async fn check(&self, bytes: usize) -> Result<SemaphorePermit<'_>, Error> {
        let _held = self.hold(bytes)?;
        // The semaphore is never closed.
        let turn = timeout(PATIENCE, self.checks.acquire()).await;
        turn.ok().and_then(Result::ok).ok_or(Error::RequestsBusy)
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn few_checks_are_done_at_once_few_bytes_wait_for_them_and_none_waits_for_ever() {
        let room = RequestRoom::default();
        let turns = [room.check(1).await.unwrap(), room.check(1).await.unwrap(), room.check(1).await.unwrap()];
        let last = room.check(1).await.unwrap();
        let mut waiting: Vec<_> = (0..8).map(|_| Box::pin(room.check(512 * 1024))).collect();
        assert!(waiting.iter_mut().all(|check| check.as_mut().now_or_never().is_none()));
        assert!(matches!(room.check(1).now_or_never(), Some(Err(Error::RequestsBusy))), "there is no room to wait");
        drop(last);
        assert!(waiting.remove(0).await.is_ok());
        assert!(room.hold(512 * 1024).is_ok(), "whoever has a turn waits no more");
        drop(turns);
        for check in waiting {
            drop(check.await.unwrap());
        }
    }

    #[tokio::test(start_paused = true)]
    async fn whoever_waits_too_long_is_told() {
        let room = RequestRoom::default();
        let mut turns = Vec::new();
        for _ in 0..CHECKS_MAX {
            turns.push(room.check(1).await.unwrap());
        }
        assert!(matches!(room.check(1).await, Err(Error::RequestsBusy)));
    }
}
