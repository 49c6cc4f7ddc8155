//! Folders and files that other users of the machine cannot reach.

use std::fs::{self, DirBuilder, File, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::path::Path;

use rustix::fs::{Mode, OFlags};

use super::error::Error;
use super::folder::{create_folder, parent};

/// Permissions of everybody but the owner.
const OF_OTHERS: u32 = 0o077;
/// What marks a folder in which every user may create files.
const STICKY: u32 = 0o1000;
const FOLDER: u32 = 0o700;
const FILE: u32 = 0o600;
const ROOT: u32 = 0;

/// Who can reach a folder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reach {
    /// Its owner alone, this process's user.
    Owner,
    /// Its owner alone since this call; it had this mode before, and something in it.
    OwnerSince { mode: u32 },
    /// Still other users: the folder is another user's or meant for all, or its file system has no permissions.
    Others { mode: u32, owner: u32 },
}

/// Creates a folder for its owner alone, with the usual permissions for parents that are missing; one that exists is closed to
/// others. A link in its place is followed if an operator may have put it there: this process's user, or root.
pub(crate) fn close_folder(path: &Path) -> Result<Reach, Error> {
    create_folder(parent(path))?;
    match DirBuilder::new().mode(FOLDER).create(path) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(Error::on("create", path)(error)),
        Ok(()) | Err(_) => {}
    }
    let entry = fs::symlink_metadata(path).map_err(Error::on("look at", path))?;
    let own = rustix::process::geteuid().as_raw();
    if entry.is_symlink() && ![own, ROOT].contains(&entry.uid()) {
        // Whoever made it would choose which folder is closed, and used.
        let message = format!("it is a link of another user (uid {})", entry.uid());
        return Err(Error::on("open", path)(io::Error::new(io::ErrorKind::PermissionDenied, message)));
    }
    let look = || fs::metadata(path).map_err(Error::on("look at", path));
    let found = look()?;
    if !found.is_dir() {
        return Err(Error::on("open", path)(io::Error::from(io::ErrorKind::NotADirectory)));
    }
    let before = found.mode() & 0o7777;
    // A folder that is meant for all users, such as /tmp, stays as it is.
    if before & OF_OTHERS != 0 && before & STICKY == 0 {
        // Judged by what is found afterwards: some file systems report success and change nothing.
        let _ = fs::set_permissions(path, Permissions::from_mode(before & !OF_OTHERS));
    }
    let now = look()?;
    let mode = now.mode() & 0o7777;
    let own = now.uid() == own;
    Ok(match mode & OF_OTHERS {
        0 if own && (mode == before || is_empty(path)?) => Reach::Owner,
        0 if own => Reach::OwnerSince { mode: before },
        _ => Reach::Others { mode, owner: now.uid() },
    })
}

fn is_empty(folder: &Path) -> Result<bool, Error> {
    Ok(fs::read_dir(folder).map_err(Error::on("list", folder))?.next().is_none())
}

/// Opens a file to be locked, and creates it where it is missing, for its owner alone. Nobody else can open it, so nobody else
/// can hold its lock. A link is not followed.
pub(crate) fn open_lock(path: &Path) -> Result<File, Error> {
    let flags = OFlags::RDWR | OFlags::CREATE | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let opened = rustix::fs::open(path, flags, Mode::from_raw_mode(FILE)).map_err(Error::on("open", path))?;
    let file = File::from(opened);
    let found = file.metadata().map_err(Error::on("look at", path))?;
    if !found.is_file() {
        return Err(Error::on("open", path)(io::Error::new(io::ErrorKind::InvalidInput, "it is not a regular file")));
    }
    if found.mode() & OF_OTHERS != 0 {
        // The folder keeps others out as well; a file system without permissions is told of where the folder is closed.
        let _ = file.set_permissions(Permissions::from_mode(FILE));
    }
    Ok(file)
}

/// From now on this process, and every process it starts, creates files and folders for their owner alone.
pub(crate) fn create_for_owner_alone() {
    rustix::process::umask(Mode::from_raw_mode(OF_OTHERS));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).unwrap().mode() & 0o777
    }

    #[test]
    fn a_new_folder_is_for_its_owner_alone_and_an_open_one_is_closed_and_told_once() {
        let folder = tempfile::tempdir().unwrap();
        let new = folder.path().join("parent/data");
        assert_eq!(close_folder(&new).unwrap(), Reach::Owner);
        fs::set_permissions(&new, Permissions::from_mode(0o755)).unwrap();
        assert_eq!((close_folder(&new).unwrap(), mode(&new)), (Reach::Owner, 0o700), "nothing was in it");
        fs::write(new.join("run"), "").unwrap();
        for (before, after) in [(0o755, 0o700), (0o770, 0o700), (0o711, 0o700), (0o500, 0o500)] {
            fs::set_permissions(&new, Permissions::from_mode(before)).unwrap();
            let expected = if before == after { Reach::Owner } else { Reach::OwnerSince { mode: before } };
            assert_eq!((close_folder(&new).unwrap(), mode(&new)), (expected, after), "{before:o}");
            assert_eq!(close_folder(&new).unwrap(), Reach::Owner);
        }
    }

    #[test]
    fn a_link_of_another_user_in_the_place_of_the_folder_is_not_followed() {
        let folder = tempfile::tempdir().unwrap();
        let (target, link) = (folder.path().join("target"), folder.path().join("link"));
        fs::create_dir(&target).unwrap();
        std::os::unix::fs::symlink(&target, &link).unwrap();
        close_folder(&link).unwrap();
        fs::set_permissions(&target, Permissions::from_mode(0o755)).unwrap();
        if let Err(error) = std::os::unix::fs::lchown(&link, Some(12345), None) {
            eprintln!("NOT RUN: a link of another user is made by root alone: {error}");
            return;
        }
        let refused = close_folder(&link).unwrap_err();
        assert_eq!(refused.source.kind(), io::ErrorKind::PermissionDenied);
        assert_eq!(mode(&target), 0o755);
    }

    #[test]
    fn a_folder_for_all_users_stays_as_it_is() {
        let folder = tempfile::tempdir().unwrap();
        fs::set_permissions(folder.path(), Permissions::from_mode(0o1777)).unwrap();
        let owner = rustix::process::geteuid().as_raw();
        assert_eq!(close_folder(folder.path()).unwrap(), Reach::Others { mode: 0o1777, owner });
        assert_eq!(fs::metadata(folder.path()).unwrap().mode() & 0o7777, 0o1777);
    }

    #[test]
    fn a_file_in_the_place_of_the_folder_is_an_error() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("data");
        fs::write(&file, "").unwrap();
        assert_eq!(close_folder(&file).unwrap_err().source.kind(), io::ErrorKind::NotADirectory);
    }

    #[test]
    fn a_lock_is_for_its_owner_alone_and_no_link_is_followed() {
        let folder = tempfile::tempdir().unwrap();
        let lock = folder.path().join("LOCK");
        drop(open_lock(&lock).unwrap());
        assert_eq!(mode(&lock), 0o600);
        fs::set_permissions(&lock, Permissions::from_mode(0o644)).unwrap();
        drop(open_lock(&lock).unwrap());
        assert_eq!(mode(&lock), 0o600);

        let (outside, link) = (folder.path().join("outside"), folder.path().join("link"));
        fs::write(&outside, "").unwrap();
        fs::set_permissions(&outside, Permissions::from_mode(0o644)).unwrap();
        std::os::unix::fs::symlink(&outside, &link).unwrap();
        assert!(open_lock(&link).is_err());
        assert_eq!(mode(&outside), 0o644);
    }
}
