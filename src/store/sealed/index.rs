//! The sparse index of a sealed log: where every 128th event begins.

use std::fs::File;
use std::io::{self, BufRead};
use std::os::unix::fs::FileExt;

use sha2::{Digest, Sha256};

use crate::domain::event::EVENT_MAX;
use crate::domain::ids::Seq;

/// Every so many events one offset is kept.
pub(super) const INTERVAL: u64 = 128;

/// Most bytes from one offset to the next.
const BLOCK_MAX: u64 = INTERVAL * EVENT_MAX;

const MAGIC: &[u8; 8] = b"SREVIDX1";
const DIGEST_LEN: usize = 32;

/// Offsets of the events 1, 129, 257, …, and what the log as a whole measures.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Index {
    pub(super) head: Seq,
    pub(super) log_bytes: u64,
    pub(super) offsets: Vec<u64>,
}

impl Index {
    /// Where a block begins; the end of the log for blocks after the last.
    pub(super) fn offset(&self, block: usize) -> u64 {
        self.offsets.get(block).copied().unwrap_or(self.log_bytes)
    }

    /// The index as a file: magic, head, log length, offsets (all big-endian), digest of it all.
    pub(super) fn encode(&self) -> Vec<u8> {
        let mut bytes = MAGIC.to_vec();
        let numbers = [self.head.0, self.log_bytes].into_iter().chain(self.offsets.iter().copied());
        bytes.extend(numbers.flat_map(u64::to_be_bytes));
        let digest = Sha256::digest(&bytes);
        bytes.extend_from_slice(&digest);
        bytes
    }

    /// The index in a file; `None` if it is cut, altered or none at all, or if no log can be as it says.
    pub(super) fn decode(bytes: &[u8]) -> Option<Index> {
        let (content, digest) = bytes.split_at_checked(bytes.len().checked_sub(DIGEST_LEN)?)?;
        if digest != &Sha256::digest(content)[..] {
            return None;
        }
        let mut numbers =
            content.strip_prefix(MAGIC)?.chunks_exact(8).map(|eight| eight.try_into().map(u64::from_be_bytes));
        let (head, log_bytes) = (numbers.next()?.ok()?, numbers.next()?.ok()?);
        let offsets: Vec<u64> = numbers.collect::<Result<_, _>>().ok()?;
        let ends = offsets.iter().copied().skip(1).chain([log_bytes]);
        let has_order = offsets.iter().zip(ends).all(|(start, end)| *start < end && end - start <= BLOCK_MAX);
        let is_index = has_order && offsets.len() as u64 == head.div_ceil(INTERVAL);
        is_index.then_some(Index { head: Seq(head), log_bytes, offsets })
    }

    /// Whether events end where the index says, at the last offset and at the end: a cheap look that
    /// tells an index of another log.
    pub(super) fn fits(&self, log: &File) -> io::Result<bool> {
        for end in [self.offsets.last().copied().unwrap_or(0), self.log_bytes] {
            let mut byte = [b'\n'];
            if end > 0 {
                log.read_exact_at(&mut byte, end - 1)?;
            }
            if byte != *b"\n" {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

/// Builds an index while the log's bytes pass by, in pieces of any size.
#[derive(Debug, Default)]
pub(super) struct Builder {
    lines: u64,
    log_bytes: u64,
    /// Bytes after the last end of an event.
    unended: u64,
    offsets: Vec<u64>,
}

impl Builder {
    pub(super) fn add(&mut self, bytes: &[u8]) {
        let mut rest = bytes;
        let mut at = self.log_bytes;
        while !rest.is_empty() {
            // Reached with a whole event or with the rest of one begun before: only the former is at a
            // place not yet noted.
            if self.lines.is_multiple_of(INTERVAL) && self.offsets.len() as u64 == self.lines / INTERVAL {
                self.offsets.push(at);
            }
            // Skipping in memory does not fail.
            let len = rest.skip_until(b'\n').unwrap_or(0);
            at += len as u64;
            let ended = bytes[..(at - self.log_bytes) as usize].last() == Some(&b'\n');
            self.lines += u64::from(ended);
            self.unended = if ended { 0 } else { self.unended + len as u64 };
        }
        self.log_bytes = at;
    }

    pub(super) fn log_bytes(&self) -> u64 {
        self.log_bytes
    }

    /// Events that have ended.
    pub(super) fn lines(&self) -> u64 {
        self.lines
    }

    pub(super) fn unended(&self) -> u64 {
        self.unended
    }

    pub(super) fn finish(self) -> Index {
        Index { head: Seq(self.lines), log_bytes: self.log_bytes, offsets: self.offsets }
    }
}
