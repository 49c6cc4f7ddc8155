//! A run's files, opened and hashed, with a limit on the bytes that are read.

use std::fs::File;
use std::io;
use std::path::Path;

use sha2::{Digest, Sha256};

use crate::files::{Error, LookupError, Shortage, for_each_chunk, open_beneath};

/// Most bytes of a run's files that are read. A skill can make a sparse file longer than any disk in no time; to read it to
/// its end would keep the run from ending for hours.
const MAX_BYTES: u64 = 4 << 30;

/// The reason to leave out a file that was listed but cannot be read.
pub(crate) const UNREADABLE: &str = "it cannot be read";

/// The reason to leave out a file that is longer than what may still be read.
pub(crate) const TOO_LARGE: &str = "with it, the files would be larger than 4 GiB";

/// How much of a run's files may still be read.
pub(crate) struct Budget(u64);

impl Budget {
    pub(crate) fn new() -> Self {
        Self(MAX_BYTES)
    }

    /// Whether a file may be read; one that is too long leaves the budget as it is.
    pub(crate) fn allows(&mut self, file: &File, path: &Path) -> Result<bool, Error> {
        let length = file.metadata().map_err(Error::on("look at", path))?.len();
        let left = self.0.checked_sub(length);
        self.0 = left.unwrap_or(self.0);
        Ok(left.is_some())
    }
}

/// Opens a file that was listed; none when the skill made it unreadable, or replaced it since by something else.
pub(crate) fn open(run_root: &Path, path_rel: &str) -> Result<Option<File>, Error> {
    match open_beneath(run_root, Path::new(path_rel)) {
        Ok(file) => Ok(Some(file)),
        Err(LookupError::Unsafe { .. } | LookupError::NotFound | LookupError::NotAFile) => Ok(None),
        Err(LookupError::Io { source }) if is_of_the_file(&source) => Ok(None),
        Err(LookupError::Io { source }) => Err(Error::on("open", &run_root.join(path_rel))(source)),
    }
}

/// Whether a failure has to do with the file or folder itself. A skill can cause many of them in its own folder: no
/// permission, paths longer than can be opened. They last, so the file is left out. Only a shortage of the machine passes.
pub(crate) fn is_of_the_file(error: &io::Error) -> bool {
    Shortage::behind(error).is_none()
}

/// Reads a file to its end and passes on each chunk; returns its length and its sha256 in hex.
pub(crate) fn digest(
    file: File,
    path: &Path,
    mut each: impl FnMut(&[u8]) -> Result<(), Error>,
) -> Result<(u64, String), Error> {
    let mut hasher = Sha256::new();
    let mut size = 0;
    for_each_chunk(file, Error::on("read", path), |chunk| {
        size += chunk.len() as u64;
        hasher.update(chunk);
        each(chunk)
    })?;
    Ok((size, hex::encode(hasher.finalize())))
}
