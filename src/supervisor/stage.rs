//! An engine that is only played: real log files and the real hand-over of output, but no process behind them.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::Instant;

use super::log::{Log, LogFile};
use super::process::{Ended, Exit, Kind, Output, Process, Stream};
use super::recorder::Recorder;
use super::spawn::{Error, OUTPUTS_WAITING, Spec};
use super::tmp_dir;

/// The side of a played engine that its owner does not see: what it says and hears. Dropped before its end, it is
/// an engine whose supervisor is gone.
pub struct Stage {
    stdout: Recorder,
    stderr: Recorder,
    outputs: mpsc::Sender<Output>,
    kill_at: watch::Receiver<Option<Instant>>,
    told: Option<oneshot::Receiver<()>>,
    tmp_dir: PathBuf,
}

/// A log file of a played engine; it can be asked after its stage is gone.
#[derive(Debug, Clone)]
pub struct PlayedLog(Arc<LogFile>);

impl PlayedLog {
    /// How many of its bytes would survive a power cut, by its syncs alone.
    pub fn synced(&self) -> u64 {
        self.0.synced()
    }
}

impl Stage {
    /// An engine as its owner sees it, and its stage.
    pub fn open(spec: Spec<'_>, pid: u32) -> Result<(Process, Stage), Error> {
        let open = |path: &Path| {
            Log::open(path, spec.limits.log_max).map_err(|source| Error::Log { path: path.to_owned(), source })
        };
        let (stdout, stderr) = (open(spec.stdout_log)?, open(spec.stderr_log)?);
        tmp_dir::create(spec.tmp_dir).map_err(|source| Error::TmpDir { path: spec.tmp_dir.to_owned(), source })?;
        let logs = [stdout.file(), stderr.file()];
        let (outputs, receiver) = mpsc::channel(OUTPUTS_WAITING);
        let (input, told) = oneshot::channel();
        let (kill_at, kill_at_seen) = watch::channel(None);
        let recorder = |stream, log, until_limit| Recorder { stream, log, outputs: outputs.clone(), until_limit };
        let stage = Stage {
            stdout: recorder(Stream::Stdout, stdout, spec.limits.stdout_max),
            stderr: recorder(Stream::Stderr, stderr, None),
            outputs: outputs.clone(),
            kill_at: kill_at_seen,
            told: Some(told),
            tmp_dir: spec.tmp_dir.to_owned(),
        };
        Ok((Process { pid, outputs: receiver, kill_at, logs, input: Some(input), kind: Kind::Played }, stage))
    }

    /// Waits for the engine's input; whether it came.
    pub async fn told(&mut self) -> bool {
        match self.told.take() {
            Some(told) => told.await.is_ok(),
            None => true,
        }
    }

    /// Says something, as far as its owner reads.
    pub async fn say(&mut self, stream: Stream, bytes: Bytes) {
        match stream {
            Stream::Stdout | Stream::Pty => self.stdout.take(bytes).await,
            Stream::Stderr => self.stderr.take(bytes).await,
        }
    }

    /// The two log files, standard output first.
    pub fn files(&self) -> [PlayedLog; 2] {
        [&self.stdout, &self.stderr].map(|recorder| PlayedLog(recorder.log.file()))
    }

    /// Waits until the engine is asked to stop: how long it may still take, or at once when its owner is gone.
    pub async fn asked_to_stop(&mut self) -> Duration {
        let asked = async {
            match self.kill_at.wait_for(Option::is_some).await.map(|at| *at) {
                Ok(Some(at)) => at.saturating_duration_since(Instant::now()),
                Ok(None) | Err(_) => Duration::ZERO,
            }
        };
        tokio::select! {
            biased;
            patience = asked => patience,
            () = self.outputs.closed() => Duration::ZERO,
        }
    }

    /// The end of the engine and of everything it started.
    pub async fn end(self, exit: Exit, stragglers_killed: u32) {
        let Stage { stdout, stderr, outputs, tmp_dir, .. } = self;
        // What cannot be removed is swept at the next start.
        let _ = tmp_dir::remove(&tmp_dir);
        let ended = Ended { exit, stdout: stdout.totals(), stderr: stderr.totals(), stragglers_killed };
        // Nobody may be left to hear it.
        let _ = outputs.send(Output::Ended(ended)).await;
    }
}
