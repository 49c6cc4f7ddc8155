//! A stream's log file: appended, hashed as it grows, bounded, made durable on request.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Seek, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::fs::OFlags;
use sha2::{Digest, Sha256};
use tracing::warn;

use super::output::StreamTotals;
use super::restore::restore;
use crate::files::for_each_chunk;

/// The file itself, shared by the one that appends and the one that syncs.
#[derive(Debug)]
pub(crate) struct LogFile {
    file: File,
    path: PathBuf,
    /// Kept open, because an engine may remove it.
    folder: File,
    written: AtomicU64,
    synced: AtomicU64,
}

impl LogFile {
    pub(crate) fn is_synced(&self) -> bool {
        self.written.load(Ordering::Acquire) == self.synced.load(Ordering::Acquire)
    }

    /// How many bytes are known to be on the disk.
    pub(crate) fn synced(&self) -> u64 {
        self.synced.load(Ordering::Acquire)
    }

    /// Blocks until everything written before the call is on the disk.
    pub(crate) fn sync(&self) -> io::Result<()> {
        let written = self.written.load(Ordering::Acquire);
        let synced = self.synced.load(Ordering::Acquire);
        if written == synced {
            return Ok(());
        }
        self.file.sync_data()?;
        if synced == 0 {
            // The name of a new file lives in its folder: without this the bytes could be durable and unreachable.
            self.folder.sync_all()?;
        }
        self.synced.fetch_max(written, Ordering::AcqRel);
        Ok(())
    }

    /// To be called when no process of the run is left: an engine may have changed its own log, or put something else at
    /// its path. A file that was moved or removed is restored, and what was put behind its end is cut off. Content that was
    /// changed cannot be restored: then this is what the file is now, in place of what was `kept` in it.
    pub(crate) fn check_and_restore(&self, kept: &StreamTotals) -> io::Result<Option<StreamTotals>> {
        let found = self.file.metadata()?;
        if !found.is_file() {
            // A device such as /dev/null, chosen by whoever started the engine.
            return Ok(None);
        }
        if found.len() > kept.bytes {
            warn!(path = %self.path.display(), "the run wrote behind the end of its own log; cutting it off");
            self.file.set_len(kept.bytes)?;
        }
        (&self.file).rewind()?;
        let (mut sha256, bytes) = (Sha256::new(), found.len().min(kept.bytes));
        hash_existing(&self.file, bytes, &mut sha256)?;
        restore(&self.file, &self.path)?;
        let is = StreamTotals { bytes, sha256: hex::encode(sha256.finalize()), dropped: kept.dropped };
        Ok((is != *kept).then_some(is))
    }
}

/// The outcome of an append.
#[derive(Debug)]
pub(crate) struct Appended {
    /// Offset of the first of them.
    pub(crate) from: u64,
    /// How many were kept.
    pub(crate) kept: usize,
    /// Why the rest was not kept, where the limit is not the reason.
    pub(crate) error: Option<io::Error>,
}

/// The writing end of a log file; there is one per stream.
#[derive(Debug)]
pub(crate) struct Log {
    file: Arc<LogFile>,
    length: u64,
    max: u64,
    dropped: u64,
    sha256: Sha256,
    failed: bool,
}

