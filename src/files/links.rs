//! Second names for files, and links to other places.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use super::error::Error;
use super::step::step;

/// Gives a file a second name, where nothing is yet.
pub(crate) fn link(from: &Path, to: &Path) -> Result<(), Error> {
    step("link", to)?;
    fs::hard_link(from, to).map_err(Error::on("link", to))
}

/// Makes a symbolic link that leads to `target`.
pub(crate) fn link_to(target: &Path, link: &Path) -> Result<(), Error> {
    step("link", link)?;
    symlink(target, link).map_err(Error::on("link", link))
}
