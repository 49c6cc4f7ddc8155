//! The scribe numbers, stamps and encodes a run's facts, once, and keeps the hash chain over what it wrote.

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::check::{SchemaViolation, check};
use super::envelope::{Place, write_envelope};
use crate::domain::cache_key::sha256_bytes;
use crate::domain::event::{Event, Started};
use crate::domain::fact::Fact;
use crate::domain::ids::{RunId, Seq};
use crate::domain::state::RunState;
use crate::domain::time::Timestamp;

/// Most bytes of one atomic page of events; the store takes 1 MiB.
const PAGE_MAX: usize = 768 * 1024;

/// Hash chain over a run's stored events: chain(0) = sha256(run id), chain(k) = sha256(chain(k−1) ‖ event k).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Chain([u8; 32]);

impl Chain {
    /// Before the first event.
    pub fn start(run: RunId) -> Self {
        Self(Sha256::digest(run.to_string().as_bytes()).into())
    }

    /// After one more event.
    #[must_use]
    pub fn link(self, event: &[u8]) -> Self {
        let mut hash = Sha256::new();
        hash.update(self.0);
        hash.update(event);
        Self(hash.finalize().into())
    }
}

impl std::fmt::Display for Chain {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&hex::encode(self.0))
    }
}

impl Serialize for Chain {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Chain {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        let bytes = sha256_bytes(&text);
        bytes.map(Self).ok_or_else(|| serde::de::Error::custom("a chain is 64 hexadecimal digits"))
    }
}

/// The end of a run's log: its folded state and the chain up to there. Stored as the run's index row.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LogHead {
    /// The fold.
    pub state: RunState,
    /// The chain.
    pub chain: Chain,
}

/// Events encoded together, to be appended atomically with the row that follows from them.
#[derive(Debug, Clone, PartialEq)]
pub struct Page {
    /// Seq of the first event.
    pub first: Seq,
    /// How many.
    pub count: u32,
    /// Each event's JSON and a newline.
    pub ndjson: Vec<u8>,
    /// The log's end after them.
    pub head: LogHead,
}

/// Numbers and encodes the facts of one run.
#[derive(Debug, Clone)]
pub struct Scribe {
    head: LogHead,
    engine_json: String,
}

impl Scribe {
    /// The scribe of a new run, and the page with its first event.
    pub fn begin(run: RunId, started: Started, now: Timestamp) -> Result<(Self, Page), SchemaViolation> {
        let state = RunState::open(run, &started, now);
        let event = Event::Started(started);
        check(&event, None)?;
        let mut scribe = Self::resume(LogHead { state, chain: Chain::start(run) });
        let mut ndjson = Vec::with_capacity(1024);
        scribe.encode(&mut ndjson, &event, None, now)?;
        let page = Page { first: Seq(1), count: 1, ndjson, head: scribe.head.clone() };
        Ok((scribe, page))
    }

    /// The scribe that goes on from a log's end.
    pub fn resume(head: LogHead) -> Self {
        let engine_json = serde_json::Value::from(head.state.engine.as_str()).to_string();
        Self { head, engine_json }
    }

    /// The run as logged so far.
    pub fn state(&self) -> &RunState {
        &self.head.state
    }

