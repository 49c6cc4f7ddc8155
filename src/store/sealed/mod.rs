//! Sealed logs: the events of a finished run as one file, `events.jsonl`, read at file speed.
//!
//! The index next to it, `events.idx`, says where every 128th event begins; if it is missing or does not fit, it is
//! rebuilt from the file.

use std::fs::File;
use std::io::{BufWriter, ErrorKind, Read, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use bytes::Bytes;

use self::index::{Builder, INTERVAL, Index};
use super::batch::{count_lines, end_of};
use super::{Error, EventBatch};
use crate::domain::event::EVENT_MAX;
use crate::domain::ids::Seq;
use crate::files::{self, open_regular};

mod index;

/// Logs shorter than this have no index.
const INDEXED_FROM: u64 = 8 * 1024;

/// Most bytes that are written by one call.
const WRITTEN_AT_ONCE: usize = 256 * 1024;

/// What a finished seal holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Sealed {
    pub(crate) head: Seq,
    /// The length of the file.
    pub(crate) bytes: u64,
}

/// A sealed log being written, page by page. For every process the file appears complete or not at all; it survives a
/// power cut only after a sync of its file system, which is the caller's to make before the events leave the store: one
/// sync then serves all the seals since the last.
pub(crate) struct Sealing {
    path: PathBuf,
    out: BufWriter<tempfile::NamedTempFile>,
    index: Builder,
    head: Seq,
}

impl Sealing {
    /// Begin the file that will be at `path`, with so many bytes at first.
    pub(crate) fn begin(path: &Path, bytes: usize) -> Result<Self, Error> {
        let out = BufWriter::with_capacity(bytes.min(WRITTEN_AT_ONCE), temp_in(folder_of(path))?);
        Ok(Self { path: path.to_owned(), out, index: Builder::default(), head: Seq::START })
    }

    /// Add the events that follow.
    pub(crate) fn push(&mut self, batch: &EventBatch) -> Result<(), Error> {
        if let Some(reason) = batch.flaw() {
            return Err(Error::Malformed { reason });
        }
        if batch.first != self.head.next() {
            return Err(Error::Malformed { reason: format!("a batch begins at {} after {}", batch.first, self.head) });
        }
        self.out.write_all(&batch.ndjson).map_err(Error::io("write", &self.path))?;
        self.index.add(&batch.ndjson);
        self.head = batch.last();
        Ok(())
    }

    /// Put the file in its place.
    pub(crate) fn finish(self) -> Result<Sealed, Error> {
        let Self { path, out, index, .. } = self;
        let temp = out.into_inner().map_err(|error| Error::io("write", &path)(error.into_error()))?;
        let index = index.finish();
        let sealed = Sealed { head: index.head, bytes: index.log_bytes };
        // The index first: a log without one would be scanned, an index without a log is never looked at.
        write_index(&path, &index)?;
        files::step("rename to", &path)?;
        temp.persist(&path).map_err(|error| Error::io("write", &path)(error.error))?;
        Ok(sealed)
    }
}

/// A sealed log, open for reading. Any number of readers may share it.
#[derive(Debug)]
pub(crate) struct SealedLog {
    path: PathBuf,
    file: File,
    index: Index,
}

impl SealedLog {
    /// Opens the log at `path`, which has `head` events, making its index anew if it is missing or wrong.
    pub(crate) fn open(path: &Path, head: Seq) -> Result<SealedLog, Error> {
        let file = open_regular(path)?;
        let bytes = file.metadata().map_err(Error::io("read", path))?.len();
        // Whatever is wrong with the index, it can be made again from the log.
        let stored = read_index(path).and_then(|stored| Index::decode(&stored));
        let stored = stored.filter(|index| index.log_bytes == bytes && index.head == head);
        let index = match stored {
            Some(index) if index.fits(&file).map_err(Error::io("read", path))? => index,
            Some(_) | None => rebuild(path, &file, head)?,
        };
        Ok(SealedLog { path: path.to_path_buf(), file, index })
    }

