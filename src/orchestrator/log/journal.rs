//! The one way into a run's log: decide on a command, encode what follows, append it. A conflict means that somebody
//! else wrote first.

use std::sync::Arc;

use bytes::Bytes;
use tracing::debug;

use crate::domain::command::{Command, LastFiles, Refusal};
use crate::domain::ids::{RunId, Seq};
use crate::domain::state::RunState;
use crate::domain::statechart::Status;
use crate::domain::{Ending, decide, ending};
use crate::fcmp::{Encoder, LogHead, Page};
use crate::orchestrator::environment::clock::Clock;
use crate::orchestrator::error::Error;
use crate::store::{self, Append, EventBatch, EventStore, IndexChange, IndexKey, MAX_APPEND_BYTES};

/// Most bytes of pages that are appended together, whatever the run's row.
const ALWAYS_JOINED: usize = 256 * 1024;
/// Room for the other rows of an append.
const OTHER_ROWS: usize = 64 * 1024;

/// Writes one run's log.
pub(crate) struct Journal {
    store: Arc<dyn EventStore>,
    clock: Arc<dyn Clock>,
    head: LogHead,
}

/// A command, with the run's last files where it ends the run.
pub(crate) struct Step {
    pub command: Command,
    pub last_files: Option<LastFiles>,
}

impl From<Command> for Step {
    fn from(command: Command) -> Self {
        Self { command, last_files: None }
    }
}

/// Rows that commit with a new run, and one that must not be there yet.
#[derive(Default)]
pub(crate) struct FirstRows {
    pub put: Vec<IndexChange>,
    pub require_absent: Option<IndexKey>,
}

impl Journal {
    /// The log of a run that exists, opened at its end.
    pub(crate) async fn open(store: Arc<dyn EventStore>, clock: Arc<dyn Clock>, run: RunId) -> Result<Self, Error> {
        let head = read_head(&*store, run).await?;
        Ok(Self { store, clock, head })
    }

    /// Create a run. Its creation and the steps that follow at once are one append where they fit one, so that nobody
    /// sees the first event alone.
    pub(crate) async fn create(
        store: Arc<dyn EventStore>,
        clock: Arc<dyn Clock>,
        run: RunId,
        steps: Vec<Step>,
        rows: FirstRows,
    ) -> Result<Self, Error> {
        let mut writes = plan(Encoder::new(run), steps, &*clock)?.into_iter();
        let first = writes.next().ok_or(Refusal::NotCreated)?;
        let (head, mut append) = (first.head.clone(), first.into_append(Seq::START)?);
        let request = Bytes::copy_from_slice(run.as_bytes());
        append.index.push(IndexChange::Put(IndexKey::Request(head.state.request_id), request));
        append.index.push(IndexChange::Put(IndexKey::Open(run), Bytes::new()));
        append.index.extend(rows.put);
        append.require_absent = rows.require_absent;
        store.append(append).await?;
        let mut journal = Self { store, clock, head };
        journal.write(writes, Vec::new()).await?;
        Ok(journal)
    }

    /// The run as logged.
    pub(crate) fn state(&self) -> &RunState {
        &self.head.state
    }

    /// How this command would end the run; `None` when it would not.
    pub(crate) fn ending(&self, command: &Command) -> Option<Ending> {
        ending(self.state(), command)
    }

    /// Decide on a command and log what follows from it; durable when `Ok`.
    pub(crate) async fn commit(&mut self, step: impl Into<Step>) -> Result<(), Error> {
        self.commit_with(step, Vec::new()).await
    }

    /// The same, with rows that commit together with the last event.
    pub(crate) async fn commit_with(&mut self, step: impl Into<Step>, rows: Vec<IndexChange>) -> Result<(), Error> {
        let writes = plan(Encoder::resume(self.head.clone()), vec![step.into()], &*self.clock)?;
        self.write(writes.into_iter(), rows).await
    }

    async fn write(
        &mut self,
        writes: impl ExactSizeIterator<Item = Write>,
        mut rows: Vec<IndexChange>,
    ) -> Result<(), Error> {
        let last = writes.len().saturating_sub(1);
        for (i, write) in writes.enumerate() {
            let head = write.head.clone();
            let mut append = write.into_append(self.head.state.head_seq)?;
            if i == last {
                append.index.append(&mut rows);
            }
            self.store.append(append).await?;
            // Only now: a failed append leaves no trace.
            self.head = head;
        }
        Ok(())
    }
}

/// Pages that are appended together, and the end of the log after them.
struct Write {
    pages: Vec<Page>,
    bytes: usize,
    head: LogHead,
}

