//! An open file is given its name again, whatever an engine put in its place.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;

/// Makes `path` name the content of `file`, if it no longer does. What stands in the way is moved aside, not followed.
pub(super) fn put_back(file: &File, path: &Path) -> io::Result<()> {
    let ours = file.metadata()?;
    if fs::symlink_metadata(path).is_ok_and(|found| (found.dev(), found.ino()) == (ours.dev(), ours.ino())) {
        return Ok(());
    }
    tracing::warn!(path = %path.display(), "a log is not in its place; putting it back");
    if let Some(folder) = path.parent() {
        if fs::symlink_metadata(folder).is_ok_and(|found| !found.is_dir()) {
            move_aside(folder)?;
        }
        fs::create_dir_all(folder)?;
    }
    if fs::symlink_metadata(path).is_ok() {
        move_aside(path)?;
    }
    // A copy, since a file that has lost its last name cannot be given another.
    let copy = File::create_new(path)?;
    let mut chunk = vec![0; 64 * 1024];
    let mut at = 0;
    loop {
        let count = file.read_at(&mut chunk, at)?;
        if count == 0 {
            return copy.sync_all();
        }
        copy.write_all_at(chunk.get(..count).unwrap_or_default(), at)?;
        at += count as u64;
    }
}

/// By a rename: whatever it is, and however much, it is done at one stroke and nothing is lost.
fn move_aside(path: &Path) -> io::Result<()> {
    let mut number = 1_u32;
    loop {
        let mut name = OsString::from(format!(".aside-{number}-"));
        name.push(path.file_name().unwrap_or_default());
        let aside = path.with_file_name(name);
        if fs::symlink_metadata(&aside).is_err() {
            return fs::rename(path, aside);
        }
        number += 1;
    }
}