impl Log {
    /// Opens or creates the file and hashes what earlier attempts left in it.
    pub(crate) fn open(path: &Path, max: u64) -> io::Result<Log> {
        let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK;
        let flags = i32::try_from(flags.bits()).unwrap_or_default();
        let file = OpenOptions::new().read(true).append(true).create(true).custom_flags(flags).open(path)?;
        let found = file.metadata()?;
        if !found.is_file() {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "the place of a log is taken by something else"));
        }
        let length = found.len();
        let mut sha256 = Sha256::new();
        hash_existing(&file, length, &mut sha256)?;
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        // `synced` starts at 0, not at `length`: whether earlier bytes ever reached the disk is not known here.
        let file = Arc::new(LogFile {
            file,
            path: path.to_owned(),
            folder: File::open(folder)?,
            written: AtomicU64::new(length),
            synced: AtomicU64::new(0),
        });
        Ok(Log { file, length, max, dropped: 0, sha256, failed: false })
    }

    pub(crate) fn file(&self) -> Arc<LogFile> {
        Arc::clone(&self.file)
    }

    /// How many bytes it still takes.
    pub(crate) fn free(&self) -> u64 {
        if self.failed { 0 } else { self.max.saturating_sub(self.length) }
    }

    /// Counts bytes that nobody will append.
    pub(crate) fn drop_unread(&mut self, bytes: u64) {
        self.dropped += bytes;
    }

    /// Appends what fits below the limit and counts the rest.
    pub(crate) fn append(&mut self, bytes: &[u8]) -> Appended {
        let from = self.length;
        let fitting = bytes.len().min(usize::try_from(self.free()).unwrap_or(usize::MAX));
        let (kept, error) = self.write(bytes.get(..fitting).unwrap_or_default());
        // A later write after a failed one would leave a hole in the stream, so the first failure closes the log.
        self.failed |= error.is_some();
        self.dropped += (bytes.len() - kept) as u64;
        Appended { from, kept, error }
    }

    fn write(&mut self, bytes: &[u8]) -> (usize, Option<io::Error>) {
        let mut rest = bytes;
        let error = loop {
            if rest.is_empty() {
                break None;
            }
            match (&self.file.file).write(rest) {
                Ok(0) => break Some(io::ErrorKind::WriteZero.into()),
                Ok(n) => rest = rest.get(n..).unwrap_or_default(),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => break Some(error),
            }
        };
        let kept = bytes.len() - rest.len();
        self.sha256.update(bytes.get(..kept).unwrap_or_default());
        self.length += kept as u64;
        self.file.written.store(self.length, Ordering::Release);
        (kept, error)
    }

    pub(crate) fn totals(self) -> StreamTotals {
        let sha256 = hex::encode(self.sha256.finalize());
        StreamTotals { bytes: self.length, sha256, dropped: self.dropped }
    }
}

fn hash_existing(file: &File, length: u64, sha256: &mut Sha256) -> io::Result<()> {
    for_each_chunk(
        file.take(length),
        |error| error,
        |chunk| {
            sha256.update(chunk);
            Ok(())
        },
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::cache_key::sha256_hex;

    #[test]
    fn a_second_attempt_goes_on_where_the_first_ended_and_the_hash_covers_both() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("stdout.txt");
        let mut first = Log::open(&path, 100).unwrap();
        assert_eq!(first.append(b"one").from, 0);
        assert_eq!(first.totals(), StreamTotals { bytes: 3, sha256: sha256_hex(b"one"), dropped: 0 });

        let mut second = Log::open(&path, 100).unwrap();
        assert_eq!(second.append(b"two").from, 3);
        assert_eq!(second.totals(), StreamTotals { bytes: 6, sha256: sha256_hex(b"onetwo"), dropped: 0 });
    }

    #[test]
    fn bytes_beyond_the_limit_are_counted_and_the_file_stops_exactly_there() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("stdout.txt");
        let mut log = Log::open(&path, 5).unwrap();
        let kept: Vec<usize> = [&b"abc"[..], b"def", b"ghi"].iter().map(|bytes| log.append(bytes).kept).collect();
        assert_eq!(kept, [3, 2, 0]);
        assert_eq!(log.totals(), StreamTotals { bytes: 5, sha256: sha256_hex(b"abcde"), dropped: 4 });
        assert_eq!(std::fs::read(path).unwrap(), b"abcde");
    }

    #[test]
    fn a_full_disk_is_an_error_once_and_closes_the_log() {
        let file = LogFile {
            file: OpenOptions::new().read(true).append(true).open("/dev/full").unwrap(),
            path: "/dev/full".into(),
            folder: File::open("/dev").unwrap(),
            written: AtomicU64::new(0),
            synced: AtomicU64::new(0),
        };
        let (file, sha256) = (Arc::new(file), Sha256::new());
        let mut log = Log { file, length: 0, max: 100, dropped: 0, sha256, failed: false };
        let first = log.append(b"abc");
        assert_eq!((first.kept, first.error.map(|error| error.kind())), (0, Some(io::ErrorKind::StorageFull)));
        let second = log.append(b"def");
        assert_eq!((second.kept, second.error.is_none()), (0, true));
        assert_eq!(log.totals(), StreamTotals { bytes: 0, sha256: sha256_hex(b""), dropped: 6 });
    }

    #[test]
    fn a_log_is_synced_until_something_is_written() {
        let folder = tempfile::tempdir().unwrap();
        let mut log = Log::open(&folder.path().join("stderr.txt"), 100).unwrap();
        let file = log.file();
        assert!(file.is_synced());
        log.append(b"x");
        assert!(!file.is_synced());
        file.sync().unwrap();
        assert!(file.is_synced());
    }
}
