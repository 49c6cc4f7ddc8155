//! A process of a turn: the engine, and what runs behind it under the same supervisor, logs and clocks.

use std::time::Duration;

use crate::domain::causes::chain;
use crate::domain::codes::ErrorCode;
use crate::domain::fact::Stream;
use crate::domain::ids::RunId;
use crate::domain::outcome::RunError;
use crate::domain::run_file::RunFile;
use crate::domain::state::RunState;
use crate::engine::{Launch, StreamReader};
use crate::files::Shortage;
use crate::orchestrator::log::coverage::Coverage;
use crate::orchestrator::shared::Shared;
use crate::orchestrator::shared::live::Mailbox;
use crate::orchestrator::turn::deadline::Deadline;
use crate::orchestrator::turn::reader::TurnReader;
use crate::orchestrator::turn::watch::{Attempt, Clocks};
use crate::supervisor::{self, Limits, Process, Spec};

/// What is to be started and how it is read.
pub(crate) struct Stage {
    pub launch: Launch,
    pub reader: TurnReader,
    /// Most bytes of standard output, where there is such a limit.
    pub stdout_max: Option<u64>,
    /// Longest line that is looked at.
    pub line_max: usize,
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
        read_only_binds: &[],
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
    from: Coverage,
    mailbox: &'a mut Mailbox,
) -> Attempt<'a> {
    let times = &shared.settings.times;
    Attempt {
        process,
        stdout: StreamReader::new(Stream::Stdout, from.stdout, stage.line_max),
        stderr: StreamReader::new(Stream::Stderr, from.stderr, stage.line_max),
        reader: stage.reader,
        clocks: Clocks {
            hard: deadline,
            stall_timeout_seconds: state.options.stall_timeout_seconds,
            kill_grace: Duration::from_secs(times.kill_grace_seconds),
            exit_grace: Duration::from_secs(times.exit_grace_seconds),
            stdout_limit: stage.stdout_max.unwrap_or_default(),
        },
        mailbox,
        stopping: shared.stopping.clone(),
        stop: None,
        last_output: Vec::new(),
    }
}

/// Why a program could not be started, as the run's error.
pub(crate) fn not_started(program: &str, failure: &supervisor::Error) -> RunError {
    let not_started = |why: &str| format!("{program:?} could not be started: {why}");
    match failure {
        supervisor::Error::NotFound { .. } => RunError::new(
            ErrorCode::EngineNotInstalled,
            format!("the program {program:?} was not found; install it or correct entrypoint.script.command"),
        ),
        other => match Shortage::behind(other) {
            Some(Shortage::Disk) => RunError::new(ErrorCode::InsufficientStorage, not_started(Shortage::Disk.told())),
            Some(shortage) => RunError::new(ErrorCode::ResourceLimitExceeded, not_started(shortage.told())),
            None => RunError::new(ErrorCode::EngineFailed, not_started(&chain(other))),
        },
    }
    .with("program", program)
}
