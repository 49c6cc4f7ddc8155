//! Files opened without following links or waiting for pipes, by paths that come from clients and skills.

use std::fs::{self, File, OpenOptions, ReadDir};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Component, Path};

use rustix::fs::{Mode, OFlags, ResolveFlags};
use rustix::io::Errno;

use super::error::Error;
use super::step::step;

/// Why no file is opened for a path.
#[derive(Debug, thiserror::Error)]
pub(crate) enum LookupError {
    /// The path leaves the folder, goes through a link, or is not a relative path.
    #[error("the path is refused: {reason}")]
    Unsafe { reason: &'static str },
    #[error("there is no such file")]
    NotFound,
    /// A folder or a special file is there.
    #[error("it is not a regular file")]
    NotAFile,
    /// It could not be opened.
    #[error("{}", not_opened(source))]
    Io {
        #[source]
        source: io::Error,
    },
}

/// Permissions are the one cause that is worth telling: a skill can take them away, and the runner gives them back.
fn not_opened(source: &io::Error) -> &'static str {
    match source.kind() {
        io::ErrorKind::PermissionDenied => {
            "it is closed to the service, or a folder above it is; what a run closes is opened again when the run ends"
        }
        _ => "the file cannot be opened",
    }
}

impl LookupError {
    /// Whether the permissions of the file, or of a folder above it, keep the service out.
    pub(crate) fn is_closed(&self) -> bool {
        matches!(self, Self::Io { source } if source.kind() == io::ErrorKind::PermissionDenied)
    }
}

impl From<LookupError> for io::Error {
    fn from(error: LookupError) -> Self {
        match error {
            LookupError::NotFound => io::Error::new(io::ErrorKind::NotFound, error),
            LookupError::Unsafe { .. } | LookupError::NotAFile => io::Error::new(io::ErrorKind::InvalidInput, error),
            LookupError::Io { source } => source,
        }
    }
}

/// Opens a regular file at `path` below `root` for reading. No component may be a link, so that neither the path nor
/// what a skill left on the disk leads out of `root`.
pub(crate) fn open_beneath(root: &Path, path: &Path) -> Result<File, LookupError> {
    let file = open_any_beneath(root, path)?;
    let found = file.metadata().map_err(|source| LookupError::Io { source })?;
    if !found.is_file() {
        return Err(LookupError::NotAFile);
    }
    Ok(file)
}

/// The same for a folder or a file, whatever is there.
pub(super) fn open_any_beneath(root: &Path, path: &Path) -> Result<File, LookupError> {
    open_with(root, path, file_flags())
}

/// What is in the folder at `path` below `root`, which is the folder itself if the path is empty. Whatever takes the place of a folder
/// meanwhile, nothing outside is listed.
pub(crate) fn list_beneath(root: &Path, path: &Path) -> io::Result<ReadDir> {
    let folder = if path.as_os_str().is_empty() {
        File::from(rustix::fs::open(root, folder_flags(), Mode::empty())?)
    } else {
        open_with(root, path, file_flags() | OFlags::DIRECTORY)?
    };
    fs::read_dir(format!("/proc/self/fd/{}", folder.as_raw_fd()))
}

/// A handle on the folder at `path` below `root`, by which what is in it can be named however long its own path is.
pub(crate) fn folder_beneath(root: &Path, path: &Path) -> io::Result<File> {
    Ok(open_with(root, path, folder_flags() | OFlags::NOFOLLOW)?)
}

fn open_with(root: &Path, path: &Path, flags: OFlags) -> Result<File, LookupError> {
    check(path)?;
    let root = rustix::fs::open(root, folder_flags(), Mode::empty()).map_err(lookup_error)?;
    let opened = match open_at_once(&root, path, flags) {
        // An old kernel, or a sandbox that filters the call.
        Err(Errno::NOSYS | Errno::PERM | Errno::AGAIN | Errno::INVAL) => open_step_by_step(root, path, flags),
        opened => opened,
    };
    opened.map(File::from).map_err(lookup_error)
}

/// Opens a regular file for reading. A link is not followed, and a pipe is not waited for: for everything that is not a
/// regular file the cause is [`io::ErrorKind::InvalidInput`].
pub(crate) fn open_regular(path: &Path) -> Result<File, Error> {
    open_existing(path, OFlags::RDONLY)
}

