//! The async runtime of the commands that run skills.

use crate::cli::failure::Failure;

pub(crate) fn runtime() -> Result<tokio::runtime::Runtime, Failure> {
    share_heaps();
    tokio::runtime::Builder::new_multi_thread().enable_all().build().map_err(Failure::broken("start the runtime"))
}

/// glibc gives threads up to eight heaps per core, and what is freed in one serves no other. With one per core the
/// service holds a quarter less memory after mixed work, and is no slower (docs/benchmarks.md).
#[cfg(target_env = "gnu")]
fn share_heaps() {
    let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    // SAFETY: sets a number of the allocator, and asks nothing of the caller. If it is refused, the default stays.
    unsafe { libc::mallopt(libc::M_ARENA_MAX, libc::c_int::try_from(cores).unwrap_or(libc::c_int::MAX)) };
}

#[cfg(not(target_env = "gnu"))]
fn share_heaps() {}
