//! The plan of a change of the skills folder, as it is on disk before its first step.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use semver::Version;
use serde::{Deserialize, Serialize};

use super::load;
use super::refused::InstallRefused;
use super::staging::Staging;
use super::survey::Survey;
use crate::bounded;
use crate::files::{self, Error};
use crate::skill::{Intake, Skill};

/// Where replaced versions go.
const ARCHIVE: &str = ".archive";
/// Where broken folders go.
const INVALID: &str = ".invalid";

/// What was done with a skill.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Action {
    /// There was no skill of that id.
    Install,
    /// There was an older version.
    Update,
    /// An archived version is in place again.
    Rollback,
    /// It is in the archive, and nothing in its place.
    Uninstall,
}

/// A change of the skills folder that is done.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Done {
    pub(crate) skill_id: String,
    /// The version that is now in place, or that was uninstalled; none if that one was broken.
    pub(crate) version: Option<String>,
    pub(crate) action: Action,
}

/// What is to be done.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Plan {
    pub(crate) done: Done,
    /// That of the package to be put in place, to tell it from the one it replaces. Of an uninstallation: of what goes.
    pub(crate) fingerprint: String,
    /// Where the package is that is to be put in place, relative to the skills folder; none if it is in the staging folder.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) from: Option<PathBuf>,
    /// Where the replaced one goes, relative to the skills folder; none when nothing is replaced.
    pub(crate) set_aside: Option<PathBuf>,
}

/// One step of a plan. A crash may come between any two.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Step {
    /// The plan is on disk.
    WritePlan,
    /// The new package is moved to its path, where nothing was.
    PutInPlace,
    /// New and old have changed places.
    Exchange,
    /// The old one is moved to where the plan says.
    SetAside,
    /// The installed one is moved there from its place.
    TakeAway,
}

impl Plan {
    pub(crate) fn steps(&self) -> &'static [Step] {
        match (self.done.action, &self.set_aside) {
            (Action::Uninstall, _) => &[Step::WritePlan, Step::TakeAway],
            (Action::Install | Action::Update | Action::Rollback, None) => &[Step::WritePlan, Step::PutInPlace],
            (Action::Install | Action::Update | Action::Rollback, Some(_)) => {
                &[Step::WritePlan, Step::Exchange, Step::SetAside]
            }
        }
    }

    /// The plan to install this skill, as the skills folder is now. The caller has locked it.
    pub(crate) fn install(skills_dir: &Path, skill: &Skill) -> Result<Self, InstallRefused> {
        let (action, set_aside) = match InPlace::look(skills_dir, &skill.id)? {
            InPlace::Nothing => (Action::Install, None),
            InPlace::Valid(installed) if !replaces(of(skill), of(&installed)) => {
                let (installed, given) = (installed.version.clone(), skill.version.clone());
                return Err(InstallRefused::NotNewer { skill_id: skill.id.clone(), installed, given });
            }
            InPlace::Valid(installed) => (Action::Update, Some(archive_path(skills_dir, &installed))),
            InPlace::Broken => (Action::Install, Some(invalid_path(skills_dir, &skill.id))),
        };
        Ok(Self::of(skill, action, None, set_aside))
    }

    /// The plan to put this archived skill, which is at `from`, in place of what is there now.
    pub(crate) fn rollback(skills_dir: &Path, skill: &Skill, from: PathBuf, now: &InPlace) -> Self {
        Self::put(skills_dir, skill, Action::Rollback, Some(from), now)
    }

    /// The plan to put a skill in place of what is there now, whatever that is.
    pub(crate) fn put(skills_dir: &Path, skill: &Skill, action: Action, from: Option<PathBuf>, now: &InPlace) -> Self {
        let set_aside = match now {
            InPlace::Nothing => None,
            InPlace::Valid(installed) => Some(archive_path(skills_dir, installed)),
            InPlace::Broken => Some(invalid_path(skills_dir, &skill.id)),
        };
        Self::of(skill, action, from, set_aside)
    }

    fn of(skill: &Skill, action: Action, from: Option<PathBuf>, set_aside: Option<PathBuf>) -> Self {
        let done = Done { skill_id: skill.id.clone(), version: Some(skill.version.to_string()), action };
        Self { done, fingerprint: skill.fingerprint.clone(), from, set_aside }
    }

    /// The plan to move what is in place to the archive, or to where broken folders go; none if nothing is there.
    pub(crate) fn uninstall(skills_dir: &Path, id: &str, now: &InPlace) -> Option<Self> {
        let (version, fingerprint, set_aside) = match now {
            InPlace::Nothing => return None,
            InPlace::Valid(installed) => (
                Some(installed.version.to_string()),
                installed.fingerprint.clone(),
                archive_path(skills_dir, installed),
            ),
            InPlace::Broken => (None, String::new(), invalid_path(skills_dir, id)),
        };
        let done = Done { skill_id: id.to_owned(), version, action: Action::Uninstall };
        Some(Self { done, fingerprint, from: None, set_aside: Some(set_aside) })
    }

    /// The plan of an installation that has begun; none when it has not.
    pub(crate) fn read(staging: &Staging) -> Result<Option<Self>, Error> {
        let path = staging.plan();
        let Some(text) = files::read_optional(&path)? else { return Ok(None) };
        bounded::json::from_slice(&text).map(Some).map_err(Error::on("read", &path))
    }

    pub(crate) fn write(&self, staging: &Staging) -> Result<(), Error> {
        let path = staging.plan();
        let text = serde_json::to_vec(self).map_err(Error::on("write", &path))?;
        files::write_durably(&path, &text)
    }
}

