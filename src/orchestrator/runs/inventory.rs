//! All runs there are: listing them, and deleting those nobody needs.

use std::collections::BTreeSet;
use std::time::Duration;

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
use crate::orchestrator::error::Error;
use crate::orchestrator::handle::Orchestrator;
use crate::orchestrator::log::idempotency::idempotency_row;
use crate::orchestrator::log::journal::parse_head;
use crate::projection::Job;
use crate::store::{EventStore, IndexKey, RunCounts, RunFilter};
use crate::workspace::{self, removable};

/// Rows looked at in one step of a scan.
const SCAN_PAGE: usize = 256;
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

impl ListFilter {
    /// The runs, newest first, and where the next page begins.
    pub(crate) async fn read(&self, store: &dyn EventStore) -> Result<(Vec<RunState>, Option<RunId>), Error> {
        let rows = store.runs_with(&self.runs, self.before, self.limit).await?;
        let next_before = rows.last().filter(|_| rows.len() >= self.limit).map(|(run, _)| *run);
        let states = rows.iter().filter_map(|(run, row)| readable(*run, row));
        Ok((states.collect(), next_before))
    }
}

impl Orchestrator {
    pub async fn list(&self, filter: &ListFilter) -> Result<Listing, Error> {
        let (found, next_before) = loop {
            // Looked up before the rows are read: what was recovered since then may be read as it was before.
            let unrecovered = self.shared.unrecovered.all();
            let page = filter.read(&*self.shared.store).await?;
            let early: Vec<RunId> =
                page.0.iter().map(|run| run.run_id).filter(|run| unrecovered.contains(run)).collect();
            if early.is_empty() || self.shared.closing.is_cancelled() {
                break page;
            }
            for run in early {
                self.shared.until_recovered(run).await;
            }
        };
        let jobs = found.iter().map(|state| self.job_of(state)).collect();
        Ok(Listing { jobs, next_before })
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
            let rows = self.shared.store.runs(before, SCAN_PAGE).await?;
            let Some((last, _)) = rows.last() else {
                cleaned.bytes_freed += self.remove_unneeded(needed, began).await?;
                let environments = self.remove_unused_environments().await?;
                cleaned.environments_deleted = environments.count;
                cleaned.bytes_freed += environments.bytes;
                return Ok(cleaned);
            };
            before = Some(*last);
            let mut due = Vec::new();
            for (run, row) in rows {
                let Some(state) = readable(run, &row) else {
                    needed.unknown = true;
                    continue;
                };
                let is_over = state.status().is_final() && !self.shared.live.contains(run);
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
            let rows = shared.store.runs(before, SCAN_PAGE).await?;
            let Some((last, _)) = rows.last() else { break };
            before = Some(*last);
            for (run, row) in rows {
                let state = parse_head(run, &row)?.state;
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
