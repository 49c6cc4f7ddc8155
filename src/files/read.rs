//! Whole files, read at once.

use std::io::{self, Read};
use std::path::Path;

use super::error::Error;
use super::open::{LookupError, open_beneath, open_followed, open_regular};

/// Most bytes of a file that is read whole.
const WHOLE_MAX: u64 = 256 * 1024 * 1024;

/// The content of a file, which may be a link to one. A pipe is not waited for, and a device is not read: either is an error.
pub(crate) fn read_followed(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    open_followed(path)?.take(WHOLE_MAX + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > WHOLE_MAX { Err(io::ErrorKind::FileTooLarge.into()) } else { Ok(bytes) }
}

/// The content of a file; none when there is no such file.
pub(crate) fn read_optional(path: &Path) -> Result<Option<Vec<u8>>, Error> {
    match read_followed(path) {
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

#[cfg(test)]
mod tests {
    use rustix::fs::{CWD, FileType, Mode, mknodat};

    use super::*;

    #[test]
    fn a_file_behind_a_link_is_read_and_nothing_that_is_no_file() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        std::fs::write(at("file"), "text").unwrap();
        std::os::unix::fs::symlink(at("file"), at("link")).unwrap();
        std::os::unix::fs::symlink("/dev/zero", at("endless")).unwrap();
        mknodat(CWD, at("pipe"), FileType::Fifo, Mode::RUSR, 0).unwrap();
        assert_eq!(["file", "link"].map(|name| read_followed(&at(name)).unwrap()), [b"text", b"text"]);
        for name in ["pipe", "endless", "."] {
            assert_eq!(read_optional(&at(name)).unwrap_err().source.kind(), io::ErrorKind::InvalidInput, "{name}");
        }
        assert_eq!(read_optional(&at("missing")).unwrap(), None);
    }
}
