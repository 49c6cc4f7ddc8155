//! The service's side of a start: a shim, its pipes, an order, and the shim's first report.

use std::ffi::OsStr;
use std::io::{self, IoSlice, IoSliceMut, PipeWriter, Write};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use rustix::io::Errno;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage, SendFlags,
    recvmsg, sendmsg,
};
use rustix::process::{Pid, Signal, kill_process};
use skill_runner_shim::wire::{FILES, NAME, PORTS_MAX, Report, SandboxStep};

use super::order::Order;
use super::program;
use crate::files;

/// A shim that does not report is sent SIGCONT after this time, and given up after this many times.
const WAKE_AFTER: Duration = Duration::from_millis(500);
const WAKE_TIMES: u32 = 60;

/// An engine that is ready to begin, before anyone reads its pipes. Dropping it closes the control socket, so the engine dies.
#[derive(Debug)]
pub(crate) struct Started {
    pub(crate) shim: Pid,
    pub(crate) engine: u32,
    pub(crate) control: UnixStream,
    pub(crate) pipes: Pipes,
    /// Sockets that listen in the run's network namespace, in the order of the ports.
    pub(crate) listeners: Vec<OwnedFd>,
}

/// The service's ends of an engine's pipes.
#[derive(Debug)]
pub(crate) struct Pipes {
    /// A byte written here lets the engine begin.
    pub(crate) gate: PipeWriter,
    pub(crate) stdin: PipeWriter,
}

/// What the engine writes to.
#[derive(Debug)]
pub(crate) struct EnginesEnds {
    pub(crate) stdout: OwnedFd,
    pub(crate) stderr: OwnedFd,
}

/// What could not be started.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The shim, or its control socket.
    Shim(io::Error),
    Engine(io::Error),
    /// A folder could not be bound.
    Bind(io::Error),
    /// The sandbox could not be made: what was tried, and why not.
    Sandbox(&'static str, io::Error),
}

/// Starts a shim that makes the engine's process. Blocks until it is ready or was refused.
///
/// The shim works in the run's temporary folder and has its markers, so that a sweep finds it like any process of the run.
pub(crate) fn start(
    cwd: &Path,
    markers: [(&str, &OsStr); 2],
    order: &Order,
    written: EnginesEnds,
) -> Result<Started, Failure> {
    let order = order.encode().map_err(Failure::Engine)?;
    let (mut control, shims_end) = UnixStream::pair().map_err(Failure::Shim)?;
    // The order is there before the shim, which then waits for nothing.
    let (pipes, sent) = send_order(&control, &order, written).map_err(Failure::Shim)?;
    let mut command = Command::new(program::path().map_err(Failure::Shim)?);
    command.arg0(NAME).args(markers.first().map(|(_, run)| run)).env_clear().envs(markers).current_dir(cwd);
    command.stdin(OwnedFd::from(shims_end)).stdout(Stdio::null()).stderr(Stdio::null());
    let mut shim = command.spawn().map_err(|error| Failure::Shim(files::not_started(error)))?;
    // The command owns a copy of the shim's end; without it, the socket closes when the shim exits.
    drop(command);
    let report = control.write_all(order.get(sent..).unwrap_or_default());
    let report = report.and_then(|()| first_report(&shim, &mut control)).map_err(Failure::Shim);
    let engine = report.and_then(|(report, listeners)| match report {
        Some(Report::Ready(engine)) => Ok((engine.unsigned_abs(), listeners)),
        Some(Report::Refused(error)) => Err(Failure::Engine(cause(error))),
        Some(Report::BindRefused(error)) => Err(Failure::Bind(io::Error::from_raw_os_error(error))),
        Some(Report::SandboxRefused(refused)) => {
            let (step, error) = SandboxStep::read(refused);
            Err(Failure::Sandbox(step, cause(error)))
        }
        Some(Report::EngineEnded(_) | Report::Gone(_)) | None => Err(Failure::Shim(io::ErrorKind::InvalidData.into())),
    });
    match engine {
        Ok((engine, listeners)) => Ok(Started { shim: Pid::from_child(&shim), engine, control, pipes, listeners }),
        Err(failure) => {
            // It has exited, or will do so now that its control socket is closed.
            drop(control);
            let _ = kill_process(Pid::from_child(&shim), Signal::CONT);
            let _ = shim.wait();
            Err(failure)
        }
    }
}

/// Why the shim could not start what it was told to.
fn cause(error: i32) -> io::Error {
    files::not_started(io::Error::from_raw_os_error(error))
}

/// Sends as much of the order as the socket holds, and with it the engine's ends of its streams. Gives the new pipes and the
/// length of what was sent.
fn send_order(control: &UnixStream, order: &[u8], written: EnginesEnds) -> io::Result<(Pipes, usize)> {
    let (engines_stdin, stdin) = io::pipe()?;
    let (engines_gate, gate) = io::pipe()?;
    let files: [BorrowedFd<'_>; FILES] =
        [engines_stdin.as_fd(), written.stdout.as_fd(), written.stderr.as_fd(), engines_gate.as_fd()];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(FILES))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    ancillary.push(SendAncillaryMessage::ScmRights(&files));
    let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
    let sent = sendmsg(control, &[IoSlice::new(order)], &mut ancillary, flags)?;
    // The engine's ends are closed here: a pipe ends only when nobody else holds them.
    Ok((Pipes { gate, stdin }, sent))
}

/// Waits for the shim's first report, and the sockets that come with it. An engine can stop its shim before that, so the shim is
/// sent SIGCONT repeatedly.
fn first_report(shim: &Child, control: &mut UnixStream) -> io::Result<(Option<Report>, Vec<OwnedFd>)> {
    control.set_read_timeout(Some(WAKE_AFTER))?;
    let mut report = [0; Report::LEN];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(PORTS_MAX))];
    for _ in 0..WAKE_TIMES {
        let mut ancillary = RecvAncillaryBuffer::new(&mut space);
        let flags = RecvFlags::CMSG_CLOEXEC | RecvFlags::WAITALL;
        match recvmsg(&*control, &mut [IoSliceMut::new(&mut report)], &mut ancillary, flags) {
            Ok(received) if received.bytes == Report::LEN => {
                let mut listeners = Vec::new();
                for message in ancillary.drain() {
                    if let RecvAncillaryMessage::ScmRights(files) = message {
                        listeners.extend(files);
                    }
                }
                return Ok((Report::decode(report), listeners));
            }
            Ok(_) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Err(Errno::AGAIN) => {
                let _ = kill_process(Pid::from_child(shim), Signal::CONT);
            }
            Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Err(io::ErrorKind::TimedOut.into())
}
