//! Typed ids: runs, requests, positions in a log. Using the wrong kind does not compile.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use uuid::Uuid;

/// Text that is not an id of the wanted kind.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} is not a {kind} id (a UUID is expected)")]
pub struct NotAnId {
    pub(crate) kind: &'static str,
    /// What was given, shortened.
    pub(crate) text: String,
}

macro_rules! uuid_id {
    ($name:ident, $kind:literal, $doc:literal) => {
        #[doc = $doc]
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(pub Uuid);

        impl $name {
            /// The id's sixteen bytes, in the order that sorts by creation time.
            pub fn as_bytes(&self) -> &[u8; 16] {
                self.0.as_bytes()
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(self.0.as_hyphenated(), f)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(self.0.as_hyphenated(), f)
            }
        }

        impl FromStr for $name {
            type Err = NotAnId;

            fn from_str(text: &str) -> Result<Self, NotAnId> {
                // Only the canonical form: two spellings of one id would be two file names.
                match Uuid::try_parse(text) {
                    Ok(id) if id.as_hyphenated().to_string() == text => Ok(Self(id)),
                    _ => Err(NotAnId { kind: $kind, text: text.chars().take(64).collect() }),
                }
            }
        }
    };
}

uuid_id!(RunId, "run", "A run: one log, one folder. UUIDv7, so ids sort by creation time.");
uuid_id!(RequestId, "request", "A client's request for a run.");

impl RunId {
    /// The id with these sixteen bytes.
    pub(crate) fn from_bytes(bytes: [u8; 16]) -> Self {
        Self(Uuid::from_bytes(bytes))
    }
}

/// Position of an event in its run's log: 1, 2, 3, …; 0 is "before the first". It is also the client's cursor.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Seq(pub u64);

impl Seq {
    /// Before the first event.
    pub const START: Seq = Seq(0);

    /// The position after this one.
    #[must_use]
    pub(crate) fn next(self) -> Seq {
        Seq(self.0.saturating_add(1))
    }
}

impl fmt::Display for Seq {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_reads_back_from_its_own_text_and_from_no_other_spelling() {
        let id = RunId(Uuid::from_u128(0x0192_abcd_0000_7000_8000_0000_0000_0001));
        assert_eq!(id.to_string().parse(), Ok(id));
        for other in [
            id.to_string().to_uppercase(),
            id.0.as_simple().to_string(),
            format!("{{{id}}}"),
            "../x".into(),
            String::new(),
        ] {
            assert_eq!(
                other.parse::<RunId>(),
                Err(NotAnId { kind: "run", text: other.chars().take(64).collect() }),
                "{other}"
            );
        }
    }
}
