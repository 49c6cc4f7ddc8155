//! Rolling an installed skill back, and uninstalling it: by renames, with a record like that of an installation.

use std::path::Path;

use tokio::sync::oneshot;
use tracing::{error, info};

use crate::domain::causes::chain;
use crate::domain::codes::ErrorCode;
use crate::domain::event::ValidationError;
use crate::orchestrator::error::Error;
use crate::orchestrator::handle::Orchestrator;
use crate::orchestrator::packages::install::{INSTALLS_MAX, begin_here, clear};
use crate::orchestrator::packages::record::{Install, InstallFailure, InstallStatus, Records};
use crate::orchestrator::shared::Shared;
use crate::registry::{ChangeRefused, Done, Registry, Staging};
use crate::skill::Finding;
use crate::workspace::Layout;

/// What is to be done with an installed skill.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Change {
    /// To the archived package of this version, or whose fingerprint begins so.
    Rollback {
        to: String,
    },
    Uninstall,
}

impl Change {
    fn carry_out(&self, staging: &Staging, id: &str, begun: impl FnOnce(&Done)) -> Result<Done, ChangeRefused> {
        match self {
            Self::Rollback { to } => staging.rollback(id, to, begun),
            Self::Uninstall => staging.uninstall(id, begun),
        }
    }
}

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
            let blocking = owned.blocking.clone();
            let done = blocking.run("change the skill", move || recorded(&owned, &id, &change)).await;
            let _ = sender.send(done.and_then(|done| done));
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

fn not_found(registry: &Registry, id: &str) -> Error {
    Error::SkillNotFound { id: id.chars().take(64).collect(), reason: String::new(), similar: registry.similar(id) }
}

fn rejected(refused: ChangeRefused, registry: &Registry, id: &str) -> Error {
    let plain = |code, message| Error::Rejected { code, message, details: Vec::new() };
    let message = refused.to_string();
    match refused {
        // It is there, but not in the skills folder.
        ChangeRefused::NotFound if registry.lookup(id).is_ok() => {
            let message = format!("{id} comes from an agent's folder; remove it from the list in its agent.yaml");
            plain(ErrorCode::SkillNotRemovable, message)
        }
        ChangeRefused::NotFound => {
            let message =
                format!("{id} is not installed; its versions are in the archive, and a rollback brings one back");
            plain(ErrorCode::SkillNotFound, message)
        }
        ChangeRefused::NoSuchVersion { .. } => plain(ErrorCode::SkillVersionNotFound, message),
        ChangeRefused::InPlace { .. } => plain(ErrorCode::SkillVersionInPlace, message),
        ChangeRefused::Ambiguous { .. } => plain(ErrorCode::InvalidRequest, message),
        ChangeRefused::Link { .. } => plain(ErrorCode::SkillNotRemovable, message),
        ChangeRefused::Broken { findings } => {
            let details = findings.iter().map(detail).collect();
            Error::Rejected { code: ErrorCode::SkillPackageInvalid, message, details }
        }
        ChangeRefused::Io(error) => error.into(),
    }
}

fn detail(finding: &Finding) -> ValidationError {
    ValidationError { path: format!("{}#{}", finding.file, finding.pointer), message: finding.message.clone() }
}
