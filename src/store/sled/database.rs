//! One sled database in a folder of its own: it is there whole or not at all, and what it has flushed is synced by us.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use rustix::fs::FallocateFlags;
use rustix::io::Errno;

use super::loading::{Loadable, LoadedFew, always_loaded};
use crate::files;
use crate::store::Error;

/// The ending of a folder whose database is not complete yet.
const UNFINISHED: &str = "new";
/// The ending of a folder whose database is no longer needed.
const ASIDE: &str = "old";

/// With less free space than this, room is set aside for what is to be written: until then nobody can fill the disk between
/// a look at it and the write.
pub(super) const SET_ASIDE_BELOW: u64 = 1024 * 1024 * 1024;

/// A file that has so many more bytes of blocks than it needs had room set aside.
const SET_ASIDE_AT_LEAST: u64 = 1024 * 1024;

/// A database and its files. They are kept open, so that a sync needs no descriptor: a process that has none left must not
/// lose its store for that.
pub(super) struct Database {
    loadable: Arc<Loadable>,
    /// Unless it always stays loaded.
    few: OnceLock<Arc<LoadedFew>>,
    file: File,
    blobs: Mutex<rustix::fs::Dir>,
    folder: PathBuf,
}

impl Database {
    /// Makes an empty database.
    pub(super) fn create(folder: &Path, cache_bytes: u64) -> Result<Database, Error> {
        // In place, because sled keeps the path it was opened with, and fills a segment with zeros when it is opened again.
        let database = Self::open(folder, cache_bytes)?;
        files::sync(parent(folder))?;
        Ok(database)
    }

    /// Makes a database that holds at once what `fill` writes. Its name appears when everything in it is durable.
    pub(super) fn create_with(
        folder: &Path,
        cache_bytes: u64,
        fill: impl FnOnce(&Database) -> Result<(), Error>,
    ) -> Result<Database, Error> {
        let unfinished = folder.with_extension(UNFINISHED);
        files::remove_tree(&unfinished)?;
        let filled = Self::open(&unfinished, cache_bytes).and_then(|database| {
            fill(&database)?;
            // Closed when it is filled: sled keeps the path it was opened with.
            database.sync()
        });
        if let Err(error) = filled {
            // Nobody has read it, so nothing is lost; it would take room until the next start.
            let _ = files::remove_tree(&unfinished);
            return Err(error);
        }
        fs::rename(&unfinished, folder).map_err(Error::io("rename to", folder))?;
        files::sync(parent(folder))?;
        Self::open(folder, cache_bytes)
    }

    /// Opens a database in a claimed directory, creating it if there is none, and syncs all its files.
    pub(super) fn open(folder: &Path, cache_bytes: u64) -> Result<Database, Error> {
        check_kinds(folder)?;
        remove_unfinished(folder)?;
        give_room_back(&folder.join("db"));
        let loadable = Arc::new(Loadable::open(folder.to_path_buf(), cache_bytes)?);
        sync_all(folder).map_err(Error::io("sync", folder))?;
        let path = folder.join("db");
        let file = File::options().read(true).write(true).open(&path).map_err(Error::io("open", &path))?;
        let path = folder.join("blobs");
        let blobs = File::open(&path).and_then(|blobs| Ok(rustix::fs::Dir::new(blobs)?));
        let blobs = Mutex::new(blobs.map_err(Error::io("open", &path))?);
        Ok(Database { loadable, few: OnceLock::new(), file, blobs, folder: folder.to_path_buf() })
    }

    /// The database itself; it may have to be loaded. To be held as long as anything is read from it.
    pub(super) fn db(&self) -> Result<Arc<sled::Db>, Error> {
        match self.few.get() {
            Some(few) => few.load(&self.loadable),
            None => always_loaded(&self.loadable),
        }
    }

    pub(super) fn is_loaded(&self) -> bool {
        self.loadable.is_loaded()
    }

    /// It takes no more writes, and need not stay loaded.
    pub(super) fn be_one_of(&self, few: &Arc<LoadedFew>) {
        if self.few.set(few.clone()).is_ok() {
            few.add(&self.loadable);
        }
    }

    pub(super) fn folder(&self) -> &Path {
        &self.folder
    }

    /// Gives the database's folder a name that nobody opens, for good; returns that name. Who has it open can read on.
    pub(super) fn set_aside(&self) -> Result<PathBuf, Error> {
        let aside = self.folder.with_extension(ASIDE);
        fs::rename(&self.folder, &aside).map_err(Error::io("rename to", &aside))?;
        files::sync(parent(&aside))?;
        Ok(aside)
    }

    /// Nobody needs the database any more, and its folder is set aside. Who reads from it now can go on.
    pub(super) fn release(&self) {
        if let Some(few) = self.few.get() {
            few.remove(&self.loadable);
        }
    }

