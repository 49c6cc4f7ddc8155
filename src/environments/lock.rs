//! The lock of an environment: a lock on its folder, which the system releases when its holder dies. Nobody waits in the system for it:
//! a script may hold it as long as it runs.

use std::fs::File;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use rustix::fs::{FlockOperation, Mode, OFlags};

/// How often a lock that others have is looked at.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// A held lock.
#[derive(Debug)]
pub(crate) struct Lock {
    _folder: File,
}

impl Lock {
    /// Shares the lock with others that use the environment; none while somebody makes or removes it, or it is not there.
    pub(super) fn shared(folder: &Path) -> io::Result<Option<Self>> {
        Self::take(folder, FlockOperation::NonBlockingLockShared)
    }

    /// The same, after whoever makes or removes it, but not for longer than this; none when it is not there.
    pub(super) fn wait_shared(folder: &Path, patience: Duration) -> io::Result<Option<Self>> {
        let until = Instant::now() + patience;
        loop {
            let taken = Self::shared(folder)?;
            if taken.is_some() || !folder.exists() || Instant::now() >= until {
                return Ok(taken);
            }
            thread::sleep(LOOK_EVERY);
        }
    }

    /// The lock for the holder alone, if nobody has it and the folder is there.
    pub(super) fn alone(folder: &Path) -> io::Result<Option<Self>> {
        Self::take(folder, FlockOperation::NonBlockingLockExclusive)
    }

    fn take(folder: &Path, operation: FlockOperation) -> io::Result<Option<Self>> {
        let opened = match open(folder) {
            Ok(opened) => opened,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error),
        };
        match flock(&opened, operation) {
            Ok(()) => Ok(is_at(&opened, folder).then_some(Self { _folder: opened })),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// The lock for the holder alone, of a folder that is made if it is missing. `waits` is called before waiting for others. Whoever may
    /// read the folder can hold its lock for ever, so that none is had after this long if `made` says that there is nothing to make.
    pub(super) fn wait(
        folder: &Path,
        patience: Duration,
        waits: impl FnOnce(),
        made: impl Fn() -> bool,
    ) -> io::Result<Option<Self>> {
        let mut waits = Some(waits);
        let until = Instant::now() + patience;
        loop {
            std::fs::create_dir_all(folder)?;
            match Self::alone(folder)? {
                Some(lock) => return Ok(Some(lock)),
                // It was removed meanwhile.
                None if !folder.exists() => continue,
                None => {}
            }
            if let Some(waits) = waits.take() {
                waits();
            }
            if Instant::now() >= until && made() {
                return Ok(None);
            }
            thread::sleep(LOOK_EVERY);
        }
    }
}

fn open(folder: &Path) -> io::Result<File> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    Ok(File::from(rustix::fs::open(folder, flags, Mode::empty())?))
}

fn flock(file: &File, operation: FlockOperation) -> io::Result<()> {
    loop {
        match rustix::fs::flock(file, operation) {
            Err(rustix::io::Errno::INTR) => {}
            done => return Ok(done?),
        }
    }
}

/// Whether the folder that is locked is still the one at its path: it may have been removed while its lock was waited for.
fn is_at(opened: &File, folder: &Path) -> bool {
    let same = || {
        let (here, there) = (opened.metadata().ok()?, std::fs::symlink_metadata(folder).ok()?);
        Some((here.dev(), here.ino()) == (there.dev(), there.ino()))
    };
    same().unwrap_or(false)
}
