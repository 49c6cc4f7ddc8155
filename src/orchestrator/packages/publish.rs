//! Changes of skills that services share: the package first, then the record that names it, then the folder of this service.
//!
//! A change is made when its record is: before, nothing was changed anywhere; after it, every service follows. Two changes of a
//! skill at once go one after the other, and the later one is judged by what the earlier one left.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use tempfile::NamedTempFile;
use tokio::time::Instant;
use tracing::{error, info, warn};
use uuid::Uuid;

use crate::domain::causes::chain;
use crate::files;
use crate::orchestrator::environment::unbroken;
use crate::orchestrator::error::Error;
use crate::orchestrator::packages::agreed::{By, SkillRecord};
use crate::orchestrator::packages::group::{Group, KIND};
use crate::orchestrator::packages::installation::Installation;
use crate::orchestrator::packages::record::{Install, InstallFailure, Records};
use crate::orchestrator::packages::share_installs::{Claim, share_end};
use crate::orchestrator::packages::skill_change::{Change, rejected};
use crate::orchestrator::shared::Shared;
use crate::registry::{self, Done, InstallRefused, Installed, Plan, Staging};
use crate::skill::{Finding, Intake};
use crate::store::removals::BEGUN_FOR;
use crate::store::{self, Changed, Expected, RecordChange};

/// How often a change is tried that others come before.
const TRIES: usize = 32;

/// Longer than a removal of a shared file can be under way.
const REMOVED_WITHIN: Duration = BEGUN_FOR.saturating_add(Duration::from_secs(120));
/// Pause before a package is put again.
const AGAIN_AFTER: Duration = Duration::from_millis(200);
/// Pause before it is looked whether a change was made.
const LOOK_AGAIN_AFTER: Duration = Duration::from_secs(1);

/// The package that a change names for the first time, if it names one.
struct Put<'a> {
    zip: Option<&'a Path>,
    /// How many removals of shared files were over before it was put.
    after: u64,
}

impl Put<'_> {
    async fn again(&mut self, shared: &Shared, group: &Group<'_>) -> Result<(), Error> {
        self.after = shared.store.removals().await?;
        if let Some(zip) = self.zip {
            group.blobs.put_file(zip).await?;
        }
        Ok(())
    }
}

/// Why a package is not installed.
enum NotPublished {
    Refused(InstallRefused),
    Broken(Error),
}

impl From<Error> for NotPublished {
    fn from(error: Error) -> Self {
        Self::Broken(error)
    }
}

impl From<InstallRefused> for NotPublished {
    fn from(refused: InstallRefused) -> Self {
        Self::Refused(refused)
    }
}

/// Installs an unpacked package on all services, and tells how it went.
pub(super) async fn install(
    shared: &Arc<Shared>,
    group: &Group<'_>,
    claim: Claim,
    mut installation: Installation,
    staging: Staging,
    unpacked: Result<PathBuf, Finding>,
) {
    let id = staging.id();
    let published = publish(shared, group, claim, &mut installation, id, unpacked);
    let broke = || Err(Error::io("install the package")(std::io::Error::other("the work broke off")).into());
    match unbroken("install a package", published).await.unwrap_or_else(broke) {
        Ok((installed, done)) => {
            info!(install = %id, skill = done.skill_id, version = done.version.as_deref(), "installed on all services");
            installation.succeed(&installed, done);
        }
        Err(NotPublished::Refused(refused)) => {
            if let InstallRefused::Io(cause) = &refused {
                error!(install = %id, error = %chain(cause), "a package could not be installed");
            }
            installation.install.fail(InstallFailure::from(&refused));
        }
        Err(NotPublished::Broken(error)) if shared.stopping.is_cancelled() && may_be_made(&error) => {
            return warn!(install = %id, "the service ends; another one, or its next start, tells what became of an installation");
        }
        Err(NotPublished::Broken(error)) => {
            error!(install = %id, error = %chain(&error), "a package could not be installed");
            installation.install.fail(InstallFailure::broken(&error));
        }
    }
    installation.install = share_end(shared, installation.install).await;
    let over = shared.blocking.run("write down the installation", move || installation.over(staging)).await;
    if let Err(error) = over {
        error!(install = %id, error = %chain(&error), "the outcome of an installation was not written down");
    }
}