    /// How much room the database takes on the disk.
    pub(super) fn size(&self) -> u64 {
        self.file.metadata().map_or(0, |file| file.len())
    }

    /// Sets blocks of the disk aside, so that the file can grow by `bytes` whatever others write meanwhile; by how much it can
    /// grow. A file system that cannot do that is trusted.
    pub(super) fn set_room_aside(&self, bytes: u64) -> io::Result<u64> {
        let found = self.room_aside()?;
        if found >= bytes {
            return Ok(found);
        }
        let end = self.file.metadata()?.len();
        // More than is needed now, so that it need not be done each time.
        for more in [bytes * 2, bytes] {
            match rustix::fs::fallocate(&self.file, FallocateFlags::KEEP_SIZE, end, more) {
                Ok(()) => return Ok(bytes),
                Err(Errno::NOSPC | Errno::DQUOT) => {}
                Err(Errno::OPNOTSUPP | Errno::NOSYS | Errno::INVAL) => return Ok(u64::MAX),
                Err(error) => return Err(error.into()),
            }
        }
        self.room_aside()
    }

    /// By how much the file can grow without a new block.
    fn room_aside(&self) -> io::Result<u64> {
        self.file.metadata().map(|file| (file.blocks() * 512).saturating_sub(file.len()))
    }

    /// Sees that so many bytes can be written, whatever others write meanwhile: a write that fails half-way would end the service.
    /// The last blocks of the disk are left to those who make room.
    pub(super) fn keep_room_for(&self, bytes: u64) -> Result<(), Error> {
        let Ok(disk) = rustix::fs::fstatvfs(&self.file) else { return Ok(()) };
        let available = disk.f_bavail.saturating_mul(disk.f_frsize);
        // What cannot be looked at fails when it is written to.
        let has_room = || match available >= 2 * bytes {
            true => self.set_room_aside(bytes).unwrap_or(u64::MAX) >= bytes,
            false => self.room_aside().is_ok_and(|room| room >= bytes),
        };
        if available >= SET_ASIDE_BELOW || has_room() {
            Ok(())
        } else {
            Err(Error::Full { path: self.folder.clone(), available })
        }
    }

    /// Writes a batch, all or nothing; durable when `Ok`. After an error the outcome is unknown.
    pub(super) fn apply(&self, batch: sled::Batch) -> Result<(), Error> {
        self.db()?.apply_batch(batch).map_err(unavailable)?;
        self.sync()
    }

    /// Makes everything written so far durable. Never to be retried: after a failed fsync the kernel may count lost pages
    /// as written.
    pub(super) fn sync(&self) -> Result<(), Error> {
        self.db()?.flush().map_err(unavailable)?;
        // sled's flush asks the kernel to write, not the drive to keep.
        if self.has_blobs().map_err(unavailable)? {
            rustix::fs::syncfs(&self.file).map_err(unavailable)?;
        }
        self.file.sync_data().map_err(unavailable)
    }

