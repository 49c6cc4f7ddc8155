//! Where a field of a result came from, looked up in the log and in the raw bytes.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;

use serde_json::Value;

use crate::bounded;
use crate::domain::codes::ErrorCode;
use crate::domain::event::ValidationError;
use crate::domain::ids::{RunId, Seq};
use crate::domain::run_file::RunFile;
use crate::domain::statechart::Status;
use crate::fcmp::read_envelope;
use crate::files::{open_beneath, read_beneath};
use crate::orchestrator::error::Error;
use crate::orchestrator::inspect::proven_run::ProvenRun;
use crate::orchestrator::log::run_log::RunLog;
use crate::projection::{Explanation, FilePlace, Origin, Pointer, Precision, Trail, Work, places, span};
use crate::store::EventBatch;

/// Longest result that is read, and most bytes of raw output that are looked through.
const TEXT_MAX: u64 = 32 * 1024 * 1024;

/// The result file as it was written, by the last step first.
pub(super) const WRITTEN_RESULTS: [RunFile; 4] =
    [RunFile::RepairResult, RunFile::FallbackResult, RunFile::NormalizerResult, RunFile::SkillResult];

impl RunLog {
    /// Where a field of a finished run's result came from, by its JSON pointer (`/data/…`).
    pub(crate) async fn explain(&self, run: RunId, path: &str) -> Result<Explanation, Error> {
        let pointer = Pointer::parse(path).map_err(|error| wrong_path(error.to_string()))?;
        let field = match pointer.split_first() {
            Some(("data", field)) => field,
            Some(_) | None => return Err(wrong_path("only the data of a result is explained: /data/…".to_owned())),
        };
        let state = self.head(run).await?.state;
        if !state.status().is_final() {
            return Err(Error::NotReady);
        }
        let missing = || Error::FieldNotFound { path: path.chars().take(200).collect(), status: state.status() };
        if state.status() != Status::Succeeded {
            return Err(missing());
        }
        // Only what is still as the run left it explains anything.
        let proven = self.proven(run).await?.ok_or(Error::NotReady)?;
        self.blocking().run("check a run's files", move || check(&proven)).await??;
        // The field first: to look for one that is not there costs no scan of the log.
        let (root, missing) = (self.folder(run).await?.root, missing());
        let find = move || find(&root, &pointer, missing).map(|found| (found, root));
        let (Found { document, value, place }, root) = self.blocking().run("explain a result", find).await??;
        let trail = self.trail(run).await?;
        let look = move || origin(&root, &trail, &document["data"], &field).map(|origin| (origin, trail.validation));
        let (origin, validation) = self.blocking().run("explain a result", look).await??;
        let (request_id, path, result) = (state.request_id, path.to_owned(), in_file(RunFile::Result, place));
        Ok(Explanation { request_id, run_id: run, path, value, result, validation, origin })
    }

    pub(super) async fn trail(&self, run: RunId) -> Result<Trail, Error> {
        let mut trail = Trail::default();
        let mut events = self.events(run, Seq::START);
        while let Some(page) = events.next_page().await? {
            for (seq, stored) in page.iter().flat_map(EventBatch::events) {
                let envelope = read_envelope(&stored).map_err(|error| Error::Corrupt {
                    run: run.to_string(),
                    message: format!("event {seq}: {error}"),
                })?;
                let bytes = envelope.raw_ref.map(|raw| (raw.stream, raw.byte_from..raw.byte_to));
                if let Some(event) = &envelope.event {
                    trail.push(envelope.meta.attempt, seq, event, bytes);
                }
            }
        }
        Ok(trail)
    }
}

/// Holds what is read below against the run's proof. Blocks.
fn check(proven: &ProvenRun) -> Result<(), Error> {
    let streams = [RunFile::Stdout, RunFile::Stderr, RunFile::Pty];
    let read = [RunFile::Result].into_iter().chain(WRITTEN_RESULTS).chain(streams);
    read.into_iter().try_for_each(|file| proven.open_optional(file.name()).map(drop))
}

/// The result, and a field of it with its place.
struct Found {
    document: Value,
    value: Value,
    place: std::ops::Range<usize>,
}

