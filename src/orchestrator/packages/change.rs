//! Rolling an installed skill back, and uninstalling it: by renames, with a record like that of an installation.

use std::path::Path;

use tokio::sync::oneshot;
use tracing::{error, info};

use crate::domain::causes::chain;
use crate::orchestrator::error::Error;
use crate::orchestrator::handle::Orchestrator;
use crate::orchestrator::packages::install::{INSTALLS_MAX, begin_here};
use crate::orchestrator::packages::installation::clear;
use crate::orchestrator::packages::publish;
use crate::orchestrator::packages::record::{Install, InstallFailure, InstallStatus, Records};
use crate::orchestrator::packages::skill_change::{Change, not_found, rejected};
use crate::orchestrator::shared::Shared;
use crate::registry::{Done, Registry, Staging};
use crate::workspace::Layout;

impl Orchestrator {
    /// The refusal of a skill that is not there.
    pub(crate) fn no_such_skill(&self, id: &str) -> Error {
        not_found(&self.shared.registry, id)
    }

    /// Changes an installed skill; it is done, and on record, when this returns. Runs that have begun keep their copy.
    pub(crate) async fn change(&self, id: String, change: Change) -> Result<Install, Error> {
        let shared = self.shared.clone();
        if shared.closing.is_cancelled() {
            return Err(Error::ShuttingDown);
        }
        let turn = shared.installs.clone().try_acquire_owned();
        let turn = turn.map_err(|_| Error::InstallsBusy { limit: INSTALLS_MAX })?;
        let (sender, changed) = oneshot::channel();
        let owned = shared.clone();
        // In one piece, so that a service that ends waits for it, and that it goes on when nobody waits for its answer.
        shared.tasks.spawn(async move {
            let _turn = turn;
            let done = match publish::change_shared(&owned, &id, &change).await {
                Ok(None) => {
                    let blocking = owned.blocking.clone();
                    let here = blocking.run("change the skill", move || recorded(&owned, &id, &change)).await;
                    here.and_then(|done| done)
                }
                Ok(Some(done)) => Ok(done),
                Err(error) => Err(error),
            };
            let _ = sender.send(done);
        });
        changed.await.unwrap_or(Err(Error::ShuttingDown))
    }
}

fn recorded(shared: &Shared, id: &str, change: &Change) -> Result<Install, Error> {
    let skills_dir = &shared.settings.paths.skills_dir;
    if !shared.registry.knows(id) {
        return Err(not_found(&shared.registry, id));
    }
    let staging = Staging::begin(skills_dir, shared.clock.new_id())?;
    let records = Records::new(&shared.layout);
    let mut install = Install::queued(staging.id());
    let changed = change.carry_out(&staging, id, |done| {
        install.begin(done);
        // Should this be lost, so is the record of a change that a crash cuts short; the skill is whole.
        if let Err(error) = records.write(&install) {
            error!(skill = id, error = %chain(&error), "the record of a change of a skill was not written");
        }
    });
    let refused = match changed {
        Ok(done) => {
            info!(skill = id, version = done.version.as_deref(), action = ?done.action, "changed");
            install.succeed(done);
            None
        }
        Err(refused) => Some(rejected(refused, &shared.registry, id)),
    };
    if let Some(error) = &refused {
        if install.status == InstallStatus::Queued {
            return refused.map_or(Ok(install), Err);
        }
        install.fail(InstallFailure::broken(error));
    }
    // The record is written before the staging folder is removed: the next start reads the outcome from that folder.
    match records.write(&install) {
        Err(error) => error!(skill = id, error = %chain(&error), "the outcome of a change was not written down"),
        Ok(()) if install.status == InstallStatus::Succeeded => clear(staging),
        Ok(()) => drop(staging),
    }
    records.forget_old();
    refused.map_or(Ok(install), Err)
}

/// The same by this process and without a record. A service may run meanwhile.
pub(crate) fn change_here(
    registry: &Registry,
    skills_dir: &Path,
    layout: &Layout,
    id: &str,
    change: &Change,
) -> Result<Done, Error> {
    if !registry.knows(id) {
        return Err(not_found(registry, id));
    }
    let staging = begin_here(skills_dir, layout)?;
    let done = change.carry_out(&staging, id, |_| {}).map_err(|refused| rejected(refused, registry, id))?;
    staging.clear()?;
    Ok(done)
}
