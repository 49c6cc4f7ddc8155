//! The events of one run, checked one after the other.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read};

use crate::audit::error::Error;
use crate::audit::report::{Report, Trust, Violation};
use crate::audit::streams::Streams;
use crate::bounded::json::has_at_most;
use crate::domain::artifact::ArtifactEntry;
use crate::domain::event::{EVENT_MAX, Event, Normalized};
use crate::domain::fact::Stream;
use crate::domain::outcome::{Proof, RunError, StreamProof};
use crate::domain::run_file::RunFolder;
use crate::export::{EVENTS, Piece};
use crate::fcmp::audit::{Auditor, Expect, VALUES_MAX};
use crate::fcmp::{Envelope, LogHead, PublicKey, RawRef, read_envelope, verify_signature};

/// Most events reported with different bytes: after a cut file every later one would differ.
const DIFFERENCES_MAX: usize = 20;
/// Most lines that are no events of a log whose rest is read.
const UNREADABLE_MAX: u64 = 100_000;

pub(crate) struct LogAudit<'a> {
    auditor: Auditor,
    /// The streams that events refer to; none if there is only a log.
    streams: Option<Streams<'a>>,
    violations: Vec<Violation>,
    /// Raw texts that differ from their bytes, or are no texts of theirs.
    differences: Vec<(Stream, Violation)>,
    /// The byte at which each event ends and the next one begins.
    ends: Vec<u64>,
    /// Lines that are no events.
    unreadable: u64,
    known: Outcome,
}

/// What the events of a log fold to.
#[derive(Default)]
pub(crate) struct Outcome {
    /// Its fold; none as soon as an event cannot be read.
    pub(crate) folded: Option<LogHead>,
    pub(crate) proof: Option<Proof>,
    /// The key that signed the log, if its signature fits.
    pub(crate) signed_by: Option<PublicKey>,
    pub(crate) error: Option<RunError>,
    /// How the output was validated.
    pub(crate) normalized: Option<Normalized>,
    /// The artifacts that events name.
    pub(crate) artifacts: Vec<ArtifactEntry>,
}

impl<'a> LogAudit<'a> {
    pub(crate) fn new(streams: Option<Streams<'a>>) -> Self {
        Self {
            auditor: Auditor::default(),
            streams,
            violations: Vec::new(),
            differences: Vec::new(),
            ends: Vec::new(),
            unreadable: 0,
            known: Outcome::default(),
        }
    }

    /// Whether the terminal event was seen.
    pub(crate) fn is_over(&self) -> bool {
        self.known.proof.is_some()
    }

    /// Takes every event of a log file.
    pub(crate) fn take_file(&mut self, log: &Piece) -> Result<(), Error> {
        let mut log = BufReader::new(log.reader());
        let mut line = Vec::new();
        loop {
            line.clear();
            let read = log.by_ref().take(EVENT_MAX).read_until(b'\n', &mut line);
            if read.map_err(Error::read(EVENTS))? == 0 {
                return Ok(());
            }
            let is_whole = line.last() == Some(&b'\n');
            if is_whole {
                line.pop();
            } else {
                self.violated("FCMP", "the last line has no newline: the log was cut, or this is not a log".to_owned());
            }
            self.take(&line);
            // What is kept of each line would be more than the line.
            if self.unreadable == UNREADABLE_MAX {
                self.violated("FCMP", format!("{UNREADABLE_MAX} lines are no events: what follows was not read"));
                return Ok(());
            }
            // What follows a line without end is no event, however much there is of it.
            if !is_whole {
                return Ok(());
            }
        }
    }

    pub(crate) fn take(&mut self, line: &[u8]) {
        self.auditor.push(line);
        // The auditor has already reported events that cannot be read, or hold too much.
        match has_at_most(line, VALUES_MAX).then(|| read_envelope(line).ok()).flatten() {
            None => {
                self.known.folded = None;
                self.unreadable += 1;
            }
            Some(envelope) => {
                let was_over = self.is_over();
                self.fold(&envelope, line);
                self.compare(&envelope);
                self.note(envelope.event);
                // Nothing vouches for what follows the terminal event.
                let proof = self.known.proof.as_ref().filter(|_| !was_over);
                let signature = proof.and_then(|proof| proof.signature.as_ref());
                self.known.signed_by = signature.and_then(|signature| verify_signature(line, signature).ok());
            }
        }
        let begins = self.ends.last().copied().unwrap_or_default();
        self.ends.push(begins + line.len() as u64 + 1);
    }

    /// The streams whose files the proof names, for a log that is audited without them.
    pub(crate) fn claimed_streams(&self) -> BTreeMap<Stream, StreamProof> {
        let claimed = self.known.proof.as_ref().map(|proof| proof.streams.clone()).unwrap_or_default();
        let known = |name: &str| match name {
            "stdout" => Some(Stream::Stdout),
            "stderr" => Some(Stream::Stderr),
            "pty" => Some(Stream::Pty),
            _ => None,
        };
        claimed.into_iter().filter_map(|(name, proof)| Some((known(&name)?, proof))).collect()
    }

