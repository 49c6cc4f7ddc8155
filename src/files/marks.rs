//! What is looked at to see that a folder has not changed, without reading it.

use std::fs::{self, Metadata};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// The clock of file systems is at most this coarse: two changes within one tick can have the same time stamp.
const CLOCK_TICK: Duration = Duration::from_millis(50);
/// The bits of a mode that tell what kind of file it is, and those of a folder.
const KIND: u32 = 0o170_000;
const FOLDER: u32 = 0o040_000;

/// Every file and folder below a folder, and itself, with what a change of it changes: a new name in a folder changes the
/// folder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Marks(Vec<(PathBuf, Mark)>);

/// One file or folder as it is at a moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Mark {
    inode: u64,
    size: u64,
    mode: u32,
    modified: (i64, i64),
    changed: (i64, i64),
}

impl Mark {
    pub(crate) fn new(found: &Metadata) -> Self {
        Self {
            inode: found.ino(),
            size: found.size(),
            mode: found.mode(),
            modified: (found.mtime(), found.mtime_nsec()),
            changed: (found.ctime(), found.ctime_nsec()),
        }
    }

    /// Whether it was not changed within the last tick before `now`, so that every later change is visible.
    pub(crate) fn is_stable_at(&self, now: SystemTime) -> bool {
        let (seconds, nanos) = self.changed;
        let at = Duration::new(u64::try_from(seconds).unwrap_or(0), u32::try_from(nanos).unwrap_or(0));
        at + CLOCK_TICK < now.duration_since(UNIX_EPOCH).unwrap_or_default()
    }
}

impl Marks {
    /// Looks at all of it.
    pub(crate) fn of(folder: &Path) -> io::Result<Self> {
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

    /// Whether nothing has changed. What was added shows in the folder it was added to.
    pub(crate) fn still_fit(&self, folder: &Path) -> bool {
        let same = |(path, mark): &(PathBuf, Mark)| {
            let place = if path.as_os_str().is_empty() { folder.to_owned() } else { folder.join(path) };
            fs::symlink_metadata(place).is_ok_and(|found| Mark::new(&found) == *mark)
        };
        self.0.iter().all(same)
    }

    /// The marks of the folder at the place it was moved to, if nothing in it has changed since: a move changes the folder's own
    /// time stamp alone.
    pub(crate) fn after_move(mut self, to: &Path) -> Option<Self> {
        let (_, own) = self.0.first_mut()?;
        let moved = Mark::new(&fs::symlink_metadata(to).ok()?);
        if (Mark { changed: own.changed, ..moved }) != *own {
            return None;
        }
        *own = moved;
        self.still_fit(to).then_some(self)
    }

    /// Whether nothing has changed, also where a folder that was moved gained a name within the tick of its move.
    pub(crate) fn hold_all_of(&self, folder: &Path) -> bool {
        let known = self.paths().filter(|path| path.components().count() == 1).count();
        let names = || fs::read_dir(folder).map_or(usize::MAX, Iterator::count);
        self.still_fit(folder) && names() == known
    }

    /// The paths in the folder of everything in it; its own is empty.
    pub(crate) fn paths(&self) -> impl Iterator<Item = &Path> {
        self.0.iter().map(|(path, _)| path.as_path())
    }

    /// The paths in the folder of what is no folder.
    pub(crate) fn files(&self) -> impl Iterator<Item = &Path> {
        self.0.iter().filter(|(_, mark)| mark.mode & KIND != FOLDER).map(|(path, _)| path.as_path())
    }

    /// Whether nothing was changed within the last tick before `now`, so that every later change is visible.
    pub(crate) fn is_stable_at(&self, now: SystemTime) -> bool {
        is_stable_at(&self.0, now)
    }

    /// The same for everything below the folder.
    pub(crate) fn below_is_stable_at(&self, now: SystemTime) -> bool {
        is_stable_at(self.0.get(1..).unwrap_or_default(), now)
    }
}

fn is_stable_at(marks: &[(PathBuf, Mark)], now: SystemTime) -> bool {
    marks.iter().all(|(_, mark)| mark.is_stable_at(now))
}
