//! All runs there are: listing them, and deleting those nobody needs.

use std::collections::BTreeSet;
use std::time::Duration;

use bytes::Bytes;
use futures_util::{StreamExt, stream};
use serde::Serialize;
use tracing::warn;

use crate::domain::causes::chain;
use crate::domain::codes::ErrorCode;
use crate::domain::ids::RunId;
use crate::domain::retention::EndedRun;
use crate::domain::state::RunState;
use crate::domain::time::Timestamp;
use crate::environments::Totals;
use crate::files;
use crate::orchestrator::admission::cache;
use crate::orchestrator::environment::Blocking;
use crate::orchestrator::error::Error;
use crate::orchestrator::handle::Orchestrator;
use crate::orchestrator::log::idempotency::idempotency_row;
use crate::orchestrator::log::journal::parse_head;
use crate::projection::Job;
use crate::store::{EventStore, IndexKey, RunCounts, RunFilter};
use crate::workspace::{self, removable};

/// Rows that are read at once: that of a run with many warnings has hundreds of kilobytes.
pub(crate) const ROWS_AT_ONCE: usize = 64;
/// So many are read first for a list: they tell how long the others may be.
const FIRST_ROWS: usize = 16;
/// From so many bytes of rows on, a page of a list is full, whatever its limit.
const LISTED_BYTES: usize = 4 * 1024 * 1024;
/// So many bytes of rows are parsed in place; more would hold up others.
const PARSED_IN_PLACE: usize = 256 * 1024;
/// Runs that are deleted side by side: they share the store's commits, so that a clean-up keeps up with those who create runs.
const DELETED_AT_ONCE: usize = 16;

/// Runs whose ids are at most this older than a scan may have got their rows during it.
const CREATION_MAX: Duration = Duration::from_secs(600);

const DAY_SECONDS: u64 = 24 * 60 * 60;

/// What the runs that stay share.
#[derive(Default)]
struct Needed {
    /// Fingerprints of skills.
    skills: BTreeSet<String>,
    /// Runs whose results were taken, or may be.
    results: BTreeSet<RunId>,
    /// Whether there are runs of which nobody knows what they need.
    unknown: bool,
}

/// Which runs to list.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ListFilter {
    pub runs: RunFilter,
    /// Older than this run.
    pub before: Option<RunId>,
    /// At most so many.
    pub limit: usize,
}

/// A page of runs, newest first.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Listing {
    pub jobs: Vec<Job>,
    /// Where the next page begins.
    pub next_before: Option<RunId>,
    /// How many bytes the rows of these runs have: about as many as their list.
    #[serde(skip)]
    pub bytes: usize,
}

/// Answer to a clean-up.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Cleaned {
    pub runs_deleted: u64,
    pub requests_deleted: u64,
    pub cache_entries_deleted: u64,
    pub bytes_freed: u64,
    /// Python packages of skills that nobody has used for long.
    pub environments_deleted: u64,
}

/// Runs of a list, newest first.
pub(crate) struct ReadPage {
    pub(crate) found: Vec<RunState>,
    /// Where the next page begins.
    pub(crate) next_before: Option<RunId>,
    /// How many bytes their rows have.
    pub(crate) bytes: usize,
}

impl ReadPage {
    /// The runs as jobs, on another thread if there is much to copy.
    pub(crate) async fn listing(
        self,
        blocking: &Blocking,
        job: impl Fn(&RunState) -> Job + Send + 'static,
    ) -> Result<Listing, Error> {
        let Self { found, next_before, bytes } = self;
        let told = move || found.iter().map(job).collect();
        let jobs = if bytes <= PARSED_IN_PLACE { told() } else { blocking.run("list runs", told).await? };
        Ok(Listing { jobs, next_before, bytes })
    }
}

impl Needed {
    fn add(&mut self, state: RunState) {
        self.results.extend(state.cached_from);
        self.results.insert(state.run_id);
        self.skills.insert(state.skill.fingerprint);
    }
}

/// What a row tells; none, with a warning, of one that is damaged: it must not take all others with it.
fn readable(run: RunId, row: &[u8]) -> Option<RunState> {
    match parse_head(run, row) {
        Ok(head) => Some(head.state),
        Err(error) => {
            warn!(run.id = %run, error = %chain(&error), "the row of a run cannot be read; the run is left out");
            None
        }
    }
}

