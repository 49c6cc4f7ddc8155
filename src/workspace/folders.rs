//! A run's folders: created when they are needed, cleared of what a skill put there, made durable, removed.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use super::layout::RunPaths;
use crate::domain::run_file::{RunFile, RunFolder};
use crate::files::{self, Error};

/// Creates a new run's folder. The folders in it come with their first files.
pub fn create_run(paths: &RunPaths) -> Result<(), Error> {
    files::ensure_folder(&paths.root)
}

/// Creates the folders that a skill may write in, or read its files from, before one of its processes starts.
pub fn create_for_engine(paths: &RunPaths, uploads: bool) -> Result<(), Error> {
    create_run(paths)?;
    let written = [RunFolder::Artifacts, RunFolder::Result, RunFolder::Logs];
    let folders = written.into_iter().chain(uploads.then_some(RunFolder::Uploads));
    folders.into_iter().try_for_each(|folder| files::ensure_folder(&paths.folder(folder)))
}

/// To be called when an engine has ended: whatever it put in the places that the runner later reads from, or writes to without
/// a look, is moved aside.
pub(crate) fn reclaim(paths: &RunPaths) -> Result<(), Error> {
    regain(paths)?;
    create_run(paths)?;
    files::ensure_folder(&paths.folder(RunFolder::Logs))?;
    // Both are made when the run is over: what is there before is a forgery.
    files::ensure_absent(&paths.folder(RunFolder::Bundles))?;
    files::ensure_absent(&paths.file(RunFile::Events))?;
    files::ensure_absent(&paths.file(RunFile::EventsIndex))
}

/// Opens what an engine closed to its own user: the run's folder, and the runner's folders and files in it.
fn regain(paths: &RunPaths) -> Result<(), Error> {
    let folders = RunFolder::ALL.map(|folder| paths.folder(folder));
    for folder in std::iter::once(&paths.root).chain(&folders) {
        files::regain(folder)?;
        // Behind a link are the files of others.
        if fs::symlink_metadata(folder).is_ok_and(|found| found.is_dir()) {
            let inside = RunFile::ALL.map(|file| paths.file(file));
            inside.iter().filter(|file| file.parent() == Some(folder)).try_for_each(|file| files::regain(file))?;
        }
    }
    Ok(())
}

/// Removes the folders that were created for an engine which left them empty.
pub(crate) fn remove_unused(paths: &RunPaths, skill_copy: &Path) {
    // One that holds something is not removed, and neither is what it is in.
    for folder in [RunFolder::Artifacts, RunFolder::Uploads] {
        files::remove_empty(&paths.folder(folder));
    }
    let way = skill_copy.strip_prefix(&paths.root).unwrap_or(skill_copy);
    if files::clear_way(&paths.root, way).is_err() {
        return;
    }
    for folder in skill_copy.ancestors().take_while(|folder| *folder != paths.root) {
        if !files::remove_empty(folder) {
            return;
        }
    }
}

/// Makes everything written below a run's folder durable, with one sync: its last files are many and small.
pub(crate) fn sync_run(paths: &RunPaths) -> Result<(), Error> {
    files::sync_file_system(&paths.root)
}

/// Removes a run's folder, its temporary files and what its engine kept of it; returns the bytes that this freed, 0 for a run that is gone already.
pub(crate) fn remove_run(paths: &RunPaths) -> Result<u64, Error> {
    files::remove_file(&paths.state)?;
    let log = remove_sealed(paths)?;
    Ok(log + files::remove_tree(&paths.tmp)? + files::remove_tree(&paths.home)? + files::remove_tree(&paths.root)?)
}

/// Removes the sealed log of a run that has no folder; returns its bytes.
pub(crate) fn remove_sealed(paths: &RunPaths) -> Result<u64, Error> {
    let freed = fs::symlink_metadata(&paths.sealed).map_or(0, |found| if found.nlink() == 1 { found.len() } else { 0 });
    files::remove_file(&paths.sealed)?;
    files::remove_file(&paths.sealed.with_extension("idx"))?;
    Ok(freed)
}

#[cfg(test)]
mod tests {
    use std::fs::Permissions;
    use std::os::unix::fs::PermissionsExt;

    use super::*;
    use crate::workspace::Layout;

    #[test]
    fn folders_come_when_they_are_needed_and_what_is_in_them_stays() {
        let folder = tempfile::tempdir().unwrap();
        let paths = Layout::new(folder.path()).run("0192f0c1-2d3e-7f40-8a51-6b7c8d9e0f11".parse().unwrap());
        let names = || {
            let entries = fs::read_dir(&paths.root).unwrap();
            let mut names: Vec<_> = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
            names.sort();
            names
        };
        create_run(&paths).unwrap();
        assert_eq!(names(), Vec::<String>::new());
        create_for_engine(&paths, true).unwrap();
        assert_eq!(names(), ["artifacts", "logs", "result", "uploads"]);
        fs::write(paths.file(RunFile::Stdout), "kept").unwrap();
        create_for_engine(&paths, false).unwrap();
        reclaim(&paths).unwrap();
        let copy = paths.skill_copy("script", "demo");
        fs::create_dir_all(&copy).unwrap();
        remove_unused(&paths, &copy);
        assert_eq!(names(), ["logs", "result"]);
        // A link on the way would lead to empty folders of others.
        let outside = folder.path().join("outside/skills/demo");
        fs::create_dir_all(&outside).unwrap();
        std::os::unix::fs::symlink(folder.path().join("outside"), paths.root.join(".script")).unwrap();
        remove_unused(&paths, &copy);
        assert!(outside.exists());
        assert_eq!(names(), ["logs", "result"]);
        assert_eq!(fs::read_to_string(paths.file(RunFile::Stdout)).unwrap(), "kept");
        assert!(!paths.tmp.exists(), "it is created when an engine starts");
    }

