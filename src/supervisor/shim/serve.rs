//! The shim's own process: it starts the engine, adopts its orphans, and kills and reaps until nothing is left.
//!
//! It is a *child subreaper*: every orphan of the engine's tree, in any session or group, becomes its child. It signals only
//! children that it has not reaped yet, so a pid can never mean another process. When the service asks for it, or the control
//! socket is closed because the service is gone, it kills until no child is left.

use std::io::{self, IoSliceMut, Read};
use std::mem::MaybeUninit;
use std::os::fd::{BorrowedFd, FromRawFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::process::Command;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendFlags, recvmsg};
use rustix::process::{Pid, Signal, WaitOptions};

use super::wire::{NAME, Order, Report, Request};
use crate::supervisor::processes;

/// How long killed children may take before the shim looks again for new ones.
const KILL_ROUND: Timespec = Timespec { tv_sec: 0, tv_nsec: 20_000_000 };

/// Serves one engine; the result is the shim's exit code, which nobody reads.
pub(crate) fn serve() -> i32 {
    let Ok(deaths) = prepare() else { return 1 };
    let started = receive_order().and_then(start);
    let engine = match started {
        Ok(engine) => engine,
        Err(error) => {
            report(Report::Refused(error.raw_os_error().unwrap_or(libc::EINVAL)));
            return 1;
        }
    };
    report(Report::Started(engine.as_raw_nonzero().get()));
    Shim { engine: Some(engine), deaths, killing: false, killed: 0, connected: true }.run()
}

/// Closes what the shim inherited and makes it the parent of every orphan. Returns a file that becomes readable when a
/// child ends.
fn prepare() -> io::Result<OwnedFd> {
    close_inherited_files();
    let deaths = block_signals()?;
    rustix::process::set_child_subreaper(Some(rustix::process::getpid()))?;
    rustix::process::setsid()?;
    let name = std::ffi::CString::new(NAME)?;
    rustix::thread::set_name(&name)?;
    Ok(deaths)
}

/// Closes files that the service inherited from its own parent: an engine must not have them.
fn close_inherited_files() {
    let first: libc::c_uint = 3;
    // SAFETY: only numbers are passed, and this process has opened nothing yet. Linux before 5.9 has no such call; there
    // the files stay open.
    unsafe { libc::syscall(libc::SYS_close_range, first, libc::c_uint::MAX, 0) };
}

/// Sets every signal to its default, which the engine inherits, and blocks them all in the shim: a `kill` of the whole
/// service must not end the shim before its children.
fn block_signals() -> io::Result<OwnedFd> {
    let mut every = MaybeUninit::uninit();
    let mut child = MaybeUninit::uninit();
    // SAFETY: the sets are initialised by sigfillset and sigemptyset before they are read; SIG_DFL is valid for
    // every signal that can be set, others are refused without effect; the new descriptor has no other owner.
    unsafe {
        libc::sigfillset(every.as_mut_ptr());
        libc::sigprocmask(libc::SIG_SETMASK, every.as_ptr(), std::ptr::null_mut());
        for signal in 1..=libc::SIGRTMAX() {
            libc::signal(signal, libc::SIG_DFL);
        }
        libc::sigemptyset(child.as_mut_ptr());
        libc::sigaddset(child.as_mut_ptr(), libc::SIGCHLD);
        match libc::signalfd(-1, child.as_ptr(), libc::SFD_CLOEXEC | libc::SFD_NONBLOCK) {
            -1 => Err(io::Error::last_os_error()),
            fd => Ok(OwnedFd::from_raw_fd(fd)),
        }
    }
}

/// The control socket is the shim's standard input.
fn control() -> BorrowedFd<'static> {
    rustix::stdio::stdin()
}

/// Reads the order and the engine's standard input, output and error.
fn receive_order() -> io::Result<(Order, [OwnedFd; 3])> {
    let mut length = [0; 4];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(3))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let flags = RecvFlags::CMSG_CLOEXEC | RecvFlags::WAITALL;
    let received = recvmsg(control(), &mut [IoSliceMut::new(&mut length)], &mut ancillary, flags)?;
    let files: Vec<OwnedFd> = ancillary
        .drain()
        .flat_map(|message| match message {
            RecvAncillaryMessage::ScmRights(files) => files.collect(),
            _ => Vec::new(),
        })
        .collect();
    let (4, Ok(files)) = (received.bytes, <[OwnedFd; 3]>::try_from(files)) else {
        return Err(io::ErrorKind::UnexpectedEof.into());
    };
    let mut words = vec![0; u32::from_le_bytes(length) as usize];
    UnixStream::from(control().try_clone_to_owned()?).read_exact(&mut words)?;
    let order = Order::decode(&words).ok_or(io::ErrorKind::InvalidData)?;
    Ok((order, files))
}

