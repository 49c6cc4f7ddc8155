//! `GET /v1/jobs/{id}/events/history`: a range of the log, as the stored bytes.

use async_stream::try_stream;
use axum::body::Body;
use axum::extract::State;
use axum::http::{HeaderMap, header};
use axum::response::{IntoResponse, Response};
use bytes::{Bytes, BytesMut};
use futures_util::Stream;
use serde_json::json;

use crate::domain::ids::{RequestId, RunId, Seq};
use crate::fcmp::{Side, Window, stored_ts};
use crate::http::answer::problem::Problem;
use crate::http::request::query::Query;
use crate::http::request::run_in_path::RunInPath;
use crate::http::state::app::App;
use crate::orchestrator::{Error, Events};
use crate::store::EventBatch;

const DEFAULT_LIMIT: u64 = 1_000;
const MAX_LIMIT: u64 = 10_000;
/// About so many bytes of events are read and sent at once.
const PIECE_BYTES: usize = 1024 * 1024;
const NDJSON: &str = "application/x-ndjson";

pub(crate) async fn history(
    State(app): State<App>,
    asked: RunInPath,
    mut query: Query,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let (from_seq, to_seq) = (query.whole("from_seq")?.unwrap_or(0), query.whole("to_seq")?);
    if to_seq.is_some_and(|to| to < from_seq) {
        return Err(Problem::invalid("to_seq", "must not be before from_seq"));
    }
    let window = Window {
        // The log begins with 1; what ends before it is empty.
        from_seq: Seq(from_seq.max(1)),
        to_seq: to_seq.map(Seq),
        from_ts: query.time("from_ts")?,
        to_ts: query.time("to_ts")?,
    };
    let lines = accepts_lines(&headers);
    let limit = query.limit("limit", if lines { u64::MAX } else { DEFAULT_LIMIT }, MAX_LIMIT)?;
    query.finish()?;
    check_times(&window)?;
    let mut walk = Walk {
        events: app.orchestrator().log().events(asked.run(), Seq(window.from_seq.0 - 1)).in_pages_of(PIECE_BYTES),
        run: asked.run(),
        window,
        left: limit,
        next_seq: None,
        done: false,
    };
    // Read before the answer begins: a log that is damaged is an answer of its own.
    let first = walk.next().await?;
    let (content_type, body) = if lines {
        (NDJSON, Body::from_stream(walk.lines(first)))
    } else {
        ("application/json", Body::from_stream(walk.object(asked.request(), first)))
    };
    Ok(([(header::CONTENT_TYPE, content_type)], body).into_response())
}

fn accepts_lines(headers: &HeaderMap) -> bool {
    let values = headers.get_all(header::ACCEPT).into_iter().filter_map(|value| value.to_str().ok());
    let mut types = values.flat_map(|value| value.split(',')).filter_map(|range| range.split(';').next());
    types.any(|media| media.trim().eq_ignore_ascii_case(NDJSON))
}

fn check_times(window: &Window) -> Result<(), Problem> {
    match (window.from_ts, window.to_ts) {
        (Some(from), Some(to)) if to < from => Err(Problem::invalid("to_ts", "must not be before from_ts")),
        _ => Ok(()),
    }
}

/// A walk through a window of a log, one piece after the other.
struct Walk {
    events: Events,
    run: RunId,
    window: Window,
    /// How many more may be taken.
    left: u64,
    /// The first event of the window that was not taken.
    next_seq: Option<Seq>,
    /// Whether the window has ended.
    done: bool,
}

/// Events of the window, each with its newline.
struct Piece {
    count: u64,
    ndjson: Bytes,
}

impl Walk {
    /// The events, one per line: the stored bytes as they are.
    fn lines(self, first: Option<Piece>) -> impl Stream<Item = Result<Bytes, Problem>> {
        let mut walk = self;
        try_stream! {
            let mut piece = first;
            while let Some(this) = piece {
                yield this.ndjson;
                piece = walk.next().await?;
            }
        }
    }

