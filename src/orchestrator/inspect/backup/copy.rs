//! Makes a backup: first everything that is not about runs, then run by run, newest first.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde_json::json;
use tracing::warn;

use super::run::{self, Target};
use super::{exists, has_room};
use crate::domain::causes::chain;
use crate::domain::codes::ErrorCode;
use crate::domain::ids::RunId;
use crate::domain::time::Timestamp;
use crate::files::{self, Copying};
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
/// or an earlier try has left is removed. Before each file, and while a long one is copied, the disk must have `least_free` bytes, so that
/// a backup on the disk of the data leaves the service its room. `tokens` are those that are not in the data folder.
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
    let layout = Layout::new(unfinished);
    let mut copied = Copied::default();
    let (from, to) = (log.layout().data().to_owned(), unfinished.to_owned());
    let others = move || {
        let leave_out = |name: &OsStr| NOT_AS_IT_IS.iter().any(|known| name == *known);
        let has_room = || has_room(&to, least_free);
        files::copy_tree(&from, &to, &Copying { leave_out: &leave_out, leave_closed: false, has_room: &has_room })
    };
    copied.bytes += log.blocking().run("copy the data folder", others).await??;
    if let Some(tokens) = tokens {
        let file = layout.tokens();
        let tokens = serde_json::to_vec_pretty(&tokens).map_err(|error| Error::io("write the tokens")(error.into()))?;
        log.blocking().run("write the tokens", move || files::write_private(&file, &tokens)).await??;
    }
    let store: Arc<dyn EventStore> = Arc::new(SledStore::open(unfinished, |_| {})?);
    let (shared, left_out) = (BTreeSet::new(), Vec::new());
    let mut target = Target { layout, store: &*store, least_free, shared, left_out };
    let mut before = None;
    loop {
        let rows = log.rows(before, PAGE).await?;
        let Some((last, _)) = rows.last() else { break };
        before = Some(*last);
        for (id, _) in rows {
            if stopped() {
                return Err(Error::ShuttingDown);
            }
            if let Some(bytes) = run::copy(log, id, &mut target).await? {
                copied.runs += 1;
                copied.bytes += bytes;
                told(copied);
            }
        }
    }
    let (unfinished, folder) = (unfinished.to_owned(), folder.to_owned());
    let left_out = target.left_out;
    let finish = move || {
        // The threads of the store end with it; everything is on disk then.
        drop(store);
        finish(&unfinished, &folder, now, copied, &left_out)
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

fn finish(unfinished: &Path, folder: &Path, now: Timestamp, copied: Copied, left_out: &[RunId]) -> Result<(), Error> {
    let Copied { runs, bytes } = copied;
    let told = json!({"program": "skill-runner", "version": env!("CARGO_PKG_VERSION"), "made_at": now, "runs": runs, "bytes": bytes, "damaged_and_left_out": left_out});
    files::write_durably(&unfinished.join(TOLD), format!("{told:#}\n").as_bytes())?;
    files::sync_file_system(unfinished)?;
    files::remove_file(&unfinished.join(UNFINISHED))?;
    files::sync(unfinished)?;
    files::rename(unfinished, folder)?;
    folder.parent().map_or(Ok(()), files::sync)?;
    Ok(())
}
