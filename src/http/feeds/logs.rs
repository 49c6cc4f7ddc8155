//! `GET /v1/jobs/{id}/logs` and `/logs/range`: the engine's prompt and raw output, and the events made of it.

use std::os::unix::fs::FileExt;
use std::path::Path;

use axum::Json;
use axum::extract::State;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::domain::fact::Stream;
use crate::domain::ids::{RunId, Seq};
use crate::domain::run_file::RunFile;
use crate::files::{LookupError, open_beneath};
use crate::http::answer::problem::Problem;
use crate::http::request::query::Query;
use crate::http::request::run_in_path::RunInPath;
use crate::http::state::app::App;
use crate::http::state::task::blocking;
use crate::orchestrator::{Error, RunLog};
use crate::store::EventBatch;
use crate::workspace::{RunPaths, read_range};

/// Most bytes of each text in one answer. The end is kept, because errors are mostly there.
const TAIL_BYTES: u64 = 8 * 1024 * 1024;
/// Bytes of events looked through at once.
const SEARCH_BYTES: usize = 1024 * 1024;

pub(crate) async fn whole(asked: RunInPath) -> Result<Json<Value>, Problem> {
    let request_id = asked.request();
    let paths = asked.paths;
    let (texts, truncated) = blocking(move || {
        let mut texts = serde_json::Map::new();
        let mut truncated = Vec::new();
        let logs = [("prompt", RunFile::Prompt), ("stdout", RunFile::Stdout), ("stderr", RunFile::Stderr)];
        for (name, file) in logs {
            let (text, cut) = tail(&paths, file)?;
            texts.insert(name.into(), json!(text));
            truncated.extend(cut.then_some(name));
        }
        Ok::<_, Problem>((texts, truncated))
    })
    .await?;
    let mut answer = serde_json::Map::from_iter([("request_id".to_owned(), json!(request_id))]);
    answer.extend(texts);
    answer.insert("truncated".into(), json!(truncated));
    Ok(Json(Value::Object(answer)))
}

/// The end of a text, and whether its begin is missing. A text that was never written is empty.
fn tail(paths: &RunPaths, file: RunFile) -> Result<(String, bool), Problem> {
    // Engines can write into their run's folder, so what lies there may be a link to anywhere.
    let name = file.name();
    let file = match open_beneath(&paths.root, Path::new(name)) {
        Ok(file) => file,
        Err(LookupError::NotFound) => return Ok((String::new(), false)),
        Err(source) => return Err(Problem::File { path: name.to_owned(), source }),
    };
    let io = |source| Error::Io { doing: format!("read {name}"), source };
    let size = file.metadata().map_err(io)?.len();
    let from = size.saturating_sub(TAIL_BYTES);
    let mut bytes = vec![0; usize::try_from(size - from).unwrap_or_default()];
    file.read_exact_at(&mut bytes, from).map_err(io)?;
    Ok((String::from_utf8_lossy(&bytes).into_owned(), from > 0))
}

pub(crate) async fn range(State(app): State<App>, asked: RunInPath, mut query: Query) -> Result<Json<Value>, Problem> {
    let stream = stream(query.text("stream"))?;
    let byte_from = query.whole("byte_from")?.unwrap_or(0);
    let byte_to = query.whole("byte_to")?;
    query.finish()?;
    let log = app.orchestrator().log().clone();
    let run = asked.run();
    let path = asked.paths.file(RunFile::of_stream(stream));
    let root = asked.paths.root.clone();
    let range = blocking(move || read_range(&root, &path, byte_from, byte_to)).await?;
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
struct Bytes {
    stream: Stream,
    byte_from: u64,
    byte_to: u64,
}

fn raw_ref(event: &[u8]) -> Option<Bytes> {
    const MARK: &[u8] = b"\"raw_ref\":";
    // It is the envelope's last member and of known size, so nothing an engine wrote can be taken for it.
    let tail = &event[event.len().saturating_sub(256)..];
    let at = tail.windows(MARK.len()).rposition(|window| window == MARK)? + MARK.len();
    serde_json::from_slice(tail[at..].strip_suffix(b"}")?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_raw_ref_is_read_from_the_end_of_its_event() {
        let event = br#"{"data":{"text":"\"raw_ref\":{\"stream\":\"stderr\"}"},"raw_ref":{"attempt_number":1,"stream":"stdout","byte_from":5,"byte_to":9,"encoding":"utf-8"}}"#;
        assert_eq!(raw_ref(event), Some(Bytes { stream: Stream::Stdout, byte_from: 5, byte_to: 9 }));
        assert_eq!(raw_ref(br#"{"data":{},"raw_ref":null}"#), None);
    }
}
