//! Watches one engine from its start to the end of its whole process tree.

use std::future::pending;
use std::io;
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::ExitStatus;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::{Buf, BytesMut};
use rustix::process::{Pid, Signal, WaitOptions, kill_process, waitpid};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;
use tokio::sync::{mpsc, watch};
use tokio::task::{JoinHandle, spawn_blocking};
use tokio::time::{Instant, interval, sleep_until, timeout};
use tracing::warn;

use super::guard::Guarded;
use super::log::LogFile;
use super::output::{Ended, Output, StreamTotals};
use super::shim::{Report, Request, lease};
use super::{processes, sweep};
use crate::domain::fact::Stream;
use crate::domain::ids::RunId;
use crate::domain::resources::Exceeded;
use crate::engine::{PoliteSignal, ProcessExit, WayOut};
use crate::files;

/// How long output may still come from others after the engine itself has exited.
const LINGER: Duration = Duration::from_millis(500);

/// How often a shim is sent SIGCONT: an engine can stop its shim, which could then never report the engine's end.
const WAKE_EVERY: Duration = Duration::from_secs(1);

/// How long killed processes may take to be gone. The kernel can keep a process longer, but its run must end.
const KILL_TIMEOUT: Duration = Duration::from_secs(20);

/// The service's end of a shim's control socket.
pub(crate) struct Control {
    socket: UnixStream,
    unread: BytesMut,
}

impl Control {
    pub(crate) fn new(socket: std::os::unix::net::UnixStream) -> io::Result<Control> {
        socket.set_nonblocking(true)?;
        Ok(Control { socket: UnixStream::from_std(socket)?, unread: BytesMut::new() })
    }

    /// The next report; `None` when the shim is gone. Cancel-safe.
    async fn next(&mut self) -> Option<Report> {
        loop {
            if let Some(report) = self.unread.first_chunk() {
                let report = Report::decode(*report);
                self.unread.advance(Report::LEN);
                return report;
            }
            match self.socket.read_buf(&mut self.unread).await {
                Ok(0) | Err(_) => return None,
                Ok(_) => {}
            }
        }
    }

    /// How many processes had to be killed before none was left; `None` when the shim does not say it. Cancel-safe.
    async fn gone(&mut self) -> Option<u32> {
        loop {
            match self.next().await? {
                Report::Gone(killed) => return Some(killed.unsigned_abs()),
                Report::EngineEnded(_)
                | Report::Ready(_)
                | Report::Refused(_)
                | Report::BindRefused(_)
                | Report::SandboxRefused(_) => {}
            }
        }
    }

    async fn ask(&mut self, request: Request) {
        self.say(request as u8).await;
    }

    async fn say(&mut self, word: u8) {
        // A shim that has exited left no process behind.
        let _ = self.socket.write_all(&[word]).await;
    }
}

/// The task that watches one engine.
pub(crate) struct Watcher {
    pub(crate) run: RunId,
    pub(crate) shim: Pid,
    pub(crate) engine: u32,
    pub(crate) control: Control,
    pub(crate) polite: PoliteSignal,
    pub(crate) kill_at: watch::Receiver<Option<Instant>>,
    /// Until when the run may go on, unless there is a later word.
    pub(crate) lease: watch::Receiver<Option<Instant>>,
    pub(crate) stdin: JoinHandle<()>,
    pub(crate) stdout: JoinHandle<StreamTotals>,
    pub(crate) stderr: JoinHandle<StreamTotals>,
    /// Yields nothing, and ends when both streams have.
    pub(crate) pipes_open: mpsc::Receiver<()>,
    pub(crate) tree_gone: watch::Sender<bool>,
    pub(crate) tmp_dir: PathBuf,
    pub(crate) logs: [Arc<LogFile>; 2],
    pub(crate) outputs: mpsc::Sender<Output>,
    /// The proxy of the run.
    pub(crate) served: Vec<JoinHandle<()>>,
    /// The watch over what it uses, where that is limited.
    pub(crate) guarded: Option<Guarded>,
    pub(crate) way_out: Arc<Mutex<WayOut>>,
}

