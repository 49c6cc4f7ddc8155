//! The async runtime of the commands that run skills.

use std::time::Duration;

use crate::cli::failure::Failure;
use crate::files;

/// How long a thread for blocking work is kept without any.
const KEPT: Duration = Duration::from_secs(5 * 60);
/// As many are always there: work that waits for other such work must not take the last.
const KEPT_THREADS: usize = 4;
const MOMENT: Duration = Duration::from_millis(5);
/// How often there is a little of it.
const WORK_EVERY: Duration = Duration::from_secs(60);

pub(crate) fn runtime() -> Result<tokio::runtime::Runtime, Failure> {
    share_heaps();
    let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    // tokio panics where one of its threads cannot be started, or waits for ever.
    files::can_start_threads(cores + KEPT_THREADS).map_err(Failure::broken("start the runtime"))?;
    // The number is given, because tokio panics where the environment has a wrong one.
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(cores).enable_all().thread_keep_alive(KEPT).build();
    let runtime = runtime.map_err(Failure::broken("start the runtime"))?;
    runtime.spawn(keep_threads());
    Ok(runtime)
}

/// Keeps some threads for blocking work alive. Whoever hands over such work while there is none, and none can be made, panics: that would
/// end whatever was at work, when a run has taken all processes that the machine can have. With some, the work waits for them.
async fn keep_threads() {
    loop {
        for _ in 0..KEPT_THREADS {
            // Not waited for, and long enough that each has a thread of its own.
            drop(tokio::task::spawn_blocking(|| std::thread::sleep(MOMENT)));
        }
        tokio::time::sleep(WORK_EVERY).await;
    }
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

/// Gives back to the system what only the start needed: freed memory, which glibc keeps for later, and the pages of the
/// program's code, of which the kernel maps many around each place that runs. Code that runs again is found in the page cache.
#[cfg(target_env = "gnu")]
pub(crate) fn give_back_what_the_start_needed() {
    // SAFETY: asks nothing of the caller and changes nothing that is in use.
    unsafe { libc::malloc_trim(0) };
    // SAFETY: the function below keeps to the contract of the call, and needs no data.
    unsafe { libc::dl_iterate_phdr(Some(forget_code), std::ptr::null_mut()) };
}

#[cfg(not(target_env = "gnu"))]
pub(crate) fn give_back_what_the_start_needed() {}

/// Unmaps the pages of code of the program, which is the first to be told of; the kernel maps them again from its file.
#[cfg(target_env = "gnu")]
unsafe extern "C" fn forget_code(
    program: *mut libc::dl_phdr_info,
    _: libc::size_t,
    _: *mut libc::c_void,
) -> libc::c_int {
    const STOP: libc::c_int = 1;
    // SAFETY: the caller hands over a valid description, whose headers live as long as the program.
    let (program, headers) = unsafe {
        let program = &*program;
        (program, std::slice::from_raw_parts(program.dlpi_phdr, usize::from(program.dlpi_phnum)))
    };
    let page = rustix::param::page_size() as u64;
    for part in headers {
        // What can be written to may differ from the file.
        if part.p_type != libc::PT_LOAD || part.p_flags & (libc::PF_X | libc::PF_W) != libc::PF_X {
            continue;
        }
        let first = (program.dlpi_addr + part.p_vaddr).next_multiple_of(page);
        let end = (program.dlpi_addr + part.p_vaddr + part.p_memsz) / page * page;
        if let Some(length) = end.checked_sub(first).and_then(|length| usize::try_from(length).ok()) {
            // SAFETY: only whole pages of code, which are mapped privately from the program's file and never written to,
            // so that they have the same content when they are next used. If it is refused, they stay.
            unsafe { libc::madvise(first as *mut libc::c_void, length, libc::MADV_DONTNEED) };
        }
    }
    STOP
}
