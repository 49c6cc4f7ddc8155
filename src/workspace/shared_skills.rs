//! Copies of skills that all runs with the same content share: made once, durable, never written again, and looked at before
//! every use.

use std::collections::{BTreeSet, HashMap};
use std::fs::{self, Metadata, Permissions};
use std::io;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use crate::files::{self, Error};

/// The clock of file systems is at most this coarse: two changes within one tick can have the same time stamp.
const CLOCK_TICK: Duration = Duration::from_millis(50);

/// The bits of a mode that tell what kind of file it is, and those of a folder.
const KIND: u32 = 0o170_000;
const FOLDER: u32 = 0o040_000;

/// The shared copies of one data folder. Calls block on the disk.
#[derive(Debug)]
pub(crate) struct SharedSkills {
    folder: PathBuf,
    known: Mutex<HashMap<String, Known>>,
    /// Held while a copy is read, made or moved aside, so that nobody moves away what another has just made.
    working: Mutex<()>,
}

#[derive(Debug)]
struct Known {
    /// The copy as it was when its content was last found whole; none until every later change would show in it.
    marks: Option<Arc<Marks>>,
    used: Instant,
}

/// What a copy has to be.
pub(crate) struct Wanted<'a> {
    /// The hash of its content.
    pub(crate) fingerprint: &'a str,
    pub(crate) skill_id: &'a str,
    /// Whether a folder holds exactly this content.
    pub(crate) whole: &'a dyn Fn(&Path) -> bool,
}

impl SharedSkills {
    pub(crate) fn new(folder: PathBuf) -> Self {
        Self { folder, known: Mutex::default(), working: Mutex::default() }
    }

    /// The copy with this content, if it is there and whole. One that somebody has changed is moved aside.
    pub(crate) fn find(&self, wanted: &Wanted<'_>) -> Result<Option<PathBuf>, Error> {
        let copy = self.place(wanted);
        let marks = self.known().get(wanted.fingerprint).and_then(|known| known.marks.clone());
        if marks.is_some_and(|marks| marks.still_fit(&copy)) {
            self.note_use(wanted.fingerprint);
            return Ok(Some(copy));
        }
        let _working = self.working.lock().unwrap_or_else(PoisonError::into_inner);
        self.find_slowly(wanted)
    }

