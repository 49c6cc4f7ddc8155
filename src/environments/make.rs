//! The maker: this program, started again under a run's supervisor, makes the environments it is told to.
//!
//! Its standard error is what it and the installer say; its standard output stays empty, or is the answer of a script that failed.

use std::fs;
use std::io::{self, Read, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, SystemTime};

use serde_json::{Value, json};

use super::complaint;
use super::installer::Installer;
use super::interpreter::{self, Interpreter, NoInterpreter};
use super::lock::Lock;
use super::order::{MAKE, Order, Wanted};
use super::output::{Finished, run, tell};
use super::record::{self, Record};
use crate::bounded;
use crate::domain::codes::ErrorCode;
use crate::files;
use crate::skill::python::Specifiers;

/// The failure that a maker leaves for those who waited for it meanwhile.
const FAILURE: &str = "failure.json";
/// How long others who have the lock are waited for when all is installed: makers only look then.
const PATIENCE: Duration = Duration::from_secs(10);
/// Longest failure that is read.
const FAILURE_MAX: u64 = 1024 * 1024;
/// Longest log of pip that is read.
const LOG_MAX: u64 = 16 * 1024 * 1024;
/// How much of the installer's words the error carries.
const SAID_MAX: usize = 4000;
/// Lists what is installed.
const LIST: &str = "import importlib.metadata as m; print('\\n'.join(sorted({d.metadata['Name']+'=='+d.version for d in m.distributions()})))";

/// Why an environment could not be made, as the error of a script.
struct Failure(Value);

impl Failure {
    fn new(message: impl Into<String>, reason: &str, hint: &str) -> Self {
        let details = json!({"reason": reason, "hint": hint});
        Self(
            json!({"code": ErrorCode::DependenciesUnavailable.as_str(), "message": message.into(), "details": details}),
        )
    }

    fn with(mut self, key: &str, value: impl Into<Value>) -> Self {
        self.0["details"][key] = value.into();
        self
    }
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        Self::new(
            format!("the Python environment could not be made: {error}"),
            "io",
            "check the disk of the data folder",
        )
    }
}

impl From<files::Error> for Failure {
    fn from(error: files::Error) -> Self {
        let source = io::Error::other(crate::domain::causes::chain(&error));
        Self::from(source)
    }
}

/// To be called first in `main`: when this process was started as a maker, it makes environments and exits.
pub fn make_if_asked() {
    if std::env::args_os().nth(1).is_some_and(|first| first == MAKE) {
        std::process::exit(match obey() {
            Ok(()) => 0,
            Err(Failure(error)) => {
                // The status says that it failed, even to nobody.
                let _ = writeln!(io::stdout(), "{}", json!({"success": false, "error": error}));
                1
            }
        });
    }
}

fn obey() -> Result<(), Failure> {
    let mut order = String::new();
    io::stdin().read_to_string(&mut order)?;
    let order: Order = bounded::json::from_str(&order).map_err(io::Error::from)?;
    order.environments.iter().try_for_each(make)
}

fn make(wanted: &Wanted) -> Result<(), Failure> {
    let began = SystemTime::now();
    let waits = || tell("waiting for another run that installs the same Python packages");
    let usable = || Record::usable(&wanted.folder).is_some();
    let Some(_alone) = Lock::wait(&wanted.folder, PATIENCE, waits, usable)? else {
        tell("the Python packages are installed; whoever holds their lock is not waited for any longer");
        return Ok(());
    };
    if Record::usable(&wanted.folder).is_some() {
        return Ok(());
    }
    if let Some(failure) = failed_since(&wanted.folder, began) {
        tell("another run has just failed to install the same Python packages");
        return Err(failure);
    }
    empty(&wanted.folder)?;
    let made = fill(wanted);
    if let Err(Failure(error)) = &made {
        empty(&wanted.folder)?;
        // For those who wait: if it is not there, they find out for themselves.
        let _ = files::write_whole(&wanted.folder.join(FAILURE), error.to_string().as_bytes());
    }
    made
}

/// The failure of a maker that this one waited for.
fn failed_since(folder: &Path, began: SystemTime) -> Option<Failure> {
    let path = folder.join(FAILURE);
    let written = fs::symlink_metadata(&path).and_then(|found| found.modified()).ok()?;
    let bytes = files::read_regular(&path, FAILURE_MAX).ok().flatten().filter(|_| written >= began)?;
    bounded::json::from_slice(&bytes).ok().map(Failure)
}

fn empty(folder: &Path) -> Result<(), Failure> {
    for entry in fs::read_dir(folder)? {
        files::remove_tree(&entry?.path())?;
    }
    Ok(())
}

/// How long a program has to tell its version; the machine may be busy.
const ANSWER_LIMIT: Duration = Duration::from_secs(60);

