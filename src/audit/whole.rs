//! Audits a whole run: log, streams, manifest, artifacts, result.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use crate::audit::error::Error;
use crate::audit::files::RunFiles;
use crate::audit::log::{LogAudit, Outcome};
use crate::audit::report::{Report, Violation};
use crate::audit::row::{self, StoredRow};
use crate::audit::streams::Streams;
use crate::audit::{artifacts, proven, result};
use crate::domain::cache_key::sha256_hex;
use crate::domain::fact::Stream;
use crate::domain::ids::RunId;
use crate::domain::outcome::StreamProof;
use crate::domain::run_file::{RunFile, RunFolder};
use crate::export::{Contents, EVENTS, Export, Flaw, Piece};
use crate::fcmp::audit::Expect;
use crate::files;

/// Audits a run of the data folder: its files, its events wherever they are, and its row.
///
/// `read_events` hands every stored event to the closure it is given; it is called when the run has no log file yet.
pub(crate) fn stored_run<E: From<Error>>(
    run: RunId,
    root: PathBuf,
    read_events: impl FnOnce(&mut dyn FnMut(&[u8])) -> Result<(), E>,
    row: impl FnOnce() -> Result<StoredRow, E>,
) -> Result<Report, E> {
    let files = RunFiles::Folder(root);
    let mut audit = begin(&files);
    let log = if let Some(log) = files.open(EVENTS) {
        audit.take_file(&log)?;
        LogIn::File
    } else {
        read_events(&mut |event| audit.take(event))?;
        LogIn::Store
    };
    // The row after the events: it may be ahead of what was read, never behind.
    let row = row()?;
    let mut report = finish(&files, audit, log, |outcome, report| row::check(row, outcome, report))?;
    report.run_id.get_or_insert(run);
    Ok(report)
}

/// Audits an export, or a log: with the folder of its run if it is in one, else by itself.
pub(crate) fn file(path: &Path) -> Result<Report, Error> {
    if Export::is_meant(path) {
        return export(path);
    }
    let unreadable = || Error::read(path.display().to_string());
    let absolute = std::path::absolute(path).map_err(unreadable())?;
    let log = files::open_followed(&absolute).and_then(Piece::whole).map_err(unreadable())?;
    let logs = absolute.parent().filter(|logs| logs.ends_with(RunFolder::Logs.name()));
    match logs.and_then(Path::parent) {
        Some(root) if root.join(RunFile::Manifest.name()).exists() => folder_with(root, Some(log)),
        Some(_) | None => log_alone(&log),
    }
}

/// Audits a run's folder, without the store.
pub(crate) fn folder(root: &Path) -> Result<Report, Error> {
    folder_with(root, None)
}

/// The folder, with another log than the one in the usual place.
fn folder_with(root: &Path, log: Option<Piece>) -> Result<Report, Error> {
    let files = RunFiles::Folder(root.to_owned());
    let Some(log) = log.or_else(|| files.open(EVENTS)) else {
        return Err(Error::NoLog { root: root.to_owned() });
    };
    let mut audit = begin(&files);
    audit.take_file(&log)?;
    finish(&files, audit, LogIn::File, |_, report| {
        report.not_checked.push("the stored row, which is not in the folder".to_owned())
    })
}

/// Audits an export: its frame, its files, and the run in it.
pub(crate) fn export(path: &Path) -> Result<Report, Error> {
    let reading = || path.display().to_string();
    let export = Export::open(path).map_err(Error::read(reading()))?;
    let flaws = [export.flaws().to_vec(), export.check_files().map_err(Error::read(reading()))?].concat();
    let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let contents = export.contents().cloned();
    let files = RunFiles::Export(Box::new(export));
    let mut report = match files.open(EVENTS) {
        Some(log) => {
            let mut audit = begin(&files);
            audit.take_file(&log)?;
            finish(&files, audit, LogIn::File, |outcome, report| compare_contents(contents.as_ref(), outcome, report))?
        }
        None => {
            let mut report = Report::default();
            report.violated("CONTENTS", EVENTS, "the file is missing");
            report.not_checked.push("the run, because there is no log".to_owned());
            report
        }
    };
    report.checked.extend(["seal", "zip", "contents"]);
    // Flaws of the zip first: those of the run often follow from them.
    report.violations.splice(0..0, flaws.into_iter().map(|flaw| violation(flaw, &name)));
    Ok(report.closed())
}

