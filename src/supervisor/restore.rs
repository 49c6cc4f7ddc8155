//! A log file restored at its path, whatever an engine put there.

use std::fs::{self, File};
use std::io::{self, Seek};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use crate::files::{self, Error};

/// Makes sure that the content of `file` is at `path`. Anything else there is moved aside, and no link is followed.
pub(crate) fn restore(mut file: &File, path: &Path) -> Result<(), Error> {
    let ours = file.metadata().map_err(Error::on("look at", path))?;
    if let Some(folder) = path.parent().filter(|folder| !folder.as_os_str().is_empty()) {
        // The run's own folder first: an engine can close each of them to the service's user, or put a link in the place of this one.
        folder.parent().map_or(Ok(()), files::regain)?;
        files::regain(folder)?;
        files::ensure_folder(folder)?;
    }
    files::regain(path)?;
    if fs::symlink_metadata(path).is_ok_and(|found| (found.dev(), found.ino()) == (ours.dev(), ours.ino())) {
        return Ok(());
    }
    tracing::warn!(path = %path.display(), "the engine removed or replaced its own log; restoring it");
    files::ensure_absent(path)?;
    // As a copy: a file that has lost its last name cannot get another.
    let mut copy = files::create_new(path, false)?;
    let copied = file.rewind().and_then(|()| io::copy(&mut file, &mut copy)).and_then(|_| copy.sync_all());
    copied.map_err(Error::on("restore", path))
}
