//! The backup that is being made, or was made last.

use std::path::PathBuf;
use std::sync::Arc;

use serde::Serialize;
use tokio::sync::watch;
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
pub(crate) struct Backups(Arc<watch::Sender<Option<Backup>>>);

impl Backups {
    /// Takes the place of the last one, unless that is still being made; whether it did.
    pub(crate) fn begin(&self, backup: Backup) -> bool {
        self.0.send_if_modified(|last| {
            let free = last.as_ref().is_none_or(|last| last.status != BackupStatus::Running);
            if free {
                *last = Some(backup);
            }
            free
        })
    }

    pub(crate) fn last(&self) -> Option<Backup> {
        self.0.borrow().clone()
    }

    pub(crate) fn change(&self, id: Uuid, change: impl FnOnce(&mut Backup)) {
        self.0.send_if_modified(|last| {
            let found = last.as_mut().filter(|backup| backup.backup_id == id);
            found.map(change).is_some()
        });
    }

    /// Completes when the backup with this id is no longer being made.
    pub(crate) async fn ended(&self, id: Uuid) {
        let is_over = |last: &Option<Backup>| {
            last.as_ref().is_none_or(|last| last.backup_id != id || last.status != BackupStatus::Running)
        };
        // It cannot fail: `self` holds the sender.
        let _ = self.0.subscribe().wait_for(is_over).await;
    }
}