async fn publish(
    shared: &Arc<Shared>,
    group: &Group<'_>,
    mut claim: Claim,
    installation: &mut Installation,
    id: Uuid,
    unpacked: Result<PathBuf, Finding>,
) -> Result<(Installed, Done), NotPublished> {
    let folder = unpacked.map_err(|finding| InstallRefused::Package { findings: vec![finding] })?;
    let (tmp, skills_dir) = (shared.layout.tmp(), shared.settings.paths.skills_dir.clone());
    let pack = move || {
        let installed = registry::load_dir(&folder, Intake::New).map_err(InstallRefused::of(&folder))?;
        files::create_folder(&tmp)?;
        let zip = tempfile::Builder::new().prefix("package-").suffix(".zip").tempfile_in(&tmp);
        let zip = zip.map_err(files::Error::on("create a file in", &tmp))?;
        registry::pack(&installed, zip.path(), true)?;
        // One that was laid here by hand is not replaced by an older one.
        let planned = Plan::install(&skills_dir, &installed.skill);
        Ok::<_, InstallRefused>((installed, zip, planned))
    };
    let (installed, zip, planned): (Installed, NamedTempFile, _) =
        shared.blocking.run("pack the package", pack).await??;
    installation.begin(&installed.skill);
    let mut put = Put { zip: Some(zip.path()), after: shared.store.removals().await.map_err(Error::from)? };
    let package = group.blobs.put_file(zip.path()).await.map_err(Error::from)?;
    let by = By { id, now: shared.clock.now() };
    let mut planned = Some(planned);
    let to_change = ToChange { skill: &installed.skill.id, by: id, claimed: Some((&installation.install, &mut claim)) };
    let done = change(shared, group, to_change, &mut put, |record| match record {
        Some(record) => Ok(record.installed(&installed.skill, package, by)?),
        None => {
            planned.take().transpose()?;
            Ok(SkillRecord::default().installed(&installed.skill, package, by)?)
        }
    });
    let done: Result<Done, NotPublished> = done.await;
    let done = done?;
    followed(shared, &installed.skill.id).await;
    Ok((installed, done))
}

/// Brings this service up to date. What was changed is changed, also if that fails.
async fn followed(shared: &Arc<Shared>, id: &str) {
    if let Err(error) = shared.follow_skills().await {
        warn!(skill = id, error = %chain(&error), "this service does not have the change of a skill yet; it tries again");
    }
}

/// Which skill is changed, and by what.
struct ToChange<'a> {
    skill: &'a str,
    by: Uuid,
    /// An installation, whose record others end when its service is gone: it is changed under the lease that they know.
    claimed: Option<(&'a Install, &'a mut Claim)>,
}

/// Why an attempt to change a record came to nothing.
enum Failed<E> {
    Decided(E),
    Broken(Error),
}

impl<E> From<Error> for Failed<E> {
    fn from(error: Error) -> Self {
        Self::Broken(error)
    }
}

impl<E> From<store::Error> for Failed<E> {
    fn from(error: store::Error) -> Self {
        Self::Broken(error.into())
    }
}

/// Whether a change may have been made after all that failed so.
fn may_be_made(error: &Error) -> bool {
    matches!(error, Error::Store(store::Error::NotOwner | store::Error::Unreachable { .. }))
}

/// Changes the record of a skill as decided by what it is, after whoever was first. A change that may have been made is looked for until
/// that is known.
async fn change<E: From<Error>>(
    shared: &Shared,
    group: &Group<'_>,
    mut to_change: ToChange<'_>,
    put: &mut Put<'_>,
    mut decide: impl FnMut(Option<&SkillRecord>) -> Result<(SkillRecord, Done), E>,
) -> Result<Done, E> {
    let until = Instant::now() + REMOVED_WITHIN;
    let (mut tries, mut sent) = (0, false);
    loop {
        let error = match attempt(group, &mut to_change, put.after, &mut sent, &mut decide).await {
            Ok(Some(done)) => return Ok(done),
            Ok(None) if tries < TRIES => {
                tries += 1;
                continue;
            }
            Ok(None) => return Err(Error::InstallsBusy { limit: TRIES }.into()),
            Err(Failed::Decided(refused)) => return Err(refused),
            Err(Failed::Broken(error)) => error,
        };
        let skill = to_change.skill;
        if matches!(error, Error::Store(store::Error::FilesRemoved)) && Instant::now() < until {
            info!(skill, "a package was removed since it was put; putting it again");
            tokio::time::sleep(AGAIN_AFTER).await;
            put.again(shared, group).await?;
        } else if may_be_made(&error) && (sent || to_change.claimed.is_some()) && !shared.stopping.is_cancelled() {
            info!(skill, error = %chain(&error), "it is not known yet whether a skill was changed; looking again");
            tokio::select! {
                () = shared.stopping.cancelled() => {}
                () = tokio::time::sleep(LOOK_AGAIN_AFTER) => {}
            }
        } else {
            return Err(error.into());
        }
    }
}

