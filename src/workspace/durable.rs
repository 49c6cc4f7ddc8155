//! Files written whole, and made durable many at a time.

use std::collections::BTreeSet;
use std::fs::{self, File, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::{Path, PathBuf};

use tempfile::NamedTempFile;

use super::{Error, RunPaths};

/// Up to this many files are synced one by one.
const FEW_FILES: usize = 2;

/// Writes a file so that a reader sees the old content or the new, never a part: a temporary file in the same
/// folder, then a rename. Durable only after [`sync_files`]; use [`write_durably`] for a single file.
pub fn write_whole(path: &Path, bytes: &[u8]) -> Result<(), Error> {
    let temporary = written_beside(path, bytes)?;
    temporary.persist(path).map(drop).map_err(|failed| Error::on("rename to", path)(failed.error))
}

/// Writes a file for its owner alone, and its folder with it. Durable only after a sync.
pub fn write_private(path: &Path, bytes: &[u8]) -> Result<(), Error> {
    let folder = folder_of(path);
    fs::DirBuilder::new().recursive(true).mode(0o700).create(folder).map_err(Error::on("create", folder))?;
    let mut temporary = tempfile::Builder::new().tempfile_in(folder).map_err(Error::on("write in", folder))?;
    temporary.write_all(bytes).map_err(Error::on("write", path))?;
    temporary.persist(path).map(drop).map_err(|failed| Error::on("rename to", path)(failed.error))
}

/// Writes a file whole and returns when it would survive a power cut.
pub fn write_durably(path: &Path, bytes: &[u8]) -> Result<(), Error> {
    let temporary = written_beside(path, bytes)?;
    temporary.as_file().sync_all().map_err(Error::on("sync", path))?;
    temporary.persist(path).map_err(|failed| Error::on("rename to", path)(failed.error))?;
    sync(folder_of(path))
}

/// Makes files below `folder` durable, with the folders they stand in.
pub fn sync_files(folder: &Path, files: &[PathBuf]) -> Result<(), Error> {
    // Eight small files cost 2.8 ms when each is synced, and 0.7 ms with one syncfs. It also writes what
    // others left dirty on the same file system, so for one or two files the plain way is kept.
    if files.len() > FEW_FILES {
        return sync_file_system(folder);
    }
    for file in files {
        sync(file)?;
    }
    let folders: BTreeSet<&Path> = files.iter().map(|file| folder_of(file)).collect();
    folders.into_iter().try_for_each(sync)
}

/// Makes everything written below a run's folder durable: its last files are many and small.
pub fn sync_run(paths: &RunPaths) -> Result<(), Error> {
    sync_file_system(&paths.root)
}

/// Makes everything on a folder's file system durable.
pub fn sync_file_system(folder: &Path) -> Result<(), Error> {
    let opened = File::open(folder).map_err(Error::on("open", folder))?;
    rustix::fs::syncfs(&opened).map_err(Error::on("sync the file system of", folder))
}

fn sync(path: &Path) -> Result<(), Error> {
    File::open(path).and_then(|opened| opened.sync_all()).map_err(Error::on("sync", path))
}

fn folder_of(path: &Path) -> &Path {
    match path.parent() {
        Some(parent) if parent != Path::new("") => parent,
        Some(_) | None => Path::new("."),
    }
}

fn written_beside(path: &Path, bytes: &[u8]) -> Result<NamedTempFile, Error> {
    let folder = folder_of(path);
    refuse_linked_folder(folder)?;
    let mut temporary = tempfile::Builder::new()
        .prefix(".")
        .suffix(".tmp")
        .permissions(Permissions::from_mode(0o644))
        .tempfile_in(folder)
        .map_err(Error::on("create a temporary file in", folder))?;
    temporary.write_all(bytes).map_err(Error::on("write", path))?;
    Ok(temporary)
}

/// An engine may write in its run's folder: had it put a link where a folder stood, the runner, which may write
/// anywhere, would write wherever the link points.
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
    fn one_file_and_many_files_can_be_synced_and_a_missing_one_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let files: Vec<PathBuf> = (0..5).map(|n| folder.path().join(n.to_string())).collect();
        for file in &files {
            write_whole(file, b"x").unwrap();
        }
        sync_files(folder.path(), &files).unwrap();
        sync_files(folder.path(), &files[..1]).unwrap();
        let missing = folder.path().join("missing");
        let error = sync_files(folder.path(), std::slice::from_ref(&missing)).unwrap_err();
        assert_eq!((error.action, error.path, error.source.kind()), ("sync", missing, io::ErrorKind::NotFound));
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
