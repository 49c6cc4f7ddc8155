//! What readers and the writer share; nothing is shown that is not yet durable.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock, PoisonError, RwLock, RwLockReadGuard};

use bytes::Bytes;

use super::folder::Claim;
use super::levels::Levels;
use super::row_cache::RowCache;
use super::table::RunTable;
use crate::domain::ids::{RunId, Seq};
use crate::store::tails::Tails;
use crate::store::{Error, EventBatch, IndexKey, RunCounts, RunFilter};

pub(super) struct Shared {
    stored: RwLock<Stored>,
    inflight: RwLock<Inflight>,
    /// How many groups were written.
    groups: AtomicU64,
    pub(super) tails: Tails,
    pub(super) table: RunTable,
    /// Only durable rows, and changed only by who holds `inflight` or is the writer: it never lags behind the databases.
    rows: RowCache,
    /// What no longer works, for operators.
    pub(super) trouble: OnceLock<String>,
    // Declared after the databases, so that sled has closed its files before the directory is released; and in the shared
    // state, so that this happens after the last read.
    _claim: Claim,
}

/// What the databases hold.
#[derive(Clone)]
pub(super) struct Stored {
    pub(super) levels: Arc<Levels>,
    /// Runs whose events are deleted and may still be in a database, and the generation that says so.
    pub(super) deleted: HashMap<RunId, u64>,
}

/// What readers see in place of the group now being written. sled shows inserts before they are
/// durable; the writer lists here what to show instead, before it inserts and until it has synced.
#[derive(Debug, Default)]
pub(super) struct Inflight {
    pub(super) heads: HashMap<RunId, Seq>,
    /// Rows to show; `None` is a row that is not there.
    pub(super) rows: HashMap<IndexKey, Option<Bytes>>,
}

impl Shared {
    pub(super) fn new(stored: Stored, claim: Claim) -> Shared {
        let (inflight, groups, tails) = (RwLock::default(), AtomicU64::new(0), Tails::default());
        let (stored, table, rows) = (RwLock::new(stored), RunTable::default(), RowCache::default());
        Shared { stored, inflight, groups, tails, table, rows, trouble: OnceLock::new(), _claim: claim }
    }

    pub(super) fn count_group(&self) {
        self.groups.fetch_add(1, Ordering::Relaxed);
    }

    /// How many groups were written so far.
    pub(super) fn groups(&self) -> u64 {
        self.groups.load(Ordering::Relaxed)
    }

    /// Replaces what readers see in place of undurable data.
    pub(super) fn show(&self, inflight: Inflight) {
        *self.inflight.write().unwrap_or_else(PoisonError::into_inner) = inflight;
    }

    /// The databases as they are now. They stay readable for who holds them, whatever becomes of their folders.
    pub(super) fn levels(&self) -> Arc<Levels> {
        self.stored().levels.clone()
    }

    pub(super) fn is_deleted(&self, run: &RunId) -> bool {
        self.stored().deleted.contains_key(run)
    }

    /// Changes which databases there are, or which runs are deleted.
    pub(super) fn change(&self, change: impl FnOnce(&mut Stored)) {
        change(&mut self.stored.write().unwrap_or_else(PoisonError::into_inner));
    }

    /// Reads from the databases. A generation that is removed meanwhile cannot be read any more, but then what it held is
    /// elsewhere.
    fn read_levels<T>(&self, read: impl Fn(&Levels) -> Result<T, Error>) -> Result<T, Error> {
        loop {
            let levels = self.levels();
            match read(&levels) {
                Err(_) if !Arc::ptr_eq(&levels, &self.levels()) => {}
                result => return result,
            }
        }
    }

    /// The last event in the databases, durable or not.
    pub(super) fn stored_head(&self, run: &RunId) -> Result<Seq, Error> {
        if self.is_deleted(run) { Ok(Seq::START) } else { self.read_levels(|levels| levels.head(run)) }
    }

