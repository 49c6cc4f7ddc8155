//! A folder for the time of one call.

use std::fs;
use std::io;
use std::path::Path;

/// Calls `work` with a new folder that is removed afterwards.
pub(crate) fn with_temporary_folder<T>(below: &Path, work: impl FnOnce(&Path) -> T) -> io::Result<T> {
    fs::create_dir_all(below)?;
    let folder = tempfile::Builder::new().prefix("scratch-").tempdir_in(below)?;
    Ok(work(folder.path()))
}
