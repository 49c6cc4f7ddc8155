//! Turns for work on files that clients send or ask to have copied.
//!
//! Unpacking or copying half a gigabyte takes a thread and a processor for seconds. Without a limit, clients that ask for much of it at
//! once would take all threads for blocking work, on which everything else waits too.

use std::time::Duration;

use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::time::timeout;

use crate::orchestrator::error::Error;

/// How much of such work is done at once.
const AT_ONCE: usize = 4;
/// How long a request waits for its turn.
const PATIENCE: Duration = Duration::from_secs(30);

#[derive(Debug)]
pub(crate) struct FileWork(Semaphore);

impl Default for FileWork {
    fn default() -> Self {
        Self(Semaphore::new(AT_ONCE))
    }
}

impl FileWork {
    /// Waits for a turn, which lasts until the permit is dropped.
    pub(crate) async fn turn(&self) -> Result<SemaphorePermit<'_>, Error> {
        // The semaphore is never closed.
        let turn = timeout(PATIENCE, self.0.acquire()).await;
        turn.ok().and_then(Result::ok).ok_or(Error::FilesBusy)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn only_so_much_is_done_at_once_and_who_waits_too_long_is_told() {
        let work = FileWork::default();
        let mut turns = Vec::new();
        for _ in 0..AT_ONCE {
            turns.push(work.turn().await.unwrap());
        }
        assert!(matches!(work.turn().await, Err(Error::FilesBusy)));
        turns.pop();
        assert!(work.turn().await.is_ok(), "a turn that is over is another's");
    }
}
