//! System calls, made without a C library.

use core::ffi::c_void;
use core::ptr::null;

/// An error number of the kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Errno(pub(crate) i32);

impl Errno {
    pub(crate) const NOENT: Errno = Errno(2);
    pub(crate) const IO: Errno = Errno(5);
    pub(crate) const NOEXEC: Errno = Errno(8);
    pub(crate) const ACCES: Errno = Errno(13);
    pub(crate) const NOTDIR: Errno = Errno(20);
    pub(crate) const ISDIR: Errno = Errno(21);
    pub(crate) const INVAL: Errno = Errno(22);
    pub(crate) const TXTBSY: Errno = Errno(26);
    pub(crate) const ROFS: Errno = Errno(30);
}

pub(crate) type Result<T> = core::result::Result<T, Errno>;

/// A file descriptor; whoever opened it closes it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Fd(pub(crate) i32);

pub(crate) const SIGINT: i32 = 2;
pub(crate) const SIGKILL: i32 = 9;
pub(crate) const SIGCHLD: i32 = 17;
const LAST_SIGNAL: i32 = 64;

#[cfg(target_arch = "aarch64")]
mod aarch64;
pub(crate) mod group;
pub(crate) mod isolate;
pub(crate) mod network;
#[cfg(target_arch = "x86_64")]
mod x86_64;

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
compile_error!("the shim makes its system calls itself, and knows those of x86_64 and aarch64 alone");

#[cfg(target_arch = "aarch64")]
use aarch64::{self as machine, number};
#[cfg(target_arch = "x86_64")]
use x86_64::{self as machine, number};

/// # Safety
/// As for the system call itself.
unsafe fn call<const N: usize>(number: usize, arguments: [usize; N]) -> Result<usize> {
    let mut all = [0; 6];
    all.iter_mut().zip(arguments).for_each(|(place, argument)| *place = argument);
    // SAFETY: the caller vouches for the arguments.
    let result = unsafe { machine::call(number, all) };
    // The kernel returns errors as small negative numbers.
    usize::try_from(result).map_err(|_| Errno(-result as i32))
}

/// Negative numbers keep their meaning: the kernel reads 32 bits.
fn word(number: i32) -> usize {
    number as isize as usize
}

fn address<T>(of: &T) -> usize {
    core::ptr::from_ref(of) as usize
}

fn address_mut<T>(of: &mut T) -> usize {
    core::ptr::from_mut(of) as usize
}

/// A path that ends with a NUL byte, as the kernel needs it.
fn path(ended: &[u8]) -> Result<usize> {
    if ended.last() == Some(&0) { Ok(ended.as_ptr() as usize) } else { Err(Errno::INVAL) }
}

pub(crate) fn exit(code: i32) -> ! {
    loop {
        // SAFETY: only a number is passed.
        let _ = unsafe { call(number::EXIT_GROUP, [word(code)]) };
    }
}

pub(crate) fn read(fd: Fd, into: &mut [u8]) -> Result<usize> {
    // SAFETY: the kernel writes no more than the length.
    unsafe { call(number::READ, [word(fd.0), into.as_mut_ptr() as usize, into.len()]) }
}

pub(crate) fn write(fd: Fd, bytes: &[u8]) -> Result<usize> {
    // SAFETY: the kernel reads no more than the length.
    unsafe { call(number::WRITE, [word(fd.0), bytes.as_ptr() as usize, bytes.len()]) }
}

pub(crate) fn close(fd: Fd) {
    // SAFETY: only a number is passed.
    let _ = unsafe { call(number::CLOSE, [word(fd.0)]) };
}

/// Closes every file from `first` on. Linux before 5.9 has no such call; there they stay open.
pub(crate) fn close_from(first: u32) {
    // SAFETY: only numbers are passed.
    let _ = unsafe { call(number::CLOSE_RANGE, [first as usize, u32::MAX as usize, 0]) };
}

/// Opens for reading.
pub(crate) fn open(ended: &[u8]) -> Result<Fd> {
    const AT_FDCWD: i32 = -100;
    const O_CLOEXEC: usize = 0o2_000_000;
    // SAFETY: the path ends with a NUL byte.
    unsafe { call(number::OPENAT, [word(AT_FDCWD), path(ended)?, O_CLOEXEC, 0]) }.map(|fd| Fd(fd as i32))
}

