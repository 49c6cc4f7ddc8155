//! Copies of whole folders, which others may be writing to, also those who want something else to be copied.

use std::ffi::OsStr;
use std::fs::{self, File, OpenOptions, Permissions};
use std::io::{self, ErrorKind, Read, Seek, SeekFrom};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use rustix::fs::SeekFrom as SeekTo;
use rustix::io::Errno;

use super::error::Error;
use super::open::{LookupError, open_any_beneath, open_regular};
use super::step::step;

/// Bytes after which it is asked again whether there is room.
const PIECE: u64 = 16 << 20;

/// How a folder is copied.
pub(crate) struct Copying<'a, E> {
    /// Names that are not copied, directly in the folder.
    pub(crate) leave_out: &'a dyn Fn(&OsStr) -> bool,
    /// What the owner of the files closed to others is left out, too, and is no error.
    pub(crate) leave_closed: bool,
    /// Asked before each file and each piece of a long one.
    pub(crate) has_room: &'a dyn Fn() -> Result<(), E>,
}

/// Copies a file, a link or a folder with all that is in it to a path; what is there already is replaced. Returns the bytes of the
/// files. What goes while it is copied is left out, as is what is no file: pipes, sockets, devices, and what no path is long enough for. Modes are kept, and holes are
/// holes in the copy. No link is followed, also if one takes the place of a file or a folder meanwhile.
pub(crate) fn copy_tree<E: From<Error>>(from: &Path, to: &Path, how: &Copying<'_, E>) -> Result<u64, E> {
    let mut bytes = 0;
    let mut left = vec![PathBuf::new()];
    while let Some(path) = left.pop() {
        (how.has_room)()?;
        let (source, target) = if path.as_os_str().is_empty() {
            (from.to_owned(), to.to_owned())
        } else {
            (from.join(&path), to.join(&path))
        };
        bytes += match copy_one(from, &path, (&source, &target), how, &mut left) {
            Ok(bytes) => bytes,
            Err(Stopped::NoRoom(error)) => return Err(error),
            Err(Stopped::Io(error)) if error.kind() == ErrorKind::PermissionDenied && how.leave_closed => 0,
            // Nested deeper than any path: nobody else reads that either.
            Err(Stopped::Io(error)) if error.raw_os_error() == Some(Errno::NAMETOOLONG.raw_os_error()) => 0,
            Err(Stopped::Io(error)) => return Err(Error::on("copy", &source)(error).into()),
        };
        if path.as_os_str().is_empty() {
            left.retain(|path| !path.file_name().is_some_and(how.leave_out));
        }
    }
    Ok(bytes)
}

enum Stopped<E> {
    NoRoom(E),
    Io(io::Error),
}

impl<E> From<io::Error> for Stopped<E> {
    fn from(error: io::Error) -> Self {
        Stopped::Io(error)
    }
}

fn copy_one<E>(
    from: &Path,
    path: &Path,
    (source, target): (&Path, &Path),
    how: &Copying<'_, E>,
    left: &mut Vec<PathBuf>,
) -> Result<u64, Stopped<E>> {
    let Some(found) = there(source.symlink_metadata())? else { return Ok(0) };
    step("copy to", target).map_err(io::Error::from)?;
    if found.is_symlink() {
        let Some(leads_to) = there(fs::read_link(source))? else { return Ok(0) };
        remove(target)?;
        symlink(leads_to, target)?;
        return Ok(0);
    }
    if !found.is_file() && !found.is_dir() {
        return Ok(0);
    }
    // What is copied is what is opened here, whatever takes its place before or after.
    let Some(opened) = open(from, path, source)? else { return Ok(0) };
    let found = opened.metadata()?;
    if found.is_dir() {
        if !target.symlink_metadata().is_ok_and(|there| there.is_dir()) {
            remove(target)?;
            fs::DirBuilder::new().mode(found.mode() & 0o777 | 0o700).create(target)?;
        }
        for entry in fs::read_dir(format!("/proc/self/fd/{}", opened.as_raw_fd()))? {
            left.push(path.join(entry?.file_name()));
        }
        return Ok(0);
    }
    if !found.is_file() {
        return Ok(0);
    }
    remove(target)?;
    let mut copied = OpenOptions::new().write(true).create_new(true).mode(0o600).open(target)?;
    let bytes = copy_data(&opened, &mut copied, how.has_room)?;
    // Links and programs are compared by their times.
    copied.set_times(fs::FileTimes::new().set_modified(found.modified()?))?;
    copied.set_permissions(Permissions::from_mode(found.mode() & 0o777))?;
    Ok(bytes)
}

