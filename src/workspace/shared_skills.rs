//! Copies of skills that all runs with the same content share: made once, durable, never written again, and looked at before
//! every use.

use std::collections::{BTreeSet, HashMap};
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::SystemTime;

use super::spare_copies::SpareCopies;
use crate::files::{self, Error, Marks, Shortage};

/// The shared copies of one data folder. Calls block on the disk.
#[derive(Debug)]
pub(crate) struct SharedSkills {
    folder: PathBuf,
    /// Copies as they were when their content was last found whole.
    known: Mutex<HashMap<String, Arc<Marks>>>,
    /// Held while a copy is read, made or moved aside, so that nobody moves away what another has just made.
    working: Mutex<()>,
    pub(crate) spare: SpareCopies,
}

/// What a copy has to be.
pub(crate) struct Wanted<'a> {
    /// The hash of its content.
    pub(crate) fingerprint: &'a str,
    pub(crate) skill_id: &'a str,
    /// Whether a folder holds exactly this content.
    pub(crate) whole: &'a dyn Fn(&Path) -> Result<bool, Error>,
}

impl SharedSkills {
    pub(crate) fn new(folder: PathBuf) -> Self {
        let spare = SpareCopies::new(folder.clone());
        Self { folder, known: Mutex::default(), working: Mutex::default(), spare }
    }

    /// The copy with this content, if it is there and whole. One that somebody has changed is moved aside.
    pub(crate) fn find(&self, wanted: &Wanted<'_>) -> Result<Option<PathBuf>, Error> {
        let copy = self.place(wanted);
        let marks = self.known().get(wanted.fingerprint).cloned();
        if marks.is_some_and(|marks| marks.still_fit(&copy)) {
            return Ok(Some(copy));
        }
        let _working = self.working.lock().unwrap_or_else(PoisonError::into_inner);
        self.find_slowly(wanted)
    }

    fn find_slowly(&self, wanted: &Wanted<'_>) -> Result<Option<PathBuf>, Error> {
        let copy = self.place(wanted);
        if self.looks_whole(wanted, &copy)? {
            return Ok(Some(copy));
        }
        self.known().remove(wanted.fingerprint);
        let folder = self.folder.join(wanted.fingerprint);
        if folder.exists() {
            tracing::warn!(path = %copy.display(), "the shared copy of a skill was changed; another one is made");
            // Not removed at once: a run may be using it.
            files::move_aside(&folder)?;
        }
        Ok(None)
    }

    /// Makes the copy with this content; none when what was written is not that content.
    pub(crate) fn make(
        &self,
        wanted: &Wanted<'_>,
        write: impl FnOnce(&Path) -> Result<(), Error>,
    ) -> Result<Option<PathBuf>, Error> {
        let _working = self.working.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(copy) = self.find_slowly(wanted)? {
            return Ok(Some(copy));
        }
        files::create_folder(&self.folder)?;
        let making = tempfile::Builder::new()
            .prefix(".making-")
            .tempdir_in(&self.folder)
            .map_err(Error::on("create a folder in", &self.folder))?;
        let copy = making.path().join(wanted.skill_id);
        write(&copy)?;
        if !(wanted.whole)(&copy)? {
            return Ok(None);
        }
        make_read_only(&copy)?;
        files::sync_file_system(&self.folder)?;
        let place = self.folder.join(wanted.fingerprint);
        files::rename(making.path(), &place)?;
        // Nothing is left to be removed at its old path.
        let _ = making.keep();
        files::sync(&self.folder)?;
        self.find_slowly(wanted)
    }

    /// The contents of which there are copies, by their fingerprints.
    pub(crate) fn contents(&self) -> BTreeSet<String> {
        let names = fs::read_dir(&self.folder).into_iter().flatten().flatten();
        let names = names.filter_map(|entry| entry.file_name().into_string().ok());
        names.filter(|name| !name.starts_with('.')).chain(self.spare.contents()).collect()
    }

