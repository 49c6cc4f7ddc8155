//! The Python of this machine that an environment is made with.

use std::path::PathBuf;
use std::process::{Command, Stdio};

use crate::skill::python::Specifiers;

/// Asked of each Python: its version and its own path.
const QUESTION: &str = "import sys; print('.'.join(map(str, sys.version_info[:3])), getattr(sys, '_base_executable', None) or sys.executable)";
/// Names that a Python may have; the usual ones first.
const USUAL: [&str; 2] = ["python3", "python"];
/// The minor versions that are looked for by name, the newest first.
const MINORS: std::ops::RangeInclusive<u32> = 8..=20;

/// A Python that was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Interpreter {
    pub(super) program: PathBuf,
    pub(super) version: String,
}

/// Why there is none.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum NoInterpreter {
    NotInstalled,
    /// These versions were found, and none fits.
    NoneFits(Vec<String>),
}

/// The first Python on the PATH whose version fits.
pub(super) fn find(fitting: Option<&Specifiers>) -> Result<Interpreter, NoInterpreter> {
    let mut found = Vec::new();
    let by_version = MINORS.rev().map(|minor| format!("python3.{minor}"));
    let others = by_version.take(if fitting.is_some() { usize::MAX } else { 0 });
    for name in USUAL.iter().map(|name| (*name).to_owned()).chain(others) {
        let Some(interpreter) = ask(&name) else { continue };
        let numbers: Vec<u64> = interpreter.version.split('.').filter_map(|number| number.parse().ok()).collect();
        if fitting.is_none_or(|fitting| fitting.fit(&numbers)) {
            return Ok(interpreter);
        }
        if !found.contains(&interpreter.version) {
            found.push(interpreter.version);
        }
    }
    Err(if found.is_empty() { NoInterpreter::NotInstalled } else { NoInterpreter::NoneFits(found) })
}

fn ask(name: &str) -> Option<Interpreter> {
    let output = Command::new(name).args(["-I", "-c", QUESTION]).stdin(Stdio::null()).output().ok()?;
    let text = String::from_utf8(output.stdout).ok().filter(|_| output.status.success())?;
    let (version, program) = text.trim_end().split_once(' ')?;
    Some(Interpreter { program: program.into(), version: version.to_owned() })
}
