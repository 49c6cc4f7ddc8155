//! What is in a folder of the runner's own.

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use rustix::fs::{Dir, Mode, OFlags};

/// Why a link in the data folder is refused, and what to do.
pub(crate) const LINKED: &str = "it is a symbolic link, and nothing in the data folder is written or removed by way of one: \
    move what it points to to its place, or mount it there";

/// The names in a folder. A link in its place is not followed, so that nothing is found, and then removed, elsewhere.
pub(crate) fn names_in(folder: &Path) -> io::Result<Vec<OsString>> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let listed = Dir::new(rustix::fs::open(folder, flags, Mode::empty())?)?;
    let mut names = Vec::new();
    for entry in listed {
        let entry = entry?;
        let name = entry.file_name().to_bytes();
        if ![b".".as_slice(), b".."].contains(&name) {
            names.push(OsStr::from_bytes(name).to_owned());
        }
    }
    Ok(names)
}
