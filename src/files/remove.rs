//! Whole trees removed, whatever permissions and depth a skill gave them.

use std::ffi::OsString;
use std::fs::{self, Metadata, Permissions};
use std::io;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use super::error::Error;
use super::names::names_in;
use super::rename::rename;
use super::step::step;

/// Removes a file; that it does not exist is no error.
pub(crate) fn remove_file(path: &Path) -> Result<(), Error> {
    step("remove", path)?;
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(Error::on("remove", path)(error)),
        Ok(()) | Err(_) => Ok(()),
    }
}

/// Removes a folder that nothing is in; whether it did.
pub(crate) fn remove_empty(folder: &Path) -> bool {
    step("remove", folder).is_ok() && fs::remove_dir(folder).is_ok()
}

/// Removes a folder with all that is in it, or a single file; returns the bytes that this freed. That nothing is there
/// is no error.
///
/// The folder is first renamed, so that its own path is free at once. If the process dies during a removal, the next call
/// for the same path finishes it.
pub(crate) fn remove_tree(path: &Path) -> Result<u64, Error> {
    let Some(name) = path.file_name() else {
        return Err(Error::on("remove", path)(io::Error::from(io::ErrorKind::InvalidInput)));
    };
    let mut trash_name = OsString::from(".removing-");
    trash_name.push(name);
    let mut trash = Trash { folder: path.with_file_name(trash_name), moved: 0, freed: 0, to_empty: Vec::new() };
    trash.find_unfinished()?;
    step("remove", path)?;
    // One step removes an empty folder; anything else is still there after it.
    if trash.to_empty.is_empty() && fs::remove_dir(path).is_ok() {
        return Ok(0);
    }
    match fs::symlink_metadata(path) {
        Ok(found) => {
            if !trash.folder.exists() {
                step("create", &trash.folder)?;
                match fs::create_dir(&trash.folder) {
                    // A full disk has no room for another folder. To make some, the removal begins where it is.
                    Err(error) if error.kind() == io::ErrorKind::StorageFull && found.is_dir() => {
                        trash.freed += make_room(path, IN_PLACE_DEPTH);
                        if fs::remove_dir(path).is_ok() {
                            return Ok(trash.freed);
                        }
                        fs::create_dir(&trash.folder)
                    }
                    created => created,
                }
                .map_err(Error::on("create", &trash.folder))?;
            }
            trash.take(path, &found)?;
        }
        Err(missing) if missing.kind() == io::ErrorKind::NotFound => {}
        Err(other) => return Err(Error::on("look at", path)(other)),
    }
    trash.empty()
}

/// Renames every entry of a folder that is not to stay, so that its path is free at once; returns what is then to be removed.
/// Entries with a dot in front are left alone. A link in the place of the folder is not followed.
pub(crate) fn set_aside(folder: &Path, stays: impl Fn(&str) -> bool) -> Vec<PathBuf> {
    let mut aside = Vec::new();
    for name in names_in(folder).unwrap_or_default() {
        let Ok(name) = name.into_string() else { continue };
        let moved = folder.join(format!(".unneeded-{name}"));
        if !name.starts_with('.') && !stays(&name) && rename(&folder.join(&name), &moved).is_ok() {
            aside.push(moved);
        }
    }
    aside
}

/// How the names begin that the runner gives to what is half made, moved away or kept for later.
const HALF_MADE: [&str; 8] =
    [".aside-", ".fetching-", ".making-", ".new-", ".removing-", ".spare-", ".unneeded-", ".unpacking-"];

/// Whether the runner gives such a name to what nobody needs after a restart; files that are being written end with `.tmp`.
fn is_half_made(name: &str) -> bool {
    HALF_MADE.iter().any(|prefix| name.starts_with(prefix)) || name.starts_with('.') && name.ends_with(".tmp")
}

/// Removes from a folder what was half made, or set aside. A link in its place is not followed. What stays is no error.
pub(crate) fn remove_hidden(folder: &Path) {
    for name in names_in(folder).unwrap_or_default() {
        if name.to_str().is_some_and(is_half_made) {
            let _ = remove_tree(&folder.join(name));
        }
    }
}

/// How deep a tree is looked into when there is no room for a folder beside it.
const IN_PLACE_DEPTH: usize = 32;

