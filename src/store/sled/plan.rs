//! When a generation is closed and when one is removed: decided from sizes alone.

use std::time::Duration;

/// How the store's room on the disk is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Space {
    /// A generation of this size is closed.
    pub generation_bytes: u64,
    /// How much more than needed the generations may take while nothing is written.
    pub quiet_slack_bytes: u64,
    /// Nothing is written when there was nothing for so long.
    pub quiet: Duration,
    /// How much more than needed the index may take.
    pub index_slack_bytes: u64,
}

impl Default for Space {
    fn default() -> Self {
        Space {
            generation_bytes: 24 * 1024 * 1024,
            quiet_slack_bytes: 1024 * 1024,
            quiet: Duration::from_secs(1),
            index_slack_bytes: 4 * 1024 * 1024,
        }
    }
}

/// What a generation takes and what of it is still needed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Usage {
    pub(super) bytes: u64,
    pub(super) live: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Step {
    /// Close the current generation and begin the next.
    Roll,
    /// Take over what is still needed of the oldest generation, and remove it.
    RetireOldest,
}

/// What a fresh database takes for one byte of events is about two, so that more than four times as much is worth half of
/// it being written anew.
const WORTH_WHILE: u64 = 4;

/// What to do next; `closed` begins with the oldest.
pub(super) fn next_step(closed: &[Usage], current: Usage, space: &Space, quiet: bool) -> Option<Step> {
    if current.bytes >= space.generation_bytes {
        return Some(Step::Roll);
    }
    if closed.first().is_some_and(|oldest| oldest.live == 0) {
        return Some(Step::RetireOldest);
    }
    let bytes: u64 = closed.iter().map(|usage| usage.bytes).sum::<u64>() + current.bytes;
    let live: u64 = closed.iter().map(|usage| usage.live).sum::<u64>() + current.live;
    let slack = if quiet { space.quiet_slack_bytes } else { 2 * space.generation_bytes };
    if bytes <= live * WORTH_WHILE + slack {
        return None;
    }
    Some(if closed.is_empty() { Step::Roll } else { Step::RetireOldest })
}

/// Whether the index is worth being written anew.
pub(super) fn index_is_worn(bytes: u64, rows: u64, space: &Space) -> bool {
    bytes > rows * WORTH_WHILE + space.index_slack_bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    const SPACE: Space =
        Space { generation_bytes: 1000, quiet_slack_bytes: 10, quiet: Duration::ZERO, index_slack_bytes: 100 };

    fn usage(bytes: u64, live: u64) -> Usage {
        Usage { bytes, live }
    }

    fn step(closed: &[Usage], current: Usage) -> (Option<Step>, Option<Step>) {
        (next_step(closed, current, &SPACE, false), next_step(closed, current, &SPACE, true))
    }

    #[test]
    fn a_full_generation_is_closed_and_one_that_nobody_needs_is_removed() {
        assert_eq!(step(&[], usage(999, 500)), (None, None));
        assert_eq!(step(&[], usage(1000, 500)), (Some(Step::Roll), Some(Step::Roll)));
        let retire = Some(Step::RetireOldest);
        assert_eq!(step(&[usage(1000, 0), usage(1000, 900)], usage(10, 10)), (retire, retire));
    }

    #[test]
    fn generations_that_are_mostly_not_needed_are_written_anew_sooner_while_it_is_quiet() {
        assert_eq!(step(&[usage(1000, 300)], usage(100, 0)), (None, None));
        assert_eq!(step(&[usage(1000, 200)], usage(100, 0)), (None, Some(Step::RetireOldest)));
        assert_eq!(step(&[], usage(100, 10)), (None, Some(Step::Roll)));
        let many = [usage(1000, 10), usage(1000, 0), usage(1000, 0)];
        assert_eq!(step(&many, usage(0, 0)), (Some(Step::RetireOldest), Some(Step::RetireOldest)));
    }

    #[test]
    fn the_index_is_written_anew_when_most_of_it_is_worn() {
        assert!(!index_is_worn(500, 100, &SPACE));
        assert!(index_is_worn(501, 100, &SPACE));
    }
}
