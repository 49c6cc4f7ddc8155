//! A process to start, as a value: the adapters make it, the supervisor acts on it.

use std::path::PathBuf;

/// How to stop an engine politely before its whole tree is killed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PoliteSignal {
    /// SIGINT to the engine's own process.
    Interrupt,
    /// SIGTERM to every process of the run.
    TerminateAll,
}

/// One engine invocation. The environment is exactly `env`: nothing is inherited.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Launch {
    /// Program and arguments; never empty. The program is a path or is looked up in `env`'s PATH.
    pub argv: Vec<String>,
    /// The whole environment.
    pub env: Vec<(String, String)>,
    /// Working directory.
    pub cwd: PathBuf,
    /// Bytes for standard input, which is closed after them.
    pub stdin: Vec<u8>,
    /// How to ask it to stop.
    pub polite: PoliteSignal,
}
