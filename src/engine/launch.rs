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
    /// Whether it and everything it starts see the run's temporary folder as `/tmp`, where the system allows that.
    pub own_tmp: bool,
}

impl Launch {
    /// Whether it is told of something in `/tmp`, which it could not find in a `/tmp` of its own.
    pub(crate) fn names_tmp(&self) -> bool {
        let values = self.env.iter().map(|(_, value)| value.as_str());
        self.cwd.starts_with("/tmp") || self.argv.iter().map(String::as_str).chain(values).any(names_tmp)
    }
}

/// Whether a text names `/tmp` or a path in it, however it is set off.
fn names_tmp(text: &str) -> bool {
    let of_name = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
    text.match_indices("/tmp").any(|(at, found)| {
        let (before, behind) = (text[..at].bytes().last(), text[at + found.len()..].bytes().next());
        !before.is_some_and(|byte| of_name(byte) || byte == b'/') && !behind.is_some_and(of_name)
    })
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

#[cfg(test)]
mod tests {
    use super::names_tmp;

    #[test]
    fn a_path_in_tmp_is_found_wherever_it_stands_and_another_folder_of_that_name_is_not() {
        for text in ["/tmp", "/tmp/x", "/usr/bin:/tmp/bin", "--settings=/tmp/a", "{\"a\":\"/tmp/b\"}", "@/tmp/schema"] {
            assert!(names_tmp(text), "{text}");
        }
        for text in ["", "/srv/data/tmp/run", "/tmpfs/x", "/var/tmp", "/tmp-1", "tmp/x", "//tmpx"] {
            assert!(!names_tmp(text), "{text}");
        }
    }
}
