//! What several services agree on about a skill: one record in the store, changed as a whole. Decisions alone; no IO.

use bytes::Bytes;
use semver::Version;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::blobs::Blob;
use crate::domain::time::Timestamp;
use crate::orchestrator::error::Error;
use crate::registry::{Action, Agreed, ChangeRefused, Done, InstallRefused, replaces, short};
use crate::skill::Skill;

/// Archived versions of a skill that are kept.
const ARCHIVED_MAX: usize = 100;
/// Changes of a skill that are remembered, for services that died before they could tell what became of them.
const CHANGES_MAX: usize = 16;

/// The record of a skill.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct SkillRecord {
    /// What is in place; none if it is uninstalled.
    pub(crate) active: Option<SharedPackage>,
    /// Earlier ones, the latest first.
    #[serde(default)]
    pub(crate) archived: Vec<SharedPackage>,
    /// What was done last, the latest first.
    #[serde(default)]
    pub(crate) changes: Vec<MadeChange>,
}

/// A package as all services have it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct SharedPackage {
    pub(crate) version: String,
    pub(crate) fingerprint: String,
    /// Its zip among the shared files.
    pub(crate) package: Blob,
    /// Since when it is in place, or archived.
    pub(crate) since: Timestamp,
}

/// A change that was made, by its id.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct MadeChange {
    pub(crate) id: Uuid,
    #[serde(flatten)]
    pub(crate) done: Done,
}

/// Who changes a skill, and when.
#[derive(Debug, Clone, Copy)]
pub(crate) struct By {
    pub(crate) id: Uuid,
    pub(crate) now: Timestamp,
}

impl SharedPackage {
    pub(crate) fn of(skill: &Skill, package: Blob, since: Timestamp) -> Self {
        Self { version: skill.version.to_string(), fingerprint: skill.fingerprint.clone(), package, since }
    }
}

impl SkillRecord {
    pub(crate) fn read(id: &str, value: &[u8]) -> Result<Self, Error> {
        let unreadable = |error| Error::io(format!("read the shared record of the skill {id}"))(error);
        crate::bounded::json::from_slice(value).map_err(|error| unreadable(std::io::Error::other(error)))
    }

    pub(crate) fn to_value(&self) -> Result<Bytes, Error> {
        let written = serde_json::to_vec(self).map_err(|error| Error::io("write the record of a skill")(error.into()));
        Ok(written?.into())
    }

    /// The shared files that it needs.
    pub(crate) fn files(&self) -> Vec<[u8; 32]> {
        self.packages().map(|package| package.package.sha256).collect()
    }

    pub(crate) fn packages(&self) -> impl Iterator<Item = &SharedPackage> {
        self.active.iter().chain(&self.archived)
    }

    /// What a change with this id did, if it was made.
    pub(crate) fn made(&self, id: Uuid) -> Option<&Done> {
        self.changes.iter().find(|made| made.id == id).map(|made| &made.done)
    }

    /// What has to be in the skill's place on every service.
    pub(crate) fn agreed(&self, id: &str) -> Agreed {
        let active = self.active.as_ref().map(|active| active.fingerprint.clone());
        let known = self.packages().map(|package| package.fingerprint.clone()).collect();
        Agreed { id: id.to_owned(), active, known }
    }

    /// A newer package takes the place of the one that is there.
    pub(crate) fn installed(&self, skill: &Skill, package: Blob, by: By) -> Result<(Self, Done), InstallRefused> {
        let action = match &self.active {
            Some(active) => {
                let installed = Version::parse(&active.version).unwrap_or_else(|_| Version::new(0, 0, 0));
                if !replaces((&skill.version, &skill.fingerprint), (&installed, &active.fingerprint)) {
                    let (skill_id, given) = (skill.id.clone(), skill.version.clone());
                    return Err(InstallRefused::NotNewer { skill_id, installed, given });
                }
                Action::Update
            }
            None => Action::Install,
        };
        let given = SharedPackage::of(skill, package, by.now);
        Ok(self.changed(&skill.id, Some(given), action, by))
    }

    /// An archived package takes the place of the one that is there.
    pub(crate) fn rolled_back(&self, id: &str, fingerprint: &str, by: By) -> Result<(Self, Done), ChangeRefused> {
        if let Some(active) = self.active.as_ref().filter(|active| active.fingerprint == fingerprint) {
            return Err(ChangeRefused::InPlace { id: id.to_owned(), version: active.version.clone() });
        }
        let Some(given) = self.archived.iter().find(|one| one.fingerprint == fingerprint) else {
            let versions = self.archived.iter().map(|one| one.version.clone()).collect();
            return Err(ChangeRefused::NoSuchVersion { id: id.to_owned(), wanted: short(fingerprint), versions });
        };
        let given = SharedPackage { since: by.now, ..given.clone() };
        Ok(self.changed(id, Some(given), Action::Rollback, by))
    }

