//! A generation: a database that takes events and rows for a while and is later removed whole.

use std::collections::HashMap;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use super::damage::{corrupt, engine_failed};
use super::database::Database;
use super::folder;
use super::keys::{self, Piece};
use super::loading::LoadedFew;
use crate::domain::ids::{RunId, Seq};
use crate::store::Error;

/// sled's page cache. More gains no speed: the newest pages are used over and over, and finished runs are read from sealed
/// logs. It is hardly a bound: sled looks for pages to give up after 64 uses of the same 256th of them, and keeps one of each
/// 256th in any case. What bounds the memory is the size of a generation and how many are loaded.
const CACHE_BYTES: u64 = 4 * 1024 * 1024;

/// What a run costs beside the bytes of its events.
const BYTES_PER_RUN: u64 = 2 * 1024;

pub(super) struct Generation {
    pub(super) number: u64,
    pub(super) database: Database,
    ledger: Mutex<Ledger>,
    /// Once it takes no more writes: the first and the last event of each run in here.
    spans: OnceLock<HashMap<RunId, (Seq, Seq)>>,
}

/// About how many bytes of which runs are still needed. It decides when work is worth while, never what is removed.
#[derive(Default)]
struct Ledger {
    live: HashMap<RunId, u64>,
    bytes: u64,
    /// Whether the runs that an earlier process wrote are counted as well.
    complete: bool,
}

impl Ledger {
    fn add(&mut self, run: RunId, bytes: u64) {
        let of_run = self.live.entry(run).or_insert_with(|| {
            self.bytes += BYTES_PER_RUN;
            BYTES_PER_RUN
        });
        *of_run += bytes;
        self.bytes += bytes;
    }
}

impl Generation {
    pub(super) fn create(store_dir: &Path, number: u64) -> Result<Generation, Error> {
        let database = Database::create(&folder::generation_dir(store_dir, number), CACHE_BYTES)?;
        let ledger = Mutex::new(Ledger { complete: true, ..Ledger::default() });
        Ok(Generation { number, database, ledger, spans: OnceLock::new() })
    }

    pub(super) fn open(store_dir: &Path, number: u64) -> Result<Generation, Error> {
        let database = Database::open(&folder::generation_dir(store_dir, number), CACHE_BYTES)?;
        Ok(Generation { number, database, ledger: Mutex::default(), spans: OnceLock::new() })
    }

    /// It takes no more writes, and its rows are in the index: from now on the database is needed for reading events alone.
    pub(super) fn settle(&self, few: &Arc<LoadedFew>) -> Result<(), Error> {
        let spans = self.runs().map(|found| found.map(|found| (found.run, (found.first, found.last))));
        let spans = spans.collect::<Result<_, Error>>()?;
        if self.spans.set(spans).is_ok() {
            self.database.be_one_of(few);
        }
        Ok(())
    }

    /// The runs that have events here, but for some.
    pub(super) fn runs_but(&self, not: impl Fn(&RunId) -> bool) -> Result<Vec<RunId>, Error> {
        match self.spans.get() {
            Some(spans) => Ok(spans.keys().copied().filter(|run| !not(run)).collect()),
            None => self
                .runs()
                .map(|found| found.map(|found| found.run))
                .filter(|run| !run.as_ref().is_ok_and(&not))
                .collect(),
        }
    }

    /// Whether this event may be in here.
    pub(super) fn may_hold(&self, run: &RunId, seq: Seq) -> bool {
        match self.spans.get() {
            Some(spans) => spans.get(run).is_some_and(|(first, last)| (*first..=*last).contains(&seq)),
            None => true,
        }
    }

    /// Counts events that were written.
    pub(super) fn add(&self, run: RunId, bytes: u64) {
        self.ledger().add(run, bytes);
    }

    /// The run's events are needed no more.
    pub(super) fn forget(&self, run: &RunId) {
        let mut ledger = self.ledger();
        if let Some(bytes) = ledger.live.remove(run) {
            ledger.bytes -= bytes;
        }
    }

    /// About how many bytes are still needed; `None` while that is not known.
    pub(super) fn live_bytes(&self) -> Option<u64> {
        let ledger = self.ledger();
        ledger.complete.then_some(ledger.bytes)
    }

    /// Counts what an earlier process wrote, but for the runs that are deleted.
    pub(super) fn survey(&self, is_deleted: impl Fn(&RunId) -> bool) -> Result<(), Error> {
        let runs = match self.spans.get() {
            // It need not be loaded for that.
            Some(spans) => {
                spans.iter().map(|(run, (first, last))| Found { run: *run, first: *first, last: *last }).collect()
            }
            None => self.runs().collect::<Result<Vec<_>, Error>>()?,
        };
        let events: u64 = runs.iter().map(Found::events).sum();
        // About half of a file is kept for what was written over.
        let bytes_per_event = self.database.size() / 2 / events.max(1);
        // Looked up under the lock, because whoever deletes a run notes that first and takes the lock then.
        let mut ledger = self.ledger();
        for found in runs.into_iter().filter(|found| !is_deleted(&found.run)) {
            ledger.add(found.run, found.events() * bytes_per_event);
        }
        ledger.complete = true;
        Ok(())
    }

    /// The runs that have events here.
    fn runs(&self) -> impl Iterator<Item = Result<Found, Error>> {
        let (mut from, end) = keys::all_events();
        std::iter::from_fn(move || {
            let found = self.next_run(&from, &end).transpose()?;
            if let Ok(found) = &found {
                from = keys::events_end(&found.run).to_vec();
            }
            Some(found)
        })
    }

    /// Looks at a run's first and last key alone.
    fn next_run(&self, from: &[u8], end: &[u8]) -> Result<Option<Found>, Error> {
        let db = self.database.db()?;
        let Some((key, _)) = db.range(from..end).next().transpose().map_err(engine_failed)? else { return Ok(None) };
        let (run, first) = keys::run_and_seq(&key).ok_or_else(|| Error::CorruptFile {
            path: self.database.folder().to_path_buf(),
            reason: "it holds events of no run".to_owned(),
        })?;
        let last = self.head(&run)?;
        Ok(Some(Found { run, first, last }))
    }

    /// The last event of the run in here.
    pub(super) fn head(&self, run: &RunId) -> Result<Seq, Error> {
        if let Some(spans) = self.spans.get() {
            return Ok(spans.get(run).map_or(Seq::START, |(_, last)| *last));
        }
        let range = keys::event_key(run, Seq::START)..keys::events_end(run);
        let Some((key, value)) = self.database.db()?.range(range).next_back().transpose().map_err(engine_failed)?
        else {
            return Ok(Seq::START);
        };
        let piece = Piece::decode(&key, value).ok_or_else(|| corrupt(run, "its last value has an unknown tag"))?;
        Ok(piece.last())
    }

    fn ledger(&self) -> MutexGuard<'_, Ledger> {
        self.ledger.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A run with events in a generation.
struct Found {
    run: RunId,
    first: Seq,
    last: Seq,
}

impl Found {
    /// How many events there may be.
    fn events(&self) -> u64 {
        self.last.0.saturating_sub(self.first.0) + 1
    }
}
