//! Numbers, stamps and encodes what was decided for a run, once: the only place where FCMP JSON is made.

use std::sync::Arc;

use super::check::{SchemaViolation, check};
use super::envelope::{CommonText, Place, write_envelope};
use super::head::{Chain, LogHead};
use super::signature::Signer;
use crate::domain::Decision;
use crate::domain::event::Event;
use crate::domain::fact::RawRange;
use crate::domain::ids::{RunId, Seq};
use crate::domain::state::RunState;
use crate::domain::time::Timestamp;

/// From so many bytes on a page takes no more events; the last two of a command need room beside each other. With one
/// long event, and a run's row of hundreds of kilobytes, it must fit an append of the store, 1 MiB.
const PAGE_FULL: usize = 256 * 1024;
const LAST_PAGE_FULL: usize = 64 * 1024;
/// About how many bytes an event has: room for so many is made at once.
const USUAL_EVENT: usize = 420;

/// Events encoded together, to be appended atomically with the row that follows from them.
#[derive(Debug, Clone, PartialEq)]
pub struct Page {
    /// Seq of the first event.
    pub first: Seq,
    pub count: u32,
    /// Each event's JSON and a newline.
    pub ndjson: Vec<u8>,
    /// The log's end after them.
    pub head: LogHead,
}

/// Encodes the log of one run.
#[derive(Debug, Clone)]
pub struct Encoder {
    run: RunId,
    head: Option<LogHead>,
    common: Option<CommonText>,
    signer: Option<Arc<Signer>>,
}

impl Encoder {
    /// The encoder of a run that is still to be created.
    pub fn new(run: RunId) -> Self {
        Self { run, head: None, common: None, signer: None }
    }

    /// The encoder that continues a log at its end.
    pub fn resume(head: LogHead) -> Self {
        Self { run: head.state.run_id, head: Some(head), common: None, signer: None }
    }

    /// The same, which signs the run's last event with this key.
    #[must_use]
    pub fn signed_by(mut self, signer: Option<Arc<Signer>>) -> Self {
        self.signer = signer;
        self
    }

    /// Whose log it is.
    pub(crate) fn run(&self) -> RunId {
        self.run
    }

    /// The run as logged so far.
    pub fn state(&self) -> Option<&RunState> {
        self.head.as_ref().map(|head| &head.state)
    }

    /// Encode a decision. All of it or nothing: a fact that breaks the contract leaves the encoder as it was.
    ///
    /// More than one page comes back only for very many facts; the last two events always share a page, so that
    /// a state change is never separated from the event it belongs to.
    pub fn encode(&mut self, decision: Decision, now: Timestamp) -> Result<Vec<Page>, SchemaViolation> {
        let Decision { facts, terminal } = decision;
        for fact in &facts {
            check(&fact.event, fact.raw)?;
        }
        // Time does not run backwards within a log, so that windows by time are contiguous.
        let now = self.state().map_or(now, |state| now.max(state.updated_at));
        let mut pages = Pages::default();
        let count = facts.len();
        let together_from = (count + usize::from(terminal.is_some())).saturating_sub(2);
        for (i, fact) in facts.into_iter().enumerate() {
            let full_at = if i == together_from { LAST_PAGE_FULL } else { PAGE_FULL };
            if pages.open.len() > full_at && i <= together_from {
                pages.close(self.head.as_ref());
            }
            if pages.count == 0 {
                pages.open.reserve(((count - i) * USUAL_EVENT).min(PAGE_FULL + 4096));
            }
            self.encode_event(&mut pages, &fact.event, fact.raw, now)?;
        }
        if let (Some(terminal), Some(head)) = (terminal, &self.head) {
            // The last event carries the proof over everything before it.
            let (events, usage) = (head.state.head_seq.0, head.state.usage);
            let event = terminal.into_event(events, head.chain.to_string(), usage);
            check(&event, None)?;
            self.encode_last(&mut pages, event, now)?;
        }
        pages.close(self.head.as_ref());
        Ok(pages.closed)
    }

    /// What is signed is the event as it stands, so it is written once without the signature and once with it.
    fn encode_last(&mut self, pages: &mut Pages, mut event: Event, ts: Timestamp) -> Result<(), SchemaViolation> {
        if let Some(signer) = self.signer.clone() {
            let (mut unsigned, mut without) = (Pages::default(), self.clone());
            without.encode_event(&mut unsigned, &event, None, ts)?;
            let text = unsigned.open.strip_suffix(b"\n").unwrap_or(&unsigned.open);
            if let Some(proof) = event.proof_mut() {
                proof.signature = Some(signer.sign(text));
            }
        }
        self.encode_event(pages, &event, None, ts)
    }

