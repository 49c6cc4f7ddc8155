//! A copy of the data folder that is made while the service runs, and from which another can be started.

mod copy;
mod run;
#[cfg(test)]
mod tests;

use std::path::Path;

use tracing::{error, info};
use uuid::Uuid;

pub(crate) use copy::back_up;

use crate::domain::causes::chain;
use crate::domain::codes::ErrorCode;
use crate::files;
use crate::orchestrator::access::{AccessError, read_shared_tokens};
use crate::orchestrator::error::Error;
use crate::orchestrator::handle::Orchestrator;
use crate::orchestrator::shared::backups::{Backup, BackupStatus, Copied};
use crate::workspace::NamedToken;

/// A name that is one folder.
pub(crate) fn check_name(name: &str) -> Result<(), Error> {
    let fits = (1..=64).contains(&name.len())
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte))
        && !name.starts_with('.');
    if fits {
        return Ok(());
    }
    let message =
        "a backup is named with 1 to 64 letters, digits, dots, hyphens and underscores, no dot first".to_owned();
    Err(Error::Rejected { code: ErrorCode::InvalidRequest, message, details: Vec::new() })
}

impl Orchestrator {
    /// Begins a backup with this name below the folder of backups.
    pub(crate) fn begin_backup(&self, name: &str) -> Result<Backup, Error> {
        check_name(name)?;
        self.shared.admits()?;
        let shared = &self.shared;
        let folder = shared.settings.paths.backup_dir.join(name);
        if folder.symlink_metadata().is_ok() {
            return Err(exists(&folder));
        }
        let backup = Backup {
            backup_id: shared.clock.new_id(),
            status: BackupStatus::Running,
            folder,
            began_at: shared.clock.now(),
            ended_at: None,
            runs: 0,
            bytes: 0,
            error: None,
        };
        if !shared.backups.begin(backup.clone()) {
            let message = "a backup is being made; wait until it has ended".to_owned();
            return Err(Error::Rejected { code: ErrorCode::BackupRunning, message, details: Vec::new() });
        }
        info!(folder = %backup.folder.display(), "a backup has begun");
        let (orchestrator, begun) = (self.clone(), backup.clone());
        shared.tasks.spawn(async move {
            let (backups, clock, id) =
                (orchestrator.shared.backups.clone(), orchestrator.shared.clock.clone(), begun.backup_id);
            // In a task of its own, so that a panic leaves no backup that is under way for ever.
            if let Err(panic) = tokio::spawn(async move { orchestrator.carry_out(begun).await }).await {
                error!(%panic, "the backup broke off");
                backups.change(id, |backup| {
                    let text = "the work broke off; this is a fault of skill-runner, and its log has the place";
                    (backup.status, backup.ended_at) = (BackupStatus::Failed, Some(clock.now()));
                    backup.error = Some(text.to_owned());
                });
            }
        });
        Ok(backup)
    }

    /// The backup with this id, which has to be the last one.
    pub(crate) fn backup(&self, id: &str) -> Result<Backup, Error> {
        self.shared.backups.last().filter(|backup| backup.backup_id.to_string() == id).ok_or_else(|| {
            let message = format!("no backup has the id {:?}", id.chars().take(64).collect::<String>());
            Error::Rejected { code: ErrorCode::BackupNotFound, message, details: Vec::new() }
        })
    }

    /// The backup with this id when it has ended.
    pub(crate) async fn backup_ended(&self, id: Uuid) {
        self.shared.backups.ended(id).await;
    }

    async fn carry_out(&self, backup: Backup) {
        let id = backup.backup_id;
        let told = |copied: Copied| {
            self.shared.backups.change(id, |backup| (backup.runs, backup.bytes) = (copied.runs, copied.bytes));
        };
        let stopped = || self.shared.closing.is_cancelled();
        let (floor, now) = (self.shared.settings.limits.min_free_bytes, self.shared.clock.now());
        let made = match self.shared_tokens().await {
            Ok(tokens) => back_up(&self.shared.log, &backup.folder, now, floor, &told, &stopped, tokens).await,
            Err(error) => Err(error),
        };
        let now = self.shared.clock.now();
        match made {
            Ok(Copied { runs, bytes }) => {
                info!(folder = %backup.folder.display(), runs, bytes, "the backup is complete");
                self.shared.backups.change(id, |backup| {
                    (backup.status, backup.ended_at) = (BackupStatus::Succeeded, Some(now));
                });
            }
            Err(failed) => {
                let text = chain(&failed);
                error!(folder = %backup.folder.display(), error = text, "the backup failed");
                self.shared.backups.change(id, |backup| {
                    (backup.status, backup.ended_at, backup.error) = (BackupStatus::Failed, Some(now), Some(text));
                });
            }
        }
    }
}

impl Orchestrator {
    /// The named tokens that services share, if they do and there ever was one.
    async fn shared_tokens(&self) -> Result<Option<Vec<NamedToken>>, Error> {
        let Some(member) = &self.shared.member else { return Ok(None) };
        read_shared_tokens(&*member.cluster).await.map_err(|error| match error {
            AccessError::Store(error) => error.into(),
            other => Error::io("read the tokens")(std::io::Error::other(other)),
        })
    }
}

fn has_room(folder: &Path, floor: u64) -> Result<(), Error> {
    let free = files::free_bytes(folder)?;
    if free >= floor {
        return Ok(());
    }
    Err(Error::InsufficientStorage { file_system: files::mount_point(folder), free, floor })
}

/// A backup is never written over.
pub(crate) fn exists(folder: &Path) -> Error {
    let message = format!("{} exists; name another backup, or remove it", folder.display());
    Error::Rejected { code: ErrorCode::BackupExists, message, details: Vec::new() }
}
