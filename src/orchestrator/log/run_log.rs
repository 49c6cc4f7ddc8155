//! A run's log for readers: from the store while it is live, from its sealed file afterwards.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;
use serde_json::{Map, Value};
use tokio::sync::watch;

use crate::domain::event::{Event, Started};
use crate::domain::ids::{RequestId, RunId, Seq};
use crate::domain::state::RunState;
use crate::fcmp::{LogHead, read_envelope};
use crate::orchestrator::environment::Blocking;
use crate::orchestrator::error::Error;
use crate::orchestrator::log::journal::read_head;
use crate::store::{EventBatch, EventStore, IndexKey, SealedLog};
use crate::workspace::{Layout, RunPaths};

/// Bytes of one page of events, unless the reader wants another size.
const PAGE_BYTES: usize = 1024 * 1024;

/// Reads logs of runs, live or finished.
#[derive(Clone)]
pub struct RunLog {
    store: Arc<dyn EventStore>,
    layout: Layout,
    blocking: Blocking,
}

/// Pages through a run's log from a cursor on.
pub struct Events {
    log: RunLog,
    run: RunId,
    at: Seq,
    page_bytes: usize,
}

impl Events {
    /// Pages of about this size.
    #[must_use]
    pub fn in_pages_of(mut self, bytes: usize) -> Self {
        self.page_bytes = bytes;
        self
    }

    /// The next page, which is never empty; `None` at the durable head.
    pub async fn next_page(&mut self) -> Result<Option<Vec<EventBatch>>, Error> {
        let page = self.log.read(self.run, self.at, self.page_bytes).await?;
        let Some(last) = page.last() else { return Ok(None) };
        self.at = last.last();
        Ok(Some(page))
    }

    /// The last event that was read.
    pub fn at(&self) -> Seq {
        self.at
    }
}

impl RunLog {
    /// A reader over a store and the folder of sealed logs.
    pub fn new(store: Arc<dyn EventStore>, layout: Layout, blocking: Blocking) -> Self {
        Self { store, layout, blocking }
    }

    /// The run with this request id or run id.
    pub async fn resolve(&self, id: &str) -> Result<RunId, Error> {
        let unknown = || Error::RunNotFound { id: id.chars().take(64).collect() };
        let given: RunId = id.parse().map_err(|_| unknown())?;
        if let Some(row) = self.store.index(&IndexKey::Request(RequestId(given.0))).await? {
            return row.as_ref().try_into().map(RunId::from_bytes).map_err(|_| unknown());
        }
        self.store.index(&IndexKey::Run(given)).await?.map(|_| given).ok_or_else(unknown)
    }

    pub(crate) fn store(&self) -> &dyn EventStore {
        &*self.store
    }

    /// Where work that blocks is done.
    pub(crate) fn blocking(&self) -> &Blocking {
        &self.blocking
    }

    pub(crate) fn layout(&self) -> &Layout {
        &self.layout
    }

    /// Where the files of a run are.
    pub(crate) fn paths(&self, run: RunId) -> RunPaths {
        self.layout.run(run)
    }

    /// The events after this one, page by page.
    pub fn events(&self, run: RunId, after: Seq) -> Events {
        Events { log: self.clone(), run, at: after, page_bytes: PAGE_BYTES }
    }

    /// Events from exactly `after + 1` on, about `max_bytes` of them; empty at the durable head.
    pub async fn read(&self, run: RunId, after: Seq, max_bytes: usize) -> Result<Vec<EventBatch>, Error> {
        let paths = self.layout.run(run);
        if let Some(sealed) = paths.sealed_log() {
            if !self.is_final(run).await {
                return Ok(self.store.read(&run, after, max_bytes).await?);
            }
            if let Some(batches) = self.read_sealed(sealed, after, max_bytes).await? {
                return Ok(batches);
            }
        }
        let batches = self.store.read(&run, after, max_bytes).await?;
        if !batches.is_empty() {
            return Ok(batches);
        }
        // The log may have been sealed, and its events have left the store, between the two looks.
        match paths.sealed_log() {
            Some(sealed) if self.is_final(run).await => {
                Ok(self.read_sealed(sealed, after, max_bytes).await?.unwrap_or_default())
            }
            Some(_) | None => Ok(batches),
        }
    }

