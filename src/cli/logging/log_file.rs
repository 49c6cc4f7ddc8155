//! A log file that is rotated at a given size: `x.log`, then `x.log.1`, `x.log.2`, ….

use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// The log file, open for writing.
#[derive(Debug)]
pub(crate) struct LogFile {
    path: PathBuf,
    file: File,
    length: u64,
    max_bytes: u64,
    backups: u32,
}

impl LogFile {
    /// Opens the file to append to it; its folder is made where it is missing.
    pub(crate) fn open(path: &Path, max_bytes: u64, backups: u32) -> io::Result<Self> {
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder)?;
        }
        let file = append_to(path)?;
        let length = file.metadata()?.len();
        Ok(Self { path: path.to_owned(), file, length, max_bytes, backups })
    }

    #[cfg(test)]
    pub(crate) fn onto(file: std::os::fd::OwnedFd, path: &Path) -> Self {
        Self { path: path.to_owned(), file: file.into(), length: 0, max_bytes: u64::MAX, backups: 0 }
    }

    /// Renames the full file and begins a new one.
    fn rotate(&mut self) -> io::Result<()> {
        for number in (1..=self.backups).rev() {
            let older = self.backup(number);
            let newer = if number == 1 { self.path.clone() } else { self.backup(number - 1) };
            match fs::rename(newer, older) {
                Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
                Ok(()) | Err(_) => {}
            }
        }
        self.file = append_to(&self.path)?;
        // Where no backups are kept the file is still there.
        self.file.set_len(0)?;
        self.length = 0;
        Ok(())
    }

    fn backup(&self, number: u32) -> PathBuf {
        let mut name = self.path.clone().into_os_string();
        name.push(format!(".{number}"));
        name.into()
    }
}

fn append_to(path: &Path) -> io::Result<File> {
    // A pipe without a reader is not waited for.
    OpenOptions::new()
        .create(true)
        .append(true)
        .custom_flags(rustix::fs::OFlags::NONBLOCK.bits().cast_signed())
        .open(path)
}

/// Each call writes one entry, which is never split over two files.
impl Write for LogFile {
    fn write(&mut self, entry: &[u8]) -> io::Result<usize> {
        let length = entry.len() as u64;
        if self.length > 0 && self.length + length > self.max_bytes {
            // If the rotation fails the file grows further, so that no entry is lost.
            let _ = self.rotate();
        }
        self.file.write_all(entry)?;
        self.length += length;
        Ok(entry.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn contents(folder: &Path) -> Vec<(String, String)> {
        let mut found: Vec<(String, String)> = fs::read_dir(folder)
            .unwrap()
            .map(|entry| entry.unwrap())
            .map(|entry| (entry.file_name().into_string().unwrap(), fs::read_to_string(entry.path()).unwrap()))
            .collect();
        found.sort();
        found
    }

    fn written(backups: u32, entries: &[&str]) -> Vec<(String, String)> {
        let folder = tempfile::tempdir().unwrap();
        let logs = folder.path().join("logs");
        for entry in entries {
            // Opened anew each time, as by a service that is restarted.
            LogFile::open(&logs.join("x.log"), 10, backups).unwrap().write_all(entry.as_bytes()).unwrap();
        }
        contents(&logs)
    }

    #[test]
    fn a_full_file_is_put_aside_and_only_so_many_are_kept() {
        let entries = ["one----\n", "two----\n", "three--\n", "a\n", "four---\n"];
        let expected = [("x.log", "four---\n"), ("x.log.1", "three--\na\n"), ("x.log.2", "two----\n")];
        assert_eq!(written(2, &entries), expected.map(|(name, text)| (name.to_owned(), text.to_owned())));
    }

    #[test]
    fn without_backups_the_file_begins_anew() {
        assert_eq!(written(0, &["one----\n", "two----\n"]), [("x.log".to_owned(), "two----\n".to_owned())]);
    }

    #[test]
    fn an_entry_longer_than_a_file_is_kept_whole() {
        let long = "0123456789abcdef\n";
        let expected = [("x.log", "b\n"), ("x.log.1", long)];
        assert_eq!(written(1, &["a\n", long, "b\n"]), expected.map(|(name, text)| (name.to_owned(), text.to_owned())));
    }
}