/// Reads entries of a folder; 0 at its end.
pub(crate) fn read_folder(folder: Fd, into: &mut [u8]) -> Result<usize> {
    // SAFETY: the kernel writes no more than the length.
    unsafe { call(number::GETDENTS64, [word(folder.0), into.as_mut_ptr() as usize, into.len()]) }
}

/// Whether this may be executed: a file, with the right to do so.
pub(crate) fn executable(ended: &[u8]) -> Result<()> {
    const AT_FDCWD: i32 = -100;
    const X_OK: usize = 1;
    const STATX_TYPE: usize = 1;
    const MODE_AT: usize = 28;
    const S_IFMT: u16 = 0o170_000;
    const S_IFREG: u16 = 0o100_000;
    let path = path(ended)?;
    // SAFETY: the path ends with a NUL byte.
    unsafe { call(number::FACCESSAT, [word(AT_FDCWD), path, X_OK]) }?;
    let mut found = [0_u8; 256];
    // SAFETY: the kernel writes a `struct statx`, which has 256 bytes.
    unsafe { call(number::STATX, [word(AT_FDCWD), path, 0, STATX_TYPE, address_mut(&mut found)]) }?;
    let mode = found.get(MODE_AT..MODE_AT + 2).and_then(|bytes| bytes.try_into().ok()).map_or(0, u16::from_ne_bytes);
    if mode & S_IFMT == S_IFREG { Ok(()) } else { Err(Errno::ACCES) }
}

const O_CLOEXEC: usize = 0o2_000_000;
const O_NONBLOCK: usize = 0o4_000;

/// A pipe: where to read, where to write.
pub(crate) fn pipe() -> Result<(Fd, Fd)> {
    pipe_with(O_CLOEXEC)
}

/// A pipe on which nobody ever waits.
pub(crate) fn impatient_pipe() -> Result<(Fd, Fd)> {
    pipe_with(O_CLOEXEC | O_NONBLOCK)
}

fn pipe_with(flags: usize) -> Result<(Fd, Fd)> {
    let mut ends = [0_i32; 2];
    // SAFETY: the kernel writes two numbers.
    unsafe { call(number::PIPE2, [address_mut(&mut ends), flags]) }?;
    let [read, write] = ends;
    Ok((Fd(read), Fd(write)))
}

/// Gives a file another number, under which an exec keeps it.
pub(crate) fn duplicate(from: Fd, to: Fd) -> Result<()> {
    // SAFETY: only numbers are passed.
    unsafe { call(number::DUP3, [word(from.0), word(to.0), 0]) }.map(drop)
}

/// Zeroed memory that is never given back.
pub(crate) fn memory(length: usize) -> Result<&'static mut [u8]> {
    const READ_WRITE: usize = 3;
    const PRIVATE_ANONYMOUS: usize = 0x22;
    if length == 0 {
        return Ok(&mut []);
    }
    // SAFETY: a new area is asked for, which belongs to nobody else.
    let begin = unsafe { call(number::MMAP, [0, length, READ_WRITE, PRIVATE_ANONYMOUS, word(-1), 0]) }?;
    // SAFETY: the kernel gave this area, zeroed, aligned to a page.
    Ok(unsafe { core::slice::from_raw_parts_mut(begin as *mut u8, length) })
}

pub(crate) fn own_pid() -> i32 {
    // SAFETY: nothing is passed.
    unsafe { call(number::GETPID, []) }.unwrap_or(0) as i32
}

/// A copy of this process: its pid here, `None` in the copy.
pub(crate) fn fork() -> Result<Option<i32>> {
    // SAFETY: without a stack or shared memory, the copy has everything for itself.
    let pid = unsafe { call(number::CLONE, [word(SIGCHLD), 0, 0, 0, 0]) }? as i32;
    Ok((pid != 0).then_some(pid))
}

/// Becomes another program; returns only when that fails.
///
/// # Safety
/// Both lists consist of addresses of bytes that end with NUL, and end with a null pointer.
pub(crate) unsafe fn execute(program: &[u8], argv: *const *const u8, env: *const *const u8) -> Errno {
    let Ok(path) = path(program) else { return Errno::INVAL };
    // SAFETY: the caller vouches for the lists.
    match unsafe { call(number::EXECVE, [path, argv as usize, env as usize]) } {
        Ok(_) => Errno::INVAL,
        Err(error) => error,
    }
}

