//! Installing a package: a plan on disk, then renames, so that a crash leaves the old skill or the new one and nothing
//! that a start cannot finish or take back.

#[cfg(test)]
mod tests;

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, RenameFlags, renameat_with};
use rustix::io::Errno;
use semver::Version;
use serde::{Deserialize, Serialize};
use tracing::warn;

use super::folder::{self, Survey};
use super::staging::{Held, InstallError, Staging};
use super::{Installed, copying};
use crate::domain::causes::chain;
use crate::skill::{Finding, Intake, Skill};

/// Where the versions go that were replaced.
const ARCHIVE: &str = ".archive";
/// Where broken folders go.
const INVALID: &str = ".invalid";

/// What an installation did.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Action {
    /// There was no skill of that id.
    Install,
    /// There was an older version.
    Update,
}

/// An installation that is done.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Done {
    /// The skill.
    pub skill_id: String,
    /// Its version.
    pub version: String,
    /// Whether it is new here.
    pub action: Action,
}

/// A package that is not installed; nothing was changed.
#[derive(Debug, thiserror::Error)]
pub enum InstallRefused {
    /// The package breaks the rules.
    #[error("the package breaks {} rules; correct what the findings name", findings.len())]
    Package {
        /// All that is wrong with it.
        findings: Vec<Finding>,
    },
    /// The same or a newer version is there.
    #[error("{skill_id} {installed} is installed, and {given} is not newer; raise version in assets/runner.json")]
    NotNewer {
        /// The skill.
        skill_id: String,
        /// What is there.
        installed: Version,
        /// What came.
        given: Version,
    },
    /// It could not be done.
    #[error(transparent)]
    Io(#[from] InstallError),
}

/// A room whose owner is gone, and what became of its installation: none when it was taken back.
#[derive(Debug)]
pub struct Settled {
    /// To be cleared by the caller once the outcome is written down.
    pub staging: Staging,
    /// What was done, if it was.
    pub done: Option<Done>,
}

/// What is to be done, as it stands on disk before anything of it is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Plan {
    done: Done,
    /// The new package, to tell it from the one it takes the place of.
    fingerprint: String,
    /// Where that one goes, relative to the skills folder; none when there is none.
    set_aside: Option<PathBuf>,
}

/// One step of a plan. A crash may come between any two.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Step {
    /// The plan is on disk.
    WritePlan,
    /// The new package is in its place, where nothing was.
    PutInPlace,
    /// New and old have changed places.
    Exchange,
    /// The old one is where the plan says.
    SetAside,
}

impl Plan {
    fn steps(&self) -> &'static [Step] {
        match self.set_aside {
            None => &[Step::WritePlan, Step::PutInPlace],
            Some(_) => &[Step::WritePlan, Step::Exchange, Step::SetAside],
        }
    }
}

impl Staging {
    /// Copies a folder into this room, as if it had been unpacked there; the copy.
    pub fn copy(&self, dir: &Path) -> Result<PathBuf, InstallRefused> {
        copying::into(dir, &self.unpacked())
    }

    /// Checks the package that was unpacked into this room and installs it. `begun` is told when its turn has come.
    /// The caller clears the room once the outcome is written down.
    pub fn install(&self, unpacked: &Path, begun: impl FnOnce(&Skill)) -> Result<(Installed, Done), InstallRefused> {
        let installed =
            super::load_dir(unpacked, Intake::New).map_err(|findings| InstallRefused::Package { findings })?;
        let skills_dir = self.skills_dir();
        let package = self.package();
        fs::rename(unpacked, &package).map_err(InstallError::on("rename to", &package))?;
        // The files before the plan: a plan that survives a power cut is a plan for a whole package.
        sync_file_system(&package)?;
        let held = Held::wait_for(skills_dir)?;
        begun(&installed.skill);
        let plan = plan(skills_dir, &installed.skill)?;
        let moves = Moves { staging: self, skills_dir, held: &held, plan: &plan };
        if let Err(error) = plan.steps().iter().try_for_each(|step| moves.take(*step)) {
            // Where that fails, too, the plan stays, and the next start tries again.
            if moves.settle()?.is_none() {
                self.drop_plan()?;
                return Err(error.into());
            }
        }
        let dir = skills_dir.join(&plan.done.skill_id);
        Ok((Installed { dir, ..installed }, plan.done))
    }

