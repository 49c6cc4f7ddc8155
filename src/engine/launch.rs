//! A process to start, and the files it needs, as values: adapters make them, the supervisor starts them.

use std::path::{Path, PathBuf};

use serde_json::Value;

/// How to ask an engine to stop before its whole process tree is killed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PoliteSignal {
    /// SIGINT to the engine's own process.
    Interrupt,
    /// SIGTERM to every process of the run.
    TerminateAll,
}

/// What standard output and standard error are to a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Streams {
    /// Pipes: a process that writes faster than it is read waits.
    Pipes,
    /// Files without a name, which the supervisor follows. For programs that exit without waiting for their pipes: what such
    /// a program has not yet written is lost with it, and what it writes to a file is there at once.
    Files,
}

/// One process to start. Its environment is exactly `env`: nothing is inherited.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Launch {
    /// Program and arguments; never empty. The program is a path or is looked up in `env`'s PATH.
    pub argv: Vec<String>,
    pub env: Vec<(String, String)>,
    pub cwd: PathBuf,
    /// Bytes for standard input, which is closed after them.
    pub stdin: Vec<u8>,
    /// How to ask it to stop.
    pub polite: PoliteSignal,
    pub streams: Streams,
    /// Values that are masked wherever its streams hold them.
    pub secrets: Vec<String>,
}

/// A file the engine needs before it starts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ConfigFile {
    pub(crate) path: PathBuf,
    pub(crate) bytes: Vec<u8>,
    /// Whether an existing file stays: it holds the operator's own choices.
    pub(crate) keep_existing: bool,
}

impl ConfigFile {
    /// A file of the run, always written.
    pub(crate) fn of_run(path: PathBuf, value: &Value) -> Self {
        Self { path, bytes: format!("{value:#}\n").into_bytes(), keep_existing: false }
    }

    /// A file of the engine's home, written only when there is none.
    pub(crate) fn of_home(path: PathBuf, value: &Value) -> Self {
        Self { keep_existing: true, ..Self::of_run(path, value) }
    }
}

/// What to start for a turn, and what to write before.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct LaunchPlan {
    pub(crate) launch: Launch,
    /// Program and arguments as they may be logged.
    pub(crate) shown_argv: Vec<String>,
    /// Files to write first.
    pub(crate) files: Vec<ConfigFile>,
}

/// A path as an argument; paths of the runner are UTF-8.
pub(crate) fn path_text(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}

/// These words as arguments.
pub(crate) fn words(words: &[&str]) -> Vec<String> {
    words.iter().map(|word| (*word).to_owned()).collect()
}
