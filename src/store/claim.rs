//! A data directory taken by one process.

use std::fs::{self, File, TryLockError};
use std::io;
use std::path::Path;

use super::Error;
use super::patience::with_patience;
use crate::files;

/// A data directory that this process alone uses, as long as the value lives.
pub(super) struct Claim {
    _lock: File,
}

impl Claim {
    /// Takes the directory, creating it if needed.
    pub(super) fn take(data_dir: &Path) -> Result<Claim, Error> {
        files::create_private_folder(data_dir)?;
        let path = data_dir.join("LOCK");
        let lock = files::open_lock(&path)?;
        let taken = with_patience(|| match lock.try_lock() {
            Ok(()) => Some(Ok(())),
            Err(TryLockError::WouldBlock) => None,
            Err(TryLockError::Error(source)) => Some(Err(Error::io("lock", &path)(source))),
        });
        taken.unwrap_or_else(|| Err(Error::Locked { path: data_dir.to_path_buf() }))?;
        // Now that nobody else changes it.
        no_links(&data_dir.join("store"))?;
        Ok(Claim { _lock: lock })
    }
}

/// Whether a process has taken the directory.
pub(crate) fn is_taken(data_dir: &Path) -> bool {
    // A lock that is held for this moment only keeps nobody out, who all have patience.
    let looked = files::open_regular(&data_dir.join("LOCK")).map(|lock| lock.try_lock_shared());
    matches!(looked, Ok(Err(TryLockError::WouldBlock)))
}

/// A store is written where it is: by a link in it, or in its place, a file elsewhere would be overwritten.
fn no_links(path: &Path) -> Result<(), Error> {
    let found = match fs::symlink_metadata(path) {
        Ok(found) => found,
        Err(missing) if missing.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(Error::io("look at", path)(error)),
    };
    if found.is_symlink() {
        return Err(Error::io("open", path)(io::Error::new(io::ErrorKind::InvalidInput, files::LINKED)));
    }
    if found.is_dir() {
        for name in files::names_in(path).map_err(Error::io("list", path))? {
            no_links(&path.join(name))?;
        }
    }
    Ok(())
}
