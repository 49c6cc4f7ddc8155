//! Packages on their way into the skills folder: unpacked at once, installed in their turn, and told about for long.

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};

use tokio::sync::{oneshot, watch};
use tracing::{error, info, warn};
use uuid::Uuid;

use crate::domain::causes::chain;
use crate::files;
use crate::orchestrator::error::Error;
use crate::orchestrator::handle::Orchestrator;
use crate::orchestrator::packages::record::{Install, InstallFailure, InstallStatus, Records};
use crate::orchestrator::packages::unpack;
use crate::registry;
use crate::registry::{Done, InstallRefused, Installed, Staging};
use crate::skill::{Finding, Skill};
use crate::workspace::{Layout, UploadError, UploadLimits};

/// Installations that may wait or be under way.
pub(crate) const INSTALLS_MAX: usize = 16;

impl Orchestrator {
    /// Takes the zip of a package, a file on disk: what is wrong with the zip itself is refused here, and nothing is
    /// left of it. The rest happens in its turn; the watch tells how it goes, and so does [`Orchestrator::install_of`].
    pub async fn install(&self, zip: PathBuf) -> Result<watch::Receiver<Install>, Error> {
        let shared = self.shared.clone();
        shared.admits()?;
        let turn = shared.installs.clone().try_acquire_owned();
        let turn = turn.map_err(|_| Error::InstallsBusy { limit: INSTALLS_MAX })?;
        let limits = self.upload_limits();
        let (owned, id) = (shared.clone(), shared.clock.new_id());
        let begin = move || {
            let staging = Staging::begin(&owned.settings.paths.skills_dir, id).map_err(Error::from)?;
            let unpacked = unpack::unpack(&zip, &staging.unpacked(), &limits)?;
            let records = Records::new(&owned.layout);
            let install = Install::queued(staging.id());
            records.write(&install)?;
            records.forget_old();
            let (teller, told) = watch::channel(install.clone());
            Ok::<_, Error>((Installation { records, install, teller }, staging, unpacked, told))
        };
        let (sender, begun) = oneshot::channel();
        let blocking = shared.blocking.clone();
        // In one piece, so that a service that ends waits for it, and that it goes on when nobody waits for its answer.
        shared.tasks.spawn(async move {
            let _turn = turn;
            let (installation, staging, unpacked, told) = match blocking.run("unpack the package", begin).await {
                Ok(Ok(unpacked)) => unpacked,
                Err(error) | Ok(Err(error)) => return drop(sender.send(Err(error))),
            };
            let _ = sender.send(Ok(told));
            let carried = blocking.run("install the package", move || installation.carry_out(staging, unpacked)).await;
            if let Err(error) = carried {
                error!(error = %chain(&error), "a package could not be installed");
            }
        });
        begun.await.unwrap_or(Err(Error::ShuttingDown))
    }

    /// An installation as it is now.
    pub fn install_of(&self, id: Uuid) -> Result<Option<Install>, Error> {
        Records::new(&self.shared.layout).read(id)
    }
}

/// One installation under way.
struct Installation {
    records: Records,
    install: Install,
    teller: watch::Sender<Install>,
}

impl Installation {
    fn carry_out(mut self, staging: Staging, unpacked: Result<PathBuf, Finding>) {
        let id = staging.id();
        let installed = match unpacked {
            Ok(folder) => unbroken(&folder, || staging.install(&folder, |skill| self.begin(skill))),
            Err(finding) => Err(InstallRefused::Package { findings: vec![finding] }),
        };
        match installed {
            Ok((found, done)) => {
                info!(install = %id, skill = done.skill_id, version = done.version.as_deref(), "installed");
                let warnings = found.skill.findings.iter().map(|finding| serde_json::json!(finding));
                self.install.warnings = warnings.collect();
                self.install.succeed(done);
            }
            Err(refused) => {
                if let InstallRefused::Io(cause) = &refused {
                    error!(install = %id, error = %chain(cause), "a package could not be installed");
                }
                self.install.fail(InstallFailure::from(&refused));
            }
        }
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

    fn begin(&mut self, skill: &Skill) {
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

/// Finishes or rolls back the installations that a killed process left, and records the outcome.
pub(crate) fn recover_installs(skills_dir: &Path, layout: &Layout) {
    // A skills folder that cannot be written keeps nobody from running what is in it.
    let recovered = registry::recover_installs(skills_dir).unwrap_or_else(|error| {
        warn!(error = %chain(&error), "interrupted installations could not be recovered");
        Vec::new()
    });
    let done = |id: Uuid| recovered.iter().find(|recovered| recovered.staging.id() == id)?.done.clone();
    let left = Records::new(layout).recover(done);
    // The next start reads the outcome of the others from their folders.
    for recovered in recovered.into_iter().filter(|recovered| !left.contains(&recovered.staging.id())) {
        let (id, outcome) = (recovered.staging.id(), if recovered.done.is_some() { "finished" } else { "rolled back" });
        info!(install = %id, outcome, "recovered an interrupted installation");
        clear(recovered.staging);
    }
}

pub(crate) fn clear(staging: Staging) {
    let id = staging.id();
    if let Err(error) = staging.clear() {
        warn!(install = %id, error = %chain(&error), "the staging folder of an installation could not be removed");
    }
}

/// A package that [`install_here`] did not install; nothing was changed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum NotInstalled {
    /// The zip itself is at fault, or could not be unpacked.
    #[error(transparent)]
    Zip(#[from] UploadError),
    /// The package is, or the skills folder.
    #[error(transparent)]
    Refused(#[from] InstallRefused),
}

/// The staging folder of a change that this process makes, after what others left is finished or rolled back.
pub(crate) fn begin_here(skills_dir: &Path, layout: &Layout) -> Result<Staging, files::Error> {
    let own = |recovered: &registry::RecoveredInstall| {
        Records::new(layout).read(recovered.staging.id()).is_ok_and(|it| it.is_none())
    };
    // What a service has a record of stays for it to see: what became of it is written down at its next start.
    for recovered in registry::recover_installs(skills_dir)?.into_iter().filter(own) {
        recovered.staging.clear()?;
    }
    Staging::begin(skills_dir, Uuid::now_v7())
}

/// Installs a package, a zip or a folder, by this process and without a record. A service may run meanwhile.
pub(crate) fn install_here(
    source: &Path,
    skills_dir: &Path,
    layout: &Layout,
    limits: &UploadLimits,
) -> Result<(Installed, Done), NotInstalled> {
    let staging = begin_here(skills_dir, layout).map_err(InstallRefused::from)?;
    let folder = if source.is_dir() {
        staging.copy(source)?
    } else {
        let unpacked = unpack::unpack(source, &staging.unpacked(), limits)?;
        unpacked.map_err(|finding| InstallRefused::Package { findings: vec![finding] })?
    };
    let installed = staging.install(&folder, |_| {})?;
    staging.clear().map_err(InstallRefused::from)?;
    Ok(installed)
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