/// Opens a regular file for reading, also behind a link. A pipe is not waited for.
pub(crate) fn open_followed(path: &Path) -> io::Result<File> {
    let file = File::from(rustix::fs::open(path, OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC, Mode::empty())?);
    let is_file = file.metadata()?.is_file();
    is_file.then_some(file).ok_or_else(|| io::Error::new(io::ErrorKind::InvalidInput, "it is not a regular file"))
}

/// The same as `open_regular`, for writing.
pub(crate) fn open_regular_to_write(path: &Path) -> Result<File, Error> {
    open_existing(path, OFlags::WRONLY)
}

fn open_existing(path: &Path, access: OFlags) -> Result<File, Error> {
    let not_regular =
        || Error::on("open", path)(io::Error::new(io::ErrorKind::InvalidInput, "it is not a regular file"));
    let file = match rustix::fs::open(path, access | SAFELY, Mode::empty()) {
        Ok(file) => File::from(file),
        Err(Errno::LOOP | Errno::NXIO | Errno::NODEV) => return Err(not_regular()),
        Err(error) => return Err(Error::on("open", path)(error)),
    };
    let found = file.metadata().map_err(Error::on("look at", path))?;
    if found.is_file() { Ok(file) } else { Err(not_regular()) }
}

/// Creates a file that must not exist yet, for writing. Everybody may read it, and run it where `executable`.
pub(crate) fn create_new(path: &Path, executable: bool) -> Result<File, Error> {
    step("create", path)?;
    let mode = if executable { 0o755 } else { 0o644 };
    OpenOptions::new().write(true).create_new(true).mode(mode).open(path).map_err(Error::on("create", path))
}

fn check(path: &Path) -> Result<(), LookupError> {
    let bytes = path.as_os_str().as_bytes();
    let objections = [
        (bytes.is_empty(), "it is empty"),
        (bytes.contains(&0), "it contains a NUL character"),
        (path.is_absolute(), "it is absolute"),
        // Checked on the text: `Path::components` drops `.` and doubled slashes, and one file would have many paths.
        (bytes.split(|byte| *byte == b'/').any(|part| part == b".."), "it contains `..`"),
        (bytes.split(|byte| *byte == b'/').any(|part| part.is_empty() || part == b"."), "it has an empty part or `.`"),
    ];
    match objections.into_iter().find(|(holds, _)| *holds) {
        Some((_, reason)) => Err(LookupError::Unsafe { reason }),
        None => Ok(()),
    }
}

fn folder_flags() -> OFlags {
    OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC
}

/// NONBLOCK: opening a fifo must not wait for its other end. It has no effect on a regular file.
const SAFELY: OFlags = OFlags::NOFOLLOW.union(OFlags::NONBLOCK).union(OFlags::CLOEXEC);

fn file_flags() -> OFlags {
    OFlags::RDONLY | SAFELY
}

fn open_at_once(root: &OwnedFd, path: &Path, flags: OFlags) -> Result<OwnedFd, Errno> {
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
    rustix::fs::openat2(root, path, flags, Mode::empty(), resolve)
}

fn open_step_by_step(root: OwnedFd, path: &Path, flags: OFlags) -> Result<OwnedFd, Errno> {
    let parts: Vec<_> = path
        .components()
        .map(|component| match component {
            Component::Normal(part) => Ok(part),
            Component::Prefix(_) | Component::RootDir | Component::CurDir | Component::ParentDir => Err(Errno::XDEV),
        })
        .collect::<Result<_, _>>()?;
    let Some((file, folders)) = parts.split_last() else { return Err(Errno::NOENT) };
    let mut at = root;
    for folder in folders {
        at = rustix::fs::openat(&at, *folder, folder_flags() | OFlags::NOFOLLOW, Mode::empty())?;
    }
    rustix::fs::openat(&at, *file, flags, Mode::empty())
}

