//! A process as `/proc/<pid>/stat` describes it.

use crate::text::number;

/// What `/proc/<pid>/stat` says of a process, as far as it is used here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stat {
    /// False when it has ended and only waits to be reaped.
    pub alive: bool,
    pub parent: i32,
    pub group: i32,
    /// Clock ticks since boot: with the pid, the identity of a process.
    pub started: u64,
}

impl Stat {
    /// Reads the file's line.
    pub fn parse(line: &[u8]) -> Option<Stat> {
        // The second field is the program's name in parentheses and may itself hold blanks and parentheses.
        let name_end = line.iter().rposition(|byte| *byte == b')')?;
        let mut fields = line.get(name_end + 1..)?.split(|byte| *byte == b' ').filter(|field| !field.is_empty());
        let ended = matches!(fields.next()?, b"Z" | b"X");
        let parent = number(fields.next()?)?;
        let group = number(fields.next()?)?;
        let threads = number(fields.nth(14)?)?;
        let started = number(fields.nth(1)?)?;
        let pid = |number| i32::try_from(number).ok();
        // The state is that of the first thread; others may go on without it.
        Some(Stat { alive: !ended || threads > 1, parent: pid(parent)?, group: pid(group)?, started })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_name_with_blanks_and_parentheses_does_not_shift_the_fields() {
        let line =
            b"42 (a) b (c) S 7 40 39 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 1 0 123456 1000 200 18446744073709551615 1\n";
        assert_eq!(Stat::parse(line), Some(Stat { alive: true, parent: 7, group: 40, started: 123_456 }));
        for broken in [&b""[..], b"42 (a", b"42 (a) S", b"42 (a) S x 1 2 3"] {
            assert_eq!(Stat::parse(broken), None);
        }
    }

    #[test]
    fn a_process_has_ended_with_its_last_thread() {
        for (state, threads, alive) in [("S", 1, true), ("Z", 1, false), ("X", 0, false), ("Z", 2, true)] {
            let line = format!("42 (a) {state} 7 40 39 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 {threads} 0 9 1000 200");
            assert_eq!(Stat::parse(line.as_bytes()), Some(Stat { alive, parent: 7, group: 40, started: 9 }));
        }
    }
}
