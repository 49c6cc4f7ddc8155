//! The version that a program prints, asked once and remembered until the program changes.

use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tracing::warn;

use super::package_version::installed_version;
use super::temporary_folder::with_temporary_folder;
use crate::bounded;
use crate::domain::engine::Engine;
use crate::engine::Adapter;
use crate::files::child::{self, NotRun, Output};
use crate::files::{self, write_durably};

/// How long a program may take to print its version.
const LIMIT: Duration = Duration::from_secs(10);
/// How long a failure is remembered before the program is tried again.
const FAILURE_HOLDS: Duration = Duration::from_secs(30);
/// The version of a program that does not print one.
pub(crate) const UNKNOWN: &str = "unknown";
/// Longest part of a program's error message that is shown.
const ERROR_TEXT_MAX: usize = 300;

/// A version, or what is wrong with the program.
type Answer = Result<String, String>;

pub(crate) struct Versions {
    folder: PathBuf,
    known: Mutex<BTreeMap<String, String>>,
    /// Answers that may change although the program does not, for example on a busy machine.
    uncertain: Mutex<HashMap<String, (Instant, Answer)>>,
    /// One question to each engine at a time: a second one would only wait for the same answer.
    looking: BTreeMap<Engine, Mutex<()>>,
}

impl Versions {
    /// Versions remembered in this folder.
    pub(crate) fn new(folder: PathBuf, engines: impl IntoIterator<Item = Engine>) -> Self {
        Self {
            folder,
            known: Mutex::default(),
            uncertain: Mutex::default(),
            looking: engines.into_iter().map(|engine| (engine, Mutex::default())).collect(),
        }
    }

    /// The version of this program, or what is wrong with it.
    pub(crate) fn of(&self, adapter: &Adapter, program: &[String], path: &str) -> Answer {
        let key = identity(program);
        if let Some(known) = self.remembered(&key) {
            return known;
        }
        let _looking = self.looking.get(&adapter.engine).map(lock);
        // An earlier run of the service, or another process on the same folder, may have asked already.
        lock(&self.known).extend(self.written());
        if let Some(known) = self.remembered(&key) {
            return known;
        }
        let told = with_temporary_folder(&self.folder, |folder| ask(adapter, program, path, folder));
        match told.unwrap_or_else(|error| Err(NotRun::Start(error))) {
            Ok(output) if output.status.success() => match version_in(&output.stdout) {
                Some(version) => {
                    self.remember(key, version.clone());
                    Ok(version)
                }
                None => self.remember_for_a_while(key, Ok(UNKNOWN.to_owned())),
            },
            Ok(output) => self.remember_for_a_while(key, Err(error_text(&output))),
            // On a busy machine the program may still work, so it counts as installed. Its package tells the version, too.
            Err(NotRun::TimedOut(_)) => {
                let packaged = adapter.install.as_ref().and_then(|install| installed_version(install, program));
                let version = packaged.unwrap_or_else(|| UNKNOWN.to_owned());
                warn!(
                    program = program.join(" "),
                    version,
                    "the program did not print its version within {} s",
                    LIMIT.as_secs()
                );
                self.remember_for_a_while(key, Ok(version))
            }
            Err(error @ (NotRun::Start(_) | NotRun::Wait(_))) => self.remember_for_a_while(key, Err(error.to_string())),
        }
    }

    fn written(&self) -> BTreeMap<String, String> {
        files::read_followed(&file_in(&self.folder))
            .ok()
            .and_then(|bytes| bounded::json::from_slice(&bytes).ok())
            .unwrap_or_default()
    }

    fn remembered(&self, key: &str) -> Option<Answer> {
        if let Some(version) = lock(&self.known).get(key) {
            return Some(Ok(version.clone()));
        }
        let uncertain = lock(&self.uncertain);
        uncertain.get(key).filter(|(since, _)| since.elapsed() < FAILURE_HOLDS).map(|(_, answer)| answer.clone())
    }

    fn remember_for_a_while(&self, key: String, answer: Answer) -> Answer {
        let mut uncertain = lock(&self.uncertain);
        uncertain.retain(|_, (since, _)| since.elapsed() < FAILURE_HOLDS);
        uncertain.insert(key, (Instant::now(), answer.clone()));
        answer
    }