/// What some rows tell, on another thread if they are long.
pub(crate) async fn read_rows(blocking: &Blocking, rows: Vec<(RunId, Bytes)>) -> Result<Vec<Option<RunState>>, Error> {
    let bytes: usize = rows.iter().map(|(_, row)| row.len()).sum();
    let read = move || rows.iter().map(|(run, row)| readable(*run, row)).collect();
    if bytes <= PARSED_IN_PLACE { Ok(read()) } else { blocking.run("read the rows of runs", read).await }
}

impl ListFilter {
    /// The runs, newest first, and where the next page begins. Rows may be long: then a page has fewer of them than its limit.
    pub(crate) async fn read(&self, store: &dyn EventStore, blocking: &Blocking) -> Result<ReadPage, Error> {
        let (mut found, mut before, mut left, mut bytes) = (Vec::new(), self.before, self.limit, 0);
        while left > 0 && bytes < LISTED_BYTES {
            // Usual rows have some kilobytes.
            let usual = !found.is_empty() && bytes <= found.len() * 8 * 1024;
            let wanted = left.min(if usual { ROWS_AT_ONCE } else { FIRST_ROWS });
            let rows = store.runs_with(&self.runs, before, wanted).await?;
            let there = rows.len();
            before = rows.last().map(|(run, _)| *run);
            bytes += rows.iter().map(|(_, row)| row.len()).sum::<usize>();
            found.extend(read_rows(blocking, rows).await?.into_iter().flatten());
            if there < wanted {
                return Ok(ReadPage { found, next_before: None, bytes });
            }
            left -= wanted;
        }
        Ok(ReadPage { found, next_before: before, bytes })
    }
}

impl Orchestrator {
    pub async fn list(&self, filter: &ListFilter) -> Result<Listing, Error> {
        let page = loop {
            // Looked up before the rows are read: what was recovered since then may be read as it was before.
            let unrecovered = self.shared.unrecovered.all();
            let page = filter.read(&*self.shared.store, &self.shared.blocking).await?;
            let early: Vec<RunId> =
                page.found.iter().map(|run| run.run_id).filter(|run| unrecovered.contains(run)).collect();
            if early.is_empty() || self.shared.closing.is_cancelled() || !self.shared.recovered_soon(&early).await {
                // A list waits a short time, too: then it shows these runs as they are on record.
                break page;
            }
        };
        let own = self.clone();
        page.listing(&self.shared.blocking, move |state| own.job_of(state)).await
    }

    /// How many runs of each status there are, of those that the filter finds whatever their status.
    pub async fn counts(&self, filter: &RunFilter) -> Result<RunCounts, Error> {
        Ok(self.shared.store.counts(filter).await?)
    }

    /// Delete final runs: those that ended longer ago than this, but never the newest `keep_last` of them.
    pub async fn cleanup(&self, older_than_seconds: Option<u64>, keep_last: usize) -> Result<Cleaned, Error> {
        let older_than = older_than_seconds.map(|seconds| self.shared.clock.now().minus_seconds(seconds));
        let keep_last = u64::try_from(keep_last).unwrap_or(u64::MAX);
        let keeps =
            |run: &RunState, newer: u64| newer < keep_last || older_than.is_some_and(|moment| run.updated_at >= moment);
        let cleaned = self.clean(keeps).await?;
        self.look_for_unneeded_files().await?;
        Ok(cleaned)
    }

    /// Delete the runs that have ended and are older than the settings keep them.
    pub(crate) async fn apply_retention(&self) -> Result<Cleaned, Error> {
        let (retention, now) = (&self.shared.settings.retention, self.shared.clock.now());
        let ended = |run: &RunState, newer: u64| {
            retention.keeps(EndedRun { ended_at: run.updated_at, labels: &run.labels, newer }, now)
        };
        let cleaned = self.clean(ended).await?;
        self.shared.metrics.retired(cleaned.runs_deleted);
        Ok(cleaned)
    }