fn lookup_error(error: Errno) -> LookupError {
    match error {
        Errno::LOOP => LookupError::Unsafe { reason: "it goes through a link" },
        Errno::XDEV => LookupError::Unsafe { reason: "it leaves the folder" },
        Errno::NOENT | Errno::NOTDIR | Errno::NAMETOOLONG => LookupError::NotFound,
        // A socket, or a fifo or device without its other end.
        Errno::NXIO | Errno::NODEV => LookupError::NotAFile,
        other => LookupError::Io { source: other.into() },
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::os::unix::fs::symlink;

    use super::*;

    fn hostile_folder() -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().join("root");
        fs::create_dir_all(root.join("sub")).unwrap();
        fs::write(root.join("sub/file"), "inside").unwrap();
        fs::write(folder.path().join("secret"), "outside").unwrap();
        symlink("../secret", root.join("link")).unwrap();
        symlink("sub", root.join("linked-sub")).unwrap();
        rustix::fs::mknodat(rustix::fs::CWD, root.join("fifo"), rustix::fs::FileType::Fifo, Mode::RUSR | Mode::WUSR, 0)
            .unwrap();
        let _socket = std::os::unix::net::UnixListener::bind(root.join("socket")).unwrap();
        folder
    }

    fn content(opened: Result<File, LookupError>) -> String {
        match opened {
            Ok(mut file) => {
                let mut text = String::new();
                file.read_to_string(&mut text).unwrap();
                text
            }
            Err(error) => error.to_string(),
        }
    }

    #[test]
    fn only_regular_files_below_the_folder_are_opened() {
        let folder = hostile_folder();
        for (path, expected) in [
            ("sub/file", "inside"),
            ("", "the path is refused: it is empty"),
            ("/etc/passwd", "the path is refused: it is absolute"),
            ("../secret", "the path is refused: it contains `..`"),
            ("sub/../sub/file", "the path is refused: it contains `..`"),
            ("sub/..", "the path is refused: it contains `..`"),
            ("sub//file", "the path is refused: it has an empty part or `.`"),
            ("./sub/file", "the path is refused: it has an empty part or `.`"),
            ("sub/file/", "the path is refused: it has an empty part or `.`"),
            ("a\0b", "the path is refused: it contains a NUL character"),
            ("link", "the path is refused: it goes through a link"),
            ("linked-sub/file", "the path is refused: it goes through a link"),
            ("missing", "there is no such file"),
            ("sub/file/below", "there is no such file"),
            ("sub", "it is not a regular file"),
            ("fifo", "it is not a regular file"),
            ("socket", "it is not a regular file"),
        ] {
            assert_eq!(content(open_beneath(&folder.path().join("root"), Path::new(path))), expected, "{path:?}");
        }
    }

    #[test]
    fn a_file_of_the_runners_own_is_opened_only_when_it_is_one() {
        let folder = hostile_folder();
        let open = |path: &str| open_regular(&folder.path().join("root").join(path)).map(drop);
        open("sub/file").unwrap();
        assert_eq!(open("missing").unwrap_err().kind(), io::ErrorKind::NotFound);
        for path in ["link", "fifo", "socket", "sub"] {
            assert_eq!(open(path).unwrap_err().kind(), io::ErrorKind::InvalidInput, "{path}");
            let to_write = open_regular_to_write(&folder.path().join("root").join(path)).map(drop);
            assert_ne!(to_write.unwrap_err().kind(), io::ErrorKind::NotFound, "{path}");
        }
    }

    #[test]
    fn nothing_is_listed_behind_a_link() {
        let folder = hostile_folder();
        let list = |path: &str| {
            let listed = list_beneath(&folder.path().join("root"), Path::new(path));
            listed.map(|entries| entries.map(|entry| entry.unwrap().file_name()).collect::<Vec<_>>())
        };
        assert_eq!(list("sub").unwrap(), ["file"]);
        assert_eq!(list("").unwrap().len(), 5);
        symlink("..", folder.path().join("root/above")).unwrap();
        for path in ["above", "linked-sub", "sub/file", "fifo", "missing", "../root", "/"] {
            assert!(list(path).is_err(), "{path}");
        }
    }

    #[test]
    fn the_way_without_openat2_follows_no_link_either() {
        let folder = hostile_folder();
        let step = |path: &str| {
            let root = rustix::fs::open(folder.path().join("root"), folder_flags(), Mode::empty()).unwrap();
            content(open_step_by_step(root, Path::new(path), file_flags()).map(File::from).map_err(lookup_error))
        };
        assert_eq!(step("sub/file"), "inside");
        assert_eq!(step("link"), "the path is refused: it goes through a link");
        assert_eq!(step("../secret"), "the path is refused: it leaves the folder");
        // A link in the middle is opened as itself, which is no folder.
        assert_eq!(step("linked-sub/file"), "there is no such file");
    }
}