    #[test]
    fn what_a_skill_put_at_the_runners_paths_is_moved_aside_and_not_followed() {
        let folder = tempfile::tempdir().unwrap();
        let paths = Layout::new(folder.path()).run("0192f0c1-2d3e-7f40-8a51-6b7c8d9e0f11".parse().unwrap());
        let outside = folder.path().join("outside");
        fs::create_dir(&outside).unwrap();
        create_for_engine(&paths, false).unwrap();
        fs::remove_dir(paths.folder(RunFolder::Logs)).unwrap();
        std::os::unix::fs::symlink(&outside, paths.folder(RunFolder::Logs)).unwrap();
        fs::create_dir(paths.folder(RunFolder::Bundles)).unwrap();
        fs::write(paths.file(RunFile::Bundle), "forged").unwrap();
        reclaim(&paths).unwrap();
        assert!(fs::symlink_metadata(paths.folder(RunFolder::Logs)).unwrap().is_dir());
        assert!(fs::symlink_metadata(paths.root.join(".aside-1-logs")).unwrap().is_symlink());
        assert_eq!(fs::read_to_string(paths.root.join(".aside-1-bundle/run_bundle.zip")).unwrap(), "forged");
        fs::write(paths.file(RunFile::Events), "forged").unwrap();
        fs::create_dir(paths.file(RunFile::EventsIndex)).unwrap();
        reclaim(&paths).unwrap();
        for place in [paths.file(RunFile::Events), paths.file(RunFile::EventsIndex), paths.folder(RunFolder::Bundles)] {
            assert!(fs::symlink_metadata(&place).is_err(), "{}", place.display());
        }
        assert_eq!(fs::read_dir(&outside).unwrap().count(), 0);
    }

    #[test]
    fn what_a_skill_closed_is_opened_again_and_a_link_in_the_place_of_its_run_is_moved_aside() {
        let folder = tempfile::tempdir().unwrap();
        let paths = Layout::new(folder.path()).run("0192f0c1-2d3e-7f40-8a51-6b7c8d9e0f11".parse().unwrap());
        create_for_engine(&paths, false).unwrap();
        fs::write(paths.file(RunFile::Stdout), "").unwrap();
        // From the inside out, as somebody who is not root must.
        let closed = [paths.file(RunFile::Stdout), paths.folder(RunFolder::Logs), paths.root.clone()];
        for path in &closed {
            fs::set_permissions(path, Permissions::from_mode(0o000)).unwrap();
        }
        reclaim(&paths).unwrap();
        let modes = closed.map(|path| fs::symlink_metadata(path).unwrap().permissions().mode() & 0o700);
        assert_eq!(modes, [0o600, 0o700, 0o700]);

        let outside = folder.path().join("outside");
        fs::create_dir(&outside).unwrap();
        fs::remove_dir_all(&paths.root).unwrap();
        std::os::unix::fs::symlink(&outside, &paths.root).unwrap();
        create_for_engine(&paths, false).unwrap();
        assert!(fs::symlink_metadata(&paths.root).unwrap().is_dir());
        assert_eq!(fs::read_dir(&outside).unwrap().count(), 0);
    }

    #[test]
    fn a_removed_run_frees_its_bytes_and_leaves_nothing_even_of_read_only_folders() {
        let folder = tempfile::tempdir().unwrap();
        let layout = Layout::new(folder.path());
        let paths = layout.run("0192f0c1-2d3e-7f40-8a51-6b7c8d9e0f11".parse().unwrap());
        create_for_engine(&paths, false).unwrap();
        fs::write(paths.file(RunFile::Stdout), [0; 100]).unwrap();
        fs::create_dir_all(&paths.tmp).unwrap();
        fs::write(paths.tmp.join("scratch"), [0; 10]).unwrap();
        fs::create_dir_all(paths.home.join("sessions")).unwrap();
        fs::write(paths.home.join("sessions/transcript"), [0; 10_000]).unwrap();
        let locked = paths.folder(RunFolder::Artifacts).join("locked");
        fs::create_dir(&locked).unwrap();
        fs::write(locked.join("inside"), [0; 1000]).unwrap();
        fs::set_permissions(&locked, Permissions::from_mode(0o000)).unwrap();
        fs::create_dir_all(paths.sealed.parent().unwrap()).unwrap();
        fs::write(&paths.sealed, [0; 5]).unwrap();
        fs::write(paths.sealed.with_extension("idx"), "").unwrap();
        assert_eq!(remove_run(&paths).unwrap(), 11_115);
        for folder in [layout.runs(), layout.tmp(), layout.homes(), layout.sealed()] {
            assert_eq!(fs::read_dir(folder).unwrap().count(), 0);
        }
        assert_eq!(remove_run(&paths).unwrap(), 0);
    }
}
