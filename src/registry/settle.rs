//! Bringing a skill in this folder to what services share: one package in its place, or none. By the plan and the renames of an
//! installation, so that a crash leaves what was there or what is to be there.

use std::io;
use std::path::Path;
use std::sync::Arc;

use super::archive::archived;
use super::change::{ChangeRefused, chosen};
use super::installed::NotUsable;
use super::plan::{Action, InPlace, Plan, archive_path, installed_skill};
use super::scan::Registry;
use super::staging::Staging;
use crate::files::{self, Error};
use crate::skill::Skill;

/// What services share of a skill.
#[derive(Debug, Clone)]
pub(crate) struct Agreed {
    pub(crate) id: String,
    /// The fingerprint of the package that is to be in place; none if it is uninstalled.
    pub(crate) active: Option<String>,
    /// The fingerprints of all packages that they share.
    pub(crate) known: Vec<String>,
}

/// What came of bringing a skill to what services share.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Settled {
    /// It is what it should be.
    Done {
        /// What was there is no package that they share: somebody laid it here. It is in the archive.
        replaced_foreign: bool,
    },
    /// The package is not here.
    PackageMissing,
}

impl Agreed {
    /// Whether this package may stay in place. What is no package that services share stays where nothing is to be in place.
    fn fits(&self, found: Option<&Skill>) -> bool {
        match (&self.active, found) {
            (Some(active), found) => found.is_some_and(|found| found.fingerprint == *active),
            (None, Some(found)) => !self.known.contains(&found.fingerprint),
            (None, None) => true,
        }
    }
}

impl Registry {
    /// Whether what is in a skill's place is what services share.
    pub(crate) fn fits(&self, agreed: &Agreed) -> Result<bool, Error> {
        match self.current(&agreed.id) {
            Some(Ok(found)) => Ok(agreed.fits(Some(&found.skill))),
            Some(Err(NotUsable::Unread(shortage))) => Err(Error::on("read", &self.folder().join(&agreed.id))(shortage)),
            Some(Err(NotUsable::Invalid { .. } | NotUsable::NotFound)) | None => Ok(agreed.fits(None)),
        }
    }

    /// Those of these packages of a skill that the archive does not have.
    pub(crate) fn not_archived(&self, id: &str, fingerprints: &[String]) -> Result<Vec<String>, Error> {
        let here = archived(self.folder(), id)?;
        let is_here = |one: &&String| here.iter().any(|here| here.kept.fingerprint.as_ref() == Some(one));
        Ok(fingerprints.iter().filter(|one| !is_here(one)).cloned().collect())
    }

    /// The archived package that a rollback means, of those that services share.
    pub(crate) fn rollback_to(&self, id: &str, wanted: &str, shared: &[String]) -> Result<Arc<Skill>, ChangeRefused> {
        let now = InPlace::look(self.folder(), id)?;
        let mut archived = archived(self.folder(), id)?;
        archived.retain(|one| one.kept.fingerprint.as_ref().is_some_and(|found| shared.contains(found)));
        chosen(id, wanted, archived, &now).map(|(skill, _)| skill)
    }
}

impl Staging {
    /// Makes what is in a skill's place what services share: with the package that was unpacked here, else with an archived one.
    pub(crate) fn settle(&self, agreed: &Agreed, unpacked: Option<&Path>) -> Result<Settled, Error> {
        let (skills_dir, id) = (self.skills_dir(), agreed.id.as_str());
        let given = unpacked.map(|unpacked| self.take(agreed, unpacked)).transpose()?;
        let lock = self.skills_lock(skills_dir)?;
        let now = InPlace::look(skills_dir, id)?;
        let found = match &now {
            InPlace::Valid(found) => Some(found.as_ref()),
            InPlace::Nothing | InPlace::Broken => None,
        };
        if agreed.fits(found) {
            return Ok(Settled::Done { replaced_foreign: false });
        }
        let replaced_foreign = found.is_some_and(|found| !agreed.known.contains(&found.fingerprint));
        let plan = match (&agreed.active, given) {
            (None, _) => Plan::uninstall(skills_dir, id, &now),
            (Some(_), Some(skill)) => {
                let action = if matches!(now, InPlace::Valid(_)) { Action::Update } else { Action::Install };
                Some(Plan::put(skills_dir, &skill, action, None, &now))
            }
            (Some(active), None) => {
                let here = archived(skills_dir, id)?.into_iter();
                let here =
                    here.filter_map(|one| Some((one.skill.filter(|skill| skill.fingerprint == *active)?, one.path)));
                let Some((skill, path)) = here.into_iter().next() else { return Ok(Settled::PackageMissing) };
                Some(Plan::put(skills_dir, &skill, Action::Rollback, Some(path), &now))
            }
        };
        if let Some(plan) = plan {
            // The name of the staging folder: after a power cut, a change that was made must have its plan.
            lock.sync(skills_dir)?;
            self.carry_out(&lock, &plan)?;
        }
        Ok(Settled::Done { replaced_foreign })
    }

    /// Moves the package that was unpacked here to the archive.
    pub(crate) fn archive(&self, agreed: &Agreed, unpacked: &Path) -> Result<(), Error> {
        let skill = self.take(agreed, unpacked)?;
        let skills_dir = self.skills_dir();
        let lock = self.skills_lock(skills_dir)?;
        let to = skills_dir.join(archive_path(skills_dir, &skill));
        let folder = to.parent().unwrap_or(skills_dir);
        files::create_folder(folder)?;
        files::rename(&self.package(), &to)?;
        files::sync(folder)?;
        lock.sync(skills_dir)
    }

