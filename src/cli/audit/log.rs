//! The events of one run, checked one after the other.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::Path;

use super::report::{Report, Violation};
use super::streams::Streams;
use crate::cli::failure::Failure;
use crate::domain::artifact::ArtifactEntry;
use crate::domain::event::Event;
use crate::domain::fact::Stream;
use crate::domain::outcome::{Proof, RunError, StreamProof};
use crate::domain::state::RunState;
use crate::fcmp::audit::{Auditor, Expect};
use crate::fcmp::{Chain, Envelope, LogHead, RawRef, read_envelope};

/// The log's name in a run's folder.
pub(super) const EVENTS: &str = "logs/events.jsonl";
/// Most events of which is said that their bytes differ: one cut file would make every later one differ.
const DIFFERENCES_MAX: usize = 20;

/// A log under audit.
pub(super) struct LogAudit {
    auditor: Auditor,
    /// The files that events stand on; none where only the log is there.
    streams: Option<Streams>,
    violations: Vec<Violation>,
    /// Events seen.
    pub(super) events: u64,
    /// The log's outcome; none as soon as an event cannot be read.
    pub(super) folded: Option<LogHead>,
    /// The terminal event's proof.
    pub(super) proof: Option<Proof>,
    /// The terminal event's error.
    pub(super) error: Option<RunError>,
    /// The artifacts that events name.
    pub(super) artifacts: Vec<ArtifactEntry>,
}

impl LogAudit {
    /// Before the first event.
    pub(super) fn new(streams: Option<Streams>) -> Self {
        Self {
            auditor: Auditor::default(),
            streams,
            violations: Vec::new(),
            events: 0,
            folded: None,
            proof: None,
            error: None,
            artifacts: Vec::new(),
        }
    }

    /// Takes every event of a log file.
    pub(super) fn take_file(&mut self, path: &Path) -> Result<(), Failure> {
        let reading = || format!("read {}", path.display());
        let mut file = BufReader::new(File::open(path).map_err(Failure::broken(reading()))?);
        let mut line = Vec::new();
        loop {
            line.clear();
            if file.read_until(b'\n', &mut line).map_err(Failure::broken(reading()))? == 0 {
                return Ok(());
            }
            if line.last() == Some(&b'\n') {
                line.pop();
            } else {
                self.violated("FCMP", self.events + 1, "the last line has no end: the log was cut".to_owned());
            }
            self.take(&line);
        }
    }

    /// Takes the next event.
    pub(super) fn take(&mut self, line: &[u8]) {
        self.events += 1;
        self.auditor.push(line);
        // What cannot be read the auditor has said.
        let Ok(envelope) = read_envelope(line) else {
            self.folded = None;
            return;
        };
        self.fold(&envelope, line);
        self.compare(&envelope);
        match envelope.event {
            Some(Event::ArtifactIndexed(artifact)) => self.artifacts.push(artifact),
            Some(Event::Completed(completed)) => self.proof = Some(completed.proof),
            Some(Event::Failed(failed)) => (self.proof, self.error) = (Some(failed.proof), Some(failed.error)),
            Some(_) | None => {}
        }
    }

    /// The streams whose files the proof names, for a log that is audited without them.
    pub(super) fn claimed_streams(&self) -> BTreeMap<Stream, StreamProof> {
        let claimed = self.proof.as_ref().map(|proof| proof.streams.clone()).unwrap_or_default();
        let known = |name: &str| match name {
            "stdout" => Some(Stream::Stdout),
            "stderr" => Some(Stream::Stderr),
            "pty" => Some(Stream::Pty),
            _ => None,
        };
        claimed.into_iter().filter_map(|(name, proof)| Some((known(&name)?, proof))).collect()
    }

    /// Holds the log against its stream files; what it says about itself goes into the report.
    pub(super) fn close(self, files: &BTreeMap<Stream, StreamProof>, expect: Expect, report: &mut Report) -> Outcome {
        report.events = self.events;
        if let Some(head) = &self.folded {
            (report.run_id, report.status) = (Some(head.state.run_id), Some(head.state.status));
        }
        if self.events == 0 {
            report.violated("FCMP", EVENTS, "the log is empty");
        }
        let found = self.auditor.finish(files, expect).into_iter().map(|violation| {
            let seq = (violation.seq > 0).then_some(violation.seq);
            let (file, message) = place(violation.message);
            Violation { rule: violation.rule, file, seq, message }
        });
        report.violations.extend(found);
        report.violations.extend(self.violations);
        Outcome { folded: self.folded, proof: self.proof, error: self.error, artifacts: self.artifacts }
    }

    fn fold(&mut self, envelope: &Envelope, line: &[u8]) {
        let chain = self.folded.as_ref().map_or_else(|| Chain::start(envelope.run_id), |head| head.chain).link(line);
        let state = match (self.folded.take(), &envelope.event) {
            (None, Some(Event::Started(started))) if self.events == 1 => {
                RunState::open(envelope.run_id, started, envelope.ts)
            }
            (None, _) => return,
            (Some(mut head), Some(event)) => {
                head.state.apply(event, envelope.ts);
                head.state
            }
            (Some(mut head), None) => {
                head.state.apply_unknown(envelope.ts);
                head.state
            }
        };
        self.folded = Some(LogHead { state, chain });
    }

    /// Raw text is what its bytes are, so a difference shows the very place that was changed.
    fn compare(&mut self, envelope: &Envelope) {
        let (Some(Event::RawStdout(raw) | Event::RawStderr(raw)), Some(place)) = (&envelope.event, &envelope.raw_ref)
        else {
            return;
        };
        let RawRef { stream, byte_from, byte_to, .. } = place;
        let Some(streams) = &mut self.streams else { return };
        // What is not there at all is said once, with the file.
        let Some(bytes) = streams.bytes(*stream, *byte_from, *byte_to) else { return };
        if String::from_utf8_lossy(&bytes) != raw.text && self.violations.len() < DIFFERENCES_MAX {
            let file = Streams::name(*stream);
            let message = format!("the event's text is not what bytes {byte_from}..{byte_to} of {file} hold");
            self.violated("RAW", envelope.seq.0, message);
        }
    }

    fn violated(&mut self, rule: &'static str, seq: u64, message: String) {
        self.violations.push(Violation { rule, file: EVENTS.to_owned(), seq: Some(seq), message });
    }
}

/// The file a message is about: a stream that the message begins with, else the log itself.
fn place(message: String) -> (String, String) {
    match message.split_once(' ') {
        Some((file, rest)) if file.starts_with("logs/") => (file.to_owned(), format!("it {rest}")),
        Some(_) | None => (EVENTS.to_owned(), message),
    }
}

/// What a log amounts to.
pub(super) struct Outcome {
    /// Its fold.
    pub(super) folded: Option<LogHead>,
    /// The terminal event's proof.
    pub(super) proof: Option<Proof>,
    /// The terminal event's error.
    pub(super) error: Option<RunError>,
    /// The artifacts that events name.
    pub(super) artifacts: Vec<ArtifactEntry>,
}
