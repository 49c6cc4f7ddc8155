//! Rolling a skill back to an archived version, and moving it to the archive, by the plan and the renames of an installation.

use std::fs;
use std::sync::Arc;

use super::archive::{Archived, archived};
use super::plan::{Done, InPlace, Plan, is_unversioned};
use super::staging::{SkillsLock, Staging};
use crate::files;
use crate::skill::{Finding, Skill, is_id};

/// Fewest characters of a fingerprint that name a version.
const FINGERPRINT_MIN: usize = 8;

/// Why a skill is neither rolled back nor uninstalled; nothing was changed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ChangeRefused {
    /// No skill of that id is in the skills folder, nor in the archive if that would do.
    #[error("no such skill is installed")]
    NotFound,
    #[error("{id} has no archived version {wanted:?}; {}", there_are(versions))]
    NoSuchVersion { id: String, wanted: String, versions: Vec<String> },
    #[error("{id} {version} is in place already")]
    InPlace { id: String, version: String },
    /// Several contents have this version.
    #[error("{id} has {} archived packages of version {wanted:?}; name one by its fingerprint: {}", fingerprints.len(), fingerprints.join(", "))]
    Ambiguous { id: String, wanted: String, fingerprints: Vec<String> },
    #[error("the archived package breaks {} rules of this version of the runner", findings.len())]
    Broken { findings: Vec<Finding> },
    #[error("the folder of {id} is a link; remove the link, or put the folder itself in its place")]
    Link { id: String },
    #[error(transparent)]
    Io(#[from] files::Error),
}

fn there_are(versions: &[String]) -> String {
    if versions.is_empty() { "nothing of it is archived".into() } else { format!("there are {}", versions.join(", ")) }
}

impl Staging {
    /// Puts an archived version in place, and what is there into the archive. `begun` is called when the skills folder is
    /// locked and nothing speaks against it. The caller clears the staging folder once the outcome is on record.
    pub(crate) fn rollback(&self, id: &str, wanted: &str, begun: impl FnOnce(&Done)) -> Result<Done, ChangeRefused> {
        let skills_dir = self.skills_dir();
        let lock = SkillsLock::acquire(skills_dir)?;
        let now = self.look(id)?;
        let (skill, path) = chosen(id, wanted, archived(skills_dir, id)?, &now)?;
        let plan = Plan::rollback(skills_dir, &skill, path, &now);
        begun(&plan.done);
        // The name of the staging folder: after a power cut, a change that was made must have its plan.
        lock.sync(skills_dir)?;
        self.carry_out(&lock, &plan)?;
        Ok(plan.done)
    }

    /// Moves a skill to the archive, from where a rollback brings it back. A broken one goes where broken folders go.
    pub(crate) fn uninstall(&self, id: &str, begun: impl FnOnce(&Done)) -> Result<Done, ChangeRefused> {
        let skills_dir = self.skills_dir();
        let lock = SkillsLock::acquire(skills_dir)?;
        let now = self.look(id)?;
        let plan = Plan::uninstall(skills_dir, id, &now).ok_or(ChangeRefused::NotFound)?;
        begun(&plan.done);
        // The name of the staging folder: after a power cut, a change that was made must have its plan.
        lock.sync(skills_dir)?;
        self.carry_out(&lock, &plan)?;
        Ok(plan.done)
    }

    /// What is in the skill's place. A link is left alone: in the archive it might lead elsewhere.
    fn look(&self, id: &str) -> Result<InPlace, ChangeRefused> {
        if !is_id(id) {
            return Err(ChangeRefused::NotFound);
        }
        if fs::symlink_metadata(self.skills_dir().join(id)).is_ok_and(|found| found.is_symlink()) {
            return Err(ChangeRefused::Link { id: id.to_owned() });
        }
        Ok(InPlace::look(self.skills_dir(), id)?)
    }
}

/// The archived package that is meant: by its version, or by the beginning of its fingerprint.
pub(super) fn chosen(
    id: &str,
    wanted: &str,
    archived: Vec<Archived>,
    now: &InPlace,
) -> Result<(Arc<Skill>, std::path::PathBuf), ChangeRefused> {
    if archived.is_empty() && matches!(now, InPlace::Nothing) {
        return Err(ChangeRefused::NotFound);
    }
    let is_meant = |skill: &Skill| is_named(skill, wanted);
    if let InPlace::Valid(installed) = now
        && is_meant(installed)
        && !archived.iter().flat_map(|one| &one.skill).any(|skill| is_meant(skill))
    {
        return Err(ChangeRefused::InPlace { id: id.to_owned(), version: installed.version.to_string() });
    }
    let in_place = |skill: &Skill| matches!(now, InPlace::Valid(now) if now.fingerprint == skill.fingerprint);
    let mut meant: Vec<&Archived> = archived.iter().filter(|one| one.skill.as_deref().is_some_and(is_meant)).collect();
    // Equal packages are one; the latest is first.
    let mut seen = Vec::new();
    meant.retain(|one| {
        let new = one.kept.fingerprint.as_ref().is_some_and(|fingerprint| !seen.contains(fingerprint));
        seen.extend(one.kept.fingerprint.clone());
        new
    });
    match meant.as_slice() {
        [] => {
            // One that cannot be read any more is known by the name of its folder alone.
            let broken = archived.iter().find(|one| one.skill.is_none() && one.path.ends_with(wanted));
            if let Some(broken) = broken {
                return Err(ChangeRefused::Broken { findings: broken.kept.findings.clone() });
            }
            let versions = archived.iter().flat_map(|one| &one.skill).map(|skill| name_of(skill)).collect();
            Err(ChangeRefused::NoSuchVersion { id: id.to_owned(), wanted: wanted.to_owned(), versions })
        }
        [one] => {
            let Some(skill) = one.skill.clone().filter(|skill| !in_place(skill)) else {
                return Err(ChangeRefused::InPlace { id: id.to_owned(), version: wanted.to_owned() });
            };
            Ok((skill, one.path.clone()))
        }
        several => Err(ChangeRefused::Ambiguous {
            id: id.to_owned(),
            wanted: wanted.to_owned(),
            fingerprints: several.iter().flat_map(|one| &one.skill).map(|skill| short(&skill.fingerprint)).collect(),
        }),
    }
}

/// Whether a package is named by its version, or by the beginning of its fingerprint.
pub(crate) fn is_named(skill: &Skill, wanted: &str) -> bool {
    let by_content = wanted.len() >= FINGERPRINT_MIN && skill.fingerprint.starts_with(wanted);
    by_content || skill.version.to_string() == wanted
}

/// What names a version: all packages that name none have the same one, so they go by their fingerprint.
pub(crate) fn name_of(skill: &Skill) -> String {
    if is_unversioned(skill) { short(&skill.fingerprint) } else { skill.version.to_string() }
}

/// Enough of a fingerprint to name a version.
pub(crate) fn short(fingerprint: &str) -> String {
    fingerprint.chars().take(12).collect()
}
