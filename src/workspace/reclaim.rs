//! The runner's own places in a run's folder, taken back from a skill that put something else there.

use std::ffi::OsString;
use std::fs;
use std::io;
use std::path::Path;

use super::Error;

/// Makes sure that a real folder is at `path`. What else stands there, a link above all, is moved aside.
pub(super) fn folder(path: &Path) -> Result<(), Error> {
    match fs::symlink_metadata(path) {
        Ok(found) if found.is_dir() => return Ok(()),
        Ok(_) => move_aside(path)?,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(Error::on("look at", path)(error)),
    }
    fs::create_dir_all(path).map_err(Error::on("create", path))
}

/// Makes sure that a file can be renamed to `path`: a folder there would not give way.
pub(super) fn file(path: &Path) -> Result<(), Error> {
    if fs::symlink_metadata(path).is_ok_and(|found| found.is_dir()) { move_aside(path) } else { Ok(()) }
}

/// Makes sure that nothing is at `path`.
pub(super) fn nothing(path: &Path) -> Result<(), Error> {
    if fs::symlink_metadata(path).is_ok() { move_aside(path) } else { Ok(()) }
}

/// By a rename: whatever it is, and however much, it is done at one stroke and nothing is lost.
fn move_aside(path: &Path) -> Result<(), Error> {
    tracing::warn!(path = %path.display(), "moving aside what stands in the runner's place");
    let mut number = 1_u32;
    loop {
        let mut name = OsString::from(format!(".aside-{number}-"));
        name.push(path.file_name().unwrap_or_default());
        let aside = path.with_file_name(name);
        if fs::symlink_metadata(&aside).is_err() {
            return fs::rename(path, aside).map_err(Error::on("move aside", path));
        }
        number += 1;
    }
}
