//! The raw streams of a run as they are on disk.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{ErrorKind, Read};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};

use crate::cli::failure::Failure;
use crate::domain::cache_key::hex;
use crate::domain::fact::Stream;
use crate::domain::outcome::StreamProof;

const ALL: [Stream; 3] = [Stream::Stdout, Stream::Stderr, Stream::Pty];
const CHUNK_BYTES: usize = 256 * 1024;

/// The stream files of one run.
pub(super) struct Streams {
    logs: PathBuf,
    open: BTreeMap<Stream, File>,
}

impl Streams {
    /// Those in this folder.
    pub(super) fn new(logs: PathBuf) -> Self {
        Self { logs, open: BTreeMap::new() }
    }

    /// The name of a stream's file in the run.
    pub(super) fn name(stream: Stream) -> String {
        format!("logs/{}.txt", stream.as_str())
    }

    fn path(&self, stream: Stream) -> PathBuf {
        self.logs.join(format!("{}.txt", stream.as_str()))
    }

    /// Length and hash of each file that is there.
    pub(super) fn proofs(&self) -> Result<BTreeMap<Stream, StreamProof>, Failure> {
        let mut proofs = BTreeMap::new();
        for stream in ALL {
            if let Some(proof) = proof_of(&self.path(stream))? {
                proofs.insert(stream, proof);
            }
        }
        Ok(proofs)
    }

    /// The bytes at a place of a stream; none when the file is not there or shorter.
    pub(super) fn bytes(&mut self, stream: Stream, from: u64, to: u64) -> Option<Vec<u8>> {
        let path = self.path(stream);
        if let std::collections::btree_map::Entry::Vacant(place) = self.open.entry(stream) {
            place.insert(File::open(path).ok()?);
        }
        let file = self.open.get(&stream)?;
        // The range comes from a log that may be damaged: it must not decide how much memory is taken.
        let length = file.metadata().ok()?.len();
        let wanted = to.checked_sub(from).filter(|_| to <= length)?;
        let mut bytes = vec![0; usize::try_from(wanted).ok()?];
        file.read_exact_at(&mut bytes, from).ok()?;
        Some(bytes)
    }
}

fn proof_of(path: &Path) -> Result<Option<StreamProof>, Failure> {
    let reading = || format!("read {}", path.display());
    let mut file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(Failure::broken(reading())(error)),
    };
    let (mut hash, mut bytes) = (Sha256::new(), 0);
    let mut chunk = vec![0; CHUNK_BYTES];
    loop {
        let read = file.read(&mut chunk).map_err(Failure::broken(reading()))?;
        if read == 0 {
            return Ok(Some(StreamProof { bytes, sha256: hex(&hash.finalize()) }));
        }
        bytes += read as u64;
        hash.update(&chunk[..read]);
    }
}
