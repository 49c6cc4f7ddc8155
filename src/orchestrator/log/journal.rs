//! The one way into a run's log: decide on a command, encode what follows, append it. A conflict means that somebody
//! else wrote first.
//!
//! The next command can be decided and encoded while the last one is on its way to the disk. Appends of one run go one after
//! the other: after one that failed, what was encoded behind it is discarded.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use tracing::debug;

use crate::domain::command::{Command, LastFiles, Refusal};
use crate::domain::fact::{Fact, Stream};
use crate::domain::ids::{RunId, Seq};
use crate::domain::state::RunState;
use crate::domain::statechart::Status;
use crate::domain::{Ending, decide, ending};
use crate::fcmp::{Encoder, LogHead, Page, Signer};
use crate::metrics::Metrics;
use crate::orchestrator::environment::clock::Clock;
use crate::orchestrator::error::Error;
use crate::orchestrator::run_files::{self, Along, Sources};
use crate::store::{
    self, Append, AppendResult, BoxFuture, EventBatch, EventStore, ForOthers, IndexChange, IndexKey, MAX_APPEND_BYTES,
    RawPiece,
};

/// Most bytes of pages that are appended together, whatever the run's row.
const ALWAYS_JOINED: usize = 256 * 1024;
/// Room for the other rows of an append.
const OTHER_ROWS: usize = 64 * 1024;

/// Writes one run's log.
pub(crate) struct Journal {
    store: Arc<dyn EventStore>,
    clock: Arc<dyn Clock>,
    signer: Option<Arc<Signer>>,
    metrics: Arc<Metrics>,
    /// The end of the log on disk.
    head: LogHead,
    /// Ahead of `head` by what is in `waiting`.
    encoder: Encoder,
    /// What is encoded and not on disk, in order. Only the first of them can be under way.
    waiting: VecDeque<Write>,
    under_way: Option<BoxFuture<'static, AppendResult>>,
    /// How many bytes were encoded since the log was opened.
    encoded: u64,
    /// Raw output that the next append carries; none where nobody else reads it.
    raw: Option<Vec<RawPiece>>,
}

/// What a log is written with.
pub(crate) struct Pen {
    pub store: Arc<dyn EventStore>,
    pub clock: Arc<dyn Clock>,
    /// Signs the last event of each run.
    pub signer: Option<Arc<Signer>>,
    /// Counts what is written.
    pub metrics: Arc<Metrics>,
    /// Whether raw output goes into the store with the events that cite it, for other services.
    pub shares_output: bool,
}

/// Is over when the bytes that events point to are on disk.
pub(crate) type Synced = BoxFuture<'static, Result<(), Error>>;

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
    pub along: Along,
}

impl Journal {
    /// The log of a run that exists, opened at its end.
    pub(crate) async fn open(pen: Pen, run: RunId) -> Result<Self, Error> {
        let Pen { store, clock, signer, metrics, shares_output } = pen;
        let raw = shares_output.then(Vec::new);
        let head = read_head(&*store, run).await?;
        let encoder = Encoder::resume(head.clone()).signed_by(signer.clone());
        let (waiting, under_way, encoded) = (VecDeque::new(), None, 0);
        Ok(Self { store, clock, signer, metrics, head, encoder, waiting, under_way, encoded, raw })
    }

    /// Create a run. Its creation and the steps that follow at once are one append where they fit one, so that nobody
    /// sees the first event alone.
    pub(crate) async fn create(pen: Pen, run: RunId, steps: Vec<Step>, rows: FirstRows) -> Result<Self, Error> {
        let Pen { store, clock, signer, metrics, shares_output } = pen;
        let mut encoder = Encoder::new(run).signed_by(signer.clone());
        let mut waiting = plan(&mut encoder, steps, &*clock)?;
        let mut first = waiting.pop_front().ok_or(Refusal::NotCreated)?;
        let head = first.head.clone();
        let mut append = first.take_append(Seq::START)?;
        let request = Bytes::copy_from_slice(run.as_bytes());
        append.index.push(IndexChange::Put(IndexKey::Request(head.state.request_id), request));
        append.index.push(IndexChange::Put(IndexKey::Open(run), Bytes::new()));
        append.index.extend(rows.put);
        rows.along.fill(&mut append.for_others);
        append.index.extend(rows.along.rows);
        append.require_absent = rows.require_absent;
        measured(&store, append, rows.along.sources, metrics.clone()).await?;
        metrics.moved(None, &head.state);
        let raw = shares_output.then(Vec::new);
        let (under_way, encoded) = (None, 0);
        let mut journal = Self { store, clock, signer, metrics, head, encoder, waiting, under_way, encoded, raw };
        journal.settle().await?;
        Ok(journal)
    }

