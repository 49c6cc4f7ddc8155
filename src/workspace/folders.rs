//! The folders of a new run, and the room left for it.

use std::fs;
use std::path::Path;

use super::{Error, RunPaths};

/// Creates a run's folders; those that are there already stay as they are.
pub fn create_run(paths: &RunPaths) -> Result<(), Error> {
    let folders = [
        paths.uploads(),
        paths.artifacts(),
        paths.result(),
        paths.raw(),
        paths.logs(),
        paths.bundles(),
        paths.tmp.clone(),
    ];
    folders.iter().try_for_each(|folder| fs::create_dir_all(folder).map_err(Error::on("create", folder)))
}

/// Bytes that can still be written on the file system of this path.
pub fn free_bytes(path: &Path) -> Result<u64, Error> {
    let found = rustix::fs::statvfs(path).map_err(Error::on("ask for the free space of", path))?;
    Ok(found.f_bavail.saturating_mul(found.f_frsize))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workspace::Layout;

    #[test]
    fn a_new_run_has_its_folders_and_creating_it_again_keeps_what_is_in_them() {
        let folder = tempfile::tempdir().unwrap();
        let paths = Layout::new(folder.path()).run("0192f0c1-2d3e-7f40-8a51-6b7c8d9e0f11".parse().unwrap());
        create_run(&paths).unwrap();
        fs::write(paths.stdout(), "kept").unwrap();
        create_run(&paths).unwrap();
        let mut names: Vec<_> =
            fs::read_dir(&paths.root).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        assert_eq!(names, ["artifacts", "bundle", "logs", "raw", "result", "uploads"]);
        assert_eq!(fs::read_to_string(paths.stdout()).unwrap(), "kept");
        assert!(paths.tmp.is_dir());
    }

    #[test]
    fn free_space_is_known_for_a_folder_and_an_error_for_a_missing_one() {
        let folder = tempfile::tempdir().unwrap();
        assert!(free_bytes(folder.path()).unwrap() > 0);
        assert_eq!(free_bytes(&folder.path().join("missing")).unwrap_err().source.kind(), std::io::ErrorKind::NotFound);
    }
}