impl Watcher {
    /// Ends with [`Output::Ended`], when nothing of the run is left.
    pub(crate) async fn run(mut self) {
        let exit = self.until_the_engine_exits().await;
        let gone = if exit.is_some() { self.wait_for_others().await } else { None };
        let (exit_of_killed, stragglers_killed) = self.kill_the_tree(gone).await;
        let exit = exit.or(exit_of_killed).unwrap_or(ProcessExit::Unknown);
        // If the receivers are gone, they have read their pipes to the end.
        let _ = self.tree_gone.send(true);
        self.stdin.abort();
        self.served.iter().for_each(JoinHandle::abort);
        let (Ok(mut stdout), Ok(mut stderr)) = ((&mut self.stdout).await, (&mut self.stderr).await) else {
            // Only the runtime's shutdown cancels the readers, and then the owner is gone too.
            return;
        };
        let exceeded = self.verdict(exit).await;
        self.tidy([&mut stdout, &mut stderr]).await;
        let way_out = self.way_out.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let ended = Ended { exit, stdout, stderr, stragglers_killed, exceeded, way_out };
        let _ = self.outputs.send(Output::Ended(ended)).await;
    }

    /// How the engine itself ended; `None` when it has to be killed, or the shim was.
    async fn until_the_engine_exits(&mut self) -> Option<ProcessExit> {
        let mut asked = false;
        let mut kill_at = None;
        let mut wake = interval(WAKE_EVERY);
        loop {
            tokio::select! {
                report = self.control.next() => match report {
                    Some(Report::EngineEnded(status)) => return Some(exit(status)),
                    Some(Report::Ready(_) | Report::Refused(_) | Report::BindRefused(_) | Report::SandboxRefused(_)) => {}
                    Some(Report::Gone(_)) | None => return None,
                },
                changed = self.kill_at.changed() => {
                    if changed.is_err() {
                        // The owner is gone, and nobody would read what the engine writes while it stops.
                        return None;
                    }
                    kill_at = *self.kill_at.borrow_and_update();
                    if !asked {
                        asked = true;
                        self.ask_to_stop().await;
                    }
                }
                Ok(()) = self.lease.changed() => {
                    let until = *self.lease.borrow_and_update();
                    if let Some(until) = until {
                        self.control.say(lease(until.saturating_duration_since(Instant::now()).as_secs())).await;
                    }
                }
                _ = wake.tick() => {
                    // The shim is a child of this process that is not reaped yet, so its pid cannot mean another process.
                    let _ = kill_process(self.shim, Signal::CONT);
                }
                () = too_much(&mut self.guarded) => {
                    warn!(run.id = %self.run, "engine uses more than it may; killing its tree");
                    return None;
                }
                () = until(kill_at) => {
                    warn!(run.id = %self.run, "engine did not stop in time; killing its tree");
                    return None;
                }
            }
        }
    }

    async fn ask_to_stop(&mut self) {
        match self.polite {
            PoliteSignal::Interrupt => self.control.ask(Request::Interrupt).await,
            PoliteSignal::TerminateAll => {
                let shim = self.shim;
                if let Ok(Err(error)) = spawn_blocking(move || processes::terminate_descendants(shim)).await {
                    warn!(run.id = %self.run, %error, "the run's processes could not be asked to stop");
                }
            }
        }
    }

    /// Waits for a short time for output of processes that outlive the engine, unless a stop was asked for. Returns how many
    /// had to be killed, when the shim says that none is left: only then it is known that nobody writes to a file any more.
    async fn wait_for_others(&mut self) -> Option<u32> {
        let Watcher { control, kill_at, pipes_open, .. } = self;
        let waited = timeout(LINGER, async {
            tokio::select! {
                _ = kill_at.wait_for(Option::is_some) => None,
                _ = pipes_open.recv() => None,
                gone = control.gone() => gone,
            }
        });
        waited.await.ok().flatten()
    }