    /// Sets aside the copies with a content that nobody needs, to be removed; no run that needs one may be under way to its row.
    pub(crate) fn set_aside_others(&self, is_needed: impl Fn(&str) -> bool) -> Vec<PathBuf> {
        let _working = self.working.lock().unwrap_or_else(PoisonError::into_inner);
        self.known().retain(|fingerprint, _| is_needed(fingerprint));
        let mut aside = files::set_aside(&self.folder, &is_needed);
        aside.extend(self.spare.forget_others(is_needed));
        aside
    }

    /// Removes what an earlier process left half made, or moved aside. To be called before any run starts.
    pub(crate) fn sweep(&self) {
        files::remove_hidden(&self.folder);
    }

    fn place(&self, wanted: &Wanted<'_>) -> PathBuf {
        self.folder.join(wanted.fingerprint).join(wanted.skill_id)
    }

    fn looks_whole(&self, wanted: &Wanted<'_>, copy: &Path) -> Result<bool, Error> {
        let began = SystemTime::now();
        let Some(before) = marks_of(copy)? else { return Ok(false) };
        let whole = (wanted.whole)(copy)? && marks_of(copy)?.is_some_and(|after| after == before);
        // Until then a change could have the same times.
        if whole && before.is_stable_at(began) {
            self.known().insert(wanted.fingerprint.to_owned(), Arc::new(before));
        }
        Ok(whole)
    }

    fn known(&self) -> MutexGuard<'_, HashMap<String, Arc<Marks>>> {
        // Every change of the map is a single call, so a poisoned lock is usable.
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What a copy looks like; none if it cannot be seen for a reason of its own, such as that it is not there.
fn marks_of(copy: &Path) -> Result<Option<Marks>, Error> {
    match Marks::of(copy) {
        Ok(marks) => Ok(Some(marks)),
        Err(error) if Shortage::behind(&error).is_some() => Err(Error::on("list", copy)(error)),
        Err(_) => Ok(None),
    }
}

fn make_read_only(folder: &Path) -> Result<(), Error> {
    for path in files_in(folder)? {
        let path = folder.join(path);
        let found = fs::symlink_metadata(&path).map_err(Error::on("look at", &path))?;
        files::set_mode(&path, found.mode() & 0o555)?;
    }
    Ok(())
}

/// The files of a copy, by their paths in it.
pub(crate) fn files_in(copy: &Path) -> Result<Vec<PathBuf>, Error> {
    let marks = Marks::of(copy).map_err(Error::on("list", copy))?;
    Ok(marks.files().map(Path::to_owned).collect())
}

/// Whether a folder holds these files, the folders they are in, and nothing else.
pub(crate) fn holds_only(folder: &Path, files: &[String]) -> bool {
    let mut expected = BTreeSet::from([PathBuf::new()]);
    expected.extend(files.iter().flat_map(|file| Path::new(file).ancestors().map(Path::to_owned)));
    Marks::of(folder).is_ok_and(|marks| marks.paths().map(Path::to_owned).collect::<BTreeSet<_>>() == expected)
}

#[cfg(test)]
mod tests {
    use std::fs::Permissions;
    use std::os::unix::fs::PermissionsExt;
    use std::time::Duration;

    use super::*;

    const FINGERPRINT: &str = "0123abcd";

    struct Case {
        folder: tempfile::TempDir,
        skills: SharedSkills,
    }

    fn whole(copy: &Path) -> Result<bool, Error> {
        let names = fs::read_dir(copy).map(|entries| entries.count()).unwrap_or(0);
        Ok(names == 1 && fs::read_to_string(copy.join("scripts/run.sh")).is_ok_and(|text| text == "whole"))
    }

    fn write(copy: &Path) -> Result<(), Error> {
        let script = copy.join("scripts/run.sh");
        files::create_parent(&script)?;
        fs::write(&script, "whole").map_err(Error::on("write", &script))
    }