/// None if somebody else was first.
async fn attempt<E>(
    group: &Group<'_>,
    to_change: &mut ToChange<'_>,
    put_after: u64,
    sent: &mut bool,
    decide: &mut impl FnMut(Option<&SkillRecord>) -> Result<(SkillRecord, Done), E>,
) -> Result<Option<Done>, Failed<E>> {
    let (id, by) = (to_change.skill, to_change.by);
    let lease = match &mut to_change.claimed {
        Some((install, claim)) => Some(claim.hold(group, install).await?),
        None => None,
    };
    let found = group.cluster.record(KIND, id).await?;
    let expected = found.as_ref().map_or(Expected::Absent, |found| Expected::At(found.revision));
    let record = found.map(|found| SkillRecord::read(id, &found.value)).transpose()?;
    if let Some(made) = record.as_ref().and_then(|record| record.made(by)) {
        return Ok(Some(made.clone()));
    }
    let (next, done) = decide(record.as_ref()).map_err(Failed::Decided)?;
    let (value, files) = (Some(next.to_value()?), next.files());
    let change = RecordChange { kind: KIND, key: id.to_owned(), expected, value, files, put_after };
    *sent = true;
    let changed = match lease {
        Some(lease) => group.cluster.change_record_under(lease, change),
        None => group.cluster.change_record(change),
    };
    Ok(match changed.await? {
        Changed::Done { .. } => Some(done),
        Changed::Refused { .. } => None,
    })
}

/// Rolls a skill back or uninstalls it on all services; none if they do not share it.
pub(super) async fn change_shared(shared: &Arc<Shared>, id: &str, change: &Change) -> Result<Option<Install>, Error> {
    let Some(group) = shared.group() else { return Ok(None) };
    let refused = |refused| rejected(refused, &shared.registry, id);
    let to = match change {
        Change::Rollback { to } => {
            let Some(record) = shared.follow_archive(id).await? else { return Ok(None) };
            let (registry, skill, to) = (shared.registry.clone(), id.to_owned(), to.clone());
            let known: Vec<String> = record.packages().map(|package| package.fingerprint.clone()).collect();
            let choose = move || registry.rollback_to(&skill, &to, &known);
            let chosen = shared.blocking.run("choose the version", choose).await?.map_err(refused)?;
            Some(chosen.fingerprint.clone())
        }
        Change::Uninstall => {
            shared.follow_skills().await?;
            if group.cluster.record(KIND, id).await?.is_none() {
                return Ok(None);
            }
            None
        }
    };
    let by = By { id: shared.clock.new_id(), now: shared.clock.now() };
    let mut install = Install::queued(by.id);
    let records = Records::new(&shared.layout);
    let decide = |record: Option<&SkillRecord>| {
        let empty = SkillRecord::default();
        let record = record.unwrap_or(&empty);
        let decided = match &to {
            Some(fingerprint) => record.rolled_back(id, fingerprint, by),
            None => record.uninstalled(id, by),
        };
        let (next, done) = decided.map_err(refused)?;
        install.begin(&done);
        // Should this be lost, so is the record of a change that a crash cuts short; the skill is whole.
        if let Err(error) = records.write(&install) {
            error!(skill = id, error = %chain(&error), "the record of a change of a skill was not written");
        }
        Ok::<_, Error>((next, done))
    };
    // Whatever it names is named already.
    let mut put = Put { zip: None, after: shared.store.removals().await? };
    let to_change = ToChange { skill: id, by: by.id, claimed: None };
    match self::change(shared, &group, to_change, &mut put, decide).await {
        Ok(done) => {
            info!(skill = id, version = done.version.as_deref(), action = ?done.action, "changed on all services");
            followed(shared, id).await;
            install.succeed(done);
        }
        Err(error) if install.action.is_none() => return Err(error),
        Err(error) => {
            install.fail(InstallFailure::broken(&error));
            written(&records, &install);
            share_end(shared, install).await;
            return Err(error);
        }
    }
    written(&records, &install);
    records.forget_old();
    Ok(Some(share_end(shared, install).await))
}

fn written(records: &Records, install: &Install) {
    if let Err(error) = records.write(install) {
        error!(install = %install.request_id, error = %chain(&error), "the outcome of a change was not written down");
    }
}
