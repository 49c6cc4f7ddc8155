//! Why an engine was stopped before it ended by itself.

use serde_json::Value;

use crate::domain::codes::ErrorCode;
use crate::domain::outcome::RunError;

/// Why an engine is being stopped.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Stop {
    Canceled,
    /// The wall clock ran out.
    HardTimeout {
        seconds: u64,
    },
    /// It wrote nothing for too long.
    Stalled {
        seconds: u64,
        processes: Value,
        last_output: String,
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
    Shutdown,
}

impl Stop {
    /// The run's error for this reason.
    pub(crate) fn error(&self) -> RunError {
        match self {
            Stop::Canceled => RunError::new(ErrorCode::CanceledByUser, "the run was canceled on request"),
            Stop::HardTimeout { seconds } => RunError::new(
                ErrorCode::Timeout,
                format!("the engine did not finish within {seconds} s; raise hard_timeout_seconds or make it faster"),
            )
            .with("hard_timeout_seconds", *seconds),
            Stop::Stalled { seconds, processes, last_output } => RunError::new(
                ErrorCode::Stalled,
                format!(
                    "the engine wrote nothing for {seconds} s; raise stall_timeout_seconds or let it report progress"
                ),
            )
            .with("stall_timeout_seconds", *seconds)
            .with("processes", processes.clone())
            .with("last_output", last_output.as_str()),
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
            Stop::Shutdown => RunError::new(
                ErrorCode::OrchestratorRestartInterrupted,
                "the service ended while the run was under way; start the run again",
            ),
        }
    }
}
