//! What a run's processes are doing right now, for the report of a stall.

use std::fs;

use rustix::process::Pid;
use serde::Serialize;

use super::processes::{all, descendants};
use super::sockets::Sockets;

/// Most processes in a snapshot.
const PROCESSES_MAX: usize = 64;
/// Longest command line, in characters.
const COMMAND_MAX: usize = 300;
/// Most sockets of one process.
const SOCKETS_MAX: usize = 16;

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct ProcessSnapshot {
    pub(crate) pid: i32,
    pub(crate) parent: i32,
    pub(crate) command: String,
    /// Its state, as the kernel calls it: `S (sleeping)`.
    pub(crate) state: String,
    /// Where in the kernel it waits; empty when the kernel does not say.
    pub(crate) waits_in: String,
    /// Its open sockets: `tcp 127.0.0.1:4000 -> 127.0.0.1:8080 established`.
    pub(crate) sockets: Vec<String>,
}

/// The engine and its descendants, without its shim. Reads `/proc`, so it blocks for a short time.
pub(crate) fn snapshot(engine: u32) -> Vec<ProcessSnapshot> {
    let Ok(seen) = all() else { return Vec::new() };
    let by_pid = |pid: i32| seen.iter().copied().find(|process| process.pid.as_raw_nonzero().get() == pid);
    let Some(engine) = i32::try_from(engine).ok().and_then(by_pid) else { return Vec::new() };
    // Orphans of a run are children of its shim, so the shim is the root if it is known.
    let root = by_pid(engine.stat.parent).filter(|parent| parent.pid != Pid::INIT).unwrap_or(engine);
    let tree = descendants(&[root], &seen).into_iter().map(|descendant| descendant.process);
    tree.take(PROCESSES_MAX).map(|process| look(process.pid.as_raw_nonzero().get(), process.stat.parent)).collect()
}

fn look(pid: i32, parent: i32) -> ProcessSnapshot {
    let read = |name: &str| fs::read_to_string(format!("/proc/{pid}/{name}")).unwrap_or_default();
    let words = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    let command: String = String::from_utf8_lossy(&words).replace('\0', " ").trim().chars().take(COMMAND_MAX).collect();
    let status = read("status");
    let state = status.lines().find_map(|line| line.strip_prefix("State:")).unwrap_or_default().trim().to_owned();
    ProcessSnapshot {
        pid,
        parent,
        command,
        state,
        waits_in: read("wchan").trim_matches('0').to_owned(),
        sockets: sockets(pid),
    }
}

fn sockets(pid: i32) -> Vec<String> {
    let Ok(open) = fs::read_dir(format!("/proc/{pid}/fd")) else { return Vec::new() };
    let links = open.flatten().filter_map(|entry| fs::read_link(entry.path()).ok());
    let links: Vec<String> = links.map(|link| link.to_string_lossy().into_owned()).collect();
    if !links.iter().any(|link| link.starts_with("socket:")) {
        return Vec::new();
    }
    let known = Sockets::seen_by(pid);
    links.iter().filter_map(|link| known.describe(link)).take(SOCKETS_MAX).collect()
}
