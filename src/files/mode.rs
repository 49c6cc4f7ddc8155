//! Who may do what with a file or a folder.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use super::error::Error;
use super::step::step;

/// Gives a file or a folder this mode. A link is followed.
pub(crate) fn set_mode(path: &Path, mode: u32) -> Result<(), Error> {
    step("change the permissions of", path)?;
    fs::set_permissions(path, Permissions::from_mode(mode)).map_err(Error::on("change the permissions of", path))
}