/// What is in a skill's place.
#[derive(Debug)]
pub(crate) enum InPlace {
    Nothing,
    Valid(Arc<Skill>),
    Broken,
}

impl InPlace {
    pub(crate) fn look(skills_dir: &Path, id: &str) -> Result<Self, Error> {
        let place = skills_dir.join(id);
        match fs::symlink_metadata(&place) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Self::Nothing),
            Err(error) => Err(Error::on("look at", &place)(error)),
            Ok(_) => Ok(installed_skill(&place, id)?.map_or(Self::Broken, Self::Valid)),
        }
    }
}

/// The skill in this folder; none if it is broken.
pub(crate) fn installed_skill(place: &Path, id: &str) -> Result<Option<Arc<Skill>>, Error> {
    let loaded = Survey::of(place).and_then(|survey| load::load(place, id, survey, Intake::Installed));
    match loaded.map(|loaded| loaded.outcome) {
        Some(Ok(installed)) => Ok(Some(installed.skill)),
        Some(Err(why)) => why.shortage(place).map_or(Ok(None), Err),
        None => Ok(None),
    }
}

/// Where the archived versions of a skill are.
pub(crate) fn archive_of(id: &str) -> PathBuf {
    Path::new(ARCHIVE).join(id)
}

/// Where this skill goes in the archive.
pub(crate) fn archive_path(skills_dir: &Path, skill: &Skill) -> PathBuf {
    // All that name no version have the same one.
    let name = if is_unversioned(skill) { skill.fingerprint.clone() } else { skill.version.to_string() };
    free_name(skills_dir, &archive_of(&skill.id), &name)
}

fn invalid_path(skills_dir: &Path, id: &str) -> PathBuf {
    free_name(skills_dir, Path::new(INVALID), id)
}

/// Whether a skill may take the place of the one that is there: it is newer, or that one names no version and differs. By
/// precedence: build metadata, which follows a `+`, makes no version newer.
pub(crate) fn replaces((version, content): (&Version, &str), (installed, its_content): (&Version, &str)) -> bool {
    let newer = version.cmp_precedence(installed).is_gt();
    newer || (*installed == Version::new(0, 0, 0) && content != its_content)
}

fn of(skill: &Skill) -> (&Version, &str) {
    (&skill.version, &skill.fingerprint)
}

pub(crate) fn is_unversioned(skill: &Skill) -> bool {
    skill.version == Version::new(0, 0, 0)
}

/// A path where nothing is: what was set aside before stays.
fn free_name(skills_dir: &Path, folder: &Path, name: &str) -> PathBuf {
    let numbered = (1_u32..).map(|number| folder.join(format!("{name}.{number}")));
    let mut names = std::iter::once(folder.join(name)).chain(numbered);
    let free = |path: &PathBuf| fs::symlink_metadata(skills_dir.join(path)).is_err();
    names.find(free).unwrap_or_else(|| folder.join(name))
}