/// What is at the path; none if it is something else by now than a file or a folder, or leads elsewhere.
fn open(from: &Path, path: &Path, source: &Path) -> io::Result<Option<File>> {
    if !path.as_os_str().is_empty() {
        return match open_any_beneath(from, path) {
            Err(LookupError::Unsafe { .. } | LookupError::NotAFile) => Ok(None),
            opened => there(opened.map_err(io::Error::from)),
        };
    }
    if source.is_dir() {
        // The folder itself is where the caller says.
        return there(File::open(source));
    }
    there(open_regular(source).map_err(io::Error::from))
}

/// None for what went away meanwhile, or became something else.
fn there<T>(found: io::Result<T>) -> io::Result<Option<T>> {
    match found {
        Ok(found) => Ok(Some(found)),
        Err(error)
            if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory | ErrorKind::InvalidInput) =>
        {
            Ok(None)
        }
        Err(error) if error.raw_os_error() == Some(Errno::LOOP.raw_os_error()) => Ok(None),
        Err(error) => Err(error),
    }
}

fn remove(target: &Path) -> io::Result<()> {
    match fs::remove_file(target) {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(error),
        Ok(()) | Err(_) => Ok(()),
    }
}

/// Copies a file up to where it ends now. A file may be nearly all hole: what is not there takes no room in the copy either.
fn copy_data<E>(from: &File, to: &mut File, has_room: &dyn Fn() -> Result<(), E>) -> Result<u64, Stopped<E>> {
    let size = from.metadata()?.len();
    let (mut at, mut bytes) = (0, 0);
    while let Some((data, end)) = next_data(from, at, size)? {
        (&mut &*from).seek(SeekFrom::Start(data))?;
        to.seek(SeekFrom::Start(data))?;
        let end = end.min(data.saturating_add(PIECE));
        let copied = io::copy(&mut from.take(end - data), to)?;
        bytes += copied;
        if copied < end - data {
            // It was cut short meanwhile.
            return Ok(bytes);
        }
        at = end;
        has_room().map_err(Stopped::NoRoom)?;
    }
    to.set_len(size)?;
    Ok(bytes)
}

