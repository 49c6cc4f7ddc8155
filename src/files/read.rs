//! Whole files, read at once.

use std::fs;
use std::io::{self, Read};
use std::path::Path;

use super::error::Error;
use super::open::{LookupError, open_beneath, open_regular};

/// The content of a file; none when there is no such file.
pub(crate) fn read_optional(path: &Path) -> Result<Option<Vec<u8>>, Error> {
    match fs::read(path) {
        Ok(bytes) => Ok(Some(bytes)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(Error::on("read", path)(error)),
    }
}

/// The content of a regular file that is not a link; none when it is longer than `max` bytes.
pub(crate) fn read_regular(path: &Path, max: u64) -> Result<Option<Vec<u8>>, Error> {
    let mut bytes = Vec::new();
    let read = open_regular(path)?.take(max.saturating_add(1)).read_to_end(&mut bytes);
    read.map_err(Error::on("read", path))?;
    Ok((bytes.len() as u64 <= max).then_some(bytes))
}

/// The content of a regular file below `root`; none when it is longer than `max` bytes.
pub(crate) fn read_beneath(root: &Path, path: &Path, max: u64) -> Result<Option<Vec<u8>>, LookupError> {
    let file = open_beneath(root, path)?;
    let mut bytes = Vec::new();
    file.take(max.saturating_add(1)).read_to_end(&mut bytes).map_err(|source| LookupError::Io { source })?;
    Ok((bytes.len() as u64 <= max).then_some(bytes))
}
