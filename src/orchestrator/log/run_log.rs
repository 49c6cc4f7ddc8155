//! A run's log for readers: from the store while it is live, from its sealed file afterwards.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;
use serde::Deserialize;
use serde_json::{Map, Value};
use tokio::sync::watch;

use crate::blobs::Blobs;
use crate::bounded;
use crate::domain::event::{Event, Started};
use crate::domain::ids::{RequestId, RunId, Seq};
use crate::domain::run_file::RunFile;
use crate::domain::state::RunState;
use crate::fcmp::{Envelope, LogHead, read_envelope};
use crate::orchestrator::environment::Blocking;
use crate::orchestrator::error::Error;
use crate::orchestrator::log::checked::Checked;
use crate::orchestrator::log::damage::Damage;
use crate::orchestrator::log::known_heads::KnownHeads;
use crate::orchestrator::log::sealed_check::{Flaw, check_sealed};
use crate::orchestrator::run_files::RunFiles;
use crate::store::{self, EventBatch, EventStore, IndexKey, SealedLog};
use crate::workspace::{Layout, RunPaths};

/// Bytes of one page of events, unless the reader wants another size.
const PAGE_BYTES: usize = 1024 * 1024;

/// A longer event is read on a thread where that delays no request.
const SHORT_BYTES: usize = 16 * 1024;

/// The type of every run's first event.
const STARTED: &str = "conversation.started";
/// What is wrong with a log that begins otherwise.
const NOT_STARTED: &str = "its first event is not conversation.started";