/// Starts the engine in a session of its own.
fn start((order, [stdin, stdout, stderr]): (Order, [OwnedFd; 3])) -> io::Result<Pid> {
    let (program, arguments) = order.argv.split_first().ok_or(io::ErrorKind::InvalidInput)?;
    let mut command = Command::new(program);
    command.args(arguments).current_dir(&order.cwd).env_clear().envs(order.env);
    command.stdin(stdin).stdout(stdout).stderr(stderr);
    // SAFETY: the closure runs in the forked child of a process with one thread, and makes system calls only.
    unsafe { command.pre_exec(begin_session_and_unblock_signals) };
    // The command is dropped here with its copies of the pipes, which could not end while the shim held them.
    Ok(Pid::from_child(&command.spawn()?))
}

fn begin_session_and_unblock_signals() -> io::Result<()> {
    rustix::process::setsid()?;
    let mut none = MaybeUninit::uninit();
    // SAFETY: the set is initialised by sigemptyset before it is read.
    unsafe {
        libc::sigemptyset(none.as_mut_ptr());
        libc::sigprocmask(libc::SIG_SETMASK, none.as_ptr(), std::ptr::null_mut());
    }
    Ok(())
}

fn report(report: Report) {
    // A few short reports fit any socket buffer; a service that is gone reads none.
    let _ = rustix::net::send(control(), &report.encode(), SendFlags::NOSIGNAL | SendFlags::DONTWAIT);
}

struct Shim {
    /// The engine, until it is reaped.
    engine: Option<Pid>,
    deaths: OwnedFd,
    killing: bool,
    killed: i32,
    connected: bool,
}

impl Shim {
    fn run(mut self) -> i32 {
        while self.reap() {
            if self.killing {
                kill_children();
            }
            self.wait();
            self.receive_requests();
        }
        report(Report::Gone(self.killed));
        0
    }

    /// Reaps whoever has ended; false when no child is left.
    fn reap(&mut self) -> bool {
        loop {
            match rustix::process::wait(WaitOptions::NOHANG) {
                Ok(Some((pid, status))) if Some(pid) == self.engine => {
                    self.engine = None;
                    report(Report::EngineEnded(status.as_raw()));
                }
                Ok(Some((_, status))) => {
                    let by_kill = status.terminating_signal() == Some(libc::SIGKILL);
                    self.killed = self.killed.saturating_add(i32::from(self.killing && by_kill));
                }
                Ok(None) => return true,
                Err(_) => return false,
            }
        }
    }

    /// Waits for a death or a request; while killing only for a moment, as new children may have been made.
    fn wait(&self) {
        let control = control();
        let mut files = vec![PollFd::new(&self.deaths, PollFlags::IN)];
        // A closed socket is always readable, so waiting for it would not wait.
        if self.connected {
            files.push(PollFd::new(&control, PollFlags::IN));
        }
        let _ = poll(&mut files, self.killing.then_some(&KILL_ROUND));
        // The content does not matter: once it is read, the file is unreadable until the next death.
        let _ = rustix::io::read(&self.deaths, &mut [0; 1024]);
    }

    fn receive_requests(&mut self) {
        if !self.connected {
            return;
        }
        let mut requests = [0; 16];
        match rustix::net::recv(control(), &mut requests, RecvFlags::DONTWAIT) {
            Ok((0, _)) => {
                self.connected = false;
                self.killing = true;
            }
            Ok((n, _)) => requests.iter().take(n).for_each(|request| self.carry_out(*request)),
            Err(_) => {}
        }
    }

    fn carry_out(&mut self, request: u8) {
        if request == Request::Kill as u8 {
            self.killing = true;
        } else if request == Request::Interrupt as u8
            && let Some(engine) = self.engine
        {
            let _ = rustix::process::kill_process(engine, Signal::INT);
        }
    }
}

/// Kills every child and its whole process group.
fn kill_children() {
    let own = rustix::process::getpid().as_raw_nonzero().get();
    for child in processes::all().unwrap_or_default().into_iter().filter(|process| process.stat.parent == own) {
        let _ = rustix::process::kill_process(child.pid, Signal::KILL);
        // A group never spans sessions and the engine began its own, so every member belongs to this run. Killing the whole
        // group at once also kills what forks faster than it can be listed.
        if let Some(group) = Pid::from_raw(child.stat.group).filter(|group| group.as_raw_nonzero().get() != own) {
            let _ = rustix::process::kill_process_group(group, Signal::KILL);
        }
    }
}
