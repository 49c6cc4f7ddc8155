//! Folders, created with their parents.

use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::Path;

use super::error::Error;
use super::step::step;

pub(crate) fn create_folder(path: &Path) -> Result<(), Error> {
    step("create", path)?;
    fs::create_dir_all(path).map_err(Error::on("create", path))
}

/// Creates the folder that a file is to be written in.
pub(crate) fn create_parent(file: &Path) -> Result<(), Error> {
    create_folder(parent(file))
}

/// Creates a new folder with this mode, as far as the process's umask allows it, and its parents where they are missing.
pub(crate) fn create_folder_with_mode(path: &Path, mode: u32) -> Result<(), Error> {
    step("create", path)?;
    let create = || DirBuilder::new().mode(mode).create(path);
    let created = match create() {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            create_parent(path)?;
            create()
        }
        created => created,
    };
    created.map_err(Error::on("create", path))
}

/// Creates a folder that only its owner can enter; one that exists keeps its permissions.
pub(crate) fn create_private_folder(path: &Path) -> Result<(), Error> {
    step("create", path)?;
    DirBuilder::new().recursive(true).mode(0o700).create(path).map_err(Error::on("create", path))
}

/// Creates a folder that only its owner can enter, in a folder that is there; an error if anything is at its path.
pub(crate) fn create_new_folder(path: &Path) -> Result<(), Error> {
    step("create", path)?;
    DirBuilder::new().mode(0o700).create(path).map_err(Error::on("create", path))
}

/// The folder a path is in; `.` for a bare name.
pub(crate) fn parent(path: &Path) -> &Path {
    match path.parent() {
        Some(parent) if parent != Path::new("") => parent,
        Some(_) | None => Path::new("."),
    }
}