/// Reads logs of runs, live or finished.
#[derive(Clone)]
pub struct RunLog {
    store: Arc<dyn EventStore>,
    layout: Layout,
    blocking: Blocking,
    checked: Arc<Checked>,
    damage: Arc<Damage>,
    known: Arc<KnownHeads>,
    files: Arc<RunFiles>,
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
        Self::with_shared_files(store, layout, blocking, None)
    }

    /// The same for one of several services, which share the files of their runs.
    pub(crate) fn with_shared_files(
        store: Arc<dyn EventStore>,
        layout: Layout,
        blocking: Blocking,
        blobs: Option<Arc<dyn Blobs>>,
    ) -> Self {
        let damage = Arc::new(Damage::of(&layout));
        let files = Arc::new(RunFiles::new(store.clone(), layout.clone(), blocking.clone(), blobs));
        Self { store, layout, blocking, checked: Arc::default(), damage, known: Arc::default(), files }
    }

    /// The files of runs on this node.
    pub(crate) fn files(&self) -> &Arc<RunFiles> {
        &self.files
    }

    /// Has the files of a run on this disk, where other services may have made them.
    pub(crate) async fn fetch_files(&self, run: RunId) -> Result<(), Error> {
        if !self.files.are_shared() {
            return Ok(());
        }
        let state = self.head(run).await?.state;
        match state.status().is_final() {
            true => self.files.fetch_finished(run).await,
            false => self.files.look(&state).await,
        }
    }

    /// Long files that were found whole.
    pub(crate) fn checked(&self) -> &Arc<Checked> {
        &self.checked
    }

    /// What is known to be damaged.
    pub(crate) fn damage(&self) -> &Arc<Damage> {
        &self.damage
    }

    /// A stored file is not what it was: noted, and the error to be told.
    pub(crate) fn damaged(&self, run: RunId, file: &str, message: String) -> Error {
        self.damage.note(run, file, &message);
        Error::Damaged { run, file: file.to_owned(), message }
    }

    /// What a check of everything has found in a run: that and nothing else is damaged.
    pub(crate) fn remember_damage(&self, run: RunId, damaged: &[(&str, &str)]) {
        self.damage.clear_run(run);
        damaged.iter().for_each(|(file, message)| self.damage.note(run, file, message));
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

    /// Events from exactly `after + 1` on, about `max_bytes` of them; empty at the durable head, and only there: where events
    /// are gone, or not what was logged, that is an error.
    pub async fn read(&self, run: RunId, after: Seq, max_bytes: usize) -> Result<Vec<EventBatch>, Error> {
        self.read_checked(run, after, max_bytes, true).await
    }

    /// The last event of a run, which its row vouches for: the log before it is not looked at.
    pub(crate) async fn last(&self, head: &LogHead) -> Result<Vec<EventBatch>, Error> {
        let before = Seq(head.state.head_seq.0.saturating_sub(1));
        self.read_checked(head.state.run_id, before, 1, false).await
    }

    async fn read_checked(
        &self,
        run: RunId,
        after: Seq,
        max_bytes: usize,
        check: bool,
    ) -> Result<Vec<EventBatch>, Error> {
        let read = self.read_stored(run, after, max_bytes, check).await;
        if let Err(Error::Damaged { .. } | Error::FilesGone { .. } | Error::Io { .. }) = &read {
            // A deletion takes the row first: what was missed of a run without one is no damage.
            self.head(run).await?;
        }
        read
    }

    async fn read_stored(
        &self,
        run: RunId,
        after: Seq,
        max_bytes: usize,
        check: bool,
    ) -> Result<Vec<EventBatch>, Error> {
        let mut flaw = None;
        if let Some(sealed) = self.layout.run(run).sealed_log() {
            match self.read_sealed(run, sealed, after, max_bytes, check).await? {
                Some(Ok(batches)) => {
                    if check && self.damage.has(run) {
                        self.damage.clear(run, &self.name_of_log(&self.layout.run(run)));
                    }
                    return Ok(batches);
                }
                Some(Err(message)) => flaw = Some(message),
                // An engine may write in its run's folder: until the run is over, a sealed log there is a forgery.
                None => {}
            }
        }
        let batches = self.store.read(&run, after, max_bytes).await?;
        if !batches.is_empty() || (after > Seq::START && self.store.head(&run).await? == after) {
            return Ok(batches);
        }
        let state = self.head(run).await?.state;
        if after >= state.head_seq {
            return Ok(batches);
        }
        // The row is durable with its events: they came after the first look, and are still here or in a sealed log.
        let batches = self.store.read(&run, after, max_bytes).await?;
        if !batches.is_empty() {
            return Ok(batches);
        }
        let paths = self.layout.run(run);
        if let Some(fetched) = self.files.fetch_sealed(run).await?
            && let Some(Ok(batches)) = self.read_sealed(run, fetched, after, max_bytes, check).await?
        {
            return Ok(batches);
        }
        if let Some(message) = flaw {
            return Err(self.damaged(run, &self.name_of_log(&paths), message));
        }
        // The log may have been sealed, and its events have left the store, between the two looks.
        let Some(sealed) = paths.sealed_log() else {
            return Err(self.without_log(&state, &paths));
        };
        match self.read_sealed(run, sealed, after, max_bytes, check).await? {
            Some(Ok(batches)) => Ok(batches),
            Some(Err(message)) => Err(self.damaged(run, &self.name_of_log(&paths), message)),
            None => Err(self.without_log(&state, &paths)),
        }
    }

    /// Events of a sealed log, or what is wrong with it; none if the run is not over. A run that was deleted is an error, also
    /// while its file is still there: a reader who came too late must not take that for the end of the log.
    async fn read_sealed(
        &self,
        run: RunId,
        path: PathBuf,
        after: Seq,
        max_bytes: usize,
        check: bool,
    ) -> Result<Option<Result<Vec<EventBatch>, String>>, Error> {
        let head = self.head(run).await?;
        if !head.state.status().is_final() {
            return Ok(None);
        }
        let checked = self.checked.clone();
        let read = move || {
            if check && let Err(flaw) = check_sealed(&path, &head, &checked) {
                return match flaw {
                    Flaw::Damaged(message) => Ok(Err(message)),
                    Flaw::Io(source) => Err(Error::io(format!("read {}", path.display()))(source)),
                };
            }
            match SealedLog::open(&path, head.state.head_seq).and_then(|log| log.read(after, max_bytes)) {
                Ok(batches) if batches.is_empty() && after < head.state.head_seq => {
                    Ok(Err(format!("it ends before event {}", after.next())))
                }
                Ok(batches) => Ok(Ok(batches)),
                Err(store::Error::CorruptFile { reason, .. }) => Ok(Err(reason)),
                Err(error) => Err(error.into()),
            }
        };
        self.blocking.run("read a sealed log", read).await?.map(Some)
    }

    /// A finished run whose events are neither in the store nor in a file.
    fn without_log(&self, state: &RunState, paths: &RunPaths) -> Error {
        let run = state.run_id;
        if state.cached_from.is_none() && paths.root.symlink_metadata().is_err() {
            return self.files_gone(run);
        }
        self.damaged(run, &self.name_of_log(paths), "it is missing".to_owned())
    }

    /// The folder of a finished run is gone.
    pub(crate) fn files_gone(&self, run: RunId) -> Error {
        self.damage.note(run, &self.name_in_data(&self.layout.run(run).root), "the run's folder is gone");
        Error::FilesGone { run }
    }

    fn name_of_log(&self, paths: &RunPaths) -> String {
        match paths.root.symlink_metadata() {
            Ok(_) => RunFile::Events.name().to_owned(),
            Err(_) => self.name_in_data(&paths.sealed),
        }
    }

    /// A path as findings name it that is not in the run's folder.
    pub(crate) fn name_in_data(&self, path: &Path) -> String {
        path.strip_prefix(self.layout.data()).unwrap_or(path).to_string_lossy().into_owned()
    }

    /// The durable head, to wait on. Watch first, then read, then wait.
    pub fn watch(&self, run: RunId) -> watch::Receiver<Seq> {
        self.store.watch(&run)
    }

    /// The run as its row says.
    pub async fn head(&self, run: RunId) -> Result<LogHead, Error> {
        match self.store.index(&IndexKey::Run(run)).await? {
            Some(row) => self.known.parse(run, row),
            None => Err(Error::RunNotFound { id: run.to_string() }),
        }
    }

    /// Rows of runs before this one, newest first; of all runs where none is named.
    pub(crate) async fn rows(&self, before: Option<RunId>, limit: usize) -> Result<Vec<(RunId, Bytes)>, Error> {
        Ok(self.store.runs(before, limit).await?)
    }

    /// A run's first event.
    pub(crate) async fn first(&self, run: RunId) -> Result<Started, Error> {
        self.read_first(run, |first| match read_envelope(first).map_err(|error| error.to_string())?.event {
            Some(Event::Started(started)) => Ok(*started),
            _ => Err(NOT_STARTED.to_owned()),
        })
        .await
    }

    /// What is wanted of a run's first event, which has the whole input.
    async fn read_first<T: Send + 'static>(
        &self,
        run: RunId,
        read: impl FnOnce(&[u8]) -> Result<T, String> + Send + 'static,
    ) -> Result<T, Error> {
        let corrupt = |message: String| Error::Corrupt { run: run.to_string(), message };
        let page = self.read(run, Seq::START, 1).await?;
        let (_, first) =
            page.first().and_then(|batch| batch.events().next()).ok_or_else(|| corrupt("it is empty".into()))?;
        let wanted = match first.len() <= SHORT_BYTES {
            true => read(&first),
            false => self.blocking.run("read the first event of a run", move || read(&first)).await?,
        };
        wanted.map_err(corrupt)
    }

    /// What the client keeps with a run.
    pub(crate) async fn metadata(&self, state: &RunState) -> Result<Option<Map<String, Value>>, Error> {
        if state.has_metadata { self.read_first(state.run_id, metadata_of).await } else { Ok(None) }
    }

    /// The log folded from its first event up to one: the truth the row is a copy of.
    pub async fn fold(&self, run: RunId, to: Seq) -> Result<LogHead, Error> {
        self.fold_with(run, to, |_| {}).await
    }

    /// The same for somebody who looks at each event on the way.
    pub(crate) async fn fold_with(
        &self,
        run: RunId,
        to: Seq,
        mut seen: impl FnMut(&Envelope),
    ) -> Result<LogHead, Error> {
        let corrupt = |message: String| Error::Corrupt { run: run.to_string(), message };
        let mut folded: Option<LogHead> = None;
        let mut events = self.events(run, Seq::START);
        while events.at() < to {
            let at = events.at();
            let page = events.next_page().await?.ok_or_else(|| corrupt(format!("it ends at {at}, before {to}")))?;
            for (seq, bytes) in page.iter().flat_map(EventBatch::events).take_while(|(seq, _)| *seq <= to) {
                let envelope = read_envelope(&bytes).map_err(|error| corrupt(format!("event {seq}: {error}")))?;
                seen(&envelope);
                let after = LogHead::after(folded.take(), &envelope, &bytes);
                folded = Some(after.ok_or_else(|| corrupt(NOT_STARTED.into()))?);
            }
        }
        folded.ok_or_else(|| corrupt("it is empty".into()))
    }
}