    fn find_slowly(&self, wanted: &Wanted<'_>) -> Result<Option<PathBuf>, Error> {
        let copy = self.place(wanted);
        if self.looks_whole(wanted, &copy) {
            self.note_use(wanted.fingerprint);
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
        if !(wanted.whole)(&copy) {
            return Ok(None);
        }
        make_read_only(&copy)?;
        files::sync_file_system(&self.folder)?;
        let place = self.folder.join(wanted.fingerprint);
        fs::rename(making.path(), &place).map_err(Error::on("rename to", &place))?;
        // Nothing is left to be removed at its old path.
        let _ = making.keep();
        files::sync(&self.folder)?;
        self.find_slowly(wanted)
    }

    /// Removes copies with another content than these, unless they were used within the last `unused_for`: a run that is being
    /// created may need one and have no row yet.
    pub(crate) fn remove_others(&self, needed: &BTreeSet<String>, unused_for: Duration) -> Result<u64, Error> {
        let mut freed = 0;
        let Ok(entries) = fs::read_dir(&self.folder) else { return Ok(0) };
        for entry in entries.flatten() {
            let Ok(name) = entry.file_name().into_string() else { continue };
            let _working = self.working.lock().unwrap_or_else(PoisonError::into_inner);
            let mut known = self.known();
            let used_lately = known.get(&name).is_some_and(|known| known.used.elapsed() < unused_for);
            if name.starts_with('.') || needed.contains(&name) || used_lately {
                continue;
            }
            known.remove(&name);
            drop(known);
            freed += files::remove_tree(&entry.path())?;
        }
        Ok(freed)
    }

    /// Removes what an earlier process left half made, or moved aside. To be called before any run starts.
    pub(crate) fn sweep(&self) {
        for entry in fs::read_dir(&self.folder).into_iter().flatten().flatten() {
            if entry.file_name().to_string_lossy().starts_with('.') {
                // What stays is swept at the next start.
                let _ = files::remove_tree(&entry.path());
            }
        }
    }

    fn place(&self, wanted: &Wanted<'_>) -> PathBuf {
        self.folder.join(wanted.fingerprint).join(wanted.skill_id)
    }

    fn looks_whole(&self, wanted: &Wanted<'_>, copy: &Path) -> bool {
        let began = SystemTime::now();
        let Ok(before) = Marks::of(copy) else { return false };
        let whole = (wanted.whole)(copy) && Marks::of(copy).is_ok_and(|after| after == before);
        if whole && before.is_stable_at(began) {
            let known = Known { marks: Some(Arc::new(before)), used: Instant::now() };
            self.known().insert(wanted.fingerprint.to_owned(), known);
        }
        whole
    }

    fn note_use(&self, fingerprint: &str) {
        let used = Instant::now();
        self.known().entry(fingerprint.to_owned()).or_insert(Known { marks: None, used }).used = used;
    }

    fn known(&self) -> MutexGuard<'_, HashMap<String, Known>> {
        // Every change of the map is a single call, so a poisoned lock is usable.
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn make_read_only(folder: &Path) -> Result<(), Error> {
    for (path, _) in Marks::of(folder).map_err(Error::on("list", folder))?.0 {
        let path = folder.join(path);
        let found = fs::symlink_metadata(&path).map_err(Error::on("look at", &path))?;
        if found.is_file() {
            let mode = found.mode() & 0o555;
            fs::set_permissions(&path, Permissions::from_mode(mode))
                .map_err(Error::on("change the permissions of", &path))?;
        }
    }
    Ok(())
}

/// The files of a copy, by their paths in it.
pub(crate) fn files_in(copy: &Path) -> Result<Vec<PathBuf>, Error> {
    let marks = Marks::of(copy).map_err(Error::on("list", copy))?;
    Ok(marks.0.into_iter().filter(|(_, mark)| mark.mode & KIND != FOLDER).map(|(path, _)| path).collect())
}

/// Whether a folder holds these files, the folders they are in, and nothing else.
pub(crate) fn holds_only(folder: &Path, files: &[String]) -> bool {
    let mut expected = BTreeSet::from([PathBuf::new()]);
    expected.extend(files.iter().flat_map(|file| Path::new(file).ancestors().map(Path::to_owned)));
    Marks::of(folder).is_ok_and(|marks| marks.0.into_iter().map(|(path, _)| path).collect::<BTreeSet<_>>() == expected)
}

/// Every file and folder of a copy, with what a change of it changes: a new name in a folder changes the folder.
#[derive(Debug, PartialEq, Eq)]
struct Marks(Vec<(PathBuf, Mark)>);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Mark {
    inode: u64,
    size: u64,
    mode: u32,
    modified: (i64, i64),
    changed: (i64, i64),
}

impl Mark {
    fn new(found: &Metadata) -> Self {
        Self {
            inode: found.ino(),
            size: found.size(),
            mode: found.mode(),
            modified: (found.mtime(), found.mtime_nsec()),
            changed: (found.ctime(), found.ctime_nsec()),
        }
    }
}

impl Marks {
    fn of(folder: &Path) -> io::Result<Self> {
        let mut marks = vec![(PathBuf::new(), Mark::new(&fs::symlink_metadata(folder)?))];
        let mut at = 0;
        while let Some((path, mark)) = marks.get(at).cloned() {
            at += 1;
            if mark.mode & KIND != FOLDER {
                continue;
            }
            let mut entries = fs::read_dir(folder.join(&path))?.collect::<io::Result<Vec<_>>>()?;
            entries.sort_by_key(fs::DirEntry::file_name);
            for entry in entries {
                marks.push((path.join(entry.file_name()), Mark::new(&entry.metadata()?)));
            }
        }
        Ok(Self(marks))
    }

    /// Whether nothing of the copy has changed. What was added shows in the folder it was added to.
    fn still_fit(&self, folder: &Path) -> bool {
        let same = |(path, mark): &(PathBuf, Mark)| {
            let place = if path.as_os_str().is_empty() { folder.to_owned() } else { folder.join(path) };
            fs::symlink_metadata(place).is_ok_and(|found| Mark::new(&found) == *mark)
        };
        self.0.iter().all(same)
    }

    /// Whether nothing was changed within the last tick before `now`, so that every later change is visible.
    fn is_stable_at(&self, now: SystemTime) -> bool {
        let now = now.duration_since(UNIX_EPOCH).unwrap_or_default();
        let quiet = |(seconds, nanos): (i64, i64)| {
            let at = Duration::new(u64::try_from(seconds).unwrap_or(0), u32::try_from(nanos).unwrap_or(0));
            at + CLOCK_TICK < now
        };
        self.0.iter().all(|(_, mark)| quiet(mark.changed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FINGERPRINT: &str = "0123abcd";

    struct Case {
        folder: tempfile::TempDir,
        skills: SharedSkills,
    }

    fn whole(copy: &Path) -> bool {
        let names = fs::read_dir(copy).map(|entries| entries.count()).unwrap_or(0);
        names == 1 && fs::read_to_string(copy.join("scripts/run.sh")).is_ok_and(|text| text == "whole")
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
            for quiet in [Duration::ZERO, 2 * CLOCK_TICK] {
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
    fn copies_that_no_run_needs_go_unless_they_were_just_used() {
        let Case { folder, skills } = case();
        let copy = skills.make(&wanted(), write).unwrap().unwrap();
        assert_eq!(skills.remove_others(&BTreeSet::new(), Duration::from_secs(60)).unwrap(), 0);
        assert_eq!(skills.remove_others(&BTreeSet::from([FINGERPRINT.to_owned()]), Duration::ZERO).unwrap(), 0);
        assert!(copy.exists());
        assert_eq!(skills.remove_others(&BTreeSet::new(), Duration::ZERO).unwrap(), 5);
        assert_eq!(skills.find(&wanted()).unwrap(), None);
        fs::create_dir(folder.path().join("skill-copies/.making-left")).unwrap();
        skills.sweep();
        assert_eq!(fs::read_dir(folder.path().join("skill-copies")).unwrap().count(), 0);
    }
}
