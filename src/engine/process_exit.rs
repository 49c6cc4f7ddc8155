//! How a process ended.

use std::fmt;

/// How a process ended, as its parent learnt it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProcessExit {
    /// It exited with this status.
    Code(i32),
    /// This signal ended it.
    Signal(i32),
    /// It is an engine that had reported the end of its turn but did not exit in time, and the runner stopped it.
    Dismissed,
    /// The process that waited for it was killed first, and the status was lost.
    Unknown,
}

impl ProcessExit {
    /// The status it exited with, where it has one.
    pub(crate) fn code(self) -> Option<i32> {
        match self {
            Self::Code(code) => Some(code),
            Self::Signal(_) | Self::Dismissed | Self::Unknown => None,
        }
    }
}

/// A clause without its subject: "exited with status 1".
impl fmt::Display for ProcessExit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Code(code) => write!(f, "exited with status {code}"),
            Self::Signal(signal) => write!(f, "was ended by signal {signal}"),
            Self::Dismissed => f.write_str("was stopped"),
            Self::Unknown => f.write_str("ended, but its exit status was lost"),
        }
    }
}
