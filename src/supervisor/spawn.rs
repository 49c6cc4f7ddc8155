//! Starts an engine under its shim and sets the readers to work.

use std::ffi::CString;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use rustix::process::Pid;
use tokio::io::AsyncWriteExt;
use tokio::net::unix::pipe;
use tokio::sync::{mpsc, watch};
use tokio::task::spawn_blocking;

use super::keeper::{Control, Keeper, reap};
use super::log::Log;
use super::process::{Process, Stream};
use super::shim::{self, Report};
use super::tee::Tee;
use super::{RUN_MARKER, tmp_dir};
use crate::domain::ids::RunId;
use crate::engine::Launch;

/// Outputs that may wait for their owner: with pieces of 64 KiB, about a megabyte per run.
const OUTPUTS_WAITING: usize = 16;

/// An engine to start, and where its traces go.
#[derive(Debug, Clone, Copy)]
pub struct Spec<'a> {
    /// What to start.
    pub launch: &'a Launch,
    /// The run it belongs to.
    pub run: RunId,
    /// File that standard output is appended to.
    pub stdout_log: &'a Path,
    /// File that standard error is appended to.
    pub stderr_log: &'a Path,
    /// The run's temporary folder; made anew now, removed at the end.
    pub tmp_dir: &'a Path,
    /// How much output is too much.
    pub limits: Limits,
}

/// How much output is too much.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// More than this on this attempt's standard output is reported once; what follows is the owner's choice.
    pub stdout_max: Option<u64>,
    /// Length at which a log file stops growing; what comes then is read, counted and dropped.
    pub log_max: u64,
}

/// Why an engine could not be started. Nothing of it is left but its (perhaps empty) log files.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// There is no such program, or not the interpreter that it names.
    #[error("program {program} not found")]
    NotFound {
        /// The program as it was named.
        program: String,
    },
    /// The program may not be executed.
    #[error("program {program} may not be executed")]
    PermissionDenied {
        /// The program as it was named.
        program: String,
    },
    /// The working directory is not there or is no directory.
    #[error("working directory {path}")]
    WorkingDirectory {
        /// The directory.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// A log file could not be opened or read.
    #[error("open log {path}")]
    Log {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// The temporary folder could not be made.
    #[error("create temporary folder {path}")]
    TmpDir {
        /// The folder.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// The system refused for another reason.
    #[error("start {program}")]
    Start {
        /// The program as it was named.
        program: String,
        /// Why.
        #[source]
        source: io::Error,
    },
}

/// Starts an engine. From here on its output must be read with [`Process::next`] until it has ended.
pub async fn spawn(spec: Spec<'_>) -> Result<Process, Error> {
    let program = spec.launch.argv.first().cloned().unwrap_or_default();
    let start_failed = |source| Error::Start { program: program.clone(), source };
    let prepared = Prepared::from(spec);
    let tmp_dir = prepared.tmp_dir.clone();
    // Forking copies the service's page tables and hashing reads whole files: neither belongs on a runtime thread.
    let started = spawn_blocking(move || prepared.start()).await.map_err(|error| start_failed(error.into()))??;
    let shim = Pid::from_child(&started.shim);
    let process = attach(spec, started).await;
    if process.is_err() {
        // The shim has lost its control socket: it kills the engine and exits.
        reap(shim).await;
        let _ = tmp_dir::remove(&tmp_dir);
    }
    process.map_err(start_failed)
}

/// A spec that owns what it needs, to be carried to another thread.
struct Prepared {
    launch: Launch,
    run: RunId,
    stdout_log: PathBuf,
    stderr_log: PathBuf,
    tmp_dir: PathBuf,
    log_max: u64,
}

/// An engine that runs, before anyone reads its pipes.
struct Started {
    shim: Child,
    control: UnixStream,
    stdout_log: Log,
    stderr_log: Log,
}

impl From<Spec<'_>> for Prepared {
    fn from(spec: Spec<'_>) -> Self {
        Prepared {
            launch: Launch { stdin: Vec::new(), ..spec.launch.clone() },
            run: spec.run,
            stdout_log: spec.stdout_log.to_owned(),
            stderr_log: spec.stderr_log.to_owned(),
            tmp_dir: spec.tmp_dir.to_owned(),
            log_max: spec.limits.log_max,
        }
    }
}

impl Prepared {
    fn start(self) -> Result<Started, Error> {
        self.check_working_directory()?;
        let stdout_log = self.open_log(&self.stdout_log)?;
        let stderr_log = self.open_log(&self.stderr_log)?;
        tmp_dir::create(&self.tmp_dir).map_err(|source| Error::TmpDir { path: self.tmp_dir.clone(), source })?;
        match self.fork_with_retries() {
            Ok((shim, control)) => Ok(Started { shim, control, stdout_log, stderr_log }),
            Err(source) => {
                let _ = tmp_dir::remove(&self.tmp_dir);
                Err(self.refused(source))
            }
        }
    }

    fn check_working_directory(&self) -> Result<(), Error> {
        // Asked beforehand, because its absence would come back as the same error as the program's.
        let path = &self.launch.cwd;
        let is_folder = std::fs::metadata(path).and_then(|found| match found.is_dir() {
            true => Ok(()),
            false => Err(io::ErrorKind::NotADirectory.into()),
        });
        is_folder.map_err(|source| Error::WorkingDirectory { path: path.clone(), source })
    }

    fn open_log(&self, path: &Path) -> Result<Log, Error> {
        Log::open(path, self.log_max).map_err(|source| Error::Log { path: path.to_owned(), source })
    }

    fn refused(&self, source: io::Error) -> Error {
        let program = self.launch.argv.first().cloned().unwrap_or_default();
        match source.kind() {
            io::ErrorKind::NotFound => Error::NotFound { program },
            io::ErrorKind::PermissionDenied => Error::PermissionDenied { program },
            _ => Error::Start { program, source },
        }
    }

    /// A program file that was just written can be "busy": another thread's fork holds a copy of the writer's open
    /// file until its exec. That passes within milliseconds.
    fn fork_with_retries(&self) -> io::Result<(Child, UnixStream)> {
        for _ in 0..50 {
            match self.fork() {
                Err(error) if error.kind() == io::ErrorKind::ExecutableFileBusy => {
                    std::thread::sleep(Duration::from_millis(10));
                }
                other => return other,
            }
        }
        self.fork()
    }

    fn fork(&self) -> io::Result<(Child, UnixStream)> {
        let Some((program, arguments)) = self.launch.argv.split_first() else {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "argv is empty"));
        };
        let (ours, shims) = UnixStream::pair()?;
        let mut command = Command::new(program);
        command.args(arguments).current_dir(&self.launch.cwd);
        command.env_clear().envs(self.launch.env.iter().map(|(name, value)| (name, value)));
        command.env(RUN_MARKER, self.run.to_string()).env("TMPDIR", &self.tmp_dir);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        shim::put_between(&mut command, OwnedFd::from(shims), CString::new(self.tmp_dir.as_os_str().as_bytes())?);
        // The command owns the shim's end of the socket: it is dropped here, so that ours ends when the shim does.
        Ok((command.spawn()?, ours))
    }
}

