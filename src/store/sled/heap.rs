//! Memory that was freed goes back to the system.

/// glibc keeps what was freed for later, also hundreds of megabytes. Called after a database was closed, whose pages
/// are many and small and lie between others. It costs some milliseconds.
#[cfg(target_env = "gnu")]
pub(super) fn give_back_free_memory() {
    // SAFETY: asks nothing of the caller and changes nothing that is in use.
    unsafe { libc::malloc_trim(0) };
}

#[cfg(not(target_env = "gnu"))]
pub(super) fn give_back_free_memory() {}
