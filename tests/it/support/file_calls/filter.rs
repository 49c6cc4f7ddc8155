//! The filter in the kernel, its notices and the answers to them.

use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use libc::{c_long, sock_filter};
use rustix::io::Errno;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage, SendFlags,
};

/// A call that waits for its answer.
#[derive(Debug, Clone)]
pub struct Notice {
    pub id: u64,
    pub thread: u32,
    pub call: c_long,
    pub arguments: [u64; 6],
}

/// Calls that change files whatever their arguments are.
const CALLS: &[c_long] = &[
    libc::SYS_write,
    libc::SYS_pwrite64,
    libc::SYS_writev,
    libc::SYS_pwritev,
    libc::SYS_pwritev2,
    libc::SYS_copy_file_range,
    libc::SYS_sendfile,
    libc::SYS_ftruncate,
    libc::SYS_fallocate,
    libc::SYS_fsync,
    libc::SYS_fdatasync,
    libc::SYS_syncfs,
    libc::SYS_sync_file_range,
    libc::SYS_renameat,
    libc::SYS_renameat2,
    libc::SYS_linkat,
    libc::SYS_symlinkat,
    libc::SYS_mkdirat,
    libc::SYS_unlinkat,
];
/// Older forms of the same, where there are any.
#[cfg(target_arch = "x86_64")]
const OLD_CALLS: &[c_long] =
    &[libc::SYS_rename, libc::SYS_link, libc::SYS_symlink, libc::SYS_mkdir, libc::SYS_unlink, libc::SYS_rmdir];
#[cfg(not(target_arch = "x86_64"))]
const OLD_CALLS: &[c_long] = &[];

pub const FICLONE: u32 = 0x4004_9409;

const LOAD: u16 = (libc::BPF_LD | libc::BPF_W | libc::BPF_ABS) as u16;
const EQUAL: u16 = (libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K) as u16;
const HAS_BITS: u16 = (libc::BPF_JMP | libc::BPF_JSET | libc::BPF_K) as u16;
const RETURN: u16 = (libc::BPF_RET | libc::BPF_K) as u16;
/// Where the number of the call and the low half of its arguments are.
const NUMBER: u32 = 0;
const fn argument(n: u32) -> u32 {
    16 + 8 * n
}

/// Steps of the filter: the calls above, a file that is created, a file that is cloned.
const STEPS: usize = 1 + CALLS.len() + OLD_CALLS.len() + 9;

const fn step(code: u16, k: u32, yes: u8, no: u8) -> sock_filter {
    sock_filter { code, jt: yes, jf: no, k }
}

const fn program() -> [sock_filter; STEPS] {
    let mut steps = [step(RETURN, libc::SECCOMP_RET_ALLOW, 0, 0); STEPS];
    steps[0] = step(LOAD, NUMBER, 0, 0);
    let tell = STEPS - 2;
    let mut at = 1;
    let mut listed = 0;
    while listed < CALLS.len() + OLD_CALLS.len() {
        let call = if listed < CALLS.len() { CALLS[listed] } else { OLD_CALLS[listed - CALLS.len()] };
        steps[at] = step(EQUAL, call as u32, (tell - at - 1) as u8, 0);
        (at, listed) = (at + 1, listed + 1);
    }
    steps[at] = step(EQUAL, libc::SYS_openat as u32, 2, 0);
    steps[at + 1] = step(EQUAL, libc::SYS_ioctl as u32, 3, 0);
    // steps[at + 2] allows.
    steps[at + 3] = step(LOAD, argument(2), 0, 0);
    steps[at + 4] = step(HAS_BITS, libc::O_CREAT as u32, (tell - at - 5) as u8, (tell - at - 4) as u8);
    steps[at + 5] = step(LOAD, argument(1), 0, 0);
    steps[at + 6] = step(EQUAL, FICLONE, (tell - at - 7) as u8, (tell - at - 6) as u8);
    steps[tell] = step(RETURN, libc::SECCOMP_RET_USER_NOTIF, 0, 0);
    steps
}

static PROGRAM: [sock_filter; STEPS] = program();

/// Puts the calling thread under the filter, for ever; what tells of its calls. Allocates nothing.
pub fn install() -> io::Result<OwnedFd> {
    let program = libc::sock_fprog { len: STEPS as u16, filter: PROGRAM.as_ptr().cast_mut() };
    // SAFETY: the kernel copies the program, which outlives the calls, and returns a descriptor that nobody else owns.
    unsafe {
        if libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 {
            return Err(io::Error::last_os_error());
        }
        let flags = libc::SECCOMP_FILTER_FLAG_NEW_LISTENER;
        let listener = libc::syscall(libc::SYS_seccomp, libc::SECCOMP_SET_MODE_FILTER, flags, &raw const program);
        if listener < 0 { Err(io::Error::last_os_error()) } else { Ok(OwnedFd::from_raw_fd(listener as i32)) }
    }
}

/// Passes a descriptor on. Allocates nothing.
pub fn send(socket: BorrowedFd<'_>, listener: OwnedFd) -> io::Result<()> {
    use std::os::fd::AsFd;
    let descriptors = [listener.as_fd()];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut buffer = SendAncillaryBuffer::new(&mut space);
    buffer.push(SendAncillaryMessage::ScmRights(&descriptors));
    rustix::net::sendmsg(socket, &[IoSlice::new(b"!")], &mut buffer, SendFlags::empty())?;
    Ok(())
}

pub fn receive(socket: BorrowedFd<'_>) -> io::Result<OwnedFd> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut buffer = RecvAncillaryBuffer::new(&mut space);
    let mut byte = [0];
    rustix::net::recvmsg(socket, &mut [IoSliceMut::new(&mut byte)], &mut buffer, RecvFlags::CMSG_CLOEXEC)?;
    let descriptors = buffer.drain().find_map(|message| match message {
        RecvAncillaryMessage::ScmRights(mut descriptors) => descriptors.next(),
        _ => None,
    });
    descriptors.ok_or_else(|| io::Error::other("no descriptor came"))
}

/// The next call that waits; none when its thread has died.
pub fn next_notice(listener: &OwnedFd) -> Option<Notice> {
    // SAFETY: plain numbers, for which zeros are values; the kernel wants them to be zeros.
    let mut told: libc::seccomp_notif = unsafe { std::mem::zeroed() };
    // SAFETY: the kernel fills the structure, which outlives the call.
    let received = unsafe { libc::ioctl(listener.as_raw_fd(), libc::SECCOMP_IOCTL_NOTIF_RECV, &raw mut told) };
    let call = c_long::from(told.data.nr);
    (received == 0).then_some(Notice { id: told.id, thread: told.pid, call, arguments: told.data.args })
}

/// Lets the call be made, or fail with an error.
pub fn answer(listener: &OwnedFd, notice: &Notice, error: Option<Errno>) {
    let flags = if error.is_some() { 0 } else { libc::SECCOMP_USER_NOTIF_FLAG_CONTINUE as u32 };
    let error = error.map_or(0, |errno| -errno.raw_os_error());
    let mut response = libc::seccomp_notif_resp { id: notice.id, val: 0, error, flags };
    // SAFETY: the kernel reads the structure, which outlives the call. That the caller has died is no matter.
    unsafe { libc::ioctl(listener.as_raw_fd(), libc::SECCOMP_IOCTL_NOTIF_SEND, &raw mut response) };
}