/// Look up the field in the result. Blocks.
fn find(root: &Path, pointer: &Pointer, missing: Error) -> Result<Found, Error> {
    let text = text(root, RunFile::Result).ok_or_else(unreadable)?;
    let place = span(&text, pointer).ok_or(missing)?;
    let document: Value = bounded::json::from_str(&text).map_err(|_| unreadable())?;
    let value = bounded::json::from_str(&text[place.clone()]).map_err(|_| unreadable())?;
    Ok(Found { document, value, place })
}

fn origin(root: &Path, trail: &Trail, data: &Value, field: &Pointer) -> Result<Origin, Error> {
    if let Some((seq, source_run_id)) = trail.taken_from {
        return Ok(Origin::Run { seq, source_run_id });
    }
    let mut work = Work::default();
    if trail.in_a_file()
        && let Some(origin) = Written::read(root).origin(data, field, &mut work)
    {
        return Ok(origin);
    }
    let found = spoken_text(root, trail).map(|(raw, from)| within(&raw, from, data, field, &mut work));
    let found = found.unwrap_or_default();
    Ok(if trail.turn().is_some() { trail.spoken(&found) } else { Origin::Unknown })
}

/// What the engine wrote in its last turn, and where in the stream that begins. Blocks.
pub(super) fn spoken_text(root: &Path, trail: &Trail) -> Option<(String, u64)> {
    let (stream, bytes) = trail.turn()?;
    // An answer is at the end of the output.
    let from = bytes.start.max(bytes.end.saturating_sub(TEXT_MAX));
    let file = open_beneath(root, Path::new(RunFile::of_stream(stream).name())).ok()?;
    Some((range(&file, from, bytes.end)?, from))
}

/// The places of a field in a part of a stream that begins at `from`.
pub(super) fn within(
    raw: &str,
    from: u64,
    data: &Value,
    field: &Pointer,
    work: &mut Work,
) -> Vec<std::ops::Range<u64>> {
    let found = places(raw, data, field, work).into_iter();
    found.map(|place| from + place.start as u64..from + place.end as u64).collect()
}

/// The files that the output may have been in: the skill's own result file, and what later steps wrote there.
pub(super) struct Written(Vec<(RunFile, String)>);

impl Written {
    /// Blocks.
    pub(super) fn read(root: &Path) -> Self {
        Self(WRITTEN_RESULTS.into_iter().filter_map(|file| Some((file, text(root, file)?))).collect())
    }

    /// Where a field was in them.
    pub(super) fn origin(&self, data: &Value, field: &Pointer, work: &mut Work) -> Option<Origin> {
        for (file, text) in &self.0 {
            if let Some(place) = places(text, data, field, work).pop() {
                return Some(Origin::File { precision: Precision::Field, place: in_file(*file, place) });
            }
        }
        let (file, text) = self.0.first()?;
        Some(Origin::File { precision: Precision::File, place: in_file(*file, 0..text.len()) })
    }
}

fn in_file(file: RunFile, place: std::ops::Range<usize>) -> FilePlace {
    FilePlace { file: file.name().to_owned(), byte_from: place.start as u64, byte_to: place.end as u64 }
}

pub(super) fn text(root: &Path, file: RunFile) -> Option<String> {
    String::from_utf8(read_beneath(root, Path::new(file.name()), TEXT_MAX).ok()??).ok()
}

fn range(file: &File, from: u64, to: u64) -> Option<String> {
    let length = to.checked_sub(from).filter(|length| *length <= TEXT_MAX)?;
    let mut bytes = vec![0; usize::try_from(length).ok()?];
    file.read_exact_at(&mut bytes, from).ok()?;
    String::from_utf8(bytes).ok()
}

fn wrong_path(message: String) -> Error {
    let details = vec![ValidationError { path: "path".to_owned(), message: message.clone() }];
    Error::Rejected { code: ErrorCode::InvalidRequest, message: format!("path: {message}"), details }
}

fn unreadable() -> Error {
    Error::io(format!("read {}", RunFile::Result.name()))(std::io::ErrorKind::InvalidData.into())
}
