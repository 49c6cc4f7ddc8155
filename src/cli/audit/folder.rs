//! A run's folder, audited as a whole: log, streams, manifest, artifacts, result.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde_json::Value;
use sha2::{Digest, Sha256};

use super::artifacts;
use super::log::{EVENTS, LogAudit, Outcome};
use super::report::Report;
use super::streams::Streams;
use crate::cli::failure::Failure;
use crate::domain::cache_key::hex;
use crate::domain::fact::Stream;
use crate::domain::outcome::StreamProof;
use crate::fcmp::audit::Expect;

/// The result's name in a run's folder.
const RESULT: &str = "result/result.json";

/// A run's folder.
pub(super) struct RunFolder {
    root: PathBuf,
    log: PathBuf,
}

impl RunFolder {
    /// The folder, with its log in the usual place.
    pub(super) fn new(root: &Path) -> Self {
        Self { root: root.to_owned(), log: root.join(EVENTS) }
    }

    /// The folder, with another log.
    pub(super) fn with_log(root: &Path, log: PathBuf) -> Self {
        Self { root: root.to_owned(), log }
    }

    /// Where the log is, once the run is over.
    pub(super) fn events_jsonl(&self) -> &Path {
        &self.log
    }

    /// Audits a folder that is the only witness.
    pub(super) fn audit(&self) -> Result<Report, Failure> {
        if !self.log.is_file() {
            return Err(Failure::Broken(format!(
                "{} is not the folder of a finished run: it has no {EVENTS}",
                self.root.display()
            )));
        }
        let mut audit = self.begin();
        audit.take_file(&self.log)?;
        self.finish(audit, |_, report| report.not_checked.push("the stored row, which is not in the folder".to_owned()))
    }

    /// An audit of the log, held against this folder's streams.
    pub(super) fn begin(&self) -> LogAudit {
        LogAudit::new(Some(Streams::new(self.root.join("logs"))))
    }

    /// Audits the files; `more` looks at what else is known about the log's outcome.
    pub(super) fn finish(&self, audit: LogAudit, more: impl FnOnce(&Outcome, &mut Report)) -> Result<Report, Failure> {
        let mut report = Report { checked: vec!["ordering rules", "schemas"], ..Report::default() };
        // A log that is exported is closed, even where its last event has become unreadable.
        let expect = if audit.proof.is_some() || self.log.is_file() { Expect::Final } else { Expect::Any };
        // The files after the events: a live run's files may be ahead of its log, never behind.
        let mut files = Streams::new(self.root.join("logs")).proofs()?;
        let claimed = audit.claimed_streams();
        absent_streams(claimed, &mut files, &mut report);
        let outcome = audit.close(&files, expect, &mut report);
        report.checked.push("raw streams");
        match (&outcome.proof, expect) {
            (Some(proof), _) => {
                report.checked.extend(["proof", "artifacts", "result"]);
                artifacts::check(&self.root, proof, &outcome.artifacts, &mut report)?;
                self.result(&outcome, &mut report);
            }
            (None, Expect::Final) => {
                report.not_checked.push("proof and artifacts, since the log has no terminal event".to_owned());
            }
            (None, Expect::Any) => {
                report.not_checked.push("proof and artifacts, since the run is not over yet".to_owned());
            }
        }
        more(&outcome, &mut report);
        Ok(report.closed())
    }

    /// The result says of the run's end what the log says.
    fn result(&self, outcome: &Outcome, report: &mut Report) {
        let read = std::fs::read(self.root.join(RESULT)).map_err(|error| error.to_string());
        let read = read.and_then(|text| serde_json::from_slice(&text).map_err(|error| error.to_string()));
        let result: Value = match read {
            Ok(result) => result,
            Err(error) => return report.violated("RESULT", RESULT, format!("it cannot be read: {error}")),
        };
        let status = outcome.folded.as_ref().map(|head| head.state.status.as_str());
        if status.is_some() && result["status"].as_str() != status {
            report.violated("RESULT", RESULT, format!("its status is {}, the log's is {status:?}", result["status"]));
        }
        let code = outcome.error.as_ref().map(|error| error.code.as_str());
        if result["error"]["code"].as_str() != code {
            report.violated("RESULT", RESULT, "its error is not the log's".to_owned());
        }
    }
}

/// A stream that never wrote needs no file; one that wrote does.
fn absent_streams(
    claimed: BTreeMap<Stream, StreamProof>,
    files: &mut BTreeMap<Stream, StreamProof>,
    report: &mut Report,
) {
    let empty = hex(&Sha256::digest(b""));
    for (stream, proof) in claimed {
        if files.contains_key(&stream) {
            continue;
        }
        if proof.bytes > 0 || proof.sha256 != empty {
            report.violated("PROOF", Streams::name(stream), "the file is missing");
        }
        // With what the proof says in its place, its absence is said once.
        files.insert(stream, proof);
    }
}

/// Audits a log without the files of its run.
pub(super) fn log_alone(path: &Path) -> Result<Report, Failure> {
    let mut audit = LogAudit::new(None);
    audit.take_file(path)?;
    let checked = vec!["ordering rules", "schemas", "hash chain"];
    let not_checked = vec!["raw streams and artifacts, which are not beside the log".to_owned()];
    let mut report = Report { checked, not_checked, ..Report::default() };
    let files = audit.claimed_streams();
    audit.close(&files, Expect::Final, &mut report);
    Ok(report.closed())
}
