//! The staging folder of an installation: hidden, beside the skills, and locked while its process lives.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use rustix::fs::FlockOperation;
use rustix::io::Errno;
use tracing::warn;
use uuid::Uuid;

use crate::files::{self, Error};

/// How the folders' names begin; a name with a dot in front is not a skill's.
const PREFIX: &str = ".install-";
/// Where a package is unpacked.
const UNPACKED: &str = "unpacked";
/// The new package, and after the exchange the old one.
const PACKAGE: &str = "package";
/// The plan of the installation.
const PLAN: &str = "plan.json";
/// The old package during an exchange, on file systems that cannot exchange two folders at once.
const BETWEEN: &str = "between";
/// How long an installation waits for others, each of which has the lock while it renames a few folders.
const PATIENCE: Duration = Duration::from_secs(60);
const LOOK_EVERY: Duration = Duration::from_millis(5);

/// A lock on the skills folder against all other installations, in this process and in others, until it is dropped.
#[derive(Debug)]
pub(crate) struct SkillsLock(File);

impl SkillsLock {
    /// Waits until no other installation has it.
    pub(crate) fn acquire(skills_dir: &Path) -> Result<Self, Error> {
        Self::acquire_within(skills_dir, PATIENCE)
    }

    /// The same, not for longer than this: whoever may read the folder can hold its lock for ever.
    pub(crate) fn acquire_within(skills_dir: &Path, patience: Duration) -> Result<Self, Error> {
        let folder = File::open(skills_dir).map_err(Error::on("open", skills_dir))?;
        let until = Instant::now() + patience;
        loop {
            match rustix::fs::flock(&folder, FlockOperation::NonBlockingLockExclusive) {
                Ok(()) => return Ok(Self(folder)),
                Err(Errno::WOULDBLOCK | Errno::INTR) if Instant::now() < until => thread::sleep(LOOK_EVERY),
                Err(Errno::WOULDBLOCK) => {
                    let held = "another process holds its lock (lslocks shows which); end that, or close the folder to other users";
                    return Err(Error::on("lock", skills_dir)(io::Error::new(io::ErrorKind::TimedOut, held)));
                }
                Err(error) => return Err(Error::on("lock", skills_dir)(error)),
            }
        }
    }

    /// Makes every rename in it durable.
    pub(crate) fn sync(&self, skills_dir: &Path) -> Result<(), Error> {
        self.0.sync_all().map_err(Error::on("sync", skills_dir))
    }
}

/// The staging folder of one installation. It is removed when dropped, unless it holds a plan: then the next start finishes
/// the installation or rolls it back.
#[derive(Debug)]
pub(crate) struct Staging {
    id: Uuid,
    pub(crate) dir: PathBuf,
    /// The folder, open and locked: the lock shows that the process of this installation lives.
    lock: File,
    /// How long it waits for other installations.
    patience: Duration,
}

impl Staging {
    /// Creates a staging folder in the skills folder, which is created where it is missing.
    pub(crate) fn begin(skills_dir: &Path, id: Uuid) -> Result<Self, Error> {
        Self::begin_within(skills_dir, id, PATIENCE)
    }

    /// The same, for one that waits for others for this long at most.
    pub(crate) fn begin_within(skills_dir: &Path, id: Uuid, patience: Duration) -> Result<Self, Error> {
        files::create_folder(skills_dir)?;
        // So that no other process takes the new folder for an abandoned one before it is locked.
        let _skills_lock = SkillsLock::acquire_within(skills_dir, patience)?;
        let dir = skills_dir.join(format!("{PREFIX}{id}"));
        files::create_folder_with_mode(&dir, 0o777)?;
        let lock = File::open(&dir).map_err(Error::on("open", &dir))?;
        rustix::fs::flock(&lock, FlockOperation::NonBlockingLockExclusive).map_err(Error::on("lock", &dir))?;
        let staging = Self { id, dir, lock, patience };
        let unpacked = staging.unpacked();
        files::create_folder_with_mode(&unpacked, 0o777)?;
        Ok(staging)
    }

    /// The staging folders whose processes died.
    pub(crate) fn abandoned(skills_dir: &Path, _skills_lock: &SkillsLock) -> Result<Vec<Self>, Error> {
        let mut found = Vec::new();
        for entry in fs::read_dir(skills_dir).map_err(Error::on("list", skills_dir))? {
            let entry = entry.map_err(Error::on("list", skills_dir))?;
            let name = entry.file_name();
            let id = name.to_str().and_then(|name| name.strip_prefix(PREFIX)).and_then(|id| Uuid::try_parse(id).ok());
            let (Some(id), Ok(true)) = (id, entry.file_type().map(|kind| kind.is_dir())) else { continue };
            let dir = entry.path();
            let lock = File::open(&dir).map_err(Error::on("open", &dir))?;
            match rustix::fs::flock(&lock, FlockOperation::NonBlockingLockExclusive) {
                Ok(()) => found.push(Self { id, dir, lock, patience: PATIENCE }),
                Err(Errno::WOULDBLOCK) => {}
                Err(error) => return Err(Error::on("lock", &dir)(error)),
            }
        }
        found.sort_by_key(|staging| staging.id);
        Ok(found)
    }

    /// Waits until no other installation has the skills folder.
    pub(super) fn skills_lock(&self, skills_dir: &Path) -> Result<SkillsLock, Error> {
        SkillsLock::acquire_within(skills_dir, self.patience)
    }

    pub(crate) fn id(&self) -> Uuid {
        self.id
    }

    /// The empty folder to unpack into.
    pub(crate) fn unpacked(&self) -> PathBuf {
        self.dir.join(UNPACKED)
    }

    pub(crate) fn package(&self) -> PathBuf {
        self.dir.join(PACKAGE)
    }

    pub(crate) fn between(&self) -> PathBuf {
        self.dir.join(BETWEEN)
    }

    pub(crate) fn plan(&self) -> PathBuf {
        self.dir.join(PLAN)
    }

    /// Makes every name in it durable.
    pub(crate) fn sync(&self) -> Result<(), Error> {
        self.lock.sync_all().map_err(Error::on("sync", &self.dir))
    }

    /// Removes the folder with all that is in it: the installation is over and on record.
    pub(crate) fn clear(self) -> Result<(), Error> {
        // The plan first, and durably: without it, what a crash leaves of the folder is never taken for a package.
        self.drop_plan()
    }

    pub(crate) fn drop_plan(&self) -> Result<(), Error> {
        files::remove_file(&self.plan())?;
        self.sync()
    }
}

#[cfg(test)]
impl Staging {
    /// Leaves the folder as a killed process would.
    pub(crate) fn die(self) {
        rustix::fs::flock(&self.lock, FlockOperation::Unlock).unwrap();
        std::mem::forget(self);
    }
}

impl Drop for Staging {
    fn drop(&mut self) {
        if self.plan().exists() {
            return;
        }
        // Not by a move and a later removal: a start must find what is left under the same name.
        if let Err(error) = fs::remove_dir_all(&self.dir) {
            warn!(folder = %self.dir.display(), %error, "the staging folder of an installation could not be removed; the next start tries again");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lock_that_somebody_keeps_is_not_waited_for_without_end() {
        let skills = tempfile::tempdir().unwrap();
        let kept = File::open(skills.path()).unwrap();
        rustix::fs::flock(&kept, FlockOperation::LockExclusive).unwrap();
        let refused = SkillsLock::acquire_within(skills.path(), Duration::from_millis(50)).unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::TimedOut);
        drop(kept);
        assert!(SkillsLock::acquire_within(skills.path(), Duration::ZERO).is_ok());
    }
}
