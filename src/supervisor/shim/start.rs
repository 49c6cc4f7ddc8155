//! The service's side of a start: a shim, three pipes, an order, and the shim's first report.

use std::ffi::OsStr;
use std::io::{self, IoSlice, PipeReader, PipeWriter, Read, Write};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};
use rustix::process::{Pid, Signal, kill_process};

use super::orphans;
use super::wire::{NAME, Order, Report};
use crate::files;

/// A shim that does not report is sent SIGCONT after this time, and given up after this many times.
const WAKE_AFTER: Duration = Duration::from_millis(500);
const WAKE_TIMES: u32 = 60;

/// An engine that runs, before anyone reads its pipes. Dropping it closes the control socket, so the engine dies.
#[derive(Debug)]
pub(crate) struct Started {
    pub(crate) shim: Pid,
    pub(crate) engine: u32,
    pub(crate) control: UnixStream,
    pub(crate) stdin: PipeWriter,
    pub(crate) stdout: PipeReader,
    pub(crate) stderr: PipeReader,
}

/// What could not be started.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The shim, or its control socket.
    Shim(io::Error),
    Engine(io::Error),
}

/// Starts a shim that starts the engine. Blocks until the engine runs or was refused.
///
/// The shim works in the run's temporary folder and has its markers, so that a sweep finds it like any process of the run.
pub(crate) fn start(
    program: &Path,
    cwd: &Path,
    markers: [(&str, &OsStr); 2],
    order: &Order,
) -> Result<Started, Failure> {
    let order = order.encode().map_err(Failure::Engine)?;
    let (control, shims_end) = UnixStream::pair().map_err(Failure::Shim)?;
    let mut command = Command::new(program);
    command.arg0(NAME).args(markers.first().map(|(_, run)| run)).env_clear().envs(markers).current_dir(cwd);
    command.stdin(OwnedFd::from(shims_end)).stdout(Stdio::null()).stderr(Stdio::null());
    let mut shim = orphans::spawn(&mut command).map_err(Failure::Shim)?;
    // The command owns a copy of the shim's end; without it, the socket closes when the shim exits.
    drop(command);
    let started = give_order(&shim, control, &order);
    if started.is_err() {
        // It has exited, or will do so now that its control socket is closed.
        let _ = kill_process(Pid::from_child(&shim), Signal::CONT);
        let _ = shim.wait();
        orphans::reaped(Pid::from_child(&shim));
    }
    started
}

fn give_order(shim: &Child, mut control: UnixStream, order: &[u8]) -> Result<Started, Failure> {
    // It waits for its order, so nothing has been opened yet.
    files::restore_open_files_of(Pid::from_child(shim)).map_err(Failure::Shim)?;
    let talk = |control: &mut UnixStream| -> io::Result<(Option<Report>, PipeWriter, PipeReader, PipeReader)> {
        let (engines_stdin, stdin) = io::pipe()?;
        let (stdout, engines_stdout) = io::pipe()?;
        let (stderr, engines_stderr) = io::pipe()?;
        send(control, order, &[engines_stdin.as_fd(), engines_stdout.as_fd(), engines_stderr.as_fd()])?;
        // The engine's ends are closed here: a pipe ends only when nobody else holds them.
        drop((engines_stdin, engines_stdout, engines_stderr));
        Ok((first_report(shim, control)?, stdin, stdout, stderr))
    };
    let (report, stdin, stdout, stderr) = talk(&mut control).map_err(Failure::Shim)?;
    match report {
        Some(Report::Started(engine)) => {
            let (shim, engine) = (Pid::from_child(shim), engine.unsigned_abs());
            Ok(Started { shim, engine, control, stdin, stdout, stderr })
        }
        Some(Report::Refused(error)) => Err(Failure::Engine(io::Error::from_raw_os_error(error))),
        Some(Report::EngineEnded(_) | Report::Gone(_)) | None => Err(Failure::Shim(io::ErrorKind::InvalidData.into())),
    }
}

/// Waits for the shim's first report. An engine can stop its shim before that, so the shim is sent SIGCONT repeatedly.
fn first_report(shim: &Child, control: &mut UnixStream) -> io::Result<Option<Report>> {
    control.set_read_timeout(Some(WAKE_AFTER))?;
    let mut report = [0; Report::LEN];
    for _ in 0..WAKE_TIMES {
        match control.read_exact(&mut report) {
            Ok(()) => return Ok(Report::decode(report)),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                let _ = kill_process(Pid::from_child(shim), Signal::CONT);
            }
            Err(error) => return Err(error),
        }
    }
    Err(io::ErrorKind::TimedOut.into())
}

/// The files travel with the first bytes.
fn send(control: &mut UnixStream, order: &[u8], files: &[BorrowedFd<'_>]) -> io::Result<()> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(3))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    ancillary.push(SendAncillaryMessage::ScmRights(files));
    let sent = sendmsg(&*control, &[IoSlice::new(order)], &mut ancillary, SendFlags::NOSIGNAL)?;
    control.write_all(order.get(sent..).unwrap_or_default())
}
