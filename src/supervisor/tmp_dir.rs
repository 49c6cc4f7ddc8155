//! A run's own temporary folder: private, empty at the start, gone at the end.

use std::fs::{self, DirBuilder, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::Path;

/// Creates the folder anew, readable by its owner alone.
pub(super) fn create(path: &Path) -> io::Result<()> {
    remove(path)?;
    if let Some(parent) = path.parent() {
        fs::create_dir_all(parent)?;
    }
    DirBuilder::new().mode(0o700).create(path)
}

/// Removes the folder and all below it, also where an engine has taken away the permission to.
pub(super) fn remove(path: &Path) -> io::Result<()> {
    let removed = match fs::remove_dir_all(path) {
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            open_up(path)?;
            fs::remove_dir_all(path)
        }
        other => other,
    };
    match removed {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        other => other,
    }
}

fn open_up(folder: &Path) -> io::Result<()> {
    fs::set_permissions(folder, Permissions::from_mode(0o700))?;
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        // `file_type` does not follow links: a link to a folder elsewhere must not open that one.
        if entry.file_type()?.is_dir() {
            open_up(&entry.path())?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn read_only_folders_are_removed_and_the_targets_of_links_are_not() {
        let root = tempfile::tempdir().unwrap();
        let (tmp, elsewhere) = (root.path().join("tmp"), root.path().join("elsewhere"));
        fs::create_dir(&elsewhere).unwrap();
        fs::write(elsewhere.join("kept"), "kept").unwrap();
        create(&tmp).unwrap();
        assert_eq!(fs::metadata(&tmp).unwrap().permissions().mode() & 0o777, 0o700);
        fs::create_dir_all(tmp.join("a/b")).unwrap();
        fs::write(tmp.join("a/b/file"), "x").unwrap();
        std::os::unix::fs::symlink(&elsewhere, tmp.join("a/link")).unwrap();
        for sealed in ["a/b", "a"] {
            fs::set_permissions(tmp.join(sealed), Permissions::from_mode(0o500)).unwrap();
        }

        open_up(&tmp).unwrap();
        assert_eq!(fs::metadata(tmp.join("a/b")).unwrap().permissions().mode() & 0o777, 0o700);
        remove(&tmp).unwrap();

        assert!(!tmp.exists());
        assert_eq!(fs::read_to_string(elsewhere.join("kept")).unwrap(), "kept");
        remove(&tmp).unwrap();
    }
}