    /// sled moves long pages to separate files. Values are kept so short that there are none; if sled makes one
    /// nevertheless, the whole file system is synced.
    fn has_blobs(&self) -> io::Result<bool> {
        let mut blobs = self.blobs.lock().unwrap_or_else(PoisonError::into_inner);
        blobs.rewind();
        while let Some(entry) = blobs.read() {
            if !matches!(entry?.file_name().to_bytes(), b"." | b"..") {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

/// A write, flush or sync has failed.
pub(super) fn unavailable(error: impl std::error::Error + Send + Sync + 'static) -> Error {
    Error::Unavailable { source: Arc::new(error) }
}

/// Whether a folder of this name was never completed, or is no longer needed.
pub(super) fn is_left_over(folder: &Path) -> bool {
    folder.extension().is_some_and(|extension| extension == UNFINISHED || extension == ASIDE)
}

/// sled would wait for the other end of a pipe in the place of one of its files.
fn check_kinds(folder: &Path) -> Result<(), Error> {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        if fs::metadata(&path).is_ok_and(|found| !found.is_file() && !found.is_dir()) {
            let source = io::Error::new(io::ErrorKind::InvalidInput, "it is neither a file nor a folder");
            return Err(Error::io("open", &path)(source));
        }
    }
    Ok(())
}

/// Removes what sled would take for its own settings or the summary of its log, though a killed process had not
/// written them to the end.
fn remove_unfinished(folder: &Path) -> Result<(), Error> {
    let Ok(entries) = fs::read_dir(folder) else { return Ok(()) };
    // Settings are written before the first entry of the log.
    let began = fs::metadata(folder.join("db")).is_ok_and(|file| file.len() > 0);
    for path in entries.flatten().map(|entry| entry.path()) {
        let settings = path.file_name().is_some_and(|name| name == "conf");
        let summary = path.extension().is_some_and(|extension| extension == "generating");
        if summary || settings && !began {
            files::remove_file(&path)?;
        }
    }
    Ok(())
}

/// What an earlier process set aside and did not need. Only while sled does not have the file: it cuts it, too.
fn give_room_back(path: &Path) {
    let Ok(file) = File::options().write(true).open(path) else { return };
    let Ok(found) = file.metadata() else { return };
    // It is not lost if that fails: the database itself may need it.
    if found.blocks() * 512 > found.len() + SET_ASIDE_AT_LEAST {
        let _ = file.set_len(found.len());
    }
}

/// sled syncs neither its settings nor its folders.
fn sync_all(folder: &Path) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        sync(&entry?.path())?;
    }
    sync(folder)
}

fn sync(path: &Path) -> io::Result<()> {
    File::open(path)?.sync_all()
}

fn parent(path: &Path) -> &Path {
    path.parent().unwrap_or(path)
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::super::keys;
    use super::*;
    use crate::domain::ids::{RequestId, RunId};
    use crate::store::IndexKey;

    #[test]
    fn a_summary_that_a_killed_process_began_does_not_keep_the_store_from_opening() {
        let dir = tempfile::tempdir().unwrap();
        let folder = dir.path().join("database");
        let database = Database::create(&folder, 1 << 20).unwrap();
        database.db().unwrap().insert("key", "value").unwrap();
        database.sync().unwrap();
        drop(database);
        fs::write(folder.join("snap.00000000FFFFFFFF.generating"), "half").unwrap();
        let database = Database::open(&folder, 1 << 20).unwrap();
        assert_eq!(database.db().unwrap().get("key").unwrap().as_deref(), Some(b"value".as_slice()));
    }

    #[test]
    fn a_pipe_in_the_place_of_a_file_is_refused_and_not_waited_for() {
        for name in ["db", "conf"] {
            let dir = tempfile::tempdir().unwrap();
            let folder = dir.path().join("database");
            drop(Database::create(&folder, 1 << 20).unwrap());
            let path = folder.join(name);
            fs::remove_file(&path).unwrap();
            rustix::fs::mknodat(rustix::fs::CWD, &path, rustix::fs::FileType::Fifo, rustix::fs::Mode::RWXU, 0).unwrap();
            let refused = Database::open(&folder, 1 << 20).err().map(|error| error.to_string());
            assert!(refused.as_ref().is_some_and(|text| text.contains(name)), "{refused:?}");
        }
    }

    #[test]
    fn a_database_that_was_never_completed_is_made_anew() {
        let dir = tempfile::tempdir().unwrap();
        let folder = dir.path().join("database");
        let fill = |outcome: fn() -> Result<(), Error>| {
            Database::create_with(&folder, 1 << 20, move |database| {
                database.db().unwrap().insert(if outcome().is_ok() { "whole" } else { "half" }, "written").unwrap();
                outcome()
            })
        };
        assert!(matches!(fill(|| Err(Error::Closed)).map(|_| ()), Err(Error::Closed)));
        assert!(!folder.exists());
        let whole = fill(|| Ok(())).unwrap();
        assert_eq!(whole.db().unwrap().iter().keys().collect::<Result<Vec<_>, _>>().unwrap(), ["whole"]);
    }

    #[test]
    fn settings_that_a_killed_process_began_are_written_anew() {
        let dir = tempfile::tempdir().unwrap();
        let folder = dir.path().join("database");
        fs::create_dir(&folder).unwrap();
        for part in ["", "segm", "segment_size: 52428"] {
            fs::write(folder.join("conf"), part).unwrap();
            fs::write(folder.join("db"), "").unwrap();
            drop(Database::open(&folder, 1 << 20).unwrap());
            fs::remove_file(folder.join("db")).unwrap();
        }
    }

    /// A page may begin where the rows of runs begin, after requests with the highest ids there are.
    #[test]
    fn rows_of_runs_are_read_backwards_to_the_first_whatever_stands_before_them() {
        let dir = tempfile::tempdir().unwrap();
        let database = Database::create(&dir.path().join("database"), 1 << 20).unwrap();
        let db = database.db().unwrap();
        let put = |key: IndexKey| db.insert(keys::row_key(&key), "row").unwrap();
        for run in 0..60_u128 {
            put(IndexKey::Request(RequestId(Uuid::from_u128(!run))));
            put(IndexKey::Run(RunId(Uuid::from_u128(run))));
            let (first, end) = keys::run_rows();
            let read = db.range(first..end).rev().map(|row| keys::run_of_row(&row.unwrap().0).unwrap());
            assert!(read.eq((0..=run).rev().map(|run| RunId(Uuid::from_u128(run)))));
        }
    }
}
