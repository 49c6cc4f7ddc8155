//! The result file a skill leaves: read only when it was written in this turn, and kept as it was.

use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use crate::domain::run_file::{RunFile, RunFolder};
use crate::engine::script;
use crate::files::{self, LookupError};
use crate::orchestrator::error::Error;
use crate::workspace::RunPaths;

/// A file at a moment: another file in its place, or a write to it, makes another mark.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FileMark {
    inode: u64,
    changed: (i64, i64),
    size: u64,
}

/// The mark of the result file as it is now; none when there is no file.
pub(crate) fn mark(paths: &RunPaths, named: Option<&str>) -> Option<FileMark> {
    let file = files::open_beneath(&paths.root, path(named)).ok()?;
    let found = file.metadata().ok()?;
    Some(FileMark { inode: found.ino(), changed: (found.ctime(), found.ctime_nsec()), size: found.len() })
}

/// The text of the result file, unless it is still the one that was there `before`; kept at `place`, since the final
/// result takes its place.
pub(crate) fn keep(
    paths: &RunPaths,
    named: Option<&str>,
    before: Option<FileMark>,
    place: &Path,
) -> Result<Option<String>, Error> {
    if before.is_some() && mark(paths, named) == before {
        return Ok(None);
    }
    let written = path(named);
    // The path is the skill's, and so are the folders on the way: nothing outside the run is ever read.
    let bytes = match files::read_beneath(&paths.root, written, script::STDOUT_MAX) {
        Ok(Some(bytes)) => bytes,
        Ok(None) | Err(LookupError::Unsafe { .. } | LookupError::NotFound | LookupError::NotAFile) => return Ok(None),
        // A skill can make its own file unreadable; that is no failure of the runner.
        Err(LookupError::Io { source }) if source.kind() == ErrorKind::PermissionDenied => return Ok(None),
        Err(LookupError::Io { source }) => return Err(Error::io(format!("read {}", written.display()))(source)),
    };
    files::write_own(place, &bytes)?;
    Ok(Some(text_of(bytes)))
}

/// Removes `result/result.json`, so that only what is written from now on is found there.
pub(crate) fn clear(paths: &RunPaths) -> Result<(), Error> {
    // A link in the folder's place would lead to another file of that name.
    files::ensure_folder(&paths.folder(RunFolder::Result))?;
    match files::remove_file(&paths.file(RunFile::Result)) {
        Err(error) if error.kind() == ErrorKind::IsADirectory => Ok(files::ensure_absent(&error.path)?),
        removed => Ok(removed?),
    }
}

/// Bytes as text; what is not UTF-8 becomes replacement characters.
pub(crate) fn text_of(bytes: Vec<u8>) -> String {
    String::from_utf8(bytes).unwrap_or_else(|broken| String::from_utf8_lossy(broken.as_bytes()).into_owned())
}

fn path(named: Option<&str>) -> &Path {
    Path::new(named.unwrap_or(RunFile::Result.name()))
}
