//! One run in a backup. Its row is read first and its files after it, so they hold all that its events point to; if the run has moved
//! meanwhile, its files are copied again.

use std::collections::BTreeSet;
use std::path::PathBuf;

use bytes::Bytes;
use tracing::warn;

use super::has_room;
use crate::domain::cache_key::sha256_bytes;
use crate::domain::causes::chain;
use crate::domain::ids::{RunId, Seq};
use crate::domain::state::RunState;
use crate::domain::statechart::Status;
use crate::files::{self, Copying};
use crate::orchestrator::error::Error;
use crate::orchestrator::log::RunLog;
use crate::orchestrator::log::idempotency::idempotency_row;
use crate::orchestrator::log::journal::parse_head;
use crate::store::{Append, EventBatch, EventStore, IndexChange, IndexKey};
use crate::workspace::{self, Layout};

/// How often the files of a run that moves on are copied. One that still runs is then taken as it was: a start ends it as it ends
/// every run that was interrupted.
const TRIES: usize = 5;
/// Bytes of events that are written at once.
const PAGE_BYTES: usize = 512 * 1024;

/// A backup that is being made.
pub(super) struct Target<'a> {
    pub(super) layout: Layout,
    pub(super) store: &'a dyn EventStore,
    /// Bytes that the disk keeps.
    pub(super) least_free: u64,
    /// What is there already of what runs share.
    pub(super) shared: BTreeSet<PathBuf>,
    /// Runs that are so damaged that they cannot be read.
    pub(super) left_out: Vec<RunId>,
}

/// Copies a run; the bytes of its files, or none if it was deleted meanwhile, or is left out because it cannot be read.
pub(super) async fn copy(log: &RunLog, run: RunId, target: &mut Target<'_>) -> Result<Option<u64>, Error> {
    let mut known = None;
    let copied = copy_whole(log, run, target, &mut known).await;
    let is_deleted = match &copied {
        Ok(Some(_)) => false,
        Ok(None) => true,
        // A deletion takes the row first and then the files: what was missed of a run without a row is no damage, wherever it was missed.
        Err(_) => log.store().index(&IndexKey::Run(run)).await?.is_none(),
    };
    match copied {
        Err(error @ (Error::Corrupt { .. } | Error::Damaged { .. } | Error::FilesGone { .. })) if !is_deleted => {
            warn!(run.id = %run, error = %chain(&error), "a run is damaged and not in the backup");
            target.left_out.push(run);
        }
        Ok(None) => {}
        Err(_) if is_deleted => {}
        done => return done,
    }
    if let Some(state) = known {
        remove_copy(log, &state, &target.layout).await?;
        target.store.delete_run(&run, Vec::new()).await?;
    }
    Ok(None)
}

async fn copy_whole(
    log: &RunLog,
    run: RunId,
    target: &mut Target<'_>,
    known: &mut Option<RunState>,
) -> Result<Option<u64>, Error> {
    let mut tries = 0;
    let (row, state, bytes) = loop {
        tries += 1;
        let Some((row, state)) = row_of(log, run).await? else { return Ok(None) };
        *known = Some(state.clone());
        // Another service may have them.
        log.fetch_files(run).await?;
        let bytes = copy_files(log, &state, target).await?;
        match row_of(log, run).await? {
            None => return Ok(None),
            Some((_, now)) if now.head_seq == state.head_seq => break (row, state, bytes),
            // Of a run that waits, files that are newer than its log would be taken for damage.
            Some(_) if tries >= TRIES && state.status() == Status::Running => break (row, state, bytes),
            // What was there for a moment alone, such as a file that was being written, must not stay.
            Some(_) if tries < TRIES * 10 => remove_copy(log, &state, &target.layout).await?,
            Some(_) => {
                let doing = "copy the files of a run that moves on faster than they can be copied; try again";
                return Err(Error::io(doing)(std::io::ErrorKind::ResourceBusy.into()));
            }
        }
    };
    write(log, target, row, &state).await?;
    Ok(Some(bytes))
}

/// Removes what was copied of the run, but for what it shares with others.
async fn remove_copy(log: &RunLog, state: &RunState, target: &Layout) -> Result<(), Error> {
    let (paths, request) = (target.run(state.run_id), target.request(state.request_id));
    let remove = move || {
        if request.symlink_metadata().is_ok() {
            files::remove_tree(&request)?;
        }
        workspace::remove_run(&paths)
    };
    log.blocking().run("remove a run from the backup", remove).await??;
    Ok(())
}

async fn row_of(log: &RunLog, run: RunId) -> Result<Option<(Bytes, RunState)>, Error> {
    let Some(row) = log.store().index(&IndexKey::Run(run)).await? else { return Ok(None) };
    let state = parse_head(run, &row)?.state;
    Ok(Some((row, state)))
}

