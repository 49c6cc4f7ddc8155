//! The process table, read from `/proc`.

use std::collections::HashSet;
use std::fs;
use std::io;
use std::os::fd::OwnedFd;

use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

/// What `/proc/<pid>/stat` says of a process, as far as it is used here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Stat {
    pub(crate) parent: i32,
    pub(crate) group: i32,
    pub(crate) session: i32,
    /// Clock ticks since boot: with the pid, the identity of a process.
    pub(crate) started: u64,
}

impl Stat {
    fn parse(line: &[u8]) -> Option<Stat> {
        // The second field is the program's name in parentheses and may itself hold blanks and parentheses.
        let name_end = line.iter().rposition(|byte| *byte == b')')?;
        let mut fields = line.get(name_end + 1..)?.split(|byte| *byte == b' ').filter(|field| !field.is_empty());
        let parent = number(fields.nth(1)?)?;
        let group = number(fields.next()?)?;
        let session = number(fields.next()?)?;
        let started = number(fields.nth(15)?)?;
        let pid = |number| i32::try_from(number).ok();
        Some(Stat { parent: pid(parent)?, group: pid(group)?, session: pid(session)?, started })
    }
}

/// A whole number in decimal digits.
fn number(digits: &[u8]) -> Option<u64> {
    if digits.is_empty() {
        return None;
    }
    digits.iter().try_fold(0_u64, |sum, digit| {
        let digit = digit.is_ascii_digit().then(|| u64::from(digit - b'0'))?;
        sum.checked_mul(10)?.checked_add(digit)
    })
}

/// A process as it was seen once; it may have ended since, and another process may have its pid.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Seen {
    pub(crate) pid: Pid,
    pub(crate) stat: Stat,
}

/// Every process that can be seen now.
pub(crate) fn all() -> io::Result<Vec<Seen>> {
    let names = fs::read_dir("/proc")?.filter_map(|entry| Some(entry.ok()?.file_name()));
    Ok(names.filter_map(|name| look_at(name.to_str()?.parse().ok()?)).collect())
}

fn look_at(pid: i32) -> Option<Seen> {
    let stat = Stat::parse(&fs::read(format!("/proc/{pid}/stat")).ok()?)?;
    Some(Seen { pid: Pid::from_raw(pid)?, stat })
}

/// Those of `seen` that descend from one of `roots`, without the roots themselves.
pub(crate) fn descendants(roots: &HashSet<i32>, seen: &[Seen]) -> Vec<Seen> {
    let mut tree = roots.clone();
    let mut found = Vec::new();
    loop {
        let before = found.len();
        for process in seen {
            let pid = process.pid.as_raw_nonzero().get();
            if tree.contains(&process.stat.parent) && tree.insert(pid) {
                found.push(*process);
            }
        }
        if found.len() == before {
            return found;
        }
    }
}

/// A handle on the very process that was seen; `None` when it is gone.
pub(crate) fn open_handle(seen: Seen) -> Option<OwnedFd> {
    let handle = pidfd_open(seen.pid, PidfdFlags::empty()).ok()?;
    // While the handle is open the pid means this process. That it was the same one before is checked now.
    let now = look_at(seen.pid.as_raw_nonzero().get())?;
    (now.stat.started == seen.stat.started).then_some(handle)
}

/// Sends SIGTERM to every process below `root`.
pub(crate) fn terminate_descendants(root: i32) -> io::Result<()> {
    for process in descendants(&HashSet::from([root]), &all()?) {
        if let Some(handle) = open_handle(process) {
            // It may have ended meanwhile, which is what was wanted.
            let _ = pidfd_send_signal(handle, Signal::TERM);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_name_with_blanks_and_parentheses_does_not_shift_the_fields() {
        let line =
            b"42 (a) b (c) S 7 40 39 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 1 0 123456 1000 200 18446744073709551615 1\n";
        assert_eq!(Stat::parse(line), Some(Stat { parent: 7, group: 40, session: 39, started: 123_456 }));
        for broken in [&b""[..], b"42 (a", b"42 (a) S", b"42 (a) S x 1 2 3"] {
            assert_eq!(Stat::parse(broken), None);
        }
    }

    #[test]
    fn only_descendants_are_below_a_root_in_whatever_order_they_are_listed() {
        let seen = |pid, parent| Seen {
            pid: Pid::from_raw(pid).unwrap(),
            stat: Stat { parent, group: pid, session: pid, started: 1 },
        };
        let table = [seen(9, 8), seen(8, 5), seen(5, 1), seen(6, 1), seen(7, 6)];
        let pids: Vec<i32> =
            descendants(&HashSet::from([5]), &table).iter().map(|found| found.pid.as_raw_nonzero().get()).collect();
        assert_eq!(pids, [8, 9]);
    }

    #[test]
    fn this_process_is_seen_with_its_parent() {
        let own = all().unwrap().into_iter().find(|seen| seen.pid == rustix::process::getpid()).unwrap();
        assert_eq!(Some(own.stat.parent), rustix::process::getppid().map(|parent| parent.as_raw_nonzero().get()));
        assert!(open_handle(own).is_some());
        assert!(open_handle(Seen { stat: Stat { started: own.stat.started + 1, ..own.stat }, ..own }).is_none());
    }
}
