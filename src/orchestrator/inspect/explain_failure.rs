//! Why a run failed, looked up in the log and in the raw bytes.

use std::io::{Read, Seek, SeekFrom};
use std::path::Path;

use serde_json::Value;

use super::explain::{WRITTEN_RESULTS, Written, spoken_text, text, within};
use crate::bounded;
use crate::convergence;
use crate::domain::codes::ErrorCode;
use crate::domain::ids::{RequestId, RunId, Seq};
use crate::domain::outcome::RunError;
use crate::domain::run_file::RunFile;
use crate::fcmp::read_envelope;
use crate::files::open_beneath;
use crate::orchestrator::error::Error;
use crate::orchestrator::log::run_log::RunLog;
use crate::projection::{FailureExplanation, FailureTrail, Origin, Pointer, Refused, Trail, Violation, Work, places};
use crate::store::EventBatch;

/// How much of standard error is shown.
const STDERR_TAIL: u64 = 2048;

/// Most bytes of output that are looked through again for each violation.
const NARROW_MAX: usize = 1024 * 1024;

impl RunLog {
    /// Why a final run failed or was canceled; none if it succeeded.
    pub(crate) async fn explain_failure(&self, run: RunId) -> Result<Option<FailureExplanation>, Error> {
        let state = self.head(run).await?.state;
        if !state.status().is_final() {
            return Err(Error::NotReady);
        }
        let mut trail = FailureTrail::default();
        let mut events = self.events(run, Seq::START);
        while let Some(page) = events.next_page().await? {
            for (seq, stored) in page.iter().flat_map(EventBatch::events) {
                let envelope = read_envelope(&stored).map_err(|error| Error::Corrupt {
                    run: run.to_string(),
                    message: format!("event {seq}: {error}"),
                })?;
                if let Some(event) = &envelope.event {
                    trail.push(seq, event);
                }
            }
        }
        let Some((error, decided_by, refused)) = trail.decided() else { return Ok(None) };
        let root = self.folder(run).await?.root;
        let output = self.trail(run).await?;
        let look = move || (refused.map(|refused| violations(&root, &output, refused)), stderr_tail(&root));
        let (violations, stderr_tail) = self.blocking().run("explain a failure", look).await?;
        Ok(Some(FailureExplanation {
            request_id: state.request_id,
            run_id: run,
            status: state.status(),
            next: next(&error, state.request_id),
            code: error.code,
            cause: error.message,
            decided_by,
            violations: violations.unwrap_or_default(),
            details: error.details,
            stderr_tail,
        }))
    }
}

/// What to do, in the words of the API: every route that is named is one of this run.
fn next(error: &RunError, request: RequestId) -> String {
    let of_run = |hint: &str| hint.replace('…', &format!("/v1/jobs/{request}"));
    let own = error.details.get("hint").and_then(Value::as_str);
    match (ErrorCode::from_text(&error.code), own) {
        // The installer's error says best what is missing.
        (Some(ErrorCode::DependenciesUnavailable), Some(own)) => own.to_owned(),
        (Some(code), _) => of_run(code.info().hint.api),
        (None, Some(own)) => own.to_owned(),
        (None, None) => of_run("this code is the skill's own; GET …/logs shows what the skill wrote"),
    }
}

/// Each violation with its value and its bytes. Blocks.
fn violations(root: &Path, trail: &Trail, refused: Refused) -> Vec<Violation> {
    let Refused { errors, whole_answer } = refused;
    let output = judged_output(root, trail, whole_answer);
    let spoken = output.as_ref().filter(|_| !trail.in_a_file()).and_then(|output| Spoken::of(root, trail, output));
    let written = if trail.in_a_file() { Some(Written::read(root)) } else { None };
    // For all of them together: each is looked for in the same text.
    let mut work = Work::default();
    let mut origin = |path: &str| -> Origin {
        let (Some(output), Ok(field)) = (&output, Pointer::parse(path)) else { return trail.spoken(&[]) };
        if let Some(origin) = written.as_ref().and_then(|written| written.origin(output, &field, &mut work)) {
            return origin;
        }
        let found = spoken.as_ref().map(|spoken| within(&spoken.text, spoken.from, output, &field, &mut work));
        trail.spoken(&found.unwrap_or_default())
    };
    let violation = |error: crate::domain::event::ValidationError| Violation {
        value: output.as_ref().and_then(|output| output.pointer(&error.path)).cloned(),
        origin: origin(&error.path),
        path: error.path,
        message: error.message,
    };
    errors.into_iter().map(violation).collect()
}

/// The part of a stream that holds the output.
struct Spoken {
    text: String,
    from: u64,
}

impl Spoken {
    /// The lines around the last place of the output. Every violation is looked for in them, so they must be short.
    fn of(root: &Path, trail: &Trail, output: &Value) -> Option<Self> {
        let (raw, from) = spoken_text(root, trail)?;
        let whole = places(&raw, output, &Pointer::parse("").ok()?, &mut Work::default()).pop()?;
        let start = raw[..whole.start].rfind('\n').map_or(0, |at| at + 1);
        let end = raw[whole.end..].find('\n').map_or(raw.len(), |at| whole.end + at);
        (end - start <= NARROW_MAX).then(|| Self { text: raw[start..end].to_owned(), from: from + start as u64 })
    }
}

/// The value that was compared with the schema. Blocks.
fn judged_output(root: &Path, trail: &Trail, whole_answer: bool) -> Option<Value> {
    let source = trail.validation.as_ref()?.source.as_str();
    if trail.in_a_file() {
        let written = WRITTEN_RESULTS.into_iter().find_map(|file| text(root, file))?;
        return convergence::parse(&written).value;
    }
    if source == "repair" {
        return convergence::parse(&text(root, RunFile::RepairOutput)?).value;
    }
    let kept = [RunFile::ScriptOutputJson, RunFile::EngineOutputJson].into_iter().find_map(|file| text(root, file))?;
    let answer: Value = bounded::json::from_str(&kept).ok()?;
    // The schema is that of a script's data, not of its whole answer.
    if source == "stdout" && !whole_answer { answer.get("data").cloned() } else { Some(answer) }
}

/// The end of standard error, from the begin of a line. Blocks.
fn stderr_tail(root: &Path) -> String {
    let read = || -> Option<String> {
        let mut file = open_beneath(root, Path::new(RunFile::Stderr.name())).ok()?;
        let size = file.metadata().ok()?.len();
        let from = size.saturating_sub(STDERR_TAIL);
        file.seek(SeekFrom::Start(from)).ok()?;
        let mut bytes = Vec::new();
        file.take(STDERR_TAIL).read_to_end(&mut bytes).ok()?;
        let text = String::from_utf8_lossy(&bytes).into_owned();
        let cut = if from > 0 { text.find('\n').map_or(0, |at| at + 1) } else { 0 };
        Some(text[cut..].to_owned())
    };
    read().unwrap_or_default()
}
