//! One process of a turn, from its start to the end of the last process it left.

use std::future::ready;
use std::sync::Arc;
use std::time::Duration;

use rustix::process::Signal;
use serde_json::json;
use tokio::sync::watch;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::domain::codes::WarningCode;
use crate::domain::command::Command;
use crate::domain::fact::{Fact, Stream};
use crate::domain::ids::RunId;
use crate::domain::outcome::Warning;
use crate::domain::resources::{Exceeded, Resource};
use crate::domain::statechart::Status;
use crate::engine::script::ScriptParser;
use crate::engine::{StreamReader, WayOut};
use crate::files::Shortage;
use crate::metrics::Metrics;
use crate::orchestrator::environment::Blocking;
use crate::orchestrator::error::Error;
use crate::orchestrator::log::journal::Journal;
use crate::orchestrator::shared::live::{CancelMessage, Mailbox};
use crate::orchestrator::shared::membership::Membership;
use crate::orchestrator::turn::batch::Batch;
use crate::orchestrator::turn::deadline::Deadline;
use crate::orchestrator::turn::reader::TurnReader;
use crate::orchestrator::turn::warnings::{egress_refused, log_changed, rewritten, warned, warnings};
use crate::store;
use crate::supervisor::{Ended, Output, Process, ProcessExit};
use crate::verdict::stop::{LastSeen, Stop};

/// The last words of an engine wait this long for its end, so that one append covers both. Nothing else waits.
const LAST_WORDS_WAIT: Duration = Duration::from_millis(50);
/// An unfinished line is shown after this long.
const UNFINISHED_LINE_WAITS: Duration = Duration::from_millis(500);

/// A line from so many bytes on is read on another thread: to read what is in it can take as long as a hundred short requests.
const LONG_LINE: usize = 256 * 1024;
/// A piece of output from so many bytes on lets others go first.
const LONG_PIECE: usize = 16 * 1024;

/// How much of the last output the error of a stalled run shows.
const LAST_OUTPUT: usize = 1024;

/// The clocks of one process.
pub(crate) struct Clocks {
    pub hard: Deadline,
    pub stall_timeout_seconds: u64,
    pub kill_grace: Duration,
    pub exit_grace: Duration,
    pub stdout_limit: u64,
}

impl Clocks {
    /// Seconds after which a process that says nothing more is stopped.
    fn seconds_left(&self) -> u64 {
        let left = self.hard.at.saturating_duration_since(Instant::now()).as_secs();
        if self.stall_timeout_seconds == 0 { left } else { left.min(self.stall_timeout_seconds) }
    }
}

/// A process that was watched to its end, and what of it is not logged yet.
pub(crate) struct Watched {
    pub process: FinishedProcess,
    pub ended: Ended,
    pub facts: Vec<Fact>,
}

/// How a process of a turn ended, to be judged.
pub(crate) struct FinishedProcess {
    pub exit: ProcessExit,
    /// Why it was stopped, if it was.
    pub stop: Option<Stop>,
    pub reader: TurnReader,
    /// Where what it wrote to standard error begins in that file.
    pub stderr_from: u64,
    /// Whom it reached.
    pub way_out: WayOut,
}

/// An engine being watched.
pub(crate) struct Attempt<'a> {
    pub process: Process,
    pub stdout: StreamReader,
    pub stderr: StreamReader,
    pub stderr_from: u64,
    pub reader: TurnReader,
    pub clocks: Clocks,
    pub mailbox: &'a mut Mailbox,
    pub metrics: Arc<Metrics>,
    pub blocking: Blocking,
    /// Most bytes of events: a few bytes can become an event of hundreds.
    pub log_max: u64,
    /// Canceled when the service ends.
    pub stopping: CancellationToken,
    /// Canceled when others may take the run over soon.
    pub lease: CancellationToken,
    /// Until when they may not, where there are others.
    pub lease_until: Option<watch::Receiver<Instant>>,
    /// What the shim was told of it last.
    pub told_lease: Option<Instant>,
    /// This service among others, where there are any.
    pub member: Option<Arc<Membership>>,
    pub run: RunId,
    pub stop: Option<Stop>,
    /// The end of what it wrote last.
    pub last_output: Vec<u8>,
}