    /// An engine may write in its run's folder: until the run is over, a sealed log there is a forgery.
    async fn is_final(&self, run: RunId) -> bool {
        self.head(run).await.is_ok_and(|head| head.state.status().is_final())
    }

    async fn read_sealed(&self, path: PathBuf, after: Seq, max_bytes: usize) -> Result<Option<Vec<EventBatch>>, Error> {
        self.blocking.run("read a sealed log", move || read_sealed(&path, after, max_bytes)).await?
    }

    /// The durable head, to wait on. Watch first, then read, then wait.
    pub fn watch(&self, run: RunId) -> watch::Receiver<Seq> {
        self.store.watch(&run)
    }

    /// The run as its row says.
    pub async fn head(&self, run: RunId) -> Result<LogHead, Error> {
        read_head(&*self.store, run).await
    }

    /// Rows of runs before this one, newest first.
    pub(crate) async fn rows(&self, before: RunId, limit: usize) -> Result<Vec<(RunId, Bytes)>, Error> {
        Ok(self.store.runs(Some(before), limit).await?)
    }

    /// A run's first event.
    pub(crate) async fn first(&self, run: RunId) -> Result<Started, Error> {
        let corrupt = |message: String| Error::Corrupt { run: run.to_string(), message };
        let page = self.read(run, Seq::START, 1).await?;
        let (_, first) =
            page.first().and_then(|batch| batch.events().next()).ok_or_else(|| corrupt("it is empty".into()))?;
        match read_envelope(&first).map_err(|error| corrupt(error.to_string()))?.event {
            Some(Event::Started(started)) => Ok(started),
            _ => Err(corrupt("its first event is not conversation.started".into())),
        }
    }

    /// What the client keeps with a run.
    pub(crate) async fn metadata(&self, state: &RunState) -> Result<Option<Map<String, Value>>, Error> {
        if state.has_metadata { Ok(self.first(state.run_id).await?.metadata) } else { Ok(None) }
    }

    /// The run as it was after one event.
    pub async fn state_at(&self, run: RunId, seq: Seq) -> Result<RunState, Error> {
        let head = self.head(run).await?.state.head_seq;
        if seq > head || seq == Seq::START {
            return Err(Error::SeqOutOfRange { seq, head });
        }
        Ok(self.fold(run, seq).await?.state)
    }

    /// The log folded from its first event up to one: the truth the row is a copy of.
    pub async fn fold(&self, run: RunId, to: Seq) -> Result<LogHead, Error> {
        let corrupt = |message: String| Error::Corrupt { run: run.to_string(), message };
        let mut folded: Option<LogHead> = None;
        let mut events = self.events(run, Seq::START);
        while events.at() < to {
            let at = events.at();
            let page = events.next_page().await?.ok_or_else(|| corrupt(format!("it ends at {at}, before {to}")))?;
            for (seq, bytes) in page.iter().flat_map(EventBatch::events).take_while(|(seq, _)| *seq <= to) {
                let envelope = read_envelope(&bytes).map_err(|error| corrupt(format!("event {seq}: {error}")))?;
                let after = LogHead::after(folded.take(), &envelope, &bytes);
                folded = Some(after.ok_or_else(|| corrupt("its first event is not conversation.started".into()))?);
            }
        }
        folded.ok_or_else(|| corrupt("it is empty".into()))
    }
}

fn read_sealed(path: &Path, after: Seq, max_bytes: usize) -> Result<Option<Vec<EventBatch>>, Error> {
    if !path.exists() {
        return Ok(None);
    }
    Ok(Some(SealedLog::open(path)?.read(after, max_bytes)?))
}