/// The next part of a file that is no hole, at or behind a place and before the end.
fn next_data(file: &File, at: u64, size: u64) -> io::Result<Option<(u64, u64)>> {
    if at >= size {
        return Ok(None);
    }
    let data = match rustix::fs::seek(file, SeekTo::Data(at)) {
        Ok(data) => data,
        // A hole up to the end.
        Err(Errno::NXIO) => return Ok(None),
        // A file system that knows no holes.
        Err(Errno::INVAL | Errno::OPNOTSUPP) => at,
        Err(error) => return Err(error.into()),
    };
    let end = rustix::fs::seek(file, SeekTo::Hole(data)).unwrap_or(size).min(size);
    Ok((data < end).then_some((data, end)))
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use rustix::fs::{CWD, FileType, Mode, mknodat};

    use super::*;

    fn copy(from: &Path, to: &Path, leave_out: &dyn Fn(&OsStr) -> bool) -> Result<u64, Error> {
        copy_tree(from, to, &Copying { leave_out, leave_closed: false, has_room: &|| Ok::<_, Error>(()) })
    }

    fn all(from: &Path, to: &Path) -> Result<u64, Error> {
        copy(from, to, &|_| false)
    }

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
        mknodat(CWD, from.join("pipe"), FileType::Fifo, Mode::RWXU, 0).unwrap();
        assert_eq!(copy(&from, &to, &|name| name == "left-out").unwrap(), 7);
        // Again, over what is there.
        fs::write(from.join("a/b/file"), b"hello again").unwrap();
        assert_eq!(all(&from.join("a"), &to.join("a")).unwrap(), 13);
        assert_eq!(fs::read(to.join("a/link")).unwrap(), b"hello again");
        assert_eq!(fs::metadata(to.join("a/program")).unwrap().mode() & 0o777, 0o755);
        let names: Vec<_> = fs::read_dir(&to).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        assert_eq!(names, ["a"]);
        assert_eq!(all(&from.join("gone"), &to.join("gone")).unwrap(), 0);
        // Folders in folders, deeper than a path can be.
        let mut at = from.join("deep");
        fs::create_dir(&at).unwrap();
        let mut inside = File::open(&at).unwrap();
        for _ in 0..40 {
            rustix::fs::mkdirat(&inside, "d".repeat(200), Mode::RWXU).unwrap();
            inside = rustix::fs::openat(&inside, "d".repeat(200), rustix::fs::OFlags::DIRECTORY, Mode::empty())
                .unwrap()
                .into();
            at.push("d".repeat(200));
        }
        assert!(at.symlink_metadata().is_err());
        assert_eq!(all(&from.join("deep"), &to.join("deep")).unwrap(), 0);
        super::super::remove_tree(&from.join("deep")).unwrap();
        super::super::remove_tree(&to.join("deep")).unwrap();
        // A single file.
        assert_eq!(all(&from.join("a/b/file"), &to.join("one")).unwrap(), 11);
        assert_eq!(fs::read(to.join("one")).unwrap(), b"hello again");
    }

    /// Whoever owns a folder can give a file of no bytes any length.
    #[test]
    fn a_hole_takes_no_room_in_the_copy() {
        let folder = tempfile::tempdir().unwrap();
        let (from, to) = (folder.path().join("from"), folder.path().join("to"));
        let file = File::create(&from).unwrap();
        file.set_len(1 << 40).unwrap();
        std::os::unix::fs::FileExt::write_all_at(&file, b"words", 1 << 30).unwrap();
        all(&from, &to).unwrap();
        let found = fs::metadata(&to).unwrap();
        assert_eq!(found.len(), 1 << 40);
        assert!(found.blocks() * 512 <= 1 << 20, "{} blocks", found.blocks());
        let mut words = [0; 5];
        std::os::unix::fs::FileExt::read_exact_at(&File::open(&to).unwrap(), &mut words, 1 << 30).unwrap();
        assert_eq!(&words, b"words");
    }

    #[test]
    fn a_copy_that_finds_no_room_any_more_ends_within_a_long_file() {
        let folder = tempfile::tempdir().unwrap();
        let (from, to) = (folder.path().join("from"), folder.path().join("to"));
        fs::write(&from, vec![b'x'; 3 * PIECE as usize]).unwrap();
        let has_room = || match fs::metadata(&to).map_or(0, |found| found.len()) {
            0 => Ok(()),
            _ => Err(Error::on("write", &to)(io::Error::from(ErrorKind::StorageFull))),
        };
        let how = Copying { leave_out: &|_| false, leave_closed: false, has_room: &has_room };
        assert_eq!(copy_tree(&from, &to, &how).unwrap_err().kind(), ErrorKind::StorageFull);
        assert!(fs::metadata(&to).unwrap().len() <= PIECE);
    }

    /// A pipe was waited for, and a link was followed, to wherever the service may read.
    #[test]
    fn what_takes_the_place_of_a_file_or_a_folder_meanwhile_is_neither_waited_for_nor_followed() {
        let folder = tempfile::tempdir().unwrap();
        let (from, to) = (folder.path().join("from"), folder.path().join("to"));
        let outside = folder.path().join("outside");
        fs::create_dir(&outside).unwrap();
        fs::write(outside.join("name"), b"secret").unwrap();
        fs::create_dir_all(from.join("folder")).unwrap();
        let (real, pipe, link, way) = (from.join("0"), from.join("1"), from.join("2"), from.join("3"));
        fs::write(&real, b"public").unwrap();
        mknodat(CWD, &pipe, FileType::Fifo, Mode::RWXU, 0).unwrap();
        symlink(outside.join("name"), &link).unwrap();
        symlink(&outside, &way).unwrap();
        const TRIED: std::time::Duration = std::time::Duration::from_secs(2);
        let began = std::time::Instant::now();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let (place, folder) = (from.join("place"), from.join("folder"));
                let (file, at) = (from.join("folder/name"), from.join("spare"));
                fs::write(&file, b"public").unwrap();
                while began.elapsed() < TRIED {
                    for other in [&real, &pipe, &link] {
                        let _ = fs::remove_file(&at);
                        if fs::hard_link(other, &at).is_ok() {
                            let _ = fs::rename(&at, &place);
                        }
                    }
                    let _ = fs::rename(&folder, from.join("away"));
                    let _ = fs::hard_link(&way, &folder);
                    let _ = fs::remove_file(&folder);
                    let _ = fs::rename(from.join("away"), &folder);
                }
            });
            while began.elapsed() < TRIED {
                all(&from, &to).unwrap();
                for copied in [to.join("place"), to.join("folder/name"), to.join("away/name")] {
                    let is = |path: &Path, what: fn(&fs::Metadata) -> bool| {
                        path.symlink_metadata().is_ok_and(|found| what(&found))
                    };
                    if is(copied.parent().unwrap(), fs::Metadata::is_dir) && is(&copied, fs::Metadata::is_file) {
                        assert_eq!(fs::read(&copied).unwrap(), b"public", "{}", copied.display());
                    }
                }
                super::super::remove_tree(&to).unwrap();
            }
        });
    }
}
