//! A fact about to be logged: an event, and the raw bytes it was read from.

use serde::{Deserialize, Serialize};

use super::event::{Event, RawText};

/// A raw stream of an engine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Stream {
    Stdout,
    Stderr,
    /// A pseudo-terminal, both together.
    Pty,
}

impl Stream {
    /// As it is written, and as its file is called.
    pub fn as_str(self) -> &'static str {
        match self {
            Stream::Stdout => "stdout",
            Stream::Stderr => "stderr",
            Stream::Pty => "pty",
        }
    }
}

/// Bytes of a stream's file: `from` inclusive, `to` exclusive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RawRange {
    pub stream: Stream,
    pub from: u64,
    /// Byte after the last.
    pub to: u64,
}

/// An event with the bytes it claims.
#[derive(Debug, Clone, PartialEq)]
pub struct Fact {
    pub event: Event,
    /// Where the engine wrote it.
    pub raw: Option<RawRange>,
}

impl Fact {
    /// A fact of the runner itself.
    pub fn own(event: Event) -> Self {
        Self { event, raw: None }
    }

    /// Raw output that nothing else claims.
    pub fn raw_text(range: RawRange, text: String) -> Self {
        let event = match range.stream {
            Stream::Stdout | Stream::Pty => Event::RawStdout(RawText { text }),
            Stream::Stderr => Event::RawStderr(RawText { text }),
        };
        Self { event, raw: Some(range) }
    }
}
