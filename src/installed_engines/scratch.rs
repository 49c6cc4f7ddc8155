//! Files of this room: throw-away folders, and files written whole.

use std::fs;
use std::io::{self, Write};
use std::path::Path;

/// Calls with a folder that is gone afterwards.
pub(super) fn with<T>(below: &Path, work: impl FnOnce(&Path) -> T) -> io::Result<T> {
    fs::create_dir_all(below)?;
    let folder = tempfile::Builder::new().prefix("scratch-").tempdir_in(below)?;
    Ok(work(folder.path()))
}

/// Writes a file so that a reader sees the old content or the new, never a part, and that it survives a power cut.
pub(super) fn write_whole(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let folder = path.parent().unwrap_or(Path::new("."));
    fs::create_dir_all(folder)?;
    let mut temporary = tempfile::Builder::new().prefix(".").suffix(".tmp").tempfile_in(folder)?;
    temporary.write_all(bytes)?;
    temporary.as_file().sync_all()?;
    temporary.persist(path).map_err(|failed| failed.error)?;
    fs::File::open(folder)?.sync_all()
}
