//! A running engine as its owner sees it: it is read, asked to stop, and ends.

use std::future::Future;
use std::io::{self, PipeWriter, Write};
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::Instant;

use super::log::LogFile;
use super::output::Output;
use super::snapshot::{ProcessSnapshot, snapshot};

/// What a running engine is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Processes of this machine.
    Real,
    /// A task that simulates one.
    Simulated,
}

/// Lets an engine begin.
#[derive(Debug)]
pub(crate) enum Begin {
    /// The pipe at which the engine's process waits for a byte.
    Gate(PipeWriter),
    Simulated(oneshot::Sender<()>),
}

impl Begin {
    fn now(self) {
        // An engine that was killed meanwhile does not begin.
        match self {
            Begin::Gate(mut gate) => drop(gate.write_all(b"!")),
            Begin::Simulated(begin) => drop(begin.send(())),
        }
    }
}

/// A running engine. Dropping it kills the whole tree.
#[derive(Debug)]
pub struct Process {
    pub(crate) pid: u32,
    pub(crate) outputs: mpsc::Receiver<Output>,
    pub(crate) kill_at: watch::Sender<Option<Instant>>,
    pub(crate) lease: watch::Sender<Option<Instant>>,
    pub(crate) logs: [Arc<LogFile>; 2],
    /// Until the engine has begun. If this is dropped, it never does.
    pub(crate) begin: Option<Begin>,
    pub(crate) kind: Kind,
    pub(crate) own_tmp: bool,
    pub(crate) control_group: bool,
}

impl Process {
    /// Whether it and everything it starts have a `/tmp` of their own.
    pub fn has_own_tmp(&self) -> bool {
        self.own_tmp
    }

    /// Whether it and everything it starts are in a control group of their own.
    pub fn has_control_group(&self) -> bool {
        self.control_group
    }

    /// The process id of the engine itself.
    pub fn pid(&self) -> u32 {
        self.pid
    }

    /// The next output; `None` after [`Output::Ended`]. Cancel-safe.
    ///
    /// Output that is not taken makes the engine wait: memory stays bounded, and a stopped engine ends
    /// only when its owner reads on.
    ///
    /// The first call lets the engine begin. Before that its process is there, but has not run one instruction of the
    /// engine's program: a start that could not be recorded never happened, and can be repeated.
    pub async fn next(&mut self) -> Option<Output> {
        if let Some(begin) = self.begin.take() {
            begin.now();
        }
        self.outputs.recv().await
    }

    /// The next output, if there is one already.
    pub(crate) fn try_next(&mut self) -> Option<Output> {
        self.outputs.try_recv().ok()
    }

    /// Asks the engine to stop as its `Launch` says; after `grace`, or as soon as the engine has exited, the whole
    /// tree is killed. Returns at once; the end is read with [`Process::next`]. Asking again can only shorten the wait.
    pub fn stop(&self, grace: Duration) {
        let wanted = Instant::now() + grace;
        self.kill_at.send_modify(|at| *at = Some(at.map_or(wanted, |earlier| earlier.min(wanted))));
    }

    /// The whole tree is killed at this moment, in whole seconds from now, unless a later one is said before; also while this process
    /// is stopped, and whoever else keeps it from saying so.
    pub fn live_until(&self, moment: Instant) {
        self.lease.send_replace(Some(moment));
    }

    /// The engine ends without having begun.
    pub(crate) fn never_begin(&mut self) {
        self.begin = None;
    }

    /// Makes every byte yielded so far durable, from this call on; wait for it before appending an event that cites them.
    pub fn sync_logs(&self) -> impl Future<Output = io::Result<()>> + Send + use<> {
        let logs = self.logs.clone();
        let sync = match self.kind {
            _ if logs.iter().all(|log| log.is_synced()) => Ok(Ok(())),
            Kind::Real => Err(tokio::task::spawn_blocking(move || logs.iter().try_for_each(|log| log.sync()))),
            // A simulation has a single thread.
            Kind::Simulated => Ok(logs.iter().try_for_each(|log| log.sync())),
        };
        async {
            match sync {
                Ok(synced) => synced,
                Err(under_way) => under_way.await?,
            }
        }
    }

    /// What its processes are doing right now.
    pub(crate) async fn snapshot(&self) -> Vec<ProcessSnapshot> {
        let engine = self.pid;
        match self.kind {
            Kind::Real => tokio::task::spawn_blocking(move || snapshot(engine)).await.unwrap_or_default(),
            Kind::Simulated => Vec::new(),
        }
    }
}
