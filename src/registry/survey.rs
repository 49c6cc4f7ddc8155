//! The metadata of a package's files, read without opening them: enough to see that the package has changed.

use std::fs::{self, Metadata};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::domain::codes::FindingCode;
use crate::files::{Mark, Shortage};
use crate::skill::Finding;

/// Most files of a package, and most folders.
const MAX_FILES: usize = 10_000;
/// Most findings about a folder; what is wrong with further files is not told.
const MAX_FINDINGS: usize = 200;
/// Most bytes of all its files together.
pub(crate) const MAX_TOTAL_BYTES: u64 = 512 * 1024 * 1024;
/// Most folders within one another.
const MAX_DEPTH: usize = 32;
/// Folders that tools create; they are not part of a package.
pub(crate) const NOT_PACKAGED: [&str; 2] = [".git", "__pycache__"];
/// The clock of file systems is at most this coarse: two changes within one tick can have the same time stamp.
const CLOCK_TICK: Duration = Duration::from_millis(50);

/// The metadata of every file of a package.
#[derive(Debug, Clone)]
pub(crate) struct Survey {
    pub(crate) files: Vec<Look>,
    pub(crate) findings: Vec<Finding>,
    /// What the machine had too little of, so that not everything was seen.
    pub(crate) shortage: Option<Shortage>,
    pub(crate) too_large: bool,
    /// The folder itself and those in it.
    folders: Vec<(PathBuf, Mark)>,
}

/// Whether the package is the same: a folder changes also with what is not packaged.
impl PartialEq for Survey {
    fn eq(&self, other: &Self) -> bool {
        self.files == other.files
            && self.findings == other.findings
            && self.shortage == other.shortage
            && self.too_large == other.too_large
    }
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Look {
    pub(crate) path: String,
    inode: u64,
    pub(crate) size: u64,
    modified: (i64, i64),
    mode: u32,
}

impl Look {
    pub(crate) fn new(path: String, metadata: &Metadata) -> Self {
        Self {
            path,
            inode: metadata.ino(),
            size: metadata.size(),
            // Not the change time: a hard link to the file, which a run may make, would move it.
            modified: (metadata.mtime(), metadata.mtime_nsec()),
            mode: metadata.mode(),
        }
    }
}

impl Survey {
    /// Looks at every file of a folder; none when there is no such folder.
    pub(crate) fn of(dir: &Path) -> Option<Self> {
        let found = fs::metadata(dir).ok().filter(Metadata::is_dir)?;
        let folders = vec![(PathBuf::new(), Mark::new(&found))];
        let survey = Self { files: Vec::new(), findings: Vec::new(), shortage: None, too_large: false, folders };
        let mut walk = Walk { survey, bytes: 0 };
        let mut waiting = vec![(dir.to_path_buf(), String::new(), 0)];
        while let Some((dir, prefix, depth)) = waiting.pop() {
            walk.folder(&dir, &prefix, depth, &mut waiting);
            if walk.survey.too_large {
                break;
            }
        }
        let mut survey = walk.survey;
        survey.files.sort_unstable();
        Some(survey)
    }

    /// Whether another survey would find the same, seen without listing a folder: what is added to one, or removed, changes the
    /// folder. Only where this one was made a tick after the last change of a folder, and found nothing wrong.
    pub(crate) fn still_fits(&self, dir: &Path) -> bool {
        let same = |(path, mark): &(PathBuf, Mark)| match path.as_os_str().is_empty() {
            true => fs::metadata(dir).is_ok_and(|found| Mark::new(&found) == *mark),
            false => fs::symlink_metadata(dir.join(path)).is_ok_and(|found| Mark::new(&found) == *mark),
        };
        let unchanged = |look: &Look| {
            let found = fs::symlink_metadata(dir.join(&look.path));
            found.is_ok_and(|found| Look::new(look.path.clone(), &found) == *look)
        };
        self.shortage.is_none()
            && self.findings.is_empty()
            && self.folders.iter().all(same)
            && self.files.iter().all(unchanged)
    }

    /// Whether no folder was changed within the last tick before `now`.
    pub(crate) fn folders_stable_at(&self, now: SystemTime) -> bool {
        self.folders.iter().all(|(_, mark)| mark.is_stable_at(now))
    }

