//! Whether this machine lets the service make a sandbox, tried once.

use std::ffi::OsStr;
use std::io;
use std::path::Path;
use std::time::Duration;

use rustix::process::{Pid, WaitOptions, waitpid};

use super::control_group::Entry;
use super::sandbox::{Access, Network, Sandbox, Shown, filters, hidden_of_machine};
use super::shim::{self, EnginesEnds, Failure, Order};

/// What a sandbox on this machine needs, or why there is none.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Confinement {
    /// It works; with a user namespace, if the service is not root.
    Works { user_namespace: bool },
    /// It does not, for this reason.
    Missing { reason: String },
    /// It is switched off.
    Off,
}

/// How long the probe may take; the kernel decides at once.
const REAPED_WITHIN: Duration = Duration::from_secs(10);

/// Tries a sandbox in this folder, which is the service's own. Blocks.
pub fn probe(folder: &Path) -> Confinement {
    if filters().is_empty() {
        let reason = format!("system calls cannot be filtered on {}", std::env::consts::ARCH);
        return Confinement::Missing { reason };
    }
    let mut reason = String::new();
    for user_namespace in [false, true] {
        match try_once(folder, user_namespace) {
            Ok(()) => return Confinement::Works { user_namespace },
            Err(Failure::Sandbox(step, error)) => {
                reason = format!("the kernel does not let the service {step}: {error}")
            }
            Err(Failure::Shim(error) | Failure::Engine(error) | Failure::Bind(error)) => reason = error.to_string(),
        }
    }
    Confinement::Missing { reason }
}

/// The same for a data folder that need not be there yet, and that another process may use. Blocks.
pub(crate) fn probe_beside(data_dir: &Path) -> Confinement {
    let there = data_dir.ancestors().find(|folder| folder.is_dir()).unwrap_or(Path::new("."));
    let tried = tempfile::Builder::new().prefix(".probe-").tempdir_in(there).map(|folder| probe(folder.path()));
    tried.unwrap_or_else(|error| Confinement::Missing { reason: error.to_string() })
}

fn try_once(folder: &Path, user_namespace: bool) -> Result<(), Failure> {
    let folder = std::path::absolute(folder).map_err(Failure::Shim)?;
    let sandbox = Sandbox {
        user_namespace,
        hidden: hidden_of_machine(),
        shown: vec![Shown::in_place(&folder, Access::Write)],
        network: Network::None,
    };
    let order = Order {
        mark: u64::MAX - 1,
        open_files: None,
        limits: None,
        cwd: folder.clone(),
        binds: Vec::new(),
        tmp: None,
        group: Entry::default(),
        sandbox: Some(sandbox),
        argv: vec!["/bin/sh".into()],
        env: Vec::new(),
    };
    let discarded = || io::pipe().map(|(_, write)| write.into()).map_err(Failure::Shim);
    let written = EnginesEnds { stdout: discarded()?, stderr: discarded()? };
    let marks = [("SKILL_RUNNER_PROBE", OsStr::new("1")), ("TMPDIR", folder.as_os_str())];
    let started = shim::start(&folder, marks, &order, written)?;
    let shim = started.shim;
    // Its control socket is closed with this, so it ends its engine, which has not begun, and itself.
    drop(started);
    reap(shim);
    Ok(())
}

fn reap(shim: Pid) {
    let begun = std::time::Instant::now();
    while matches!(waitpid(Some(shim), WaitOptions::NOHANG), Ok(None)) && begun.elapsed() < REAPED_WITHIN {
        std::thread::sleep(Duration::from_millis(1));
    }
}