    /// Delete the final runs that are not kept, newest first; each is told how many newer ones have ended.
    async fn clean(&self, keeps: impl Fn(&RunState, u64) -> bool) -> Result<Cleaned, Error> {
        let mut cleaned = Cleaned::default();
        let mut before = None;
        let mut newer = 0;
        let mut needed = Needed::default();
        let began = self.shared.clock.now();
        loop {
            let rows = self.shared.store.runs(before, ROWS_AT_ONCE).await?;
            let Some((last, _)) = rows.last() else {
                cleaned.bytes_freed += self.remove_unneeded(needed, began).await?;
                let environments = self.remove_unused_environments().await?;
                cleaned.environments_deleted = environments.count;
                cleaned.bytes_freed += environments.bytes;
                return Ok(cleaned);
            };
            before = Some(*last);
            let mut due = Vec::new();
            for state in read_rows(&self.shared.blocking, rows).await? {
                let Some(state) = state else {
                    needed.unknown = true;
                    continue;
                };
                let is_over = state.status().is_final() && !self.shared.live.contains(state.run_id);
                if !is_over || keeps(&state, newer) {
                    newer += u64::from(is_over);
                    needed.add(state);
                    continue;
                }
                newer += 1;
                due.push(state);
            }
            let delete = |state: RunState| async move { self.delete_once(&state).await };
            let deleted = stream::iter(due).map(delete).buffer_unordered(DELETED_AT_ONCE);
            // Those under way go to their end, also where another fails: no folder is left without its row.
            for deleted in deleted.collect::<Vec<_>>().await {
                let Some((bytes, entries)) = deleted? else { continue };
                cleaned.bytes_freed += bytes;
                cleaned.cache_entries_deleted += entries;
                cleaned.runs_deleted += 1;
                cleaned.requests_deleted += 1;
            }
        }
    }

    /// Deletes one run that is over; returns the bytes that this freed.
    pub async fn remove(&self, run: RunId) -> Result<u64, Error> {
        // Nobody begins anything with the run meanwhile.
        let _lock = self.shared.run_locks.lock(run).await;
        let state = self.state(run).await?;
        if !state.status().is_final() || self.shared.live.contains(run) {
            let message =
                format!("the run is {}, and only a run that has ended can be deleted", state.status().as_str());
            return Err(Error::Rejected { code: ErrorCode::RunNotFinal, message, details: Vec::new() });
        }
        Ok(self.delete(&state).await?.0)
    }