fn fill(wanted: &Wanted) -> Result<(), Failure> {
    let (folder, count) = (&wanted.folder, wanted.requirements.len());
    let python = python_for(wanted)?;
    let installer = Installer::find(&python, ANSWER_LIMIT);
    tell(&format!("making a Python {} environment with {}", python.version, installer.name()));
    let created = started(run(&mut installer.create(&python, folder), "making the environment"), &python)?;
    if !created.status.success() {
        let hint = "install Python's venv module (the package python3-venv on some systems) or uv on the machine of the service";
        let message = format!("Python {} could not make an environment", python.version);
        return Err(refused(message, "no_environment", hint, &created, &installer));
    }
    if count > 0 {
        let file = folder.join("requirements.txt");
        files::write_whole(&file, format!("{}\n", wanted.lines.join("\n")).as_bytes())?;
        tell(&format!("installing the Python packages of the skill: {}", shown(&wanted.requirements)));
        let log = folder.join("pip.log");
        let installed = run(&mut installer.install(&python, &file, folder, &log), "installing Python packages");
        let installed = started(installed, &python)?;
        if !installed.status.success() {
            return Err(not_installed(wanted, &installed, &installer, &log));
        }
        files::remove_tree(&log)?;
    }
    let packages = packages(folder)?;
    let record = Record {
        id: wanted.id.clone(),
        requirements: wanted.requirements.clone(),
        requires_python: wanted.python.clone(),
        python: python.version,
        interpreter: record::python(folder).canonicalize()?,
        installer: installer.name(),
        bytes: bytes_in(folder)?,
        packages,
    };
    // All of it is on the disk before its record is.
    files::sync_file_system(folder)?;
    record.write(folder)?;
    tell("the Python packages of the skill are installed");
    Ok(())
}

fn python_for(wanted: &Wanted) -> Result<Interpreter, Failure> {
    let fitting =
        wanted.python.as_deref().map(Specifiers::parse).transpose().map_err(|reason| {
            Failure::new(reason, "invalid", "correct the versions of Python that the skill asks for")
        })?;
    interpreter::find(fitting.as_ref(), ANSWER_LIMIT).map_err(|none| match none {
        NoInterpreter::Silent { name, limit } => Failure::new(
            format!("{name} did not answer within {} s", limit.as_secs()),
            "no_python",
            "see what that program waits for, or put another Python first on the PATH of the service",
        ),
        NoInterpreter::NotInstalled => Failure::new(
            "there is no Python on the PATH of the service",
            "no_python",
            "install Python 3 on the machine of the service",
        ),
        NoInterpreter::NoneFits(found) => {
            let asked = wanted.python.as_deref().unwrap_or_default();
            let message = format!("the skill needs Python {asked}, and this machine has {}", found.join(", "));
            let hint = "install such a Python on the machine of the service, or change what the skill asks for";
            Failure::new(message, "no_python", hint).with("found", found)
        }
    })
}

fn started(ran: io::Result<Finished>, python: &Interpreter) -> Result<Finished, Failure> {
    ran.map_err(|error| {
        let message = format!("the installer for Python {} could not be started: {error}", python.version);
        Failure::new(
            message,
            "no_installer",
            "install uv, or pip and venv for this Python, on the machine of the service",
        )
    })
}

fn not_installed(wanted: &Wanted, installed: &Finished, installer: &Installer, log: &Path) -> Failure {
    // Without it, what was printed has to be enough.
    let logged = files::read_regular(log, LOG_MAX).ok().flatten().unwrap_or_default();
    let complaint = complaint::read(&installed.said, &String::from_utf8_lossy(&logged));
    let what = complaint.package.as_deref().map_or_else(|| shown(&wanted.requirements), str::to_owned);
    let message = format!("the Python packages of the skill could not be installed ({what}): {}", complaint.line);
    let failure = refused(message, complaint.reason.as_str(), complaint.reason.hint(), installed, installer);
    let failure = failure.with("requirements", wanted.requirements.clone());
    match complaint.package {
        Some(package) => failure.with("package", package),
        None => failure,
    }
}

fn refused(message: String, reason: &str, hint: &str, finished: &Finished, installer: &Installer) -> Failure {
    let skip = finished.said.chars().count().saturating_sub(SAID_MAX);
    Failure::new(message, reason, hint)
        .with("installer", installer.name())
        .with("exit_code", finished.status.code())
        .with("installer_output", finished.said.chars().skip(skip).collect::<String>())
}

/// The requirements in one line; the first of many.
fn shown(requirements: &[String]) -> String {
    const SHOWN: usize = 5;
    let names = requirements.iter().take(SHOWN).map(|line| line.split(" --hash=").next().unwrap_or(line));
    let more = requirements.len().saturating_sub(SHOWN);
    let names = names.collect::<Vec<_>>().join(", ");
    if more > 0 { format!("{names} and {more} more") } else { names }
}

fn packages(folder: &Path) -> Result<Vec<String>, Failure> {
    let output = Command::new(record::python(folder)).args(["-I", "-c", LIST]).stdin(Stdio::null()).output()?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        let message = "the Python of the new environment does not run";
        return Err(
            Failure::new(message, "other", "read the words of Python in details").with("installer_output", said)
        );
    }
    Ok(String::from_utf8_lossy(&output.stdout).lines().map(str::to_owned).collect())
}

fn bytes_in(folder: &Path) -> io::Result<u64> {
    let (mut bytes, mut waiting) = (0, vec![folder.to_owned()]);
    while let Some(folder) = waiting.pop() {
        for entry in fs::read_dir(folder)? {
            let entry = entry?;
            let found = entry.metadata()?;
            if found.is_dir() { waiting.push(entry.path()) } else { bytes += found.len() }
        }
    }
    Ok(bytes)
}
