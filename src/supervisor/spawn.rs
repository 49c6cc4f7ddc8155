//! Starts an engine under its shim, and the tasks that feed, read and watch it.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tokio::io::AsyncWriteExt;
use tokio::net::unix::pipe;
use tokio::sync::{mpsc, watch};
use tokio::task::spawn_blocking;

use super::control_group::{ControlGroups, Entry, Group};
use super::egress;
use super::guard::{Resources, guard};
use super::log::Log;
use super::marks::{RUN_MARKER, mark_of};
use super::mask::Mask;
use super::process::{Begin, Kind, Process};
use super::recorder::Recorder;
use super::sandbox::{Network, Sandbox};
use super::shim::{self, EnginesEnds, Failure, Order, ReadOnlyBind, Started};
use super::source::Source;
use super::tmp_dir;
use super::watcher::{Control, Watcher, reap};
use crate::domain::fact::Stream;
use crate::domain::ids::RunId;
use crate::engine::{Launch, Streams};
use crate::files;

/// Outputs that may wait for their owner: with pieces of 64 KiB, about a megabyte per run.
pub(crate) const OUTPUTS_WAITING: usize = 16;

/// An engine to start, with its files and limits.
#[derive(Debug, Clone, Copy)]
pub struct Spec<'a> {
    pub launch: &'a Launch,
    /// The run it belongs to.
    pub run: RunId,
    /// File that standard output is appended to.
    pub stdout_log: &'a Path,
    /// File that standard error is appended to.
    pub stderr_log: &'a Path,
    /// The run's temporary folder, an absolute path; created anew now, removed at the end.
    pub tmp_dir: &'a Path,
    /// Limits of its output.
    pub limits: Limits,
    /// Folders that the engine and everything it starts see read-only at another place; only root can do this.
    pub read_only_binds: &'a [ReadOnlyBind],
    /// What it and everything it starts are confined by.
    pub sandbox: Option<&'a Sandbox>,
    /// What it and everything it starts may use of the machine; left out, what the machine has.
    pub resources: Option<Resources<'a>>,
}