/// Copies what belongs to the run, and what it shares with others unless that is there already.
async fn copy_files(log: &RunLog, state: &RunState, to: &mut Target<'_>) -> Result<u64, Error> {
    let Target { layout: target, shared, least_free, .. } = to;
    let (from, least_free) = (log.layout(), *least_free);
    let (own, copied) = (from.run(state.run_id), target.run(state.run_id));
    let mut places = vec![
        (own.root, copied.root),
        (own.home, copied.home),
        (own.sealed.with_extension("idx"), copied.sealed.with_extension("idx")),
        (own.sealed, copied.sealed),
        (from.request(state.request_id), target.request(state.request_id)),
    ];
    let results = [Some(state.run_id), state.cached_from].into_iter().flatten();
    let results = results.map(|run| (from.shared_result(run), target.shared_result(run)));
    let fingerprint = Some(&state.skill.fingerprint).filter(|fingerprint| !fingerprint.is_empty());
    let skill = fingerprint.map(|name| (from.skill_copies().join(name), target.skill_copies().join(name)));
    let of_others: Vec<(PathBuf, PathBuf)> =
        results.chain(skill).filter(|(place, _)| place.symlink_metadata().is_ok()).collect();
    places.extend(of_others.into_iter().filter(|(place, _)| shared.insert(place.clone())));
    // A process that is at work may close its own files; what it has closed when it ends is opened again.
    let (leave_closed, place) = (state.status() == Status::Running, target.data().to_owned());
    let copy = move || {
        let has_room = || has_room(&place, least_free);
        let how = Copying { leave_out: &|_| false, leave_closed, has_room: &has_room };
        let mut bytes = 0;
        for (from, to) in places {
            if from.symlink_metadata().is_ok() {
                files::create_parent(&to)?;
                bytes += files::copy_tree(&from, &to, &how)?;
            }
        }
        Ok::<_, Error>(bytes)
    };
    log.blocking().run("copy the files of a run", copy).await?
}

/// Writes the rows of the run, and its events unless its log is a file.
async fn write(log: &RunLog, target: &Target<'_>, row: Bytes, state: &RunState) -> Result<(), Error> {
    let (run, store) = (state.run_id, target.store);
    let is_sealed = state.status().is_final() && target.layout.run(run).sealed_log().is_some();
    let mut index = vec![
        IndexChange::Put(IndexKey::Run(run), row),
        IndexChange::Put(IndexKey::Request(state.request_id), Bytes::copy_from_slice(run.as_bytes())),
    ];
    if !is_sealed {
        index.push(IndexChange::Put(IndexKey::Open(run), Bytes::new()));
    }
    let cache = state.shared_key().and_then(sha256_bytes).map(IndexKey::Cache);
    let idempotency = state.idempotency_sha256.as_deref().and_then(idempotency_row);
    if let Some(key) = idempotency
        && let Some(value) = log.store().index(&key).await?
    {
        index.push(IndexChange::Put(key, value));
    }
    // The entry may name another run, which has its own turn if it is old enough for this backup.
    if let Some(key) = cache
        && let Some(value) = log.store().index(&key).await?
        && String::from_utf8_lossy(&value).contains(&run.to_string())
    {
        index.push(IndexChange::Put(key, value));
    }
    let mut head = Seq::START;
    if !is_sealed {
        let mut events = log.events(run, Seq::START).in_pages_of(PAGE_BYTES);
        while head < state.head_seq {
            let Some(page) = events.next_page().await? else { break };
            let page: Vec<EventBatch> = page.iter().filter_map(|batch| batch.up_to(state.head_seq)).collect();
            let Some(last) = page.last().map(EventBatch::last) else { break };
            let rows = if last == state.head_seq { std::mem::take(&mut index) } else { Vec::new() };
            for (n, batch) in page.iter().enumerate() {
                let rows = if n + 1 == page.len() { rows.clone() } else { Vec::new() };
                let events = vec![batch.clone()];
                store
                    .append(Append {
                        run,
                        expected_head: head,
                        events,
                        index: rows,
                        require_absent: None,
                        for_others: Default::default(),
                    })
                    .await?;
                head = batch.last();
            }
        }
        if head != state.head_seq {
            let message = format!("it ends at {head}, before {}", state.head_seq);
            return Err(Error::Corrupt { run: run.to_string(), message });
        }
    }
    if !index.is_empty() {
        store
            .append(Append {
                run,
                expected_head: Seq::START,
                events: Vec::new(),
                index,
                require_absent: None,
                for_others: Default::default(),
            })
            .await?;
    }
    Ok(())
}
