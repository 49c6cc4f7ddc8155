//! Shared files in a folder that every service can reach: `sha256/ab/<hash>`, each written whole under a hidden name first.

use std::fs::{self, File, Metadata};
use std::io::{self, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;
use rustix::fs::{AtFlags, CWD, Timespec, Timestamps, UTIME_NOW};

use super::content::{self, copy_checked, damaged, missing, of_bytes, of_file};
use super::error::Error;
use super::shared::{Blob, Blobs, BoxFuture, Listed};
use crate::domain::causes::chain;
use crate::files::{self, LookupError};

/// Below the folder, so that what else is in it stays apart.
const ALL: &str = "sha256";
/// After so long, a hidden name is one that its writer did not live to give up.
const ABANDONED_SECONDS: i64 = 24 * 60 * 60;

#[derive(Debug, Clone)]
pub(super) struct Folder {
    root: Arc<PathBuf>,
}

impl Folder {
    /// The folder must be there: one that is made in the place of a disk that is not mounted would be shared by nobody.
    pub(super) fn open(root: &Path) -> Result<Self, Error> {
        let folder = Self { root: Arc::new(root.to_owned()) };
        match fs::metadata(root) {
            Ok(found) if found.is_dir() => Ok(folder),
            Ok(_) => Err(folder.unusable("it is not a folder".to_owned())),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                Err(folder.unusable("the folder does not exist; create it, or mount what it is on".to_owned()))
            }
            Err(error) => Err(folder.refused(files::Error::on("look at", root)(error))),
        }
    }

    fn all(&self) -> PathBuf {
        self.root.join(ALL)
    }

    fn unusable(&self, reason: String) -> Error {
        Error::Unusable { place: self.root.display().to_string(), reason }
    }

    /// What went wrong in the shared folder; what goes wrong with files of this machine is told as that.
    fn refused(&self, error: files::Error) -> Error {
        match error.kind() {
            io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem | io::ErrorKind::NotADirectory => {
                self.unusable(chain(&error))
            }
            _ => Error::Unreachable { reason: chain(&error) },
        }
    }

    fn path(&self, blob: &Blob) -> PathBuf {
        self.root.join(relative(blob))
    }

    /// Whether it is there, which makes it as young as a new one.
    fn refresh(&self, blob: &Blob) -> Result<bool, files::Error> {
        let path = self.path(blob);
        match fs::symlink_metadata(&path) {
            Ok(found) if found.is_file() && found.len() == blob.size => {}
            // Something else in its place is replaced.
            Ok(_) => return Ok(false),
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
            Err(error) => return Err(files::Error::on("look at", &path)(error)),
        }
        let now = Timespec { tv_sec: 0, tv_nsec: UTIME_NOW };
        let times = Timestamps { last_access: now, last_modification: now };
        match rustix::fs::utimensat(CWD, &path, &times, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(()) => {}
            // It was removed meanwhile.
            Err(rustix::io::Errno::NOENT) => return Ok(false),
            Err(error) => return Err(files::Error::on("set the time of", &path)(error)),
        }
        // Whoever wrote it may not have come to this yet.
        files::sync(parent(&path)).map(|()| true)
    }

    /// Puts what `fill` writes, unless it is there.
    fn store(&self, blob: &Blob, fill: impl FnOnce(&mut File, &Path) -> Result<(), Error>) -> Result<(), Error> {
        if self.refresh(blob).map_err(|error| self.refused(error))? {
            return Ok(());
        }
        let path = self.path(blob);
        let (all, part) = (self.all(), parent(&path));
        let folders = || {
            private_folder(&all)?;
            private_folder(part)
        };
        folders().map_err(|error| self.refused(error))?;
        let written = files::write_private_durably_with(&path, |file| fill(file, &path).map_err(Failed::Filling));
        match written {
            Ok(()) => {}
            Err(Failed::Filling(error)) => return Err(error),
            Err(Failed::Place(error)) => return Err(self.refused(error)),
        }
        files::sync(&all).and_then(|()| files::sync(&self.root)).map_err(|error| self.refused(error))
    }

    fn put_file_now(&self, source: &Path) -> Result<Blob, Error> {
        let blob = of_file(source)?;
        let changed = || Error::Changed { path: source.display().to_string() };
        self.store(&blob, |file, path| {
            let again = files::open_regular(source)?;
            let unreadable = |error| files::Error::on("read", source)(error).into();
            let unwritable = |error| self.refused(files::Error::on("write", path)(error));
            copy_checked(again, unreadable, file, unwritable, &blob).map_err(|error| match error {
                Error::Damaged { .. } => changed(),
                other => other,
            })
        })?;
        Ok(blob)
    }

    fn put_now(&self, bytes: &[u8]) -> Result<Blob, Error> {
        let blob = of_bytes(bytes);
        self.store(&blob, |file, path| {
            file.write_all(bytes).map_err(|error| self.refused(files::Error::on("write", path)(error)))
        })?;
        Ok(blob)
    }

    fn find(&self, blob: &Blob) -> Result<File, Error> {
        match files::open_beneath(&self.root, &relative(blob)) {
            Ok(file) => Ok(file),
            Err(LookupError::NotFound) if self.all().is_dir() => Err(missing(blob)),
            Err(LookupError::NotFound) => {
                let reason = format!("{} holds no shared files; is it mounted?", self.root.display());
                Err(Error::Unreachable { reason })
            }
            Err(error @ (LookupError::Unsafe { .. } | LookupError::NotAFile)) => Err(damaged(blob, error.to_string())),
            Err(LookupError::Io { source }) => Err(self.refused(files::Error::on("open", &self.path(blob))(source))),
        }
    }

    fn fetch_now(&self, blob: &Blob, to: &Path) -> Result<(), Error> {
        let (found, at) = (self.find(blob)?, self.path(blob));
        files::write_private_durably_with(to, |file| {
            let unreadable = |error| self.refused(files::Error::on("read", &at)(error));
            let unwritable = |error| files::Error::on("write", to)(error).into();
            copy_checked(found, unreadable, file, unwritable, blob)
        })
    }

    fn read_now(&self, blob: &Blob) -> Result<Bytes, Error> {
        let (found, at) = (self.find(blob)?, self.path(blob));
        let mut bytes = Vec::new();
        let unreadable = |error| self.refused(files::Error::on("read", &at)(error));
        copy_checked(found, unreadable, &mut bytes, |error| damaged(blob, error.to_string()), blob)?;
        Ok(bytes.into())
    }

    fn remove_now(&self, blob: &Blob) -> Result<(), Error> {
        files::remove_file(&self.path(blob)).map_err(|error| self.refused(error))
    }

    fn list_now(&self, after: Option<[u8; 32]>, most: usize) -> Result<Vec<Listed>, Error> {
        let mut listed = Vec::new();
        let now = match self.file_system_now() {
            Ok(now) => now,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(listed),
            Err(error) => return Err(self.refused(error)),
        };
        let first = after.map_or(0, |after| after[0]);
        for part in first..=u8::MAX {
            let part = self.all().join(hex::encode([part]));
            let mut found = list_part(&part, now).map_err(|error| self.refused(error))?;
            found.retain(|found| after.is_none_or(|after| found.blob.sha256 > after));
            found.sort_unstable_by_key(|found| found.blob.sha256);
            listed.extend(found);
            if listed.len() >= most {
                break;
            }
        }
        listed.truncate(most);
        Ok(listed)
    }

    /// The time by the clock that stamps the files, which may be another machine's.
    fn file_system_now(&self) -> Result<i64, files::Error> {
        let all = self.all();
        let probe = tempfile::Builder::new().prefix(".clock-").tempfile_in(&all);
        let found = probe.and_then(|probe| probe.as_file().metadata());
        found.map(|found| found.mtime()).map_err(files::Error::on("create a temporary file in", &all))
    }

    fn check_now(&self) -> Result<String, Error> {
        let probe = || {
            let mut probe = tempfile::Builder::new().prefix(".check-").tempfile_in(&*self.root)?;
            probe.write_all(b"written")?;
            probe.as_file().sync_all()?;
            match files::read_regular(probe.path(), 64)? {
                Some(found) if found == b"written" => probe.close(),
                Some(_) | None => Err(io::Error::other("what was written was not read back")),
            }
        };
        probe().map_err(|error| self.refused(files::Error::on("write and read in", &self.root)(error)))?;
        Ok(format!("the folder {}", self.root.display()))
    }

    fn blocking<'a, T: Send + 'static>(
        &self,
        work: impl FnOnce(&Folder) -> Result<T, Error> + Send + 'static,
    ) -> BoxFuture<'a, Result<T, Error>> {
        let folder = self.clone();
        Box::pin(async move {
            let done = tokio::task::spawn_blocking(move || work(&folder)).await;
            done.unwrap_or_else(|broken| Err(Error::Unreachable { reason: broken.to_string() }))
        })
    }
}

