//! Who inherits the processes of a shim that was killed: this one, so that they cannot escape.

use std::collections::HashSet;
use std::io;
use std::process::{Child, Command};
use std::sync::{PoisonError, RwLock};

use rustix::process::{Pid, getpid, set_child_subreaper};

use crate::supervisor::processes::{self, Seen};

/// The shims that are not yet reaped. Locked for reading while one is started, so that whoever holds it for writing
/// knows them all.
static SHIMS: RwLock<()> = RwLock::new(());
static LIVE: std::sync::Mutex<Option<HashSet<i32>>> = std::sync::Mutex::new(None);

/// Starts a shim whose children, should it be killed, become ours.
pub(super) fn spawn(command: &mut Command) -> io::Result<Child> {
    let _starting = SHIMS.read().unwrap_or_else(PoisonError::into_inner);
    set_child_subreaper(Some(getpid()))?;
    let shim = command.spawn()?;
    live(|live| live.insert(Pid::from_child(&shim).as_raw_nonzero().get()));
    Ok(shim)
}

/// A shim is reaped, or about to be.
pub(in crate::supervisor) fn reaped(shim: Pid) {
    live(|live| live.remove(&shim.as_raw_nonzero().get()));
}

/// Processes that are children of this one because their shim has died.
///
/// A shim begins a session of its own before it starts anything, and nobody can join a session: a child of ours in
/// another session is a shim or an heir of one.
pub(in crate::supervisor) fn heirs() -> io::Result<Vec<Seen>> {
    let _nobody_starts = SHIMS.write().unwrap_or_else(PoisonError::into_inner);
    let own = getpid().as_raw_nonzero().get();
    let mut children = processes::all()?;
    // In a container the session may have begun outside, and its number is then 0, which `getsid` cannot tell.
    let session = children.iter().find(|process| process.pid == getpid()).map(|this| this.stat.session);
    let session = session.ok_or_else(|| io::Error::other("this process is not in /proc"))?;
    children.retain(|process| process.stat.parent == own && process.stat.session != session);
    live(|live| children.retain(|process| !live.contains(&process.pid.as_raw_nonzero().get())));
    Ok(children)
}

/// Nothing can panic while it holds the lock, so a poisoned one is as good as any.
fn live<T>(with: impl FnOnce(&mut HashSet<i32>) -> T) -> T {
    with(LIVE.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert_default())
}
