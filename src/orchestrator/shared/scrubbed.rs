//! How far the check of stored files in the background has come.

use std::sync::Mutex;
use std::sync::atomic::AtomicU64;

use crate::domain::time::Timestamp;

#[derive(Default)]
pub(crate) struct Scrubbed {
    /// Finished runs that were checked.
    pub checked: AtomicU64,
    /// How often all of them were.
    pub passes: AtomicU64,
    /// When that was last.
    pub ended_at: Mutex<Option<Timestamp>>,
}
