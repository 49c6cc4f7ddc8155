//! A run's temporary folder: private, and empty when an engine starts.

use std::path::Path;

use crate::files::{self, Error};

/// Creates the folder anew, for its owner alone.
pub(crate) fn create(path: &Path) -> Result<(), Error> {
    // Usually nothing is there.
    if files::create_new_folder(path).is_ok() {
        return Ok(());
    }
    files::remove_tree(path)?;
    files::create_parent(path)?;
    files::create_private_folder(path)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn the_folder_is_private_and_empty_whatever_was_there() {
        let root = tempfile::tempdir().unwrap();
        let tmp = root.path().join("runs/tmp");
        create(&tmp).unwrap();
        fs::write(tmp.join("file"), "x").unwrap();
        fs::set_permissions(&tmp, fs::Permissions::from_mode(0o500)).unwrap();
        create(&tmp).unwrap();
        assert_eq!(fs::metadata(&tmp).unwrap().permissions().mode() & 0o777, 0o700);
        assert_eq!(fs::read_dir(&tmp).unwrap().count(), 0);
    }
}
