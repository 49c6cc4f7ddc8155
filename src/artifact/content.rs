//! Contents of files: read and hashed in bounded memory, written whole.

use std::fs::{File, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};

use super::Error;
use crate::domain::cache_key::hex;

const CHUNK_BYTES: usize = 64 * 1024;

/// Why a file that was listed a moment ago is left out after all.
pub(super) const UNREADABLE: &str = "it cannot be read";

/// Opens a file that the walk listed; what took its place since then is neither followed nor waited for. Nothing is
/// returned for a file that its owner made unreadable, or that is none any more: that is no failure of the runner.
pub(super) fn open(path: &Path) -> Result<Option<File>, Error> {
    let flags = rustix::fs::OFlags::NOFOLLOW | rustix::fs::OFlags::NONBLOCK;
    let opened = OpenOptions::new().read(true).custom_flags(flags.bits().cast_signed()).open(path);
    let file = match opened {
        Ok(file) => file,
        Err(error) if skills_doing(error.kind()) => return Ok(None),
        Err(error) => return Err(Error::on("open", path)(error)),
    };
    let found = file.metadata().map_err(Error::on("look at", path))?;
    Ok(found.is_file().then_some(file))
}

/// Failures that a skill can cause in its own folder.
pub(super) fn skills_doing(kind: io::ErrorKind) -> bool {
    matches!(kind, io::ErrorKind::PermissionDenied | io::ErrorKind::NotFound)
}

/// Reads a file to its end in bounded memory, handing each chunk on; returns its length and its sha256 in hex.
pub(super) fn digest(
    file: &mut File,
    path: &Path,
    chunk: &mut Chunk,
    mut also: impl FnMut(&[u8]) -> Result<(), Error>,
) -> Result<(u64, String), Error> {
    let mut hasher = Sha256::new();
    let mut size = 0;
    loop {
        let count = file.read(&mut chunk.0).map_err(Error::on("read", path))?;
        if count == 0 {
            break;
        }
        size += count as u64;
        hasher.update(&chunk.0[..count]);
        also(&chunk.0[..count])?;
    }
    Ok((size, hex(&hasher.finalize())))
}

/// The buffer through which files are read, one after the other.
pub(super) struct Chunk(Vec<u8>);

impl Chunk {
    pub(super) fn new() -> Self {
        Self(vec![0; CHUNK_BYTES])
    }
}

/// Writes a file whole: a temporary file in the same folder, then a rename.
pub(super) fn replace(path: &Path, write: impl FnOnce(&mut File) -> Result<(), Error>) -> Result<(), Error> {
    let folder: PathBuf = path.parent().map(Path::to_owned).unwrap_or_default();
    // A skill may have put a link there: the runner, which may write anywhere, would write wherever it points.
    if std::fs::symlink_metadata(&folder).is_ok_and(|found| found.is_symlink()) {
        return Err(Error::on("write in", &folder)(io::Error::other("it is a link, not a folder")));
    }
    let mut temporary = tempfile::Builder::new()
        .prefix(".")
        .suffix(".tmp")
        .permissions(std::os::unix::fs::PermissionsExt::from_mode(0o644))
        .tempfile_in(&folder)
        .map_err(Error::on("create a temporary file in", &folder))?;
    write(temporary.as_file_mut())?;
    temporary.persist(path).map(drop).map_err(|failed| Error::on("rename to", path)(failed.error))
}
