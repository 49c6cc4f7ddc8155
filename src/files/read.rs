//! Whole files, read at once.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use super::error::Error;
use super::open::{LookupError, open_beneath, open_followed, open_regular};

/// Most bytes of a file that is read whole.
const WHOLE_MAX: u64 = 256 * 1024 * 1024;

/// Most memory that is set aside for a file before it is read.
const EXPECTED_MAX: u64 = 1024 * 1024;

/// The content of a file, which may be a link to one. A pipe is not waited for, and a device is not read: either is an error.
pub(crate) fn read_followed(path: &Path) -> io::Result<Vec<u8>> {
    let bytes = read_up_to(open_followed(path)?, WHOLE_MAX)?;
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
    let bytes = read_up_to(open_regular(path)?, max).map_err(Error::on("read", path))?;
    Ok((bytes.len() as u64 <= max).then_some(bytes))
}

/// The content of a regular file below `root`; none when it is longer than `max` bytes.
pub(crate) fn read_beneath(root: &Path, path: &Path, max: u64) -> Result<Option<Vec<u8>>, LookupError> {
    let bytes = read_up_to(open_beneath(root, path)?, max).map_err(|source| LookupError::Io { source })?;
    Ok((bytes.len() as u64 <= max).then_some(bytes))
}

/// The content of a file; of one that is longer than `max` bytes, one more than that.
fn read_up_to(file: File, max: u64) -> io::Result<Vec<u8>> {
    let most = max.saturating_add(1);
    // All in one read, and one more that finds the end. Whatever the file says, it may be longer or shorter by then.
    let expected = file.metadata()?.len().saturating_add(1).min(most).min(EXPECTED_MAX);
    let mut bytes = Vec::with_capacity(usize::try_from(expected).unwrap_or(0));
    file.take(most).read_to_end(&mut bytes)?;
    Ok(bytes)
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

    #[test]
    fn a_file_of_any_length_is_read_whole_unless_it_is_too_long() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        for length in [0, 1, 31, 33, 5000, EXPECTED_MAX as usize + 7] {
            let content: Vec<u8> = (0..length).map(|at| at as u8).collect();
            std::fs::write(&path, &content).unwrap();
            assert_eq!(read_regular(&path, length as u64).unwrap().as_ref(), Some(&content));
            if length > 0 {
                assert_eq!(read_regular(&path, length as u64 - 1).unwrap(), None);
            }
        }
    }
}