    /// The package that was unpacked here, whole on the disk, if it is the one that is meant.
    fn take(&self, agreed: &Agreed, unpacked: &Path) -> Result<Arc<Skill>, Error> {
        let package = self.package();
        files::rename(unpacked, &package)?;
        files::sync_file_system(&package)?;
        let found = installed_skill(&package, &agreed.id)?;
        found.filter(|found| Some(&found.fingerprint) == agreed.active.as_ref()).ok_or_else(|| {
            let other = io::Error::other("it is not the package that was installed, or this version cannot use it");
            Error::on("use the package of", Path::new(&agreed.id))(other)
        })
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::PathBuf;

    use uuid::Uuid;

    use super::*;

    fn write(dir: &Path, text: &str) -> String {
        fs::create_dir_all(dir).unwrap();
        fs::write(dir.join("SKILL.md"), format!("---\nname: demo\ndescription: A test.\n---\n{text}\n")).unwrap();
        installed_skill(dir, "demo").unwrap().unwrap().fingerprint.clone()
    }

    fn staging(skills: &Path, text: Option<&str>) -> (Staging, Option<PathBuf>) {
        let staging = Staging::begin(skills, Uuid::now_v7()).unwrap();
        let unpacked = text.map(|text| {
            let dir = staging.unpacked().join("demo");
            write(&dir, text);
            dir
        });
        (staging, unpacked)
    }

    fn settle(skills: &Path, agreed: &Agreed, text: Option<&str>) -> Result<Settled, Error> {
        let (staging, unpacked) = staging(skills, text);
        let settled = staging.settle(agreed, unpacked.as_deref());
        staging.clear().unwrap();
        settled
    }

    fn in_place(skills: &Path) -> Option<String> {
        fs::read_to_string(skills.join("demo/SKILL.md")).ok()?.lines().last().map(str::to_owned)
    }

    #[test]
    fn a_folder_follows_what_services_share_and_keeps_what_they_do_not() {
        let folder = tempfile::tempdir().unwrap();
        let (skills, drafts) = (folder.path().join("skills"), folder.path().join("drafts"));
        let [one, two] = ["one", "two"].map(|text| write(&drafts.join(text), text));
        let registry = Registry::new(&skills);
        let agreed = |active: Option<&String>| Agreed {
            id: "demo".into(),
            active: active.cloned(),
            known: vec![one.clone(), two.clone()],
        };
        let done = |replaced_foreign| Settled::Done { replaced_foreign };
        fs::create_dir(&skills).unwrap();
        assert!(!registry.fits(&agreed(Some(&one))).unwrap() && registry.fits(&agreed(None)).unwrap());
        assert_eq!(settle(&skills, &agreed(Some(&one)), None).unwrap(), Settled::PackageMissing);
        // A package that is another one is not used.
        assert!(settle(&skills, &agreed(Some(&one)), Some("two")).is_err());
        assert_eq!(in_place(&skills), None);
        assert_eq!(settle(&skills, &agreed(Some(&one)), Some("one")).unwrap(), done(false));
        assert!(registry.fits(&agreed(Some(&one))).unwrap());
        assert_eq!(settle(&skills, &agreed(Some(&two)), Some("two")).unwrap(), done(false));
        assert_eq!(in_place(&skills).as_deref(), Some("two"));
        // What the archive has is not fetched.
        assert_eq!(settle(&skills, &agreed(Some(&one)), None).unwrap(), done(false));
        assert_eq!(in_place(&skills).as_deref(), Some("one"));
        assert_eq!(settle(&skills, &agreed(None), None).unwrap(), done(false));
        assert_eq!(
            (in_place(&skills), registry.not_archived("demo", &[one.clone(), two.clone()]).unwrap()),
            (None, vec![])
        );
        // What somebody laid here stays while nothing is to be in its place, and is kept when something is.
        let own = write(&skills.join("demo"), "own");
        assert!(registry.fits(&agreed(None)).unwrap());
        assert_eq!(settle(&skills, &agreed(None), None).unwrap(), done(false));
        assert_eq!(in_place(&skills).as_deref(), Some("own"));
        assert_eq!(settle(&skills, &agreed(Some(&two)), None).unwrap(), done(true));
        assert_eq!(in_place(&skills).as_deref(), Some("two"));
        assert_eq!(registry.not_archived("demo", &[own]).unwrap(), Vec::<String>::new());
    }

    #[test]
    fn a_package_that_is_fetched_for_the_archive_is_found_there() {
        let folder = tempfile::tempdir().unwrap();
        let skills = folder.path().join("skills");
        let fingerprint = write(&folder.path().join("draft"), "one");
        let agreed = Agreed { id: "demo".into(), active: Some(fingerprint.clone()), known: Vec::new() };
        let registry = Registry::new(&skills);
        let (staging, unpacked) = staging(&skills, Some("one"));
        let lacking = registry.not_archived("demo", std::slice::from_ref(&fingerprint)).unwrap();
        assert_eq!(lacking, std::slice::from_ref(&fingerprint));
        staging.archive(&agreed, &unpacked.unwrap()).unwrap();
        drop(staging);
        assert_eq!(registry.not_archived("demo", std::slice::from_ref(&fingerprint)).unwrap(), Vec::<String>::new());
        let back = registry.rollback_to("demo", &fingerprint, std::slice::from_ref(&fingerprint)).unwrap();
        assert_eq!(back.fingerprint, fingerprint);
        // One that services do not share is none to roll back to.
        assert!(matches!(registry.rollback_to("demo", &fingerprint, &[]), Err(ChangeRefused::NotFound)));
    }
}
