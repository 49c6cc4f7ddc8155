//! Room on the disk that is kept for deletions: a file that is given up when the store finds no other room.
//!
//! The room that a database sets aside for itself goes whenever sled cuts its file, and a new generation has none.

use std::cell::Cell;
use std::fs::{self, File};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rustix::fs::{FallocateFlags, Mode, OFlags};
use rustix::io::Errno;
use tracing::warn;

/// How much is kept: the marks of thousands of deleted runs.
pub(super) const SPARE_BYTES: u64 = 4 * 1024 * 1024;

/// The file, and what is known of it. Only the writer has it.
pub(super) struct Spare {
    path: PathBuf,
    state: Cell<State>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    Kept,
    Missing,
    /// This file system sets nothing aside.
    Impossible,
}

impl Spare {
    /// What an earlier process kept is kept on.
    pub(super) fn new(store_dir: &Path) -> Spare {
        let path = store_dir.join("spare");
        let kept = fs::symlink_metadata(&path).is_ok_and(|file| file.blocks() * 512 >= SPARE_BYTES);
        Spare { path, state: Cell::new(if kept { State::Kept } else { State::Missing }) }
    }

    /// Keeps room, unless that is done already. Where there is none it is tried again the next time.
    pub(super) fn keep(&self) {
        if self.state.get() != State::Missing {
            return;
        }
        // Neither through a link, nor at the other end of a pipe for which nobody may ever come.
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let Ok(file) = rustix::fs::open(&self.path, flags, Mode::RUSR | Mode::WUSR).map(File::from) else { return };
        self.state.set(match rustix::fs::fallocate(&file, FallocateFlags::KEEP_SIZE, 0, SPARE_BYTES) {
            Ok(()) => State::Kept,
            Err(Errno::OPNOTSUPP | Errno::NOSYS | Errno::INVAL) => State::Impossible,
            Err(_) => State::Missing,
        });
        if self.state.get() != State::Kept {
            self.remove();
        }
    }

    /// Gives the room to whoever takes it first; whether there was any.
    pub(super) fn give_up(&self) -> bool {
        let kept = self.state.get() == State::Kept;
        if kept {
            self.remove();
            self.state.set(State::Missing);
        }
        kept
    }

    fn remove(&self) {
        if let Err(error) = fs::remove_file(&self.path) {
            warn!(path = %self.path.display(), %error, "the room kept for deletions was not given up");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pipe_or_a_link_in_place_of_the_file_is_neither_waited_for_nor_followed() {
        let folder = tempfile::tempdir().unwrap();
        let spare = folder.path().join("spare");
        rustix::fs::mkfifoat(rustix::fs::CWD, &spare, Mode::RUSR | Mode::WUSR).unwrap();
        Spare::new(folder.path()).keep();

        fs::remove_file(&spare).unwrap();
        let elsewhere = folder.path().join("elsewhere");
        std::os::unix::fs::symlink(&elsewhere, &spare).unwrap();
        Spare::new(folder.path()).keep();
        assert!(!elsewhere.exists());
    }
}
