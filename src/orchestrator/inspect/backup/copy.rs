//! Makes a backup: first everything that is not about runs, then run by run, newest first.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde_json::json;
use tracing::warn;

use super::{exists, run};
use crate::domain::causes::chain;
use crate::domain::codes::ErrorCode;
use crate::domain::time::Timestamp;
use crate::files;
use crate::orchestrator::error::Error;
use crate::orchestrator::log::RunLog;
use crate::orchestrator::shared::backups::Copied;
use crate::store::{EventStore, SledStore};
use crate::workspace::{Layout, NEW_STORE, NamedToken, OLD_STORE};

/// Rows looked at in one step.
const PAGE: usize = 64;
/// What a folder holds while it is not a whole backup.
const UNFINISHED: &str = "UNFINISHED-BACKUP";
/// What a whole backup says of itself.
const TOLD: &str = "backup.json";

/// What of the data folder is copied run by run, is made anew by a start, or is of this machine alone.
const NOT_AS_IT_IS: [&str; 22] = [
    "cached",
    "store",
    NEW_STORE,
    OLD_STORE,
    "FORMAT",
    "LOCK",
    "runs",
    "sealed",
    "results",
    "skill-copies",
    "homes",
    "requests",
    "tmp",
    "logs",
    "npm",
    "environments",
    "builtin-skills",
    "service.json",
    "tokens.lock",
    "tokens-moved.json",
    "verify.json",
    TOLD,
];

/// Copies the data folder to a new folder. What was acknowledged before is in it. The folder appears whole or not at all; what this
/// or an earlier try has left is removed. Before each run the disk must have `least_free` bytes, so that a backup on the disk of
/// the data leaves the service its room. `tokens` are those that are not in the data folder.
pub(crate) async fn back_up(
    log: &RunLog,
    folder: &Path,
    now: Timestamp,
    least_free: u64,
    told: &(dyn Fn(Copied) + Sync),
    stopped: &(dyn Fn() -> bool + Sync),
    tokens: Option<Vec<NamedToken>>,
) -> Result<Copied, Error> {
    let unfinished = prepare(log, folder)?;
    let made = fill(log, (&unfinished, folder), now, least_free, told, stopped, tokens).await;
    if made.is_err() {
        let remove = move || files::remove_tree(&unfinished).map_err(Error::from);
        if let Err(error) | Ok(Err(error)) = log.blocking().run("remove an unfinished backup", remove).await {
            warn!(error = chain(&error), "the rest of a backup that failed stays");
        }
    }
    made
}

async fn fill(
    log: &RunLog,
    (unfinished, folder): (&Path, &Path),
    now: Timestamp,
    least_free: u64,
    told: &(dyn Fn(Copied) + Sync),
    stopped: &(dyn Fn() -> bool + Sync),
    tokens: Option<Vec<NamedToken>>,
) -> Result<Copied, Error> {
    let target = Layout::new(unfinished);
    let mut copied = Copied::default();
    has_room(unfinished, least_free)?;
    let (from, to) = (log.layout().data().to_owned(), unfinished.to_owned());
    let others = move || {
        let leave_out = |name: &OsStr| NOT_AS_IT_IS.iter().any(|known| name == *known);
        files::copy_tree_but(&from, &to, &leave_out)
    };
    copied.bytes += log.blocking().run("copy the data folder", others).await??;
    if let Some(tokens) = tokens {
        let file = target.tokens();
        let tokens = serde_json::to_vec_pretty(&tokens).map_err(|error| Error::io("write the tokens")(error.into()))?;
        log.blocking().run("write the tokens", move || files::write_private(&file, &tokens)).await??;
    }
    let store: Arc<dyn EventStore> = Arc::new(SledStore::open(unfinished, |_| {})?);
    let mut shared = BTreeSet::new();
    let mut before = None;
    loop {
        let rows = log.rows(before, PAGE).await?;
        let Some((last, _)) = rows.last() else { break };
        before = Some(*last);
        for (id, _) in rows {
            if stopped() {
                return Err(Error::ShuttingDown);
            }
            has_room(unfinished, least_free)?;
            if let Some(bytes) = run::copy(log, id, &target, &*store, &mut shared).await? {
                copied.runs += 1;
                copied.bytes += bytes;
                told(copied);
            }
        }
    }
    let (unfinished, folder) = (unfinished.to_owned(), folder.to_owned());
    let finish = move || {
        // The threads of the store end with it; everything is on disk then.
        drop(store);
        finish(&unfinished, &folder, now, copied)
    };
    log.blocking().run("complete the backup", finish).await??;
    Ok(copied)
}

