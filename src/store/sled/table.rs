//! All runs in memory, by what they are asked for by: a filter looks at some bytes for each run and not at its row.
//!
//! It tells where to look, and the rows tell what is so. So it may hold what was deleted meanwhile, and is filled from the
//! rows when it is first needed.

use std::collections::{BTreeMap, HashSet};
use std::hash::{BuildHasher, RandomState};
use std::sync::{Arc, Mutex, PoisonError, RwLock, RwLockWriteGuard};

use bytes::Bytes;

use crate::domain::ids::RunId;
use crate::domain::statechart::Status;
use crate::domain::time::Timestamp;
use crate::store::Error;
use crate::store::labels::{Labels, RunCounts, RunFilter};

/// Rows that are read at once: nothing is written meanwhile, and one may have hundreds of kilobytes.
const PAGE: usize = 64;

#[derive(Default)]
pub(super) struct RunTable {
    known: RwLock<Known>,
    /// Whether the runs that an earlier process wrote are known as well.
    filled: Mutex<bool>,
}

#[derive(Default)]
struct Known {
    runs: BTreeMap<RunId, Entry>,
    /// Of skills and engines, each once.
    names: HashSet<Arc<str>>,
    /// Its keys are secret, so nobody can make labels whose hashes are equal.
    hasher: RandomState,
}

struct Entry {
    status: Status,
    temporary: bool,
    skill_id: Arc<str>,
    engine: Arc<str>,
    created_at: Option<Timestamp>,
    /// The hash of each label: the texts may be long.
    labels: Box<[u64]>,
}

/// A filter in the table's own terms.
struct Wanted<'a> {
    filter: &'a RunFilter,
    skill_id: Option<&'a Arc<str>>,
    engine: Option<&'a Arc<str>>,
    labels: Vec<u64>,
}

impl Wanted<'_> {
    /// Whether it finds the run, whatever its status is.
    fn finds(&self, entry: &Entry) -> bool {
        let same = |wanted: Option<&Arc<str>>, name: &Arc<str>| wanted.is_none_or(|wanted| Arc::ptr_eq(wanted, name));
        self.filter.temporary.is_none_or(|temporary| temporary == entry.temporary)
            && same(self.skill_id, &entry.skill_id)
            && same(self.engine, &entry.engine)
            && self.labels.iter().all(|label| entry.labels.contains(label))
            && self.filter.covers(entry.created_at)
    }
}

impl Known {
    fn name(&mut self, name: String) -> Arc<str> {
        if let Some(known) = self.names.get(name.as_str()) {
            return known.clone();
        }
        let name: Arc<str> = name.into();
        self.names.insert(name.clone());
        name
    }

    fn put(&mut self, run: RunId, labels: Labels) {
        let Labels { status, skill_id, engine, temporary, labels, created_at } = labels;
        let labels = labels.iter().map(|label| self.hasher.hash_one(label)).collect();
        let (skill_id, engine) = (self.name(skill_id), self.name(engine));
        self.runs.insert(run, Entry { status, temporary, skill_id, engine, created_at, labels });
    }

    fn remove(&mut self, run: &RunId) {
        let Some(entry) = self.runs.remove(run) else { return };
        for name in [entry.skill_id, entry.engine] {
            // Held here and in the list of names.
            if Arc::strong_count(&name) == 2 {
                self.names.remove(&name);
            }
        }
    }

    /// The filter in the table's own terms; none if it names what no run has.
    fn wanted<'a>(&'a self, filter: &'a RunFilter) -> Option<Wanted<'a>> {
        let name = |name: &Option<String>| name.as_ref().map(|name| self.names.get(name.as_str()));
        let (skill_id, engine) = (known(name(&filter.skill_id))?, known(name(&filter.engine))?);
        let labels = filter.labels.iter().map(|(name, value)| self.hasher.hash_one((name, value))).collect();
        Some(Wanted { filter, skill_id, engine, labels })
    }

