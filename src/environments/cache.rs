//! The environments of a data folder: found, counted, removed.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use serde::Serialize;

use super::lock::Lock;
use super::record::{self, Record};
use crate::domain::causes::chain;
use crate::files;

/// How long others who want to make an environment are waited for when it is there.
const MAKERS_LOOK_FOR: Duration = Duration::from_secs(5);

/// The environments below a folder. Calls block on the disk.
#[derive(Debug, Clone)]
pub(crate) struct Environments {
    folder: PathBuf,
    /// How many of the service's runs make each of these now. A maker in a sandbox is shown its folder from the beginning, and would
    /// not notice that another one has taken its place.
    under_way: Arc<Mutex<HashMap<String, usize>>>,
}

/// An environment whose folder is there, and stays while this is held.
#[derive(Debug)]
pub(crate) struct UnderWay {
    id: String,
    all: Arc<Mutex<HashMap<String, usize>>>,
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        let mut all = lock(&self.all);
        if let Some(count) = all.get_mut(&self.id) {
            *count -= 1;
            if *count == 0 {
                all.remove(&self.id);
            }
        }
    }
}

/// Nothing can panic while it holds the lock.
fn lock(all: &Mutex<HashMap<String, usize>>) -> MutexGuard<'_, HashMap<String, usize>> {
    all.lock().unwrap_or_else(PoisonError::into_inner)
}

/// An environment that is not removed while this is held.
#[derive(Debug)]
pub(crate) struct InUse {
    /// None where somebody else holds the lock for good: then nobody can remove the environment either.
    _lock: Option<Lock>,
}

/// How many there are, and how large they were when they were made.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub(crate) struct Totals {
    pub(crate) count: u64,
    pub(crate) bytes: u64,
}

impl Environments {
    pub(crate) fn new(folder: PathBuf) -> Self {
        Self { folder, under_way: Arc::default() }
    }

    /// Makes the folder of an environment that is about to be made.
    pub(crate) fn begin(&self, id: &str) -> Result<UnderWay, files::Error> {
        let mut all = lock(&self.under_way);
        // A script without a sandbox, or code of a package while it was installed, may have closed it.
        files::regain(&self.folder(id))?;
        files::create_private_folder(&self.folder(id))?;
        *all.entry(id.to_owned()).or_default() += 1;
        Ok(UnderWay { id: id.to_owned(), all: self.under_way.clone() })
    }

    /// Where the environment with this content is, or will be.
    pub(crate) fn folder(&self, id: &str) -> PathBuf {
        self.folder.join(id)
    }

    /// The variables that make a process use an environment, given its own PATH.
    pub(crate) fn variables(&self, id: &str, path: &str) -> [(String, String); 2] {
        let folder = self.folder(id);
        let text = |path: PathBuf| path.to_string_lossy().into_owned();
        [
            ("PATH".to_owned(), format!("{}:{path}", text(record::programs(&folder)))),
            ("VIRTUAL_ENV".to_owned(), text(record::virtual_environment(&folder))),
        ]
    }

    /// Its Python.
    pub(crate) fn python(&self, id: &str) -> PathBuf {
        record::python(&self.folder(id))
    }

    /// An environment, to be used; none when it is not there, is being made, or can no longer be used.
    pub(crate) fn find(&self, id: &str) -> Option<InUse> {
        let lock = Lock::shared(&self.folder(id)).ok().flatten()?;
        self.used(id, Some(lock))
    }

    /// An environment that was just made. Others who want to make the same one look at it alone, one after the other: they are waited for.
    /// Whoever holds its lock for longer is no maker, and keeps nobody from using what is there.
    pub(crate) fn find_made(&self, id: &str) -> Option<InUse> {
        let folder = self.folder(id);
        let lock = Lock::wait_shared(&folder, MAKERS_LOOK_FOR).ok()?;
        if lock.is_none() && folder.exists() {
            tracing::warn!(
                environment = id,
                "a process that does not make it holds the lock of an environment; it is used all the same"
            );
        }
        self.used(id, lock)
    }