/// A flaw of the zip is reported for the export, a flaw of a file for that file.
fn violation(flaw: Flaw, export: &str) -> Violation {
    let Flaw { rule, file, byte, message } = flaw;
    match file {
        Some(file) if rule == "CONTENTS" => Violation { rule, file, seq: None, byte: None, message },
        Some(file) => {
            Violation { rule, file: export.to_owned(), seq: None, byte, message: format!("{file:?}: {message}") }
        }
        None => Violation { rule, file: export.to_owned(), seq: None, byte, message },
    }
}

/// Compares the list of contents with the log.
fn compare_contents(contents: Option<&Contents>, outcome: &Outcome, report: &mut Report) {
    report.not_checked.push("the stored row, which is not in the export".to_owned());
    let (Some(contents), Some(head)) = (contents, &outcome.folded) else { return };
    let state = &head.state;
    let said = (contents.run_id, contents.request_id, contents.status, contents.events);
    if said != (state.run_id, state.request_id, state.status(), state.head_seq.0) {
        report.violated("CONTENTS", crate::export::CONTENTS, "what it says about the run differs from the log");
    }
}

/// Where the log was read from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum LogIn {
    /// A file: it is closed, even where its last event has become unreadable.
    File,
    /// The store: the run may still go on.
    Store,
}

/// An audit of the log against the streams of these files.
fn begin(files: &RunFiles) -> LogAudit<'_> {
    LogAudit::new(Some(Streams::new(files)))
}

/// Audits the files; `more` looks at what else is known about the log's outcome.
fn finish(
    files: &RunFiles,
    audit: LogAudit<'_>,
    log: LogIn,
    more: impl FnOnce(&Outcome, &mut Report),
) -> Result<Report, Error> {
    let mut report = Report { checked: vec!["ordering rules", "schemas"], ..Report::default() };
    let expect = match log {
        LogIn::Store if !audit.is_over() => Expect::Any,
        LogIn::Store | LogIn::File => Expect::Final,
    };
    // The files after the events: a live run's files may be ahead of its log, never behind.
    let claimed = audit.claimed_streams();
    let mut streams = Streams::new(files).proofs(&claimed)?;
    absent_streams(claimed, &mut streams, &mut report);
    let outcome = audit.close(&streams, expect, &mut report);
    report.checked.push("raw streams");
    match (&outcome.proof, expect) {
        (Some(proof), _) => {
            report.checked.extend(["proof", "artifacts", "result"]);
            let (artifacts, manifest) = artifacts::check(files, proof, &outcome.artifacts, &mut report)?;
            proven::check(files, proof, manifest.as_ref(), &mut report)?;
            result::check(files, &outcome, &artifacts, &mut report);
        }
        (None, Expect::Final) => {
            report.not_checked.push("proof and artifacts, because the log has no terminal event".to_owned());
        }
        (None, Expect::Any) => {
            report.not_checked.push("proof and artifacts, because the run has not ended".to_owned());
        }
    }
    more(&outcome, &mut report);
    Ok(report.closed())
}

/// A stream without output needs no file; one with output does.
fn absent_streams(
    claimed: BTreeMap<Stream, StreamProof>,
    files: &mut BTreeMap<Stream, StreamProof>,
    report: &mut Report,
) {
    let empty = sha256_hex(b"");
    for (stream, proof) in claimed {
        if files.contains_key(&stream) {
            continue;
        }
        if proof.bytes > 0 || proof.sha256 != empty {
            report.violated("PROOF", Streams::name(stream), "the file is missing");
        }
        // The proof's own values are used instead, so that its absence is reported only once.
        files.insert(stream, proof);
    }
}

/// Audits a log without the files of its run.
fn log_alone(log: &Piece) -> Result<Report, Error> {
    let mut audit = LogAudit::new(None);
    audit.take_file(log)?;
    let checked = vec!["ordering rules", "schemas", "hash chain"];
    let not_checked = vec!["raw streams and artifacts, which are not beside the log".to_owned()];
    let mut report = Report { checked, not_checked, ..Report::default() };
    let files = audit.claimed_streams();
    audit.close(&files, Expect::Final, &mut report);
    Ok(report.closed())
}
