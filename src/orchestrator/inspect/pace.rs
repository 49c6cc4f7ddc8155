//! How fast stored files are read by a check that nobody waits for.

use std::time::{Duration, Instant};

use tokio_util::sync::CancellationToken;

/// Holds a reader to so many bytes a second.
pub(crate) struct Pace {
    bytes_per_second: u64,
    stop: CancellationToken,
    began: Instant,
    bytes: u64,
}

impl Pace {
    /// A reader that stops when this is canceled.
    pub(crate) fn new(bytes_per_second: u64, stop: CancellationToken) -> Self {
        Self { bytes_per_second, stop, began: Instant::now(), bytes: 0 }
    }

    /// So many bytes were read: waits until they may have been; whether to go on. Blocks.
    pub(crate) fn took(&mut self, bytes: u64) -> bool {
        self.bytes += bytes;
        let due = Duration::from_secs_f64(self.bytes as f64 / self.bytes_per_second.max(1) as f64);
        while let Some(left) = due.checked_sub(self.began.elapsed()) {
            if self.stop.is_cancelled() {
                return false;
            }
            std::thread::sleep(left.min(Duration::from_millis(200)));
        }
        !self.stop.is_cancelled()
    }
}
