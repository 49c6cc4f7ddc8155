//! Room for a package on its way into the skills folder: a hidden folder beside the skills, locked while somebody is at it.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use rustix::fs::FlockOperation;
use tracing::warn;
use uuid::Uuid;

/// How these folders are called; a name with a dot in front is no skill's.
const PREFIX: &str = ".install-";
/// Where in it a package is unpacked.
const UNPACKED: &str = "unpacked";
/// Where the package stands that is to be swapped in, and after the swap the one it took the place of.
const PACKAGE: &str = "package";
/// What is to be done with it.
const PLAN: &str = "plan.json";
/// Where the old package is for a moment, on file systems that cannot exchange two folders.
const BETWEEN: &str = "between";

/// Something on the way into the skills folder could not be done.
#[derive(Debug, thiserror::Error)]
#[error("{action} {}", path.display())]
pub struct InstallError {
    /// What was tried, such as `rename`.
    pub action: &'static str,
    /// On which path.
    pub path: PathBuf,
    /// Why it failed.
    #[source]
    pub source: io::Error,
}

impl InstallError {
    /// For `map_err`: the failed action and its path around the cause.
    pub(super) fn on<E: Into<io::Error>>(action: &'static str, path: &Path) -> impl FnOnce(E) -> InstallError {
        move |source| InstallError { action, path: path.to_owned(), source: source.into() }
    }
}

/// The skills folder, held by this installation alone, in this process and in others, until it is dropped.
#[derive(Debug)]
pub(super) struct Held(File);

impl Held {
    /// Waits until nobody else holds it.
    pub(super) fn wait_for(skills_dir: &Path) -> Result<Self, InstallError> {
        let folder = File::open(skills_dir).map_err(InstallError::on("open", skills_dir))?;
        loop {
            match rustix::fs::flock(&folder, FlockOperation::LockExclusive) {
                Ok(()) => return Ok(Self(folder)),
                Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(InstallError::on("lock", skills_dir)(error)),
            }
        }
    }

    /// Makes every rename in it durable.
    pub(super) fn sync(&self, skills_dir: &Path) -> Result<(), InstallError> {
        self.0.sync_all().map_err(InstallError::on("sync", skills_dir))
    }
}

/// Room for one package. When it goes, the room goes with it, unless a plan in it says that something is half done.
#[derive(Debug)]
pub struct Staging {
    id: Uuid,
    pub(super) dir: PathBuf,
    /// Locked: whoever finds the folder sees that somebody is at it.
    alive: File,
}

impl Staging {
    /// Makes room in the skills folder, which is made where it is missing.
    pub fn begin(skills_dir: &Path, id: Uuid) -> Result<Self, InstallError> {
        fs::create_dir_all(skills_dir).map_err(InstallError::on("create", skills_dir))?;
        // Held, so that nobody takes the room for an abandoned one before it is locked.
        let _held = Held::wait_for(skills_dir)?;
        let dir = skills_dir.join(format!("{PREFIX}{id}"));
        fs::create_dir(&dir).map_err(InstallError::on("create", &dir))?;
        let alive = File::open(&dir).map_err(InstallError::on("open", &dir))?;
        rustix::fs::flock(&alive, FlockOperation::NonBlockingLockExclusive).map_err(InstallError::on("lock", &dir))?;
        let staging = Self { id, dir, alive };
        let unpacked = staging.unpacked();
        fs::create_dir(&unpacked).map_err(InstallError::on("create", &unpacked))?;
        Ok(staging)
    }

    /// The rooms that nobody is at any more. The caller holds the skills folder.
    pub(super) fn abandoned(skills_dir: &Path, _held: &Held) -> Result<Vec<Self>, InstallError> {
        let mut found = Vec::new();
        for entry in fs::read_dir(skills_dir).map_err(InstallError::on("list", skills_dir))? {
            let entry = entry.map_err(InstallError::on("list", skills_dir))?;
            let name = entry.file_name();
            let id = name.to_str().and_then(|name| name.strip_prefix(PREFIX)).and_then(|id| Uuid::try_parse(id).ok());
            let (Some(id), Ok(true)) = (id, entry.file_type().map(|kind| kind.is_dir())) else { continue };
            let dir = entry.path();
            let alive = File::open(&dir).map_err(InstallError::on("open", &dir))?;
            match rustix::fs::flock(&alive, FlockOperation::NonBlockingLockExclusive) {
                Ok(()) => found.push(Self { id, dir, alive }),
                Err(rustix::io::Errno::WOULDBLOCK) => {}
                Err(error) => return Err(InstallError::on("lock", &dir)(error)),
            }
        }
        found.sort_by_key(|staging| staging.id);
        Ok(found)
    }

    /// The installation's name.
    pub fn id(&self) -> Uuid {
        self.id
    }

    /// The empty folder to unpack into.
    pub fn unpacked(&self) -> PathBuf {
        self.dir.join(UNPACKED)
    }

    pub(super) fn package(&self) -> PathBuf {
        self.dir.join(PACKAGE)
    }

    pub(super) fn between(&self) -> PathBuf {
        self.dir.join(BETWEEN)
    }

    pub(super) fn plan(&self) -> PathBuf {
        self.dir.join(PLAN)
    }

    /// Makes every name in it durable.
    pub(super) fn sync(&self) -> Result<(), InstallError> {
        self.alive.sync_all().map_err(InstallError::on("sync", &self.dir))
    }

    /// Nothing is half done any more: the room goes, whatever is in it.
    pub fn clear(self) -> Result<(), InstallError> {
        // The plan first, and durably: what is left without one is rubbish, and is never taken for a package.
        self.drop_plan()
    }

    pub(super) fn drop_plan(&self) -> Result<(), InstallError> {
        let plan = self.plan();
        match fs::remove_file(&plan) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(InstallError::on("remove", &plan)(error)),
            Ok(()) | Err(_) => self.sync(),
        }
    }
}

#[cfg(test)]
impl Staging {
    /// As if its process had been killed.
    pub(super) fn die(self) {
        rustix::fs::flock(&self.alive, FlockOperation::Unlock).unwrap();
        std::mem::forget(self);
    }
}

impl Drop for Staging {
    fn drop(&mut self) {
        if self.plan().exists() {
            return;
        }
        // What cannot be removed is tried again at the next start.
        if let Err(error) = fs::remove_dir_all(&self.dir) {
            warn!(folder = %self.dir.display(), %error, "the room of an installation could not be removed");
        }
    }
}
