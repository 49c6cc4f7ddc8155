//! Skills that services share: this one's folder is brought to what their records say before a skill is looked up or listed.

use std::collections::BTreeMap;
use std::io;
use std::path::PathBuf;
use std::sync::{Arc, Weak};
use std::time::Duration;

use tempfile::NamedTempFile;
use tokio::time::Instant;
use tracing::{debug, info, warn};

use crate::blobs;
use crate::domain::causes::chain;
use crate::domain::codes::FindingCode;
use crate::files;
use crate::orchestrator::error::Error;
use crate::orchestrator::handle::Orchestrator;
use crate::orchestrator::packages::agreed::{SharedPackage, SkillRecord};
use crate::orchestrator::packages::group::{Group, KIND};
use crate::orchestrator::packages::share_installs::OpenInstalls;
use crate::orchestrator::packages::unpack;
use crate::orchestrator::shared::Shared;
use crate::orchestrator::shared::skill_sync::failed_just_now;
use crate::registry::{Agreed, KeptVersion, Registry, Settled, Staging};
use crate::skill::Finding;
use crate::workspace::UploadLimits;

/// How long the lock of the skills folder is waited for. A script can hold it as long as it runs, and everybody who creates a run waits
/// here; what could not be brought up to date is tried again.
const PATIENCE: Duration = Duration::from_secs(2);
/// How often a service looks that heard of no change.
const LOOK_EVERY: Duration = Duration::from_secs(30);
/// Packages were checked when they were installed, and their zips are known by their hash.
const LIMITS: UploadLimits = UploadLimits {
    max_upload_bytes: 1 << 30,
    max_unpacked_bytes: 1 << 30,
    max_entries: 100_000,
    max_file_bytes: 1 << 30,
    max_ratio: u64::MAX,
    ratio_from_bytes: u64::MAX,
    // No run begins where less is free than has to be.
    min_free_bytes: 0,
};

impl Shared {
    /// Brings the skills folder to what services share: whatever was acknowledged before is here then. One small question to the
    /// store if nothing was changed, and nothing at all for a service that is alone.
    pub(crate) async fn follow_skills(self: &Arc<Self>) -> Result<(), Error> {
        let Some(group) = self.group() else { return Ok(()) };
        let revision = group.cluster.record_revisions(&[KIND]).await?.first().copied().unwrap_or_default();
        if self.skill_sync.is_at(revision) {
            return Ok(());
        }
        let mut failed = self.skill_sync.following.lock().await;
        let list = group.cluster.records(KIND).await?;
        if self.skill_sync.is_at(list.revision) || failed_just_now(*failed, list.revision) {
            return Ok(());
        }
        let (mut records, mut missing) = (Vec::new(), BTreeMap::new());
        for record in list.records {
            match SkillRecord::read(&record.key, &record.value) {
                Ok(read) => records.push((record.key, read)),
                Err(error) => drop(missing.insert(record.key.clone(), not_here(&record.key, &error))),
            }
        }
        let registry = self.registry.clone();
        let look = move || {
            records.into_iter().map(|(id, record)| (registry.fits(&record.agreed(&id)), id, record)).collect::<Vec<_>>()
        };
        let (mut is_locked, mut away) = (false, BTreeMap::new());
        for (fits, id, record) in self.blocking.run("look at the skills", look).await? {
            let settled = match fits {
                Ok(true) => Ok(()),
                // One wait is enough for all of them.
                Ok(false) if is_locked => Err(locked()),
                Ok(false) => self.settle(&group, &id, &record).await,
                Err(error) => Err(error.into()),
            };
            if let Err(error) = settled {
                is_locked |= is_held(&error);
                if let Error::Blobs(unreachable @ blobs::Error::Unreachable { .. }) = &error {
                    away.insert(id.clone(), unreachable.clone());
                }
                missing.insert(id.clone(), not_here(&id, &error));
            }
        }
        if missing.is_empty() {
            self.skill_sync.reached(list.revision);
            *failed = None;
        } else {
            *failed = Some((list.revision, Instant::now()));
        }
        self.skill_sync.set_away(away);
        self.registry.set_missing(missing);
        Ok(())
    }