/// The metadata in a first event. Nothing else of it is kept, or read more closely than needed to pass over it.
fn metadata_of(first: &[u8]) -> Result<Option<Map<String, Value>>, String> {
    #[derive(Deserialize)]
    struct First {
        #[serde(rename = "type")]
        type_name: String,
        data: Data,
    }
    #[derive(Deserialize)]
    struct Data {
        metadata: Option<Map<String, Value>>,
    }
    let first: First = bounded::json::from_slice(first).map_err(|error| error.to_string())?;
    if first.type_name == STARTED { Ok(first.data.metadata) } else { Err(NOT_STARTED.to_owned()) }
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;
    use crate::domain::time::Timestamp;
    use crate::fcmp::Chain;
    use crate::store::{Append, IndexChange, MemoryStore};

    #[test]
    fn of_a_first_event_only_its_metadata_is_read() {
        let event =
            |type_name: &str, data: &str| format!(r#"{{"seq":1,"type":"{type_name}","data":{data},"meta":{{}}}}"#);
        let read = |type_name: &str, data: &str| metadata_of(event(type_name, data).as_bytes());
        let metadata = read(STARTED, r#"{"input":{"metadata":{"a":2}},"metadata":{"a":1.0},"engine":7}"#).unwrap();
        assert_eq!(serde_json::to_string(&metadata).unwrap(), r#"{"a":1.0}"#);
        assert_eq!(read(STARTED, r#"{"input":{}}"#), Ok(None));
        assert_eq!(read("conversation.completed", r#"{"metadata":{}}"#), Err(NOT_STARTED.to_owned()));
        assert!(read(STARTED, r#"{"metadata":[]}"#).is_err());
    }

    #[tokio::test]
    async fn a_run_that_was_deleted_while_it_is_read_has_no_proper_end() {
        let data = tempfile::tempdir().unwrap();
        let layout = Layout::new(data.path().to_path_buf());
        let run = RunId(Uuid::from_u128(1));
        let log = RunLog::new(Arc::new(MemoryStore::default()), layout.clone(), Blocking::Threads);
        let ended = |page: Result<Vec<EventBatch>, Error>| matches!(page, Err(Error::RunNotFound { .. }));
        assert!(ended(log.read(run, Seq(3), 1).await), "its row and its file are gone");
        let sealed = layout.run(run).sealed;
        std::fs::create_dir_all(sealed.parent().unwrap()).unwrap();
        std::fs::write(&sealed, b"{}\n").unwrap();
        assert!(ended(log.read(run, Seq(3), 1).await), "its row is gone, its file is still there");
    }

    #[tokio::test]
    async fn events_that_a_row_tells_of_and_that_are_nowhere_are_missed_and_not_the_end_of_the_log() {
        let data = tempfile::tempdir().unwrap();
        let layout = Layout::new(data.path().to_path_buf());
        let run = RunId(Uuid::from_u128(1));
        let started = serde_json::json!({
            "request_id": Uuid::from_u128(2), "skill": {"id": "s", "version": "1.0.0", "fingerprint": ""},
            "engine": "script", "model": null, "execution_mode": "auto", "input": {}, "parameter": {},
            "awaiting_upload": false, "idempotency_sha256": null,
            "runtime_options": {
                "execution_mode": "auto", "no_cache": false, "debug": false, "debug_keep_temp": false,
                "verbose": false, "interactive_auto_reply": false, "interactive_reply_timeout_sec": 1,
                "hard_timeout_seconds": 60, "stall_timeout_seconds": 0,
            },
        });
        let state = RunState::open(run, &serde_json::from_value(started).unwrap(), Timestamp::from_micros(1));
        let state = RunState { head_seq: Seq(3), ..state };
        let row = LogHead { state, chain: Chain::start(run) }.to_row().unwrap();
        let store = Arc::new(MemoryStore::default());
        let append = Append {
            run,
            expected_head: Seq::START,
            events: Vec::new(),
            index: vec![IndexChange::Put(IndexKey::Run(run), row.into())],
            require_absent: None,
            for_others: Default::default(),
        };
        store.append(append).await.unwrap();
        std::fs::create_dir_all(layout.run(run).root).unwrap();
        let log = RunLog::new(store, layout, Blocking::Threads);
        for after in [0, 2] {
            let read = log.read(run, Seq(after), 1).await;
            assert!(matches!(read, Err(Error::Damaged { .. })), "{read:?}");
        }
        assert_eq!(log.read(run, Seq(3), 1).await.unwrap(), []);
    }
}
