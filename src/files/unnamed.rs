//! A file that gets its name when it is whole. If the process dies before that, the system removes it.

use std::fs::{File, Permissions};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, CWD, Mode, OFlags, linkat, openat};
use tempfile::NamedTempFile;

use super::folder::parent;

pub(crate) struct Unnamed {
    path: PathBuf,
    file: Content,
}

enum Content {
    Unnamed(File),
    /// Where the file system has no files without a name.
    Hidden(NamedTempFile),
}

impl Unnamed {
    /// A new file that will be at this path.
    pub(crate) fn for_path(path: &Path, mode: u32) -> io::Result<Self> {
        let flags = OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC;
        let made = openat(CWD, parent(path), flags, Mode::from_raw_mode(mode));
        let file = match made {
            // Its name is given by way of that folder.
            Ok(file) if Path::new("/proc/self/fd").is_dir() => Content::Unnamed(file.into()),
            Ok(_) | Err(_) => {
                let mut hidden = hidden();
                Content::Hidden(hidden.permissions(Permissions::from_mode(mode)).tempfile_in(parent(path))?)
            }
        };
        Ok(Self { path: path.to_owned(), file })
    }

    pub(crate) fn file(&mut self) -> &mut File {
        match &mut self.file {
            Content::Unnamed(file) => file,
            Content::Hidden(file) => file.as_file_mut(),
        }
    }

    /// Where it can be opened as long as it is open here.
    pub(crate) fn path(&self) -> PathBuf {
        match &self.file {
            Content::Unnamed(file) => opened(file),
            Content::Hidden(file) => file.path().to_owned(),
        }
    }

    /// Gives it its name; a file that is there already is replaced.
    pub(crate) fn give_name(self) -> io::Result<()> {
        match self.file {
            Content::Unnamed(file) => {
                // Only a file that has a name can take the place of another one.
                let link = |path: &Path| Ok(linkat(CWD, opened(&file), CWD, path, AtFlags::SYMLINK_FOLLOW)?);
                hidden().make_in(parent(&self.path), link)?.persist(&self.path).map_err(|failed| failed.error)
            }
            Content::Hidden(file) => file.persist(&self.path).map(drop).map_err(|failed| failed.error),
        }
    }
}

fn opened(file: &File) -> PathBuf {
    format!("/proc/self/fd/{}", file.as_raw_fd()).into()
}

fn hidden() -> tempfile::Builder<'static, 'static> {
    let mut hidden = tempfile::Builder::new();
    hidden.prefix(".").suffix(".tmp");
    hidden
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::io::Write;

    use super::*;

    #[test]
    fn a_file_is_not_there_before_it_is_whole_and_replaces_what_was_there() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("run.zip");
        fs::write(&path, "old").unwrap();
        let names = || fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name());
        let mut given_up = Unnamed::for_path(&path, 0o600).unwrap();
        let mut whole = Unnamed::for_path(&path, 0o600).unwrap();
        given_up.file().write_all(b"half").unwrap();
        whole.file().write_all(b"new").unwrap();
        assert_eq!(names().collect::<Vec<_>>(), ["run.zip"], "as after a kill");
        assert_eq!(fs::read(whole.path()).unwrap(), b"new");
        drop(given_up);
        assert_eq!(fs::read(&path).unwrap(), b"old");
        whole.give_name().unwrap();
        assert_eq!((fs::read(&path).unwrap(), names().collect::<Vec<_>>()), (b"new".to_vec(), vec!["run.zip".into()]));
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        assert!(Unnamed::for_path(&folder.path().join("none/run.zip"), 0o600).is_err());
    }
}
