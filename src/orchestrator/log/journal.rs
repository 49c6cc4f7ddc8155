//! One run's log under the pen: decide, encode, append; a conflict means somebody else wrote.

use std::sync::Arc;

use bytes::Bytes;

use crate::domain::command::{Command, Refusal};
use crate::domain::decide;
use crate::domain::event::Started;
use crate::domain::ids::{RunId, Seq};
use crate::domain::state::RunState;
use crate::domain::statechart::Status;
use crate::fcmp::{LogHead, Page, Scribe};
use crate::orchestrator::environment::clock::Clock;
use crate::orchestrator::error::Error;
use crate::orchestrator::handle::Shared;
use crate::store;
use crate::store::{Append, EventBatch, EventStore, IndexChange, IndexKey};

/// Most bytes of two pages that are appended as one; rows need room beside them.
const ONE_APPEND: usize = 768 * 1024;

/// Writes one run's log.
pub(crate) struct Journal {
    store: Arc<dyn EventStore>,
    clock: Arc<dyn Clock>,
    scribe: Scribe,
}

impl Shared {
    /// A run's log, opened at its end.
    pub fn journal(&self, run: RunId) -> Result<Journal, Error> {
        let head = read_head(&*self.store, run)?;
        Ok(Journal { store: self.store.clone(), clock: self.clock.clone(), scribe: Scribe::resume(head) })
    }
}

impl Journal {
    /// Create a run: its first event, what follows from it at once, its rows, and what else must commit with them.
    pub async fn create(
        shared: &Shared,
        run: RunId,
        started: Started,
        then: Option<Command>,
        more: Vec<IndexChange>,
        require_absent: Option<IndexKey>,
    ) -> Result<Self, Error> {
        let request = started.request_id;
        let now = shared.clock.now();
        let (scribe, first) = Scribe::begin(run, started, now)?;
        let mut journal = Self { store: shared.store.clone(), clock: shared.clock.clone(), scribe };
        let mut pages = match then {
            Some(command) => journal.scribe.clone().write(decide(journal.state(), command, now)?, now)?,
            None => Vec::new(),
        };
        // The first event and what follows are one append where they fit one: then nobody ever sees the one alone.
        let joined = pages.first().is_some_and(|next| first.ndjson.len() + next.ndjson.len() <= ONE_APPEND);
        let mut append = if joined {
            let next = pages.remove(0);
            let head = next.head.clone();
            let mut append = journal.append(next, Seq::START)?;
            append.events.insert(0, batch(first));
            journal.scribe = Scribe::resume(head);
            append
        } else {
            journal.append(first, Seq::START)?
        };
        append.index.push(IndexChange::Put(IndexKey::Request(request), Bytes::copy_from_slice(run.as_bytes())));
        append.index.push(IndexChange::Put(IndexKey::Open(run), Bytes::new()));
        append.index.extend(more);
        append.require_absent = require_absent;
        journal.store.append(append).await?;
        journal.write(pages, Vec::new()).await?;
        Ok(journal)
    }

    /// The run as logged.
    pub fn state(&self) -> &RunState {
        self.scribe.state()
    }

    /// Decide on a command and log what follows from it; durable when `Ok`.
    pub async fn commit(&mut self, command: Command) -> Result<(), Error> {
        self.commit_with(command, Vec::new()).await
    }

    /// The same, with rows that commit together with the last event.
    pub async fn commit_with(&mut self, command: Command, rows: Vec<IndexChange>) -> Result<(), Error> {
        let now = self.clock.now();
        let facts = decide(self.state(), command, now)?;
        if facts.is_empty() {
            return Ok(());
        }
        // The scribe is replaced only when the store has everything: a failed append leaves no trace.
        let pages = self.scribe.clone().write(facts, now)?;
        self.write(pages, rows).await
    }

    async fn write(&mut self, pages: Vec<Page>, mut rows: Vec<IndexChange>) -> Result<(), Error> {
        let last = pages.len().saturating_sub(1);
        for (i, page) in pages.into_iter().enumerate() {
            let head = page.head.clone();
            let mut append = self.append(page, self.state().head_seq)?;
            if i == last {
                append.index.append(&mut rows);
            }
            self.store.append(append).await?;
            self.scribe = Scribe::resume(head);
        }
        Ok(())
    }

    fn append(&self, page: Page, expected_head: Seq) -> Result<Append, Error> {
        let run = page.head.state.run_id;
        let row = serde_json::to_vec(&page.head)
            .map_err(|error| Error::Corrupt { run: run.to_string(), message: error.to_string() })?;
        Ok(Append {
            run,
            expected_head,
            events: vec![batch(page)],
            index: vec![IndexChange::Put(IndexKey::Run(run), row.into())],
            require_absent: None,
        })
    }
}

fn batch(page: Page) -> EventBatch {
    EventBatch { first: page.first, count: page.count, ndjson: page.ndjson.into() }
}

/// A run's row: its folded state and chain.
pub(crate) fn read_head(store: &dyn EventStore, run: RunId) -> Result<LogHead, Error> {
    match store.index(&IndexKey::Run(run))? {
        Some(row) => parse_head(run, &row),
        None => Err(Error::RunNotFound { id: run.to_string() }),
    }
}

/// A run's row from its bytes.
pub(crate) fn parse_head(run: RunId, row: &[u8]) -> Result<LogHead, Error> {
    serde_json::from_slice(row).map_err(|error| Error::Corrupt { run: run.to_string(), message: error.to_string() })
}

/// Whether an append lost a race: reload and decide again.
pub(crate) fn lost_race(error: &Error) -> bool {
    matches!(error, Error::Store(store::Error::Conflict { .. }))
}

/// The status a refused command met, when the run was over already.
pub(crate) fn met_final(error: &Error) -> Option<Status> {
    match error {
        Error::Refused(Refusal::RunFinal { status }) => Some(*status),
        _ => None,
    }
}
