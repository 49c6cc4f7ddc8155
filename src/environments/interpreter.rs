//! The Python of this machine that an environment is made with.

use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use crate::files::child::{self, NotRun};
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
    /// This one is there, and did not answer in time; no other fits.
    Silent {
        name: String,
        limit: Duration,
    },
    /// These versions were found, and none fits.
    NoneFits(Vec<String>),
}

/// The first Python on the PATH whose version fits. Each has so long to answer.
pub(super) fn find(fitting: Option<&Specifiers>, limit: Duration) -> Result<Interpreter, NoInterpreter> {
    let mut found = Vec::new();
    let mut silent = None;
    let by_version = MINORS.rev().map(|minor| format!("python3.{minor}"));
    let others = by_version.take(if fitting.is_some() { usize::MAX } else { 0 });
    for name in USUAL.iter().map(|name| (*name).to_owned()).chain(others) {
        let interpreter = match ask(&name, limit) {
            Ok(Some(interpreter)) => interpreter,
            Ok(None) => continue,
            Err(Silent) => {
                silent.get_or_insert(name);
                continue;
            }
        };
        let numbers: Vec<u64> = interpreter.version.split('.').filter_map(|number| number.parse().ok()).collect();
        if fitting.is_none_or(|fitting| fitting.fit(&numbers)) {
            return Ok(interpreter);
        }
        if !found.contains(&interpreter.version) {
            found.push(interpreter.version);
        }
    }
    Err(match silent {
        Some(name) => NoInterpreter::Silent { name, limit },
        None if found.is_empty() => NoInterpreter::NotInstalled,
        None => NoInterpreter::NoneFits(found),
    })
}

/// A program did not end in time.
struct Silent;

fn ask(name: &str, limit: Duration) -> Result<Option<Interpreter>, Silent> {
    let output = match child::output(Command::new(name).args(["-I", "-c", QUESTION]), limit) {
        Ok(output) => output,
        Err(NotRun::TimedOut(_)) => return Err(Silent),
        Err(NotRun::Start(_) | NotRun::Wait(_)) => return Ok(None),
    };
    let answer = output.stdout.trim_end().split_once(' ').filter(|_| output.status.success());
    Ok(answer.map(|(version, program)| Interpreter { program: program.into(), version: version.to_owned() }))
}
