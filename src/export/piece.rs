//! Bytes of a file: all of them, or the part of an export that is one of its files.

use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;

use sha2::{Digest as _, Sha256};

use crate::files::{for_each_chunk, open_beneath};

/// A part of a file. Any number of readers may share it.
#[derive(Debug, Clone)]
pub struct Piece {
    source: Source,
    from: u64,
    size: u64,
}

#[derive(Debug, Clone)]
enum Source {
    Open(Arc<File>),
    /// Opened whenever it is read: a run may have more files than a process may have open.
    Named {
        root: Arc<Path>,
        name: String,
    },
}

/// Length and hashes of a content.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Digest {
    pub(crate) size: u64,
    /// Its sha256 in hex.
    pub(crate) sha256: String,
    /// The checksum that zip programs look at.
    pub(crate) crc32: u32,
}

impl Piece {
    /// A whole file, as long as it is now.
    pub(crate) fn whole(file: File) -> io::Result<Self> {
        let size = file.metadata()?.len();
        Ok(Self { source: Source::Open(Arc::new(file)), from: 0, size })
    }

    /// A whole file below `root`, which has this size now.
    pub(crate) fn named(root: Arc<Path>, name: String, size: u64) -> Self {
        Self { source: Source::Named { root, name }, from: 0, size }
    }

    fn open(&self) -> io::Result<Arc<File>> {
        match &self.source {
            Source::Open(file) => Ok(file.clone()),
            Source::Named { root, name } => Ok(Arc::new(open_beneath(root, Path::new(name))?)),
        }
    }

    /// A part of it.
    pub(crate) fn part(&self, from: u64, size: u64) -> Self {
        Self { source: self.source.clone(), from: self.from.saturating_add(from), size }
    }

    pub fn size(&self) -> u64 {
        self.size
    }

    /// The bytes of a range; none where it is not within the piece.
    pub fn bytes(&self, from: u64, to: u64) -> Option<Vec<u8>> {
        // The range may come from a damaged file: it must not decide how much memory is taken.
        let wanted = to.checked_sub(from).filter(|_| to <= self.size)?;
        let file = self.open().ok()?;
        let end = file.metadata().ok()?.len();
        if self.from.checked_add(to)? > end {
            return None;
        }
        let mut bytes = vec![0; usize::try_from(wanted).ok()?];
        file.read_exact_at(&mut bytes, self.from + from).ok()?;
        Some(bytes)
    }

    /// Reads it from its beginning to its end.
    pub(crate) fn reader(&self) -> impl Read + use<> {
        Reader { piece: self.clone(), file: None, at: 0 }
    }

    /// Reads it in bounded memory and passes on each chunk.
    pub(crate) fn digest(&self, mut each: impl FnMut(&[u8]) -> io::Result<()>) -> io::Result<Digest> {
        let (mut sha256, mut crc32, mut size) = (Sha256::new(), crc32fast::Hasher::new(), 0);
        for_each_chunk(
            self.reader(),
            |error| error,
            |chunk| {
                size += chunk.len() as u64;
                sha256.update(chunk);
                crc32.update(chunk);
                each(chunk)
            },
        )?;
        Ok(Digest { size, sha256: hex::encode(sha256.finalize()), crc32: crc32.finalize() })
    }
}

struct Reader {
    piece: Piece,
    file: Option<Arc<File>>,
    at: u64,
}

impl Read for Reader {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let left = usize::try_from(self.piece.size - self.at).unwrap_or(usize::MAX);
        let wanted = buffer.len().min(left);
        let from = self.piece.from.saturating_add(self.at);
        let file = match self.file.take() {
            Some(file) => file,
            None => self.piece.open()?,
        };
        let read = self.file.insert(file).read_at(&mut buffer[..wanted], from)?;
        self.at += read as u64;
        Ok(read)
    }
}