    /// Runs older than `before`, newest first.
    fn find(&self, filter: &RunFilter, before: Option<RunId>, limit: usize) -> Vec<RunId> {
        let Some(wanted) = self.wanted(filter) else { return Vec::new() };
        let runs = match before {
            Some(before) => self.runs.range(..before),
            None => self.runs.range::<RunId, _>(..),
        };
        let of_status = |entry: &Entry| filter.status.is_none_or(|status| status == entry.status);
        let found = runs.rev().filter(|(_, entry)| of_status(entry) && wanted.finds(entry));
        found.map(|(run, _)| *run).take(limit).collect()
    }

    fn counts(&self, filter: &RunFilter) -> RunCounts {
        let mut counts = RunCounts::new();
        let Some(wanted) = self.wanted(filter) else { return counts };
        for entry in self.runs.values().filter(|entry| wanted.finds(entry)) {
            *counts.entry(entry.status).or_default() += 1;
        }
        counts
    }
}

/// Of a name that is asked for: nothing if no run has it.
fn known(asked: Option<Option<&Arc<str>>>) -> Option<Option<&Arc<str>>> {
    match asked {
        None => Some(None),
        Some(found) => found.map(Some),
    }
}

impl RunTable {
    /// The run's row is now this one, or gone.
    pub(super) fn put(&self, run: RunId, row: Option<&Bytes>) {
        let labels = row.and_then(|row| Labels::of_row(row));
        let mut known = self.write();
        match labels {
            Some(labels) => known.put(run, labels),
            None => known.remove(&run),
        }
    }

    /// Learns of the runs that an earlier process wrote, if it has not yet; `page` reads rows older than a run.
    pub(super) fn fill(
        &self,
        page: impl Fn(Option<RunId>, usize) -> Result<Vec<(RunId, Bytes)>, Error>,
    ) -> Result<(), Error> {
        let mut filled = self.filled.lock().unwrap_or_else(PoisonError::into_inner);
        let mut before = None;
        while !*filled {
            let rows = page(before, PAGE)?;
            let labels: Vec<_> = rows.iter().map(|(run, row)| (*run, Labels::of_row(row))).collect();
            before = rows.last().map(|(run, _)| *run);
            let mut known = self.write();
            for (run, labels) in labels {
                // What is known already is newer than what was read.
                if let Some(labels) = labels.filter(|_| !known.runs.contains_key(&run)) {
                    known.put(run, labels);
                }
            }
            *filled = rows.len() < PAGE;
        }
        Ok(())
    }

    /// Rows of the runs that the filter finds, older than `before`, newest first; `row` reads one.
    pub(super) fn find(
        &self,
        filter: &RunFilter,
        mut before: Option<RunId>,
        limit: usize,
        row: impl Fn(&RunId) -> Result<Option<Bytes>, Error>,
    ) -> Result<Vec<(RunId, Bytes)>, Error> {
        let mut found = Vec::new();
        while found.len() < limit {
            let runs = {
                let known = self.known.read().unwrap_or_else(PoisonError::into_inner);
                known.find(filter, before, limit - found.len())
            };
            let Some(last) = runs.last() else { break };
            before = Some(*last);
            for run in runs {
                match row(&run)? {
                    Some(row) if Labels::of_row(&row).is_some_and(|labels| filter.finds(&labels)) => {
                        found.push((run, row))
                    }
                    // It has changed this moment.
                    Some(_) => {}
                    // It was deleted while it was learned of.
                    None => self.write().remove(&run),
                }
            }
        }
        Ok(found)
    }

    /// How many runs of each status the filter finds, whatever status it asks for.
    pub(super) fn counts(&self, filter: &RunFilter) -> RunCounts {
        self.known.read().unwrap_or_else(PoisonError::into_inner).counts(filter)
    }

    fn write(&self) -> RwLockWriteGuard<'_, Known> {
        self.known.write().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use uuid::Uuid;

    use super::*;

    fn run(n: u128) -> RunId {
        RunId(Uuid::from_u128(n))
    }

