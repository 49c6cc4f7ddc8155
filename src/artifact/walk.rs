//! The regular files below a folder that a skill has filled: no link is followed, nothing is opened that could block.

use std::fs::{self, FileType};
use std::io;
use std::os::unix::fs::FileTypeExt;
use std::path::Path;

use super::content::{UNREADABLE, can_be_caused_by_a_skill};
use crate::domain::run_file::RunFolder;
use crate::files::Error;

/// Folders below this depth are refused: their paths would soon be longer than programs can open.
const MAX_DEPTH: usize = 32;

/// A path that was left out, and why.
#[derive(Debug, Clone, PartialEq, Eq)]
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
    let mut walked = Walked::default();
    match fs::symlink_metadata(root.join(start)) {
        Ok(found) if found.is_dir() => walked.folder(root, start, without, 0)?,
        Ok(found) => walked.refuse(start.to_owned(), kind_objection(found.file_type()).unwrap_or("it is not a folder")),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(Error::on("look at", &root.join(start))(error)),
    }
    walked.files.sort_unstable();
    walked.refused.sort_unstable_by(|one, other| one.path_rel.cmp(&other.path_rel));
    Ok(walked)
}

/// The regular files below a folder of a run, by their paths in the run's folder, sorted.
pub(crate) fn files_below(run_root: &Path, folder: &str) -> Result<Vec<String>, Error> {
    Ok(walk(run_root, folder, None)?.files)
}

impl Walked {
    fn folder(&mut self, root: &Path, folder: &str, without: Option<RunFolder>, depth: usize) -> Result<(), Error> {
        let path = root.join(folder);
        let entries = match fs::read_dir(&path) {
            Ok(entries) => entries,
            Err(error) if can_be_caused_by_a_skill(error.kind()) => {
                self.refuse(folder.to_owned(), UNREADABLE);
                return Ok(());
            }
            Err(error) => return Err(Error::on("list", &path)(error)),
        };
        for entry in entries {
            let entry = entry.map_err(Error::on("list", &path))?;
            let joined = |name: &str| if folder.is_empty() { name.to_owned() } else { format!("{folder}/{name}") };
            let Ok(name) = entry.file_name().into_string() else {
                self.refuse(joined(&entry.file_name().to_string_lossy()), "its name is not UTF-8");
                continue;
            };
            let kind = entry.file_type().map_err(Error::on("look at", &entry.path()))?;
            match kind_objection(kind) {
                Some(reason) => self.refuse(joined(&name), reason),
                None if kind.is_file() => self.files.push(joined(&name)),
                None if folder.is_empty() && without.is_some_and(|without| without.name() == name) => {}
                None if depth == MAX_DEPTH => self.refuse(joined(&name), "it is nested too deeply"),
                None => self.folder(root, &joined(&name), without, depth + 1)?,
            }
        }
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
