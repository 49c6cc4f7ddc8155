//! One package's folder: how its files look without reading them, and what they hold.

use std::fs::{self, File, Metadata, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use sha2::{Digest, Sha256};

use super::Installed;
use crate::skill::package::MAX_READ_BYTES;
use crate::skill::{Finding, Intake, PackageFiles, lint};

/// More files than this are not a skill.
const MAX_FILES: usize = 10_000;
/// Nor are more bytes than this.
const MAX_TOTAL_BYTES: u64 = 512 * 1024 * 1024;
/// Nor are folders nested deeper than this.
const MAX_DEPTH: usize = 32;
/// What tools leave behind in a folder; it is no part of a package.
pub const NOT_PACKAGED: [&str; 2] = [".git", "__pycache__"];
/// File systems stamp changes with a clock this coarse or finer: two changes inside one tick look the same.
const CLOCK_TICK: Duration = Duration::from_millis(50);
/// How often a package that changes while it is read is read again.
const READS: usize = 3;

/// The look of a package: enough to see that a file has changed, without opening any.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Survey {
    files: Vec<Look>,
    pub(super) findings: Vec<Finding>,
    too_large: bool,
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Look {
    path: String,
    inode: u64,
    size: u64,
    modified: (i64, i64),
    mode: u32,
}

impl Look {
    fn new(path: String, metadata: &Metadata) -> Self {
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

/// A package that was read.
pub(super) struct Loaded {
    pub(super) survey: Survey,
    pub(super) settled: bool,
    pub(super) outcome: Outcome,
}

impl Survey {
    /// Looks at a folder; none when it is not one.
    pub(super) fn of(dir: &Path) -> Option<Self> {
        if !fs::metadata(dir).is_ok_and(|found| found.is_dir()) {
            return None;
        }
        let mut walk = Walk { survey: Self { files: Vec::new(), findings: Vec::new(), too_large: false }, bytes: 0 };
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

    /// Whether every file had been left alone for longer than a tick at this time.
    pub(super) fn settled_at(&self, now: SystemTime) -> bool {
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
            Err(error) => return self.finding("UNREADABLE", prefix, &error.to_string(), "make it readable"),
        };
        for entry in entries {
            let found = entry.and_then(|entry| Ok((entry.file_name(), entry.path(), entry.metadata()?)));
            let (name, full, metadata) = match found {
                Ok(found) => found,
                // Removed while the folder was listed: the next look will not see it.
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                Err(error) => {
                    self.finding("UNREADABLE", prefix, &error.to_string(), "make it readable");
                    continue;
                }
            };
            let Some(name) = name.to_str() else {
                self.finding(
                    "NAME_NOT_UTF8",
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
                waiting.push((full, format!("{path}/"), depth + 1));
            } else if kind.is_file() {
                self.file(path, &metadata);
            } else if kind.is_symlink() {
                self.finding("SYMLINK", &path, "it is a symbolic link", "put the file itself in its place");
            } else {
                self.finding("SPECIAL_FILE", &path, "it is neither a file nor a folder", "remove it");
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

    fn too_large(&mut self, message: &str) {
        self.survey.too_large = true;
        self.finding("PACKAGE_TOO_LARGE", "", message, "keep data out of the package");
    }

    fn finding(&mut self, code: &'static str, path: &str, message: &str, hint: &str) {
        self.survey.findings.push(Finding::error(code, path, message, hint));
    }
}

/// Reads a package that looked like this; none when the folder has gone meanwhile.
pub(super) fn load(dir: &Path, folder: &str, survey: Survey, intake: Intake) -> Option<Loaded> {
    let mut survey = survey;
    for _ in 0..READS {
        let began = SystemTime::now();
        let outcome = read(dir, folder, &survey, intake);
        let after = Survey::of(dir)?;
        // A package that was replaced while it was read would be half old, half new.
        match outcome {
            Ok(outcome) if after == survey => {
                return Some(Loaded { settled: survey.settled_at(began), survey, outcome });
            }
            Ok(_) | Err(Changed) => survey = after,
        }
    }
    Some(Loaded { survey, settled: false, outcome: Err(vec![changing()]) })
}

/// The finding about a folder that does not hold still.
pub(super) fn changing() -> Finding {
    let message = "the folder kept changing while it was read";
    Finding::error("CHANGING", "", message, "try again when the change is done")
}

/// A file is no longer the one that was looked at.
pub(super) struct Changed;

type Outcome = Result<Installed, Vec<Finding>>;

fn read(dir: &Path, folder: &str, survey: &Survey, intake: Intake) -> Result<Outcome, Changed> {
    let mut findings = survey.findings.clone();
    if survey.too_large {
        return Ok(Err(findings));
    }
    let files = contents(dir, survey, &mut findings)?;
    Ok(match lint(folder, &files, intake) {
        Ok(skill) if findings.is_empty() => {
            Ok(Installed { skill, dir: dir.into(), files: files.paths().map(String::from).collect(), made: None })
        }
        Ok(skill) => Err(findings.into_iter().chain(skill.findings).collect()),
        Err(more) => Err(findings.into_iter().chain(more).collect()),
    })
}

/// What the files of a folder hold; those that cannot be read are findings.
pub(super) fn contents(dir: &Path, survey: &Survey, findings: &mut Vec<Finding>) -> Result<PackageFiles, Changed> {
    let mut files = PackageFiles::new();
    for look in &survey.files {
        match add(&mut files, dir, look) {
            Ok(Added::AsSeen) => {}
            Ok(Added::Changed) => return Err(Changed),
            Err(error) => {
                findings.push(Finding::error("UNREADABLE", &look.path, error.to_string(), "make it readable"));
            }
        }
    }
    Ok(files)
}

/// Whether the file that was read is the one that was looked at.
enum Added {
    AsSeen,
    Changed,
}

fn add(files: &mut PackageFiles, dir: &Path, look: &Look) -> io::Result<Added> {
    // Should the file have become a link or a pipe since it was looked at, opening it neither follows nor waits.
    let flags = libc::O_NOFOLLOW | libc::O_NONBLOCK;
    let file = match OpenOptions::new().read(true).custom_flags(flags).open(dir.join(&look.path)) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Added::Changed),
        Err(error) => return Err(error),
    };
    if Look::new(look.path.clone(), &file.metadata()?) != *look {
        return Ok(Added::Changed);
    }
    if look.size > MAX_READ_BYTES {
        files.insert_large(look.path.as_str(), digest(file)?);
    } else {
        let mut bytes = Vec::new();
        // One byte more than was seen: a file that grows stays bounded, and its date tells of it afterwards.
        file.take(look.size + 1).read_to_end(&mut bytes)?;
        files.insert(look.path.as_str(), bytes);
    }
    Ok(Added::AsSeen)
}

fn digest(file: File) -> io::Result<[u8; 32]> {
    let mut hasher = Sha256::new();
    let mut file = file.take(MAX_TOTAL_BYTES);
    let mut buffer = vec![0; 64 * 1024];
    loop {
        let length = file.read(&mut buffer)?;
        if length == 0 {
            return Ok(hasher.finalize().into());
        }
        hasher.update(&buffer[..length]);
    }
}