    fn row(status: &str, skill: &str) -> Bytes {
        json!({"state": {"skill": {"id": skill}, "engine": "e", "status": status}}).to_string().into()
    }

    #[test]
    fn what_is_learned_later_does_not_replace_what_is_newer_and_what_is_gone_is_forgotten() {
        let table = RunTable::default();
        let rows = [(run(3), row("queued", "a")), (run(2), row("queued", "b")), (run(1), row("failed", "a"))];
        // Written and deleted while the older rows are read.
        table.put(run(3), Some(&row("running", "a")));
        table.put(run(2), None);
        table.fill(|_, _| Ok(rows.to_vec())).unwrap();
        let status = |status| RunFilter { status: Some(status), ..RunFilter::default() };
        let stored = |run_id: &RunId| {
            Ok([(run(3), row("running", "a")), (run(1), row("failed", "a"))]
                .into_iter()
                .find_map(|(run, row)| (run == *run_id).then_some(row)))
        };
        assert_eq!(table.find(&status(Status::Running), None, 9, stored).unwrap(), [(run(3), row("running", "a"))]);
        assert_eq!(table.find(&status(Status::Queued), None, 9, stored).unwrap(), []);
        assert_eq!(table.find(&status(Status::Failed), Some(run(1)), 9, stored).unwrap(), []);
        let known = table.known.read().unwrap();
        assert_eq!(known.runs.keys().copied().collect::<Vec<_>>(), [run(1), run(3)]);
        assert_eq!(known.names.len(), 2, "the name of the deleted run's skill is forgotten, too");
    }

    #[test]
    fn a_name_that_no_run_has_finds_none() {
        let table = RunTable::default();
        table.put(run(1), Some(&row("queued", "a")));
        let filter = |skill: &str| RunFilter { skill_id: Some(skill.into()), ..RunFilter::default() };
        let stored = |_: &RunId| Ok(Some(row("queued", "a")));
        assert_eq!(table.find(&filter("a"), None, 9, stored).unwrap(), [(run(1), row("queued", "a"))]);
        assert_eq!(table.find(&filter("b"), None, 9, stored).unwrap(), []);
    }

    #[test]
    fn of_100_000_runs_only_the_rows_that_a_filter_gives_are_read_and_none_to_count_them() {
        let table = RunTable::default();
        let labelled = |n: u128| -> Bytes {
            let state = json!({
                "skill": {"id": "a"}, "engine": "e", "status": if n.is_multiple_of(4) { "failed" } else { "succeeded" },
                "labels": {"team": (n % 1000).to_string()}, "created_at": Timestamp::from_micros(i64::try_from(n).unwrap()),
            });
            json!({ "state": state }).to_string().into()
        };
        for n in 0..100_000 {
            table.put(run(n), Some(&labelled(n)));
        }
        let read = std::cell::Cell::new(0);
        let stored = |run: &RunId| {
            read.set(read.get() + 1);
            Ok(Some(labelled(run.0.as_u128())))
        };
        let team = RunFilter { labels: vec![("team".into(), "7".into())], ..RunFilter::default() };
        let early =
            RunFilter { until: Some(Timestamp::from_micros(50)), status: Some(Status::Failed), ..RunFilter::default() };
        let ids = |filter: &RunFilter, limit| -> Vec<u128> {
            table.find(filter, None, limit, stored).unwrap().iter().map(|(run, _)| run.0.as_u128()).collect()
        };
        assert_eq!(ids(&team, 3), [99_007, 98_007, 97_007]);
        assert_eq!(ids(&early, 3), [48, 44, 40]);
        assert_eq!(read.get(), 6);
        assert_eq!(table.counts(&team), RunCounts::from([(Status::Succeeded, 100)]));
        assert_eq!(table.counts(&early), RunCounts::from([(Status::Succeeded, 37), (Status::Failed, 13)]));
        assert_eq!(read.get(), 6);
    }
}
