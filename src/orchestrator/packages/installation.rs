//! One installation under way: carried out by this service alone, recorded, and told to whoever asked.

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};

use tokio::sync::watch;
use tracing::{error, info, warn};

use crate::domain::causes::chain;
use crate::files;
use crate::orchestrator::packages::record::{Install, InstallFailure, InstallStatus, Records};
use crate::registry::{Done, InstallRefused, Installed, Staging};
use crate::skill::{Finding, Skill};

/// One installation under way.
pub(super) struct Installation {
    pub(super) records: Records,
    pub(super) install: Install,
    pub(super) teller: watch::Sender<Install>,
}

impl Installation {
    pub(super) fn carry_out(mut self, staging: Staging, unpacked: Result<PathBuf, Finding>) {
        let id = staging.id();
        let installed = match unpacked {
            Ok(folder) => unbroken(&folder, || staging.install(&folder, |skill| self.begin(skill))),
            Err(finding) => Err(InstallRefused::Package { findings: vec![finding] }),
        };
        match installed {
            Ok((found, done)) => {
                info!(install = %id, skill = done.skill_id, version = done.version.as_deref(), "installed");
                self.succeed(&found, done);
            }
            Err(refused) => {
                if let InstallRefused::Io(cause) = &refused {
                    error!(install = %id, error = %chain(cause), "a package could not be installed");
                }
                self.install.fail(InstallFailure::from(&refused));
            }
        }
        self.over(staging);
    }

    pub(super) fn succeed(&mut self, installed: &Installed, done: Done) {
        let warnings = installed.skill.findings.iter().map(|finding| serde_json::json!(finding));
        self.install.warnings = warnings.collect();
        self.install.succeed(done);
    }

    /// It is over, and whoever asked is told.
    pub(super) fn over(self, staging: Staging) {
        let id = staging.id();
        // The record is written before the staging folder is removed: the next start reads the outcome from that folder.
        if let Err(error) = self.records.write(&self.install) {
            error!(install = %id, error = %chain(&error), "the outcome of an installation was not written down");
        } else if self.install.status == InstallStatus::Succeeded {
            clear(staging);
        } else {
            // Without a plan the staging folder is removed; with one, the next start finishes the installation or rolls it back.
            drop(staging);
        }
        self.teller.send_replace(self.install);
    }

    pub(super) fn begin(&mut self, skill: &Skill) {
        self.install.status = InstallStatus::Running;
        self.install.skill_id = Some(skill.id.clone());
        self.install.version = Some(skill.version.to_string());
        // Should this be lost, the installation is told to wait a little longer than it did.
        if let Err(error) = self.records.write(&self.install) {
            warn!(install = %self.install.request_id, error = %chain(&error), "its record was not written");
        }
        self.teller.send_replace(self.install.clone());
    }
}

/// Does the work; a panic in it is a failure like any other, so that no installation stays under way for ever.
fn unbroken<T>(folder: &Path, work: impl FnOnce() -> Result<T, InstallRefused>) -> Result<T, InstallRefused> {
    catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|_| {
        let broke = io::Error::other("the work broke off; this is a fault of skill-runner, and its log has the place");
        Err(InstallRefused::Io(files::Error::on("install the package in", folder)(broke)))
    })
}

pub(crate) fn clear(staging: Staging) {
    let id = staging.id();
    if let Err(error) = staging.clear() {
        warn!(install = %id, error = %chain(&error), "the staging folder of an installation could not be removed");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_that_panics_is_a_failed_installation() {
        let broken = unbroken::<()>(Path::new("package"), || panic!("broken on purpose"));
        let told = chain(&broken.unwrap_err());
        assert!(told.contains("the work broke off"), "{told}");
        assert!(unbroken(Path::new("package"), || Ok(1)).is_ok_and(|done| done == 1));
    }
}
