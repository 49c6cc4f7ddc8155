//! What a running engine gives to its owner: output, and at last its end.

use std::io;

use bytes::Bytes;

use crate::domain::fact::Stream;
use crate::domain::resources::Exceeded;
use crate::engine::{ProcessExit, WayOut};

/// One output of a running engine; those of one stream come in the order in which they were written.
#[derive(Debug)]
pub enum Output {
    /// Bytes that are now in the stream's log file.
    Chunk {
        /// Where they came from.
        stream: Stream,
        /// Where they begin in the log file; offsets continue over the attempts of a run.
        from: u64,
        /// The bytes as they were read.
        bytes: Bytes,
    },
    /// Standard output is longer than `Limits::stdout_max`; sent once, and reading continues.
    StdoutLimitExceeded,
    /// The engine changed or cut off what it had already written to the file that is its stream; sent once. What was read
    /// before is kept, and the file is read again from its beginning: bytes that were cut off before they were read are lost.
    Rewritten {
        /// The stream that was changed.
        stream: Stream,
    },
    /// The run tried to reach somebody whom it may not; each is told once.
    EgressRefused { host: String, port: u16, reason: &'static str },
    /// A log file could not be written; sent once, and nothing more of that stream is kept.
    LogFailed {
        /// The stream whose log failed.
        stream: Stream,
        error: io::Error,
    },
    /// The run changed its own log: what the engine wrote there is not all there any more. `Ended` tells what the file is now.
    LogChanged {
        /// The stream whose log was changed.
        stream: Stream,
    },
    /// The last: the pipes are drained, every process of the run is gone and reaped, its temporary folder is removed.
    Ended(Ended),
}

/// Length and hash of one stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StreamTotals {
    /// Length of the log file, over all attempts.
    pub bytes: u64,
    /// SHA-256 of the whole log file, in lower-case hex.
    pub sha256: String,
    /// Bytes of this attempt that were read but not kept.
    pub dropped: u64,
}

/// The end of one engine process and of everything it started.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ended {
    /// How the engine itself ended.
    pub exit: ProcessExit,
    pub stdout: StreamTotals,
    pub stderr: StreamTotals,
    /// Processes other than the engine that had to be killed.
    pub stragglers_killed: u32,
    /// The limit of its resources that it met.
    pub exceeded: Option<Exceeded>,
    /// Whom its processes reached, as far as they went through the runner's proxy.
    pub way_out: WayOut,
}
