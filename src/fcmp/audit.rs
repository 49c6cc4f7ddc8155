//! The log checker: ordering rules OR-01…07, the schema, the numbering and the proof of one run.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::LazyLock;

use super::envelope::{Envelope, RawRef, read_envelope};
use super::head::Chain;
use super::signature::verify;
use crate::bounded;
use crate::domain::codes::WarningCode;
use crate::domain::event::{Event, StateChanged};
use crate::domain::fact::Stream;
use crate::domain::ids::RunId;
use crate::domain::interaction::InteractionId;
use crate::domain::outcome::{Proof, StreamProof};
use crate::domain::run_file::RunFile;
use crate::domain::statechart::{Status, Trigger, target};
use crate::domain::time::Timestamp;

/// Most violations reported; one broken byte can break every rule after it.
const VIOLATIONS_MAX: usize = 100;

/// Most values of an event; no writer makes one with as many.
pub(crate) const VALUES_MAX: usize = 1_000_000;
/// Most characters of a message: it may repeat what an event holds.
const MESSAGE_MAX: usize = 1000;

#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct Violation {
    pub(crate) rule: &'static str,
    /// At which event; 0 for the log as a whole.
    pub(crate) seq: u64,
    pub(crate) message: String,
}

/// Whether the log must be closed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Expect {
    /// The run is over: there is a terminal event.
    Final,
    /// The run may still go on.
    Any,
}

/// The compiled contract; a test makes sure that it is never `None`.
static CONTRACT: LazyLock<Option<jsonschema::Validator>> = LazyLock::new(|| {
    let schema = bounded::json::from_str(super::SCHEMA).ok()?;
    jsonschema::validator_for(&schema).ok()
});

/// Checks a log, event by event.
#[derive(Debug)]
pub struct Auditor {
    violations: Vec<Violation>,
    seq: u64,
    run: Option<RunId>,
    chain: Option<Chain>,
    attempt: u32,
    local_seq: u64,
    ts: Option<Timestamp>,
    status: Status,
    turns: u32,
    asked: Option<InteractionId>,
    resolved: BTreeSet<InteractionId>,
    /// How often a question was answered, also one that was before.
    answers: usize,
    resolved_in_attempt: bool,
    /// Whether the next attempt begins a turn again.
    retried: bool,
    resolved_before: usize,
    last: Option<Event>,
    terminal: Option<Proof>,
    tiles: BTreeMap<Stream, Vec<(u64, u64, u64)>>,
    /// The streams whose log the run changed itself, as its log says.
    changed_logs: BTreeSet<Stream>,
}

impl Default for Auditor {
    fn default() -> Self {
        Self {
            violations: Vec::new(),
            seq: 0,
            run: None,
            chain: None,
            attempt: 1,
            local_seq: 0,
            ts: None,
            status: Status::Queued,
            turns: 0,
            asked: None,
            resolved: BTreeSet::new(),
            answers: 0,
            resolved_in_attempt: false,
            retried: false,
            resolved_before: 0,
            last: None,
            terminal: None,
            tiles: BTreeMap::new(),
            changed_logs: BTreeSet::new(),
        }
    }
}

impl Auditor {
    /// Take the next stored event.
    pub fn push(&mut self, line: &[u8]) {
        // A log may say that it is at the last number there is.
        self.seq = self.seq.saturating_add(1);
        if !bounded::json::has_at_most(line, VALUES_MAX) {
            return self.violated("SCHEMA", format!("the event has more than {VALUES_MAX} values"));
        }
        self.schema(line);
        let envelope = match read_envelope(line) {
            Ok(envelope) => envelope,
            Err(error) => return self.violated("FCMP", cut(error.to_string())),
        };
        if self.terminal.is_some() {
            self.violated("OR-01", "an event follows the terminal one".into());
        }
        self.numbering(&envelope);
        if let Some(raw) = &envelope.raw_ref {
            self.tile(raw);
        }
        if let Some(event) = &envelope.event {
            self.rules(event);
        }
        let chain = self.chain.unwrap_or_else(|| Chain::start(envelope.run_id));
        if let Some(Event::Completed(_) | Event::Failed(_)) = &envelope.event {
            self.proof(chain, line);
        }
        self.chain = Some(chain.link(line));
        self.last = envelope.event;
    }

    /// The streams whose log the run changed itself: their events need not fit it.
    pub(crate) fn changed_logs(&self) -> &BTreeSet<Stream> {
        &self.changed_logs
    }