    /// Kills what is left, unless the shim said already that nothing is, and reaps the shim. Returns how the engine ended, if it had to be killed, and how many other
    /// processes had to be.
    async fn kill_the_tree(&mut self, gone: Option<u32>) -> (Option<ProcessExit>, u32) {
        if let Some(killed) = gone {
            reap(self.shim).await;
            return (None, killed);
        }
        // The engine may have stopped its shim. The shim is not reaped yet, so its pid cannot mean another process.
        let _ = kill_process(self.shim, Signal::CONT);
        self.control.ask(Request::Kill).await;
        let mut exit_of_killed = None;
        let gone = timeout(KILL_TIMEOUT, async {
            loop {
                match self.control.next().await {
                    Some(Report::EngineEnded(status)) => exit_of_killed = Some(exit(status)),
                    Some(
                        Report::Ready(_) | Report::Refused(_) | Report::BindRefused(_) | Report::SandboxRefused(_),
                    ) => {}
                    Some(Report::Gone(killed)) => return Some(killed.unsigned_abs()),
                    None => return None,
                }
            }
        });
        let killed = gone.await.ok().flatten();
        if killed.is_none() {
            let _ = kill_process(self.shim, Signal::KILL);
        }
        reap(self.shim).await;
        match killed {
            Some(killed) => (exit_of_killed, killed),
            None => (exit_of_killed, self.kill_by_marks().await),
        }
    }

    /// Which limit of its resources the engine met.
    async fn verdict(&mut self, exit: ProcessExit) -> Option<Exceeded> {
        let guarded = self.guarded.take()?;
        match exit {
            ProcessExit::Code(0) => guarded.verdict(exit),
            _ => spawn_blocking(move || guarded.verdict(exit)).await.ok().flatten(),
        }
    }

    /// To be called when no process of the run is left that could change its files again. `totals` are what was written to its
    /// logs, and then what they are.
    async fn tidy(&self, mut totals: [&mut StreamTotals; 2]) {
        let (logs, tmp_dir) = (self.logs.clone(), self.tmp_dir.clone());
        let kept = totals.each_ref().map(|totals| StreamTotals::clone(totals));
        // All in one, because the way to another thread and back takes longer than the work.
        let tidied = spawn_blocking(move || {
            let [stdout, stderr] = logs;
            let checked = [stdout.check_and_restore(&kept[0]), stderr.check_and_restore(&kept[1])];
            (checked, files::remove_tree(&tmp_dir))
        });
        let Ok((checked, removed)) = tidied.await else { return };
        for ((stream, checked), totals) in [Stream::Stdout, Stream::Stderr].into_iter().zip(checked).zip(&mut totals) {
            let told = match checked {
                Ok(None) => continue,
                Ok(Some(changed)) => {
                    **totals = changed;
                    Output::LogChanged { stream }
                }
                Err(error) => Output::LogFailed { stream, error },
            };
            let _ = self.outputs.send(told).await;
        }
        if let Err(error) = removed {
            warn!(run.id = %self.run, %error, "the run's temporary folder could not be removed");
        }
    }

    /// Kills the run's processes in place of a shim that was killed itself.
    async fn kill_by_marks(&self) -> u32 {
        let run = self.run;
        warn!(run.id = %run, "the shim was killed; killing its run's processes by their marks");
        match spawn_blocking(move || sweep::sweep_run(run)).await {
            Ok(Ok(swept)) => {
                let others = swept.iter().filter(|process| process.pid != self.engine).count();
                u32::try_from(others).unwrap_or(u32::MAX)
            }
            Ok(Err(error)) => {
                warn!(run.id = %run, %error, "the run's processes could not all be killed");
                0
            }
            Err(_) => 0,
        }
    }
}

/// Waits for a shim that has sent its last report, or whose socket is closed: it is about to exit.
pub(crate) async fn reap(shim: Pid) {
    if !matches!(waitpid(Some(shim), WaitOptions::NOHANG), Ok(None)) {
        return;
    }
    let _ = spawn_blocking(move || {
        let _ = waitpid(Some(shim), WaitOptions::empty());
    })
    .await;
}

async fn too_much(guarded: &mut Option<Guarded>) {
    match guarded {
        Some(guarded) => guarded.exceeded().await,
        None => pending().await,
    }
}

async fn until(kill_at: Option<Instant>) {
    match kill_at {
        Some(at) => sleep_until(at).await,
        None => pending().await,
    }
}

fn exit(status: i32) -> ProcessExit {
    let status = ExitStatus::from_raw(status);
    match (status.code(), status.signal()) {
        (Some(code), _) => ProcessExit::Code(code),
        (None, Some(signal)) => ProcessExit::Signal(signal),
        (None, None) => ProcessExit::Unknown,
    }
}
