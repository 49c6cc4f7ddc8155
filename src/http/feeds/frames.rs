//! Pieces of logs in the form event streams send them: made once, shared by all readers who come to the same place.

use std::collections::{HashMap, VecDeque};
use std::io::Write;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use tokio::sync::OnceCell;

use crate::domain::event::Event;
use crate::domain::ids::{RunId, Seq};
use crate::fcmp::read_envelope;
use crate::http::answer::problem::Problem;
use crate::http::server::task::blocking;
use crate::orchestrator::RunLog;
use crate::store::EventBatch;

/// About so many bytes of events are in one piece.
const PIECE_BYTES: usize = 256 * 1024;
/// Most bytes of pieces kept for others.
const KEPT_BYTES: usize = 16 * 1024 * 1024;
/// Bytes around each event, at most: `event: chat_event`, `id: ` with twenty digits, `data: ` and the ends of lines.
const AROUND_EVENT: usize = 55;

/// Consecutive events of a run, ready to be sent.
#[derive(Debug)]
pub(crate) struct Frame {
    /// The last event.
    pub(crate) last: Seq,
    /// Whether the run ends with it.
    pub(crate) terminal: bool,
    /// The events.
    pub(crate) bytes: Bytes,
}

type Cell = Arc<OnceCell<Arc<Frame>>>;

/// Reads frames. Readers of one live run all wake at the same event: the first makes the frame, the others share it.
pub(crate) struct Frames {
    log: RunLog,
    shelf: Mutex<Shelf>,
}

#[derive(Default)]
struct Shelf {
    cells: HashMap<(RunId, Seq), Cell>,
    /// Finished frames, oldest first.
    order: VecDeque<((RunId, Seq), usize)>,
    bytes: usize,
}

impl Frames {
    pub(crate) fn new(log: RunLog) -> Self {
        Self { log, shelf: Mutex::default() }
    }

    /// The events after `cursor`, as many as are in the piece that begins there; none when there are none.
    pub(crate) async fn after(&self, run: RunId, cursor: Seq) -> Result<Option<Arc<Frame>>, Problem> {
        let key = (run, cursor);
        let cell = self.shelf().cells.entry(key).or_default().clone();
        if let Some(frame) = cell.get() {
            return Ok(Some(frame.clone()));
        }
        let log = self.log.clone();
        let made: Result<_, Option<Problem>> = cell
            .get_or_try_init(|| async move {
                let batches = blocking(move || log.read(run, cursor, PIECE_BYTES)).await.map_err(Some)?;
                let frame = frame(&batches).map(Arc::new).ok_or(None)?;
                self.shelf().keep(key, frame.bytes.len());
                Ok(frame)
            })
            .await;
        match made {
            Ok(frame) => Ok(Some(frame.clone())),
            Err(problem) => {
                self.shelf().give_up(key);
                problem.map_or(Ok(None), Err)
            }
        }
    }

    fn shelf(&self) -> MutexGuard<'_, Shelf> {
        // Whole between any two statements, so a panic elsewhere does not spoil it.
        self.shelf.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Shelf {
    fn keep(&mut self, key: (RunId, Seq), bytes: usize) {
        self.order.push_back((key, bytes));
        self.bytes += bytes;
        while self.bytes > KEPT_BYTES
            && let Some((oldest, bytes)) = self.order.pop_front()
        {
            self.cells.remove(&oldest);
            self.bytes -= bytes;
        }
    }

    /// There was nothing to keep. Somebody else may have succeeded meanwhile.
    fn give_up(&mut self, key: (RunId, Seq)) {
        if self.cells.get(&key).is_some_and(|cell| cell.get().is_none()) {
            self.cells.remove(&key);
        }
    }
}

fn frame(batches: &[EventBatch]) -> Option<Frame> {
    let last = batches.last()?;
    let room = batches.iter().map(|batch| batch.ndjson.len() + batch.count as usize * AROUND_EVENT).sum();
    let mut bytes = Vec::with_capacity(room);
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