/// Why a file was not written: what it was to hold could not be had, or the place refused.
enum Failed {
    Filling(Error),
    Place(files::Error),
}

impl From<files::Error> for Failed {
    fn from(error: files::Error) -> Self {
        Failed::Place(error)
    }
}

fn relative(blob: &Blob) -> PathBuf {
    let name = content::name(blob);
    let part = hex::encode(blob.sha256.get(..1).unwrap_or_default());
    [ALL, &part, &name].iter().collect()
}

fn parent(path: &Path) -> &Path {
    path.parent().unwrap_or(path)
}

/// Makes sure that a folder is there that its owner alone can enter, and that is no link.
fn private_folder(path: &Path) -> Result<(), files::Error> {
    match files::create_new_folder(path) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
        made => return made,
    }
    let found = fs::symlink_metadata(path).map_err(files::Error::on("look at", path))?;
    if found.is_dir() {
        return Ok(());
    }
    let message = "something else than a folder is there";
    Err(files::Error::on("write in", path)(io::Error::new(io::ErrorKind::NotADirectory, message)))
}

/// The shared files with one first byte. What dead writers left is removed.
fn list_part(part: &Path, now: i64) -> Result<Vec<Listed>, files::Error> {
    let mut listed = Vec::new();
    // A link could lead to files of somebody else.
    if fs::symlink_metadata(part).is_ok_and(|found| !found.is_dir()) {
        return Ok(listed);
    }
    let entries = match fs::read_dir(part) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(listed),
        Err(error) => return Err(files::Error::on("list", part)(error)),
    };
    for entry in entries {
        let entry = entry.map_err(files::Error::on("list", part))?;
        let Ok(name) = entry.file_name().into_string() else { continue };
        // Removed since its folder was read.
        let Ok(found) = entry.metadata() else { continue };
        let age = now.saturating_sub(found.mtime());
        // A folder, such as one with snapshots of the file system, is nobody's file.
        if name.starts_with('.') && found.is_file() && age > ABANDONED_SECONDS {
            files::remove_file(&entry.path())?;
        }
        listed.extend(as_listed(&name, &found, age));
    }
    Ok(listed)
}