    /// Compares the log with its stream files and adds what was found to the report.
    pub(crate) fn close(self, files: &BTreeMap<Stream, StreamProof>, expect: Expect, report: &mut Report) -> Outcome {
        report.events = self.ends.len() as u64;
        if let Some(head) = &self.known.folded {
            (report.run_id, report.status) = (Some(head.state.run_id), Some(head.state.status()));
        }
        if self.ends.is_empty() {
            report.violated("FCMP", EVENTS, "the log is empty");
        }
        report.signed_by = self.known.signed_by;
        if report.signed_by.is_some() {
            report.trust = Trust::UnknownKey;
        }
        let changed = self.auditor.changed_logs().clone();
        for stream in &changed {
            let file = Streams::name(*stream);
            report.not_checked.push(format!("{file} against its events: the run itself changed it, as its log says"));
        }
        let ends = self.ends;
        let found = self.auditor.finish(files, expect).into_iter().map(|violation| {
            let seq = (violation.seq > 0).then_some(violation.seq);
            let (file, message) = place(violation.message);
            let byte = seq.filter(|_| file == EVENTS).and_then(|seq| begin(&ends, seq));
            Violation { rule: violation.rule, file, seq, byte, message }
        });
        report.violations.extend(found);
        report.violations.extend(self.violations);
        let differences = self.differences.into_iter().filter(|(stream, _)| !changed.contains(stream));
        report.violations.extend(differences.map(|(_, violation)| violation));
        self.known
    }

    fn fold(&mut self, envelope: &Envelope, line: &[u8]) {
        let before = self.known.folded.take();
        // A fold that stopped at an unreadable event does not continue.
        if before.is_some() || self.ends.is_empty() {
            self.known.folded = LogHead::after(before, envelope, line);
        }
    }

    fn note(&mut self, event: Option<Event>) {
        match event {
            Some(Event::ArtifactIndexed(artifact)) => self.known.artifacts.push(*artifact),
            Some(Event::Normalized(normalized)) => self.known.normalized = Some(normalized),
            Some(Event::Completed(completed)) => self.known.proof = Some(completed.proof),
            Some(Event::Failed(failed)) => {
                (self.known.proof, self.known.error) = (Some(failed.proof), Some(failed.error));
            }
            Some(_) | None => {}
        }
    }

    /// Compares raw text with its bytes, so that a change is reported at its exact place.
    fn compare(&mut self, envelope: &Envelope) {
        let (Some(Event::RawStdout(raw) | Event::RawStderr(raw)), Some(raw_ref)) = (&envelope.event, &envelope.raw_ref)
        else {
            return;
        };
        let RawRef { stream, byte_from, byte_to, .. } = raw_ref;
        let Some(streams) = &mut self.streams else { return };
        if self.differences.len() >= DIFFERENCES_MAX {
            return;
        }
        // A text is never shorter than its bytes. A log of others could name all bytes of a stream in each of its events.
        if byte_to.saturating_sub(*byte_from) > raw.text.len() as u64 {
            let file = Streams::name(*stream);
            return self.differs(*stream, format!("its text is shorter than bytes {byte_from}..{byte_to} of {file}"));
        }
        // A missing file is reported once.
        let Some(bytes) = streams.bytes(*stream, *byte_from, *byte_to) else { return };
        let shown = String::from_utf8_lossy(&bytes);
        if shown != raw.text {
            let same = shown.bytes().zip(raw.text.bytes()).take_while(|(one, other)| one == other).count() as u64;
            // If the bytes are not UTF-8, offsets in the text are not offsets in the file.
            let exact = std::str::from_utf8(&bytes).is_ok();
            let place = if exact { format!(", from byte {} on", byte_from + same) } else { String::new() };
            let file = Streams::name(*stream);
            self.differs(*stream, format!("its text differs from bytes {byte_from}..{byte_to} of {file}{place}"));
        }
    }

    /// The raw text that is being taken does not fit its stream.
    fn differs(&mut self, stream: Stream, message: String) {
        self.differences.push((stream, self.here("RAW", message)));
    }

    /// Something is wrong with the event that is being taken.
    fn violated(&mut self, rule: &'static str, message: String) {
        let violation = self.here(rule, message);
        self.violations.push(violation);
    }

    fn here(&self, rule: &'static str, message: String) -> Violation {
        let byte = Some(self.ends.last().copied().unwrap_or_default());
        let seq = Some(self.ends.len() as u64 + 1);
        Violation { rule, file: EVENTS.to_owned(), seq, byte, message }
    }
}

/// Where an event begins in its file.
fn begin(ends: &[u64], seq: u64) -> Option<u64> {
    match usize::try_from(seq).ok()?.checked_sub(2) {
        None => Some(0),
        Some(before) => ends.get(before).copied(),
    }
}

/// The file a message is about: a stream that the message begins with, else the log itself.
fn place(message: String) -> (String, String) {
    match message.split_once(' ') {
        Some((file, rest)) if RunFolder::Logs.strip(file).is_some() => (file.to_owned(), format!("it {rest}")),
        Some(_) | None => (EVENTS.to_owned(), message),
    }
}
