//! A run's folders: created, cleared of what a skill put there, made durable, removed.

use std::path::Path;

use super::layout::RunPaths;
use crate::domain::run_file::{RunFile, RunFolder};
use crate::files::{self, Error};

/// Files that the runner writes after an engine has run.
const WRITTEN_LATER: [RunFile; 17] = [
    RunFile::Manifest,
    RunFile::Result,
    RunFile::Validation,
    RunFile::EngineOutput,
    RunFile::EngineOutputJson,
    RunFile::SkillResult,
    RunFile::NormalizerResult,
    RunFile::FallbackResult,
    RunFile::RepairResult,
    RunFile::ScriptOutput,
    RunFile::ScriptOutputJson,
    RunFile::RepairOutput,
    RunFile::OutputSchema,
    RunFile::Bundle,
    RunFile::DebugBundle,
    RunFile::BundleManifest,
    RunFile::DebugBundleManifest,
];

/// Files that are written when the run has ended: if they exist before, a skill forged them.
const WRITTEN_LAST: [RunFile; 2] = [RunFile::Events, RunFile::EventsIndex];

/// Creates a run's folders; those that exist stay as they are. To be called again when an engine has ended: whatever a
/// skill put at the paths of the runner's own folders and files is moved aside, so that the runner can write its files there
/// and follows no link elsewhere.
pub fn create_run(paths: &RunPaths) -> Result<(), Error> {
    files::ensure_folder(&paths.root)?;
    RunFolder::ALL.into_iter().try_for_each(|folder| files::ensure_folder(&paths.folder(folder)))?;
    WRITTEN_LATER.into_iter().try_for_each(|file| files::ensure_not_a_folder(&paths.file(file)))?;
    WRITTEN_LAST.into_iter().try_for_each(|file| files::ensure_absent(&paths.file(file)))
}

/// Makes everything written below a run's folder durable, with one sync: its last files are many and small.
pub(crate) fn sync_run(paths: &RunPaths) -> Result<(), Error> {
    files::sync_file_system(&paths.root)
}

/// Removes a run's folder and its temporary files; returns the bytes that this freed, 0 for a run that is gone already.
pub(crate) fn remove_run(paths: &RunPaths) -> Result<u64, Error> {
    Ok(files::remove_tree(&paths.tmp)? + files::remove_tree(&paths.root)?)
}

/// Bytes that can still be written on the file system of this path.
pub(crate) fn free_bytes(path: &Path) -> Result<u64, Error> {
    let found = rustix::fs::statvfs(path).map_err(Error::on("ask for the free space of", path))?;
    Ok(found.f_bavail.saturating_mul(found.f_frsize))
}

#[cfg(test)]
mod tests {
    use std::fs::{self, Permissions};
    use std::os::unix::fs::PermissionsExt;

    use super::*;
    use crate::workspace::Layout;

    #[test]
    fn a_new_run_has_its_folders_and_creating_it_again_keeps_what_is_in_them() {
        let folder = tempfile::tempdir().unwrap();
        let paths = Layout::new(folder.path()).run("0192f0c1-2d3e-7f40-8a51-6b7c8d9e0f11".parse().unwrap());
        create_run(&paths).unwrap();
        fs::write(paths.file(RunFile::Stdout), "kept").unwrap();
        create_run(&paths).unwrap();
        let mut names: Vec<_> =
            fs::read_dir(&paths.root).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        assert_eq!(names, ["artifacts", "bundle", "logs", "raw", "result", "uploads"]);
        assert_eq!(fs::read_to_string(paths.file(RunFile::Stdout)).unwrap(), "kept");
        assert!(!paths.tmp.exists(), "it is created when an engine starts");
    }

    #[test]
    fn what_a_skill_put_at_the_runners_paths_is_moved_aside_and_not_followed() {
        let folder = tempfile::tempdir().unwrap();
        let paths = Layout::new(folder.path()).run("0192f0c1-2d3e-7f40-8a51-6b7c8d9e0f11".parse().unwrap());
        let outside = folder.path().join("outside");
        fs::create_dir(&outside).unwrap();
        create_run(&paths).unwrap();
        fs::remove_dir(paths.folder(RunFolder::Bundles)).unwrap();
        std::os::unix::fs::symlink(&outside, paths.folder(RunFolder::Bundles)).unwrap();
        fs::remove_dir(paths.folder(RunFolder::Raw)).unwrap();
        fs::write(paths.folder(RunFolder::Raw), "a file").unwrap();
        fs::create_dir_all(paths.file(RunFile::Manifest).join("deep")).unwrap();
        fs::create_dir_all(paths.file(RunFile::Result)).unwrap();
        fs::write(paths.file(RunFile::Events), "forged").unwrap();
        create_run(&paths).unwrap();
        for place in [paths.folder(RunFolder::Bundles), paths.folder(RunFolder::Raw)] {
            assert!(fs::symlink_metadata(&place).unwrap().is_dir(), "{}", place.display());
        }
        for place in [paths.file(RunFile::Manifest), paths.file(RunFile::Result), paths.file(RunFile::Events)] {
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

    #[test]
    fn a_removed_run_frees_its_bytes_and_leaves_nothing_even_of_read_only_folders() {
        let folder = tempfile::tempdir().unwrap();
        let layout = Layout::new(folder.path());
        let paths = layout.run("0192f0c1-2d3e-7f40-8a51-6b7c8d9e0f11".parse().unwrap());
        create_run(&paths).unwrap();
        fs::write(paths.file(RunFile::Stdout), [0; 100]).unwrap();
        fs::create_dir_all(&paths.tmp).unwrap();
        fs::write(paths.tmp.join("scratch"), [0; 10]).unwrap();
        let locked = paths.folder(RunFolder::Artifacts).join("locked");
        fs::create_dir(&locked).unwrap();
        fs::write(locked.join("inside"), [0; 1000]).unwrap();
        fs::set_permissions(&locked, Permissions::from_mode(0o000)).unwrap();
        assert_eq!(remove_run(&paths).unwrap(), 1110);
        for folder in [layout.runs(), layout.tmp()] {
            assert_eq!(fs::read_dir(folder).unwrap().count(), 0);
        }
        assert_eq!(remove_run(&paths).unwrap(), 0);
    }
}
