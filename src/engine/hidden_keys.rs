//! Keys that an engine needs and the commands it runs do not.

use std::path::{Path, PathBuf};

use super::adapter::Adapter;
use super::launch::ConfigFile;
use super::turn::Turn;

/// The variables with which the engine logs in, of those it is passed. Others, such as a token for a command, are for its
/// commands as well.
pub(crate) fn names<'a>(adapter: &Adapter, turn: &Turn<'a>) -> Vec<&'a str> {
    let passed = turn.env.iter().map(|(name, _)| name.as_str()).filter(|name| is_plain(name));
    passed.filter(|name| adapter.login.is_key(name)).collect()
}

/// A file of shell commands that unset these variables, for an engine that has its shell read one first. A shell in which
/// the variable `within` is not set is none of the engine's: perhaps it is the one that starts the engine.
pub(crate) fn shell_file(home: &Path, names: &[&str], within: &str) -> (PathBuf, ConfigFile) {
    let path = home.join(".hidden-keys.sh");
    let text = format!("[ -z \"${{{within}:-}}\" ] || unset {}\n", names.join(" "));
    (path.clone(), ConfigFile { path, bytes: text.into_bytes(), keep_existing: false })
}

fn is_plain(name: &str) -> bool {
    !name.is_empty()
        && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
        && !name.starts_with(|c: char| c.is_ascii_digit())
}
