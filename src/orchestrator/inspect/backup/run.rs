//! One run in a backup. Its row is read first and its files after it, so they hold all that its events point to; if the run has moved
//! meanwhile, its files are copied again.

use std::collections::BTreeSet;
use std::path::PathBuf;

use bytes::Bytes;

use crate::domain::cache_key::sha256_bytes;
use crate::domain::ids::{RunId, Seq};
use crate::domain::state::RunState;
use crate::domain::statechart::Status;
use crate::files;
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

/// Copies a run; the bytes of its files, or none if it was deleted meanwhile.
pub(super) async fn copy(
    log: &RunLog,
    run: RunId,
    target: &Layout,
    store: &dyn EventStore,
    shared: &mut BTreeSet<PathBuf>,
) -> Result<Option<u64>, Error> {
    let mut tries = 0;
    let (row, state, bytes) = loop {
        tries += 1;
        let Some((row, state)) = row_of(log, run).await? else { return Ok(None) };
        // Another service may have them.
        log.fetch_files(run).await?;
        let bytes = copy_files(log, &state, target, shared).await?;
        match row_of(log, run).await? {
            None => {
                remove_copy(log, &state, target).await?;
                return Ok(None);
            }
            Some((_, now)) if now.head_seq == state.head_seq => break (row, state, bytes),
            // Of a run that waits, files that are newer than its log would be taken for damage.
            Some(_) if tries >= TRIES && state.status() == Status::Running => break (row, state, bytes),
            // What was there for a moment alone, such as a file that was being written, must not stay.
            Some(_) if tries < TRIES * 10 => remove_copy(log, &state, target).await?,
            Some(_) => {
                let message = "it moves on faster than its files can be copied; try again".to_owned();
                return Err(Error::Corrupt { run: run.to_string(), message });
            }
        }
    };
    write(log, store, target, row, &state).await?;
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
async fn copy_files(
    log: &RunLog,
    state: &RunState,
    target: &Layout,
    shared: &mut BTreeSet<PathBuf>,
) -> Result<u64, Error> {
    let from = log.layout();
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
    let copy = move || {
        let mut bytes = 0;
        for (from, to) in places {
            if from.symlink_metadata().is_ok() {
                files::create_parent(&to)?;
                bytes += files::copy_tree(&from, &to)?;
            }
        }
        Ok::<_, Error>(bytes)
    };
    log.blocking().run("copy the files of a run", copy).await?
}

/// Writes the rows of the run, and its events unless its log is a file.
async fn write(
    log: &RunLog,
    store: &dyn EventStore,
    target: &Layout,
    row: Bytes,
    state: &RunState,
) -> Result<(), Error> {
    let run = state.run_id;
    let is_sealed = state.status().is_final() && target.run(run).sealed_log().is_some();
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
