//! A file without a name that an engine writes a stream to: it is read while it grows, and what was read takes no space.
//!
//! It vanishes with the last process that has it open, so nothing stays of it whatever dies first.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;

use rustix::fs::{FallocateFlags, OFlags, fallocate};

/// Space is given back in pieces of at least this size.
const FREE_AT_LEAST: u64 = 1 << 20;
/// The unit in which file systems give space back.
const BLOCK: u64 = 4096;
/// How many of the bytes read last are looked at again, to see whether they were changed.
const LOOKED_AT_AGAIN: usize = 64;

/// The reader's side of it.
#[derive(Debug)]
pub(crate) struct Spool {
    file: File,
    /// How far it is read.
    read: u64,
    /// The last bytes that were read.
    tail: Vec<u8>,
    /// What lies before this takes no space.
    freed: u64,
    /// What lies behind `limit` and before this takes no space.
    freed_behind: u64,
    /// What lies behind this is not wanted.
    limit: u64,
}

/// What was seen when the file was looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Look {
    /// So many bytes are there to be read.
    New(u64),
    /// Bytes that were read already are gone or others, so it begins anew.
    Rewritten,
}

impl Spool {
    /// Makes one on the file system of this folder, with the end for the engine.
    pub(crate) fn create(folder: &Path) -> io::Result<(Spool, File)> {
        let file = tempfile::tempfile_in(folder)?;
        let name = format!("/proc/self/fd/{}", file.as_raw_fd());
        // Opened a second time: in append mode, and with a position of its own.
        let append = i32::try_from(OFlags::APPEND.bits()).map_err(io::Error::other)?;
        let engines_end = OpenOptions::new().write(true).custom_flags(append).open(name)?;
        let spool = Spool { file, read: 0, tail: Vec::new(), freed: 0, freed_behind: 0, limit: u64::MAX };
        Ok((spool, engines_end))
    }

    pub(crate) fn file(&self) -> &File {
        &self.file
    }

    /// From here on only this many bytes are wanted.
    pub(crate) fn want(&mut self, bytes: u64) {
        self.limit = self.read.saturating_add(bytes);
        self.freed_behind = self.limit;
    }

    /// How much there is to be read.
    pub(crate) fn look(&mut self) -> io::Result<Look> {
        let length = self.file.metadata()?.len();
        let mut again = [0; LOOKED_AT_AGAIN];
        let again = &mut again[..self.tail.len()];
        let as_it_was = length >= self.read && {
            let read = self.file.read_at(again, self.read - self.tail.len() as u64)?;
            again.get(..read) == Some(&self.tail[..])
        };
        if as_it_was {
            return Ok(Look::New(length - self.read));
        }
        (self.read, self.freed, self.freed_behind) = (0, 0, 0);
        self.tail.clear();
        Ok(Look::Rewritten)
    }

    /// Reads on, not beyond what is wanted; 0 where nothing is left.
    pub(crate) fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let wanted = usize::try_from(self.limit.saturating_sub(self.read)).unwrap_or(usize::MAX).min(buffer.len());
        let read = self.file.read_at(buffer.get_mut(..wanted).unwrap_or_default(), self.read)?;
        let bytes = buffer.get(..read).unwrap_or_default();
        self.tail.extend_from_slice(&bytes[read.saturating_sub(LOOKED_AT_AGAIN)..]);
        self.tail.drain(..self.tail.len().saturating_sub(LOOKED_AT_AGAIN));
        self.read += read as u64;
        Ok(read)
    }

    /// Passes over bytes without reading them.
    pub(crate) fn pass_over(&mut self, bytes: u64) {
        self.read += bytes;
        self.tail.clear();
    }

    /// Gives back the space of what was read or passed over, once that is worth it.
    pub(crate) fn free_read(&mut self) -> io::Result<()> {
        // The last bytes are looked at again.
        let until = self.read.saturating_sub(BLOCK) / BLOCK * BLOCK;
        if until >= self.freed + FREE_AT_LEAST {
            self.free(self.freed, until)?;
            self.freed = until;
        }
        Ok(())
    }

    /// Gives back the space of what nobody wants, once that is worth it.
    pub(crate) fn free_unwanted(&mut self) -> io::Result<()> {
        let length = self.file.metadata()?.len();
        if length >= self.freed_behind.saturating_add(FREE_AT_LEAST) {
            self.free(self.freed_behind, length)?;
            self.freed_behind = length;
        }
        Ok(())
    }

    fn free(&self, from: u64, until: u64) -> io::Result<()> {
        let hole = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        Ok(fallocate(&self.file, hole, from, until - from)?)
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::os::unix::fs::MetadataExt;

    use super::*;

    fn spool() -> (Spool, File, tempfile::TempDir) {
        let folder = tempfile::tempdir().unwrap();
        let (spool, engines_end) = Spool::create(folder.path()).unwrap();
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0, "it has no name");
        (spool, engines_end, folder)
    }

    #[test]
    fn what_was_read_and_what_nobody_wants_takes_no_space() {
        let (mut spool, mut engine, _folder) = spool();
        spool.want(4 << 20);
        engine.write_all(&vec![1; 16 << 20]).unwrap();
        spool.free_unwanted().unwrap();
        let mut buffer = vec![0; 3 << 20];
        assert_eq!(spool.look().unwrap(), Look::New(16 << 20));
        assert_eq!((spool.read(&mut buffer).unwrap(), buffer == vec![1; 3 << 20]), (3 << 20, true));
        spool.free_read().unwrap();
        let found = spool.file().metadata().unwrap();
        assert_eq!(found.len(), 16 << 20);
        assert!(found.blocks() * 512 <= (1 << 20) + 64 * 1024, "{} blocks", found.blocks());
        assert_eq!(spool.look().unwrap(), Look::New(13 << 20));
        spool.pass_over(13 << 20);
        assert_eq!(spool.look().unwrap(), Look::New(0));
    }

    #[test]
    fn bytes_that_were_cut_off_or_changed_after_they_were_read_are_noticed_and_read_from_the_beginning() {
        let changes: [fn(&File); 3] = [
            |file| file.set_len(0).unwrap(),
            |file| {
                file.set_len(0).unwrap();
                (&mut &*file).write_all(b"twice\nas long\n").unwrap();
            },
            |file| file.write_all_at(b"ONE\n", 0).unwrap(),
        ];
        for change in changes {
            let (mut spool, mut engine, _folder) = spool();
            engine.write_all(b"one\n").unwrap();
            spool.read(&mut [0; 100]).unwrap();
            assert_eq!(spool.look().unwrap(), Look::New(0));
            // Opened as `> /dev/stdout` does, without append.
            let again = OpenOptions::new().write(true).open(format!("/proc/self/fd/{}", engine.as_raw_fd())).unwrap();
            change(&again);
            assert_eq!(spool.look().unwrap(), Look::Rewritten);
            let length = spool.file().metadata().unwrap().len();
            assert_eq!(spool.look().unwrap(), Look::New(length));
        }
    }
}
