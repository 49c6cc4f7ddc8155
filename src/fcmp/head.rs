//! The end of a run's log: its folded state and the hash chain over everything before.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use sha2::{Digest, Sha256};

use crate::domain::cache_key::sha256_bytes;
use crate::domain::event::EVENT_MAX;
use crate::domain::ids::RunId;
use crate::domain::state::RunState;

/// Hash chain over a run's stored events: chain(0) = sha256(run id), chain(k) = sha256(chain(k−1) ‖ event k).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Chain([u8; 32]);

impl Chain {
    /// Before the first event.
    pub(crate) fn start(run: RunId) -> Self {
        Self(Sha256::digest(run.to_string().as_bytes()).into())
    }

    /// After one more event.
    #[must_use]
    pub(crate) fn link(self, event: &[u8]) -> Self {
        let mut hash = Sha256::new();
        hash.update(self.0);
        hash.update(event);
        Self(hash.finalize().into())
    }
}

/// The chain over a log that is read in any pieces.
pub(crate) struct ChainHasher {
    chain: Chain,
    /// The event that has begun.
    open: Option<Sha256>,
    /// Its bytes so far.
    unended: u64,
    events: u64,
}

impl ChainHasher {
    pub(crate) fn new(run: RunId) -> Self {
        Self { chain: Chain::start(run), open: None, unended: 0, events: 0 }
    }

    /// The next bytes of the log.
    pub(crate) fn push(&mut self, bytes: &[u8]) {
        for piece in bytes.split_inclusive(|byte| *byte == b'\n') {
            let (event, ends) = piece.strip_suffix(b"\n").map_or((piece, false), |event| (event, true));
            let open = self.open.take().unwrap_or_else(|| Sha256::new_with_prefix(self.chain.0));
            let open = open.chain_update(event);
            self.unended = if ends { 0 } else { self.unended + piece.len() as u64 };
            if ends {
                self.chain = Chain(open.finalize().into());
                self.events += 1;
            } else {
                self.open = Some(open);
            }
        }
    }

    /// Whether this is no log of so many events, whatever follows.
    pub(crate) fn is_beyond(&self, events: u64) -> bool {
        self.events > events || (self.events == events && self.open.is_some()) || self.unended > EVENT_MAX
    }

    /// Events that have ended.
    pub(crate) fn events(&self) -> u64 {
        self.events
    }

    /// The chain after the last event; none if that has no end.
    pub(crate) fn finish(self) -> Option<Chain> {
        self.open.is_none().then_some(self.chain)
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
    pub state: RunState,
    pub(crate) chain: Chain,
}

impl LogHead {
    /// The end of the log as a run's row holds it.
    pub fn from_row(row: &[u8]) -> serde_json::Result<Self> {
        serde_json::from_slice(row).or_else(|error| match serde_json::from_slice(row).map(with_question_in_status) {
            Ok(row) => serde_json::from_value(row),
            Err(_) => Err(error),
        })
    }

    /// Whether this is the end of a log with this last event, given the chain before it.
    pub(crate) fn is_after(&self, chain_before: &str, last: &[u8]) -> bool {
        sha256_bytes(chain_before).is_some_and(|before| Chain(before).link(last) == self.chain)
    }

    /// The row of a run.
    pub fn to_row(&self) -> serde_json::Result<Vec<u8>> {
        serde_json::to_vec(self)
    }
}

/// Rows of version 0.1 keep the open question beside the status, not in it.
fn with_question_in_status(mut row: Value) -> Value {
    if let Some(state) = row.get_mut("state").and_then(Value::as_object_mut)
        && state.get("status").and_then(Value::as_str) == Some("waiting_user")
        && let Some(pending) = state.remove("pending")
    {
        state.insert("status".into(), serde_json::json!({ "waiting_user": pending }));
    }
    row
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use uuid::Uuid;

    use super::*;
    use crate::domain::event::{Event, Started};
    use crate::domain::state::Phase;
    use crate::domain::time::Timestamp;

    #[test]
    fn the_chain_of_a_log_does_not_depend_on_the_pieces_it_is_read_in() {
        let run = RunId(Uuid::from_u128(1));
        let log = b"{\"a\":1}\n{}\n{\"b\":2}\n";
        let expected =
            [&b"{\"a\":1}"[..], b"{}", b"{\"b\":2}"].iter().fold(Chain::start(run), |chain, event| chain.link(event));
        for size in 1..=log.len() {
            let mut hasher = ChainHasher::new(run);
            log.chunks(size).for_each(|piece| hasher.push(piece));
            assert_eq!((hasher.events(), hasher.finish()), (3, Some(expected)));
        }
        let mut cut = ChainHasher::new(run);
        cut.push(&log[..log.len() - 1]);
        assert_eq!((cut.events(), cut.finish()), (2, None));
    }

    /// A run that waits for its user, as version 0.1 stored it: the question beside the status.
    #[test]
    fn a_row_of_an_earlier_version_is_read() {
        let started: Started = serde_json::from_value(json!({
            "request_id": Uuid::from_u128(2), "skill": {"id": "ask", "version": "1.0.0", "fingerprint": ""},
            "engine": "script", "model": null, "execution_mode": "interactive", "input": {}, "parameter": {},
            "awaiting_upload": false, "idempotency_sha256": null,
            "runtime_options": {
                "execution_mode": "interactive", "no_cache": false, "debug": false, "debug_keep_temp": false,
                "verbose": false, "interactive_auto_reply": false, "interactive_reply_timeout_sec": 1200,
                "hard_timeout_seconds": 60, "stall_timeout_seconds": 0,
            },
        }))
        .unwrap();
        let now = Timestamp::from_micros(5);
        let run = RunId(Uuid::from_u128(1));
        let mut state = RunState::open(run, &started, now);
        let question = json!({
            "interaction_id": 1, "kind": "open_text", "prompt": "Who?", "options": [], "ui_hints": null,
            "required_fields": [], "default_decision_policy": "", "context": null,
        });
        let changed = json!({
            "from": "running", "to": "waiting_user", "trigger": "turn.needs_input", "updated_at": now,
            "pending_interaction_id": 1,
        });
        state.apply(&Event::InputRequired(serde_json::from_value(question).unwrap()), now);
        state.apply(&Event::StateChanged(serde_json::from_value(changed).unwrap()), now);
        // And one of the next release: what this program does not know is passed over.
        let mut later: Value =
            serde_json::from_slice(&LogHead { state: state.clone(), chain: Chain::start(run) }.to_row().unwrap())
                .unwrap();
        (later["unknown"], later["state"]["unknown"]) = (json!(1), json!({"of": "a later version"}));
        assert_eq!(LogHead::from_row(later.to_string().as_bytes()).unwrap().state, state);
        let Phase::WaitingUser(pending) = state.phase.clone() else { panic!("{:?}", state.phase) };
        let head = LogHead { state, chain: Chain::start(run) };
        let row = head.to_row().unwrap();
        assert_eq!(LogHead::from_row(&row).unwrap(), head);
        let mut old: Value = serde_json::from_slice(&row).unwrap();
        old["state"]["status"] = json!("waiting_user");
        old["state"]["pending"] = json!(pending);
        assert_eq!(LogHead::from_row(old.to_string().as_bytes()).unwrap(), head);
        assert!(LogHead::from_row(b"{}").is_err() && LogHead::from_row(b"no").is_err());
    }
}
