//! An author's folder, copied as if it had been unpacked: the files of the package, and nothing else in the folder.

use std::path::{Path, PathBuf};

use super::load::load_dir;
use super::refused::InstallRefused;
use crate::files;
use crate::skill::Intake;

/// Copies a package into a folder, under its own name; returns the copy's path. One that breaks the rules is not copied.
pub(crate) fn into(dir: &Path, folder: &Path) -> Result<PathBuf, InstallRefused> {
    let found = load_dir(dir, Intake::New).map_err(InstallRefused::of(dir))?;
    let target = folder.join(found.dir.file_name().unwrap_or_default());
    for file in &found.files {
        let to = target.join(file);
        files::create_parent(&to)?;
        files::copy_new(&files::open_regular(&found.dir.join(file))?, &to)?;
    }
    Ok(target)
}