    /// Events from exactly `after + 1` on: as many as fit `max_bytes`, but at least one if there is any.
    pub(crate) fn read(&self, after: Seq, max_bytes: usize) -> Result<Vec<EventBatch>, Error> {
        if after >= self.index.head {
            return Ok(Vec::new());
        }
        let (block, skipped) = ((after.0 / INTERVAL) as usize, (after.0 % INTERVAL) as u32);
        let start = self.index.offset(block);
        let lead = if skipped == 0 { 0 } else { self.index.offset(block + 1) - start };
        let mut wanted = lead.saturating_add(max_bytes as u64);
        loop {
            let bytes = self.read_bytes(start, wanted)?;
            let complete = bytes.len() as u64 >= self.index.log_bytes - start;
            let from = end_of(&bytes, skipped);
            let fitting = &bytes[from..bytes.len().min(from.saturating_add(max_bytes))];
            let end = match fitting.iter().rposition(|byte| *byte == b'\n') {
                Some(newline) => from + newline + 1,
                // No event fits: the first is returned nevertheless, once it is read to its end.
                None => from + end_of(&bytes[from..], 1),
            };
            if end > from && bytes[end - 1] == b'\n' {
                let ndjson = bytes.slice(from..end);
                let count = u32::try_from(count_lines(&ndjson)).unwrap_or(u32::MAX);
                return Ok(vec![EventBatch { first: after.next(), count, ndjson }]);
            }
            if complete {
                let reason = format!("event {} is missing", after.next());
                return Err(Error::CorruptFile { path: self.path.clone(), reason });
            }
            wanted = wanted.saturating_mul(2).max(64 * 1024);
        }
    }

    fn read_bytes(&self, start: u64, wanted: u64) -> Result<Bytes, Error> {
        let len = wanted.min(self.index.log_bytes - start);
        let mut bytes = vec![0; usize::try_from(len).unwrap_or(usize::MAX)];
        self.file.read_exact_at(&mut bytes, start).map_err(Error::io("read", &self.path))?;
        Ok(bytes.into())
    }
}

/// Makes the index from the log itself. No more is read than tells that this is no log of so many events, however long it is.
fn rebuild(path: &Path, file: &File, head: Seq) -> Result<Index, Error> {
    let corrupt = |reason: String| Error::CorruptFile { path: path.to_path_buf(), reason };
    let mut builder = Builder::default();
    let mut buffer = vec![0; 1024 * 1024];
    let mut last = b'\n';
    loop {
        let len = match file.read_at(&mut buffer, builder.log_bytes()) {
            Ok(0) => break,
            Ok(len) => len,
            Err(error) if error.kind() == ErrorKind::Interrupted => continue,
            Err(error) => return Err(Error::io("read", path)(error)),
        };
        builder.add(&buffer[..len]);
        last = buffer[len - 1];
        if builder.lines() > head.0 {
            return Err(corrupt(format!("it has more than the {head} events that were recorded")));
        }
        if builder.unended() > EVENT_MAX {
            return Err(corrupt(format!("event {} has no end", builder.lines() + 1)));
        }
    }
    if last != b'\n' {
        return Err(corrupt("its last line has no end".to_owned()));
    }
    let index = builder.finish();
    if index.head != head {
        return Err(corrupt(format!("it has {} events, and should have {head}", index.head)));
    }
    if let Err(error) = write_index(path, &index) {
        // The log can be read all the same, only each opening takes longer.
        tracing::warn!(path = %path.display(), %error, "the index of a sealed log could not be written");
    }
    Ok(index)
}

fn read_index(log: &Path) -> Option<Vec<u8>> {
    let mut stored = Vec::new();
    open_regular(&index_path(log)).ok()?.read_to_end(&mut stored).ok()?;
    Some(stored)
}

fn write_index(log: &Path, index: &Index) -> Result<(), Error> {
    let path = index_path(log);
    if index.log_bytes < INDEXED_FROM {
        // A short log is read quickly without an index.
        return Ok(files::remove_file(&path)?);
    }
    files::step("write", &path)?;
    let mut temp = temp_in(folder_of(log))?;
    temp.write_all(&index.encode()).map_err(Error::io("write", &path))?;
    temp.persist(&path).map_err(|error| Error::io("write", &path)(error.error))?;
    Ok(())
}

fn temp_in(folder: &Path) -> Result<tempfile::NamedTempFile, Error> {
    // A recognisable name, so that files left by a killed process can be removed.
    tempfile::Builder::new()
        .prefix(".events-")
        .suffix(".tmp")
        .tempfile_in(folder)
        .map_err(Error::io("write in", folder))
}

fn index_path(log: &Path) -> PathBuf {
    log.with_extension("idx")
}

fn folder_of(path: &Path) -> &Path {
    path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

#[cfg(test)]
mod tests;
