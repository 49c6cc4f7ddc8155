//! Clears paths that the runner needs of whatever a skill put there.

use std::ffi::OsString;
use std::fs;
use std::io;
use std::path::Path;

use super::error::Error;
use super::folder::create_folder;
use super::step::step;

/// Makes sure that a real folder is at `path`. Anything else there, also a link to a folder, is moved aside.
pub(crate) fn ensure_folder(path: &Path) -> Result<(), Error> {
    match fs::symlink_metadata(path) {
        Ok(found) if found.is_dir() => return Ok(()),
        Ok(_) => move_aside(path)?,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(Error::on("look at", path)(error)),
    }
    create_folder(path)
}

/// Makes sure that nothing is at `path`.
pub(crate) fn ensure_absent(path: &Path) -> Result<(), Error> {
    if fs::symlink_metadata(path).is_ok() { move_aside(path) } else { Ok(()) }
}

/// Renames what is at `path` to a free name beside it. A rename takes one step for a tree of any size, and loses nothing.
pub(crate) fn move_aside(path: &Path) -> Result<(), Error> {
    tracing::warn!(path = %path.display(), "something unexpected is at a path of the runner; moving it aside");
    let mut number = 1_u32;
    loop {
        let mut name = OsString::from(format!(".aside-{number}-"));
        name.push(path.file_name().unwrap_or_default());
        let aside = path.with_file_name(name);
        if fs::symlink_metadata(&aside).is_err() {
            step("move aside", path)?;
            return fs::rename(path, aside).map_err(Error::on("move aside", path));
        }
        number += 1;
    }
}
