//! The end of a run's log: its folded state and the hash chain over everything before.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use sha2::{Digest, Sha256};

use crate::domain::cache_key::sha256_bytes;
use crate::domain::ids::RunId;
use crate::domain::state::RunState;

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

impl LogHead {
    /// The end of the log as a run's row holds it.
    pub fn from_row(row: &[u8]) -> serde_json::Result<Self> {
        serde_json::from_slice(row).or_else(|error| match serde_json::from_slice(row).map(with_question_in_status) {
            Ok(row) => serde_json::from_value(row),
            Err(_) => Err(error),
        })
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