impl Attempt<'_> {
    /// Watch the process to its end: log what it writes, enforce the time limits, carry out a cancel. `facts` are logged first.
    pub(crate) async fn watch(mut self, journal: &mut Journal, facts: Vec<Fact>) -> Result<Watched, Error> {
        match self.attend(journal, facts).await {
            Ok((batch, ended, dismissed)) => self.over(journal, batch, ended, dismissed).await,
            Err(error) => {
                // Whoever logs the failure needs files that no process writes to any more.
                end(self.process).await;
                Err(error)
            }
        }
    }

    async fn attend(&mut self, journal: &mut Journal, facts: Vec<Fact>) -> Result<(Batch, Ended, bool), Error> {
        let mut batch = Batch::of(facts);
        self.record(journal, &mut batch).await?;
        journal.settle().await?;
        if self.member.as_ref().is_some_and(|member| !member.may_work_on(self.run)) {
            // Its start is on record, and the answer came so late that another service goes on with the run.
            return Err(store::Error::NotOwner.into());
        }
        let hard = self.clocks.hard.at;
        self.tell_lease();
        let stall = Duration::from_secs(self.clocks.stall_timeout_seconds);
        let mut last_byte = Instant::now();
        let (mut shown, mut dismissed) = (false, false);
        let mut dismiss_at: Option<Instant> = None;
        loop {
            let unfinished = self.stdout.holds_unfinished_line() || self.stderr.holds_unfinished_line();
            let show_at = last_byte + UNFINISHED_LINE_WAITS;
            let stall_at = last_byte + stall;
            let stalls = self.stop.is_none() && !dismissed && !stall.is_zero();
            let record_at = last_byte + self.patience();
            tokio::select! {
                biased;
                Some(message) = self.mailbox.recv() => self.cancel(message, journal).await?,
                () = self.stopping.cancelled(), if self.stop.is_none() => self.stop(Stop::Shutdown),
                () = self.lease.cancelled(), if self.stop.is_none() => self.end_with_lease(),
                () = renewed(&mut self.lease_until) => self.tell_lease(),
                advanced = journal.advance(), if journal.waiting() > 0 => advanced?,
                output = self.process.next(), if !batch.is_full() => {
                    let taken = match self.take(output, &mut batch, journal).await? {
                        Taken::Bytes => self.take_ready(&mut batch, journal).await?.unwrap_or(Taken::Bytes),
                        taken => taken,
                    };
                    match taken {
                        Taken::Ended(ended) => {
                            if batch.is_full() {
                                self.record(journal, &mut batch).await?;
                            }
                            journal.settle().await?;
                            return Ok((batch, ended, dismissed));
                        }
                        Taken::Bytes => (last_byte, shown) = (Instant::now(), false),
                        Taken::Nothing => {}
                    }
                }
                () = tokio::time::sleep_until(hard), if self.stop.is_none() && !dismissed => {
                    let (seconds, last_seen) = (self.clocks.hard.seconds, self.last_seen().await);
                    self.stop(Stop::HardTimeout { seconds, last_seen });
                }
                () = tokio::time::sleep_until(stall_at), if stalls => {
                    let (seconds, last_seen) = (self.clocks.stall_timeout_seconds, self.last_seen().await);
                    self.stop(Stop::Stalled { seconds, last_seen });
                }
                () = tokio::time::sleep_until(show_at), if unfinished && !shown => {
                    self.show_unfinished(&mut batch);
                    shown = true;
                }
                () = tokio::time::sleep_until(dismiss_at.unwrap_or(hard)),
                    if dismiss_at.is_some() && self.stop.is_none() && !dismissed =>
                {
                    dismissed = true;
                    self.process.stop(self.clocks.kill_grace);
                }
                () = tokio::time::sleep_until(record_at), if !batch.is_empty() && journal.waiting() == 0 => {}
            }
            if dismiss_at.is_none() && self.reader.ended() {
                // The turn is over and the engine only cleans up; one that is of no use any more need not even do that.
                let grace = if self.reader.is_of_no_use() { Duration::ZERO } else { self.clocks.exit_grace };
                dismiss_at = Some(Instant::now() + grace);
            }
            let waited = last_byte + self.patience() <= Instant::now();
            // A full batch is encoded while the one before it is on its way to the disk; a smaller one is joined by what
            // comes meanwhile.
            let now = match journal.waiting() {
                0 => batch.is_full() || waited,
                1 => batch.is_full(),
                _ => false,
            };
            if now {
                self.record(journal, &mut batch).await?;
            }
        }
    }

    /// Nothing of it may be left when its next owner begins.
    fn end_with_lease(&mut self) {
        self.process.stop(Duration::ZERO);
        self.stop = Some(Stop::Shutdown);
    }

    /// The processes of the run end with the lease, whatever becomes of the service.
    fn tell_lease(&mut self) {
        if let Some(until) = &mut self.lease_until {
            let until = *until.borrow_and_update();
            self.process.live_until(until);
            self.told_lease = Some(until);
        }
    }

    /// Whether the shim may have ended the run because it was not told in time that the lease was renewed.
    fn ended_by_lease(&self, exit: ProcessExit) -> bool {
        let killed = matches!(exit, ProcessExit::Signal(signal) if signal == Signal::KILL.as_raw());
        // It is told whole seconds.
        killed && self.told_lease.is_some_and(|until| until <= Instant::now() + Duration::from_secs(1))
    }

    async fn last_seen(&mut self) -> LastSeen {
        let processes = json!(self.process.snapshot().await);
        LastSeen { processes, last_output: String::from_utf8_lossy(&self.last_output).into_owned() }
    }

    /// How long facts wait for more of them while nothing is on its way to the disk.
    fn patience(&self) -> Duration {
        if self.reader.expects_exit() { LAST_WORDS_WAIT } else { Duration::ZERO }
    }

    /// Take the output that is there already, up to a bound; the end, if it is there.
    async fn take_ready(&mut self, batch: &mut Batch, journal: &mut Journal) -> Result<Option<Taken>, Error> {
        while !batch.is_full()
            && let Some(output) = self.process.try_next()
        {
            if let ended @ Taken::Ended(_) = self.take(Some(output), batch, journal).await? {
                return Ok(Some(ended));
            }
        }
        Ok(None)
    }

    /// Encode a batch, while the bytes it points to are made durable: they are on disk before the events.
    async fn record(&mut self, journal: &mut Journal, batch: &mut Batch) -> Result<(), Error> {
        if batch.is_empty() {
            return Ok(());
        }
        let synced = self.process.sync_logs();
        let synced = Box::pin(async { synced.await.map_err(Error::io("sync the run's logs")) });
        journal.prepare(batch.take_part(), synced)?;
        while !batch.is_empty() {
            tokio::task::yield_now().await;
            // It is appended behind the first part, whose bytes are durable by then, and so are these.
            journal.prepare(batch.take_part(), Box::pin(ready(Ok(()))))?;
        }
        if journal.encoded() > self.log_max && self.stop.is_none() {
            let (resource, limit, seen) = (Resource::Disk, self.log_max, journal.encoded());
            self.process.stop(Duration::ZERO);
            self.stop = Some(Stop::Resources(Exceeded { resource, limit, seen, files: None }));
        }
        Ok(())
    }

    /// Reads one of the streams, on another thread if that may take `long`.
    async fn read(
        &mut self,
        stream: Stream,
        long: bool,
        facts: &mut Vec<Fact>,
        read: impl FnOnce(&mut StreamReader, &mut TurnReader, &mut Vec<Fact>) + Send + 'static,
    ) -> Result<(), Error> {
        if !long {
            let Self { stdout, stderr, reader, .. } = self;
            read(if stream == Stream::Stderr { stderr } else { stdout }, reader, facts);
            return Ok(());
        }
        let mut lines = std::mem::replace(self.lines_of(stream), StreamReader::new(stream, 0, 1));
        let mut reader = std::mem::replace(&mut self.reader, TurnReader::Script(ScriptParser::default()));
        let mut all = std::mem::take(facts);
        let read = move || {
            read(&mut lines, &mut reader, &mut all);
            (lines, reader, all)
        };
        let (lines, reader, all) = self.blocking.run("read a long line", read).await?;
        *self.lines_of(stream) = lines;
        (self.reader, *facts) = (reader, all);
        Ok(())
    }

    fn lines_of(&mut self, stream: Stream) -> &mut StreamReader {
        if stream == Stream::Stderr { &mut self.stderr } else { &mut self.stdout }
    }

    async fn take(&mut self, output: Option<Output>, batch: &mut Batch, journal: &mut Journal) -> Result<Taken, Error> {
        match output {
            Some(Output::Chunk { stream, from, bytes }) => {
                journal.add_raw(stream, from, &bytes);
                self.reader.has_seconds(self.clocks.seconds_left());
                let long = self.lines_of(stream).held() + bytes.len() > LONG_LINE && bytes.contains(&b'\n');
                let piece = bytes.clone();
                let push = move |lines: &mut StreamReader, reader: &mut TurnReader, facts: &mut Vec<Fact>| {
                    lines.push(&piece, reader, facts);
                };
                self.read(stream, long, &mut batch.facts, push).await?;
                batch.count(bytes.len());
                if bytes.len() >= LONG_PIECE {
                    tokio::task::yield_now().await;
                }
                let shown = &bytes[bytes.len().saturating_sub(LAST_OUTPUT)..];
                let kept = self.last_output.len().min(LAST_OUTPUT - shown.len());
                self.last_output.drain(..self.last_output.len() - kept);
                self.last_output.extend_from_slice(shown);
                Ok(Taken::Bytes)
            }
            Some(Output::StdoutLimitExceeded) => {
                self.stop(Stop::OutputLimit { limit: self.clocks.stdout_limit });
                Ok(Taken::Nothing)
            }
            Some(Output::Rewritten { stream }) => {
                batch.facts.push(warned(rewritten(stream)));
                Ok(Taken::Nothing)
            }
            Some(Output::EgressRefused { host, port, reason }) => {
                batch.facts.push(warned(egress_refused(&host, port, reason)));
                Ok(Taken::Nothing)
            }
            Some(Output::LogFailed { stream, error }) => {
                let disk_full = Shortage::behind(&error) == Some(Shortage::Disk);
                self.stop(Stop::LogFailed { message: format!("{}: {error}", stream.as_str()), disk_full });
                Ok(Taken::Nothing)
            }
            Some(Output::LogChanged { stream }) => {
                batch.facts.push(warned(log_changed(stream)));
                self.stop(Stop::LogChanged);
                Ok(Taken::Nothing)
            }
            Some(Output::Ended(ended)) => Ok(Taken::Ended(ended)),
            None => Err(Error::io("watch the engine")(std::io::Error::other("its supervisor is gone"))),
        }
    }

    /// The last process is gone: everything is read to its end.
    async fn over(
        mut self,
        journal: &mut Journal,
        mut batch: Batch,
        ended: Ended,
        dismissed: bool,
    ) -> Result<Watched, Error> {
        for stream in [Stream::Stdout, Stream::Stderr] {
            let held = self.lines_of(stream).held();
            self.read(stream, held > LONG_LINE, &mut batch.facts, |lines, reader, facts| lines.flush(reader, facts))
                .await?;
            // They are counted again: they may have been counted for an earlier batch.
            batch.count(held);
        }
        if batch.has_parts() {
            // Whatever logs the end of the turn would encode all of it in one go.
            self.record(journal, &mut batch).await?;
            journal.settle().await?;
        }
        let mut facts = batch.take();
        facts.extend(self.reader.finish().into_iter().map(Fact::own));
        facts.extend(warnings(&ended).into_iter().map(warned));
        if dismissed && !self.reader.waits_too_long() {
            let message = "the engine had finished its turn but did not exit in time, so it was ended";
            facts.push(warned(Warning::new(WarningCode::EngineDidNotExit, message)));
        }
        let exit = if dismissed { ProcessExit::Dismissed } else { ended.exit };
        if ended.exceeded.is_none() && self.ended_by_lease(ended.exit) {
            self.stop.get_or_insert(Stop::Shutdown);
        }
        let Attempt { stop, reader, stderr_from, metrics, .. } = self;
        let (stop, way_out) = (stop.or(ended.exceeded.map(Stop::Resources)), ended.way_out.clone());
        if let Some(stop) = &stop {
            metrics.stopped(stop.name());
        }
        let by_force = matches!(ended.exit, ProcessExit::Signal(signal) if signal == Signal::KILL.as_raw());
        metrics.killed(u64::from(ended.stragglers_killed) + u64::from(by_force));
        let process = FinishedProcess { exit, stop, reader, stderr_from, way_out };
        Ok(Watched { process, ended, facts })
    }

    fn show_unfinished(&mut self, batch: &mut Batch) {
        self.stdout.show_unfinished(&mut self.reader, &mut batch.facts);
        self.stderr.show_unfinished(&mut self.reader, &mut batch.facts);
    }

    /// The first reason counts.
    fn stop(&mut self, why: Stop) {
        self.process.stop(self.clocks.kill_grace);
        self.stop.get_or_insert(why);
    }

    async fn cancel(&mut self, message: CancelMessage, journal: &mut Journal) -> Result<(), Error> {
        let CancelMessage { requested_by, reason, answer } = message;
        let lease = self.lease.clone();
        let logged = async {
            // If what the engine said cannot be logged, the run fails, and whoever asked looks again.
            journal.settle().await?;
            Ok::<_, Error>(journal.commit(Command::Cancel { requested_by, reason }).await)
        };
        tokio::pin!(logged);
        let committed = tokio::select! {
            biased;
            committed = &mut logged => committed?,
            // The store may be away for longer than the lease.
            () = lease.cancelled(), if self.stop.is_none() => {
                self.end_with_lease();
                logged.await?
            }
        };
        let accepted = committed.is_ok();
        // Whoever asked may be gone; the cancel is carried out all the same.
        let _ = answer.send(committed.map(|()| Status::Running));
        if accepted {
            self.stop(Stop::Canceled);
        }
        Ok(())
    }
}

/// Waits until the lease is renewed; for ever where there is none.
async fn renewed(lease_until: &mut Option<watch::Receiver<Instant>>) {
    let is_renewed = match lease_until {
        Some(until) => until.changed().await.is_ok(),
        None => false,
    };
    if !is_renewed {
        std::future::pending().await
    }
}

/// Ends an engine that nobody listens to any more, and waits until nothing of it is left.
pub(crate) async fn end(mut process: Process) {
    process.never_begin();
    process.stop(Duration::ZERO);
    while process.next().await.is_some() {}
}

enum Taken {
    Bytes,
    Nothing,
    Ended(Ended),
}
