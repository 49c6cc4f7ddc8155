//! A short-lived child process: limited in time and output, in its own process group.

use std::io::{self, Read};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::thread;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, Signal, kill_process_group, pidfd_open};

use super::descriptors::restore_open_files;

/// Bytes kept of each stream; the rest is read and dropped.
const OUTPUT_MAX: u64 = 1024 * 1024;
/// How long a stream may stay open after the end, held by a process that left the group.
const LAST_BYTES: Duration = Duration::from_secs(1);

#[derive(Debug)]
pub(crate) struct Output {
    pub(crate) status: ExitStatus,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

/// Why there is no output.
#[derive(Debug, thiserror::Error)]
pub(crate) enum NotRun {
    #[error("cannot be started: {0}")]
    Start(#[source] io::Error),
    #[error("did not end within {} s", .0.as_secs())]
    TimedOut(Duration),
    #[error("cannot be waited for: {0}")]
    Wait(#[source] io::Error),
}

/// Runs a program, without our environment, until it ends or the limit is over.
pub(crate) fn run(
    program: &[String],
    arguments: &[&str],
    env: &[(&str, String)],
    folder: &Path,
    limit: Duration,
) -> Result<Output, NotRun> {
    let [first, rest @ ..] = program else { return Err(NotRun::Start(io::ErrorKind::InvalidInput.into())) };
    let mut command = Command::new(first);
    command.args(rest).args(arguments).env_clear().envs(env.iter().map(|(name, value)| (name, value)));
    output(command.current_dir(folder), limit)
}

/// The same with a command that has its environment and folder.
pub(crate) fn output(command: &mut Command, limit: Duration) -> Result<Output, NotRun> {
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = start(command.process_group(0)).map_err(NotRun::Start)?;
    let readers = child.stdout.take().map(reader).transpose().and_then(|stdout| {
        let stderr = child.stderr.take().map(reader).transpose()?;
        Ok((stdout, stderr))
    });
    let (stdout, stderr) = readers.or_else(|error| {
        // There is no thread to read what it says.
        wait(&mut child, Duration::ZERO).and(Err(NotRun::Start(error)))
    })?;
    let status = wait(&mut child, limit)?;
    Ok(Output { status, stdout: text(stdout), stderr: text(stderr) })
}

/// Starts a program with the limit of open files that this process was started with.
pub(crate) fn start(command: &mut Command) -> io::Result<Child> {
    // SAFETY: the closure makes one system call and allocates nothing.
    unsafe { command.pre_exec(restore_open_files) };
    command.spawn()
}

/// Waits for a child with its own process group; at the limit the whole group is killed.
pub(crate) fn wait(child: &mut Child, limit: Duration) -> Result<ExitStatus, NotRun> {
    let ended = has_ended(child, Instant::now() + limit);
    if let Some(group) = i32::try_from(child.id()).ok().and_then(Pid::from_raw) {
        // Also after a normal exit, since it may have left processes. Until it is waited for, its id is not reused.
        let _ = kill_process_group(group, Signal::KILL);
    }
    let status = child.wait().map_err(NotRun::Wait)?;
    match ended {
        Ok(true) => Ok(status),
        Ok(false) => Err(NotRun::TimedOut(limit)),
        Err(error) => Err(NotRun::Wait(error)),
    }
}

fn has_ended(child: &Child, deadline: Instant) -> io::Result<bool> {
    let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw).ok_or(io::ErrorKind::InvalidInput)?;
    let handle = pidfd_open(pid, PidfdFlags::empty())?;
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        let timeout = Timespec::try_from(left).map_err(io::Error::other)?;
        match poll(&mut [PollFd::new(&handle, PollFlags::IN)], Some(&timeout)) {
            Ok(ready) => return Ok(ready > 0),
            Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

fn reader(mut stream: impl Read + Send + 'static) -> io::Result<Receiver<Vec<u8>>> {
    let (sender, receiver) = mpsc::channel();
    thread::Builder::new().spawn(move || {
        let mut kept = Vec::new();
        // After a read error, what was read so far is kept.
        let _ = stream.by_ref().take(OUTPUT_MAX).read_to_end(&mut kept);
        // A receiver that is gone has stopped waiting.
        let _ = sender.send(kept);
        let _ = io::copy(&mut stream, &mut io::sink());
    })?;
    Ok(receiver)
}

fn text(stream: Option<Receiver<Vec<u8>>>) -> String {
    let bytes = stream.and_then(|stream| stream.recv_timeout(LAST_BYTES).ok()).unwrap_or_default();
    String::from_utf8_lossy(&bytes).into_owned()
}
