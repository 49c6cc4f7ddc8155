//! Files that were read to their end and found whole, known by what a change of them changes.

use std::collections::HashMap;
use std::fs::Metadata;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::files::Mark;

/// Files up to this length are checked each time they are read.
pub(crate) const SMALL: u64 = 1024 * 1024;
/// Most files that are known.
const KNOWN_MAX: usize = 4096;

/// Files that were checked, each as it was then.
#[derive(Default)]
pub(crate) struct Checked(Mutex<HashMap<PathBuf, Mark>>);

impl Checked {
    /// Whether a file is still as it was when it was last checked.
    pub(crate) fn is_unchanged(&self, path: &Path, found: &Metadata) -> bool {
        self.known().get(path) == Some(&Mark::new(found))
    }

    /// A file was found whole; `found` was looked at before it was read.
    pub(crate) fn put(&self, path: &Path, found: &Metadata) {
        let mut known = self.known();
        if known.len() >= KNOWN_MAX {
            // Whatever is forgotten is checked again when it is next read.
            known.clear();
        }
        known.insert(path.to_owned(), Mark::new(found));
    }

    fn known(&self) -> MutexGuard<'_, HashMap<PathBuf, Mark>> {
        // Every change of the map is a single call, so a poisoned lock is usable.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_more_files_are_known_than_there_is_room_for_and_the_last_is_among_them() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let found = file.as_file().metadata().unwrap();
        let checked = Checked::default();
        for number in 0..=KNOWN_MAX {
            checked.put(Path::new(&number.to_string()), &found);
        }
        assert!(checked.known().len() <= KNOWN_MAX);
        assert!(checked.is_unchanged(Path::new(&KNOWN_MAX.to_string()), &found));
    }
}
