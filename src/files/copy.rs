//! Copies of files.

use std::fs::File;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use super::error::Error;
use super::open::create_new;
use super::step::step;

/// Copies an open file to a path where no file is yet, executable if the source is; returns its length. The copy shares the
/// source's blocks where the file system can do that, but is never a hard link: an edit of the source does not reach it.
pub(crate) fn copy_new(mut source: &File, to: &Path) -> Result<u64, Error> {
    let found = source.metadata().map_err(Error::on("copy to", to))?;
    let mut target = create_new(to, found.mode() & 0o111 != 0)?;
    if rustix::fs::ioctl_ficlone(&target, source).is_ok() {
        return Ok(found.len());
    }
    step("write", to)?;
    io::copy(&mut source, &mut target).map_err(Error::on("copy to", to))
}