    fn used(&self, id: &str, lock: Option<Lock>) -> Option<InUse> {
        let folder = self.folder(id);
        Record::usable(&folder)?;
        record::note_use(&folder);
        Some(InUse { _lock: lock })
    }

    pub(crate) fn totals(&self) -> Totals {
        let records = self.ids().into_iter().filter_map(|id| Record::read(&self.folder(&id)));
        records.fold(Totals::default(), |so_far, record| Totals {
            count: so_far.count + 1,
            bytes: so_far.bytes + record.bytes,
        })
    }

    /// Removes what is left of makings that were cut short.
    pub(crate) fn remove_half_made(&self) {
        files::remove_hidden(&self.folder);
        self.remove(|folder| Record::read(folder).is_none());
    }

    /// Removes what is left of one making that was cut short.
    pub(crate) fn discard_half_made(&self, id: &str) {
        let _ = self.remove_one(id, &|folder: &Path| Record::read(folder).is_none());
    }

    /// Removes environments that nobody has used for so long; how many, and the bytes that this freed.
    pub(crate) fn remove_unused(&self, for_so_long: Duration) -> Totals {
        let now = SystemTime::now();
        let unused = |used: SystemTime| now.duration_since(used).is_ok_and(|age| age >= for_so_long);
        files::remove_hidden(&self.folder);
        self.remove(|folder| record::last_used(folder).is_none_or(unused))
    }

    fn remove(&self, goes: impl Fn(&Path) -> bool) -> Totals {
        let mut removed = Totals::default();
        for id in self.ids() {
            match self.remove_one(&id, &goes) {
                Ok(Some(bytes)) => {
                    removed = Totals { count: removed.count + 1, bytes: removed.bytes + bytes };
                }
                Ok(None) => {}
                // The next clean-up tries it again.
                Err(error) => {
                    tracing::warn!(environment = id, error = %chain(&error), "an environment could not be removed");
                }
            }
        }
        removed
    }

    /// Removes an environment that is to go, unless somebody uses or makes it.
    fn remove_one(&self, id: &str, goes: &impl Fn(&Path) -> bool) -> Result<Option<u64>, files::Error> {
        let folder = self.folder(id);
        let aside = self.folder.join(format!(".unneeded-{id}"));
        let under_way = lock(&self.under_way);
        if under_way.contains_key(id) {
            return Ok(None);
        }
        let Ok(Some(alone)) = Lock::alone(&folder) else { return Ok(None) };
        if !goes(&folder) {
            return Ok(None);
        }
        files::rename(&folder, &aside)?;
        drop((alone, under_way));
        files::remove_tree(&aside).map(Some)
    }

