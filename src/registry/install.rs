//! Installing a package and every other change of the skills folder: a plan on disk, then renames. After a crash, the next
//! start finds the old skill or the new one, and finishes the change or takes it back.

#[cfg(test)]
mod change_tests;
#[cfg(test)]
mod tests;

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::fs::{CWD, RenameFlags, renameat_with};
use rustix::io::Errno;
use tracing::warn;

use super::copying;
use super::installed::Installed;
use super::load::load_dir;
use super::plan::{Action, Done, Plan, Step, installed_skill};
use super::refused::InstallRefused;
use super::staging::{SkillsLock, Staging};
use crate::domain::causes::chain;
use crate::files::{self, Error};
use crate::skill::{Intake, Skill};

/// How long a start waits for those who change the skills folder.
const START_PATIENCE: Duration = Duration::from_secs(5);

/// An interrupted installation that was finished or rolled back.
#[derive(Debug)]
pub(crate) struct RecoveredInstall {
    /// To be cleared by the caller once the outcome is on record.
    pub(crate) staging: Staging,
    /// What was installed; none when it was rolled back.
    pub(crate) done: Option<Done>,
}

impl Staging {
    /// Copies a package's folder, as if it had been unpacked; returns the copy's path.
    pub(crate) fn copy(&self, dir: &Path) -> Result<PathBuf, InstallRefused> {
        copying::into(dir, &self.unpacked())
    }

    /// Checks the unpacked package and installs it. `begun` is called when the skills folder is locked for it. The caller
    /// clears the staging folder once the outcome is on record.
    pub(crate) fn install(
        &self,
        unpacked: &Path,
        begun: impl FnOnce(&Skill),
    ) -> Result<(Installed, Done), InstallRefused> {
        let installed = load_dir(unpacked, Intake::New).map_err(InstallRefused::of(unpacked))?;
        let skills_dir = self.skills_dir();
        let package = self.package();
        files::rename(unpacked, &package)?;
        // The files before the plan: after a power cut, a plan on disk must mean that its package is whole.
        files::sync_file_system(&package)?;
        let lock = SkillsLock::acquire(skills_dir)?;
        begun(&installed.skill);
        let plan = Plan::install(skills_dir, &installed.skill)?;
        self.carry_out(&lock, &plan)?;
        let dir = skills_dir.join(&plan.done.skill_id);
        Ok((Installed { dir, ..installed }, plan.done))
    }

    /// Takes every step of a plan. If that fails, nothing was changed, or the next start finishes it.
    pub(crate) fn carry_out(&self, lock: &SkillsLock, plan: &Plan) -> Result<(), Error> {
        let moves = Moves { staging: self, skills_dir: self.skills_dir(), lock, plan };
        if let Err(error) = plan.steps().iter().try_for_each(|step| moves.take(*step)) {
            // If that fails too, the plan stays, and the next start tries again.
            if moves.finish()?.is_none() {
                self.drop_plan()?;
                return Err(error);
            }
        }
        Ok(())
    }

    pub(crate) fn skills_dir(&self) -> &Path {
        self.dir.parent().unwrap_or(Path::new("."))
    }
}

/// Finishes or rolls back the installations whose process died. Doing it twice changes nothing.
pub(crate) fn recover_installs(skills_dir: &Path) -> Result<Vec<RecoveredInstall>, Error> {
    if !skills_dir.is_dir() {
        return Ok(Vec::new());
    }
    let lock = SkillsLock::acquire_within(skills_dir, START_PATIENCE)?;
    let mut recovered = Vec::new();
    for staging in Staging::abandoned(skills_dir, &lock)? {
        let outcome = Plan::read(&staging).and_then(|plan| match plan {
            Some(plan) => Moves { staging: &staging, skills_dir, lock: &lock, plan: &plan }.finish(),
            None => Ok(None),
        });
        match outcome {
            Ok(done) => recovered.push(RecoveredInstall { staging, done }),
            // It stays as it is: nothing in it is lost, and no skill depends on it.
            Err(error) => warn!(
                install = %staging.id(), error = %chain(&error),
                "an interrupted installation could neither be finished nor rolled back"
            ),
        }
    }
    Ok(recovered)
}

/// The renames of one plan, with the skills folder locked.
struct Moves<'a> {
    staging: &'a Staging,
    skills_dir: &'a Path,
    lock: &'a SkillsLock,
    plan: &'a Plan,
}