/// What `wait` found.
pub(crate) enum Waited {
    Reaped {
        pid: i32,
        status: i32,
    },
    /// There are children, and none has ended.
    NoneEnded,
    NoChild,
}

pub(crate) fn reap() -> Waited {
    const WNOHANG: usize = 1;
    const EINTR: Errno = Errno(4);
    let mut status = 0_i32;
    loop {
        // SAFETY: the kernel writes the status; nothing else is asked for.
        match unsafe { call(number::WAIT4, [word(-1), address_mut(&mut status), WNOHANG, 0]) } {
            Ok(0) => return Waited::NoneEnded,
            Ok(pid) => return Waited::Reaped { pid: pid as i32, status },
            Err(EINTR) => {}
            Err(_) => return Waited::NoChild,
        }
    }
}

/// Waits until this child has ended.
pub(crate) fn wait_for(child: i32) {
    let mut status = 0_i32;
    // SAFETY: the kernel writes the status; nothing else is asked for. No signal interrupts it: all are blocked here.
    let _ = unsafe { call(number::WAIT4, [word(child), address_mut(&mut status), 0, 0]) };
}

/// To a process, or with a negative number to a process group.
pub(crate) fn kill(to: i32, signal: i32) {
    // SAFETY: only numbers are passed.
    let _ = unsafe { call(number::KILL, [word(to), word(signal)]) };
}

/// Blocks these signals and no others.
pub(crate) fn block_signals(signals: u64) {
    const SIG_SETMASK: usize = 2;
    // SAFETY: a set of signals has 8 bytes.
    let _ = unsafe { call(number::RT_SIGPROCMASK, [SIG_SETMASK, address(&signals), 0, 8]) };
}

/// Sets every signal to its default. Some cannot be set; they have it.
pub(crate) fn default_signals() {
    // Handler, flags, restorer, mask: all zero is the default.
    let action = [0_u64; 4];
    for signal in 1..=LAST_SIGNAL {
        // SAFETY: no handler of ours is given.
        let _ = unsafe { call(number::RT_SIGACTION, [word(signal), address(&action), 0, 8]) };
    }
}

/// A file that becomes readable when a child ends.
pub(crate) fn deaths() -> Result<Fd> {
    const CLOEXEC_NONBLOCK: usize = 0o2_004_000;
    let child: u64 = 1 << (SIGCHLD - 1);
    // SAFETY: a set of signals has 8 bytes.
    unsafe { call(number::SIGNALFD4, [word(-1), address(&child), 8, CLOEXEC_NONBLOCK]) }.map(|fd| Fd(fd as i32))
}

pub(crate) fn begin_session() -> Result<()> {
    // SAFETY: nothing is passed.
    unsafe { call(number::SETSID, []) }.map(drop)
}

/// Makes every orphan of this process's tree its child.
pub(crate) fn adopt_orphans() -> Result<()> {
    const PR_SET_CHILD_SUBREAPER: usize = 36;
    // SAFETY: only numbers are passed.
    unsafe { call(number::PRCTL, [PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0]) }.map(drop)
}

/// The name that `ps` shows; of a longer one its beginning.
pub(crate) fn set_name(name: &str) {
    const PR_SET_NAME: usize = 15;
    let mut ended = [0_u8; 16];
    ended.iter_mut().take(15).zip(name.bytes()).for_each(|(place, byte)| *place = byte);
    // SAFETY: 16 bytes, the last one NUL.
    let _ = unsafe { call(number::PRCTL, [PR_SET_NAME, address(&ended), 0, 0, 0]) };
}

/// A limit that this process and all its descendants keep.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Limit {
    /// Of one process, in seconds.
    Cpu = 0,
    /// Of one file, in bytes.
    FileSize = 1,
    /// Of the image of a process that crashed.
    CoreFile = 4,
    OpenFiles = 7,
    /// Of real-time CPU, in microseconds.
    RealTime = 15,
}

/// Sets a limit, the soft and the hard one.
pub(crate) fn limit(which: Limit, soft_and_hard: [u64; 2]) -> Result<()> {
    // SAFETY: the kernel reads two numbers, and has nowhere to write.
    unsafe { call(number::PRLIMIT64, [0, which as usize, address(&soft_and_hard), 0]) }.map(drop)
}

pub(crate) fn change_folder(ended: &[u8]) -> Result<()> {
    // SAFETY: the path ends with a NUL byte.
    unsafe { call(number::CHDIR, [path(ended)?]) }.map(drop)
}

