//! Up to which change of the skills that services share this service has followed.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex as ShortMutex, PoisonError};
use std::time::Duration;

use tokio::sync::Mutex;
use tokio::time::Instant;

use crate::blobs;

/// After a package could not be had, others are answered without it for so long before it is tried again.
const AGAIN_AFTER: Duration = Duration::from_secs(2);

#[derive(Default)]
pub(crate) struct SkillSync {
    /// The revision that was followed, and one; 0 before the first.
    followed: AtomicU64,
    /// Held by who follows; when and at which revision that last failed for a skill.
    pub(crate) following: Mutex<Option<(u64, Instant)>>,
    /// Skills that could not be had then because the shared files were away.
    away: ShortMutex<BTreeMap<String, blobs::Error>>,
}

impl SkillSync {
    pub(crate) fn is_at(&self, revision: u64) -> bool {
        self.followed.load(Ordering::Acquire) == revision + 1
    }

    pub(crate) fn reached(&self, revision: u64) {
        self.followed.store(revision + 1, Ordering::Release);
    }

    pub(crate) fn set_away(&self, away: BTreeMap<String, blobs::Error>) {
        *self.away.lock().unwrap_or_else(PoisonError::into_inner) = away;
    }

    /// Why this skill cannot be had now and can be later.
    pub(crate) fn away(&self, id: &str) -> Option<blobs::Error> {
        self.away.lock().unwrap_or_else(PoisonError::into_inner).get(id).cloned()
    }
}

/// Whether it failed at this revision a moment ago.
pub(crate) fn failed_just_now(failed: Option<(u64, Instant)>, revision: u64) -> bool {
    failed.is_some_and(|(at, when)| at == revision && when.elapsed() < AGAIN_AFTER)
}
