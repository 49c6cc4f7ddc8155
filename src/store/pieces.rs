//! Consecutive raw output, put together from stored pieces.

use bytes::Bytes;

use super::RawPiece;
use crate::domain::fact::Stream;

/// Raw output from exactly one place on, as much as fits.
pub(super) struct Pieces {
    pub(super) found: Vec<RawPiece>,
    stream: Stream,
    at: u64,
    free: usize,
}

impl Pieces {
    /// At least a byte is wanted, if there is any.
    pub(super) fn new(stream: Stream, from: u64, max_bytes: usize) -> Pieces {
        Pieces { found: Vec::new(), stream, at: from, free: max_bytes.max(1) }
    }

    /// Where the next byte belongs.
    pub(super) fn at(&self) -> u64 {
        self.at
    }

    /// Adds what a stored piece has to add; false if nothing more is wanted, or something is missing before it.
    pub(super) fn add(&mut self, begins: u64, bytes: &Bytes) -> bool {
        if begins > self.at {
            return false;
        }
        let known = usize::try_from(self.at - begins).unwrap_or(usize::MAX);
        if known >= bytes.len() {
            return true;
        }
        let end = bytes.len().min(known.saturating_add(self.free));
        let new = bytes.slice(known..end);
        let from = self.at;
        self.at += new.len() as u64;
        self.free -= new.len();
        self.found.push(RawPiece { stream: self.stream, from, bytes: new });
        self.free > 0
    }
}
