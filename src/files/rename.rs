//! New names for files and folders.

use std::fs;
use std::path::Path;

use super::error::Error;
use super::step::step;

/// Renames a file or a folder. Durable only after a sync of both folders.
pub(crate) fn rename(from: &Path, to: &Path) -> Result<(), Error> {
    step("rename to", to)?;
    fs::rename(from, to).map_err(Error::on("rename to", to))
}
