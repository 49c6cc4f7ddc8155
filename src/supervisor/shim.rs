//! The shim: a forked process of ours between the service and one engine, which lets nothing escape.
//!
//! It is a *child subreaper*, so whatever the engine starts and abandons, in any session or group, becomes its child.
//! It signals only children that it has not yet reaped, so a pid can never mean another process. When the service
//! asks for it, or is gone (the control socket is closed, by whatever death), it kills and reaps until no child is left.
//!
//! All of this runs between fork and exec of a process with threads: no allocation, no lock, no panic, only system calls.

use std::ffi::{CStr, CString};
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::os::unix::process::CommandExt;
use std::process::Command;

use rustix::fs::{CWD, Mode, OFlags, RawDir};
use rustix::net::{RecvFlags, SendFlags};
use rustix::process::{Pid, Signal, WaitOptions};

use super::processes::{Stat, number};

/// The shim's process name.
pub(super) const NAME: &CStr = c"skill-run-shim";

/// How long the shim waits for killed children before it looks again for new ones.
const KILL_ROUND_MILLIS: i32 = 20;

/// What the service may ask of a shim, one byte each.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Request {
    /// SIGINT to the engine.
    Interrupt = b'I',
    /// Kill every process of the run.
    Kill = b'K',
}

/// What a shim tells the service.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Report {
    /// The engine's pid.
    Started(i32),
    /// The engine's wait status.
    EngineEnded(i32),
    /// No process is left; so many others than the engine had to be killed.
    Gone(i32),
}

impl Report {
    /// Length of a report on the wire.
    pub(super) const LEN: usize = 5;

    fn encode(self) -> [u8; Report::LEN] {
        let (tag, value) = match self {
            Report::Started(pid) => (b'S', pid),
            Report::EngineEnded(status) => (b'E', status),
            Report::Gone(killed) => (b'G', killed),
        };
        let [a, b, c, d] = value.to_le_bytes();
        [tag, a, b, c, d]
    }

    /// Reads a report; `None` for bytes that are none.
    pub(super) fn decode([tag, a, b, c, d]: [u8; Report::LEN]) -> Option<Report> {
        let value = i32::from_le_bytes([a, b, c, d]);
        match tag {
            b'S' => Some(Report::Started(value)),
            b'E' => Some(Report::EngineEnded(value)),
            b'G' => Some(Report::Gone(value)),
            _ => None,
        }
    }
}

/// Makes `command` start a shim that starts the engine. The child of the service is then the shim; it talks over
/// `control`, lives in the folder `home` (so that a sweep can tell whose it is), and exits when no process is left.
pub(super) fn put_between(command: &mut Command, control: OwnedFd, home: CString) {
    // SAFETY: the closure runs after fork in a process with one thread and makes only system calls; it neither
    // allocates nor takes a lock.
    unsafe {
        command.pre_exec(move || split(&control, &home));
    }
}

/// Forks. In the engine it returns, so that exec follows; in the shim it never does.
fn split(control: &OwnedFd, home: &CStr) -> io::Result<()> {
    rustix::process::set_child_subreaper(Some(rustix::process::getpid()))?;
    rustix::process::setsid()?;
    let deaths = deaths_of_children()?;
    // SAFETY: this process has one thread, and both sides of the fork go on with system calls alone.
    match unsafe { libc::fork() } {
        -1 => Err(io::Error::last_os_error()),
        0 => {
            rustix::process::setsid()?;
            reset_signals();
            close_files_at_exec();
            Ok(())
        }
        engine => {
            let _ = rustix::thread::set_name(NAME);
            let _ = rustix::process::chdir(home);
            keep_only(control.as_raw_fd(), deaths);
            Shim { engine: Pid::from_raw(engine), killing: false, killed: 0, connected: true }.run()
        }
    }
}