    fn remember(&self, key: String, version: String) {
        let mut known = lock(&self.known);
        known.extend(self.written());
        // Versions of the same program before it changed are no longer needed.
        let program = program_of(&key).to_owned();
        known.retain(|other, _| program_of(other) != program);
        known.insert(key, version);
        let encoded = serde_json::to_vec_pretty(&*known).map_err(io::Error::from);
        let written = encoded.and_then(|bytes| Ok(write_durably(&file_in(&self.folder), &bytes)?));
        if let Err(error) = written {
            warn!(%error, "the versions of the CLIs could not be stored; the CLIs are asked again after a restart");
        }
    }
}

pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn file_in(folder: &Path) -> PathBuf {
    folder.join("versions.json")
}

/// The words, then the metadata of each file among them. A package manager gives every file the same old date, and two
/// versions of a script may have the same length: so the inode and the time of the last change are part of it.
pub(crate) fn identity(program: &[String]) -> String {
    let files = program.iter().filter_map(|word| fs::metadata(word).ok());
    let marks: Vec<String> = files
        .map(|file| {
            let (modified, changed) = (file.mtime_nsec(), file.ctime_nsec());
            format!("{}.{modified} {}.{changed} {} {}", file.mtime(), file.ctime(), file.len(), file.ino())
        })
        .collect();
    format!("{}\n{}", program.join(" "), marks.join(", "))
}

fn program_of(key: &str) -> &str {
    key.split('\n').next().unwrap_or_default()
}

fn ask(adapter: &Adapter, program: &[String], path: &str, folder: &Path) -> Result<Output, NotRun> {
    child::run(program, &["--version"], &quiet_env(adapter, path, folder), folder, LIMIT)
}

/// The environment for a CLI that is only asked something: nothing is inherited, and no request leaves the machine.
pub(crate) fn quiet_env(adapter: &Adapter, path: &str, home: &Path) -> Vec<(&'static str, String)> {
    let folder = home.to_string_lossy().into_owned();
    // If the CLI sends a request nevertheless, it goes to a closed port.
    let nowhere = "http://127.0.0.1:9".to_owned();
    let mut env = vec![
        ("PATH", path.to_owned()),
        ("HOME", folder.clone()),
        ("TMPDIR", folder),
        ("LANG", "C.UTF-8".to_owned()),
        ("HTTP_PROXY", nowhere.clone()),
        ("HTTPS_PROXY", nowhere),
    ];
    let general = [("NO_COLOR", "1"), ("NO_UPDATE_NOTIFIER", "1")];
    env.extend(general.iter().chain(adapter.switches).map(|(name, value)| (*name, (*value).to_owned())));
    env
}

/// The first word that is a version: `some-cli 0.166.0`, `2.1.325 (Some Code)`, `v1.2`.
fn version_in(output: &str) -> Option<String> {
    let words = output.split_whitespace().map(|word| word.trim_start_matches('v').trim_end_matches([',', ')', ';']));
    let is_version = |word: &&str| {
        let plain = |character: char| character.is_ascii_alphanumeric() || ".-+".contains(character);
        word.starts_with(|first: char| first.is_ascii_digit())
            && word.contains('.')
            && word.len() <= 64
            && word.chars().all(plain)
    };
    words.into_iter().find(is_version).map(str::to_owned)
}

/// The version that is found in what a program prints, which is a short word.
#[cfg(any(test, fuzzing))]
pub(crate) fn foreign_version(output: &str) -> bool {
    let found = version_in(output);
    assert!(found.iter().all(|found| found.len() <= 64 && found.bytes().all(|byte| byte.is_ascii_graphic())));
    found.is_some()
}

/// The message of a program that failed to print its version.
fn error_text(output: &Output) -> String {
    let said = if output.stderr.trim().is_empty() { &output.stdout } else { &output.stderr };
    let said = said.split_whitespace().collect::<Vec<_>>().join(" ");
    let said: String = said.chars().filter(|character| !character.is_control()).take(ERROR_TEXT_MAX).collect();
    format!("--version failed ({}): {said}", output.status)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_is_found_in_what_the_clis_print() {
        for (printed, version) in [
            ("codex-cli 0.166.0\n", Some("0.166.0")),
            ("2.1.325 (Claude Code)\n", Some("2.1.325")),
            ("1.18.33\n", Some("1.18.33")),
            ("warning: x\nv0.24.4-rc.1\n", Some("0.24.4-rc.1")),
            ("iflow version 0.5\n", Some("0.5")),
            ("hello", None),
            ("3 files", None),
            ("", None),
        ] {
            assert_eq!(version_in(printed).as_deref(), version, "{printed}");
        }
    }
}
