//! The data directory: claimed by one process, marked with its format, synced as a whole.

use std::collections::HashSet;
use std::ffi::OsString;
use std::fs::{self, File, TryLockError};
use std::io::{self, ErrorKind, Write};
use std::path::{Path, PathBuf};

use crate::store::Error;

/// What `FORMAT` says for this layout. A change that an older program would misread takes the next number.
const FORMAT: &str = "sled 1";

/// A data directory that this process alone uses, as long as the value lives.
pub(super) struct Claim {
    _lock: File,
}

/// Takes the directory for this process, creating it if needed, and checks its format.
pub(super) fn claim(data_dir: &Path) -> Result<Claim, Error> {
    fs::create_dir_all(data_dir).map_err(Error::io("create", data_dir))?;
    let path = data_dir.join("LOCK");
    let lock =
        File::options().create(true).write(true).truncate(false).open(&path).map_err(Error::io("open", &path))?;
    match lock.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => return Err(Error::Locked { path: data_dir.to_path_buf() }),
        Err(TryLockError::Error(source)) => return Err(Error::io("lock", &path)(source)),
    }
    check_format(data_dir)?;
    Ok(Claim { _lock: lock })
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
        Err(error) if error.kind() == ErrorKind::NotFound => return write_format(data_dir, &path),
        Err(error) => return Err(Error::io("read", &path)(error)),
    };
    if found == FORMAT { Ok(()) } else { Err(Error::Format { path, found, expected: FORMAT }) }
}

fn write_format(data_dir: &Path, path: &Path) -> Result<(), Error> {
    let write = || -> io::Result<()> {
        let mut file = tempfile::NamedTempFile::new_in(data_dir)?;
        writeln!(file, "{FORMAT}")?;
        file.as_file().sync_all()?;
        file.persist(path)?;
        sync(data_dir)
    };
    write().map_err(Error::io("write", path))
}

/// Brings a file or folder to the disk.
pub(in crate::store) fn sync(path: &Path) -> io::Result<()> {
    File::open(path)?.sync_all()
}

/// sled's files, for syncing: sled itself leaves its data in the drive's cache.
pub(super) struct Files {
    db: File,
    blobs: PathBuf,
    synced_blobs: HashSet<OsString>,
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
        let mut files = Files {
            db: File::open(store_dir.join("db"))?,
            blobs: store_dir.join("blobs"),
            synced_blobs: HashSet::new(),
        };
        files.sync_blobs()?;
        Ok(files)
    }

    /// Brings everything that sled has flushed to the disk.
    pub(super) fn sync(&mut self) -> io::Result<()> {
        // What the log points at goes first.
        self.sync_blobs()?;
        self.db.sync_data()
    }

    /// Pages that grew long through index rows stand in files of their own; mostly there is none.
    fn sync_blobs(&mut self) -> io::Result<()> {
        let mut present = HashSet::new();
        let mut added = false;
        for entry in fs::read_dir(&self.blobs)? {
            let entry = entry?;
            let name = entry.file_name();
            if !self.synced_blobs.contains(&name) {
                match sync(&entry.path()) {
                    Ok(()) => added = true,
                    Err(error) if error.kind() == ErrorKind::NotFound => continue, // replaced by sled just now
                    Err(error) => return Err(error),
                }
            }
            present.insert(name);
        }
        self.synced_blobs = present;
        if added { sync(&self.blobs) } else { Ok(()) }
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
