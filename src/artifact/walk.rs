//! The regular files below a folder that a skill has filled: no link is followed, nothing is opened that could block.

use std::collections::BinaryHeap;
use std::fs::{self, FileType};
use std::io;
use std::os::unix::fs::FileTypeExt;
use std::path::Path;

use super::content::{UNREADABLE, is_of_the_file, open};
use crate::domain::file_name;
use crate::domain::run_file::{RunFile, RunFolder};
use crate::files::{Error, list_beneath};

/// Folders below this depth are refused: their paths would soon be longer than programs can open.
const MAX_DEPTH: usize = 32;

/// Most files of others that are listed, and most that are named as left out. A skill can make more than there is memory for.
const FILES_MAX: usize = 10_000;
const REFUSED_MAX: usize = 100;
/// Most entries that are looked at; of so many the first by path are listed.
const SEEN_MAX: usize = 200_000;
/// Longest path that is listed: a little longer than what a zip may name, which becomes a path in a folder of the run. Paths are in
/// events, in lists and in memory, each many times.
const PATH_MAX_BYTES: usize = 1200;
const PATH_TOO_LONG: &str = "its path is longer than 1200 bytes";
/// The reason where files are left out because there are more.
pub(crate) const TOO_MANY: &str = "it has more than 10000 files; the others are left out";
const MORE_REFUSED: &str = "more is left out in it than is named";

/// A path that was left out, and why.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Refused {
    /// The path in the run's folder; bytes that are not UTF-8 are shown as replacement characters.
    pub path_rel: String,
    pub reason: &'static str,
}

/// What is below a folder, each list sorted by path.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Walked {
    /// Regular files, by their path relative to the run's folder, with `/`.
    pub(crate) files: Vec<String>,
    /// Everything else that is no folder.
    pub(crate) refused: Vec<Refused>,
}

/// Lists the files below `root/start` (`root` itself where `start` is empty), without the top-level folder `without`.
pub(crate) fn walk(root: &Path, start: &str, without: Option<RunFolder>) -> Result<Walked, Error> {
    let mut seen = Seen { files: First::new(FILES_MAX), refused: First::new(REFUSED_MAX), entries: 0 };
    match fs::symlink_metadata(root.join(start)) {
        Ok(found) if found.is_dir() => seen.folder(root, start, without, 0)?,
        Ok(found) => seen.refuse(start.to_owned(), kind_objection(found.file_type()).unwrap_or("it is not a folder")),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(Error::on("look at", &root.join(start))(error)),
    }
    let (files, refused, all) = (seen.files.count, seen.refused.count, seen.entries < SEEN_MAX);
    let mut walked = Walked { files: seen.files.sorted(), refused: seen.refused.sorted() };
    if files + refused > FILES_MAX || !all {
        walked.own_files(root, start, without)?;
    }
    if files > FILES_MAX || !all {
        walked.refuse(start.to_owned(), TOO_MANY);
    }
    if refused > REFUSED_MAX {
        walked.refuse(start.to_owned(), MORE_REFUSED);
    }
    Ok(walked)
}

/// The first of what is added, in their order; of the others only the number.
struct First<T> {
    most: usize,
    kept: BinaryHeap<T>,
    count: usize,
}

impl<T: Ord> First<T> {
    fn new(most: usize) -> Self {
        Self { most, kept: BinaryHeap::new(), count: 0 }
    }

    fn add(&mut self, one: T) {
        self.count += 1;
        self.kept.push(one);
        if self.kept.len() > self.most {
            self.kept.pop();
        }
    }

    fn sorted(self) -> Vec<T> {
        self.kept.into_sorted_vec()
    }
}

/// What a walk has seen so far.
struct Seen {
    files: First<String>,
    refused: First<Refused>,
    entries: usize,
}

/// The regular files below a folder of a run, by their paths in the run's folder, sorted.
pub(crate) fn files_below(run_root: &Path, folder: &str) -> Result<Vec<String>, Error> {
    Ok(walk(run_root, folder, None)?.files)
}

impl Seen {
    fn folder(&mut self, root: &Path, folder: &str, without: Option<RunFolder>, depth: usize) -> Result<(), Error> {
        let path = root.join(folder);
        let entries = match list_beneath(root, Path::new(folder)) {
            Ok(entries) => entries,
            Err(error) => return self.unreadable(folder.to_owned(), error, "list", &path),
        };
        for entry in entries {
            if self.entries >= SEEN_MAX {
                return Ok(());
            }
            self.entries += 1;
            let entry = match entry {
                Ok(entry) => entry,
                Err(error) => return self.unreadable(folder.to_owned(), error, "list", &path),
            };
            let joined = |name: &str| if folder.is_empty() { name.to_owned() } else { format!("{folder}/{name}") };
            let Ok(name) = entry.file_name().into_string() else {
                self.refuse(joined(&entry.file_name().to_string_lossy()), "its name is not UTF-8");
                continue;
            };
            let kind = match entry.file_type() {
                Ok(kind) => kind,
                Err(error) => {
                    self.unreadable(joined(&name), error, "look at", &path.join(&name))?;
                    continue;
                }
            };
            match kind_objection(kind).or_else(|| file_name::objection(&joined(&name))) {
                Some(reason) => self.refuse(joined(&name), reason),
                None if folder.len() + name.len() > PATH_MAX_BYTES => self.refuse(joined(&name), PATH_TOO_LONG),
                None if kind.is_file() => self.files.add(joined(&name)),
                None if folder.is_empty() && without.is_some_and(|without| without.name() == name) => {}
                None if depth == MAX_DEPTH => self.refuse(joined(&name), "it is nested too deeply"),
                None => self.folder(root, &joined(&name), without, depth + 1)?,
            }
        }
        Ok(())
    }