    fn skills_dir(&self) -> &Path {
        self.dir.parent().unwrap_or(Path::new("."))
    }
}

/// Finishes or takes back what installations left half done whose process is gone. Doing it twice changes nothing.
pub fn settle(skills_dir: &Path) -> Result<Vec<Settled>, InstallError> {
    if !skills_dir.is_dir() {
        return Ok(Vec::new());
    }
    let held = Held::wait_for(skills_dir)?;
    let mut settled = Vec::new();
    for staging in Staging::abandoned(skills_dir, &held)? {
        let half_done = read_plan(&staging).and_then(|plan| match plan {
            Some(plan) => Moves { staging: &staging, skills_dir, held: &held, plan: &plan }.settle(),
            None => Ok(None),
        });
        match half_done {
            Ok(done) => settled.push(Settled { staging, done }),
            // It stays as it is, for people to look at: nothing in it is lost, and no skill depends on it.
            Err(error) => warn!(install = %staging.id(), error = %chain(&error), "it could not be settled"),
        }
    }
    Ok(settled)
}

fn read_plan(staging: &Staging) -> Result<Option<Plan>, InstallError> {
    let path = staging.plan();
    match fs::read(&path) {
        Ok(text) => serde_json::from_slice(&text).map(Some).map_err(InstallError::on("read", &path)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(InstallError::on("read", &path)(error)),
    }
}

/// What there is to do for this skill, as things stand. The caller holds the skills folder.
fn plan(skills_dir: &Path, skill: &Skill) -> Result<Plan, InstallRefused> {
    let place = skills_dir.join(&skill.id);
    let (action, set_aside) = match fs::symlink_metadata(&place) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => (Action::Install, None),
        Err(error) => return Err(InstallError::on("look at", &place)(error).into()),
        Ok(_) => match installed_version(&place, &skill.id) {
            // By precedence: what stands after a + makes no version newer.
            Some(installed) if skill.version.cmp_precedence(&installed).is_le() => {
                let given = skill.version.clone();
                return Err(InstallRefused::NotNewer { skill_id: skill.id.clone(), installed, given });
            }
            Some(installed) => {
                let archive = Path::new(ARCHIVE).join(&skill.id);
                (Action::Update, Some(free_name(skills_dir, &archive, &installed.to_string())))
            }
            None => (Action::Install, Some(free_name(skills_dir, Path::new(INVALID), &skill.id))),
        },
    };
    let done = Done { skill_id: skill.id.clone(), version: skill.version.to_string(), action };
    Ok(Plan { done, fingerprint: skill.fingerprint.clone(), set_aside })
}

/// The version of the skill that is there; none when it is broken.
fn installed_version(place: &Path, id: &str) -> Option<Version> {
    let survey = Survey::of(place)?;
    Some(folder::load(place, id, survey, Intake::Installed)?.outcome.ok()?.skill.version)
}

/// A place that is free: what was set aside before stays.
fn free_name(skills_dir: &Path, folder: &Path, name: &str) -> PathBuf {
    let numbered = (1_u32..).map(|number| folder.join(format!("{name}.{number}")));
    let mut names = std::iter::once(folder.join(name)).chain(numbered);
    let free = |path: &PathBuf| fs::symlink_metadata(skills_dir.join(path)).is_err();
    names.find(free).unwrap_or_else(|| folder.join(name))
}

/// A plan in its room, with the skills folder held.
struct Moves<'a> {
    staging: &'a Staging,
    skills_dir: &'a Path,
    held: &'a Held,
    plan: &'a Plan,
}

