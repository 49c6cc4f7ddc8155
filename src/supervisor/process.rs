//! A running engine as its owner sees it: output to read, a stop to ask for, an end.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::Instant;

use super::glimpse::{Glimpse, glimpse};
use super::log::LogFile;

pub use crate::domain::fact::Stream;

/// What a running engine has to tell, in the order it happened on each stream.
#[derive(Debug)]
pub enum Output {
    /// Bytes that are now in the stream's log file.
    Chunk {
        /// Where they came from.
        stream: Stream,
        /// Where they begin in the log file; offsets go on over the attempts of a run.
        from: u64,
        /// The bytes as they were read.
        bytes: Bytes,
    },
    /// Standard output has passed `Limits::stdout_max`; said once, reading goes on.
    StdoutLimitExceeded,
    /// A log file could not be written; said once, and nothing more of that stream is kept.
    LogFailed {
        /// The stream whose log failed.
        stream: Stream,
        /// Why.
        error: io::Error,
    },
    /// The last: the pipes are drained, every process of the run is gone and reaped, its temporary folder is removed.
    Ended(Ended),
}

/// How an engine ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exit {
    /// It exited with this code.
    Code(i32),
    /// It was ended by this signal.
    Signal(i32),
    /// Its shim was killed from outside, and the engine's status was lost with it.
    Unknown,
}

/// What is left of one stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StreamTotals {
    /// Length of the log file, over all attempts.
    pub bytes: u64,
    /// SHA-256 of the whole log file, in lower-case hex.
    pub sha256: String,
    /// Bytes of this attempt that were read but not kept.
    pub dropped: u64,
}

/// The end of one engine process and of everything it started.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ended {
    /// How the engine itself ended.
    pub exit: Exit,
    /// Standard output.
    pub stdout: StreamTotals,
    /// Standard error.
    pub stderr: StreamTotals,
    /// Processes other than the engine that had to be killed.
    pub stragglers_killed: u32,
}

/// What stands behind a running engine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// Processes of this machine.
    Real,
    /// A task that plays one.
    Played,
}

/// A running engine. Dropping it kills the whole tree.
#[derive(Debug)]
pub struct Process {
    pub(super) pid: u32,
    pub(super) outputs: mpsc::Receiver<Output>,
    pub(super) kill_at: watch::Sender<Option<Instant>>,
    pub(super) logs: [Arc<LogFile>; 2],
    /// Lets the input go; dropped, it never goes.
    pub(super) input: Option<oneshot::Sender<()>>,
    pub(super) kind: Kind,
}

impl Process {
    /// The process id of the engine itself.
    pub fn pid(&self) -> u32 {
        self.pid
    }

    /// The next output; `None` after [`Output::Ended`]. Cancel-safe.
    ///
    /// Output that is not taken makes the engine wait: memory stays bounded, and a stopped engine ends
    /// only when its owner reads on.
    ///
    /// The first call gives the engine its input. Until then it has been told nothing, so a start that is not on
    /// record can be made again.
    pub async fn next(&mut self) -> Option<Output> {
        if let Some(input) = self.input.take() {
            // An engine that has gone needs no input.
            let _ = input.send(());
        }
        self.outputs.recv().await
    }

    /// The next output, if there is one already.
    pub fn try_next(&mut self) -> Option<Output> {
        self.outputs.try_recv().ok()
    }

    /// Asks the engine to stop as its `Launch` says; after `grace`, or as soon as the engine has exited, the whole
    /// tree is killed. Returns at once; the end is read with [`Process::next`]. Asking again can only shorten the wait.
    pub fn stop(&self, grace: Duration) {
        let wanted = Instant::now() + grace;
        self.kill_at.send_modify(|at| *at = Some(at.map_or(wanted, |earlier| earlier.min(wanted))));
    }

    /// The engine is to end without having been told anything.
    pub fn withhold_input(&mut self) {
        self.input = None;
    }

    /// Makes every byte yielded so far durable; call it before appending an event that cites them.
    pub async fn sync_logs(&self) -> io::Result<()> {
        if self.logs.iter().all(|log| log.is_synced()) {
            return Ok(());
        }
        let logs = self.logs.clone();
        match self.kind {
            Kind::Real => tokio::task::spawn_blocking(move || logs.iter().try_for_each(|log| log.sync())).await?,
            // A simulated world has a single thread.
            Kind::Played => logs.iter().try_for_each(|log| log.sync()),
        }
    }

    /// What its processes are doing right now.
    pub async fn glimpse(&self) -> Vec<Glimpse> {
        let engine = self.pid;
        match self.kind {
            Kind::Real => tokio::task::spawn_blocking(move || glimpse(engine)).await.unwrap_or_default(),
            Kind::Played => Vec::new(),
        }
    }
}
