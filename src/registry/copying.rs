//! An author's folder as if it had been unpacked: the files of the package, and nothing else that lies there.

use std::fs::{self, OpenOptions};
use std::io;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use super::install::InstallRefused;
use super::staging::InstallError;
use crate::skill::Intake;

/// Copies a package into a folder, under its own name; the copy. One that breaks the rules is not copied.
pub(super) fn into(dir: &Path, folder: &Path) -> Result<PathBuf, InstallRefused> {
    let found = super::load_dir(dir, Intake::New).map_err(|findings| InstallRefused::Package { findings })?;
    let target = folder.join(found.dir.file_name().unwrap_or_default());
    for file in &found.files {
        let to = target.join(file);
        copy(&found.dir.join(file), &to).map_err(InstallError::on("copy to", &to))?;
    }
    Ok(target)
}

fn copy(from: &Path, to: &Path) -> io::Result<()> {
    fs::create_dir_all(to.parent().unwrap_or(to))?;
    // Should it have become a link or a pipe since it was looked at, opening it neither follows nor waits.
    let flags = libc::O_NOFOLLOW | libc::O_NONBLOCK;
    let mut source = OpenOptions::new().read(true).custom_flags(flags).open(from)?;
    let mode = if source.metadata()?.mode() & 0o111 == 0 { 0o644 } else { 0o755 };
    let mut target = OpenOptions::new().write(true).create_new(true).mode(mode).open(to)?;
    io::copy(&mut source, &mut target).map(drop)
}
