//! The raw streams of a run, read from its files.

use std::collections::BTreeMap;

use crate::audit::error::Error;
use crate::audit::files::RunFiles;
use crate::domain::fact::Stream;
use crate::domain::outcome::StreamProof;
use crate::domain::run_file::RunFile;
use crate::export::Piece;

const ALL: [Stream; 3] = [Stream::Stdout, Stream::Stderr, Stream::Pty];

/// The stream files of one run; those of a live run may grow.
#[derive(Debug)]
pub(crate) struct Streams<'a> {
    files: &'a RunFiles,
    open: BTreeMap<Stream, Piece>,
}

impl<'a> Streams<'a> {
    pub(crate) fn new(files: &'a RunFiles) -> Self {
        Self { files, open: BTreeMap::new() }
    }

    /// The name of a stream's file in the run.
    pub(crate) fn name(stream: Stream) -> &'static str {
        RunFile::of_stream(stream).name()
    }

    /// Length and hash of each file that is there. One that is longer than the log of the finished run says is not read, however long
    /// it is: it is not what it was.
    pub(crate) fn proofs(
        &self,
        claimed: &BTreeMap<Stream, StreamProof>,
    ) -> Result<BTreeMap<Stream, StreamProof>, Error> {
        let mut proofs = BTreeMap::new();
        for stream in ALL {
            let name = Self::name(stream);
            if let Some(piece) = self.files.open(name) {
                if claimed.get(&stream).is_some_and(|claimed| claimed.bytes < piece.size()) {
                    proofs.insert(stream, StreamProof { bytes: piece.size(), sha256: String::new() });
                    continue;
                }
                let digest = piece.digest(|_| Ok(())).map_err(Error::read(name))?;
                proofs.insert(stream, StreamProof { bytes: digest.size, sha256: digest.sha256 });
            }
        }
        Ok(proofs)
    }

    /// The bytes at a place of a stream; none when the file is not there or shorter.
    pub(crate) fn bytes(&mut self, stream: Stream, from: u64, to: u64) -> Option<Vec<u8>> {
        if let Some(bytes) = self.open.get(&stream).and_then(|piece| piece.bytes(from, to)) {
            return Some(bytes);
        }
        // Not opened yet, or grown since then.
        let piece = self.files.open(Self::name(stream))?;
        let bytes = piece.bytes(from, to);
        self.open.insert(stream, piece);
        bytes
    }
}
