//! The backup that is being made, or was made last.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde::Serialize;
use uuid::Uuid;

use crate::domain::time::Timestamp;

/// How far a backup has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum BackupStatus {
    Running,
    Succeeded,
    Failed,
}

/// A backup, as it is told.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct Backup {
    pub(crate) backup_id: Uuid,
    pub(crate) status: BackupStatus,
    /// Where it is, or will be.
    pub(crate) folder: PathBuf,
    pub(crate) began_at: Timestamp,
    pub(crate) ended_at: Option<Timestamp>,
    /// Runs that are in it, and bytes of their files and others.
    pub(crate) runs: u64,
    pub(crate) bytes: u64,
    pub(crate) error: Option<String>,
}

/// What was copied so far.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Copied {
    pub(crate) runs: u64,
    pub(crate) bytes: u64,
}

/// The last backup; there is one at a time.
#[derive(Debug, Clone, Default)]
pub(crate) struct Backups(Arc<Mutex<Option<Backup>>>);

impl Backups {
    /// Nothing can panic while it holds the lock.
    pub(crate) fn lock(&self) -> MutexGuard<'_, Option<Backup>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn last(&self) -> Option<Backup> {
        self.lock().clone()
    }

    pub(crate) fn change(&self, id: Uuid, change: impl FnOnce(&mut Backup)) {
        if let Some(backup) = self.lock().as_mut().filter(|backup| backup.backup_id == id) {
            change(backup);
        }
    }
}
