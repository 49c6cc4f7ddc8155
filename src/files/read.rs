//! Whole files, read at once.

use std::fs;
use std::io;
use std::path::Path;

use super::error::Error;

/// The content of a file; none when there is no such file.
pub(crate) fn read_optional(path: &Path) -> Result<Option<Vec<u8>>, Error> {
    match fs::read(path) {
        Ok(bytes) => Ok(Some(bytes)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(Error::on("read", path)(error)),
    }
}
