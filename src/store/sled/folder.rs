//! The data directory: claimed by one process, marked with its format, synced as a whole.

use std::fs::{self, File, TryLockError};
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use crate::files;
use crate::store::Error;

/// What `FORMAT` says for this layout. A change that an older program would misread takes the next number.
const FORMAT: &str = "sled 1";

/// A data directory that this process alone uses, as long as the value lives.
pub(super) struct Claim {
    _lock: File,
}

/// Takes the directory for this process, creating it if needed, and checks its format.
pub(super) fn claim(data_dir: &Path) -> Result<Claim, Error> {
    files::create_private_folder(data_dir)?;
    let path = data_dir.join("LOCK");
    let lock = files::open_lock(&path)?;
    let taken = with_patience(|| match lock.try_lock() {
        Ok(()) => Some(Ok(())),
        Err(TryLockError::WouldBlock) => None,
        Err(TryLockError::Error(source)) => Some(Err(Error::io("lock", &path)(source))),
    });
    taken.unwrap_or_else(|| Err(Error::Locked { path: data_dir.to_path_buf() }))?;
    check_format(data_dir)?;
    Ok(Claim { _lock: lock })
}

/// Tries until it works, for a moment. A process that starts another one shares its locks with it until that
/// one has become its own program, so a lock may outlive its owner by some milliseconds.
fn with_patience<T>(attempt: impl Fn() -> Option<T>) -> Option<T> {
    (0..50).find_map(|tries| {
        if tries > 0 {
            std::thread::sleep(Duration::from_millis(10));
        }
        attempt()
    })
}

/// Opens sled's database in a claimed directory.
pub(super) fn open_db(store_dir: &Path, config: &sled::Config) -> Result<sled::Db, Error> {
    let failed = |source| Error::Engine { action: "open", source: Arc::new(source) };
    let db = with_patience(|| match config.open() {
        // sled reports this only in its message.
        Err(sled::Error::Io(error)) if error.to_string().starts_with("could not acquire lock") => None,
        result => Some(result.map_err(failed)),
    });
    db.unwrap_or_else(|| Err(Error::Locked { path: store_dir.to_path_buf() }))
}

/// Where sled keeps its files.
pub(super) fn store_dir(data_dir: &Path) -> PathBuf {
    data_dir.join("store")
}

fn check_format(data_dir: &Path) -> Result<(), Error> {
    let path = data_dir.join("FORMAT");
    let found = match fs::read(&path) {
        Ok(text) => String::from_utf8_lossy(&text).trim().chars().take(80).collect(),
        // A store without the file is not ours: the file is written before the store.
        Err(error) if error.kind() == ErrorKind::NotFound && store_dir(data_dir).exists() => "nothing".to_owned(),
        Err(error) if error.kind() == ErrorKind::NotFound => return write_format(&path),
        Err(error) => return Err(Error::io("read", &path)(error)),
    };
    if found == FORMAT { Ok(()) } else { Err(Error::Format { path, found, expected: FORMAT }) }
}

fn write_format(path: &Path) -> Result<(), Error> {
    Ok(files::write_durably(path, format!("{FORMAT}\n").as_bytes())?)
}

/// Syncs a file or folder to the disk.
pub(in crate::store) fn sync(path: &Path) -> io::Result<()> {
    File::open(path)?.sync_all()
}

/// sled's files, for syncing: sled itself leaves its data in the drive's cache. They are kept open, so that a sync needs no
/// descriptor: a process that has none left must not lose its store for that.
pub(super) struct Files {
    db: File,
    blobs: rustix::fs::Dir,
}

impl Files {
    /// The files of an open sled, all of them synced. sled syncs neither its settings nor its folders.
    pub(super) fn open(store_dir: &Path) -> io::Result<Files> {
        for entry in fs::read_dir(store_dir)? {
            sync(&entry?.path())?;
        }
        sync(store_dir)?;
        // The store's own entry, and the one of the data directory in its parent.
        let data_dir = store_dir.parent().unwrap_or(store_dir);
        sync(data_dir)?;
        data_dir.canonicalize()?.parent().map_or(Ok(()), sync)?;
        let blobs = rustix::fs::Dir::new(File::open(store_dir.join("blobs"))?)?;
        Ok(Files { db: File::open(store_dir.join("db"))?, blobs })
    }

    /// Syncs everything that sled has flushed to the disk.
    pub(super) fn sync(&mut self) -> io::Result<()> {
        if self.has_blobs()? {
            rustix::fs::syncfs(&self.db)?;
        }
        self.db.sync_data()
    }

    /// sled moves long pages to separate files. Values are kept so short that there are none; if sled makes one
    /// nevertheless, the whole file system is synced.
    fn has_blobs(&mut self) -> io::Result<bool> {
        self.blobs.rewind();
        while let Some(entry) = self.blobs.read() {
            if !matches!(entry?.file_name().to_bytes(), b"." | b"..") {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_store_without_format_and_a_format_from_the_future_are_refused() {
        let dir = tempfile::tempdir().unwrap();
        drop(claim(dir.path()).unwrap());
        assert_eq!(fs::read_to_string(dir.path().join("FORMAT")).unwrap(), "sled 1\n");
        drop(claim(dir.path()).unwrap());

        let said = |dir: &Path| match claim(dir) {
            Err(Error::Format { found, .. }) => found,
            Err(other) => other.to_string(),
            Ok(_) => "opened".to_owned(),
        };
        fs::write(dir.path().join("FORMAT"), "sled 2\n").unwrap();
        assert_eq!(said(dir.path()), "sled 2");

        fs::remove_file(dir.path().join("FORMAT")).unwrap();
        fs::create_dir(store_dir(dir.path())).unwrap();
        assert_eq!(said(dir.path()), "nothing");
    }
}