/// Removes what it can of a folder's content, as deep as this; returns the bytes that this freed.
fn make_room(folder: &Path, depth: usize) -> u64 {
    let mut freed = 0;
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let (path, Ok(found)) = (entry.path(), entry.metadata()) else { continue };
        if !found.is_dir() {
            let last = found.is_file() && found.nlink() == 1;
            freed += if fs::remove_file(&path).is_ok() && last { found.len() } else { 0 };
        } else if depth > 0 {
            freed += make_room(&path, depth - 1);
            let _ = fs::remove_dir(&path);
        }
    }
    freed
}

/// A folder beside the removed one, into which every folder of its tree is moved. There they are siblings, so that neither
/// paths nor open descriptors grow with the depth of the tree: a skill can nest folders deeper than either allows.
struct Trash {
    folder: PathBuf,
    moved: u64,
    freed: u64,
    to_empty: Vec<PathBuf>,
}

impl Trash {
    /// Only folders have been moved here. What else is here, or is in this place, was not put there by a removal.
    fn find_unfinished(&mut self) -> Result<(), Error> {
        let Ok(found) = fs::symlink_metadata(&self.folder) else { return Ok(()) };
        if !found.is_dir() {
            return remove_file(&self.folder);
        }
        for name in names_in(&self.folder).map_err(Error::on("list", &self.folder))? {
            let path = self.folder.join(&name);
            if !fs::symlink_metadata(&path).map_err(Error::on("look at", &path))?.is_dir() {
                remove_file(&path)?;
                continue;
            }
            let number = name.to_str().and_then(|name| name.parse().ok());
            self.moved = self.moved.max(number.unwrap_or(0));
            self.to_empty.push(path);
        }
        Ok(())
    }