    /// Brings one skill to what its record says.
    async fn settle(self: &Arc<Self>, group: &Group<'_>, id: &str, record: &SkillRecord) -> Result<(), Error> {
        let agreed = record.agreed(id);
        let mut settled = self.staged(agreed.clone(), None, |staging, agreed, _| staging.settle(agreed, None)).await?;
        if let (Settled::PackageMissing, Some(active)) = (&settled, &record.active) {
            let zip = self.fetch_package(group, active).await?;
            let put = |staging: &Staging, agreed: &Agreed, unpacked: Option<PathBuf>| {
                staging.settle(agreed, unpacked.as_deref())
            };
            settled = self.staged(agreed, Some(zip), put).await?;
        }
        let version = record.active.as_ref().map(|active| active.version.as_str());
        match settled {
            Settled::Done { replaced_foreign: false } => info!(skill = id, version, "follows the other services"),
            Settled::Done { replaced_foreign: true } => warn!(
                skill = id,
                version,
                "the version that all services share has taken the place of one that was laid into this skills folder; \
                 that one is in its archive"
            ),
            Settled::PackageMissing => {}
        }
        Ok(())
    }

    /// Does something in a staging folder, where the package in this zip is unpacked.
    async fn staged<T: Send + 'static>(
        self: &Arc<Self>,
        agreed: Agreed,
        zip: Option<NamedTempFile>,
        work: impl FnOnce(&Staging, &Agreed, Option<PathBuf>) -> Result<T, files::Error> + Send + 'static,
    ) -> Result<T, Error> {
        let shared = self.clone();
        let staged = move || {
            let staging = Staging::begin_within(&shared.settings.paths.skills_dir, shared.clock.new_id(), PATIENCE)?;
            let unpacked = match zip {
                Some(zip) => Some(unpack::unpack(zip.path(), &staging.unpacked(), &LIMITS)?.map_err(|finding| {
                    Error::io(format!("unpack the package of {}", agreed.id))(std::io::Error::other(finding.message))
                })?),
                None => None,
            };
            let done = work(&staging, &agreed, unpacked)?;
            staging.clear()?;
            Ok(done)
        };
        self.blocking.run("bring a skill up to date", staged).await?
    }

    async fn fetch_package(&self, group: &Group<'_>, package: &SharedPackage) -> Result<NamedTempFile, Error> {
        let tmp = self.layout.tmp();
        let make = move || {
            files::create_folder(&tmp)?;
            let made = tempfile::Builder::new().prefix("package-").tempfile_in(&tmp);
            made.map_err(Error::io(format!("create a file in {}", tmp.display())))
        };
        let zip = self.blocking.run("fetch a package", make).await??;
        group.blobs.fetch(&package.package, zip.path()).await?;
        Ok(zip)
    }

    /// The record of a skill, if services share it. Its archived versions are in this service's archive then.
    pub(super) async fn follow_archive(self: &Arc<Self>, id: &str) -> Result<Option<SkillRecord>, Error> {
        self.follow_skills().await?;
        let Some(group) = self.group() else { return Ok(None) };
        let Some(record) = group.cluster.record(KIND, id).await? else { return Ok(None) };
        let record = SkillRecord::read(id, &record.value)?;
        let (registry, skill) = (self.registry.clone(), id.to_owned());
        let archived: Vec<String> = record.archived.iter().map(|one| one.fingerprint.clone()).collect();
        let look = move || registry.not_archived(&skill, &archived);
        let lacking = self.blocking.run("look at the archive", look).await??;
        // The oldest first, so that the latest one here is the latest one.
        for package in record.archived.iter().rev().filter(|one| lacking.contains(&one.fingerprint)) {
            match self.fetch_archived(&group, id, package).await {
                Err(error @ Error::Blobs(blobs::Error::Unreachable { .. })) => return Err(error),
                // The others can be had.
                Err(error) => {
                    let version = package.version.as_str();
                    warn!(skill = id, version, error = %chain(&error), "an archived version cannot be had");
                }
                Ok(()) => {}
            }
        }
        Ok(Some(record))
    }

    async fn fetch_archived(
        self: &Arc<Self>,
        group: &Group<'_>,
        id: &str,
        package: &SharedPackage,
    ) -> Result<(), Error> {
        let zip = self.fetch_package(group, package).await?;
        let agreed = Agreed { id: id.to_owned(), active: Some(package.fingerprint.clone()), known: Vec::new() };
        let put = |staging: &Staging, agreed: &Agreed, unpacked: Option<PathBuf>| match unpacked {
            Some(unpacked) => staging.archive(agreed, &unpacked),
            None => Ok(()),
        };
        self.staged(agreed, Some(zip), put).await
    }

    /// Says which skills this service alone has.
    pub(crate) async fn tell_own_skills(&self) -> Result<(), Error> {
        let Some(group) = self.group() else { return Ok(()) };
        let records = group.cluster.records(KIND).await?.records;
        let registry = self.registry.clone();
        let mut own = self.blocking.run("list the skills", move || registry.folders()).await??;
        own.retain(|id| !records.iter().any(|record| record.key == *id));
        if !own.is_empty() {
            let skills = own.into_iter().collect::<Vec<_>>().join(", ");
            info!(
                skills,
                "are in the skills folder of this service alone; what is installed through a service is shared"
            );
        }
        Ok(())
    }
}