    /// The run as it is on disk.
    pub(crate) fn state(&self) -> &RunState {
        &self.head.state
    }

    /// How this command would end the run; `None` when it would not.
    pub(crate) fn ending(&self, command: &Command) -> Option<Ending> {
        ending(self.state(), command)
    }

    /// Decide on a command and log what follows from it; durable when `Ok`.
    pub(crate) async fn commit(&mut self, step: impl Into<Step>) -> Result<(), Error> {
        self.commit_with(step, Along::default()).await
    }

    /// The same, with rows and shared files that commit together with the last event.
    pub(crate) async fn commit_with(&mut self, step: impl Into<Step>, along: Along) -> Result<(), Error> {
        let mut writes = self.encode(step.into())?;
        if let Some(last) = writes.back_mut() {
            along.fill(&mut last.for_others);
            (last.rows, last.sources) = (along.rows, along.sources);
        }
        self.waiting.append(&mut writes);
        self.settle().await
    }

    /// Encode what an engine said, behind what is not on disk yet. [`Journal::advance`] appends it as soon as `synced` is over:
    /// the bytes that its events point to are on disk then. All of it or nothing.
    pub(crate) fn prepare(&mut self, facts: Vec<Fact>, synced: Synced) -> Result<(), Error> {
        let mut writes = self.encode(Command::Record(facts).into())?;
        if let Some(first) = writes.front_mut() {
            first.after = Some(synced);
        }
        self.waiting.append(&mut writes);
        Ok(())
    }

    fn encode(&mut self, step: Step) -> Result<VecDeque<Write>, Error> {
        let mut encoder = self.encoder.clone();
        let mut writes = plan(&mut encoder, vec![step], &*self.clock)?;
        self.encoder = encoder;
        self.encoded += writes.iter().map(|write| write.bytes as u64).sum::<u64>();
        if let (Some(first), Some(raw)) = (writes.front_mut(), &mut self.raw) {
            // No event may be read before the bytes that it cites.
            first.for_others.raw = std::mem::take(raw);
        }
        Ok(writes)
    }

    /// An engine wrote these bytes: they go with the next append.
    pub(crate) fn add_raw(&mut self, stream: Stream, from: u64, bytes: &Bytes) {
        if let Some(raw) = &mut self.raw {
            raw.push(RawPiece { stream, from, bytes: bytes.clone() });
        }
    }

    /// How many bytes of events were encoded since the log was opened.
    pub(crate) fn encoded(&self) -> u64 {
        self.encoded
    }

    /// How many appends are still to come, the one under way included.
    pub(crate) fn waiting(&self) -> usize {
        self.waiting.len()
    }

    /// Append the first of what is encoded and wait until it is on disk; at once when there is none. Cancel-safe: dropping
    /// the future leaves the append under way.
    pub(crate) async fn advance(&mut self) -> Result<(), Error> {
        if let Err(error) = self.append_first().await {
            // A failed append leaves no trace, and neither does what was decided on top of it.
            self.waiting.clear();
            self.under_way = None;
            self.encoder = Encoder::resume(self.head.clone()).signed_by(self.signer.clone());
            return Err(error);
        }
        Ok(())
    }

    /// Wait until everything encoded is on disk. Cancel-safe.
    pub(crate) async fn settle(&mut self) -> Result<(), Error> {
        while self.waiting() > 0 {
            self.advance().await?;
        }
        Ok(())
    }

    async fn append_first(&mut self) -> Result<(), Error> {
        let Some(first) = self.waiting.front_mut() else { return Ok(()) };
        if let Some(synced) = &mut first.after {
            synced.await?;
            first.after = None;
        }
        let append = match &mut self.under_way {
            Some(append) => append,
            none => {
                let append = first.take_append(self.head.state.head_seq)?;
                none.insert(measured(&self.store, append, first.sources.take(), self.metrics.clone()))
            }
        };
        append.await?;
        self.under_way = None;
        if let Some(written) = self.waiting.pop_front() {
            self.metrics.moved(Some(&self.head.state), &written.head.state);
            self.head = written.head;
        }
        Ok(())
    }
}

/// An append that counts itself.
fn measured(
    store: &Arc<dyn EventStore>,
    append: Append,
    sources: Option<Arc<Sources>>,
    metrics: Arc<Metrics>,
) -> BoxFuture<'static, AppendResult> {
    let events = append.events.iter().map(|batch| u64::from(batch.count)).sum();
    let began = Instant::now();
    let appended = match sources {
        Some(sources) => Box::pin(run_files::append(store.clone(), append, sources)),
        None => store.append(append),
    };
    Box::pin(async move {
        let result = appended.await;
        metrics.committed(began.elapsed(), events, result.is_ok());
        result
    })
}

