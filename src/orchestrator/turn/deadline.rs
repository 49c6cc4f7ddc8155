//! When the time of a turn, or of one step of it, is over.

use std::time::Duration;

use tokio::time::Instant;

/// When it is too late, and how long there was until then.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Deadline {
    pub at: Instant,
    pub seconds: u64,
}

impl Deadline {
    /// So much from now.
    pub(crate) fn after(time: Duration) -> Self {
        Self { at: Instant::now() + time, seconds: time.as_secs().max(1) }
    }
}