/// Blocks all signals, which makes the shim immune and keeps the service's handlers from running in it, and
/// gives a file descriptor that becomes readable when a child ends.
fn deaths_of_children() -> io::Result<RawFd> {
    let mut every = MaybeUninit::uninit();
    let mut child = MaybeUninit::uninit();
    // SAFETY: the sets are initialised by sigfillset and sigemptyset before anything reads them.
    let fd = unsafe {
        libc::sigfillset(every.as_mut_ptr());
        libc::sigprocmask(libc::SIG_SETMASK, every.as_ptr(), std::ptr::null_mut());
        // Ignored SIGCHLD would have the kernel throw away the wait statuses.
        libc::signal(libc::SIGCHLD, libc::SIG_DFL);
        libc::sigemptyset(child.as_mut_ptr());
        libc::sigaddset(child.as_mut_ptr(), libc::SIGCHLD);
        libc::signalfd(-1, child.as_ptr(), libc::SFD_CLOEXEC | libc::SFD_NONBLOCK)
    };
    if fd < 0 { Err(io::Error::last_os_error()) } else { Ok(fd) }
}

/// Gives the engine every signal at its default, and none blocked.
fn reset_signals() {
    let mut none = MaybeUninit::uninit();
    // SAFETY: SIG_DFL is a valid disposition for every signal that has one; others are refused without effect.
    unsafe {
        for signal in 1..=libc::SIGRTMAX() {
            libc::signal(signal, libc::SIG_DFL);
        }
        libc::sigemptyset(none.as_mut_ptr());
        libc::sigprocmask(libc::SIG_SETMASK, none.as_ptr(), std::ptr::null_mut());
    }
}

/// Files that the service itself was given by its parent, and left open for its children, are no business of an engine.
fn close_files_at_exec() {
    let first: libc::c_uint = 3;
    // SAFETY: only numbers are passed. Closed now, the pipe would be missing that tells of a failed exec.
    unsafe { libc::syscall(libc::SYS_close_range, first, libc::c_uint::MAX, libc::CLOSE_RANGE_CLOEXEC) };
}

const CONTROL: RawFd = 0;
const DEATHS: RawFd = 1;

/// Leaves the shim with two open files. All others belong to the service, to its locks and to other runs, and the
/// engine's pipes would never end while the shim held them.
fn keep_only(control: RawFd, deaths: RawFd) {
    // SAFETY: only numbers are passed; nothing in this process uses the closed files any more.
    unsafe {
        libc::dup2(control, CONTROL);
        libc::dup2(deaths, DEATHS);
        let first: libc::c_uint = 2;
        if libc::syscall(libc::SYS_close_range, first, libc::c_uint::MAX, 0) != 0 {
            // Linux before 5.9.
            for fd in 2..65_536 {
                libc::close(fd);
            }
        }
    }
}

struct Shim {
    /// The engine, until it is reaped.
    engine: Option<Pid>,
    killing: bool,
    killed: i32,
    connected: bool,
}

impl Shim {
    fn run(mut self) -> ! {
        if let Some(engine) = self.engine {
            self.report(Report::Started(engine.as_raw_nonzero().get()));
        }
        while self.reap() {
            if self.killing {
                kill_children();
            }
            self.wait();
            self.obey();
        }
        self.report(Report::Gone(self.killed));
        // SAFETY: ends this process at once, without the exit handlers of the service it was forked from.
        unsafe { libc::_exit(0) }
    }

    /// Reaps whoever has ended; false when no child is left.
    fn reap(&mut self) -> bool {
        loop {
            match rustix::process::wait(WaitOptions::NOHANG) {
                Ok(Some((pid, status))) if Some(pid) == self.engine => {
                    self.engine = None;
                    self.report(Report::EngineEnded(status.as_raw()));
                }
                Ok(Some((_, status))) => {
                    let by_kill = status.terminating_signal() == Some(libc::SIGKILL);
                    self.killed = self.killed.saturating_add(i32::from(self.killing && by_kill));
                }
                Ok(None) | Err(rustix::io::Errno::INTR) => return true,
                Err(_) => return false,
            }
        }
    }

