//! Why an engine was stopped before it ended by itself.

use serde_json::Value;

use crate::domain::codes::ErrorCode;
use crate::domain::outcome::RunError;
use crate::domain::resources::Exceeded;

/// What was there when the time of an engine was over.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct LastSeen {
    /// The processes of the run.
    pub(crate) processes: Value,
    /// The end of what they wrote.
    pub(crate) last_output: String,
}

impl LastSeen {
    fn in_error(&self, error: RunError) -> RunError {
        error.with("processes", self.processes.clone()).with("last_output", self.last_output.as_str())
    }
}

/// Why an engine is being stopped.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Stop {
    Canceled,
    /// The wall clock ran out.
    HardTimeout {
        seconds: u64,
        last_seen: LastSeen,
    },
    /// It wrote nothing for too long.
    Stalled {
        seconds: u64,
        last_seen: LastSeen,
    },
    /// It wrote too much.
    OutputLimit {
        limit: u64,
    },
    /// Its output can no longer be kept.
    LogFailed {
        message: String,
        /// Because there was no room for it.
        disk_full: bool,
    },
    /// It changed its own log.
    LogChanged,
    /// It used more of the machine than it may.
    Resources(Exceeded),
    Shutdown,
}

impl Stop {
    /// The reason in one word.
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Stop::Canceled => "canceled",
            Stop::HardTimeout { .. } => "timeout",
            Stop::Stalled { .. } => "stalled",
            Stop::OutputLimit { .. } => "output_limit",
            Stop::LogFailed { .. } => "log_failed",
            Stop::LogChanged => "log_changed",
            Stop::Resources(_) => "resources",
            Stop::Shutdown => "shutdown",
        }
    }

    /// The run's error for this reason.
    pub(crate) fn error(&self) -> RunError {
        match self {
            Stop::Canceled => RunError::new(ErrorCode::CanceledByUser, "the run was canceled on request"),
            Stop::HardTimeout { seconds, last_seen } => last_seen.in_error(
                RunError::new(
                    ErrorCode::Timeout,
                    format!(
                        "the engine did not finish within {seconds} s; raise hard_timeout_seconds or make it faster"
                    ),
                )
                .with("hard_timeout_seconds", *seconds),
            ),
            Stop::Stalled { seconds, last_seen } => last_seen.in_error(
                RunError::new(
                    ErrorCode::Stalled,
                    format!(
                        "the engine wrote nothing for {seconds} s; raise stall_timeout_seconds or let it report progress"
                    ),
                )
                .with("stall_timeout_seconds", *seconds),
            ),
            Stop::OutputLimit { limit } => RunError::new(
                ErrorCode::OutputLimitExceeded,
                format!(
                    "the script wrote more than {limit} bytes to standard output; write large results to artifacts/"
                ),
            )
            .with("limit_bytes", *limit),
            Stop::LogFailed { message, disk_full } => {
                let code = if *disk_full { ErrorCode::InsufficientStorage } else { ErrorCode::Internal };
                RunError::new(code, format!("the engine's output could not be kept: {message}"))
            }
            Stop::LogChanged => RunError::new(
                ErrorCode::LogChangedByRun,
                "a process of the run changed what was written to logs/; let it write to its own folders only",
            ),
            Stop::Resources(exceeded) => resources(exceeded),
            Stop::Shutdown => RunError::new(
                ErrorCode::OrchestratorRestartInterrupted,
                "the service ended while the run was under way; start the run again",
            ),
        }
    }
}

fn resources(exceeded: &Exceeded) -> RunError {
    let name = exceeded.resource.name();
    let message = format!(
        "the run was stopped because {exceeded}; use less, or raise automation.limits.{name} of the skill or the setting \
         limits.{name}"
    );
    let error = RunError::new(ErrorCode::ResourceLimitExceeded, message);
    let error = error.with("limit", name).with("value", exceeded.limit).with("seen", exceeded.seen);
    match exceeded.files {
        Some(files) => error.with("files", files),
        None => error,
    }
}
