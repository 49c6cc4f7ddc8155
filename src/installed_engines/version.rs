//! The version a program calls itself by, asked once and remembered until the program changes.

use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tracing::warn;

use super::bounded::{self, NotRun, Output};
use super::scratch;

/// How long a program may take to tell its version.
const LIMIT: Duration = Duration::from_secs(10);
/// How long a failure is believed before the program is tried again.
const FAILURE_HOLDS: Duration = Duration::from_secs(30);
/// For a program that does not tell.
pub(super) const UNKNOWN: &str = "unknown";
/// Longest complaint of a program that is passed on.
const COMPLAINT_MAX: usize = 300;

/// A version, or what is wrong with the program.
type Answer = Result<String, String>;

/// Versions by program.
pub(super) struct Versions {
    folder: PathBuf,
    known: Mutex<BTreeMap<String, String>>,
    /// Answers that may change although the program does not, such as on a busy machine.
    doubtful: Mutex<HashMap<String, (Instant, Answer)>>,
    /// One look at each engine at a time: a second one would only wait for the same answer.
    looking: BTreeMap<&'static str, Mutex<()>>,
}

impl Versions {
    /// Versions remembered in this folder.
    pub(super) fn new(folder: PathBuf, engines: impl IntoIterator<Item = &'static str>) -> Self {
        Self {
            folder,
            known: Mutex::default(),
            doubtful: Mutex::default(),
            looking: engines.into_iter().map(|engine| (engine, Mutex::default())).collect(),
        }
    }

    /// The version of this program, or what is wrong with it.
    pub(super) fn of(&self, engine: &str, program: &[String], path: &str) -> Answer {
        let key = identity(program);
        if let Some(known) = self.remembered(&key) {
            return known;
        }
        let _looking = self.looking.get(engine).map(lock);
        // An earlier life, or another process on the same folder, may have asked already.
        lock(&self.known).extend(self.written());
        if let Some(known) = self.remembered(&key) {
            return known;
        }
        let told = scratch::with(&self.folder, |scratch| ask(program, path, scratch));
        match told.unwrap_or_else(|error| Err(NotRun::Start(error))) {
            Ok(output) if output.status.success() => match version_in(&output.stdout) {
                Some(version) => {
                    self.remember(key, version.clone());
                    Ok(version)
                }
                None => self.doubt(key, Ok(UNKNOWN.to_owned())),
            },
            Ok(output) => self.doubt(key, Err(complaint(&output))),
            // On a busy machine it may still do its work: whoever needs it will see.
            Err(NotRun::TimedOut(_)) => {
                warn!(program = program.join(" "), "it did not tell its version within {} s", LIMIT.as_secs());
                self.doubt(key, Ok(UNKNOWN.to_owned()))
            }
            Err(error @ (NotRun::Start(_) | NotRun::Watch(_))) => self.doubt(key, Err(error.to_string())),
        }
    }

    fn written(&self) -> BTreeMap<String, String> {
        fs::read(file_in(&self.folder)).ok().and_then(|bytes| serde_json::from_slice(&bytes).ok()).unwrap_or_default()
    }

    fn remembered(&self, key: &str) -> Option<Answer> {
        if let Some(version) = lock(&self.known).get(key) {
            return Some(Ok(version.clone()));
        }
        let doubtful = lock(&self.doubtful);
        doubtful.get(key).filter(|(since, _)| since.elapsed() < FAILURE_HOLDS).map(|(_, answer)| answer.clone())
    }

    fn doubt(&self, key: String, answer: Answer) -> Answer {
        let mut doubtful = lock(&self.doubtful);
        doubtful.retain(|_, (since, _)| since.elapsed() < FAILURE_HOLDS);
        doubtful.insert(key, (Instant::now(), answer.clone()));
        answer
    }

    fn remember(&self, key: String, version: String) {
        let mut known = lock(&self.known);
        known.extend(self.written());
        // What the same program was before is of no use to anybody.
        let program = program_of(&key).to_owned();
        known.retain(|other, _| program_of(other) != program);
        known.insert(key, version);
        let written = serde_json::to_vec_pretty(&*known).map_err(Into::into);
        if let Err(error) = written.and_then(|bytes| scratch::write_whole(&file_in(&self.folder), &bytes)) {
            warn!(%error, "the versions of the CLIs are not remembered; they are asked again after a restart");
        }
    }
}

pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn file_in(folder: &Path) -> PathBuf {
    folder.join("versions.json")
}

/// The words, then what the file system says of each file among them. A package manager gives every file the same
/// old date, and two versions of a script may have the same length: so the inode and the time of its last change count, too.
pub(super) fn identity(program: &[String]) -> String {
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

fn ask(program: &[String], path: &str, scratch: &Path) -> Result<Output, NotRun> {
    bounded::run(program, &["--version"], &quiet_env(path, scratch), scratch, LIMIT)
}

/// An environment made from nothing, in which no CLI has a reason to call anybody.
pub(super) fn quiet_env(path: &str, scratch: &Path) -> Vec<(&'static str, String)> {
    let folder = scratch.to_string_lossy().into_owned();
    // Whatever still wants to call out meets a closed port.
    let nowhere = "http://127.0.0.1:9".to_owned();
    let mut env = vec![
        ("PATH", path.to_owned()),
        ("HOME", folder.clone()),
        ("TMPDIR", folder),
        ("LANG", "C.UTF-8".to_owned()),
        ("HTTP_PROXY", nowhere.clone()),
        ("HTTPS_PROXY", nowhere),
    ];
    let off = [
        "NO_COLOR",
        "NO_UPDATE_NOTIFIER",
        "DISABLE_AUTOUPDATER",
        "DISABLE_TELEMETRY",
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC",
        "OPENCODE_DISABLE_AUTOUPDATE",
        "OPENCODE_DISABLE_MODELS_FETCH",
        "OPENCODE_DISABLE_LSP_DOWNLOAD",
        "OPENCODE_DISABLE_DEFAULT_PLUGINS",
        "GEMINI_CLI_NO_RELAUNCH",
        "QWEN_CODE_NO_RELAUNCH",
    ];
    env.extend(off.map(|name| (name, "1".to_owned())));
    env
}

/// The first word that is a version: `codex-cli 0.166.0`, `2.1.325 (Claude Code)`, `v1.2`.
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

/// What a program said when it should have told its version.
fn complaint(output: &Output) -> String {
    let said = if output.stderr.trim().is_empty() { &output.stdout } else { &output.stderr };
    let said = said.split_whitespace().collect::<Vec<_>>().join(" ");
    let said: String = said.chars().filter(|character| !character.is_control()).take(COMPLAINT_MAX).collect();
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