    /// Waits for a request or a death; while killing also for a moment, as new children may have been made.
    fn wait(&self) {
        let file = |fd| libc::pollfd { fd, events: libc::POLLIN, revents: 0 };
        // A closed socket is always ready: it must not be waited for. Poll passes over negative numbers.
        let mut files = [file(DEATHS), file(if self.connected { CONTROL } else { -1 })];
        let timeout = if self.killing { KILL_ROUND_MILLIS } else { -1 };
        let mut news = MaybeUninit::<[u8; 1024]>::uninit();
        // SAFETY: poll gets a valid array and its length; read gets a valid buffer and its length, and what it
        // puts there is never looked at: it is read so that the descriptor is quiet until the next death.
        unsafe {
            libc::poll(files.as_mut_ptr(), 2, timeout);
            libc::read(DEATHS, news.as_mut_ptr().cast(), 1024);
        }
    }

    fn obey(&mut self) {
        if !self.connected {
            return;
        }
        let mut requests = [0; 16];
        match rustix::net::recv(control(), &mut requests, RecvFlags::DONTWAIT) {
            Ok((0, _)) => {
                self.connected = false;
                self.killing = true;
            }
            Ok((_, n)) => {
                for request in requests.iter().take(n) {
                    self.follow(*request);
                }
            }
            Err(_) => {}
        }
    }

    fn follow(&mut self, request: u8) {
        if request == Request::Kill as u8 {
            self.killing = true;
        } else if request == Request::Interrupt as u8
            && let Some(engine) = self.engine
        {
            let _ = rustix::process::kill_process(engine, Signal::INT);
        }
    }

    fn report(&self, report: Report) {
        // Three short reports fit any socket buffer; a service that is gone reads none.
        let _ = rustix::net::send(control(), &report.encode(), SendFlags::NOSIGNAL | SendFlags::DONTWAIT);
    }
}

fn control() -> BorrowedFd<'static> {
    // SAFETY: the shim has put its control socket there and never closes it.
    unsafe { BorrowedFd::borrow_raw(CONTROL) }
}

/// Kills every child and its whole process group.
fn kill_children() {
    let Ok(proc) = rustix::fs::openat(CWD, c"/proc", OFlags::RDONLY | OFlags::DIRECTORY, Mode::empty()) else {
        return;
    };
    let own = rustix::process::getpid().as_raw_nonzero().get();
    let mut buffer = [MaybeUninit::<u8>::uninit(); 8192];
    let mut entries = RawDir::new(&proc, &mut buffer);
    while let Some(Ok(entry)) = entries.next() {
        let Some((pid, stat)) = look_at(&proc, entry.file_name().to_bytes()) else { continue };
        if stat.parent != own {
            continue;
        }
        let _ = rustix::process::kill_process(pid, Signal::KILL);
        // A group never spans sessions, and the engine began its own: every member is of this run. Killing the
        // group at one stroke also catches what forks faster than it can be listed.
        if let Some(group) = Pid::from_raw(stat.group)
            && stat.group > 1
            && stat.group != own
        {
            let _ = rustix::process::kill_process_group(group, Signal::KILL);
        }
    }
}

fn look_at(proc: &OwnedFd, name: &[u8]) -> Option<(Pid, Stat)> {
    let pid = Pid::from_raw(i32::try_from(number(name)?).ok()?)?;
    let mut path = [0; 32];
    path.get_mut(..name.len())?.copy_from_slice(name);
    path.get_mut(name.len()..name.len() + 5)?.copy_from_slice(b"/stat");
    let path = CStr::from_bytes_until_nul(&path).ok()?;
    let file = rustix::fs::openat(proc, path, OFlags::RDONLY, Mode::empty()).ok()?;
    let mut line = [0; 1024];
    let length = rustix::io::read(&file, &mut line).ok()?;
    Some((pid, Stat::parse(line.get(..length)?)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_reads_back_from_its_bytes() {
        for report in [Report::Started(4_194_304), Report::EngineEnded(-1), Report::Gone(0)] {
            assert_eq!(Report::decode(report.encode()), Some(report));
        }
        assert_eq!(Report::decode(*b"?\0\0\0\0"), None);
    }
}