/// Pages that are appended together, and the end of the log after them.
struct Write {
    /// What must be over before they are appended.
    after: Option<Synced>,
    pages: Vec<Page>,
    bytes: usize,
    head: LogHead,
    /// Rows that commit with them, besides the run's own.
    rows: Vec<IndexChange>,
    for_others: ForOthers,
    /// Where the shared files are on this disk that it names.
    sources: Option<Arc<Sources>>,
}

/// What the steps write, decided one after the other.
fn plan(encoder: &mut Encoder, steps: Vec<Step>, clock: &dyn Clock) -> Result<VecDeque<Write>, Error> {
    let now = clock.now();
    let mut writes: VecDeque<Write> = VecDeque::with_capacity(1);
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
            join(&mut writes, Write::of(page));
        }
    }
    Ok(writes)
}

/// Adds what is to be written next: to the last write, where both fit one append.
fn join(writes: &mut VecDeque<Write>, mut next: Write) {
    match writes.back_mut().filter(|last| fit_together(last.bytes + next.bytes, &next.head)) {
        Some(last) => {
            last.pages.append(&mut next.pages);
            last.bytes += next.bytes;
            last.head = next.head;
        }
        None => writes.push_back(next),
    }
}

/// Whether pages of so many bytes fit one append beside the run's row, which may hold hundreds of kilobytes of warnings.
fn fit_together(bytes: usize, head: &LogHead) -> bool {
    let with_row = || head.to_row().map_or(usize::MAX, |row| bytes + row.len() + OTHER_ROWS);
    bytes <= ALWAYS_JOINED || with_row() <= MAX_APPEND_BYTES
}

impl Write {
    fn of(page: Page) -> Self {
        let (bytes, head) = (page.ndjson.len(), page.head.clone());
        let (rows, for_others) = (Vec::new(), ForOthers::default());
        Self { after: None, pages: vec![page], bytes, head, rows, for_others, sources: None }
    }

    /// The append, which takes the pages and rows along.
    fn take_append(&mut self, expected_head: Seq) -> Result<Append, Error> {
        let run = self.head.state.run_id;
        let row =
            self.head.to_row().map_err(|error| Error::Corrupt { run: run.to_string(), message: error.to_string() })?;
        let mut index = vec![IndexChange::Put(IndexKey::Run(run), row.into())];
        index.append(&mut self.rows);
        let events = std::mem::take(&mut self.pages).into_iter().map(batch).collect();
        let for_others = std::mem::take(&mut self.for_others);
        Ok(Append { run, expected_head, events, index, require_absent: None, for_others })
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

/// A run's row from its bytes. A row of another run is damage, and so is one whose names lead elsewhere: paths are made of them, and
/// what is removed or moved is found by them.
pub(crate) fn parse_head(run: RunId, row: &[u8]) -> Result<LogHead, Error> {
    let corrupt = |message: String| Error::Corrupt { run: run.to_string(), message };
    let head = LogHead::from_row(row).map_err(|error| corrupt(error.to_string()))?;
    let state = &head.state;
    if state.run_id != run {
        return Err(corrupt(format!("its row is that of run {}", state.run_id)));
    }
    let names = [("engine", &state.engine), ("skill", &state.skill.id), ("fingerprint", &state.skill.fingerprint)];
    if let Some((what, name)) = names.iter().find(|(_, name)| !is_plain(name)) {
        let name: String = name.chars().take(64).collect();
        return Err(corrupt(format!("its row names the {what} {name:?}, which leads elsewhere")));
    }
    Ok(head)
}

/// Whether a text is the name of one entry of a folder, or empty.
fn is_plain(name: &str) -> bool {
    !name.contains(['/', '\0']) && name != "." && name != ".."
}

/// Whether an append lost a race: reload and decide again.
pub(crate) fn lost_race(error: &Error) -> bool {
    matches!(error, Error::Store(store::Error::Conflict { .. }))
}

/// Whether another service works on the run.
pub(crate) fn not_owner(error: &Error) -> bool {
    matches!(error, Error::Store(store::Error::NotOwner))
}

/// Whether what was to be logged never can be, however often it is tried: it breaks the contract, or is too long for the store.
pub(crate) fn never_fits(error: &Error) -> bool {
    matches!(error, Error::Contract(_) | Error::Store(store::Error::TooLarge { .. } | store::Error::Malformed { .. }))
}

/// The status a refused command met, when the run was over already.
pub(crate) fn met_final(error: &Error) -> Option<Status> {
    match error {
        Error::Refused(Refusal::RunFinal { status }) => Some(*status),
        _ => None,
    }
}

#[cfg(test)]
mod tests;
