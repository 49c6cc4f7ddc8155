//! Copies of skills that pass from run to run: each belongs to one run at a time, which gives it back unless it changed it.

use std::collections::{HashMap, HashSet, VecDeque};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::SystemTime;

use crate::files::{self, Error, Marks};

/// Most spare copies of one skill that are kept: more runs than this seldom begin at once.
const KEPT: usize = 16;

/// The spare copies below one folder, under names with a dot in front. Calls block on the disk.
#[derive(Debug)]
pub(crate) struct SpareCopies {
    folder: PathBuf,
    known: Mutex<Known>,
}

#[derive(Debug, Default)]
struct Known {
    made: u64,
    /// By the content of the skill, the one that is longest at rest first.
    spare: HashMap<String, VecDeque<Spare>>,
    /// Skills whose runs change their copies: spare ones would be made for nothing.
    changed_by_runs: HashSet<String>,
}

#[derive(Debug)]
struct Spare {
    place: PathBuf,
    marks: Marks,
}

/// A copy that a run has, as it was when the run got it.
#[derive(Debug)]
pub(crate) struct Lent {
    fingerprint: String,
    place: PathBuf,
    marks: Marks,
}

impl SpareCopies {
    pub(crate) fn new(folder: PathBuf) -> Self {
        Self { folder, known: Mutex::default() }
    }

    /// Moves a spare copy to this place, where nothing is. None where there is no spare copy that is surely unchanged.
    pub(crate) fn take(&self, fingerprint: &str, place: &Path, now: SystemTime) -> Option<Lent> {
        loop {
            let spare = {
                let mut known = self.known();
                let at_rest = known.spare.get_mut(fingerprint)?;
                // A change within the same tick of the clock as the copying could not be seen.
                if !at_rest.front()?.marks.below_is_stable_at(now) {
                    return None;
                }
                at_rest.pop_front()?
            };
            if files::rename(&spare.place, place).is_err() {
                let _ = files::remove_tree(&spare.place);
                continue;
            }
            match spare.marks.after_move(place) {
                Some(marks) => {
                    return Some(Lent { fingerprint: fingerprint.to_owned(), place: place.to_owned(), marks });
                }
                // Somebody has changed it.
                None => drop(files::remove_tree(place)),
            }
        }
    }

    /// Makes another spare copy for runs to come, if that is worth its cost.
    pub(crate) fn add(&self, fingerprint: &str, write: impl FnOnce(&Path) -> Result<(), Error>) -> Result<(), Error> {
        let place = {
            let mut known = self.known();
            let enough = known.spare.get(fingerprint).is_some_and(|spare| spare.len() >= KEPT);
            if enough || known.changed_by_runs.contains(fingerprint) {
                return Ok(());
            }
            known.new_place(&self.folder)
        };
        let made = write(&place).and_then(|()| Marks::of(&place).map_err(Error::on("list", &place)));
        match made {
            Ok(marks) => self.keep(fingerprint, Spare { place, marks }),
            Err(error) => {
                let _ = files::remove_tree(&place);
                return Err(error);
            }
        }
        Ok(())
    }

    /// Takes a copy back from a run that has ended. One that the run changed stays with it.
    pub(crate) fn give_back(&self, lent: &Lent) {
        if !lent.marks.hold_all_of(&lent.place) {
            self.known().changed_by_runs.insert(lent.fingerprint.clone());
            return;
        }
        let place = self.known().new_place(&self.folder);
        if files::rename(&lent.place, &place).is_ok() {
            self.keep(&lent.fingerprint, Spare { place, marks: lent.marks.clone() });
        }
    }

    /// The contents of which there are spare copies.
    pub(crate) fn contents(&self) -> Vec<String> {
        self.known().spare.keys().cloned().collect()
    }

    /// Forgets the spare copies with a content that nobody needs; what is then to be removed.
    pub(crate) fn forget_others(&self, is_needed: impl Fn(&str) -> bool) -> Vec<PathBuf> {
        let mut known = self.known();
        known.changed_by_runs.retain(|fingerprint| is_needed(fingerprint));
        let others: Vec<String> = known.spare.keys().filter(|content| !is_needed(content)).cloned().collect();
        let forgotten = others.iter().filter_map(|content| known.spare.remove(content));
        forgotten.flatten().map(|spare| spare.place).collect()
    }

    fn keep(&self, fingerprint: &str, spare: Spare) {
        self.known().spare.entry(fingerprint.to_owned()).or_default().push_back(spare);
    }

