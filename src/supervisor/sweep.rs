//! Finds and kills processes that a dead service, or a dead shim, has left behind.
//!
//! Nothing is signalled but what carries a run's mark, or descends from what does.

use std::fs;
use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Signal, pidfd_send_signal};

use super::marks::Marks;
use super::processes::{self, Seen};
use crate::domain::ids::RunId;

/// How long killed processes may take to be gone, in all.
const KILL_TIMEOUT: Duration = Duration::from_secs(10);

/// A process that was found and killed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Swept {
    pub pid: u32,
    /// The run its environment names.
    pub run: Option<RunId>,
}

/// Kills what a dead service of this data folder has left running, and waits until it is gone. Blocks.
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
    let deadline = Instant::now() + KILL_TIMEOUT;
    let mut swept: Vec<Swept> = Vec::new();
    // Repeated until nothing is found: processes that were not yet killed can have started more.
    loop {
        let found = find(&is_ours)?;
        if found.is_empty() {
            return Ok(swept);
        }
        for (_, handle) in &found {
            // If this fails, the wait below times out.
            let _ = pidfd_send_signal(handle, Signal::KILL);
        }
        for (entry, handle) in found {
            wait_until_gone(&handle, deadline)?;
            if !swept.contains(&entry) {
                swept.push(entry);
            }
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

fn wait_until_gone(handle: &OwnedFd, deadline: Instant) -> io::Result<()> {
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        let timeout = Timespec::try_from(left).map_err(io::Error::other)?;
        match poll(&mut [PollFd::new(handle, PollFlags::IN)], Some(&timeout)) {
            Ok(0) => return Err(io::Error::new(io::ErrorKind::TimedOut, "a left-over process could not be killed")),
            Ok(_) => return Ok(()),
            Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
}
