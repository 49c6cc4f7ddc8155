//! A run's log for readers: from the store while it is live, from its sealed file afterwards.

use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use tokio::sync::watch;

use crate::domain::ids::{RequestId, RunId, Seq};
use crate::domain::run_file::RunFile;
use crate::domain::state::RunState;
use crate::fcmp::{LogHead, read_envelope};
use crate::orchestrator::error::Error;
use crate::orchestrator::log::journal::read_head;
use crate::store::{EventBatch, EventStore, IndexKey, SealedLog};
use crate::workspace::{Layout, RunPaths};

/// Most bytes read at once while folding.
const FOLD_BYTES: usize = 1024 * 1024;

/// Reads logs of runs, live or finished.
#[derive(Clone)]
pub struct RunLog {
    store: Arc<dyn EventStore>,
    layout: Layout,
}

impl RunLog {
    /// A reader over a store and the folder of sealed logs.
    pub fn new(store: Arc<dyn EventStore>, layout: Layout) -> Self {
        Self { store, layout }
    }

    /// The run with this request id or run id.
    pub fn resolve(&self, id: &str) -> Result<RunId, Error> {
        let unknown = || Error::RunNotFound { id: id.chars().take(64).collect() };
        let given: RunId = id.parse().map_err(|_| unknown())?;
        if let Some(row) = self.store.index(&IndexKey::Request(RequestId(given.0)))? {
            return row.as_ref().try_into().map(RunId::from_bytes).map_err(|_| unknown());
        }
        self.store.index(&IndexKey::Run(given))?.map(|_| given).ok_or_else(unknown)
    }

    /// The data folder.
    pub(crate) fn layout(&self) -> &Layout {
        &self.layout
    }

    /// Where the files of a run are.
    pub fn paths(&self, run: RunId) -> RunPaths {
        self.layout.run(run)
    }

    /// Events from exactly `after + 1` on, about `max_bytes` of them; empty at the durable head. Blocks on the disk.
    pub fn read(&self, run: RunId, after: Seq, max_bytes: usize) -> Result<Vec<EventBatch>, Error> {
        let sealed = self.layout.run(run).file(RunFile::Events);
        // An engine may write in its run's folder: until the run is over, a file there is a forgery.
        let forged = || !self.head(run).is_ok_and(|head| head.state.status.is_final());
        if sealed.symlink_metadata().is_ok() {
            if forged() {
                return Ok(self.store.read(&run, after, max_bytes)?);
            }
            if let Some(batches) = read_sealed(&sealed, after, max_bytes)? {
                return Ok(batches);
            }
        }
        let batches = self.store.read(&run, after, max_bytes)?;
        if !batches.is_empty() {
            return Ok(batches);
        }
        // The log may have been sealed, and its events have left the store, between the two looks.
        if sealed.symlink_metadata().is_err() || forged() {
            return Ok(batches);
        }
        Ok(read_sealed(&sealed, after, max_bytes)?.unwrap_or_default())
    }

    /// The durable head, to wait on. Watch first, then read, then wait.
    pub fn watch(&self, run: RunId) -> watch::Receiver<Seq> {
        self.store.watch(&run)
    }

    /// The run as its row says.
    pub fn head(&self, run: RunId) -> Result<LogHead, Error> {
        read_head(&*self.store, run)
    }

    /// Rows of runs before this one, newest first.
    pub(crate) fn rows(&self, before: RunId, limit: usize) -> Result<Vec<(RunId, Bytes)>, Error> {
        Ok(self.store.runs(Some(before), limit)?)
    }

    /// The run as it was after one event.
    pub fn state_at(&self, run: RunId, seq: Seq) -> Result<RunState, Error> {
        let head = self.head(run)?.state.head_seq;
        if seq > head || seq == Seq::START {
            return Err(Error::SeqOutOfRange { seq, head });
        }
        self.fold(run, seq).map(|head| head.state)
    }

    /// The log folded from its first event up to one: the truth the row is a copy of.
    pub fn fold(&self, run: RunId, to: Seq) -> Result<LogHead, Error> {
        let corrupt = |message: String| Error::Corrupt { run: run.to_string(), message };
        let mut folded: Option<LogHead> = None;
        let mut at = Seq::START;
        while at < to {
            let batches = self.read(run, at, FOLD_BYTES)?;
            if batches.is_empty() {
                return Err(corrupt(format!("it ends at {at}, before {to}")));
            }
            for (seq, bytes) in batches.iter().flat_map(EventBatch::events).take_while(|(seq, _)| *seq <= to) {
                let envelope = read_envelope(&bytes).map_err(|error| corrupt(format!("event {seq}: {error}")))?;
                let after = LogHead::after(folded.take(), &envelope, &bytes);
                folded = Some(after.ok_or_else(|| corrupt("its first event is not conversation.started".into()))?);
                at = seq;
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