fn has_room(folder: &Path, floor: u64) -> Result<(), Error> {
    let free = files::free_bytes(folder)?;
    if free >= floor {
        return Ok(());
    }
    Err(Error::InsufficientStorage { file_system: files::mount_point(folder), free, floor })
}

/// Makes the folder that is renamed in the end.
fn prepare(log: &RunLog, folder: &Path) -> Result<PathBuf, Error> {
    if folder.symlink_metadata().is_ok() {
        return Err(exists(folder));
    }
    let name = folder.file_name().unwrap_or_default().to_string_lossy();
    let unfinished = folder.with_file_name(format!(".{name}.unfinished"));
    if let Some(parent) = folder.parent() {
        files::create_private_folder(parent)?;
        let inside = |place: &Path, of: &Path| place.canonicalize().ok().zip(of.canonicalize().ok());
        // A backup of itself would have no end.
        if inside(parent, log.layout().data()).is_some_and(|(parent, data)| parent.starts_with(data)) {
            let message = format!("{} is in the data folder; set backup_dir to another place", parent.display());
            return Err(Error::Rejected { code: ErrorCode::InvalidRequest, message, details: Vec::new() });
        }
    }
    if unfinished.join(UNFINISHED).symlink_metadata().is_ok() {
        files::remove_tree(&unfinished)?;
    }
    files::create_new_folder(&unfinished)?;
    files::write_durably(&unfinished.join(UNFINISHED), b"A backup that was not completed. It can be removed.\n")?;
    Ok(unfinished)
}

fn finish(unfinished: &Path, folder: &Path, now: Timestamp, copied: Copied) -> Result<(), Error> {
    let Copied { runs, bytes } = copied;
    let told = json!({"program": "skill-runner", "version": env!("CARGO_PKG_VERSION"), "made_at": now, "runs": runs, "bytes": bytes});
    files::write_durably(&unfinished.join(TOLD), format!("{told:#}\n").as_bytes())?;
    files::sync_file_system(unfinished)?;
    files::remove_file(&unfinished.join(UNFINISHED))?;
    files::sync(unfinished)?;
    files::rename(unfinished, folder)?;
    folder.parent().map_or(Ok(()), files::sync)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::ffi::OsString;
    use std::fs;

    use super::*;
    use crate::orchestrator::Blocking;

    /// Backups are named by the time: what a failed one left would stay for ever, and with it a disk without room.
    #[test]
    fn a_backup_that_finds_no_room_takes_none() {
        let place = tempfile::tempdir().unwrap();
        let (data, backups) = (place.path().join("data"), place.path().join("backups"));
        let store = Arc::new(SledStore::open(&data, |error| panic!("{error}")).unwrap());
        let log = RunLog::new(store, Layout::new(&data), Blocking::Threads);
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let names = || fs::read_dir(&backups).unwrap().map(|entry| entry.unwrap().file_name()).collect::<Vec<_>>();
        let back_up = |name: &str, least_free| {
            let folder = backups.join(name);
            runtime.block_on(back_up(
                &log,
                &folder,
                "2026-11-16T01:02:03.456789Z".parse().unwrap(),
                least_free,
                &|_| {},
                &|| false,
                None,
            ))
        };
        let refused = back_up("first", u64::MAX).unwrap_err();
        assert!(matches!(refused, Error::InsufficientStorage { floor: u64::MAX, .. }), "{refused}");
        assert_eq!(names(), Vec::<OsString>::new());
        back_up("second", 0).unwrap();
        assert_eq!(names(), ["second"]);
    }
}