impl Moves<'_> {
    fn place(&self) -> PathBuf {
        self.skills_dir.join(&self.plan.done.skill_id)
    }

    fn take(&self, step: Step) -> Result<(), InstallError> {
        match step {
            Step::WritePlan => self.write_plan(),
            Step::PutInPlace => self.rename(&self.staging.package(), &self.place()),
            Step::Exchange => match self.exchange() {
                Err(Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP) => {
                    self.exchange_in_steps().iter().try_for_each(|(from, to)| self.rename(from, to))
                }
                Err(error) => Err(InstallError::on("exchange with", &self.place())(error)),
                Ok(()) => self.sync(),
            },
            Step::SetAside => self.set_aside(),
        }
    }

    fn write_plan(&self) -> Result<(), InstallError> {
        let path = self.staging.plan();
        let written = || -> io::Result<()> {
            let unfinished = path.with_extension("tmp");
            let mut file = File::create(&unfinished)?;
            file.write_all(&serde_json::to_vec(self.plan)?)?;
            file.sync_all()?;
            fs::rename(&unfinished, &path)
        };
        written().map_err(InstallError::on("write", &path))?;
        self.staging.sync()
    }

    fn exchange(&self) -> Result<(), Errno> {
        renameat_with(CWD, self.staging.package(), CWD, self.place(), RenameFlags::EXCHANGE)
    }

    /// The same where the file system has no exchange; between the first two renames there is no skill.
    fn exchange_in_steps(&self) -> [(PathBuf, PathBuf); 3] {
        let (package, between, place) = (self.staging.package(), self.staging.between(), self.place());
        [(place.clone(), between.clone()), (package.clone(), place), (between, package)]
    }

    fn set_aside(&self) -> Result<(), InstallError> {
        let Some(aside) = &self.plan.set_aside else { return Ok(()) };
        let aside = self.skills_dir.join(aside);
        let folder = aside.parent().unwrap_or(self.skills_dir);
        fs::create_dir_all(folder).map_err(InstallError::on("create", folder))?;
        self.rename(&self.staging.package(), &aside)?;
        for folder in folder.ancestors().take_while(|folder| *folder != self.skills_dir) {
            File::open(folder).and_then(|opened| opened.sync_all()).map_err(InstallError::on("sync", folder))?;
        }
        Ok(())
    }

    fn rename(&self, from: &Path, to: &Path) -> Result<(), InstallError> {
        fs::rename(from, to).map_err(InstallError::on("rename to", to))?;
        self.sync()
    }

    fn sync(&self) -> Result<(), InstallError> {
        self.held.sync(self.skills_dir)?;
        self.staging.sync()
    }

    /// Finishes what has begun, wherever it stopped; what has not is taken back, which takes nothing but clearing the
    /// room.
    fn settle(&self) -> Result<Option<Done>, InstallError> {
        let (package, between) = (self.staging.package(), self.staging.between());
        if exists(&between) {
            if !exists(&self.place()) {
                self.rename(&package, &self.place())?;
            }
            if exists(&package) {
                let in_the_way = io::Error::other("a folder of that name has come meanwhile; move it away");
                return Err(InstallError::on("put the skill into", &self.place())(in_the_way));
            }
            self.rename(&between, &package)?;
        }
        if !exists(&package) {
            return Ok(Some(self.plan.done.clone()));
        }
        if self.plan.set_aside.is_none() || self.is_new(&package) {
            return Ok(None);
        }
        self.set_aside()?;
        Ok(Some(self.plan.done.clone()))
    }

    /// Whether this is the package that was to be installed: by its content, since names have changed places. The one
    /// it was to replace is another version or broken.
    fn is_new(&self, package: &Path) -> bool {
        let loaded =
            Survey::of(package).and_then(|survey| folder::load(package, &self.plan.done.skill_id, survey, Intake::New));
        let found = loaded.and_then(|loaded| loaded.outcome.ok());
        found.is_some_and(|found| found.skill.fingerprint == self.plan.fingerprint)
    }
}

fn exists(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok()
}

fn sync_file_system(folder: &Path) -> Result<(), InstallError> {
    let opened = File::open(folder).map_err(InstallError::on("open", folder))?;
    rustix::fs::syncfs(&opened).map_err(InstallError::on("sync the file system of", folder))
}