/// Whether somebody else has the lock of the skills folder.
fn is_held(error: &Error) -> bool {
    matches!(error, Error::Io { source, .. } if source.kind() == io::ErrorKind::TimedOut)
}

fn locked() -> Error {
    Error::io("lock the skills folder")(io::Error::new(io::ErrorKind::TimedOut, "another process holds its lock"))
}

fn not_here(id: &str, error: &Error) -> Finding {
    warn!(skill = id, error = %chain(error), "the version that services share cannot be had; it cannot be used here");
    let message = format!("the version that services share cannot be had here: {error}");
    Finding::error(FindingCode::Unreadable, "", message, "see the log of the service; it tries again")
}

/// Follows changes as they are told, until the service ends: a request then finds them done.
pub(crate) async fn follow_often(shared: Weak<Shared>) {
    let Some(mut changed) = shared.upgrade().and_then(|shared| Some(shared.group()?.cluster.records_changed())) else {
        return;
    };
    let (mut open, mut ended): (OpenInstalls, Option<Instant>) = Default::default();
    loop {
        let Some(held) = shared.upgrade().filter(|shared| !shared.closing.is_cancelled()) else { return };
        if let Err(error) = held.follow_skills().await {
            debug!(error = %chain(&error), "changes of skills could not be looked for; trying again");
        }
        if ended.is_none_or(|last| last.elapsed() >= LOOK_EVERY) {
            ended = Some(Instant::now());
            if let Err(error) = held.end_installs(&mut open).await {
                debug!(error = %chain(&error), "installations of other services could not be looked at; trying again");
            }
        }
        let closing = held.closing.clone();
        drop(held);
        tokio::select! {
            biased;
            () = closing.cancelled() => return,
            heard = changed.changed() => if heard.is_err() { return },
            () = tokio::time::sleep(LOOK_EVERY) => {}
        }
    }
}

impl Orchestrator {
    /// The skills as they are now on all services.
    pub(crate) async fn skills_now(&self) -> Result<&Registry, Error> {
        self.shared.follow_skills().await?;
        Ok(&self.shared.registry)
    }

    /// The same with the archived versions of one.
    pub(crate) async fn skills_with_archive(&self, id: &str) -> Result<&Registry, Error> {
        self.shared.follow_archive(id).await?;
        Ok(&self.shared.registry)
    }

    /// Every version of a skill: the one in place first, then the archived ones, the latest first.
    pub(crate) async fn versions(&self, id: String) -> Result<Vec<KeptVersion>, Error> {
        let record = self.shared.follow_archive(&id).await?;
        let registry = self.shared.registry.clone();
        let here = self.shared.blocking.run("look at the versions", move || registry.versions(&id)).await??;
        let Some(record) = record else { return Ok(here) };
        // What is on this disk besides is no version that services share.
        let of = |package: &SharedPackage, current: bool| {
            let is_it = |kept: &&KeptVersion| kept.fingerprint.as_ref() == Some(&package.fingerprint);
            let found = here.iter().find(is_it)?.clone();
            Some(KeptVersion { current, since: package.since, ..found })
        };
        let own = here.iter().filter(|kept| kept.current && record.active.is_none()).cloned();
        let active = record.active.iter().filter_map(|package| of(package, true));
        let archived = record.archived.iter().filter_map(|package| of(package, false));
        Ok(own.chain(active).chain(archived).collect())
    }
}
