//! What makes an environment and fills it: uv where it is installed, else Python's own venv and pip.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use super::interpreter::{self, Interpreter, NoInterpreter};
use super::record;
use crate::files::child;

/// A package of requirements is installed by one of these.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Installer {
    Uv {
        version: String,
    },
    /// The pip of the machine's Python, which can install into an environment that has none.
    Pip {
        version: String,
    },
    /// The pip that an environment gets with Python's venv.
    OwnPip,
}

/// Variables of the operator that pip knows, with the name that uv has for each.
const FOR_BOTH: [(&str, &str); 5] = [
    ("PIP_INDEX_URL", "UV_INDEX_URL"),
    ("PIP_EXTRA_INDEX_URL", "UV_EXTRA_INDEX_URL"),
    ("PIP_TRUSTED_HOST", "UV_INSECURE_HOST"),
    ("PIP_CONSTRAINT", "UV_CONSTRAINT"),
    ("PIP_CERT", "SSL_CERT_FILE"),
];

/// Variables of pip that are an option of uv, with each of their words.
const OPTIONS: [(&str, &str); 2] = [("PIP_FIND_LINKS", "--find-links"), ("PIP_ONLY_BINARY", "--only-binary")];

/// How the installers are told to behave.
const MANNERS: [(&str, &str); 11] = [
    ("PIP_DISABLE_PIP_VERSION_CHECK", "1"),
    ("PIP_NO_INPUT", "1"),
    ("PIP_NO_COLOR", "1"),
    ("PIP_PROGRESS_BAR", "off"),
    // What one skill's packages leave in a cache would be installed for another's.
    ("PIP_NO_CACHE_DIR", "1"),
    ("UV_NO_CACHE", "1"),
    ("UV_NO_PROGRESS", "1"),
    // An environment is on a mount of its own, where nothing can be linked to.
    ("UV_LINK_MODE", "copy"),
    ("UV_PYTHON_DOWNLOADS", "never"),
    ("UV_COMPILE_BYTECODE", "1"),
    ("NO_COLOR", "1"),
];

impl Installer {
    /// The one there is. Each has so long to answer.
    pub(super) fn find(python: &Interpreter, limit: Duration) -> Self {
        if let Some(version) = version(Command::new("uv").arg("--version"), limit) {
            return Self::Uv { version };
        }
        let pip = version(Command::new(&python.program).args(["-I", "-m", "pip", "--version"]), limit);
        match pip.filter(|version| installs_elsewhere(version)) {
            Some(version) => Self::Pip { version },
            None => Self::OwnPip,
        }
    }

    pub(super) fn name(&self) -> String {
        match self {
            Self::Uv { version } => format!("uv {version}"),
            Self::Pip { version } => format!("pip {version}"),
            Self::OwnPip => "pip".to_owned(),
        }
    }

    /// Makes an empty environment.
    pub(super) fn create(&self, python: &Interpreter, folder: &Path) -> Command {
        let mut command = match self {
            Self::Uv { .. } => {
                let mut command = Command::new("uv");
                command.args(["venv", "--python"]).arg(&python.program);
                command
            }
            Self::Pip { .. } => {
                let mut command = Command::new(&python.program);
                command.args(["-I", "-m", "venv", "--without-pip"]);
                command
            }
            Self::OwnPip => {
                let mut command = Command::new(&python.program);
                command.args(["-I", "-m", "venv"]);
                command
            }
        };
        command.arg(record::virtual_environment(folder));
        mannered(command, folder)
    }

    /// Installs what a file of requirements lists. pip writes to the log what it does not print.
    pub(super) fn install(&self, python: &Interpreter, requirements: &Path, folder: &Path, log: &Path) -> Command {
        let own = record::python(folder);
        let mut command = match self {
            Self::Uv { .. } => {
                let mut command = Command::new("uv");
                command.args(["pip", "install", "--python"]).arg(own).args(options_of_uv());
                command
            }
            Self::Pip { .. } => {
                let mut command = Command::new(&python.program);
                command.args(["-I", "-m", "pip", "--python"]).arg(own).arg("install").arg("--log").arg(log);
                command
            }
            Self::OwnPip => {
                let mut command = Command::new(own);
                command.args(["-I", "-m", "pip", "install", "--log"]).arg(log);
                command
            }
        };
        command.arg("-r").arg(requirements);
        mannered(command, folder)
    }
}

/// What the operator has told pip, for uv.
fn options_of_uv() -> Vec<String> {
    let told = |name: &str| std::env::var(name).unwrap_or_default();
    let mut options = Vec::new();
    for (variable, option) in OPTIONS {
        let value = told(variable);
        options.extend(
            value
                .split([' ', ','])
                .filter(|word| !word.is_empty())
                .flat_map(|word| [option.to_owned(), word.to_owned()]),
        );
    }
    if !["", "0", "false", "no", "off"].contains(&told("PIP_NO_INDEX").to_ascii_lowercase().as_str()) {
        options.push("--no-index".to_owned());
    }
    options
}

/// How long a program has to tell its version when somebody waits for it.
const LOOK_LIMIT: Duration = Duration::from_secs(5);

/// What would install packages on this machine, and for which Python; or why nothing would.
pub(crate) fn installer_here() -> Result<String, String> {
    match interpreter::find(None, LOOK_LIMIT) {
        Ok(python) => Ok(format!("{} for Python {}", Installer::find(&python, LOOK_LIMIT).name(), python.version)),
        Err(NoInterpreter::Silent { name, limit }) => {
            Err(format!("{name} did not answer within {} s", limit.as_secs()))
        }
        Err(NoInterpreter::NotInstalled | NoInterpreter::NoneFits(_)) => {
            Err("there is no Python on the PATH".to_owned())
        }
    }
}

/// The second word of what a program says its version is.
fn version(command: &mut Command, limit: Duration) -> Option<String> {
    let output = child::output(command, limit).ok().filter(|output| output.status.success())?;
    Some(output.stdout.split_whitespace().nth(1)?.to_owned())
}

/// Whether a pip knows the option --python, as it does since 22.3.
fn installs_elsewhere(version: &str) -> bool {
    let mut numbers = version.split('.').map(|number| number.parse().unwrap_or(0_u32));
    (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0)) >= (22, 3)
}

fn mannered(mut command: Command, folder: &Path) -> Command {
    if std::env::var_os("PIP_RETRIES").is_none() {
        // With more, a machine without a network would wait for half a minute.
        command.env("PIP_RETRIES", "2");
    }
    // Not in the package: uv reads settings from the folder it is started in.
    command.current_dir(folder).envs(MANNERS);
    for (of_pip, of_uv) in FOR_BOTH {
        if let (Some(value), None) = (std::env::var_os(of_pip), std::env::var_os(of_uv)) {
            command.env(of_uv, value);
        }
    }
    command
}