    fn case() -> Case {
        let folder = tempfile::tempdir().unwrap();
        let skills = SharedSkills::new(folder.path().join("skill-copies"));
        Case { folder, skills }
    }

    fn wanted() -> Wanted<'static> {
        Wanted { fingerprint: FINGERPRINT, skill_id: "demo", whole: &whole }
    }

    #[test]
    fn a_copy_is_made_once_and_found_by_every_later_process() {
        let Case { folder, skills } = case();
        assert_eq!(skills.find(&wanted()).unwrap(), None);
        let copy = skills.make(&wanted(), write).unwrap().unwrap();
        assert_eq!(copy, folder.path().join("skill-copies/0123abcd/demo"));
        assert_eq!(skills.find(&wanted()).unwrap(), Some(copy.clone()));
        assert_eq!(skills.make(&wanted(), write).unwrap(), Some(copy.clone()), "twice at once is the same");
        assert_eq!(SharedSkills::new(folder.path().join("skill-copies")).find(&wanted()).unwrap(), Some(copy.clone()));
        assert_eq!(fs::metadata(copy.join("scripts/run.sh")).unwrap().mode() & 0o222, 0, "nobody may write it");
        let names = fs::read_dir(folder.path().join("skill-copies")).unwrap();
        assert_eq!(names.map(|entry| entry.unwrap().file_name()).collect::<Vec<_>>(), [FINGERPRINT]);
    }

    #[test]
    fn what_is_not_the_content_is_no_copy() {
        let Case { folder, skills } = case();
        let half = |copy: &Path| files::create_folder(copy);
        assert_eq!(skills.make(&wanted(), half).unwrap(), None);
        assert_eq!(fs::read_dir(folder.path().join("skill-copies")).unwrap().count(), 0);
    }

    #[test]
    fn a_copy_that_was_touched_is_never_used_again_however_it_was_touched() {
        type Touch = fn(&Path);
        let touches: [Touch; 4] = [
            |copy| fs::write(copy.join("scripts/run.sh"), "other").unwrap(),
            |copy| fs::write(copy.join("added"), "").unwrap(),
            |copy| fs::remove_dir_all(copy.join("scripts")).unwrap(),
            |copy| fs::rename(copy.join("scripts/run.sh"), copy.join("scripts/moved")).unwrap(),
        ];
        for touch in touches {
            for quiet in [Duration::ZERO, Duration::from_millis(100)] {
                let Case { folder: _folder, skills } = case();
                let copy = skills.make(&wanted(), write).unwrap().unwrap();
                // After a while its marks alone are looked at.
                std::thread::sleep(quiet);
                assert_eq!(skills.find(&wanted()).unwrap(), Some(copy.clone()));
                // Owners may write again, as a process with all rights could at once.
                fs::set_permissions(copy.join("scripts/run.sh"), Permissions::from_mode(0o644)).unwrap();
                touch(&copy);
                assert_eq!(skills.find(&wanted()).unwrap(), None);
                assert_eq!(skills.make(&wanted(), write).unwrap(), Some(copy));
            }
        }
    }

    #[test]
    fn copies_that_no_run_needs_go() {
        let Case { folder, skills } = case();
        let copy = skills.make(&wanted(), write).unwrap().unwrap();
        assert_eq!(skills.contents(), BTreeSet::from([FINGERPRINT.to_owned()]));
        assert_eq!(skills.set_aside_others(|content| content == FINGERPRINT), Vec::<PathBuf>::new());
        assert_eq!(skills.find(&wanted()).unwrap(), Some(copy));
        let aside = folder.path().join("skill-copies/.unneeded-0123abcd");
        assert_eq!((skills.set_aside_others(|_| false), skills.contents()), (vec![aside], BTreeSet::new()));
        assert_eq!(skills.find(&wanted()).unwrap(), None);
        fs::create_dir(folder.path().join("skill-copies/.making-left")).unwrap();
        skills.sweep();
        assert_eq!(fs::read_dir(folder.path().join("skill-copies")).unwrap().count(), 0);
    }
}
