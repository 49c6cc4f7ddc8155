//! Finds and kills processes that a dead service, or a dead shim, has left behind.
//!
//! Nothing is signalled but what carries a run's mark, or descends from what does.

use std::collections::HashSet;
use std::fs;
use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{Signal, pidfd_send_signal};
use tracing::warn;

use super::marks::Marks;
use super::processes::{self, Seen};
use crate::domain::ids::RunId;

/// How long killed processes may take to be gone, in all. The kernel holds on to one that waits for a device, or for a disk elsewhere.
const KILL_TIMEOUT: Duration = Duration::from_secs(10);
/// How long others may be found after that.
const FIND_TIMEOUT: Duration = Duration::from_secs(10);

/// A process that was found and killed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Swept {
    pub pid: u32,
    /// The run its environment names.
    pub run: Option<RunId>,
}

/// Kills what a dead service of this data folder has left running, and waits until it is gone. Blocks. What the kernel holds on to for
/// longer than that is killed, but not waited for: it does nothing any more.
///
/// To be called before the first spawn, by the one service that holds the data folder: processes are known
/// by their run marker together with a working or temporary folder below `data_dir`, so the runs of another
/// service, with another folder, are not touched.
pub fn sweep(data_dir: &Path) -> io::Result<Vec<Swept>> {
    // The kernel reports resolved paths; the environment holds the paths that were given.
    let mut roots = vec![std::path::absolute(data_dir)?];
    roots.extend(fs::canonicalize(data_dir));
    sweep_where(|marks| {
        let below_root = |path: &Path| roots.iter().any(|root| path.starts_with(root));
        let works_below = marks.cwd.as_deref().is_some_and(below_root);
        marks.run.is_some() && (works_below || marks.tmp_dir.as_deref().is_some_and(below_root))
    })
}

/// Kills the processes of one run, whose shim is dead, and waits until they are gone. Blocks.
pub(crate) fn sweep_run(run: RunId) -> io::Result<Vec<Swept>> {
    sweep_where(|marks| marks.name(run))
}

fn sweep_where(is_ours: impl Fn(&Marks) -> bool) -> io::Result<Vec<Swept>> {
    let kill = |handle: &OwnedFd| pidfd_send_signal(handle, Signal::KILL);
    end(|| find(&is_ours), kill, Instant::now() + KILL_TIMEOUT, FIND_TIMEOUT)
}

/// Ends what is found, until nothing is: processes that were not yet killed can have started more.
fn end(
    find: impl Fn() -> io::Result<Vec<(Swept, OwnedFd)>>,
    kill: impl Fn(&OwnedFd) -> Result<(), Errno>,
    deadline: Instant,
    more: Duration,
) -> io::Result<Vec<Swept>> {
    let mut swept: Vec<Swept> = Vec::new();
    // Those that are killed and not gone.
    let mut dying = HashSet::new();
    loop {
        let mut found = find()?;
        found.retain(|(entry, _)| !dying.contains(&entry.pid));
        if found.is_empty() {
            return Ok(swept);
        }
        if Instant::now() > deadline + more {
            return Err(io::Error::new(io::ErrorKind::TimedOut, "left-over processes start others all the time"));
        }
        let killed: Vec<_> = found.iter().map(|(_, handle)| kill(handle)).collect();
        for ((entry, handle), killed) in found.into_iter().zip(killed) {
            if is_gone(&handle, deadline)? {
                if !swept.contains(&entry) {
                    swept.push(entry);
                }
                continue;
            }
            killed?;
            warn!(pid = entry.pid, run.id = ?entry.run, "a left-over process is killed, but the system has not ended it yet; not waiting");
            dying.insert(entry.pid);
        }
    }
}

/// Handles on the processes that are ours, and on their descendants, which may have lost their marks. All are opened before
/// the first one is killed, and leaves its children to others.
fn find(is_ours: impl Fn(&Marks) -> bool) -> io::Result<Vec<(Swept, OwnedFd)>> {
    let own = rustix::process::getpid();
    let all = processes::all()?.into_iter().filter(|process| process.pid != own && process.stat.alive);
    let all: Vec<Seen> = all.collect();
    let mut roots = Vec::new();
    let mut found = Vec::new();
    for process in &all {
        let marks = Marks::read(process.pid);
        if is_ours(&marks)
            && let Some(handle) = processes::open_handle(*process)
        {
            roots.push(*process);
            found.push((swept(*process, marks.run), handle));
        }
    }
    let descendants = processes::descendants(&roots, &all).into_iter();
    found.extend(descendants.filter_map(|descendant| {
        let handle = processes::open_descendant(descendant)?;
        Some((swept(descendant.process, None), handle))
    }));
    Ok(found)
}

fn swept(process: Seen, run: Option<RunId>) -> Swept {
    Swept { pid: process.pid.as_raw_nonzero().get().unsigned_abs(), run }
}

/// Waits until then for the process to be gone.
fn is_gone(handle: &OwnedFd, deadline: Instant) -> io::Result<bool> {
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        let timeout = Timespec::try_from(left).map_err(io::Error::other)?;
        match poll(&mut [PollFd::new(handle, PollFlags::IN)], Some(&timeout)) {
            Ok(ready) => return Ok(ready > 0),
            Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use rustix::process::{Pid, PidfdFlags, getpid, pidfd_open};

    use super::*;

    fn own(pid: u32) -> (Swept, OwnedFd) {
        (Swept { pid, run: None }, pidfd_open(getpid(), PidfdFlags::empty()).unwrap())
    }

    #[test]
    fn a_killed_process_that_stays_is_left_to_the_system_and_the_others_are_ended() {
        let mut child = std::process::Command::new("sleep").arg("1000").spawn().unwrap();
        let pid = Pid::from_child(&child);
        let handle = || pidfd_open(pid, PidfdFlags::empty()).unwrap();
        let alive = || pidfd_send_signal(handle(), Signal::CONT).is_ok();
        let ended = Swept { pid: child.id(), run: None };
        let killed = std::cell::Cell::new(false);
        // The test itself is what does not go.
        let find = || {
            let other = (!killed.get() && alive()).then(|| (ended, handle()));
            Ok([own(1)].into_iter().chain(other).collect())
        };
        let kill = |handle: &OwnedFd| {
            if !killed.replace(true) {
                return Ok(());
            }
            pidfd_send_signal(handle, Signal::KILL)
        };
        let swept = end(find, kill, Instant::now() + Duration::from_millis(300), Duration::from_secs(10));
        child.wait().unwrap();
        assert_eq!(swept.unwrap(), [ended]);
    }

    #[test]
    fn processes_that_cannot_be_signalled_or_never_stop_coming_are_an_error() {
        let soon = || Instant::now() + Duration::from_millis(50);
        let refused = end(|| Ok(vec![own(1)]), |_| Err(Errno::PERM), soon(), Duration::from_secs(10)).unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::PermissionDenied);
        let next = std::cell::Cell::new(0);
        let find = || Ok(vec![own(next.replace(next.get() + 1))]);
        let endless = end(find, |_| Ok(()), soon(), Duration::from_millis(50)).unwrap_err();
        assert_eq!(endless.kind(), io::ErrorKind::TimedOut);
    }
}