    fn empty(mut self) -> Result<u64, Error> {
        let mut emptied = Vec::new();
        while let Some(folder) = self.to_empty.pop() {
            self.clear(&folder)?;
            emptied.push(folder);
        }
        for folder in emptied {
            step("remove", &folder)?;
            fs::remove_dir(&folder).map_err(Error::on("remove", &folder))?;
        }
        step("remove", &self.folder)?;
        match fs::remove_dir(&self.folder) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(Error::on("remove", &self.folder)(error)),
            Ok(()) | Err(_) => Ok(self.freed),
        }
    }

    fn clear(&mut self, folder: &Path) -> Result<(), Error> {
        for entry in fs::read_dir(folder).map_err(Error::on("list", folder))? {
            let entry = entry.map_err(Error::on("list", folder))?;
            let path = entry.path();
            let found = entry.metadata().map_err(Error::on("look at", &path))?;
            self.take(&path, &found)?;
        }
        Ok(())
    }

    fn take(&mut self, path: &Path, found: &Metadata) -> Result<(), Error> {
        step("remove", path)?;
        if !found.is_dir() {
            // The bytes of a file that another run links to as well stay on the disk.
            self.freed += if found.is_file() && found.nlink() == 1 { found.len() } else { 0 };
            return fs::remove_file(path).map_err(Error::on("remove", path));
        }
        // To list, empty and move a folder needs its owner's permissions, which a skill may have taken away.
        if found.mode() & 0o700 != 0o700 {
            fs::set_permissions(path, Permissions::from_mode(0o700))
                .map_err(Error::on("change the permissions of", path))?;
        }
        step("move", path)?;
        self.moved += 1;
        let moved = self.folder.join(self.moved.to_string());
        fs::rename(path, &moved).map_err(Error::on("move", path))?;
        self.to_empty.push(moved);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names_in(folder: &Path) -> Vec<OsString> {
        super::names_in(folder).unwrap()
    }

    #[test]
    fn bytes_that_another_run_links_to_are_not_counted_and_links_are_not_followed() {
        let folder = tempfile::tempdir().unwrap();
        let (tree, kept) = (folder.path().join("tree"), folder.path().join("kept"));
        fs::create_dir(&tree).unwrap();
        fs::create_dir(&kept).unwrap();
        fs::write(kept.join("shared"), "shared").unwrap();
        fs::hard_link(kept.join("shared"), tree.join("shared")).unwrap();
        std::os::unix::fs::symlink(&kept, tree.join("link")).unwrap();
        assert_eq!(remove_tree(&tree).unwrap(), 0);
        assert_eq!(names_in(folder.path()), ["kept"]);
        assert_eq!(names_in(&kept), ["shared"]);
    }

    #[test]
    fn what_is_half_made_goes_and_neither_other_names_nor_links_do() {
        let folder = tempfile::tempdir().unwrap();
        let (own, link) = (folder.path().join("own"), folder.path().join("link"));
        fs::create_dir(&own).unwrap();
        std::os::unix::fs::symlink(&own, &link).unwrap();
        for name in HALF_MADE.map(|prefix| format!("{prefix}x")).iter().map(String::as_str).chain([".a1b2c3.tmp"]) {
            fs::create_dir(own.join(name)).unwrap();
        }
        for kept in ["plain", ".ssh", ".bashrc", "new.tmp"] {
            fs::create_dir(own.join(kept)).unwrap();
        }
        let sorted = || {
            let mut names = names_in(&own);
            names.sort();
            names
        };
        let all = sorted();
        remove_hidden(&link);
        assert_eq!(set_aside(&link, |_| false), Vec::<PathBuf>::new());
        assert_eq!(sorted(), all);
        remove_hidden(&own);
        assert_eq!(sorted(), [".bashrc", ".ssh", "new.tmp", "plain"]);
        assert_eq!(set_aside(&own, |name| name == "plain"), [own.join(".unneeded-new.tmp")]);
        assert_eq!(sorted(), [".bashrc", ".ssh", ".unneeded-new.tmp", "plain"]);
    }

    #[test]
    fn a_link_among_what_a_removal_left_or_in_its_place_leads_nowhere() {
        let folder = tempfile::tempdir().unwrap();
        let (kept, tree, left) =
            (folder.path().join("kept"), folder.path().join("tree"), folder.path().join(".removing-tree"));
        fs::create_dir_all(kept.join("deep")).unwrap();
        fs::write(kept.join("file"), "kept").unwrap();
        for inside in [false, true] {
            fs::create_dir_all(tree.join("some")).unwrap();
            if inside {
                fs::create_dir(&left).unwrap();
            }
            let link = if inside { left.join("1") } else { left.clone() };
            std::os::unix::fs::symlink(&kept, link).unwrap();
            assert_eq!(remove_tree(&tree).unwrap(), 0);
            assert_eq!(names_in(folder.path()), ["kept"]);
            assert_eq!(names_in(&kept).len(), 2);
        }
    }

    #[test]
    fn folders_nested_deeper_than_any_path_are_removed() {
        let folder = tempfile::tempdir().unwrap();
        let tree = folder.path().join("tree");
        fs::create_dir(&tree).unwrap();
        let mut at = fs::File::open(&tree).unwrap();
        for _ in 0..3000 {
            rustix::fs::mkdirat(&at, "down", rustix::fs::Mode::RWXU).unwrap();
            let flags = rustix::fs::OFlags::RDONLY | rustix::fs::OFlags::DIRECTORY;
            at = rustix::fs::openat(&at, "down", flags, rustix::fs::Mode::empty()).unwrap().into();
        }
        assert_eq!(remove_tree(&tree).unwrap(), 0);
        assert_eq!(names_in(folder.path()), Vec::<OsString>::new());
    }

    #[test]
    fn an_empty_folder_is_removed_and_so_is_one_whose_removal_was_cut_short() {
        let folder = tempfile::tempdir().unwrap();
        let tree = folder.path().join("tree");
        fs::create_dir(&tree).unwrap();
        assert_eq!(remove_tree(&tree).unwrap(), 0);
        fs::create_dir(&tree).unwrap();
        fs::create_dir(folder.path().join(".removing-tree")).unwrap();
        assert_eq!(remove_tree(&tree).unwrap(), 0);
        assert_eq!(remove_tree(&tree).unwrap(), 0);
        assert_eq!(names_in(folder.path()), Vec::<OsString>::new());
    }

    #[test]
    fn a_removal_that_was_cut_short_is_finished_by_the_next_one() {
        let folder = tempfile::tempdir().unwrap();
        let left = folder.path().join(".removing-tree/7/deep");
        fs::create_dir_all(&left).unwrap();
        fs::write(left.join("file"), "12345").unwrap();
        assert_eq!(remove_tree(&folder.path().join("tree")).unwrap(), 5);
        assert_eq!(names_in(folder.path()), Vec::<OsString>::new());
    }
}