fn as_listed(name: &str, found: &Metadata, age: i64) -> Option<Listed> {
    let sha256 = content::hash_of(name).filter(|_| found.is_file())?;
    Some(Listed { blob: Blob { sha256, size: found.len() }, age: u64::try_from(age).unwrap_or(0) })
}

impl Blobs for Folder {
    fn put_file<'a>(&'a self, path: &'a Path) -> BoxFuture<'a, Result<Blob, Error>> {
        let path = path.to_owned();
        self.blocking(move |folder| folder.put_file_now(&path))
    }

    fn put(&self, bytes: Bytes) -> BoxFuture<'_, Result<Blob, Error>> {
        self.blocking(move |folder| folder.put_now(&bytes))
    }

    fn fetch<'a>(&'a self, blob: &'a Blob, to: &'a Path) -> BoxFuture<'a, Result<(), Error>> {
        let (blob, to) = (*blob, to.to_owned());
        self.blocking(move |folder| folder.fetch_now(&blob, &to))
    }

    fn read(&self, blob: &Blob) -> BoxFuture<'_, Result<Bytes, Error>> {
        let blob = *blob;
        self.blocking(move |folder| folder.read_now(&blob))
    }

    fn remove(&self, blob: &Blob) -> BoxFuture<'_, Result<(), Error>> {
        let blob = *blob;
        self.blocking(move |folder| folder.remove_now(&blob))
    }

    fn list(&self, after: Option<[u8; 32]>, most: usize) -> BoxFuture<'_, Result<Vec<Listed>, Error>> {
        self.blocking(move |folder| folder.list_now(after, most))
    }

    fn check(&self) -> BoxFuture<'_, Result<String, Error>> {
        self.blocking(Folder::check_now)
    }
}