/// Sets the tasks to work that feed, read and follow the engine.
async fn attach(spec: Spec<'_>, started: Started) -> io::Result<Process> {
    let Started { mut shim, control, stdout_log, stderr_log } = started;
    let mut control = Control::new(control)?;
    let (Some(stdin), Some(stdout), Some(stderr)) = (shim.stdin.take(), shim.stdout.take(), shim.stderr.take()) else {
        return Err(io::ErrorKind::BrokenPipe.into());
    };
    let stdin = pipe::Sender::from_owned_fd(OwnedFd::from(stdin))?;
    let stdout = pipe::Receiver::from_owned_fd(OwnedFd::from(stdout))?;
    let stderr = pipe::Receiver::from_owned_fd(OwnedFd::from(stderr))?;
    let Some(Report::Started(pid)) = control.next().await else {
        return Err(io::Error::other("the shim was killed at the start"));
    };

    let logs = [stdout_log.file(), stderr_log.file()];
    let (outputs, receiver) = mpsc::channel(OUTPUTS_WAITING);
    let (kill_at, kill_at_seen) = watch::channel(None);
    let (tree_gone, tree_gone_seen) = watch::channel(false);
    let (still_open, pipes_open) = mpsc::channel(1);
    let tee = |stream, pipe, log, until_limit| {
        let tree_gone = tree_gone_seen.clone();
        let tee =
            Tee { stream, pipe, log, outputs: outputs.clone(), until_limit, tree_gone, still_open: still_open.clone() };
        tokio::spawn(tee.run())
    };
    let keeper = Keeper {
        run: spec.run,
        shim: Pid::from_child(&shim),
        control,
        polite: spec.launch.polite,
        kill_at: kill_at_seen,
        stdin: tokio::spawn(feed(stdin, spec.launch.stdin.clone())),
        stdout: tee(Stream::Stdout, stdout, stdout_log, spec.limits.stdout_max),
        stderr: tee(Stream::Stderr, stderr, stderr_log, None),
        pipes_open,
        tree_gone,
        tmp_dir: spec.tmp_dir.to_owned(),
        outputs: outputs.clone(),
    };
    tokio::spawn(keeper.run());
    Ok(Process { pid: pid.unsigned_abs(), outputs: receiver, kill_at, logs })
}

/// Writes the engine's input and closes it. An engine need not read it.
async fn feed(mut stdin: pipe::Sender, bytes: Vec<u8>) {
    let _ = stdin.write_all(&bytes).await;
}