    /// Nothing is in place any more.
    pub(crate) fn uninstalled(&self, id: &str, by: By) -> Result<(Self, Done), ChangeRefused> {
        if self.active.is_none() {
            return Err(ChangeRefused::NotFound);
        }
        Ok(self.changed(id, None, Action::Uninstall, by))
    }

    fn changed(&self, id: &str, active: Option<SharedPackage>, action: Action, by: By) -> (Self, Done) {
        let told = active.as_ref().or(self.active.as_ref()).map(|package| package.version.clone());
        let done = Done { skill_id: id.to_owned(), version: told, action };
        let replaced = self.active.clone().map(|replaced| SharedPackage { since: by.now, ..replaced });
        let mut archived: Vec<SharedPackage> = replaced.into_iter().chain(self.archived.iter().cloned()).collect();
        archived.retain(|one| active.as_ref().is_none_or(|active| active.fingerprint != one.fingerprint));
        archived.truncate(ARCHIVED_MAX);
        let made = MadeChange { id: by.id, done: done.clone() };
        let changes = std::iter::once(made).chain(self.changes.iter().cloned()).take(CHANGES_MAX).collect();
        (Self { active, archived, changes }, done)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn package(version: &str, since: i64) -> SharedPackage {
        let package = Blob { sha256: [since.to_le_bytes()[0]; 32], size: 1 };
        let (version, fingerprint) = (version.to_owned(), format!("content of {version}"));
        SharedPackage { version, fingerprint, package, since: Timestamp::from_micros(since) }
    }

    fn by(moment: i64) -> By {
        By { id: Uuid::from_u128(moment.unsigned_abs().into()), now: Timestamp::from_micros(moment) }
    }

    fn versions(record: &SkillRecord) -> (Option<&str>, Vec<&str>) {
        let archived = record.archived.iter().map(|one| one.version.as_str()).collect();
        (record.active.as_ref().map(|active| active.version.as_str()), archived)
    }

    #[test]
    fn what_is_replaced_is_archived_and_what_comes_back_is_not() {
        let empty = SkillRecord::default();
        let (one, _) = empty.changed("s", Some(package("1.0.0", 1)), Action::Install, by(1));
        let (two, _) = one.changed("s", Some(package("2.0.0", 2)), Action::Update, by(2));
        assert_eq!(versions(&two), (Some("2.0.0"), vec!["1.0.0"]));
        assert_eq!(two.archived[0].since, Timestamp::from_micros(2), "when it came into the archive");
        let (back, done) = two.rolled_back("s", "content of 1.0.0", by(3)).unwrap();
        assert_eq!((versions(&back), done.version.as_deref()), ((Some("1.0.0"), vec!["2.0.0"]), Some("1.0.0")));
        let (gone, done) = back.uninstalled("s", by(4)).unwrap();
        assert_eq!((versions(&gone), done.version.as_deref()), ((None, vec!["1.0.0", "2.0.0"]), Some("1.0.0")));
        assert_eq!(gone.files(), [[1; 32], [2; 32]]);
        assert_eq!(gone.changes.iter().map(|made| made.id.as_u128()).collect::<Vec<_>>(), [4, 3, 2, 1]);
        assert!(matches!(gone.uninstalled("s", by(5)), Err(ChangeRefused::NotFound)));
        assert!(matches!(back.rolled_back("s", "content of 1.0.0", by(5)), Err(ChangeRefused::InPlace { .. })));
        assert!(matches!(back.rolled_back("s", "other", by(5)), Err(ChangeRefused::NoSuchVersion { .. })));
        assert_eq!(SkillRecord::read("s", &gone.to_value().unwrap()).unwrap(), gone);
    }

    #[test]
    fn a_record_does_not_grow_for_ever() {
        let many = (0..300).fold(SkillRecord::default(), |record, n| {
            record.changed("s", Some(package(&format!("1.0.{n}"), n)), Action::Update, by(n)).0
        });
        assert_eq!((many.archived.len(), many.changes.len()), (ARCHIVED_MAX, CHANGES_MAX));
        assert_eq!(many.archived[0].version, "1.0.298");
    }
}