    /// The row that was last made durable. For the writer while no group is under way, and for who holds `inflight` and did not
    /// find it there: the row does not change meanwhile.
    pub(super) fn stored_row(&self, key: &IndexKey) -> Result<Option<Bytes>, Error> {
        if let Some(row) = self.rows.get(key) {
            return Ok(row);
        }
        let row = self.read_levels(|levels| levels.row(key))?;
        self.rows.put(*key, row.clone());
        Ok(row)
    }

    /// A row is durable that readers do not see yet.
    pub(super) fn remember_row(&self, key: IndexKey, row: Option<Bytes>) {
        self.rows.put(key, row);
    }

    pub(super) fn open_runs(&self) -> Result<Vec<RunId>, Error> {
        self.read_levels(Levels::open_runs)
    }

    pub(super) fn head(&self, run: &RunId) -> Result<Seq, Error> {
        // The lock is held while the databases are read: else a group could begin in between.
        let inflight = self.inflight();
        match inflight.heads.get(run) {
            Some(head) => Ok(*head),
            None => self.stored_head(run),
        }
    }

    pub(super) fn index(&self, key: &IndexKey) -> Result<Option<Bytes>, Error> {
        let inflight = self.inflight();
        match inflight.rows.get(key) {
            Some(row) => Ok(row.clone()),
            None => self.stored_row(key),
        }
    }

    pub(super) fn runs(&self, before: Option<RunId>, limit: usize) -> Result<Vec<(RunId, Bytes)>, Error> {
        let inflight = self.inflight();
        let shown = inflight.rows.iter().filter_map(|(key, row)| match key {
            IndexKey::Run(run) if before.is_none_or(|before| *run < before) => Some((*run, row)),
            IndexKey::Run(_)
            | IndexKey::Request(_)
            | IndexKey::Idempotency(_)
            | IndexKey::Cache(_)
            | IndexKey::Open(_)
            | IndexKey::Snapshot(_) => None,
        });
        let shown: Vec<_> = shown.collect();
        // Rows in flight may turn out not to be there, so that many more are needed.
        let mut rows = self.read_levels(|levels| levels.runs(before, limit.saturating_add(shown.len())))?;
        for (run, row) in shown {
            match row {
                Some(row) => rows.insert(run, row.clone()),
                None => rows.remove(&run),
            };
        }
        Ok(rows.into_iter().rev().take(limit).collect())
    }

    pub(super) fn runs_with(
        &self,
        filter: &RunFilter,
        before: Option<RunId>,
        limit: usize,
    ) -> Result<Vec<(RunId, Bytes)>, Error> {
        self.fill_table()?;
        self.table.find(filter, before, limit, |run| self.index(&IndexKey::Run(*run)))
    }

    pub(super) fn counts(&self, filter: &RunFilter) -> Result<RunCounts, Error> {
        self.fill_table()?;
        Ok(self.table.counts(filter))
    }

    /// Learns of all runs, if that was not done yet.
    pub(super) fn fill_table(&self) -> Result<(), Error> {
        self.table.fill(|before, limit| self.runs(before, limit))
    }

    pub(super) fn read(&self, run: &RunId, after: Seq, max_bytes: usize) -> Result<Vec<EventBatch>, Error> {
        let head = self.head(run)?;
        if head <= after {
            return Ok(Vec::new());
        }
        // No lock from here on: events up to a durable head never change.
        match self.read_levels(|levels| levels.read(run, after, head, max_bytes)) {
            // … but they may have been deleted in the meantime.
            Err(_) if self.head(run)? < head => Ok(Vec::new()),
            result => result,
        }
    }

    fn inflight(&self) -> RwLockReadGuard<'_, Inflight> {
        self.inflight.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn stored(&self) -> RwLockReadGuard<'_, Stored> {
        self.stored.read().unwrap_or_else(PoisonError::into_inner)
    }
}