/// From here on this process and its descendants have mounts of their own; what others mount later appears in them.
pub(crate) fn own_mounts() -> Result<()> {
    const CLONE_NEWNS: usize = 0x2_0000;
    const MS_REC_SLAVE: usize = 0x4000 | 0x8_0000;
    // SAFETY: only a number is passed.
    unsafe { call(number::UNSHARE, [CLONE_NEWNS]) }?;
    // SAFETY: the path ends with a NUL byte; the other places are unused.
    unsafe { call(number::MOUNT, [0, path(b"/\0")?, 0, MS_REC_SLAVE, 0]) }.map(drop)
}

const MS_BIND: usize = 0x1000;

/// Shows a folder at another place.
pub(crate) fn bind(source: &[u8], target: &[u8]) -> Result<()> {
    // SAFETY: both paths end with a NUL byte; the other places are unused.
    unsafe { call(number::MOUNT, [path(source)?, path(target)?, 0, MS_BIND, 0]) }.map(drop)
}

/// Shows a folder at another place, read-only.
pub(crate) fn bind_read_only(source: &[u8], target: &[u8]) -> Result<()> {
    const MS_RDONLY: usize = 1;
    const MS_REMOUNT: usize = 0x20;
    bind(source, target)?;
    // SAFETY: the path ends with a NUL byte; the other places are unused.
    unsafe { call(number::MOUNT, [0, path(target)?, 0, MS_BIND | MS_REMOUNT | MS_RDONLY, 0]) }.map(drop)
}

pub(crate) fn sleep(milliseconds: u32) {
    let time = [u64::from(milliseconds / 1000), u64::from(milliseconds % 1000) * 1_000_000];
    // SAFETY: the kernel reads two numbers, and has nowhere to write.
    let _ = unsafe { call(number::NANOSLEEP, [address(&time), 0]) };
}

#[repr(C)]
struct PollFd {
    fd: i32,
    events: i16,
    found: i16,
}

/// Waits until one of them is readable, at most for this time; what is left of it. A negative number is never readable.
pub(crate) fn wait_readable(files: [Fd; 2], milliseconds: Option<u32>) -> Option<u32> {
    const POLLIN: i16 = 1;
    let mut files = files.map(|Fd(fd)| PollFd { fd, events: POLLIN, found: 0 });
    let mut time = milliseconds.map(|time| [u64::from(time / 1000), u64::from(time % 1000) * 1_000_000]);
    let place = time.as_mut().map_or(0, address_mut);
    // SAFETY: the kernel writes into the files' own places; it reads the time if there is one, and writes what is left of it.
    let _ = unsafe { call(number::PPOLL, [address_mut(&mut files), 2, place, 0, 0]) };
    time.map(|[seconds, nanoseconds]| u32::try_from(seconds * 1000 + nanoseconds / 1_000_000).unwrap_or(u32::MAX))
}

const MSG_DONTWAIT: usize = 0x40;
const MSG_WAITALL: usize = 0x100;
const MSG_NOSIGNAL: usize = 0x4000;
const MSG_CMSG_CLOEXEC: usize = 0x4000_0000;

pub(crate) fn send(socket: Fd, bytes: &[u8]) {
    let (begin, flags) = (bytes.as_ptr() as usize, MSG_NOSIGNAL | MSG_DONTWAIT);
    // SAFETY: the kernel reads no more than the length; no address is given.
    let _ = unsafe { call(number::SENDTO, [word(socket.0), begin, bytes.len(), flags, 0, 0]) };
}

/// Receives what is there now; 0 when the socket is closed.
pub(crate) fn receive(socket: Fd, into: &mut [u8]) -> Result<usize> {
    let begin = into.as_mut_ptr() as usize;
    // SAFETY: the kernel writes no more than the length; no address is asked for.
    unsafe { call(number::RECVFROM, [word(socket.0), begin, into.len(), MSG_DONTWAIT, 0, 0]) }
}

#[repr(C)]
struct Piece {
    begin: *mut c_void,
    length: usize,
}

#[repr(C)]
struct MessageHead {
    name: *const c_void,
    name_length: u32,
    pieces: *mut Piece,
    pieces_length: usize,
    control: *mut c_void,
    control_length: usize,
    flags: i32,
}

