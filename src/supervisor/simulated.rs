//! A simulated engine for tests: real log files and the real transfer of output, but no process.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::Instant;

use super::log::{Log, LogFile};
use super::mask::Mask;
use super::output::{Ended, Output};
use super::process::{Begin, Kind, Process};
use super::recorder::Recorder;
use super::spawn::{Error, OUTPUTS_WAITING, Spec};
use super::tmp_dir;
use crate::domain::fact::Stream;
use crate::engine::{ProcessExit, WayOut};
use crate::files;

/// The engine's side of a simulated process: a test writes its output and reads its requests. If it is dropped before
/// [`SimulatedEngine::end`], the owner sees an engine whose watcher is gone.
pub struct SimulatedEngine {
    stdout: Recorder,
    stderr: Recorder,
    outputs: mpsc::Sender<Output>,
    kill_at: watch::Receiver<Option<Instant>>,
    lease: watch::Receiver<Option<Instant>>,
    begun: Option<oneshot::Receiver<()>>,
    tmp_dir: PathBuf,
}

/// A log file of a simulated engine; it stays usable after the engine's end.
#[derive(Debug, Clone)]
pub struct SimulatedLog(Arc<LogFile>);

impl SimulatedLog {
    /// How many of its bytes would survive a power cut, by its syncs alone.
    pub fn synced(&self) -> u64 {
        self.0.synced()
    }
}

impl SimulatedEngine {
    /// Starts one: the process as its owner sees it, and the engine's side.
    pub fn start(spec: Spec<'_>, pid: u32) -> Result<(Process, Self), Error> {
        let open = |path: &Path| {
            Log::open(path, spec.limits.log_max).map_err(|source| Error::Log { path: path.to_owned(), source })
        };
        let (stdout, stderr) = (open(spec.stdout_log)?, open(spec.stderr_log)?);
        tmp_dir::create(spec.tmp_dir).map_err(|source| Error::TmpDir { path: spec.tmp_dir.to_owned(), source })?;
        let logs = [stdout.file(), stderr.file()];
        let (outputs, receiver) = mpsc::channel(OUTPUTS_WAITING);
        let (begin, begun) = oneshot::channel();
        let (kill_at, kill_at_seen) = watch::channel(None);
        let (lease, lease_seen) = watch::channel(None);
        let recorder = |stream, log, until_limit| {
            let outputs = outputs.clone();
            Recorder { stream, log, outputs, until_limit, rewritten: false, mask: Mask::new(&spec.launch.secrets) }
        };
        let engine = Self {
            stdout: recorder(Stream::Stdout, stdout, spec.limits.stdout_max),
            stderr: recorder(Stream::Stderr, stderr, None),
            outputs: outputs.clone(),
            kill_at: kill_at_seen,
            lease: lease_seen,
            begun: Some(begun),
            tmp_dir: spec.tmp_dir.to_owned(),
        };
        let begin = Some(Begin::Simulated(begin));
        Ok((
            Process {
                pid,
                outputs: receiver,
                kill_at,
                lease,
                logs,
                begin,
                kind: Kind::Simulated,
                own_tmp: false,
                control_group: false,
            },
            engine,
        ))
    }

    /// Waits until the engine may begin; whether it may.
    pub async fn may_begin(&mut self) -> bool {
        match self.begun.take() {
            Some(begun) => begun.await.is_ok(),
            None => true,
        }
    }

    /// Writes output; waits while its owner does not read.
    pub async fn write(&mut self, stream: Stream, bytes: Bytes) {
        match stream {
            Stream::Stdout | Stream::Pty => self.stdout.record(bytes).await,
            Stream::Stderr => self.stderr.record(bytes).await,
        }
    }

    /// The two log files, standard output first.
    pub fn files(&self) -> [SimulatedLog; 2] {
        [&self.stdout, &self.stderr].map(|recorder| SimulatedLog(recorder.log.file()))
    }

    /// Waits until the engine is asked to stop, or its owner is gone; returns how long it may still take.
    pub async fn asked_to_stop(&mut self) -> Duration {
        let asked = async {
            match self.kill_at.wait_for(Option::is_some).await.map(|at| *at) {
                Ok(Some(at)) => at.saturating_duration_since(Instant::now()),
                Ok(None) | Err(_) => Duration::ZERO,
            }
        };
        tokio::select! {
            biased;
            left = asked => left,
            () = self.outputs.closed() => Duration::ZERO,
        }
    }

    /// When a shim would kill the engine, whatever its owner does; `None` as long as nothing was said.
    pub fn lease(&self) -> watch::Receiver<Option<Instant>> {
        self.lease.clone()
    }

    /// The end of the engine and of everything it started.
    pub async fn end(self, exit: ProcessExit, stragglers_killed: u32) {
        let Self { stdout, stderr, outputs, tmp_dir, .. } = self;
        // What cannot be removed is removed by the next start.
        let _ = files::remove_tree(&tmp_dir);
        let (stdout, stderr) = (stdout.finish().await, stderr.finish().await);
        let way_out = WayOut::default();
        let ended = Ended { exit, stdout, stderr, stragglers_killed, exceeded: None, way_out };
        // The owner may be gone.
        let _ = outputs.send(Output::Ended(ended)).await;
    }
}
