//! The process table, read from `/proc`.

use std::collections::HashMap;
use std::fs;
use std::io;
use std::os::fd::OwnedFd;

use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use skill_runner_shim::stat::Stat;

/// A process as it was seen once; it may have ended since, and another process may have its pid.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Seen {
    pub(crate) pid: Pid,
    pub(crate) stat: Stat,
}

/// Every process that can be seen now.
pub(crate) fn all() -> io::Result<Vec<Seen>> {
    let names = fs::read_dir("/proc")?.filter_map(|entry| Some(entry.ok()?.file_name()));
    Ok(names.filter_map(|name| look_at(Pid::from_raw(name.to_str()?.parse().ok()?)?)).collect())
}

fn look_at(pid: Pid) -> Option<Seen> {
    let stat = Stat::parse(&fs::read(format!("/proc/{}/stat", pid.as_raw_nonzero())).ok()?)?;
    Some(Seen { pid, stat })
}

/// A process with the parent it was seen with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Descendant {
    pub(crate) process: Seen,
    pub(crate) parent: Seen,
}

/// Those of `seen` that descend from one of `roots`, without the roots themselves.
///
/// The table is read line by line, so a pid can mean one process in one line and another one in the next: who is older than
/// its parent is no child of it.
pub(crate) fn descendants(roots: &[Seen], seen: &[Seen]) -> Vec<Descendant> {
    let mut tree: HashMap<i32, Seen> = roots.iter().map(|root| (root.pid.as_raw_nonzero().get(), *root)).collect();
    let mut found = Vec::new();
    loop {
        let before = found.len();
        for process in seen {
            let pid = process.pid.as_raw_nonzero().get();
            let Some(parent) = tree.get(&process.stat.parent).copied() else { continue };
            if !tree.contains_key(&pid) && process.stat.started >= parent.stat.started {
                tree.insert(pid, *process);
                found.push(Descendant { process: *process, parent });
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
    is_still(seen, look_at(seen.pid)?).then_some(handle)
}

/// A handle on a process that is certainly the child of the parent it was seen with; `None` when one of them is gone.
pub(crate) fn open_descendant(Descendant { process, parent }: Descendant) -> Option<OwnedFd> {
    let handle = open_handle(process)?;
    let now = look_at(process.pid)?;
    // The parent is looked at last: it had its pid from when it was seen until now, so also when the child named it.
    let same_parent = now.stat.parent == process.stat.parent && is_still(parent, look_at(parent.pid)?);
    same_parent.then_some(handle)
}

/// Whether two sights of one pid are of the same process.
fn is_still(seen: Seen, now: Seen) -> bool {
    (seen.pid, seen.stat.started) == (now.pid, now.stat.started)
}

/// Sends SIGTERM to every process below `root`, a child of this process that is not reaped yet.
pub(crate) fn terminate_descendants(root: Pid) -> io::Result<()> {
    let Some(root) = look_at(root) else { return Ok(()) };
    // All are found before the first one ends and leaves its children to others.
    let handles: Vec<OwnedFd> = descendants(&[root], &all()?).into_iter().filter_map(open_descendant).collect();
    for handle in handles {
        // It may have ended meanwhile, which is what was wanted.
        let _ = pidfd_send_signal(handle, Signal::TERM);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(pid: i32, parent: i32, started: u64) -> Seen {
        let stat = Stat { alive: true, parent, group: pid, started };
        Seen { pid: Pid::from_raw(pid).unwrap(), stat }
    }

    #[test]
    fn only_descendants_are_below_a_root_in_whatever_order_they_are_listed() {
        let table = [seen(9, 8, 3), seen(8, 5, 2), seen(5, 1, 1), seen(6, 1, 1), seen(7, 6, 1)];
        let child = Descendant { process: seen(8, 5, 2), parent: seen(5, 1, 1) };
        let grandchild = Descendant { process: seen(9, 8, 3), parent: seen(8, 5, 2) };
        assert_eq!(descendants(&[seen(5, 1, 1)], &table), [child, grandchild]);
    }

    #[test]
    fn a_pid_that_means_another_process_by_now_makes_nobody_a_descendant() {
        // The root has taken the pid of an older process, whose child was listed before.
        let (root, stranger) = (seen(5, 1, 100), seen(8, 5, 40));
        assert_eq!(descendants(&[root], &[stranger, root, seen(9, 8, 50)]), []);
        assert!(is_still(root, seen(5, 7, 100)), "a process may get another parent");
        assert!(!is_still(root, seen(5, 1, 101)));
        assert!(!is_still(root, seen(6, 1, 100)));
    }

    #[test]
    fn this_process_is_seen_with_its_parent() {
        let own = all().unwrap().into_iter().find(|seen| seen.pid == rustix::process::getpid()).unwrap();
        assert_eq!(Some(own.stat.parent), rustix::process::getppid().map(|parent| parent.as_raw_nonzero().get()));
        assert!(open_handle(own).is_some());
        assert!(open_handle(Seen { stat: Stat { started: own.stat.started + 1, ..own.stat }, ..own }).is_none());
    }

    #[test]
    fn a_handle_on_a_descendant_needs_its_very_parent() {
        let mut child = std::process::Command::new("sleep").arg("1000").spawn().unwrap();
        let process = look_at(Pid::from_child(&child)).unwrap();
        let parent = look_at(rustix::process::getpid()).unwrap();
        let later = Seen { stat: Stat { started: parent.stat.started + 1, ..parent.stat }, ..parent };
        let opened = [parent, later].map(|parent| open_descendant(Descendant { process, parent }).is_some());
        child.kill().unwrap();
        child.wait().unwrap();
        assert_eq!(opened, [true, false]);
    }
}