    /// The events in one JSON object. `count` and `next_seq` come last, because the events are sent while they are read.
    fn object(self, request: RequestId, first: Option<Piece>) -> impl Stream<Item = Result<Bytes, Problem>> {
        let mut walk = self;
        try_stream! {
            let head = json!({"request_id": request, "run_id": walk.run}).to_string();
            yield Bytes::from(format!("{},\"events\":[", head.trim_end_matches('}')));
            let (mut count, mut next) = (0, first);
            let next_seq = loop {
                let Some(piece) = next else { break walk.next_seq };
                yield comma_separated(&piece.ndjson, count == 0);
                count += piece.count;
                next = walk.next().await?;
            };
            let tail = json!({"count": count, "next_seq": next_seq}).to_string();
            yield Bytes::from(format!("],{}", tail.trim_start_matches('{')));
        }
    }

    /// The next events of the window; none at its end.
    async fn next(&mut self) -> Result<Option<Piece>, Error> {
        while !self.done {
            let page = self.events.next_page().await?.unwrap_or_default();
            let mut taken = Vec::new();
            for batch in &page {
                if self.window.by_time() {
                    self.take_by_time(batch, &mut taken)?
                } else {
                    self.take(batch, &mut taken)
                }
                if self.done {
                    break;
                }
            }
            self.done |= page.is_empty();
            let count = taken.iter().map(|batch: &EventBatch| u64::from(batch.count)).sum();
            if let Some(ndjson) = joined(taken) {
                return Ok(Some(Piece { count, ndjson }));
            }
        }
        Ok(None)
    }

    /// By seq alone, whole batches pass.
    fn take(&mut self, batch: &EventBatch, taken: &mut Vec<EventBatch>) {
        let inside = self.window.to_seq.map_or(Some(batch.clone()), |to| batch.up_to(to));
        self.done = self.window.to_seq.is_some_and(|to| batch.last() >= to);
        let Some(inside) = inside else { return };
        let part = self.left.checked_sub(1).and_then(|more| inside.up_to(Seq(inside.first.0.saturating_add(more))));
        let count = part.as_ref().map_or(0, |part| part.count);
        self.left -= u64::from(count);
        if count < inside.count {
            self.next_seq = Some(Seq(inside.first.0 + u64::from(count)));
            self.done = true;
        }
        taken.extend(part);
    }

    fn take_by_time(&mut self, batch: &EventBatch, taken: &mut Vec<EventBatch>) -> Result<(), Error> {
        let (mut first, mut last) = (None, batch.first);
        for (seq, text) in batch.events() {
            let ts = stored_ts(&text).ok_or_else(|| Error::Corrupt {
                run: self.run.to_string(),
                message: format!("event {seq} has no ts"),
            })?;
            match self.window.side(seq, ts) {
                Side::Before => {}
                Side::Behind => {
                    self.done = true;
                    break;
                }
                Side::Inside if self.left == 0 => {
                    self.next_seq = Some(seq);
                    self.done = true;
                    break;
                }
                Side::Inside => {
                    self.left -= 1;
                    first.get_or_insert(seq);
                    last = seq;
                }
            }
        }
        let Some(first) = first else { return Ok(()) };
        taken.extend(batch.up_to(last).and_then(|batch| batch.after(Seq(first.0 - 1))));
        Ok(())
    }
}

fn joined(batches: Vec<EventBatch>) -> Option<Bytes> {
    if batches.len() < 2 {
        return batches.into_iter().next().map(|batch| batch.ndjson);
    }
    let mut whole = BytesMut::with_capacity(batches.iter().map(|batch| batch.ndjson.len()).sum());
    batches.iter().for_each(|batch| whole.extend_from_slice(&batch.ndjson));
    Some(whole.freeze())
}

/// Lines as elements of an array. No event contains a newline, so each one is the end of an event.
fn comma_separated(ndjson: &[u8], first: bool) -> Bytes {
    let mut text = Vec::with_capacity(ndjson.len());
    if !first {
        text.push(b',');
    }
    let events = ndjson.strip_suffix(b"\n").unwrap_or(ndjson);
    text.extend(events.iter().map(|byte| if *byte == b'\n' { b',' } else { *byte }));
    text.into()
}