    /// What is wrong, given the stream files as they are.
    pub fn finish(mut self, files: &BTreeMap<Stream, StreamProof>, expect: Expect) -> Vec<Violation> {
        if expect == Expect::Final && self.terminal.is_none() {
            self.violated_at("OR-01", 0, "there is no terminal event".into());
        }
        if self.terminal.is_some() && !self.status.is_final() {
            self.violated_at("OR-05", self.seq, format!("the run ends in state {}", self.status.as_str()));
        }
        for stream in files.keys() {
            self.tiles.entry(*stream).or_default();
        }
        for (stream, tiles) in std::mem::take(&mut self.tiles) {
            let length = files.get(&stream).map_or(0, |file| file.bytes);
            let length = Some(length).filter(|_| !self.changed_logs.contains(&stream));
            self.tiled(stream, tiles, length, expect);
        }
        for (stream, file) in files {
            self.file(*stream, file, expect);
        }
        self.violations
    }

    fn schema(&mut self, line: &[u8]) {
        let Ok(value) = bounded::json::from_slice(line) else {
            return self.violated("SCHEMA", "the event is not JSON".into());
        };
        let Some(contract) = CONTRACT.as_ref() else {
            return self.violated("SCHEMA", "the built-in contract does not compile".into());
        };
        if let Err(error) = contract.validate(&value) {
            self.violated("SCHEMA", cut(format!("{} at {}", error, error.instance_path())));
        }
    }

    fn numbering(&mut self, envelope: &Envelope) {
        if envelope.seq.0 != self.seq {
            self.violated("OR-03", format!("seq is {}, {} was expected", envelope.seq, self.seq));
            self.seq = envelope.seq.0;
        }
        if *self.run.get_or_insert(envelope.run_id) != envelope.run_id {
            self.violated("OR-03", format!("the event belongs to run {}", envelope.run_id));
        }
        if self.ts.is_some_and(|ts| envelope.ts < ts) {
            self.violated("OR-03", "time runs backwards".into());
        }
        self.ts = Some(envelope.ts);
        let opens = matches!(&envelope.event, Some(Event::StateChanged(change)) if change.to == Status::Running);
        if opens && self.turns > 0 {
            self.attempt = self.attempt.saturating_add(1);
            self.local_seq = 0;
            // The answer that opens this attempt belongs to the attempt before it.
            self.resolved_in_attempt = self.answers > self.resolved_before || std::mem::take(&mut self.retried);
            self.resolved_before = self.answers;
        }
        self.local_seq = self.local_seq.saturating_add(1);
        if (envelope.meta.attempt, envelope.meta.local_seq) != (self.attempt, self.local_seq) {
            self.violated(
                "OR-03",
                format!(
                    "attempt.local_seq is {}.{}, {}.{} was expected",
                    envelope.meta.attempt, envelope.meta.local_seq, self.attempt, self.local_seq
                ),
            );
            (self.attempt, self.local_seq) = (envelope.meta.attempt, envelope.meta.local_seq);
        }
        if let Some(event) = &envelope.event
            && event.kind() != envelope.meta.kind
        {
            self.violated("FCMP", format!("kind is {}, {} was expected", envelope.meta.kind, event.kind()));
        }
        if let Some(raw) = &envelope.raw_ref
            && raw.attempt_number != self.attempt
        {
            self.violated("OR-06", format!("raw_ref names attempt {}", raw.attempt_number));
        }
    }

    fn rules(&mut self, event: &Event) {
        if self.seq == 1 && !matches!(event, Event::Started(_)) {
            self.violated("OR-05", "the first event is not conversation.started".into());
        }
        if matches!(self.last, Some(Event::InputRequired(_))) && !matches!(event, Event::StateChanged(_)) {
            self.violated("OR-02", "user.input.required is not followed by the change to waiting_user".into());
        }
        match event {
            Event::StateChanged(change) => self.state_changed(change),
            Event::RetryScheduled(_) => self.retried = true,
            Event::TurnStarted(turn) => self.turns = turn.attempt,
            Event::InputRequired(interaction) => {
                if self.asked.is_some() {
                    self.violated("OR-07", "a second interaction is asked while one is pending".into());
                }
                self.asked = Some(interaction.interaction_id);
            }
            Event::ReplyAccepted(reply) => self.resolve(reply.interaction_id),
            Event::AutoDecided(decided) => self.resolve(decided.interaction_id),
            Event::AssistantMessage(_)
            | Event::AssistantReasoning(_)
            | Event::ToolCall(_)
            | Event::CommandExecution(_) => {
                if self.attempt > 1 && !self.resolved_in_attempt {
                    self.violated("OR-04", "the assistant speaks in a resumed attempt before any reply".into());
                }
            }
            Event::Completed(completed) => self.terminal = Some(completed.proof.clone()),
            Event::Failed(failed) => self.terminal = Some(failed.proof.clone()),
            Event::Started(_)
            | Event::Uploaded(_)
            | Event::CacheHit(_)
            | Event::SessionBound(_)
            | Event::Progress(_)
            | Event::UsageReported(_)
            | Event::RawStdout(_)
            | Event::RawStderr(_)
            | Event::Normalized(_)
            | Event::ArtifactIndexed(_)
            | Event::CancelRequested(_)
            | Event::Recovered(_) => {}
            Event::Warned(warning) if warning.code == WarningCode::LogChanged => {
                let stream = warning.details.get("stream").and_then(|name| serde_json::from_value(name.clone()).ok());
                self.changed_logs.extend::<Option<Stream>>(stream);
            }
            Event::Warned(_) => {}
        }
    }

