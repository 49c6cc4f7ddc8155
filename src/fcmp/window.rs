//! A window over a run's history: by seq, by time, by count.

use crate::domain::ids::Seq;
use crate::domain::time::Timestamp;

/// Which events are wanted; bounds are inclusive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Window {
    pub(crate) from_seq: Seq,
    pub(crate) to_seq: Option<Seq>,
    pub(crate) from_ts: Option<Timestamp>,
    pub(crate) to_ts: Option<Timestamp>,
}

/// The position of an event relative to a window.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Side {
    Before,
    Inside,
    /// After it, as is every later event.
    Behind,
}

impl Window {
    /// Whether times have to be looked at.
    pub(crate) fn by_time(&self) -> bool {
        self.from_ts.is_some() || self.to_ts.is_some()
    }

    /// The position of an event; both seq and time increase along a log.
    pub(crate) fn side(&self, seq: Seq, ts: Timestamp) -> Side {
        if self.to_seq.is_some_and(|to| seq > to) || self.to_ts.is_some_and(|to| ts > to) {
            return Side::Behind;
        }
        if seq < self.from_seq || self.from_ts.is_some_and(|from| ts < from) {
            return Side::Before;
        }
        Side::Inside
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_ends_of_a_window_are_inside_by_seq_and_by_time() {
        let at = Timestamp::from_micros;
        let by_seq = Window { from_seq: Seq(3), to_seq: Some(Seq(5)), from_ts: None, to_ts: None };
        let sides = [2, 3, 5, 6].map(|seq| by_seq.side(Seq(seq), at(0)));
        assert_eq!(sides, [Side::Before, Side::Inside, Side::Inside, Side::Behind]);
        let by_time = Window { from_seq: Seq(1), to_seq: None, from_ts: Some(at(30)), to_ts: Some(at(50)) };
        let sides = [29, 30, 50, 51].map(|ts| by_time.side(Seq(9), at(ts)));
        assert_eq!(sides, [Side::Before, Side::Inside, Side::Inside, Side::Behind]);
        assert_eq!((by_seq.by_time(), by_time.by_time()), (false, true));
    }
}
