//! A window over a run's history: by seq, by time, by count.

use crate::domain::ids::Seq;
use crate::domain::time::Timestamp;

/// Which events are wanted; bounds are inclusive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Window {
    /// First seq.
    pub from_seq: Seq,
    /// Last seq.
    pub to_seq: Option<Seq>,
    /// Earliest moment.
    pub from_ts: Option<Timestamp>,
    /// Latest moment.
    pub to_ts: Option<Timestamp>,
}

/// Where an event lies, seen from a window.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    /// Before it.
    Before,
    /// In it.
    Inside,
    /// Behind it, as is everything that follows.
    Behind,
}

impl Window {
    /// The whole log.
    pub const ALL: Window = Window { from_seq: Seq(1), to_seq: None, from_ts: None, to_ts: None };

    /// Whether times have to be looked at.
    pub fn by_time(&self) -> bool {
        self.from_ts.is_some() || self.to_ts.is_some()
    }

    /// On which side an event lies; seqs and times both grow along a log.
    pub fn side(&self, seq: Seq, ts: Timestamp) -> Side {
        if self.to_seq.is_some_and(|to| seq > to) || self.to_ts.is_some_and(|to| ts > to) {
            return Side::Behind;
        }
        if seq < self.from_seq || self.from_ts.is_some_and(|from| ts < from) {
            return Side::Before;
        }
        Side::Inside
    }
}
