//! The exit status of the command line.

/// The exit status of the program, apart from 0 for success.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exit {
    /// The run or the check failed, or something broke.
    Failed,
    /// The command line or the configuration is wrong.
    Usage,
    /// The service cannot be reached, or is shutting down.
    Unreachable,
    /// What the command names does not exist.
    NotFound,
    /// The input was refused.
    Refused,
    /// A signal ended the command.
    Interrupted,
}

impl Exit {
    /// The number that the process ends with.
    pub const fn status(self) -> u8 {
        match self {
            Self::Failed => 1,
            Self::Usage => 2,
            Self::Unreachable => 3,
            Self::NotFound => 4,
            Self::Refused => 5,
            // As shells number the end by SIGINT.
            Self::Interrupted => 130,
        }
    }
}