    /// Leaves out what cannot be looked at; only a shortage of the machine is an error.
    fn unreadable(&mut self, path_rel: String, error: io::Error, doing: &'static str, at: &Path) -> Result<(), Error> {
        if !is_of_the_file(&error) {
            return Err(Error::on(doing, at)(error));
        }
        self.refuse(path_rel, UNREADABLE);
        Ok(())
    }

    fn refuse(&mut self, path_rel: String, reason: &'static str) {
        self.refused.add(Refused { path_rel, reason });
    }
}

impl Walked {
    /// Adds the runner's own files that are not among the first: a run ends by them, however many others a skill puts there.
    fn own_files(&mut self, root: &Path, start: &str, without: Option<RunFolder>) -> Result<(), Error> {
        for name in RunFile::ALL.map(RunFile::name) {
            let below = start.is_empty() || name.strip_prefix(start).is_some_and(|rest| rest.starts_with('/'));
            let left_out = without.is_some_and(|without| without.strip(name).is_some());
            if below && !left_out && self.files.iter().all(|file| file != name) && open(root, name)?.is_some() {
                self.files.push(name.to_owned());
            }
        }
        self.files.sort_unstable();
        Ok(())
    }

    fn refuse(&mut self, path_rel: String, reason: &'static str) {
        self.refused.push(Refused { path_rel, reason });
    }
}

fn kind_objection(kind: FileType) -> Option<&'static str> {
    let objections = [
        (kind.is_symlink(), "it is a link"),
        (kind.is_fifo(), "it is a named pipe"),
        (kind.is_socket(), "it is a socket"),
        (kind.is_block_device() || kind.is_char_device(), "it is a device"),
    ];
    objections.into_iter().find_map(|(holds, reason)| holds.then_some(reason))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn a_folder_whose_path_is_too_long_is_left_out() {
        let folder = tempfile::tempdir().unwrap();
        let name = "d".repeat(200);
        fs::create_dir(folder.path().join("artifacts")).unwrap();
        let mut at = fs::File::open(folder.path().join("artifacts")).unwrap();
        for _ in 0..MAX_DEPTH {
            rustix::fs::mkdirat(&at, &name, rustix::fs::Mode::RWXU).unwrap();
            let flags = rustix::fs::OFlags::RDONLY | rustix::fs::OFlags::DIRECTORY;
            at = rustix::fs::openat(&at, &name, flags, rustix::fs::Mode::empty()).unwrap().into();
        }
        fs::write(folder.path().join("artifacts/a.txt"), "a").unwrap();
        let Walked { files, refused } = walk(folder.path(), "artifacts", None).unwrap();
        assert_eq!(files, ["artifacts/a.txt"]);
        assert_eq!(refused.iter().map(|refused| refused.reason).collect::<Vec<_>>(), [PATH_TOO_LONG]);
        crate::files::remove_tree(&folder.path().join("artifacts")).unwrap();
    }

    #[test]
    fn the_first_are_kept_in_whatever_order_they_come_and_the_others_counted() {
        let mut first = First::new(3);
        [5, 1, 4, 9, 2, 3].into_iter().for_each(|number| first.add(number));
        assert_eq!((first.count, first.kept.len()), (6, 3));
        assert_eq!(first.sorted(), [1, 2, 3]);
    }

    #[test]
    fn of_more_files_and_links_than_there_may_be_the_first_are_listed_and_the_rest_is_said() {
        let folder = tempfile::tempdir().unwrap();
        let artifacts = folder.path().join("artifacts");
        fs::create_dir_all(artifacts.join("files")).unwrap();
        for number in 0..FILES_MAX + 5 {
            fs::File::create(artifacts.join(format!("files/{number:06}"))).unwrap();
        }
        for number in 0..REFUSED_MAX + 5 {
            symlink("/", artifacts.join(format!("link-{number:04}"))).unwrap();
        }
        let Walked { files, refused } = walk(folder.path(), "artifacts", None).unwrap();
        assert_eq!((files.len(), files.last().unwrap().as_str()), (FILES_MAX, "artifacts/files/009999"));
        let told: Vec<(&str, &str)> =
            refused.iter().map(|refused| (refused.path_rel.as_str(), refused.reason)).collect();
        assert_eq!(told.len(), REFUSED_MAX + 2);
        assert_eq!(told[REFUSED_MAX - 1], ("artifacts/link-0099", "it is a link"));
        assert_eq!(told[REFUSED_MAX..], [("artifacts", TOO_MANY), ("artifacts", MORE_REFUSED)]);
    }
}