    /// Encode facts. All of them or none: a fact that breaks the contract leaves the scribe as it was.
    ///
    /// More than one page comes back only for very many facts; the last two facts always share a page, so that
    /// a state change is never torn from the event it belongs to.
    pub fn write(&mut self, facts: Vec<Fact>, now: Timestamp) -> Result<Vec<Page>, SchemaViolation> {
        for fact in &facts {
            check(&fact.event, fact.raw)?;
        }
        // Time does not run backwards within a log, so that windows by time are contiguous.
        let now = now.max(self.head.state.updated_at);
        let mut pages = Vec::with_capacity(1);
        let mut page: Vec<u8> = Vec::with_capacity(facts.len() * 400);
        let mut first = self.head.state.head_seq.next();
        let together_from = facts.len().saturating_sub(2);
        for (i, fact) in facts.into_iter().enumerate() {
            if page.len() > PAGE_MAX / 2 && i <= together_from {
                let full = std::mem::take(&mut page);
                pages.push(self.page(first, full));
                first = self.head.state.head_seq.next();
            }
            let event = self.with_proof(fact.event);
            self.head.state.apply(&event, now);
            if matches!(&event, Event::Uploaded(uploaded) if uploaded.package.is_some()) {
                // The engine of a run with a skill of its own is known from here on.
                self.engine_json = serde_json::Value::from(self.head.state.engine.as_str()).to_string();
            }
            self.encode(&mut page, &event, fact.raw, now)?;
        }
        if !page.is_empty() {
            pages.push(self.page(first, page));
        }
        Ok(pages)
    }

    fn page(&self, first: Seq, ndjson: Vec<u8>) -> Page {
        let count = u32::try_from(self.head.state.head_seq.0 - first.0 + 1).unwrap_or(u32::MAX);
        Page { first, count, ndjson, head: self.head.clone() }
    }

    /// A terminal event carries the proof over everything before it.
    fn with_proof(&self, mut event: Event) -> Event {
        let proof = match &mut event {
            Event::Completed(completed) => &mut completed.proof,
            Event::Failed(failed) => &mut failed.proof,
            _ => return event,
        };
        proof.events = self.head.state.head_seq.0;
        proof.chain_sha256 = self.head.chain.to_string();
        event
    }

    fn encode(
        &mut self,
        out: &mut Vec<u8>,
        event: &Event,
        raw: Option<crate::domain::fact::RawRange>,
        ts: Timestamp,
    ) -> Result<(), SchemaViolation> {
        let state = &self.head.state;
        let place = Place {
            run_id: state.run_id,
            seq: state.head_seq,
            ts,
            engine_json: &self.engine_json,
            attempt: state.attempt,
            local_seq: state.local_seq,
        };
        let start = out.len();
        write_envelope(out, &place, event, raw)
            .map_err(|source| SchemaViolation::new(event.type_name(), "/data", &source.to_string()))?;
        self.head.chain = self.head.chain.link(&out[start..]);
        out.push(b'\n');
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::Map;
    use uuid::Uuid;

    use super::*;
    use crate::domain::event::Progress;
    use crate::domain::ids::RequestId;
    use crate::domain::request::{ExecutionMode, RuntimeOptions, SkillRef};
    use crate::fcmp::read_envelope;

    fn begun() -> (Scribe, Page) {
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
        };
        Scribe::begin(RunId(Uuid::from_u128(1)), started, Timestamp::from_micros(0)).unwrap()
    }

    fn progress(percent: f64) -> Fact {
        Fact::own(Event::Progress(Progress { percent, message: "m".repeat(400) }))
    }

    #[test]
    fn a_fact_that_breaks_the_contract_is_refused_and_nothing_of_its_batch_is_written() {
        let (mut scribe, _) = begun();
        let before = scribe.head.clone();
        let refused = scribe.write(vec![progress(1.0), progress(101.0)], Timestamp::from_micros(1)).unwrap_err();
        assert_eq!(
            refused.to_string(),
            "PROTOCOL_SCHEMA_VIOLATION: run.progress at /data/percent: must be from 0 to 100"
        );
        assert_eq!(scribe.head, before);
    }

    #[test]
    fn very_many_facts_come_in_pages_whose_last_two_facts_stand_together() {
        let (mut scribe, first) = begun();
        let pages = scribe.write((0..2000).map(|_| progress(1.0)).collect(), Timestamp::from_micros(1)).unwrap();
        assert!(pages.len() > 1 && pages.iter().all(|page| page.ndjson.len() <= PAGE_MAX));
        assert!(pages.last().unwrap().count >= 2);
        let mut seq = first.first;
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
