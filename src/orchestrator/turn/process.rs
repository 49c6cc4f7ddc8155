//! The processes of a turn: the engine, and what runs behind it under the same supervisor, logs and clocks.

use std::time::Duration;

use tokio::sync::mpsc;
use tokio::time::Instant;

use crate::domain::fact::Stream;
use crate::domain::ids::RunId;
use crate::domain::outcome::Warning;
use crate::domain::run_file::RunFile;
use crate::domain::state::RunState;
use crate::engine::{Launch, StreamReader};
use crate::orchestrator::error::Error;
use crate::orchestrator::handle::Shared;
use crate::orchestrator::runs::actor::Message;
use crate::orchestrator::turn::conclude::Ending;
use crate::orchestrator::turn::raw_files::RawFiles;
use crate::orchestrator::turn::reader::TurnReader;
use crate::orchestrator::turn::watch::{Attempt, Clocks, TurnOver, warned, warnings};
use crate::supervisor;
use crate::supervisor::{Limits, Process, ProcessExit, Spec};
use crate::verdict::stop::Stop;

/// What is to be started and how it is read.
pub(crate) struct Stage {
    pub launch: Launch,
    pub reader: TurnReader,
    /// Most bytes of standard output, where there is such a limit.
    pub stdout_max: Option<u64>,
    /// Longest line that is looked at.
    pub line_max: usize,
}

/// When it is too late, and how long there was until then.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Deadline {
    pub at: Instant,
    pub seconds: u64,
}

impl Deadline {
    /// So much from now.
    pub fn after(time: Duration) -> Self {
        Self { at: Instant::now() + time, seconds: time.as_secs().max(1) }
    }
}

/// How a stage behind the engine ended.
pub(crate) struct StageEnd {
    pub exit: ProcessExit,
    pub stop: Option<Stop>,
    pub reader: TurnReader,
    pub dismissed: bool,
}

/// Start a process of the run.
pub(crate) async fn start(
    shared: &Shared,
    run: RunId,
    launch: &Launch,
    stdout_max: Option<u64>,
) -> Result<Process, supervisor::Error> {
    let paths = shared.layout.run(run);
    let limits = Limits { stdout_max, log_max: shared.settings.limits.max_log_bytes };
    let spec = Spec {
        launch,
        run,
        shim: &shared.shim,
        stdout_log: &paths.file(RunFile::Stdout),
        stderr_log: &paths.file(RunFile::Stderr),
        tmp_dir: &paths.tmp,
        limits,
    };
    shared.engines.spawn(spec).await
}

/// A started process, to be watched; its bytes begin at `from` in the files of its two streams.
pub(crate) fn attempt<'a>(
    shared: &Shared,
    state: &RunState,
    process: Process,
    stage: Stage,
    deadline: Deadline,
    from: (u64, u64),
    mailbox: &'a mut mpsc::Receiver<Message>,
) -> Attempt<'a> {
    let times = &shared.settings.times;
    Attempt {
        process,
        stdout: StreamReader::new(Stream::Stdout, from.0, stage.line_max),
        stderr: StreamReader::new(Stream::Stderr, from.1, stage.line_max),
        reader: stage.reader,
        clocks: Clocks {
            hard: deadline,
            stall_timeout_seconds: state.options.stall_timeout_seconds,
            kill_grace: Duration::from_secs(times.kill_grace_seconds),
            exit_grace: Duration::from_secs(times.exit_grace_seconds),
            stdout_limit: stage.stdout_max.unwrap_or_default(),
        },
        mailbox,
        stop: None,
        last_output: Vec::new(),
    }
}

impl Ending<'_> {
    /// See another process of the turn through. What is to be logged is logged as soon as it has started.
    pub(crate) async fn stage(
        &mut self,
        stage: Stage,
        deadline: Deadline,
    ) -> Result<Result<StageEnd, supervisor::Error>, Error> {
        let run = self.journal.state().run_id;
        let raw = self.blocking(|paths, _, _| Ok(RawFiles::read(paths))).await?;
        let process = match start(self.shared, run, &stage.launch, stage.stdout_max).await {
            Ok(process) => process,
            Err(failure) => return Ok(Err(failure)),
        };
        let from = (self.ended.stdout.bytes, self.ended.stderr.bytes);
        let attempt = attempt(self.shared, self.journal.state(), process, stage, deadline, from, self.mailbox);
        let over = attempt.watch(self.journal, std::mem::take(&mut self.facts)).await?;
        let end = self.take_over(over);
        if self.blocking(move |paths, _, _| raw.put_back(paths)).await? {
            let message = "a process of the skill changed the raw output; it was put back as the engine gave it";
            self.facts.push(warned(&Warning::new("RAW_OUTPUT_RESTORED", message)));
        }
        Ok(Ok(end))
    }

    /// A process is over: what it left to log is to be logged, and its streams end where the next one's begin.
    pub(crate) fn take_over(&mut self, over: TurnOver) -> StageEnd {
        let TurnOver { facts, ended, stop, reader, dismissed } = over;
        self.facts.extend(facts);
        self.facts.extend(warnings(&ended).iter().map(warned));
        if dismissed {
            let message = "the engine had finished its turn but did not exit in time, so it was ended";
            self.facts.push(warned(&Warning::new("ENGINE_DID_NOT_EXIT", message)));
        }
        let exit = ended.exit;
        self.ended = ended;
        // These end the turn, whichever of its processes they met.
        let ends_turn = match &stop {
            Some(Stop::Canceled | Stop::Shutdown | Stop::LogFailed { .. }) => true,
            Some(Stop::HardTimeout { .. } | Stop::Stalled { .. } | Stop::OutputLimit { .. }) | None => false,
        };
        if ends_turn {
            self.stop.clone_from(&stop);
        }
        StageEnd { exit, stop, reader, dismissed }
    }
}