    /// Every change of it is a single call, so a poisoned lock is usable.
    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Known {
    fn new_place(&mut self, folder: &Path) -> PathBuf {
        self.made += 1;
        folder.join(format!(".spare-{}", self.made))
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::{MetadataExt, PermissionsExt};
    use std::time::Duration;

    use super::*;

    const CONTENT: &str = "0123abcd";

    struct Case {
        folder: tempfile::TempDir,
        spare: SpareCopies,
    }

    fn case() -> Case {
        let folder = tempfile::tempdir().unwrap();
        let spare = SpareCopies::new(folder.path().join("copies"));
        fs::create_dir(folder.path().join("copies")).unwrap();
        Case { folder, spare }
    }

    fn write(copy: &Path) -> Result<(), Error> {
        let script = copy.join("skills/demo/run.sh");
        files::create_parent(&script)?;
        fs::write(&script, "whole").map_err(Error::on("write", &script))
    }

    impl Case {
        /// Waits until nothing was changed within the clock's last tick.
        fn take(&self, run: &str) -> Lent {
            loop {
                if let Some(lent) = self.spare.take(CONTENT, &self.folder.path().join(run), SystemTime::now()) {
                    return lent;
                }
                assert!(self.left() > 0, "there is none");
                std::thread::sleep(Duration::from_millis(5));
            }
        }

        fn left(&self) -> usize {
            self.spare.known().spare.get(CONTENT).map_or(0, VecDeque::len)
        }
    }

    #[test]
    fn an_unchanged_copy_passes_from_run_to_run() {
        let case = case();
        case.spare.add(CONTENT, write).unwrap();
        let mut inodes = HashSet::new();
        for run in ["one", "two", "three"] {
            let lent = case.take(run);
            let copy = case.folder.path().join(run);
            assert_eq!(fs::read_to_string(copy.join("skills/demo/run.sh")).unwrap(), "whole");
            inodes.insert(fs::metadata(&copy).unwrap().ino());
            case.spare.give_back(&lent);
            assert!(!copy.exists(), "it was given back");
        }
        assert_eq!(inodes.len(), 1, "it was the same one");
    }

    #[test]
    fn a_copy_that_its_run_changed_stays_with_it_and_no_more_are_made() {
        type Change = fn(&Path);
        let changes: [Change; 6] = [
            |copy| fs::write(copy.join("skills/demo/run.sh"), "other").unwrap(),
            |copy| fs::write(copy.join("skills/demo/new"), "").unwrap(),
            |copy| fs::write(copy.join("new"), "").unwrap(),
            |copy| fs::remove_file(copy.join("skills/demo/run.sh")).unwrap(),
            |copy| fs::set_permissions(copy.join("skills/demo/run.sh"), fs::Permissions::from_mode(0o711)).unwrap(),
            |copy| fs::rename(copy.join("skills"), copy.join("moved")).unwrap(),
        ];
        for (at, change) in changes.into_iter().enumerate() {
            let case = case();
            case.spare.add(CONTENT, write).unwrap();
            let lent = case.take("run");
            let copy = case.folder.path().join("run");
            change(&copy);
            case.spare.give_back(&lent);
            assert!(copy.exists(), "change {at}");
            case.spare.add(CONTENT, write).unwrap();
            assert_eq!(case.left(), 0, "change {at}");
        }
    }

    #[test]
    fn a_spare_copy_that_somebody_changed_is_not_taken() {
        let case = case();
        case.spare.add(CONTENT, write).unwrap();
        case.spare.give_back(&case.take("one"));
        let place = case.spare.known().spare.get(CONTENT).unwrap().front().unwrap().place.clone();
        fs::write(place.join("skills/demo/run.sh"), "WHOLE").unwrap();
        assert!(case.spare.take(CONTENT, &case.folder.path().join("two"), SystemTime::now()).is_none());
        assert!(!case.folder.path().join("two").exists());
        assert!(case.spare.take("other", &case.folder.path().join("two"), SystemTime::now()).is_none());
    }

    #[test]
    fn a_copy_that_was_just_made_is_not_taken_for_unchanged_and_not_too_many_are_kept() {
        let case = case();
        for _ in 0..KEPT + 2 {
            case.spare.add(CONTENT, write).unwrap();
        }
        assert_eq!(case.left(), KEPT);
        case.spare.add("new", write).unwrap();
        let written = SystemTime::now();
        let taken = case.spare.take("new", &case.folder.path().join("run"), SystemTime::now());
        assert!(taken.is_none() || written.elapsed().unwrap() > Duration::from_millis(40));
        let forgotten = case.spare.forget_others(|content| content == "new");
        assert_eq!((forgotten.len(), case.left()), (KEPT, 0));
    }
}
