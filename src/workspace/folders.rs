//! The folders of a new run, and the room left for it.

use std::path::Path;

use super::{Error, RunPaths, reclaim};

/// Creates a run's folders; those that are there already stay as they are. To be called again once an engine has ended:
/// what a skill put in the place of the runner's own folders and files is moved aside, so that the runner can write
/// its last files, and writes them nowhere else.
pub fn create_run(paths: &RunPaths) -> Result<(), Error> {
    let folders = [
        paths.root.clone(),
        paths.uploads(),
        paths.artifacts(),
        paths.result(),
        paths.raw(),
        paths.logs(),
        paths.bundles(),
    ];
    folders.iter().try_for_each(|folder| reclaim::folder(folder))?;
    let files = [
        paths.manifest_json(),
        paths.result_json(),
        paths.validation_json(),
        paths.raw_engine_output(),
        paths.raw_engine_output_json(),
        paths.raw_skill_result(),
        paths.raw_step_result("N1"),
        paths.raw_step_result("N2"),
        paths.raw_script_output(),
        paths.raw_script_output_json(),
        paths.raw_repair_output(),
        paths.raw_output_schema(),
        paths.bundle(false),
        paths.bundle(true),
        paths.bundle_manifest(false),
        paths.bundle_manifest(true),
    ];
    files.iter().try_for_each(|file| reclaim::file(file))?;
    // They come after the run is over, so what is there already is a forgery.
    reclaim::nothing(&paths.events_jsonl())?;
    reclaim::nothing(&paths.events_jsonl().with_extension("idx"))
}

/// Bytes that can still be written on the file system of this path.
pub fn free_bytes(path: &Path) -> Result<u64, Error> {
    let found = rustix::fs::statvfs(path).map_err(Error::on("ask for the free space of", path))?;
    Ok(found.f_bavail.saturating_mul(found.f_frsize))
}

#[cfg(test)]
mod tests {
    use std::fs;

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
        assert!(!paths.tmp.exists(), "only an engine needs it, and whoever starts one makes it");
    }

    #[test]
    fn what_stands_in_the_runners_places_is_moved_aside_and_not_followed() {
        let folder = tempfile::tempdir().unwrap();
        let paths = Layout::new(folder.path()).run("0192f0c1-2d3e-7f40-8a51-6b7c8d9e0f11".parse().unwrap());
        let outside = folder.path().join("outside");
        fs::create_dir(&outside).unwrap();
        create_run(&paths).unwrap();
        fs::remove_dir(paths.bundles()).unwrap();
        std::os::unix::fs::symlink(&outside, paths.bundles()).unwrap();
        fs::remove_dir(paths.raw()).unwrap();
        fs::write(paths.raw(), "a file").unwrap();
        fs::create_dir_all(paths.manifest_json().join("deep")).unwrap();
        fs::create_dir_all(paths.result_json()).unwrap();
        fs::write(paths.events_jsonl(), "forged").unwrap();
        create_run(&paths).unwrap();
        for place in [paths.bundles(), paths.raw()] {
            assert!(fs::symlink_metadata(&place).unwrap().is_dir(), "{}", place.display());
        }
        for place in [paths.manifest_json(), paths.result_json(), paths.events_jsonl()] {
            assert!(fs::symlink_metadata(&place).is_err(), "{}", place.display());
        }
        assert_eq!(fs::read_to_string(paths.root.join(".aside-1-raw")).unwrap(), "a file");
        assert!(paths.root.join(".aside-1-manifest.json/deep").is_dir());
        assert_eq!(fs::read_dir(&outside).unwrap().count(), 0);
    }

    #[test]
    fn free_space_is_known_for_a_folder_and_an_error_for_a_missing_one() {
        let folder = tempfile::tempdir().unwrap();
        assert!(free_bytes(folder.path()).unwrap() > 0);
        assert_eq!(free_bytes(&folder.path().join("missing")).unwrap_err().source.kind(), std::io::ErrorKind::NotFound);
    }
}
