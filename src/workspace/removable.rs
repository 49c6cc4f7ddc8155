//! What may be removed of runs and requests that no row knows: only what was being created or deleted when the service died.
//!
//! Such a folder has a mark, its sticky bit: from its first moment until its row is committed, and again from before its row
//! is deleted. Whatever has neither mark nor row belongs to a run that the store has lost, and stays.

use std::fs::{self, Permissions};
use std::io;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;

use super::layout::RunPaths;
use crate::files::{self, Error};

/// A bit that means nothing on a folder of one user, costs no file, and is there as soon as the folder is.
const MARK: u32 = 0o1000;
const ALL: u32 = 0o777;

/// Creates the folder of a run or request whose row is not committed yet.
pub(crate) fn create_marked(folder: &Path) -> Result<(), Error> {
    files::create_folder_with_mode(folder, MARK | ALL)
}

/// Marks what is at `path`, if anything is; its row is deleted next.
pub(crate) fn mark(path: &Path) -> Result<(), Error> {
    change(path, |mode| mode | MARK)
}

/// Takes the mark away; its row is committed.
pub(crate) fn unmark(path: &Path) -> Result<(), Error> {
    change(path, |mode| mode & !MARK)
}

/// Whether what is at `path` is marked; none if nothing is there. What cannot be looked at counts as not marked.
pub(crate) fn is_marked(path: &Path) -> Option<bool> {
    match fs::symlink_metadata(path) {
        Ok(found) => Some(!found.is_symlink() && found.mode() & MARK != 0),
        Err(error) if error.kind() == io::ErrorKind::NotFound => None,
        Err(_) => Some(false),
    }
}

/// Marks all that is kept of a run.
pub(crate) fn mark_run(paths: &RunPaths) -> Result<(), Error> {
    mark(&paths.root)?;
    mark(&paths.sealed)
}

pub(crate) fn unmark_run(paths: &RunPaths) -> Result<(), Error> {
    unmark(&paths.root)?;
    unmark(&paths.sealed)
}

/// Whether a run that no row knows was being created or deleted. The home of its engine alone is no run.
pub(crate) fn is_removable(paths: &RunPaths) -> bool {
    [&paths.root, &paths.sealed].into_iter().all(|path| is_marked(path) != Some(false))
}

fn change(path: &Path, mode: impl FnOnce(u32) -> u32) -> Result<(), Error> {
    let found = match fs::symlink_metadata(path) {
        Ok(found) => found,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(Error::on("look at", path)(error)),
    };
    let (before, after) = (found.mode(), mode(found.mode()));
    // Whatever a link leads to is not the run's.
    if found.is_symlink() || before == after {
        return Ok(());
    }
    files::step("mark", path)?;
    fs::set_permissions(path, Permissions::from_mode(after & (MARK | ALL)))
        .map_err(Error::on("change the permissions of", path))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workspace::Layout;

    #[test]
    fn a_run_is_removable_while_all_that_is_kept_of_it_is_marked() {
        let folder = tempfile::tempdir().unwrap();
        let paths = Layout::new(folder.path()).run("0192f0c1-2d3e-7f40-8a51-6b7c8d9e0f11".parse().unwrap());
        assert!(is_removable(&paths), "there is nothing");
        create_marked(&paths.root).unwrap();
        assert!(is_removable(&paths), "it is being created");
        let mode = || fs::symlink_metadata(&paths.root).unwrap().mode() & 0o7777;
        let before = mode();
        unmark_run(&paths).unwrap();
        assert_eq!((is_removable(&paths), mode()), (false, before & 0o777));
        fs::create_dir_all(paths.sealed.parent().unwrap()).unwrap();
        fs::write(&paths.sealed, "").unwrap();
        mark(&paths.root).unwrap();
        assert!(!is_removable(&paths), "its log is kept");
        mark_run(&paths).unwrap();
        assert!(is_removable(&paths), "it is being deleted");
        unmark_run(&paths).unwrap();
        assert!(!is_removable(&paths));
    }

    #[test]
    fn a_link_is_not_followed_and_never_marked() {
        let folder = tempfile::tempdir().unwrap();
        let (target, link) = (folder.path().join("target"), folder.path().join("link"));
        create_marked(&target).unwrap();
        std::os::unix::fs::symlink(&target, &link).unwrap();
        unmark(&link).unwrap();
        assert_eq!((is_marked(&target), is_marked(&link)), (Some(true), Some(false)));
    }
}
