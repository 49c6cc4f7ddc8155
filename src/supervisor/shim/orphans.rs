//! The processes of a shim that was killed: the service adopts them, so that they cannot escape.

use std::collections::HashSet;
use std::io;
use std::process::{Child, Command};
use std::sync::{PoisonError, RwLock};

use rustix::process::{Pid, getpid, set_child_subreaper};

use crate::supervisor::processes::{self, Seen};

/// Locked for reading while a shim is started: under the write lock, [`LIVE`] names every shim.
static STARTING: RwLock<()> = RwLock::new(());
/// The shims that are not reaped yet.
static LIVE: std::sync::Mutex<Option<HashSet<i32>>> = std::sync::Mutex::new(None);

/// Starts a shim. If it is killed, its children become children of this process.
pub(crate) fn spawn(command: &mut Command) -> io::Result<Child> {
    let _starting = STARTING.read().unwrap_or_else(PoisonError::into_inner);
    set_child_subreaper(Some(getpid()))?;
    let shim = command.spawn()?;
    live(|live| live.insert(Pid::from_child(&shim).as_raw_nonzero().get()));
    Ok(shim)
}

/// A shim is reaped, or about to be.
pub(crate) fn reaped(shim: Pid) {
    live(|live| live.remove(&shim.as_raw_nonzero().get()));
}

/// Processes that are children of this one because their shim has died.
///
/// A shim begins a session of its own before it starts anything, and no process can join a session. So a child of this
/// process in another session is a shim or an orphan of one.
pub(crate) fn orphans() -> io::Result<Vec<Seen>> {
    let _none_starts = STARTING.write().unwrap_or_else(PoisonError::into_inner);
    let own = getpid().as_raw_nonzero().get();
    let mut children = processes::all()?;
    // In a container the session may have begun outside; its number is then 0, which `getsid` does not report.
    let session = children.iter().find(|process| process.pid == getpid()).map(|this| this.stat.session);
    let session = session.ok_or_else(|| io::Error::other("this process is not in /proc"))?;
    children.retain(|process| process.stat.parent == own && process.stat.session != session);
    live(|live| children.retain(|process| !live.contains(&process.pid.as_raw_nonzero().get())));
    Ok(children)
}

/// Nothing panics while it has the lock, so a poisoned lock is usable.
fn live<T>(with: impl FnOnce(&mut HashSet<i32>) -> T) -> T {
    with(LIVE.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert_default())
}