    fn ids(&self) -> Vec<String> {
        // A link in the place of the folder is not followed: what has no record is removed.
        let names = files::names_in(&self.folder).unwrap_or_default().into_iter();
        let names = names.filter_map(|name| name.into_string().ok());
        names.filter(|name| !name.starts_with('.')).collect()
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn made(environments: &Environments, id: &str) -> PathBuf {
        let folder = environments.folder(id);
        let interpreter = environments.folder.join("python-of-the-machine").canonicalize();
        let interpreter = interpreter.unwrap_or_else(|_| {
            fs::create_dir_all(&environments.folder).unwrap();
            // Not a folder, so it is no environment.
            fs::write(environments.folder.join("python-of-the-machine"), "").unwrap();
            environments.folder.join("python-of-the-machine").canonicalize().unwrap()
        });
        fs::create_dir_all(record::programs(&folder)).unwrap();
        std::os::unix::fs::symlink(&interpreter, record::python(&folder)).unwrap();
        let record = Record {
            id: id.to_owned(),
            requirements: vec!["x==1".to_owned()],
            requires_python: None,
            python: "3.11.7".to_owned(),
            interpreter,
            installer: "pip".to_owned(),
            packages: vec!["x==1".to_owned()],
            bytes: 10,
        };
        record.write(&folder).unwrap();
        folder
    }

    fn environments() -> (tempfile::TempDir, Environments) {
        let folder = tempfile::tempdir().unwrap();
        let environments = Environments::new(folder.path().join("environments"));
        (folder, environments)
    }

    #[test]
    fn an_environment_counts_when_its_record_is_there_and_its_python_is_the_one_it_was_made_with() {
        let (_folder, environments) = environments();
        assert!(environments.find("a").is_none());
        let folder = made(&environments, "a");
        assert!(environments.find("a").is_some());
        assert_eq!(environments.totals(), Totals { count: 1, bytes: 10 });
        let other = environments.folder.join("another-python");
        fs::write(&other, "").unwrap();
        fs::remove_file(record::python(&folder)).unwrap();
        std::os::unix::fs::symlink(&other, record::python(&folder)).unwrap();
        assert!(environments.find("a").is_none(), "the machine's Python was replaced");
    }

    #[test]
    fn one_that_was_just_made_is_found_although_others_look_at_it_alone() {
        let (_folder, environments) = environments();
        let folder = made(&environments, "a");
        let other = Lock::alone(&folder).unwrap().unwrap();
        assert!(environments.find("a").is_none());
        std::thread::scope(|scope| {
            let waits = scope.spawn(|| environments.find_made("a").is_some());
            drop(other);
            assert!(waits.join().unwrap());
        });
    }

    #[test]
    fn whoever_holds_the_lock_of_one_that_is_made_keeps_nobody_from_using_it() {
        let (_folder, environments) = environments();
        let folder = made(&environments, "a");
        let _held = Lock::alone(&folder).unwrap().unwrap();
        let usable = || Record::usable(&folder).is_some();
        assert!(
            Lock::wait(&folder, Duration::from_millis(50), || (), usable).unwrap().is_none(),
            "nothing is to be made"
        );
        assert!(environments.find_made("a").is_some());
    }

    #[test]
    fn what_is_in_use_stays_and_what_was_not_used_for_long_goes() {
        let (_folder, environments) = environments();
        let folder = made(&environments, "a");
        made(&environments, "b");
        assert_eq!(environments.remove_unused(Duration::from_secs(60)), Totals::default(), "both were just made");
        let used = environments.find("a").unwrap();
        assert_eq!(environments.remove_unused(Duration::ZERO).count, 1, "b");
        assert!(folder.exists());
        drop(used);
        assert_eq!(environments.remove_unused(Duration::ZERO).count, 1, "a");
        assert_eq!(environments.totals(), Totals::default());
    }

    #[test]
    fn nobody_takes_a_folder_away_that_is_about_to_be_filled() {
        let (_folder, environments) = environments();
        let (one, other) = (environments.begin("a").unwrap(), environments.begin("a").unwrap());
        drop(one);
        environments.discard_half_made("a");
        environments.remove_half_made();
        assert!(environments.folder("a").is_dir(), "the other one still makes it");
        drop(other);
        environments.discard_half_made("a");
        assert!(!environments.folder("a").exists());
    }

    #[test]
    fn a_folder_that_was_closed_is_opened_before_it_is_filled() {
        use std::os::unix::fs::PermissionsExt;
        let (_folder, environments) = environments();
        let folder = made(&environments, "a");
        fs::set_permissions(&folder, fs::Permissions::from_mode(0o000)).unwrap();
        let _under_way = environments.begin("a").unwrap();
        assert_eq!(fs::metadata(&folder).unwrap().permissions().mode() & 0o777, 0o700);
    }

    #[test]
    fn what_was_cut_short_goes_unless_somebody_still_makes_it() {
        let (_folder, environments) = environments();
        made(&environments, "whole");
        let half = environments.folder("half");
        let making = Lock::wait(&half, Duration::ZERO, || panic!("nobody else"), || false).unwrap().unwrap();
        environments.remove_half_made();
        assert!(half.exists());
        drop(making);
        environments.remove_half_made();
        assert!(!half.exists() && environments.find("whole").is_some());
    }
}
