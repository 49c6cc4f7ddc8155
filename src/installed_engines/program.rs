//! Where an engine's program is: as configured, in the managed prefix, or on the PATH.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use serde::Serialize;

use super::version::UNKNOWN;
use crate::engine::Adapter;

/// A program that can be started.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Found {
    /// The words that start it, before its arguments.
    pub program: Vec<String>,
    /// The version it prints; `unknown` when it did not print one in time.
    pub version: String,
    /// The PATH to start it with.
    pub path: String,
    /// How it was found.
    pub source: Source,
}

impl Found {
    /// The version, where it is known.
    pub(crate) fn known_version(&self) -> Option<String> {
        (self.version != UNKNOWN).then(|| self.version.clone())
    }
}

/// How a program was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Source {
    /// By `engines.<name>.command`.
    Configured,
    /// In the managed prefix.
    Managed,
    OnPath,
}

/// Why an engine cannot be started, and what to do about it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{engine} cannot be started: {reason}; {advice}")]
pub struct NotInstalled {
    pub engine: String,
    /// Why it cannot be started.
    pub reason: String,
    /// What to do about it.
    pub(crate) advice: String,
    /// The command that installs it, if that helps.
    pub install_command: Option<String>,
}

impl NotInstalled {
    fn new(adapter: &Adapter, reason: String) -> Self {
        let (advice, install_command) = (advice(adapter), install_command(adapter));
        Self { engine: adapter.name().to_owned(), reason, advice, install_command }
    }

    /// The program that the operator named cannot be used.
    fn misconfigured(adapter: &Adapter, reason: &str) -> Self {
        let (name, setting) = (adapter.name(), setting(adapter));
        let reason = format!("{setting} names a program that cannot be used: {reason}");
        let advice = format!("correct {setting}, or remove it to use {name} as it is installed");
        Self { engine: name.to_owned(), reason, advice, install_command: None }
    }

    /// The program exists but does not work.
    pub(crate) fn unusable(adapter: &Adapter, located: &Located, reason: &str) -> Self {
        let reason = format!("{} {reason}", located.program.join(" "));
        if located.source == Source::Configured {
            return Self::misconfigured(adapter, &reason);
        }
        Self::new(adapter, reason)
    }
}

/// How an operator names an engine's program.
fn setting(adapter: &Adapter) -> String {
    format!("SKILL_RUNNER_{}_BIN (engines.{}.command)", adapter.name().to_uppercase(), adapter.name())
}

/// The command that installs an engine, where it can be had.
fn install_command(adapter: &Adapter) -> Option<String> {
    adapter.install.as_ref().map(|_| format!("skill-runner engines --install {}", adapter.name()))
}

/// How to come by an engine, for people.
pub(crate) fn advice(adapter: &Adapter) -> String {
    match install_command(adapter) {
        Some(command) => format!("to install it: {command}"),
        None => {
            let name = adapter.name().to_uppercase();
            format!("it is no longer published; name a program you have with SKILL_RUNNER_{name}_BIN")
        }
    }
}

pub(crate) struct Place<'a> {
    pub(crate) adapter: &'a Adapter,
    pub(crate) command: Option<&'a str>,
    pub(crate) npm_prefix: &'a Path,
    pub(crate) path: &'a str,
}

/// A program whose version is not known yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Located {
    pub(crate) program: Vec<String>,
    pub(crate) path: String,
    pub(crate) source: Source,
}

/// The program of an engine: the configured one and no other, else the managed one, else the one on the PATH.
pub(crate) fn locate(place: &Place<'_>) -> Result<Located, NotInstalled> {
    let missing = |reason| NotInstalled::new(place.adapter, reason);
    if let Some(command) = place.command {
        // A configured program that is missing is an error: silently using another one would be unexpected.
        let program =
            configured(command, place.path).map_err(|reason| NotInstalled::misconfigured(place.adapter, &reason))?;
        return Ok(located(place, program, Source::Configured));
    }
    if let Some(program) = managed(place).map_err(missing)? {
        return Ok(located(place, program, Source::Managed));
    }
    match on_path(place.adapter.name(), place.path) {
        Some(program) => Ok(located(place, vec![shown(&program)], Source::OnPath)),
        None => {
            let prefix = place.npm_prefix.display();
            Err(missing(format!("its program is neither in {prefix} nor on the PATH")))
        }
    }
}

fn located(place: &Place<'_>, program: Vec<String>, source: Source) -> Located {
    Located { path: path_for(&program, place.path), program, source }
}

/// The PATH for a program. A script finds its interpreter there; the program's own folder is added last, since a second
/// installation of node keeps its interpreter beside its scripts.
fn path_for(program: &[String], path: &str) -> String {
    let beside = program.first().and_then(|first| Path::new(first).parent());
    match beside.map(shown) {
        Some(folder) if !folder.is_empty() && !path.split(':').any(|known| known == folder) => {
            format!("{path}:{folder}")
        }
        Some(_) | None => path.to_owned(),
    }
}

/// The configured command: one path, a name on the PATH, or words such as `node /opt/cli.js`.
fn configured(command: &str, path: &str) -> Result<Vec<String>, String> {
    let whole = Path::new(command);
    if command.contains('/') && whole.is_file() {
        return executable(whole).map(|program| vec![shown(&program)]);
    }
    let mut words = command.split_whitespace();
    let first = words.next().unwrap_or_default();
    let program = if first.contains('/') {
        executable(Path::new(first))?
    } else {
        on_path(first, path).ok_or_else(|| format!("{first:?} is not on the PATH of the service"))?
    };
    Ok(std::iter::once(shown(&program)).chain(words.map(str::to_owned)).collect())
}

/// The program below the managed prefix, if the engine is installed there.
fn managed(place: &Place<'_>) -> Result<Option<Vec<String>>, String> {
    let Some(install) = &place.adapter.install else { return Ok(None) };
    let prefix = absolute(place.npm_prefix);
    let mut words = install.program_in(&shown(&prefix));
    let own = words.iter().filter(|word| Path::new(word).starts_with(&prefix));
    if !own.clone().all(|word| Path::new(word).is_file()) {
        return Ok(None);
    }
    let Some(first) = words.first_mut() else { return Ok(None) };
    if first.contains('/') {
        executable(Path::new(first))?;
    } else {
        // The first word is an interpreter, and the script after it is the engine.
        let interpreter = on_path(first, place.path);
        let interpreter =
            interpreter.ok_or_else(|| format!("it needs {first}, which is not on the PATH of the service"))?;
        *first = shown(&interpreter);
    }
    Ok(Some(words))
}

/// The first program of this name on the PATH.
pub(crate) fn on_path(name: &str, path: &str) -> Option<PathBuf> {
    // An empty or relative entry would name another folder in every run.
    let folders = path.split(':').map(Path::new).filter(|folder| folder.is_absolute());
    folders.map(|folder| folder.join(name)).find(|program| executable(program).is_ok())
}

fn executable(program: &Path) -> Result<PathBuf, String> {
    let said = program.display();
    let found = fs::metadata(program).map_err(|error| format!("{said}: {error}"))?;
    if !found.is_file() {
        return Err(format!("{said} is not a file"));
    }
    if found.permissions().mode() & 0o111 == 0 {
        return Err(format!("{said} is not executable; run chmod +x on it"));
    }
    Ok(absolute(program))
}

/// Each run has its own working directory, where a relative path would name another place.
fn absolute(path: &Path) -> PathBuf {
    std::path::absolute(path).unwrap_or_else(|_| path.to_owned())
}

fn shown(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}