/// Limits of an engine's output.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// More than this on this attempt's standard output is reported once; the owner decides what follows.
    pub stdout_max: Option<u64>,
    /// Length at which a log file stops growing; later output is read, counted and dropped.
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
    /// The system refused the program for another reason.
    #[error("start {program}")]
    Start {
        /// The program as it was named.
        program: String,
        #[source]
        source: io::Error,
    },
    /// The working directory is not there or is no directory.
    #[error("working directory {path}")]
    WorkingDirectory {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    /// A log file could not be opened or read.
    #[error("open log {path}")]
    Log {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    /// The temporary folder could not be created.
    #[error("create temporary folder {path}")]
    TmpDir {
        path: PathBuf,
        #[source]
        source: files::Error,
    },
    /// The system refuses to show the run's processes a folder at another place.
    #[error("bind a folder read-only for run {run}")]
    ReadOnlyBind {
        run: RunId,
        #[source]
        source: io::Error,
    },
    /// The sandbox could not be made, although it could when the service started.
    #[error("make a sandbox for run {run}: {step}")]
    Sandbox {
        run: RunId,
        /// What was tried.
        step: &'static str,
        #[source]
        source: io::Error,
    },
    /// The shim could not be started or did not answer.
    #[error("start the shim for run {run}")]
    Shim {
        run: RunId,
        #[source]
        source: io::Error,
    },
}

/// Makes the process of an engine, which begins with the first [`Process::next`]. From here on its output must be read until
/// it has ended.
///
/// A run whose resources are limited has a control group, where there are any.
pub async fn spawn(spec: Spec<'_>, groups: &ControlGroups) -> Result<Process, Error> {
    let run = spec.run;
    let shim_failed = |source| Error::Shim { run, source };
    let (prepared, groups) = (Prepared::from(spec), groups.clone());
    // Starting waits for another process, and opening a log hashes it: neither may block a runtime thread.
    let started = spawn_blocking(move || prepared.start(&groups)).await;
    let begun = started.map_err(|error| shim_failed(error.into()))??;
    let shim = begun.started.shim;
    let process = attach(spec, begun);
    if process.is_err() {
        // The shim has lost its control socket: it kills the engine and exits.
        reap(shim).await;
        let _ = files::remove_tree(spec.tmp_dir);
    }
    process.map_err(shim_failed)
}

/// A [`Spec`] that owns its data, for another thread.
struct Prepared {
    run: RunId,
    order: Order,
    stdout_log: PathBuf,
    stderr_log: PathBuf,
    tmp_dir: PathBuf,
    log_max: u64,
    streams: Streams,
}

/// An engine that waits at the gate, and what belongs to it.
struct Begun {
    started: Started,
    reading: Reading,
    own_tmp: bool,
    group: Option<Group>,
}

/// The two streams: where they are read from, and their logs.
struct Reading {
    stdout: (Source, Log),
    stderr: (Source, Log),
}

impl From<Spec<'_>> for Prepared {
    fn from(spec: Spec<'_>) -> Self {
        let Launch { argv, env, cwd, stdin: _, polite: _, streams, secrets: _, own_tmp } = spec.launch;
        let given = env.iter().map(|(name, value)| (OsString::from(name), OsString::from(value)));
        let marks = [(RUN_MARKER.into(), spec.run.to_string().into()), ("TMPDIR".into(), spec.tmp_dir.into())];
        // Of two values for one name the later is used.
        let env: BTreeMap<OsString, OsString> = given.chain(marks).collect();
        Prepared {
            run: spec.run,
            order: Order {
                mark: mark_of(spec.run),
                open_files: match spec.resources {
                    Some(resources) => Some(files::open_files_within(resources.limits.open_files)),
                    None => files::inherited_open_files(),
                },
                limits: spec.resources.map(|resources| resources.limits),
                cwd: cwd.clone(),
                binds: spec.read_only_binds.to_vec(),
                tmp: (*own_tmp && spec.sandbox.is_none()).then(|| spec.tmp_dir.to_owned()),
                group: Entry::default(),
                sandbox: spec.sandbox.cloned(),
                argv: argv.iter().map(OsString::from).collect(),
                env: env.into_iter().collect(),
            },
            stdout_log: spec.stdout_log.to_owned(),
            stderr_log: spec.stderr_log.to_owned(),
            tmp_dir: spec.tmp_dir.to_owned(),
            log_max: spec.limits.log_max,
            streams: *streams,
        }
    }
}

impl Prepared {
    fn start(mut self, groups: &ControlGroups) -> Result<Begun, Error> {
        self.check_working_directory()?;
        let (stdout_log, stderr_log) = (self.open_log(&self.stdout_log)?, self.open_log(&self.stderr_log)?);
        tmp_dir::create(&self.tmp_dir).map_err(|source| Error::TmpDir { path: self.tmp_dir.clone(), source })?;
        let group = self.order.limits.and_then(|limits| groups.make(self.run, &limits));
        self.order.group = group.as_ref().map(Group::entry).unwrap_or_default();
        let mut begun = self.start_shim();
        if let Err(Failure::Bind(_)) = &begun
            && self.order.tmp.take().is_some()
        {
            // Only who may mount can give a run a /tmp of its own.
            begun = self.start_shim();
        }
        match begun {
            Ok((started, [stdout, stderr])) => {
                let reading = Reading { stdout: (stdout, stdout_log), stderr: (stderr, stderr_log) };
                let own_tmp = self.order.tmp.is_some() || self.order.sandbox.is_some();
                // The shim goes on without one that it cannot use.
                let group = group.filter(|group| group.holds(started.engine));
                Ok(Begun { started, reading, own_tmp, group })
            }
            Err(failure) => {
                let _ = files::remove_tree(&self.tmp_dir);
                Err(self.refused(failure))
            }
        }
    }

    fn check_working_directory(&self) -> Result<(), Error> {
        // Checked here, because a missing folder and a missing program would give the same error.
        let path = &self.order.cwd;
        let is_folder = std::fs::metadata(path).and_then(|found| match found.is_dir() {
            true => Ok(()),
            false => Err(io::ErrorKind::NotADirectory.into()),
        });
        is_folder.map_err(|source| Error::WorkingDirectory { path: path.clone(), source })
    }

    fn open_log(&self, path: &Path) -> Result<Log, Error> {
        Log::open(path, self.log_max).map_err(|source| Error::Log { path: path.to_owned(), source })
    }

