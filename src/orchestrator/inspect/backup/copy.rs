//! Makes a backup: first everything that is not about runs, then run by run, newest first.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde_json::json;

use super::{exists, run};
use crate::domain::codes::ErrorCode;
use crate::domain::time::Timestamp;
use crate::files;
use crate::orchestrator::error::Error;
use crate::orchestrator::log::RunLog;
use crate::orchestrator::shared::backups::Copied;
use crate::store::{EventStore, SledStore};
use crate::workspace::{Layout, NEW_STORE, OLD_STORE};

/// Rows looked at in one step.
const PAGE: usize = 256;
/// What a folder holds while it is not a whole backup.
const UNFINISHED: &str = "UNFINISHED-BACKUP";
/// What a whole backup says of itself.
const TOLD: &str = "backup.json";

/// What of the data folder is copied run by run, is made anew by a start, or is of this machine alone.
const NOT_AS_IT_IS: [&str; 20] = [
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
    "verify.json",
    TOLD,
];

/// Copies the data folder to a new folder. What was acknowledged before is in it. The folder appears whole or not at all; what an
/// earlier try has left is removed.
pub(crate) async fn back_up(
    log: &RunLog,
    folder: &Path,
    now: Timestamp,
    told: &(dyn Fn(Copied) + Sync),
    stopped: &(dyn Fn() -> bool + Sync),
) -> Result<Copied, Error> {
    let unfinished = prepare(log, folder)?;
    let target = Layout::new(&unfinished);
    let mut copied = Copied::default();
    let (from, to) = (log.layout().data().to_owned(), unfinished.clone());
    let others = move || {
        let leave_out = |name: &OsStr| NOT_AS_IT_IS.iter().any(|known| name == *known);
        files::copy_tree_but(&from, &to, &leave_out)
    };
    copied.bytes += log.blocking().run("copy the data folder", others).await??;
    let store: Arc<dyn EventStore> = Arc::new(SledStore::open(&unfinished, |_| {})?);
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
            if let Some(bytes) = run::copy(log, id, &target, &*store, &mut shared).await? {
                copied.runs += 1;
                copied.bytes += bytes;
                told(copied);
            }
        }
    }
    let (unfinished, folder) = (unfinished.clone(), folder.to_owned());
    let finish = move || {
        // The threads of the store end with it; everything is on disk then.
        drop(store);
        finish(&unfinished, &folder, now, copied)
    };
    log.blocking().run("complete the backup", finish).await??;
    Ok(copied)
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
    fs::rename(unfinished, folder).map_err(Error::io(format!("rename to {}", folder.display())))?;
    folder.parent().map_or(Ok(()), files::sync)?;
    Ok(())
}