/// What the steps write, decided one after the other.
fn plan(mut encoder: Encoder, steps: Vec<Step>, clock: &dyn Clock) -> Result<Vec<Write>, Error> {
    let now = clock.now();
    let mut writes: Vec<Write> = Vec::with_capacity(1);
    for Step { command, last_files } in steps {
        let name = command.name();
        let decision = decide(encoder.state(), command, last_files, now).inspect_err(|refusal| {
            debug!(run.id = %encoder.run(), command = name, %refusal, "refused");
        })?;
        if decision.is_empty() {
            debug!(run.id = %encoder.run(), command = name, "changes nothing");
            continue;
        }
        let (events, ends) = (decision.facts.len(), decision.terminal.is_some());
        debug!(run.id = %encoder.run(), command = name, events, ends, "decided");
        for page in encoder.encode(decision, now)? {
            let (bytes, head) = (page.ndjson.len(), page.head.clone());
            match writes.last_mut().filter(|last| fit_together(last.bytes + bytes, &head)) {
                Some(last) => {
                    last.pages.push(page);
                    last.bytes += bytes;
                    last.head = head;
                }
                None => writes.push(Write { pages: vec![page], bytes, head }),
            }
        }
    }
    Ok(writes)
}

/// Whether pages of so many bytes fit one append beside the run's row, which may hold hundreds of kilobytes of warnings.
fn fit_together(bytes: usize, head: &LogHead) -> bool {
    let with_row = || head.to_row().map_or(usize::MAX, |row| bytes + row.len() + OTHER_ROWS);
    bytes <= ALWAYS_JOINED || with_row() <= MAX_APPEND_BYTES
}

impl Write {
    fn into_append(self, expected_head: Seq) -> Result<Append, Error> {
        let run = self.head.state.run_id;
        let row =
            self.head.to_row().map_err(|error| Error::Corrupt { run: run.to_string(), message: error.to_string() })?;
        Ok(Append {
            run,
            expected_head,
            events: self.pages.into_iter().map(batch).collect(),
            index: vec![IndexChange::Put(IndexKey::Run(run), row.into())],
            require_absent: None,
        })
    }
}

fn batch(page: Page) -> EventBatch {
    EventBatch { first: page.first, count: page.count, ndjson: page.ndjson.into() }
}

/// A run's row: its folded state and chain.
pub(crate) async fn read_head(store: &dyn EventStore, run: RunId) -> Result<LogHead, Error> {
    match store.index(&IndexKey::Run(run)).await? {
        Some(row) => parse_head(run, &row),
        None => Err(Error::RunNotFound { id: run.to_string() }),
    }
}

/// A run's row from its bytes.
pub(crate) fn parse_head(run: RunId, row: &[u8]) -> Result<LogHead, Error> {
    LogHead::from_row(row).map_err(|error| Error::Corrupt { run: run.to_string(), message: error.to_string() })
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

#[cfg(test)]
mod tests {
    use serde_json::json;
    use uuid::Uuid;

    use super::*;
    use crate::domain::codes::WarningCode;
    use crate::domain::event::{Event, Progress};
    use crate::domain::fact::Fact;
    use crate::domain::outcome::Warning;
    use crate::orchestrator::environment::WallClock;
    use crate::store::MemoryStore;

    async fn running() -> Journal {
        let started = json!({
            "request_id": Uuid::from_u128(2), "skill": {"id": "s", "version": "1.0.0", "fingerprint": ""},
            "engine": "script", "model": null, "execution_mode": "auto", "input": {}, "parameter": {},
            "awaiting_upload": false, "idempotency_sha256": null,
            "runtime_options": {
                "execution_mode": "auto", "no_cache": false, "debug": false, "debug_keep_temp": false,
                "verbose": false, "interactive_auto_reply": false, "interactive_reply_timeout_sec": 1,
                "hard_timeout_seconds": 60, "stall_timeout_seconds": 0,
            },
        });
        let create = Command::Create(Box::new(serde_json::from_value(started).unwrap()));
        let start = Command::StartTurn {
            command: vec!["true".into()],
            pid: 1,
            engine_version: "1".into(),
            parser_version: "1".into(),
            isolation: "none".into(),
        };
        let (store, run) = (Arc::new(MemoryStore::default()), RunId(Uuid::from_u128(1)));
        let steps = vec![create.into(), start.into()];
        Journal::create(store, Arc::new(WallClock), run, steps, FirstRows::default()).await.unwrap()
    }

    #[tokio::test]
    async fn commits_of_any_length_fit_the_store_beside_a_row_full_of_warnings() {
        let mut journal = running().await;
        // A control character takes six bytes of JSON.
        let warning = || Warning::new(WarningCode::LogLimitExceeded, "\u{1}".repeat(500));
        let warnings = (0..100).map(|_| Fact::own(Event::Warned(warning()))).collect();
        journal.commit(Command::Record(warnings)).await.unwrap();
        assert!(journal.head.to_row().unwrap().len() > 300_000);
        for facts in (100..2000).step_by(100) {
            let progress = || Fact::own(Event::Progress(Progress { percent: 1.0, message: "m".repeat(400) }));
            let record = Command::Record((0..facts).map(|_| progress()).collect());
            journal.commit(record).await.unwrap_or_else(|error| panic!("{facts} facts: {error:?}"));
        }
    }
}
