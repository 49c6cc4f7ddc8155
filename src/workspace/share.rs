//! Files that two runs have in common: one copy on the disk, two names.

use std::path::Path;

use crate::files::{self, Error, open_beneath};

/// Gives a file of one run to another, under the same path: by a hard link, or as a copy where that is impossible (another
/// file system, or too many names). A link is safe because nobody edits the file in place: the runner replaces files, and
/// no engine of either run is left.
pub(crate) fn share_file(from: &Path, file: &Path, to: &Path) -> Result<(), Error> {
    let (source, target) = (from.join(file), to.join(file));
    files::create_parent(&target)?;
    files::remove_file(&target)?;
    if files::link(&source, &target).is_ok() {
        return Ok(());
    }
    let opened = open_beneath(from, file).map_err(Error::on("read", &source))?;
    files::copy_new(&opened, &target).map(drop)
}

/// Gives a file of the runner's own a second name, where no file is yet, or copies it where that is impossible.
pub(crate) fn link_or_copy(source: &Path, target: &Path) -> Result<(), Error> {
    if files::link(source, target).is_ok() {
        return Ok(());
    }
    files::copy_new(&files::open_regular(source)?, target).map(drop)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::MetadataExt;

    use super::*;

    #[test]
    fn a_shared_file_is_the_same_file_and_outlives_the_run_it_came_from() {
        let folder = tempfile::tempdir().unwrap();
        let (one, other) = (folder.path().join("one"), folder.path().join("other"));
        fs::create_dir_all(one.join("artifacts/deep")).unwrap();
        fs::write(one.join("artifacts/deep/a.txt"), "a").unwrap();
        share_file(&one, Path::new("artifacts/deep/a.txt"), &other).unwrap();
        let inode = |root: &Path| fs::metadata(root.join("artifacts/deep/a.txt")).unwrap().ino();
        assert_eq!(inode(&one), inode(&other));
        fs::remove_dir_all(&one).unwrap();
        assert_eq!(fs::read_to_string(other.join("artifacts/deep/a.txt")).unwrap(), "a");
        let missing = share_file(&one, Path::new("gone"), &other).unwrap_err();
        assert_eq!((missing.action, missing.path), ("read", one.join("gone")));
    }

    #[test]
    fn where_a_link_is_impossible_the_file_is_copied() {
        let folder = tempfile::tempdir().unwrap();
        // Another file system, where there is one: no link leads across.
        let Ok(elsewhere) = tempfile::tempdir_in("/dev/shm") else { return };
        fs::write(folder.path().join("a"), "text").unwrap();
        share_file(folder.path(), Path::new("a"), elsewhere.path()).unwrap();
        assert_eq!(fs::read_to_string(elsewhere.path().join("a")).unwrap(), "text");
    }
}
