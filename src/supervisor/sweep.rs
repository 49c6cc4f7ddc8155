//! Finds and kills processes that a dead service has left behind.

use std::collections::HashSet;
use std::ffi::OsStr;
use std::fs;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{PidfdFlags, Signal, WaitOptions, kill_process, pidfd_open, pidfd_send_signal, waitpid};

use super::processes::{self, Seen};
use super::shim;
use crate::domain::ids::RunId;

/// The environment variable that names the run a process belongs to.
pub const RUN_MARKER: &str = "SKILL_RUNNER_RUN_ID";

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
    sweep_where(|traces| {
        let below_root = |path: &Path| roots.iter().any(|root| path.starts_with(root));
        let works_below = traces.cwd.as_deref().is_some_and(below_root);
        traces.run.is_some() && (works_below || traces.tmp_dir.as_deref().is_some_and(below_root))
    })
}

/// Kills the processes of one run by their marker, and the orphans of dead shims, and waits until they are gone. Blocks.
pub(crate) fn sweep_run(run: RunId) -> io::Result<Vec<Swept>> {
    let mut swept = sweep_where(|traces| traces.run == Some(run))?;
    // Orphans that are dead by now are only reaped.
    let mut orphans = sweep_orphans()?;
    orphans.retain(|orphan| !swept.iter().any(|known| known.pid == orphan.pid));
    swept.append(&mut orphans);
    Ok(swept)
}

/// Kills and reaps the processes that became children of this one when their shim died. An engine may have cleared their
/// environment, so that no marker names their run; but every one belongs to a run whose shim is dead and which has to end.
fn sweep_orphans() -> io::Result<Vec<Swept>> {
    let deadline = Instant::now() + KILL_TIMEOUT;
    let mut killed = Vec::new();
    // When one is killed, its own children become orphans too.
    loop {
        let orphans = shim::orphans()?;
        if orphans.is_empty() {
            return Ok(killed);
        }
        for orphan in orphans {
            // A child that is not reaped yet: its pid cannot mean another process.
            let _ = kill_process(orphan.pid, Signal::KILL);
            let handle = pidfd_open(orphan.pid, PidfdFlags::empty())?;
            wait_until_gone(&handle, deadline)?;
            let _ = waitpid(Some(orphan.pid), WaitOptions::empty());
            killed.push(swept(orphan, None));
        }
    }
}

/// What shows which run a process belongs to.
#[derive(Debug, Default)]
struct Traces {
    run: Option<RunId>,
    cwd: Option<PathBuf>,
    tmp_dir: Option<PathBuf>,
}

impl Traces {
    fn of(process: Seen) -> Traces {
        let folder = PathBuf::from(format!("/proc/{}", process.pid.as_raw_nonzero()));
        // What this process may not read belongs to another user, so not to a run.
        let environment = fs::read(folder.join("environ")).unwrap_or_default();
        Traces {
            run: value(&environment, RUN_MARKER).and_then(|run| str::from_utf8(run).ok()?.parse().ok()),
            cwd: fs::read_link(folder.join("cwd")).ok(),
            tmp_dir: value(&environment, "TMPDIR").map(|path| PathBuf::from(OsStr::from_bytes(path))),
        }
    }
}

fn value<'a>(environment: &'a [u8], name: &str) -> Option<&'a [u8]> {
    let mut variables = environment.split(|byte| *byte == 0);
    variables.find_map(|variable| variable.strip_prefix(name.as_bytes())?.strip_prefix(b"="))
}

fn sweep_where(is_ours: impl Fn(&Traces) -> bool) -> io::Result<Vec<Swept>> {
    let deadline = Instant::now() + KILL_TIMEOUT;
    let mut swept: Vec<Swept> = Vec::new();
    // Repeated until nothing is found: processes that were not yet killed can have started more.
    loop {
        let found = find(&is_ours)?;
        if found.is_empty() {
            return Ok(swept);
        }
        let mut dying = Vec::new();
        for (process, entry) in found {
            let Some(handle) = processes::open_handle(process) else { continue };
            // If this fails, the wait below times out.
            let _ = pidfd_send_signal(&handle, Signal::KILL);
            dying.push(handle);
            if !swept.contains(&entry) {
                swept.push(entry);
            }
        }
        for handle in dying {
            wait_until_gone(&handle, deadline)?;
        }
    }
}

/// The processes that are ours, and their descendants, which may have cleared their environment.
fn find(is_ours: impl Fn(&Traces) -> bool) -> io::Result<Vec<(Seen, Swept)>> {
    let own = rustix::process::getpid();
    let all: Vec<Seen> = processes::all()?.into_iter().filter(|process| process.pid != own).collect();
    let mut roots = HashSet::new();
    let mut found = Vec::new();
    for process in &all {
        let traces = Traces::of(*process);
        if is_ours(&traces) {
            roots.insert(process.pid.as_raw_nonzero().get());
            found.push((*process, swept(*process, traces.run)));
        }
    }
    let known = roots.clone();
    let descendants = processes::descendants(&roots, &all).into_iter();
    let unknown = descendants.filter(|process| !known.contains(&process.pid.as_raw_nonzero().get()));
    found.extend(unknown.map(|process| (process, swept(process, None))));
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_variable_is_found_by_its_whole_name() {
        let environment = b"XTMPDIR=/wrong\0TMPDIR_OLD=/wrong\0TMPDIR=/a=b\0";
        assert_eq!(value(environment, "TMPDIR"), Some(&b"/a=b"[..]));
        assert_eq!(value(environment, "TMP"), None);
    }
}
