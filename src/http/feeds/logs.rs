//! `GET /v1/jobs/{id}/logs` and `/logs/range`: the engine's prompt and raw output, and the events made of it.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;

use async_stream::try_stream;
use axum::Json;
use axum::body::Body;
use axum::extract::State;
use axum::http::header;
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use futures_util::Stream as Pieces;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::bounded;
use crate::bounded::utf8::unfinished;
use crate::domain::fact::Stream;
use crate::domain::ids::{RequestId, RunId, Seq};
use crate::domain::run_file::RunFile;
use crate::files::{LookupError, open_beneath, read_beneath};
use crate::http::answer::problem::Problem;
use crate::http::request::at_seq::past;
use crate::http::request::query::Query;
use crate::http::request::run_in_path::RunInPath;
use crate::http::state::app::App;
use crate::http::state::task::blocking;
use crate::orchestrator::{Error, Past, RunLog};
use crate::prompt::sections;
use crate::store::EventBatch;
use crate::workspace::{RangeError, read_range};

/// Most bytes of each text in one answer. The end is kept, because errors are mostly there.
const TAIL_BYTES: u64 = 8 * 1024 * 1024;
/// Bytes of a text that are read and sent at once.
const PIECE_BYTES: u64 = 64 * 1024;
/// Bytes of events looked through at once.
const SEARCH_BYTES: usize = 1024 * 1024;

pub(crate) async fn whole(State(app): State<App>, asked: RunInPath, query: Query) -> Result<Response, Problem> {
    let before_its_end = past(&app, &asked, query).await?.filter(|past| !past.state.status().is_final());
    let proven = app.orchestrator().log().proven_in_folder(asked.run()).await?;
    let (request_id, paths) = (asked.request(), asked.paths);
    let tails = blocking(move || {
        let logs = [("prompt", RunFile::Prompt), ("stdout", RunFile::Stdout), ("stderr", RunFile::Stderr)];
        if let Some(proven) = proven {
            // The texts of a finished run must be what they were when it ended.
            logs.iter().try_for_each(|(_, file)| proven.open_optional(file.name()).map(drop))?;
        }
        let root: Arc<Path> = paths.root.into();
        let tails = logs.map(|(name, file)| Tail::look(root.clone(), name, file, before_its_end.as_ref()));
        tails.into_iter().collect::<Result<Vec<_>, _>>()
    })
    .await?;
    let content_type = [(header::CONTENT_TYPE, "application/json")];
    Ok((content_type, Body::from_stream(object(request_id, tails))).into_response())
}

/// The texts in one JSON object, sent while they are read: however long they are, a piece of them is in memory.
fn object(request: RequestId, tails: Vec<Tail>) -> impl Pieces<Item = Result<Bytes, Problem>> {
    try_stream! {
        yield Bytes::from(format!("{{\"request_id\":{}", json!(request)));
        let truncated: Vec<&str> = tails.iter().filter(|tail| tail.cut).map(|tail| tail.name).collect();
        for mut tail in tails {
            yield Bytes::from(format!(",{}:\"", json!(tail.name)));
            loop {
                let (read, piece) = blocking(move || tail.next().map(|piece| (tail, piece))).await?;
                tail = read;
                let Some(piece) = piece else { break };
                yield piece;
            }
            yield Bytes::from_static(b"\"");
        }
        yield Bytes::from(format!(",\"truncated\":{}}}", json!(truncated)));
    }
}

/// Engines can write into their run's folder, so what lies there may be a link to anywhere.
fn open(root: &Path, path: &str) -> Result<File, Problem> {
    open_beneath(root, Path::new(path)).map_err(|source| Problem::RunFile { path: path.to_owned(), source })
}

/// The end of a text that is being sent. A text that was never written is empty.
struct Tail {
    name: &'static str,
    /// Whether its begin is missing.
    cut: bool,
    root: Arc<Path>,
    path: &'static str,
    /// Open while it is being sent: one connection has one file open at a time.
    file: Option<File>,
    at: u64,
    end: u64,
}

impl Tail {
    /// The end of a text as it is, or as it was.
    fn look(root: Arc<Path>, name: &'static str, file: RunFile, past: Option<&Past>) -> Result<Self, Problem> {
        let path = file.name();
        let end = match open(&root, path) {
            Ok(file) => file.metadata().map_err(Error::io(format!("look at {path}")))?.len(),
            Err(Problem::RunFile { source: LookupError::NotFound, .. }) => 0,
            Err(problem) => return Err(problem),
        };
        let end = match (past, file) {
            (None, _) => end,
            (Some(past), RunFile::Stdout) => end.min(past.bytes_of(Stream::Stdout)),
            (Some(past), RunFile::Stderr) => end.min(past.bytes_of(Stream::Stderr)),
            (Some(past), _) => end.min(prompts_end(&root, past.state.turns)?),
        };
        let at = end.saturating_sub(TAIL_BYTES);
        Ok(Self { name, cut: at > 0, root, path, file: None, at, end })
    }

