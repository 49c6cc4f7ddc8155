//! Raw output and the log: how far events cover a stream, and facts for the bytes that none covers.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{ErrorKind, Read, Seek, SeekFrom};
use std::path::Path;

use bytes::Bytes;

use crate::domain::event::RAW_TEXT_MAX;
use crate::domain::fact::{Fact, Stream};
use crate::domain::ids::{RunId, Seq};
use crate::domain::run_file::RunFile;
use crate::engine::{LineParser, Reading, StreamReader};
use crate::fcmp::read_envelope;
use crate::files;
use crate::orchestrator::error::Error;
use crate::orchestrator::log::run_log::RunLog;
use crate::store::{EventBatch, RawPiece};
use crate::workspace::RunPaths;

/// How much of a stream is read at once.
const PIECE_BYTES: usize = 64 * 1024;

/// Most bytes of a stream that its file has and the log has not: an engine waits long before. What is behind them was written by
/// others, and goes.
const REST_MAX: u64 = 16 * 1024 * 1024;

/// How many bytes of standard output and standard error the log covers.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Coverage {
    pub stdout: u64,
    pub stderr: u64,
}

impl Coverage {
    /// How far a run's log covers its streams.
    pub(crate) async fn of(log: &RunLog, run: RunId) -> Result<Self, Error> {
        let mut covered = Self::default();
        let mut events = log.events(run, Seq::START);
        while let Some(page) = events.next_page().await? {
            for (_, bytes) in page.iter().flat_map(EventBatch::events) {
                let envelope = read_envelope(&bytes)
                    .map_err(|error| Error::Corrupt { run: run.to_string(), message: error.to_string() })?;
                if let Some(raw) = envelope.raw_ref {
                    match raw.stream {
                        Stream::Stdout => covered.stdout = covered.stdout.max(raw.byte_to),
                        Stream::Stderr => covered.stderr = covered.stderr.max(raw.byte_to),
                        // No engine is read through a pseudo-terminal.
                        Stream::Pty => {}
                    }
                }
            }
        }
        Ok(covered)
    }

    /// Cut the files to what the log covers: bytes behind that are of a start that was never logged. Blocks.
    pub(crate) fn cut_files(self, paths: &RunPaths) -> Result<(), Error> {
        cut(&paths.file(RunFile::Stdout), self.stdout)?;
        cut(&paths.file(RunFile::Stderr), self.stderr)
    }

    /// What reached the files and not the log. The files are durable then. Blocks.
    pub(crate) fn rest(self, paths: &RunPaths) -> Result<Rest, Error> {
        let mut streams = VecDeque::new();
        for (stream, path, covered) in [
            (Stream::Stdout, paths.file(RunFile::Stdout), self.stdout),
            (Stream::Stderr, paths.file(RunFile::Stderr), self.stderr),
        ] {
            let mut file = match files::open_regular(&path) {
                Ok(file) => file,
                Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::InvalidInput) => continue,
                Err(error) => return Err(error.into()),
            };
            cut(&path, covered.saturating_add(REST_MAX))?;
            let doing = format!("read {}", path.display());
            let ready = file.seek(SeekFrom::Start(covered)).and_then(|_| file.sync_data());
            ready.map_err(Error::io(doing.clone()))?;
            let reader = StreamReader::new(stream, covered, RAW_TEXT_MAX);
            streams.push_back(RestOfStream { stream, at: covered, file, reader, doing });
        }
        Ok(Rest(streams))
    }
}

/// Bytes that no event covers, read piece by piece: they may be many.
pub(crate) struct Rest(VecDeque<RestOfStream>);

struct RestOfStream {
    stream: Stream,
    /// How far it is read.
    at: u64,
    file: File,
    reader: StreamReader,
    doing: String,
}

impl Rest {
    /// Facts for the next bytes, and the bytes; none when all are read. Blocks.
    pub(crate) fn next(&mut self) -> Result<(Vec<Fact>, Vec<RawPiece>), Error> {
        let (mut facts, mut pieces, mut piece) = (Vec::new(), Vec::new(), vec![0; PIECE_BYTES]);
        while facts.is_empty()
            && let Some(RestOfStream { stream, at, file, reader, doing }) = self.0.front_mut()
        {
            match file.read(&mut piece) {
                Ok(0) => {
                    reader.flush(&mut NoParser, &mut facts);
                    self.0.pop_front();
                }
                Ok(count) => {
                    let bytes = piece.get(..count).unwrap_or_default();
                    reader.push(bytes, &mut NoParser, &mut facts);
                    pieces.push(RawPiece { stream: *stream, from: *at, bytes: Bytes::copy_from_slice(bytes) });
                    *at = at.saturating_add(bytes.len() as u64);
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(Error::io(doing.clone())(error)),
            }
        }
        Ok((facts, pieces))
    }
}

fn cut(path: &Path, covered: u64) -> Result<(), Error> {
    match files::cut(path, covered) {
        // A stream without output may have been removed with a start that was undone.
        Err(error) if error.kind() == ErrorKind::NotFound && covered == 0 => Ok(()),
        cut => Ok(cut?),
    }
}

/// After a crash every line is evidence, and none is an event of the engine.
struct NoParser;

impl LineParser for NoParser {
    fn read(&mut self, _: Stream, _: &str) -> Reading {
        Reading::Unclaimed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bytes_that_no_event_covers_come_with_their_facts() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("stdout");
        std::fs::write(&path, "covered\nthe rest\n").unwrap();
        let mut file = File::open(&path).unwrap();
        file.seek(SeekFrom::Start(8)).unwrap();
        let reader = StreamReader::new(Stream::Stdout, 8, RAW_TEXT_MAX);
        let stream = Stream::Stdout;
        let mut rest = Rest(VecDeque::from([RestOfStream { stream, at: 8, file, reader, doing: "read it".into() }]));
        let (facts, pieces) = rest.next().unwrap();
        assert_eq!(facts.len(), 1, "{facts:?}");
        assert_eq!(pieces, [RawPiece { stream, from: 8, bytes: Bytes::from_static(b"the rest\n") }]);
        assert_eq!(rest.next().unwrap(), (Vec::new(), Vec::new()));
    }

    #[test]
    fn output_that_cannot_be_read_is_an_error_and_not_read_for_ever() {
        // A folder can be opened, and each read of it fails.
        let folder = tempfile::tempdir().unwrap();
        let file = File::open(folder.path()).unwrap();
        let reader = StreamReader::new(Stream::Stdout, 0, RAW_TEXT_MAX);
        let stream = Stream::Stdout;
        let mut rest = Rest(VecDeque::from([RestOfStream { stream, at: 0, file, reader, doing: "read it".into() }]));
        assert!(matches!(rest.next(), Err(Error::Io { doing, .. }) if doing == "read it"));
    }
}
