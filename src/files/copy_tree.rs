//! Copies of whole folders, which others may be writing to.

use std::ffi::OsStr;
use std::fs;
use std::io::{self, ErrorKind};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, symlink};
use std::path::{Path, PathBuf};

use super::error::Error;
use super::step::step;

/// Copies a file, a link or a folder with all that is in it to a path; what is there already is replaced. Returns the bytes of the
/// files. What goes while it is copied is left out, as is what is no file: pipes, sockets, devices. Modes are kept.
pub(crate) fn copy_tree(from: &Path, to: &Path) -> Result<u64, Error> {
    copy_tree_but(from, to, &|_| false)
}

/// The same, without what is directly in the folder and has such a name.
pub(crate) fn copy_tree_but(from: &Path, to: &Path, leave_out: &dyn Fn(&OsStr) -> bool) -> Result<u64, Error> {
    let mut bytes = 0;
    let mut left: Vec<(PathBuf, PathBuf)> = vec![(from.to_owned(), to.to_owned())];
    while let Some((source, target)) = left.pop() {
        bytes += match copy_one(&source, &target, &mut left) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == ErrorKind::NotFound && source.symlink_metadata().is_err() => 0,
            Err(error) => return Err(Error::on("copy", &source)(error)),
        };
        if source == from {
            left.retain(|(source, _)| !source.file_name().is_some_and(leave_out));
        }
    }
    Ok(bytes)
}

fn copy_one(source: &Path, target: &Path, left: &mut Vec<(PathBuf, PathBuf)>) -> io::Result<u64> {
    let found = source.symlink_metadata()?;
    step("copy to", target)?;
    if found.is_dir() {
        match fs::DirBuilder::new().mode(found.mode() & 0o777 | 0o700).create(target) {
            Err(error) if error.kind() != ErrorKind::AlreadyExists => return Err(error),
            Ok(()) | Err(_) => {}
        }
        for entry in fs::read_dir(source)? {
            let entry = entry?;
            left.push((entry.path(), target.join(entry.file_name())));
        }
        return Ok(0);
    }
    if !found.is_file() && !found.is_symlink() {
        return Ok(0);
    }
    if target.symlink_metadata().is_ok() {
        fs::remove_file(target)?;
    }
    if found.is_symlink() {
        symlink(fs::read_link(source)?, target)?;
        return Ok(0);
    }
    let bytes = fs::copy(source, target)?;
    // Links and programs are compared by their times.
    let times = fs::FileTimes::new().set_modified(found.modified()?);
    // A file without the right to be written to cannot be opened for it; its time does not matter then.
    if let Ok(copied) = fs::File::options().write(true).open(target) {
        copied.set_times(times)?;
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn files_links_and_modes_are_copied_and_pipes_are_not() {
        let folder = tempfile::tempdir().unwrap();
        let (from, to) = (folder.path().join("from"), folder.path().join("to"));
        fs::create_dir_all(from.join("a/b")).unwrap();
        fs::write(from.join("a/b/file"), b"hello").unwrap();
        fs::write(from.join("a/program"), b"#!").unwrap();
        fs::set_permissions(from.join("a/program"), fs::Permissions::from_mode(0o755)).unwrap();
        symlink("b/file", from.join("a/link")).unwrap();
        fs::write(from.join("left-out"), b"x").unwrap();
        rustix::fs::mknodat(rustix::fs::CWD, from.join("pipe"), rustix::fs::FileType::Fifo, rustix::fs::Mode::RWXU, 0)
            .unwrap();
        assert_eq!(copy_tree_but(&from, &to, &|name| name == "left-out").unwrap(), 7);
        // Again, over what is there.
        fs::write(from.join("a/b/file"), b"hello again").unwrap();
        assert_eq!(copy_tree(&from.join("a"), &to.join("a")).unwrap(), 13);
        assert_eq!(fs::read(to.join("a/link")).unwrap(), b"hello again");
        assert_eq!(fs::metadata(to.join("a/program")).unwrap().mode() & 0o777, 0o755);
        let names: Vec<_> = fs::read_dir(&to).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        assert_eq!(names, ["a"]);
        assert_eq!(copy_tree(&from.join("gone"), &to.join("gone")).unwrap(), 0);
    }
}
