//! A process of a turn: the engine, and what runs behind it under the same supervisor, logs and clocks.

use std::path::PathBuf;
use std::time::Duration;

use tracing::warn;

use crate::domain::causes::chain;
use crate::domain::codes::ErrorCode;
use crate::domain::fact::Stream;
use crate::domain::ids::RunId;
use crate::domain::outcome::RunError;
use crate::domain::resources::{AskedLimits, ResourceLimits};
use crate::domain::run_file::RunFile;
use crate::domain::state::RunState;
use crate::engine::{Launch, StreamReader};
use crate::files::{self, Shortage};
use crate::orchestrator::log::coverage::Coverage;
use crate::orchestrator::shared::Shared;
use crate::orchestrator::shared::live::Mailbox;
use crate::orchestrator::turn::deadline::Deadline;
use crate::orchestrator::turn::reader::TurnReader;
use crate::orchestrator::turn::watch::{Attempt, Clocks};
use crate::skill::Skill;
use crate::supervisor::{self, Limits, Process, Resources, Sandbox, Spec};
use crate::workspace::EngineHome;

/// What is to be started and how it is read.
pub(crate) struct Stage {
    pub launch: Launch,
    pub reader: TurnReader,
    /// Most bytes of standard output, where there is such a limit.
    pub stdout_max: Option<u64>,
    /// Longest line that is looked at.
    pub line_max: usize,
    /// The home of an agent CLI, to be settled when it has ended.
    pub home: Option<EngineHome>,
    /// What confines it, where anything does.
    pub sandbox: Option<Sandbox>,
    /// Folders besides the run's own whose content counts as its disk space.
    pub fills: Vec<PathBuf>,
}

/// The part of a stage that its start needs, to be shared between threads.
#[derive(Clone, Copy)]
pub(crate) struct Starting<'a> {
    launch: &'a Launch,
    stdout_max: Option<u64>,
    sandbox: Option<&'a Sandbox>,
    fills: &'a [PathBuf],
}

impl Stage {
    pub(crate) fn starting(&self) -> Starting<'_> {
        let Stage { launch, stdout_max, sandbox, fills, reader: _, line_max: _, home: _ } = self;
        Starting { launch, stdout_max: *stdout_max, sandbox: sandbox.as_ref(), fills }
    }
}

impl Starting<'_> {
    pub(crate) fn program(&self) -> String {
        self.launch.argv.first().cloned().unwrap_or_default()
    }
}

/// What a run of this skill may use of the machine, as far as the machine itself allows it.
pub(crate) fn resources_of(shared: &Shared, skill: &Skill) -> ResourceLimits {
    resources(shared, &skill.manifest.automation.limits)
}

/// The most that any run may use.
pub(crate) fn most_resources(shared: &Shared) -> ResourceLimits {
    resources(shared, &AskedLimits::default())
}

fn resources(shared: &Shared, asked: &AskedLimits) -> ResourceLimits {
    let limits = shared.settings.resources.in_force(asked);
    let open_files = files::open_files_within(limits.open_files).maximum.unwrap_or(limits.open_files);
    ResourceLimits { open_files, ..limits }
}

/// Start a process of the run.
pub(crate) async fn start(
    shared: &Shared,
    run: RunId,
    stage: Starting<'_>,
    resources: ResourceLimits,
) -> Result<Process, supervisor::Error> {
    let paths = shared.layout.run(run);
    let folders = [&[paths.root.clone(), paths.home.clone()], stage.fills].concat();
    let limits = Limits { stdout_max: stage.stdout_max, log_max: shared.settings.limits.max_log_bytes };
    let spec = Spec {
        launch: stage.launch,
        run,
        read_only_binds: &[],
        sandbox: stage.sandbox,
        stdout_log: &paths.file(RunFile::Stdout),
        stderr_log: &paths.file(RunFile::Stderr),
        tmp_dir: &paths.tmp,
        limits,
        resources: Some(Resources { limits: resources, folders: &folders }),
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
        stderr_from: from.stderr,
        reader: stage.reader,
        clocks: Clocks {
            hard: deadline,
            stall_timeout_seconds: state.options.stall_timeout_seconds,
            kill_grace: Duration::from_secs(times.kill_grace_seconds),
            exit_grace: Duration::from_secs(times.exit_grace_seconds),
            stdout_limit: stage.stdout_max.unwrap_or_default(),
        },
        mailbox,
        metrics: shared.metrics.clone(),
        blocking: shared.blocking.clone(),
        log_max: shared.settings.resources.disk_bytes,
        stopping: shared.stopping.clone(),
        lease: shared.lease(),
        lease_until: shared.member.as_ref().map(|member| member.lease_until()),
        told_lease: None,
        member: shared.member.clone(),
        run: state.run_id,
        stop: None,
        last_output: Vec::new(),
    }
}

/// The process has ended: what it left in its home is put in order.
pub(crate) async fn settle(shared: &Shared, run: RunId, home: Option<EngineHome>) {
    let Some(home) = home else { return };
    let settled = shared.blocking.run("settle the engine's home", move || home.settle()).await;
    let failed = match settled {
        Ok(Ok(())) => return,
        Ok(Err(error)) => chain(&error),
        Err(error) => chain(&error),
    };
    // The next turn tries it again; a refreshed login is used by this run alone until then.
    warn!(run.id = %run, error = failed, "the engine's home could not be settled");
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
            None => {
                let code = match other {
                    // The runner's own files are at fault, not the program.
                    supervisor::Error::Log { .. } | supervisor::Error::TmpDir { .. } => ErrorCode::Internal,
                    supervisor::Error::NotFound { .. }
                    | supervisor::Error::PermissionDenied { .. }
                    | supervisor::Error::Start { .. }
                    | supervisor::Error::WorkingDirectory { .. }
                    | supervisor::Error::ReadOnlyBind { .. }
                    | supervisor::Error::Sandbox { .. }
                    | supervisor::Error::Shim { .. } => ErrorCode::EngineFailed,
                };
                RunError::new(code, not_started(&chain(other)))
            }
        },
    }
    .with("program", program)
}
