//! A cache of encoded pieces of event streams: each is made once and shared by all readers at the same position.

use std::collections::{HashMap, VecDeque};
use std::io::Write;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use tokio::sync::OnceCell;

use crate::domain::event::Event;
use crate::domain::ids::{RunId, Seq};
use crate::fcmp::read_envelope;
use crate::http::answer::problem::Problem;
use crate::orchestrator::RunLog;
use crate::store::EventBatch;

/// About how many bytes of events a piece has.
const PIECE_BYTES: usize = 256 * 1024;
/// The same, for a reader who is but a few events behind: the store reads so little without another thread.
const SMALL_PIECE_BYTES: usize = 16 * 1024;
/// A few events.
const FEW: u64 = 32;
/// Most bytes of pieces that are kept.
const KEPT_BYTES: usize = 16 * 1024 * 1024;
/// Bytes around each event, at most: `event: chat_event`, `id: ` with twenty digits, `data: ` and the ends of lines.
const AROUND_EVENT: usize = 55;

/// Consecutive events of a run, ready to be sent.
#[derive(Debug)]
pub(crate) struct Frame {
    pub(crate) last: Seq,
    /// Whether the run ends with it.
    pub(crate) terminal: bool,
    /// The events as server-sent events.
    pub(crate) bytes: Bytes,
}

type Key = (RunId, Seq);
type Cell = Arc<OnceCell<Arc<Frame>>>;

/// Reads frames. Readers of one live run all wake at the same event: the first makes the frame, the others share it.
pub(crate) struct Frames {
    log: RunLog,
    cache: Mutex<Cache>,
}

#[derive(Default)]
struct Cache {
    /// Finished frames, and those that a reader is making at the moment.
    cells: HashMap<Key, Cell>,
    /// Finished frames, oldest first.
    order: VecDeque<(Key, usize)>,
    bytes: usize,
}

impl Frames {
    pub(crate) fn new(log: RunLog) -> Self {
        Self { log, cache: Mutex::default() }
    }

    /// The events after `cursor`, as many as are in the piece that begins there; none when there are none. `head` is the
    /// end of the log, as far as the reader knows it.
    pub(crate) async fn after(&self, run: RunId, cursor: Seq, head: Seq) -> Result<Option<Arc<Frame>>, Problem> {
        let key = (run, cursor);
        let reader = Reader { frames: self, key, cell: self.cache().cells.entry(key).or_default().clone() };
        if let Some(frame) = reader.cell.get() {
            return Ok(Some(frame.clone()));
        }
        let log = self.log.clone();
        let bytes = if head.0.saturating_sub(cursor.0) <= FEW { SMALL_PIECE_BYTES } else { PIECE_BYTES };
        let made: Result<_, Option<Problem>> = reader
            .cell
            .get_or_try_init(|| async move {
                let batches = log.read(run, cursor, bytes).await.map_err(|error| Some(error.into()))?;
                let frame = frame(&batches).map(Arc::new).ok_or(None)?;
                self.cache().keep(key, frame.bytes.len());
                Ok(frame)
            })
            .await;
        match made {
            Ok(frame) => Ok(Some(frame.clone())),
            Err(Some(problem)) => Err(problem),
            Err(None) => Ok(None),
        }
    }

    fn cache(&self) -> MutexGuard<'_, Cache> {
        // It is consistent between any two statements, so a panic elsewhere does not spoil it.
        self.cache.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Cache {
    fn keep(&mut self, key: Key, bytes: usize) {
        self.order.push_back((key, bytes));
        self.bytes += bytes;
        while self.bytes > KEPT_BYTES
            && let Some((oldest, bytes)) = self.order.pop_front()
        {
            self.cells.remove(&oldest);
            self.bytes -= bytes;
        }
    }
}

/// One reader of a cell. A cell without a frame leaves the cache with its last reader, whether the reader found
/// nothing, failed, or was dropped while it waited because its client had gone.
struct Reader<'a> {
    frames: &'a Frames,
    key: Key,
    cell: Cell,
}

impl Drop for Reader<'_> {
    fn drop(&mut self) {
        let mut cache = self.frames.cache();
        // Given up under the lock, so that of two readers who leave at once the second one finds itself alone.
        let cell = std::mem::take(&mut self.cell);
        let is_last = Arc::strong_count(&cell) <= 2; // The cache's own, and this one.
        let is_current = cache.cells.get(&self.key).is_some_and(|current| Arc::ptr_eq(current, &cell));
        if is_last && is_current && cell.get().is_none() {
            cache.cells.remove(&self.key);
        }
        drop(cell);
    }
}

fn frame(batches: &[EventBatch]) -> Option<Frame> {
    let last = batches.last()?;
    let capacity = batches.iter().map(|batch| batch.ndjson.len() + batch.count as usize * AROUND_EVENT).sum();
    let mut bytes = Vec::with_capacity(capacity);
    let mut terminal = false;
    for (seq, text) in batches.iter().flat_map(EventBatch::events) {
        // Writing to a Vec cannot fail.
        let _ = write!(bytes, "event: chat_event\nid: {seq}\ndata: ");
        bytes.extend_from_slice(&text);
        bytes.extend_from_slice(b"\n\n");
        if seq == last.last() {
            terminal = is_terminal(&text);
        }
    }
    Some(Frame { last: last.last(), terminal, bytes: bytes.into() })
}

fn is_terminal(event: &[u8]) -> bool {
    let event = read_envelope(event).ok().and_then(|envelope| envelope.event);
    matches!(event, Some(Event::Completed(_) | Event::Failed(_)))
}

#[cfg(test)]
mod tests {
    use std::future::Future;
    use std::pin::pin;
    use std::task::{Context, Poll, Waker};

    use super::*;
    use crate::orchestrator::Blocking;
    use crate::store::SledStore;
    use crate::workspace::Layout;

    #[test]
    fn a_reader_that_vanishes_while_it_waits_leaves_nothing_in_the_cache() {
        let runtime = tokio::runtime::Builder::new_current_thread().max_blocking_threads(1).build().unwrap();
        let folder = tempfile::tempdir().unwrap();
        let store = Arc::new(SledStore::open(folder.path(), |error| panic!("{error}")).unwrap());
        let frames = Frames::new(RunLog::new(store, Layout::new(folder.path()), Blocking::Threads));
        runtime.block_on(async {
            // The only thread for reads is busy, so that both readers have to wait.
            let (done, busy) = std::sync::mpsc::channel::<()>();
            let thread = tokio::task::spawn_blocking(move || busy.recv());
            let run: RunId = "0192f3c1-8a54-7cc2-b0a1-d2f8a6c1e9b7".parse().unwrap();
            let waits = |reader| matches!(Future::poll(reader, &mut Context::from_waker(Waker::noop())), Poll::Pending);
            {
                let mut second = pin!(frames.after(run, Seq::START, Seq(1000)));
                {
                    let mut first = pin!(frames.after(run, Seq::START, Seq(1000)));
                    assert!(waits(first.as_mut()) && waits(second.as_mut()));
                }
                assert_eq!(frames.cache().cells.len(), 1, "the other reader still waits");
            }
            assert_eq!(frames.cache().cells.len(), 0);
            drop(done);
            assert!(thread.await.unwrap().is_err());
        });
    }
}
