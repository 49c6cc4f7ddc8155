//! Files written whole: to a temporary file in the same folder, then renamed.

use std::fs::{self, File, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use tempfile::NamedTempFile;

use super::aside::{ensure_folder, move_aside};
use super::error::Error;
use super::folder::{create_private_folder, parent};
use super::step::step;
use super::sync::sync;
use super::unnamed::Unnamed;

const READABLE_BY_ALL: u32 = 0o644;
const PRIVATE: u32 = 0o600;

/// Writes a file so that a reader sees the old content or the new, never a part. Durable only after
/// [`super::sync_files`]; [`write_durably`] is for a single file. The folder must not be a link.
pub(crate) fn write_whole(path: &Path, bytes: &[u8]) -> Result<(), Error> {
    refuse_linked_folder(parent(path))?;
    let mut temporary = create_beside(path, READABLE_BY_ALL)?;
    write_all(temporary.as_file_mut(), path, bytes)?;
    rename_to(temporary, path)
}

/// The same for content that is made while it is written, and may be long: nothing of it stays if the process dies.
pub(crate) fn write_whole_with<E: From<Error>>(
    path: &Path,
    write: impl FnOnce(&mut File) -> Result<(), E>,
) -> Result<(), E> {
    refuse_linked_folder(parent(path))?;
    step("create", path)?;
    let failed = Error::on("create a temporary file in", parent(path));
    let mut unnamed = Unnamed::for_path(path, READABLE_BY_ALL).map_err(failed)?;
    write(unnamed.file())?;
    step("rename to", path)?;
    Ok(unnamed.give_name().map_err(Error::on("rename to", path))?)
}

/// Writes a file of the runner's own in a folder where an engine may write. The folder is created if it is not there; what
/// an engine put in its place, or a folder in the place of the file, is moved aside.
pub(crate) fn write_own(path: &Path, bytes: &[u8]) -> Result<(), Error> {
    ensure_folder(parent(path))?;
    let mut temporary = create_beside(path, READABLE_BY_ALL)?;
    write_all(temporary.as_file_mut(), path, bytes)?;
    step("rename to", path)?;
    match temporary.persist(path) {
        Ok(_) => Ok(()),
        Err(failed) if failed.error.kind() == io::ErrorKind::IsADirectory => {
            move_aside(path)?;
            rename_to(failed.file, path)
        }
        Err(failed) => Err(Error::on("rename to", path)(failed.error)),
    }
}

/// Writes a file whole and returns when it would survive a power cut. Not for a run's folder: a link in the folder's place
/// is followed, since an operator may have put it there.
pub(crate) fn write_durably(path: &Path, bytes: &[u8]) -> Result<(), Error> {
    replace_durably(path, bytes, READABLE_BY_ALL)
}

/// The same for a file that only its owner can read; its folder is created likewise.
pub(crate) fn write_private_durably(path: &Path, bytes: &[u8]) -> Result<(), Error> {
    create_private_folder(parent(path))?;
    replace_durably(path, bytes, PRIVATE)
}

/// The content is on the disk before it has the name: what was there is not lost for a file without content.
fn replace_durably(path: &Path, bytes: &[u8], mode: u32) -> Result<(), Error> {
    let mut temporary = create_beside(path, mode)?;
    write_all(temporary.as_file_mut(), path, bytes)?;
    step("sync", path)?;
    temporary.as_file().sync_all().map_err(Error::on("sync", path))?;
    rename_to(temporary, path)?;
    sync(parent(path))
}

/// Writes a file that only its owner can read, and creates its folder likewise. An operator may have made the folder a
/// link. Durable only after a sync.
pub(crate) fn write_private(path: &Path, bytes: &[u8]) -> Result<(), Error> {
    create_private_folder(parent(path))?;
    let mut temporary = create_beside(path, PRIVATE)?;
    write_all(temporary.as_file_mut(), path, bytes)?;
    rename_to(temporary, path)
}

/// Writes a new file that only its owner can read and returns when it would survive a power cut; one that is there already
/// stays as it is.
pub(crate) fn create_private_durably(path: &Path, bytes: &[u8]) -> Result<(), Error> {
    let mut temporary = create_beside(path, PRIVATE)?;
    write_all(temporary.as_file_mut(), path, bytes)?;
    step("sync", path)?;
    temporary.as_file().sync_all().map_err(Error::on("sync", path))?;
    step("rename to", path)?;
    match temporary.persist_noclobber(path) {
        Ok(_) => sync(parent(path)),
        Err(failed) if failed.error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        Err(failed) => Err(Error::on("create", path)(failed.error)),
    }
}

/// Writes a file that only its owner can read, with content that is made while it is written, and returns when it would
/// survive a power cut. What was there stays until the new one is whole. The folder must not be a link.
pub(crate) fn write_private_durably_with<E: From<Error>>(
    path: &Path,
    write: impl FnOnce(&mut File) -> Result<(), E>,
) -> Result<(), E> {
    refuse_linked_folder(parent(path))?;
    let mut temporary = create_beside(path, PRIVATE)?;
    write(temporary.as_file_mut())?;
    step("sync", path)?;
    temporary.as_file().sync_all().map_err(Error::on("sync", path))?;
    rename_to(temporary, path)?;
    Ok(sync(parent(path))?)
}

fn create_beside(path: &Path, mode: u32) -> Result<NamedTempFile, Error> {
    let folder = parent(path);
    step("create", path)?;
    tempfile::Builder::new()
        .prefix(".")
        .suffix(".tmp")
        .permissions(Permissions::from_mode(mode))
        .tempfile_in(folder)
        .map_err(Error::on("create a temporary file in", folder))
}

fn write_all(file: &mut File, path: &Path, bytes: &[u8]) -> Result<(), Error> {
    step("write", path)?;
    file.write_all(bytes).map_err(Error::on("write", path))
}

fn rename_to(temporary: NamedTempFile, path: &Path) -> Result<(), Error> {
    step("rename to", path)?;
    temporary.persist(path).map(drop).map_err(|failed| Error::on("rename to", path)(failed.error))
}

/// An engine may write in its run's folder. If it put a link in the place of a folder, the runner, which may write
/// anywhere, would write where the link points.
fn refuse_linked_folder(folder: &Path) -> Result<(), Error> {
    let found = fs::symlink_metadata(folder).map_err(Error::on("look at", folder))?;
    if found.is_symlink() {
        return Err(Error::on("write in", folder)(io::Error::other("it is a link, not a folder")));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).unwrap().permissions().mode() & 0o777
    }

    #[test]
    fn a_file_written_whole_replaces_the_old_one_and_leaves_no_temporary_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.json");
        write_whole(&path, b"old").unwrap();
        write_durably(&path, b"new").unwrap();
        let names: Vec<_> = fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        assert_eq!((fs::read(&path).unwrap(), names), (b"new".to_vec(), vec!["a.json".into()]));
    }

    #[test]
    fn a_private_file_and_its_folder_are_for_their_owner_alone() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("requests/one/config.json");
        write_private(&path, b"secret").unwrap();
        assert_eq!((mode(&path), mode(path.parent().unwrap())), (0o600, 0o700));
    }

    #[test]
    fn a_file_of_the_runners_own_is_written_whatever_is_in_its_place() {
        let folder = tempfile::tempdir().unwrap();
        let (outside, raw) = (folder.path().join("outside"), folder.path().join("raw"));
        fs::create_dir(&outside).unwrap();
        std::os::unix::fs::symlink(&outside, &raw).unwrap();
        write_own(&raw.join("a.txt"), b"first").unwrap();
        fs::remove_file(raw.join("a.txt")).unwrap();
        fs::create_dir_all(raw.join("a.txt/deep")).unwrap();
        write_own(&raw.join("a.txt"), b"second").unwrap();
        assert_eq!(fs::read(raw.join("a.txt")).unwrap(), b"second");
        assert!(raw.join(".aside-1-a.txt/deep").is_dir());
        assert!(fs::symlink_metadata(folder.path().join(".aside-1-raw")).unwrap().is_symlink());
        assert_eq!(fs::read_dir(&outside).unwrap().count(), 0);
    }

    #[test]
    fn nothing_is_written_through_a_folder_that_is_a_link() {
        let folder = tempfile::tempdir().unwrap();
        let (outside, result) = (folder.path().join("outside"), folder.path().join("result"));
        fs::create_dir(&outside).unwrap();
        std::os::unix::fs::symlink(&outside, &result).unwrap();
        let error = write_whole(&result.join("result.json"), b"{}").unwrap_err();
        assert_eq!((error.action, error.path), ("write in", result));
        assert_eq!(fs::read_dir(&outside).unwrap().count(), 0);
    }
}
