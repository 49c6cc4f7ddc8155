//! The system calls of aarch64.

use core::arch::asm;

/// # Safety
/// The kernel reads and writes what the arguments point to.
pub(crate) unsafe fn call(number: usize, [a, b, c, d, e, f]: [usize; 6]) -> isize {
    let result;
    // SAFETY: the caller vouches for the arguments; the kernel changes x0 alone.
    unsafe {
        asm!("svc 0", in("x8") number, inlateout("x0") a as isize => result, in("x1") b, in("x2") c, in("x3") d,
            in("x4") e, in("x5") f, options(nostack));
    }
    result
}

pub(crate) mod number {
    pub(crate) const DUP3: usize = 24;
    pub(crate) const IOCTL: usize = 29;
    pub(crate) const MKDIRAT: usize = 34;
    pub(crate) const UNLINKAT: usize = 35;
    pub(crate) const SYMLINKAT: usize = 36;
    pub(crate) const MOUNT: usize = 40;
    pub(crate) const FACCESSAT: usize = 48;
    pub(crate) const CHDIR: usize = 49;
    pub(crate) const OPENAT: usize = 56;
    pub(crate) const CLOSE: usize = 57;
    pub(crate) const PIPE2: usize = 59;
    pub(crate) const GETDENTS64: usize = 61;
    pub(crate) const READ: usize = 63;
    pub(crate) const WRITE: usize = 64;
    pub(crate) const PPOLL: usize = 73;
    pub(crate) const SIGNALFD4: usize = 74;
    pub(crate) const CAPSET: usize = 91;
    pub(crate) const EXIT_GROUP: usize = 94;
    pub(crate) const UNSHARE: usize = 97;
    pub(crate) const NANOSLEEP: usize = 101;
    pub(crate) const KILL: usize = 129;
    pub(crate) const RT_SIGACTION: usize = 134;
    pub(crate) const RT_SIGPROCMASK: usize = 135;
    pub(crate) const SETSID: usize = 157;
    pub(crate) const PRCTL: usize = 167;
    pub(crate) const GETPID: usize = 172;
    pub(crate) const SOCKET: usize = 198;
    pub(crate) const BIND: usize = 200;
    pub(crate) const LISTEN: usize = 201;
    pub(crate) const SENDTO: usize = 206;
    pub(crate) const RECVFROM: usize = 207;
    pub(crate) const SENDMSG: usize = 211;
    pub(crate) const RECVMSG: usize = 212;
    pub(crate) const CLONE: usize = 220;
    pub(crate) const EXECVE: usize = 221;
    pub(crate) const MMAP: usize = 222;
    pub(crate) const WAIT4: usize = 260;
    pub(crate) const PRLIMIT64: usize = 261;
    pub(crate) const STATX: usize = 291;
    pub(crate) const OPEN_TREE: usize = 428;
    pub(crate) const MOVE_MOUNT: usize = 429;
    pub(crate) const CLONE3: usize = 435;
    pub(crate) const CLOSE_RANGE: usize = 436;
    pub(crate) const MOUNT_SETATTR: usize = 442;
}