    fn encode_event(
        &mut self,
        pages: &mut Pages,
        event: &Event,
        raw: Option<RawRange>,
        ts: Timestamp,
    ) -> Result<(), SchemaViolation> {
        let unwritable = |message: &str| SchemaViolation::new(event.type_name(), "/data", message);
        let head = match (&mut self.head, event) {
            (Some(head), event) => {
                head.state.apply(event, ts);
                head
            }
            (none, Event::Started(started)) => {
                let state = RunState::open(self.run, started, ts);
                none.insert(LogHead { state, chain: Chain::start(self.run) })
            }
            (None, _) => return Err(unwritable("a log begins with conversation.started")),
        };
        let state = &head.state;
        if names_engine(event) {
            self.common = None;
        }
        let common = self.common.get_or_insert_with(|| CommonText::new(state.run_id, ts, &state.engine));
        common.at(ts, &state.engine);
        let place = Place { common, seq: state.head_seq, attempt: state.attempt, local_seq: state.local_seq };
        let start = pages.open.len();
        write_envelope(&mut pages.open, &place, event, raw).map_err(|source| unwritable(&source.to_string()))?;
        head.chain = head.chain.link(&pages.open[start..]);
        pages.open.push(b'\n');
        pages.count += 1;
        Ok(())
    }
}

/// The engine of a run is known with its first event, or with the upload that brings its skill.
fn names_engine(event: &Event) -> bool {
    match event {
        Event::Started(_) => true,
        Event::Uploaded(uploaded) => uploaded.package.is_some(),
        _ => false,
    }
}

/// Pages that are full, and the one being written.
#[derive(Default)]
struct Pages {
    closed: Vec<Page>,
    open: Vec<u8>,
    count: u32,
}

impl Pages {
    fn close(&mut self, head: Option<&LogHead>) {
        let (Some(head), 1..) = (head, self.count) else { return };
        let count = std::mem::take(&mut self.count);
        let first = Seq(head.state.head_seq.0 + 1 - u64::from(count));
        self.closed.push(Page { first, count, ndjson: std::mem::take(&mut self.open), head: head.clone() });
    }
}

#[cfg(test)]
mod tests {
    use serde_json::Map;
    use uuid::Uuid;

    use super::*;
    use crate::domain::command::Command;
    use crate::domain::decide;
    use crate::domain::event::{Progress, Started};
    use crate::domain::fact::Fact;
    use crate::domain::ids::RequestId;
    use crate::domain::request::{ExecutionMode, RuntimeOptions, SkillRef};
    use crate::fcmp::read_envelope;

    fn begun() -> Encoder {
        let options = RuntimeOptions {
            execution_mode: ExecutionMode::Auto,
            no_cache: false,
            debug: false,
            debug_keep_temp: false,
            verbose: false,
            interactive_auto_reply: false,
            interactive_reply_timeout_sec: 1,
            hard_timeout_seconds: 1,
            stall_timeout_seconds: 0,
            retry: None,
        };
        let started = Started {
            request_id: RequestId(Uuid::from_u128(2)),
            skill: SkillRef { id: "demo".into(), version: "1.0.0".into(), fingerprint: String::new() },
            engine: "script".into(),
            model: None,
            execution_mode: ExecutionMode::Auto,
            runtime_options: options,
            input: Map::new(),
            parameter: Map::new(),
            awaiting_upload: false,
            idempotency_sha256: None,
            cache_key: None,
            engine_config_sha256: None,
            temporary: false,
            labels: Default::default(),
            metadata: None,
            context: None,
            priority: 0,
            requested_by: None,
            traceparent: None,
            awaiting_files: Vec::new(),
            defaults: Box::default(),
        };
        let mut encoder = Encoder::new(RunId(Uuid::from_u128(1)));
        let created = decide(None, Command::Create(Box::new(started)), None, Timestamp::from_micros(0)).unwrap();
        encoder.encode(created, Timestamp::from_micros(0)).unwrap();
        encoder
    }

    fn progress(percent: f64) -> Fact {
        Fact::own(Event::Progress(Progress { percent, message: "m".repeat(400) }))
    }

    fn facts(facts: Vec<Fact>) -> Decision {
        Decision { facts, terminal: None }
    }

    #[test]
    fn a_fact_that_breaks_the_contract_is_refused_and_nothing_of_its_batch_is_written() {
        let mut encoder = begun();
        let before = encoder.head.clone();
        let refused =
            encoder.encode(facts(vec![progress(1.0), progress(101.0)]), Timestamp::from_micros(1)).unwrap_err();
        assert_eq!(
            refused.to_string(),
            "PROTOCOL_SCHEMA_VIOLATION: run.progress at /data/percent: must be from 0 to 100"
        );
        assert_eq!(encoder.head, before);
    }

    #[test]
    fn very_many_facts_come_in_pages_whose_last_two_facts_stand_together() {
        let mut encoder = begun();
        let pages =
            encoder.encode(facts((0..2000).map(|_| progress(1.0)).collect()), Timestamp::from_micros(1)).unwrap();
        assert!(pages.len() > 1 && pages.iter().all(|page| page.ndjson.len() <= PAGE_FULL + 1024));
        assert!(pages.last().unwrap().count >= 2);
        let mut seq = Seq(1);
        for page in &pages {
            for line in page.ndjson.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
                seq = seq.next();
                assert_eq!(read_envelope(line).unwrap().seq, seq);
            }
            assert_eq!(page.head.state.head_seq, seq, "the row is that of the page's last event");
        }
        assert_eq!(seq, Seq(2001));
    }
}
