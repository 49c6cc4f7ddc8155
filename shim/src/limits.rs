//! Limits that the kernel itself keeps for every process of a run.

use crate::sys::{self, Limit, Result, isolate};
use crate::wire::Order;

/// A process that ignores the first signal for its processor time is killed after so many seconds more.
const CPU_GRACE: u64 = 5;

/// When memory is short, the kernel ends processes of runs before any other.
const FIRST_TO_GO: &[u8] = b"800";

/// Puts them in force for this process and everything it will start.
pub(crate) fn apply(order: &Order<'_>) -> Result<()> {
    // A system without this file has no such choice to make.
    let _ = isolate::write_file(b"/proc/self/oom_score_adj\0", FIRST_TO_GO);
    if order.open_files != [0; 2] {
        sys::limit(Limit::OpenFiles, order.open_files)?;
    }
    // The image of a process would hold its keys.
    let _ = sys::limit(Limit::CoreFile, [0; 2]);
    // One that is in force already may be lower, and only root can raise it: then the lower one holds.
    if order.file_bytes != 0 {
        let _ = sys::limit(Limit::FileSize, [order.file_bytes; 2]);
    }
    if order.cpu_seconds != 0 {
        let _ = sys::limit(Limit::Cpu, [order.cpu_seconds, order.cpu_seconds.saturating_add(CPU_GRACE)]);
    }
    Ok(())
}