impl Moves<'_> {
    fn place(&self) -> PathBuf {
        self.skills_dir.join(&self.plan.done.skill_id)
    }

    /// Where the package is before it is put in place, and the one it replaces before that is set aside.
    fn package(&self) -> PathBuf {
        self.plan.from.as_ref().map_or_else(|| self.staging.package(), |from| self.skills_dir.join(from))
    }

    fn take(&self, step: Step) -> Result<(), Error> {
        match step {
            Step::WritePlan => self.plan.write(self.staging),
            Step::PutInPlace => self.rename(&self.package(), &self.place()),
            Step::Exchange => match files::step("exchange with", &self.place()).map(|()| self.exchange())? {
                Err(Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP) => {
                    self.exchange_in_steps().iter().try_for_each(|(from, to)| self.rename(from, to))
                }
                Err(error) => Err(Error::on("exchange with", &self.place())(error)),
                Ok(()) => self.sync(),
            },
            Step::SetAside => self.set_aside(&self.package()),
            Step::TakeAway => self.set_aside(&self.place()),
        }
    }

    fn exchange(&self) -> Result<(), Errno> {
        renameat_with(CWD, self.package(), CWD, self.place(), RenameFlags::EXCHANGE)
    }

    /// The renames of an exchange where the file system has none; between the first two there is no skill.
    fn exchange_in_steps(&self) -> [(PathBuf, PathBuf); 3] {
        let (package, between, place) = (self.package(), self.staging.between(), self.place());
        [(place.clone(), between.clone()), (package.clone(), place), (between, package)]
    }

    fn set_aside(&self, replaced: &Path) -> Result<(), Error> {
        let Some(aside) = &self.plan.set_aside else { return Ok(()) };
        let aside = self.skills_dir.join(aside);
        let folder = aside.parent().unwrap_or(self.skills_dir);
        files::create_folder(folder)?;
        self.rename(replaced, &aside)?;
        for folder in folder.ancestors().take_while(|folder| *folder != self.skills_dir) {
            files::sync(folder)?;
        }
        Ok(())
    }

    fn rename(&self, from: &Path, to: &Path) -> Result<(), Error> {
        files::rename(from, to)?;
        self.sync()
    }

    fn sync(&self) -> Result<(), Error> {
        if let Some(archive) = self.plan.from.as_ref().and_then(|from| from.parent()) {
            files::sync(&self.skills_dir.join(archive))?;
        }
        self.lock.sync(self.skills_dir)?;
        self.staging.sync()
    }

    /// Finishes an installation that has begun, wherever it stopped. One that has not begun is rolled back: nothing was moved,
    /// so the caller has only to clear the staging folder.
    fn finish(&self) -> Result<Option<Done>, Error> {
        if self.plan.done.action == Action::Uninstall {
            return Ok(self.is_taken_away().then(|| self.plan.done.clone()));
        }
        let (package, between) = (self.package(), self.staging.between());
        if exists(&between) {
            if !exists(&self.place()) {
                self.rename(&package, &self.place())?;
            }
            if exists(&package) {
                let occupied = io::Error::other("a folder of that name was created meanwhile; move it away");
                return Err(Error::on("put the skill into", &self.place())(occupied));
            }
            self.rename(&between, &package)?;
        }
        if !exists(&package) {
            return Ok(Some(self.plan.done.clone()));
        }
        if self.plan.set_aside.is_none() || self.is_new(&package)? {
            return Ok(None);
        }
        self.set_aside(&package)?;
        Ok(Some(self.plan.done.clone()))
    }

    /// Whether an uninstallation took place: it is a single rename.
    fn is_taken_away(&self) -> bool {
        let aside = self.plan.set_aside.as_ref().map(|aside| self.skills_dir.join(aside));
        aside.is_some_and(|aside| exists(&aside))
    }

    /// Whether this is the package that was to be installed. Its path does not tell, since both packages are moved; its content
    /// does, since the one it replaces is another version or broken.
    fn is_new(&self, package: &Path) -> Result<bool, Error> {
        let found = installed_skill(package, &self.plan.done.skill_id)?;
        Ok(found.is_some_and(|found| found.fingerprint == self.plan.fingerprint))
    }
}

fn exists(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok()
}