    /// The next piece as the inside of a JSON string. Blocks.
    fn next(&mut self) -> Result<Option<Bytes>, Problem> {
        if self.at == self.end {
            return Ok(None);
        }
        let file = match self.file.take() {
            Some(file) => file,
            None => open(&self.root, self.path)?,
        };
        let file = &*self.file.insert(file);
        let wanted = (self.end - self.at).min(PIECE_BYTES);
        let mut bytes = vec![0; usize::try_from(wanted).unwrap_or_default()];
        file.read_exact_at(&mut bytes, self.at).map_err(Error::io(format!("read {}", self.name)))?;
        if self.at + wanted < self.end {
            // A character that is cut here is read whole with the next piece.
            bytes.truncate(bytes.len() - unfinished(&bytes));
        }
        self.at += bytes.len() as u64;
        let quoted = json!(String::from_utf8_lossy(&bytes)).to_string();
        let inside = quoted.strip_prefix('"').and_then(|text| text.strip_suffix('"')).unwrap_or_default();
        Ok(Some(Bytes::copy_from_slice(inside.as_bytes())))
    }
}

/// Where the prompts of so many turns end; text that is too long is not looked through. Blocks.
fn prompts_end(root: &Path, turns: u32) -> Result<u64, Problem> {
    let path = RunFile::Prompt.name();
    match read_beneath(root, Path::new(path), TAIL_BYTES) {
        Ok(Some(prompts)) => Ok(sections::end_of(&prompts, turns) as u64),
        Ok(None) => Ok(if turns == 0 { 0 } else { u64::MAX }),
        Err(LookupError::NotFound) => Ok(0),
        Err(source) => Err(Problem::RunFile { path: path.to_owned(), source }),
    }
}

pub(crate) async fn range(State(app): State<App>, asked: RunInPath, mut query: Query) -> Result<Response, Problem> {
    let stream = stream(query.text("stream"))?;
    let byte_from = query.whole("byte_from")?.unwrap_or(0);
    let byte_to = query.whole("byte_to")?;
    query.finish()?;
    // It looks through the whole log: what is made only has to be held meanwhile.
    let range = read(&app, &asked, stream, byte_from, byte_to).await?;
    app.room().make(async { Ok(range.into_response()) }).await
}

async fn read(
    app: &App,
    asked: &RunInPath,
    stream: Stream,
    byte_from: u64,
    byte_to: Option<u64>,
) -> Result<Json<Value>, Problem> {
    let log = app.orchestrator().log().clone();
    let run = asked.run();
    if let Some(proven) = log.proven_in_folder(run).await? {
        // What is read below must be what it was when the run ended.
        blocking(move || proven.open_optional(RunFile::of_stream(stream).name()).map(drop)).await?;
    }
    let path = asked.paths.file(RunFile::of_stream(stream));
    let root = asked.paths.root.clone();
    let range = blocking(move || {
        read_range(&root, &path, byte_from, byte_to).map_err(|error| match error {
            RangeError::NotOpened(source) => {
                Problem::RunFile { path: RunFile::of_stream(stream).name().to_owned(), source }
            }
            other => other.into(),
        })
    })
    .await?;
    let events = events_on(&log, run, stream, range.byte_from..range.byte_to).await?;
    Ok(Json(json!({
        "stream": stream,
        "byte_from": range.byte_from,
        "byte_to": range.byte_to,
        "content": range.content,
        "encoding": range.encoding,
        "total_bytes": range.total_bytes,
        "events": events,
    })))
}

fn stream(given: Option<String>) -> Result<Stream, Problem> {
    let streams = [Stream::Stdout, Stream::Stderr, Stream::Pty];
    let given = given.unwrap_or_default();
    let named = streams.into_iter().find(|stream| stream.as_str() == given);
    named.ok_or_else(|| Problem::invalid("stream", format!("must be stdout, stderr or pty, not {given:?}")))
}

/// The events whose bytes lie in a range of a stream.
async fn events_on(log: &RunLog, run: RunId, stream: Stream, range: std::ops::Range<u64>) -> Result<Vec<Seq>, Error> {
    let mut found = Vec::new();
    let mut events = log.events(run, Seq::START).in_pages_of(SEARCH_BYTES);
    while !range.is_empty()
        && let Some(page) = events.next_page().await?
    {
        for (seq, text) in page.iter().flat_map(EventBatch::events) {
            let Some(raw) = raw_ref(&text).filter(|raw| raw.stream == stream) else { continue };
            if raw.byte_from >= range.end {
                // The bytes of a stream are logged in order.
                return Ok(found);
            }
            if raw.byte_to > range.start {
                found.push(seq);
            }
        }
    }
    Ok(found)
}

/// The bytes that an event was made of, found without parsing the rest of it.
#[derive(Debug, PartialEq, Eq, Deserialize)]
struct RawBytes {
    stream: Stream,
    byte_from: u64,
    byte_to: u64,
}

fn raw_ref(event: &[u8]) -> Option<RawBytes> {
    const MARK: &[u8] = b"\"raw_ref\":";
    // It is the envelope's last member and of known size, so nothing an engine wrote can be taken for it.
    let tail = &event[event.len().saturating_sub(256)..];
    let at = tail.windows(MARK.len()).rposition(|window| window == MARK)? + MARK.len();
    bounded::json::from_slice(tail[at..].strip_suffix(b"}")?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_raw_ref_is_read_from_the_end_of_its_event() {
        let event = br#"{"data":{"text":"\"raw_ref\":{\"stream\":\"stderr\"}"},"raw_ref":{"attempt_number":1,"stream":"stdout","byte_from":5,"byte_to":9,"encoding":"utf-8"}}"#;
        assert_eq!(raw_ref(event), Some(RawBytes { stream: Stream::Stdout, byte_from: 5, byte_to: 9 }));
        assert_eq!(raw_ref(br#"{"data":{},"raw_ref":null}"#), None);
    }
}
