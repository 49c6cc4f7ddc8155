//! Free space on a disk, looked at while something large is written.

use std::io::{self, Seek, SeekFrom, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rustix::io::Errno;

use super::error::Error;

/// How much is written between two looks.
const LOOK_EVERY_BYTES: usize = 1024 * 1024;

/// Free bytes that users other than root may still take, on the disk of this path.
pub(crate) fn free_bytes(path: &Path) -> Result<u64, Error> {
    let found = rustix::fs::statvfs(path).map_err(Error::on("ask for the free space of", path))?;
    Ok(found.f_bavail.saturating_mul(found.f_frsize))
}

/// Size of the disk that a path is on.
pub(crate) fn disk_bytes(path: &Path) -> Result<u64, Error> {
    let found = rustix::fs::statvfs(path).map_err(Error::on("ask for the size of the disk of", path))?;
    Ok(found.f_blocks.saturating_mul(found.f_frsize))
}

/// Where the file system of this path is mounted: the topmost folder above it that is on the same device.
pub(crate) fn mount_point(path: &Path) -> PathBuf {
    let device = |path: &Path| std::fs::metadata(path).ok().map(|found| found.dev());
    let path = path.canonicalize().unwrap_or_else(|_| path.to_owned());
    let own = device(&path);
    path.ancestors().take_while(|above| device(above) == own).last().unwrap_or(&path).to_owned()
}

/// A writer that fails as on a full disk before less than `floor` bytes are free.
pub(crate) struct WithinRoom<W> {
    writer: W,
    /// A path on the disk.
    disk: PathBuf,
    floor: u64,
    unlooked: usize,
}

impl<W> WithinRoom<W> {
    pub(crate) fn new(writer: W, disk: &Path, floor: u64) -> Self {
        Self { writer, disk: disk.to_owned(), floor, unlooked: LOOK_EVERY_BYTES }
    }

    fn look(&mut self) -> io::Result<()> {
        let least = self.floor.saturating_add(LOOK_EVERY_BYTES as u64);
        if self.floor > 0 && free_bytes(&self.disk)? < least {
            return Err(Errno::NOSPC.into());
        }
        self.unlooked = 0;
        Ok(())
    }
}

impl<W: Write> Write for WithinRoom<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.unlooked >= LOOK_EVERY_BYTES {
            self.look()?;
        }
        let written = self.writer.write(bytes)?;
        self.unlooked = self.unlooked.saturating_add(written);
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.writer.flush()
    }
}

impl<W: Seek> Seek for WithinRoom<W> {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        self.writer.seek(to)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::files::Shortage;

    #[test]
    fn a_write_that_would_leave_too_little_fails_as_on_a_full_disk() {
        let folder = tempfile::tempdir().unwrap();
        let write = |floor: u64| WithinRoom::new(io::sink(), folder.path(), floor).write_all(&[0; 4096]);
        assert!(write(1).is_ok());
        let refused = write(u64::MAX - (1 << 30)).unwrap_err();
        assert_eq!(Shortage::behind(&refused), Some(Shortage::Disk));
    }

    #[test]
    fn free_space_is_known_for_a_folder_and_an_error_for_a_missing_one() {
        let folder = tempfile::tempdir().unwrap();
        assert!(free_bytes(folder.path()).unwrap() > 0);
        assert_eq!(free_bytes(&folder.path().join("missing")).unwrap_err().source.kind(), io::ErrorKind::NotFound);
    }
}
