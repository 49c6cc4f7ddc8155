//! How a run ends. Decided once, before the files that record the end are written.

use super::codes::ErrorCode;
use super::command::{Command, Conclusion, RestartQueued};
use super::event::{Completed, Event, Failed};
use super::outcome::{Completion, Evidence, Proof, RunError, Usage};
use super::run_file::RunFile;
use super::state::{Phase, RunState};
use super::statechart::{Status, Trigger, target};

/// The end of a run.
#[derive(Debug, Clone, PartialEq)]
pub enum Ending {
    Succeeded(Completion),
    Failed(RunError),
    Canceled(RunError),
}

impl Ending {
    /// The status of the run then.
    pub(crate) fn status(&self) -> Status {
        match self {
            Ending::Succeeded(_) => Status::Succeeded,
            Ending::Failed(_) => Status::Failed,
            Ending::Canceled(_) => Status::Canceled,
        }
    }

    /// Why there is no result.
    pub(crate) fn error(&self) -> Option<&RunError> {
        match self {
            Ending::Succeeded(_) => None,
            Ending::Failed(error) | Ending::Canceled(error) => Some(error),
        }
    }

    fn canceled() -> Self {
        Ending::Canceled(RunError::new(ErrorCode::CanceledByUser, "the run was canceled on request"))
    }

    fn interrupted() -> Self {
        Ending::Failed(RunError::new(
            ErrorCode::OrchestratorRestartInterrupted,
            "the service ended while the run was under way; start the run again",
        ))
    }
}

/// How the run ends if this command is carried out now; `None` when it does not end, or when the command is refused.
///
/// Whoever writes a run's last files asks this first, and [`decide`](super::decide) ends the run in the same way.
pub fn ending(run: &RunState, command: &Command) -> Option<Ending> {
    let status = run.status();
    let legal = |trigger| target(status, trigger).is_some();
    match command {
        Command::TakeFromCache { .. } => legal(Trigger::RunCacheHit).then_some(Ending::Succeeded(Completion::Cache)),
        Command::Reject { error } => legal(Trigger::RunRejected).then(|| Ending::Failed(error.clone())),
        Command::EndTurn { .. } if status != Status::Running => None,
        // An accepted cancel wins, even if the engine finished in the meantime.
        Command::EndTurn { .. } if run.cancel_requested => Some(Ending::canceled()),
        Command::EndTurn { conclusion, .. } => match conclusion {
            Conclusion::Succeeded(completion) => Some(Ending::Succeeded(*completion)),
            Conclusion::Failed(error) => Some(Ending::Failed(error.clone())),
            Conclusion::NeedsInput(_) => None,
            Conclusion::Transient { error, retry_after_seconds } => {
                (!run.may_retry(*retry_after_seconds)).then(|| Ending::Failed(error.clone()))
            }
        },
        // A running engine must be stopped first; its end then ends the run.
        Command::Cancel { .. } => {
            (!run.cancel_requested && status != Status::Running && !status.is_final()).then(Ending::canceled)
        }
        Command::Reconcile { restart_queued, .. } => after_restart(run, *restart_queued),
        Command::Create(_)
        | Command::Upload { .. }
        | Command::StartTurn { .. }
        | Command::Record(_)
        | Command::Reply { .. }
        | Command::AutoDecide => None,
    }
}

/// How a restart of the service ends a run that was not final.
fn after_restart(run: &RunState, restart_queued: RestartQueued) -> Option<Ending> {
    match &run.phase {
        // A run that still waits for its upload lost nothing in the restart.
        Phase::Queued if run.awaiting_upload => None,
        // An answer that was accepted is never lost: the run that it queued goes on, whatever becomes of runs that
        // have not begun.
        Phase::Queued if run.turns > 0 || restart_queued == RestartQueued::Requeue => None,
        Phase::Queued => Some(Ending::interrupted()),
        Phase::Running | Phase::Asking(_) if run.cancel_requested => Some(Ending::canceled()),
        Phase::Running | Phase::Asking(_) => Some(Ending::interrupted()),
        Phase::WaitingUser(_) if run.session_handle.is_some() => None,
        Phase::WaitingUser(_) => Some(Ending::Failed(RunError::new(
            ErrorCode::SessionResumeFailed,
            "the service was restarted and the engine's session cannot be resumed; start the run again",
        ))),
        Phase::Succeeded | Phase::Failed | Phase::Canceled => None,
    }
}

/// A run's last event, without the parts that only the log can supply.
#[derive(Debug, Clone, PartialEq)]
pub struct Terminal {
    /// How the run ends.
    pub(crate) ending: Ending,
    /// What its files prove.
    pub(crate) evidence: Evidence,
}

impl Terminal {
    /// The event, once the number of events before it, their hash chain and the run's usage are known.
    pub(crate) fn into_event(self, events: u64, chain_sha256: String, usage: Usage) -> Event {
        let Evidence { streams, artifacts_sha256, files_sha256, result_sha256 } = self.evidence;
        let (files_sha256, result_sha256) = (Some(files_sha256), Some(result_sha256));
        let signature = None;
        let proof = Proof { events, chain_sha256, streams, artifacts_sha256, files_sha256, result_sha256, signature };
        let status = self.ending.status();
        match self.ending {
            Ending::Succeeded(completion) => Event::Completed(Box::new(Completed {
                status,
                completion,
                result_path: RunFile::Result.name().to_owned(),
                usage,
                proof,
            })),
            Ending::Failed(error) | Ending::Canceled(error) => {
                Event::Failed(Box::new(Failed { status, error: error.bounded(), usage, proof }))
            }
        }
    }
}