    /// Whether no file was changed within the last tick before `now`, so that every later change is visible.
    pub(crate) fn stable_at(&self, now: SystemTime) -> bool {
        let now = now.duration_since(UNIX_EPOCH).unwrap_or_default();
        let quiet = |look: &Look| {
            let (seconds, nanos) = look.modified;
            let modified = Duration::new(u64::try_from(seconds).unwrap_or(0), u32::try_from(nanos).unwrap_or(0));
            modified + CLOCK_TICK < now
        };
        self.files.iter().all(quiet)
    }
}

struct Walk {
    survey: Survey,
    bytes: u64,
}

impl Walk {
    fn folder(&mut self, dir: &Path, prefix: &str, depth: usize, waiting: &mut Vec<(PathBuf, String, usize)>) {
        let entries = match fs::read_dir(dir) {
            Ok(entries) => entries,
            Err(error) => return self.unreadable(prefix, &error),
        };
        for entry in entries {
            let found = entry.and_then(|entry| Ok((entry.file_name(), entry.path(), entry.metadata()?)));
            let (name, full, metadata) = match found {
                Ok(found) => found,
                // It was removed while the folder was listed.
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                Err(error) => {
                    self.unreadable(prefix, &error);
                    continue;
                }
            };
            let Some(name) = name.to_str() else {
                self.finding(
                    FindingCode::NameNotUtf8,
                    &format!("{prefix}{}", name.to_string_lossy()),
                    "its name is not UTF-8",
                    "rename it",
                );
                continue;
            };
            if NOT_PACKAGED.contains(&name) {
                continue;
            }
            let path = format!("{prefix}{name}");
            let kind = metadata.file_type();
            if kind.is_dir() {
                if depth == MAX_DEPTH {
                    return self.too_large(&format!("its folders are nested deeper than {MAX_DEPTH}"));
                }
                if self.survey.folders.len() > MAX_FILES {
                    return self.too_large(&format!("it has more than {MAX_FILES} folders"));
                }
                self.survey.folders.push((PathBuf::from(&path), Mark::new(&metadata)));
                waiting.push((full, format!("{path}/"), depth + 1));
            } else if kind.is_file() {
                self.file(path, &metadata);
            } else if kind.is_symlink() {
                self.finding(FindingCode::Symlink, &path, "it is a symbolic link", "put the file itself in its place");
            } else {
                self.finding(FindingCode::SpecialFile, &path, "it is neither a file nor a folder", "remove it");
            }
            if self.survey.too_large {
                return;
            }
        }
    }

    fn file(&mut self, path: String, metadata: &Metadata) {
        self.bytes = self.bytes.saturating_add(metadata.size());
        self.survey.files.push(Look::new(path, metadata));
        if self.survey.files.len() > MAX_FILES {
            self.too_large(&format!("it has more than {MAX_FILES} files"));
        } else if self.bytes > MAX_TOTAL_BYTES {
            self.too_large(&format!("its files are larger than {} MiB together", MAX_TOTAL_BYTES / 1024 / 1024));
        }
    }

    fn unreadable(&mut self, path: &str, error: &io::Error) {
        match Shortage::behind(error) {
            Some(shortage) => self.survey.shortage = Some(shortage),
            None => self.finding(FindingCode::Unreadable, path, &error.to_string(), "make it readable"),
        }
    }

    fn too_large(&mut self, message: &str) {
        self.survey.too_large = true;
        self.finding(FindingCode::PackageTooLarge, "", message, "keep data out of the package");
    }

    fn finding(&mut self, code: FindingCode, path: &str, message: &str, hint: &str) {
        // That a package is too large is always told: nothing of it is read.
        if self.survey.findings.len() < MAX_FINDINGS || self.survey.too_large {
            self.survey.findings.push(Finding::error(code, path, message, hint));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What somebody may do to a package, and whether a second survey would differ.
    #[test]
    fn every_change_of_a_package_is_seen_without_listing_its_folders() {
        type Change = fn(&Path);
        let changes: [(&str, Change); 7] = [
            ("a file more", |dir| fs::write(dir.join("new"), "").unwrap()),
            ("a file more in a folder", |dir| fs::write(dir.join("assets/new"), "").unwrap()),
            ("a folder more", |dir| fs::create_dir(dir.join("assets/deep/new")).unwrap()),
            ("a file less", |dir| fs::remove_file(dir.join("assets/deep/b")).unwrap()),
            ("other content", |dir| fs::write(dir.join("assets/deep/b"), "other").unwrap()),
            ("a link in a folder's place", |dir| {
                fs::rename(dir.join("assets/deep"), dir.join("aside")).unwrap();
                std::os::unix::fs::symlink(dir.join("aside"), dir.join("assets/deep")).unwrap();
            }),
            ("nothing left", |dir| fs::remove_dir_all(dir).unwrap()),
        ];
        for (what, change) in changes {
            let outer = tempfile::tempdir().unwrap();
            let dir = outer.path().join("skill");
            fs::create_dir_all(dir.join("assets/deep")).unwrap();
            fs::write(dir.join("a"), "a").unwrap();
            fs::write(dir.join("assets/deep/b"), "b").unwrap();
            // Else the next change could fall into the same tick of the clock.
            std::thread::sleep(CLOCK_TICK);
            let survey = Survey::of(&dir).unwrap();
            assert!(survey.still_fits(&dir), "{what}");
            change(&dir);
            assert!(!survey.still_fits(&dir), "{what}");
        }
    }

    #[test]
    fn a_survey_right_after_a_change_is_not_trusted() {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir(dir.path().join("assets")).unwrap();
        let survey = Survey::of(dir.path()).unwrap();
        assert!(!survey.folders_stable_at(UNIX_EPOCH));
        assert!(survey.folders_stable_at(SystemTime::now() + 2 * CLOCK_TICK));
    }
}
