//! The plan of an installation, as it is on disk before its first step.

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
use crate::files::{self, Error};
use crate::skill::{Intake, Skill};

/// Where replaced versions go.
const ARCHIVE: &str = ".archive";
/// Where broken folders go.
const INVALID: &str = ".invalid";

/// What an installation did.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Action {
    /// There was no skill of that id.
    Install,
    /// There was an older version.
    Update,
}

/// An installation that is done.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Done {
    pub(crate) skill_id: String,
    pub(crate) version: String,
    /// Whether it is new here.
    pub(crate) action: Action,
}

/// What is to be done.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Plan {
    pub(crate) done: Done,
    /// The new package's, to tell it from the one it replaces.
    pub(crate) fingerprint: String,
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
}

impl Plan {
    pub(crate) fn steps(&self) -> &'static [Step] {
        match self.set_aside {
            None => &[Step::WritePlan, Step::PutInPlace],
            Some(_) => &[Step::WritePlan, Step::Exchange, Step::SetAside],
        }
    }

    /// The plan for this skill, as the skills folder is now. The caller has locked it.
    pub(crate) fn new(skills_dir: &Path, skill: &Skill) -> Result<Self, InstallRefused> {
        let place = skills_dir.join(&skill.id);
        let (action, set_aside) = match fs::symlink_metadata(&place) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => (Action::Install, None),
            Err(error) => return Err(Error::on("look at", &place)(error).into()),
            Ok(_) => match installed_skill(&place, &skill.id) {
                Some(installed) if !replaces(skill, &installed) => {
                    let (installed, given) = (installed.version.clone(), skill.version.clone());
                    return Err(InstallRefused::NotNewer { skill_id: skill.id.clone(), installed, given });
                }
                Some(installed) => {
                    let archive = Path::new(ARCHIVE).join(&skill.id);
                    // All that name no version have the same one.
                    let name = if is_unversioned(&installed) {
                        installed.fingerprint.clone()
                    } else {
                        installed.version.to_string()
                    };
                    (Action::Update, Some(free_name(skills_dir, &archive, &name)))
                }
                None => (Action::Install, Some(free_name(skills_dir, Path::new(INVALID), &skill.id))),
            },
        };
        let done = Done { skill_id: skill.id.clone(), version: skill.version.to_string(), action };
        Ok(Self { done, fingerprint: skill.fingerprint.clone(), set_aside })
    }

    /// The plan of an installation that has begun; none when it has not.
    pub(crate) fn read(staging: &Staging) -> Result<Option<Self>, Error> {
        let path = staging.plan();
        let Some(text) = files::read_optional(&path)? else { return Ok(None) };
        serde_json::from_slice(&text).map(Some).map_err(Error::on("read", &path))
    }

    pub(crate) fn write(&self, staging: &Staging) -> Result<(), Error> {
        let path = staging.plan();
        let text = serde_json::to_vec(self).map_err(Error::on("write", &path))?;
        files::write_durably(&path, &text)
    }
}

/// The skill that is there; none when it is broken.
fn installed_skill(place: &Path, id: &str) -> Option<Arc<Skill>> {
    let survey = Survey::of(place)?;
    Some(load::load(place, id, survey, Intake::Installed)?.outcome.ok()?.skill.clone())
}

/// Whether a skill may take the place of the one that is there: it is newer, or that one names no version and differs. By
/// precedence: build metadata, which follows a `+`, makes no version newer.
fn replaces(skill: &Skill, installed: &Skill) -> bool {
    let newer = skill.version.cmp_precedence(&installed.version).is_gt();
    newer || (is_unversioned(installed) && skill.fingerprint != installed.fingerprint)
}

fn is_unversioned(skill: &Skill) -> bool {
    skill.version == Version::new(0, 0, 0)
}

/// A path where nothing is: what was set aside before stays.
fn free_name(skills_dir: &Path, folder: &Path, name: &str) -> PathBuf {
    let numbered = (1_u32..).map(|number| folder.join(format!("{name}.{number}")));
    let mut names = std::iter::once(folder.join(name)).chain(numbered);
    let free = |path: &PathBuf| fs::symlink_metadata(skills_dir.join(path)).is_err();
    names.find(free).unwrap_or_else(|| folder.join(name))
}
