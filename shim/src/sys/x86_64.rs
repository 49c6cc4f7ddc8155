//! The system calls of x86_64.

use core::arch::asm;

/// # Safety
/// The kernel reads and writes what the arguments point to.
pub(crate) unsafe fn call(number: usize, [a, b, c, d, e, f]: [usize; 6]) -> isize {
    let result;
    // SAFETY: the caller vouches for the arguments; the kernel changes rax, rcx and r11 alone.
    unsafe {
        asm!("syscall", inlateout("rax") number as isize => result, in("rdi") a, in("rsi") b, in("rdx") c,
            in("r10") d, in("r8") e, in("r9") f, lateout("rcx") _, lateout("r11") _, options(nostack));
    }
    result
}

pub(crate) mod number {
    pub(crate) const READ: usize = 0;
    pub(crate) const WRITE: usize = 1;
    pub(crate) const CLOSE: usize = 3;
    pub(crate) const MMAP: usize = 9;
    pub(crate) const RT_SIGACTION: usize = 13;
    pub(crate) const RT_SIGPROCMASK: usize = 14;
    pub(crate) const IOCTL: usize = 16;
    pub(crate) const NANOSLEEP: usize = 35;
    pub(crate) const GETPID: usize = 39;
    pub(crate) const SOCKET: usize = 41;
    pub(crate) const SENDTO: usize = 44;
    pub(crate) const RECVFROM: usize = 45;
    pub(crate) const SENDMSG: usize = 46;
    pub(crate) const RECVMSG: usize = 47;
    pub(crate) const BIND: usize = 49;
    pub(crate) const LISTEN: usize = 50;
    pub(crate) const CLONE: usize = 56;
    pub(crate) const EXECVE: usize = 59;
    pub(crate) const WAIT4: usize = 61;
    pub(crate) const KILL: usize = 62;
    pub(crate) const CHDIR: usize = 80;
    pub(crate) const SETSID: usize = 112;
    pub(crate) const CAPSET: usize = 126;
    pub(crate) const PRCTL: usize = 157;
    pub(crate) const MOUNT: usize = 165;
    pub(crate) const GETDENTS64: usize = 217;
    pub(crate) const EXIT_GROUP: usize = 231;
    pub(crate) const OPENAT: usize = 257;
    pub(crate) const MKDIRAT: usize = 258;
    pub(crate) const UNLINKAT: usize = 263;
    pub(crate) const SYMLINKAT: usize = 266;
    pub(crate) const FACCESSAT: usize = 269;
    pub(crate) const PPOLL: usize = 271;
    pub(crate) const UNSHARE: usize = 272;
    pub(crate) const SIGNALFD4: usize = 289;
    pub(crate) const DUP3: usize = 292;
    pub(crate) const PIPE2: usize = 293;
    pub(crate) const PRLIMIT64: usize = 302;
    pub(crate) const STATX: usize = 332;
    pub(crate) const OPEN_TREE: usize = 428;
    pub(crate) const MOVE_MOUNT: usize = 429;
    pub(crate) const CLONE3: usize = 435;
    pub(crate) const CLOSE_RANGE: usize = 436;
    pub(crate) const MOUNT_SETATTR: usize = 442;
}
