//! Packages on their way into the skills folder: unpacked at once, installed in their turn, and told about for long.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use tokio::sync::{oneshot, watch};
use tracing::{error, info, warn};
use uuid::Uuid;

use crate::domain::causes::chain;
use crate::files;
use crate::orchestrator::error::Error;
use crate::orchestrator::handle::Orchestrator;
use crate::orchestrator::packages::installation::{Installation, clear};
use crate::orchestrator::packages::record::{Install, Records};
use crate::orchestrator::packages::share_installs::Claim;
use crate::orchestrator::packages::{publish, unpack};
use crate::registry;
use crate::registry::{Done, InstallRefused, Installed, Staging};
use crate::workspace::{Layout, UploadError, UploadLimits};

/// Installations that may wait or be under way.
pub(crate) const INSTALLS_MAX: usize = 16;

impl Orchestrator {
    /// Takes the zip of a package, a file on disk: what is wrong with the zip itself is refused here, and nothing is
    /// left of it. The rest happens in its turn; the watch tells how it goes, and so does `Orchestrator::install_of`.
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
        let tasks = shared.tasks.clone();
        tasks.spawn(async move {
            let _turn = turn;
            let (installation, staging, unpacked, told) = match blocking.run("unpack the package", begin).await {
                Ok(Ok(unpacked)) => unpacked,
                Err(error) | Ok(Err(error)) => return drop(sender.send(Err(error))),
            };
            if let Some(group) = shared.group() {
                let mut claim = Claim::default();
                if let Err(error) = claim.hold(&group, &installation.install).await {
                    let install = installation.install.request_id;
                    warn!(%install, error = %chain(&error), "other services cannot tell of an installation yet");
                }
                let _ = sender.send(Ok(told));
                return publish::install(&shared, &group, claim, installation, staging, unpacked).await;
            }
            let _ = sender.send(Ok(told));
            let carried = blocking.run("install the package", move || installation.carry_out(staging, unpacked)).await;
            if let Err(error) = carried {
                error!(error = %chain(&error), "a package could not be installed");
            }
        });
        begun.await.unwrap_or(Err(Error::ShuttingDown))
    }
}

/// Finishes or rolls back the installations that a killed process left, and records the outcome; what was open. `made` are
/// changes that are known to be made.
pub(crate) fn recover_installs(skills_dir: &Path, layout: &Layout, made: &HashMap<Uuid, Done>) -> Vec<Install> {
    // A skills folder that cannot be written keeps nobody from running what is in it.
    let recovered = registry::recover_installs(skills_dir).unwrap_or_else(|error| {
        warn!(error = %chain(&error), "interrupted installations could not be recovered");
        Vec::new()
    });
    let here = |id: Uuid| recovered.iter().find(|recovered| recovered.staging.id() == id)?.done.clone();
    let records = Records::new(layout).recover(|id| made.get(&id).cloned().or_else(|| here(id)));
    // The next start reads the outcome of the others from their folders.
    for recovered in recovered.into_iter().filter(|recovered| !records.left.contains(&recovered.staging.id())) {
        let (id, outcome) = (recovered.staging.id(), if recovered.done.is_some() { "finished" } else { "rolled back" });
        info!(install = %id, outcome, "recovered an interrupted installation");
        clear(recovered.staging);
    }
    records.ended
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