#[repr(C)]
struct Rights<const N: usize> {
    length: usize,
    level: i32,
    kind: i32,
    files: [i32; N],
}

/// Receives all of `into` together with exactly `N` files.
pub(crate) fn receive_with_files<const N: usize>(socket: Fd, into: &mut [u8]) -> Result<[Fd; N]> {
    const SOL_SOCKET: i32 = 1;
    const SCM_RIGHTS: i32 = 1;
    let mut piece = Piece { begin: into.as_mut_ptr().cast(), length: into.len() };
    let mut rights = Rights { length: 0, level: 0, kind: 0, files: [-1; N] };
    let mut head = MessageHead {
        name: null(),
        name_length: 0,
        pieces: &raw mut piece,
        pieces_length: 1,
        control: (&raw mut rights).cast(),
        control_length: size_of::<Rights<N>>(),
        flags: 0,
    };
    let flags = MSG_CMSG_CLOEXEC | MSG_WAITALL;
    // SAFETY: every place that the head names is ours, with its length.
    let received = unsafe { call(number::RECVMSG, [word(socket.0), address_mut(&mut head), flags]) }?;
    let expected = size_of::<usize>() + 2 * size_of::<i32>() + N * size_of::<i32>();
    let complete = received == into.len() && rights.length == expected;
    if complete && (rights.level, rights.kind) == (SOL_SOCKET, SCM_RIGHTS) {
        Ok(rights.files.map(Fd))
    } else {
        Err(Errno::INVAL)
    }
}

#[cfg(test)]
mod tests {
    use super::number;

    #[test]
    fn the_numbers_of_the_calls_are_those_of_the_c_library() {
        let numbers = [
            (number::READ, libc::SYS_read),
            (number::WRITE, libc::SYS_write),
            (number::CLOSE, libc::SYS_close),
            (number::MMAP, libc::SYS_mmap),
            (number::RT_SIGACTION, libc::SYS_rt_sigaction),
            (number::RT_SIGPROCMASK, libc::SYS_rt_sigprocmask),
            (number::NANOSLEEP, libc::SYS_nanosleep),
            (number::GETPID, libc::SYS_getpid),
            (number::SENDTO, libc::SYS_sendto),
            (number::RECVFROM, libc::SYS_recvfrom),
            (number::RECVMSG, libc::SYS_recvmsg),
            (number::CLONE, libc::SYS_clone),
            (number::EXECVE, libc::SYS_execve),
            (number::WAIT4, libc::SYS_wait4),
            (number::KILL, libc::SYS_kill),
            (number::CHDIR, libc::SYS_chdir),
            (number::SETSID, libc::SYS_setsid),
            (number::PRCTL, libc::SYS_prctl),
            (number::MOUNT, libc::SYS_mount),
            (number::GETDENTS64, libc::SYS_getdents64),
            (number::EXIT_GROUP, libc::SYS_exit_group),
            (number::OPENAT, libc::SYS_openat),
            (number::UNLINKAT, libc::SYS_unlinkat),
            (number::CLONE3, libc::SYS_clone3),
            (number::FACCESSAT, libc::SYS_faccessat),
            (number::PPOLL, libc::SYS_ppoll),
            (number::UNSHARE, libc::SYS_unshare),
            (number::SIGNALFD4, libc::SYS_signalfd4),
            (number::DUP3, libc::SYS_dup3),
            (number::PIPE2, libc::SYS_pipe2),
            (number::PRLIMIT64, libc::SYS_prlimit64),
            (number::STATX, libc::SYS_statx),
            (number::CLOSE_RANGE, libc::SYS_close_range),
            (number::SENDMSG, libc::SYS_sendmsg),
            (number::SOCKET, libc::SYS_socket),
            (number::BIND, libc::SYS_bind),
            (number::LISTEN, libc::SYS_listen),
            (number::IOCTL, libc::SYS_ioctl),
            (number::CAPSET, libc::SYS_capset),
            (number::MKDIRAT, libc::SYS_mkdirat),
            (number::SYMLINKAT, libc::SYS_symlinkat),
            (number::OPEN_TREE, libc::SYS_open_tree),
            (number::MOVE_MOUNT, libc::SYS_move_mount),
            (number::MOUNT_SETATTR, libc::SYS_mount_setattr),
        ];
        for (ours, theirs) in numbers {
            assert_eq!(i64::try_from(ours).unwrap(), theirs);
        }
    }
}