    /// Removes what runs share and none needs any more; returns the bytes that this freed.
    async fn remove_unneeded(&self, mut needed: Needed, began: Timestamp) -> Result<u64, Error> {
        let shared = &self.shared;
        if needed.unknown || !shared.lost_runs.is_empty() {
            // They may share it, and nobody knows.
            return Ok(0);
        }
        // Nobody is on the way to its row now: those that were created since the scan began are all there.
        let alone = shared.sharing.write().await;
        let mut before = None;
        'new: loop {
            let rows = shared.store.runs(before, ROWS_AT_ONCE).await?;
            let Some((last, _)) = rows.last() else { break };
            before = Some(*last);
            for state in read_rows(&shared.blocking, rows).await? {
                let Some(state) = state else {
                    // Nobody knows what it needs.
                    return Ok(0);
                };
                if state.created_at.as_micros() + i64::try_from(CREATION_MAX.as_micros()).unwrap_or(i64::MAX)
                    < began.as_micros()
                {
                    break 'new;
                }
                needed.add(state);
            }
        }
        let owned = shared.clone();
        let set_aside = move || {
            let results = owned.layout.shared_results();
            let mut aside = owned.shared_results.set_aside_others(&results, &needed.results);
            aside.extend(owned.shared_skills.set_aside_others(|content| needed.skills.contains(content)));
            aside
        };
        let aside = shared.blocking.run("set aside what no run shares", set_aside).await?;
        drop(alone);
        let remove = move || aside.iter().map(|folder| files::remove_tree(folder)).sum::<Result<u64, _>>();
        Ok(shared.blocking.run("remove what no run shares", remove).await??)
    }

    async fn remove_unused_environments(&self) -> Result<Totals, Error> {
        let shared = self.shared.clone();
        let unused = Duration::from_secs(shared.settings.python.keep_days * DAY_SECONDS);
        let remove = move || shared.environments.remove_unused(unused);
        self.shared.blocking.run("remove unused Python packages", remove).await
    }

    /// Deletes a run, unless somebody else has done so since it was listed.
    async fn delete_once(&self, state: &RunState) -> Result<Option<(u64, u64)>, Error> {
        let _lock = self.shared.run_locks.lock(state.run_id).await;
        match self.shared.store.index(&IndexKey::Run(state.run_id)).await? {
            Some(_) => self.delete(state).await.map(Some),
            None => Ok(None),
        }
    }

    /// The bytes that this freed, and the cache entries that went with the run.
    async fn delete(&self, state: &RunState) -> Result<(u64, u64), Error> {
        let run = state.run_id;
        let shared = &self.shared;
        let mut keys = vec![IndexKey::Request(state.request_id)];
        keys.extend(state.idempotency_sha256.as_deref().and_then(idempotency_row));
        let entry = cache::own_entry(shared, state).await?;
        keys.extend(entry);
        if shared.blobs.is_some() {
            keys.push(IndexKey::Snapshot(run));
        }
        // The rows go first: marked files without a row are swept at the next start, a row without files would promise files that are gone.
        shared.sealer.forget(run);
        let paths = shared.layout.run(run);
        let request = shared.layout.request(state.request_id);
        let marked = (paths.clone(), request.clone());
        let mark = move || {
            // What has no mark, if that fails, is told of by the next start.
            let _ = removable::mark_run(&marked.0);
            let _ = removable::mark(&marked.1);
        };
        shared.blocking.run("mark the run's folder", mark).await?;
        // If this fails, the marks stay until the next start, which knows whether there is still a row.
        shared.store.delete_run(&run, keys).await?;
        shared.log.damage().deleted(run);
        let freed = shared
            .blocking
            .run("remove the run's folder", move || {
                let _ = files::remove_tree(&request);
                workspace::remove_run(&paths)
            })
            .await??;
        Ok((freed, u64::from(entry.is_some())))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use uuid::Uuid;

    use super::*;
    use crate::domain::codes::WarningCode;
    use crate::domain::ids::Seq;
    use crate::domain::outcome::Warning;
    use crate::domain::request::ExecutionMode;
    use crate::domain::samples::{at, started};
    use crate::store::{Append, IndexChange, MemoryStore};

    /// A store with so many runs, each with a row of so many bytes at least.
    async fn store_of(runs: u128, bytes: usize) -> MemoryStore {
        let store = MemoryStore::default();
        for number in 1..=runs {
            let run = RunId(Uuid::from_u128(number));
            let mut state = RunState::open(run, &started(ExecutionMode::Auto, false, false), at(0));
            state.warnings.push(Warning::new(WarningCode::EngineError, "x".repeat(bytes)));
            let row = json!({"state": state, "chain": "0".repeat(64)}).to_string();
            let index = vec![IndexChange::Put(IndexKey::Run(run), row.into())];
            let (events, for_others) = Default::default();
            let rows = Append { run, expected_head: Seq::START, events, index, require_absent: None, for_others };
            store.append(rows).await.unwrap();
        }
        store
    }

    /// How many runs each page of a list has, from the first to the last.
    async fn pages(store: &MemoryStore, limit: usize) -> Vec<usize> {
        let (mut pages, mut before, mut seen) = (Vec::new(), None, Vec::new());
        loop {
            let filter = ListFilter { before, limit, ..ListFilter::default() };
            let ReadPage { found, next_before, bytes } = filter.read(store, &Blocking::Threads).await.unwrap();
            assert!(bytes >= found.len() * 100);
            pages.push(found.len());
            seen.extend(found.iter().map(|state| state.run_id));
            match next_before {
                Some(next) => before = Some(next),
                None => break,
            }
        }
        assert!(seen.windows(2).all(|pair| pair[0] > pair[1]), "newest first, each once");
        pages
    }

    #[tokio::test]
    async fn a_page_of_runs_with_long_rows_is_shorter_and_no_run_is_left_out() {
        assert_eq!(pages(&store_of(130, 1).await, 500).await, [130]);
        assert_eq!(pages(&store_of(130, 1).await, 65).await, [65, 65, 0]);
        assert_eq!(pages(&store_of(100, 100_000).await, 500).await, [48, 48, 4]);
        assert_eq!(pages(&store_of(20, 400_000).await, 7).await, [7, 7, 6]);
    }
}