    fn state_changed(&mut self, change: &StateChanged) {
        if change.from != self.status {
            self.violated("OR-05", format!("from is {:?}, the run is {:?}", change.from, self.status));
        }
        if target(change.from, change.trigger) != Some(change.to) {
            self.violated("OR-05", format!("no row: {:?} --{:?}--> {:?}", change.from, change.trigger, change.to));
        }
        if change.trigger == Trigger::TurnNeedsInput {
            let asked = match &self.last {
                Some(Event::InputRequired(interaction)) => Some(interaction.interaction_id),
                _ => None,
            };
            if asked.is_none() || asked != change.pending_interaction_id {
                self.violated("OR-02", "the change to waiting_user does not follow its question".into());
            }
        }
        if (change.trigger == Trigger::TurnRetry) != matches!(self.last, Some(Event::RetryScheduled(_))) {
            self.violated("OR-05", "a turn is begun again without run.retry.scheduled, or that leads nowhere".into());
        }
        if change.trigger == Trigger::RestartPreserveWaiting && change.pending_interaction_id != self.asked {
            self.violated("OR-02", "the preserved wait names another question".into());
        }
        if change.to.is_final() {
            self.asked = None;
        }
        self.status = change.to;
    }

    fn resolve(&mut self, id: InteractionId) {
        if self.asked != Some(id) || self.resolved.contains(&id) {
            self.violated("OR-07", format!("interaction {id} is resolved but not pending"));
        }
        self.asked = None;
        self.answers += 1;
        self.resolved.insert(id);
    }

    fn tile(&mut self, raw: &RawRef) {
        if raw.byte_from >= raw.byte_to {
            self.violated("OR-06", "raw_ref is empty or reversed".into());
        }
        self.tiles.entry(raw.stream).or_default().push((raw.byte_from, raw.byte_to, self.seq));
    }

    /// While a run is live its file may be ahead of the log, never behind. `length` is that of the file, where that counts.
    fn tiled(&mut self, stream: Stream, mut tiles: Vec<(u64, u64, u64)>, length: Option<u64>, expect: Expect) {
        tiles.sort_unstable();
        let mut end = 0;
        for (from, to, seq) in tiles {
            if from != end {
                self.violated_at("OR-06", seq, format!("{} bytes {end}..{from}: gap or overlap", stream.as_str()));
            }
            end = to;
        }
        let Some(length) = length else { return };
        if end > length || (expect == Expect::Final && end != length) {
            self.violated_at("OR-06", 0, format!("events cover {end} of {length} bytes of {}", stream.as_str()));
        }
    }

    fn file(&mut self, stream: Stream, file: &StreamProof, expect: Expect) {
        let claimed = self.terminal.as_ref().and_then(|proof| proof.streams.get(stream.as_str()).cloned());
        if expect == Expect::Final && claimed.as_ref() != Some(file) {
            self.violated_at("PROOF", 0, format!("{} is not what the proof says", RunFile::of_stream(stream).name()));
        }
    }

    fn proof(&mut self, chain: Chain, line: &[u8]) {
        let Some(proof) = self.terminal.clone() else { return };
        if let Some(Err(flaw)) = proof.signature.as_ref().map(|signature| verify(line, signature)) {
            self.violated("SIGNATURE", flaw.to_owned());
        }
        if proof.events != self.seq.saturating_sub(1) {
            self.violated("PROOF", format!("the proof counts {} events", proof.events));
        }
        if proof.chain_sha256 != chain.to_string() {
            self.violated("PROOF", "the hash chain does not match: an event was changed".into());
        }
    }

    fn violated(&mut self, rule: &'static str, message: String) {
        self.violated_at(rule, self.seq, message);
    }

    fn violated_at(&mut self, rule: &'static str, seq: u64, message: String) {
        if self.violations.len() < VIOLATIONS_MAX {
            self.violations.push(Violation { rule, seq, message });
        }
    }
}

/// A message without what is too long of it.
fn cut(message: String) -> String {
    match message.char_indices().nth(MESSAGE_MAX) {
        None => message,
        Some((end, _)) => format!("{}…", &message[..end]),
    }
}

#[cfg(test)]
mod tests;