    fn start_shim(&self) -> Result<(Started, [Source; 2]), Failure> {
        let run = self.run.to_string();
        let marks = [(RUN_MARKER, OsStr::new(&run)), ("TMPDIR", self.tmp_dir.as_os_str())];
        let open = || Source::open(self.streams, &self.tmp_dir).map_err(Failure::Shim);
        let ((stdout, engines_stdout), (stderr, engines_stderr)) = (open()?, open()?);
        let written = EnginesEnds { stdout: engines_stdout, stderr: engines_stderr };
        Ok((shim::start(&self.tmp_dir, marks, &self.order, written)?, [stdout, stderr]))
    }

    fn refused(&self, failure: Failure) -> Error {
        let program = self.order.argv.first().map(|program| program.to_string_lossy().into_owned()).unwrap_or_default();
        match failure {
            Failure::Shim(source) => Error::Shim { run: self.run, source },
            Failure::Bind(source) => Error::ReadOnlyBind { run: self.run, source },
            Failure::Sandbox(step, source) => Error::Sandbox { run: self.run, step, source },
            Failure::Engine(source) => match source.kind() {
                io::ErrorKind::NotFound => Error::NotFound { program },
                io::ErrorKind::PermissionDenied => Error::PermissionDenied { program },
                _ => Error::Start { program, source },
            },
        }
    }
}

/// Starts the tasks that feed, read and watch the engine.
fn attach(spec: Spec<'_>, begun: Begun) -> io::Result<Process> {
    let Begun { started, reading, own_tmp, group } = begun;
    let control_group = group.is_some();
    let control = Control::new(started.control)?;
    let stdin = pipe::Sender::from_owned_fd(OwnedFd::from(started.pipes.stdin))?;
    let files = [&reading.stdout, &reading.stderr].map(|(_, log)| log.file());
    let (outputs, receiver) = mpsc::channel(OUTPUTS_WAITING);
    let (kill_at, kill_at_seen) = watch::channel(None);
    let (lease, lease_seen) = watch::channel(None);
    let (tree_gone, tree_gone_seen) = watch::channel(false);
    let (still_open, pipes_open) = mpsc::channel(1);
    let read = |stream, (source, log): (Source, Log), until_limit| {
        let (outputs, mask) = (outputs.clone(), Mask::new(&spec.launch.secrets));
        let recorder = Recorder { stream, log, outputs, until_limit, rewritten: false, mask };
        source.read(recorder, tree_gone_seen.clone(), still_open.clone())
    };
    let stdout = read(Stream::Stdout, reading.stdout, spec.limits.stdout_max)?;
    let stderr = read(Stream::Stderr, reading.stderr, None)?;
    let way_out = Arc::default();
    let served = match spec.sandbox.map(|sandbox| &sandbox.network) {
        Some(Network::Through(rules)) => {
            egress::serve(started.listeners, rules.clone(), outputs.clone(), Arc::clone(&way_out))?
        }
        Some(Network::Machine | Network::None) | None => Vec::new(),
    };
    let watcher = Watcher {
        run: spec.run,
        shim: started.shim,
        engine: started.engine,
        control,
        polite: spec.launch.polite,
        kill_at: kill_at_seen,
        lease: lease_seen,
        stdin: tokio::spawn(feed(stdin, spec.launch.stdin.clone())),
        stdout,
        stderr,
        pipes_open,
        tree_gone,
        tmp_dir: spec.tmp_dir.to_owned(),
        logs: files.clone(),
        outputs: outputs.clone(),
        served,
        guarded: spec
            .resources
            .map(|resources| guard(started.shim, spec.sandbox.is_some(), resources, spec.tmp_dir.to_owned(), group)),
        way_out,
    };
    tokio::spawn(watcher.run());
    Ok(Process {
        pid: started.engine,
        outputs: receiver,
        kill_at,
        lease,
        logs: files,
        begin: Some(Begin::Gate(started.pipes.gate)),
        kind: Kind::Real,
        own_tmp,
        control_group,
    })
}

/// Writes the engine's input and closes the pipe. An engine need not read it.
async fn feed(mut stdin: pipe::Sender, bytes: Vec<u8>) {
    // The engine may have closed its end.
    let _ = stdin.write_all(&bytes).await;
}
