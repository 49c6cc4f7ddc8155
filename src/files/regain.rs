//! What a skill closed to its owner, opened again.

use std::fs::{self, File, Permissions};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;

use rustix::fs::{Mode, OFlags};

use super::error::Error;
use super::step::step;

/// What the owner needs to use a folder, and a file.
const FOLDER: u32 = 0o700;
const FILE: u32 = 0o600;
const ALL: u32 = 0o7777;

/// Gives the owner of a folder or file the permissions that a skill may have taken away. A link is not followed; that nothing is there
/// is no error. To be called for a folder before what is in it.
pub(crate) fn regain(path: &Path) -> Result<(), Error> {
    let lacks = |found: &fs::Metadata| {
        let needed = if found.is_dir() { FOLDER } else { FILE };
        let closed = (found.is_dir() || found.is_file()) && found.mode() & needed != needed;
        closed.then(|| Permissions::from_mode((found.mode() | needed) & ALL))
    };
    if !fs::symlink_metadata(path).is_ok_and(|found| lacks(&found).is_some()) {
        return Ok(());
    }
    step("open", path)?;
    // By a handle, so that what is changed is what was looked at.
    let handle = rustix::fs::open(path, OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC, Mode::empty());
    let handle = File::from(handle.map_err(Error::on("open", path))?);
    let found = handle.metadata().map_err(Error::on("look at", path))?;
    let Some(permissions) = lacks(&found) else { return Ok(()) };
    tracing::warn!(path = %path.display(), "the run has closed a path of the runner; opening it again");
    fs::set_permissions(format!("/proc/self/fd/{}", handle.as_raw_fd()), permissions)
        .map_err(Error::on("change the permissions of", path))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_lacks_permissions_of_its_owner_gets_them_and_everything_else_stays() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        let mode = |name: &str| fs::metadata(at(name)).unwrap().mode() & ALL;
        fs::create_dir(at("closed")).unwrap();
        fs::write(at("closed/file"), "kept").unwrap();
        fs::write(at("program"), "").unwrap();
        fs::write(at("outside"), "").unwrap();
        std::os::unix::fs::symlink(at("outside"), at("link")).unwrap();
        for (name, before) in [("closed/file", 0), ("closed", 0o1020), ("program", 0o755), ("outside", 0)] {
            fs::set_permissions(at(name), Permissions::from_mode(before)).unwrap();
        }
        for name in ["closed", "closed/file", "program", "link", "not there", "not there/either"] {
            regain(&at(name)).unwrap();
        }
        assert_eq!(["closed", "closed/file", "program", "outside"].map(mode), [0o1720, 0o600, 0o755, 0]);
        assert_eq!(fs::read(at("closed/file")).unwrap(), b"kept");
    }
}
