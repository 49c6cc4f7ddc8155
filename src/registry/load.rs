//! A package's folder, read and checked.

use std::collections::HashSet;
use std::fs::{self, DirEntry, File};
use std::io::{self, Read};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use sha2::{Digest, Sha256};
use tracing::warn;

use super::installed::{Installed, NotUsable};
use super::survey::{Look, MAX_TOTAL_BYTES, Survey};
use crate::domain::codes::FindingCode;
use crate::files::{self, Shortage, for_each_chunk};
use crate::skill::package::MAX_READ_BYTES;
use crate::skill::{Finding, Intake, PackageFiles, lint};

/// Most bytes of a package that are held while it is read: several packages may be, at once. All others are known by their digest.
const MAX_KEPT_BYTES: u64 = 16 * 1024 * 1024;
/// How often a package that changes while it is read is read again.
const READS: usize = 3;

/// A package that was read.
pub(crate) struct Loaded {
    pub(crate) survey: Survey,
    /// Whether every later change of the files will show in their [`Survey`].
    pub(crate) stable: bool,
    pub(crate) outcome: Outcome,
}

/// Reads a package; none when its folder was removed meanwhile.
pub(crate) fn load(dir: &Path, folder: &str, mut survey: Survey, intake: Intake) -> Option<Loaded> {
    for _ in 0..READS {
        let began = SystemTime::now();
        let outcome = read(dir, folder, &survey, intake);
        let after = Survey::of(dir)?;
        // A package that was replaced while it was read would be half old, half new.
        match outcome {
            Err(Interrupted::Shortage(shortage)) => {
                return Some(Loaded { survey, stable: false, outcome: Err(NotUsable::Unread(shortage)) });
            }
            Ok(outcome) if after == survey => {
                let stable = survey.stable_at(began) && !may_pass(&outcome);
                return Some(Loaded { stable, survey, outcome });
            }
            Ok(_) | Err(Interrupted::Changed) => survey = after,
        }
    }
    Some(Loaded { survey, stable: false, outcome: Err(NotUsable::Invalid { findings: vec![changing()] }) })
}

/// Whether another look may give another answer although nothing was changed: a disk that failed may work again.
fn may_pass(outcome: &Outcome) -> bool {
    let unreadable = |findings: &[Finding]| findings.iter().any(|finding| finding.code == FindingCode::Unreadable);
    matches!(outcome, Err(NotUsable::Invalid { findings }) if unreadable(findings))
}

/// The finding about a folder that changed during every attempt to read it.
pub(crate) fn changing() -> Finding {
    let message = "the folder kept changing while it was read";
    Finding::error(FindingCode::Changing, "", message, "try again when the change is done")
}

/// Why what was read says nothing about the package.
pub(crate) enum Interrupted {
    /// A file is no longer the one that was looked at.
    Changed,
    Shortage(Shortage),
}

impl From<Interrupted> for NotUsable {
    fn from(interrupted: Interrupted) -> Self {
        match interrupted {
            Interrupted::Changed => Self::Invalid { findings: vec![changing()] },
            Interrupted::Shortage(shortage) => Self::Unread(shortage),
        }
    }
}

type Outcome = Result<Installed, NotUsable>;

fn read(dir: &Path, folder: &str, survey: &Survey, intake: Intake) -> Result<Outcome, Interrupted> {
    let mut findings = survey.findings.clone();
    if survey.too_large {
        return Ok(Err(NotUsable::Invalid { findings }));
    }
    let files = contents(dir, survey, &mut findings)?;
    Ok(match guarded(|| lint(folder, &files, intake)) {
        Ok(skill) if findings.is_empty() => Ok(Installed {
            skill: skill.into(),
            dir: dir.into(),
            files: files.paths().map(String::from).collect(),
            generated: None,
        }),
        Ok(skill) => Err(NotUsable::Invalid { findings: findings.into_iter().chain(skill.findings).collect() }),
        Err(more) => Err(NotUsable::Invalid { findings: findings.into_iter().chain(more).collect() }),
    })
}

/// A check that broke is a finding about this package, and nothing else: the list of all others must not break with it.
fn guarded<T>(check: impl FnOnce() -> Result<T, Vec<Finding>>) -> Result<T, Vec<Finding>> {
    catch_unwind(AssertUnwindSafe(check)).unwrap_or_else(|_| {
        let message = "the runner broke while it checked the package, which is a fault of the runner";
        let hint = "its log names the place in the program; report it, with the package";
        Err(vec![Finding::error(FindingCode::Unreadable, "", message, hint)])
    })
}

/// What the files of a folder hold; those that cannot be read are findings.
pub(crate) fn contents(dir: &Path, survey: &Survey, findings: &mut Vec<Finding>) -> Result<PackageFiles, Interrupted> {
    contents_up_to(MAX_KEPT_BYTES, dir, survey, findings)
}

/// The same, with so many bytes held.
pub(crate) fn contents_up_to(
    most: u64,
    dir: &Path,
    survey: &Survey,
    findings: &mut Vec<Finding>,
) -> Result<PackageFiles, Interrupted> {
    if let Some(shortage) = survey.shortage {
        return Err(Interrupted::Shortage(shortage));
    }
    let mut files = PackageFiles::new();
    let kept = kept(survey, most);
    for look in &survey.files {
        match add(&mut files, dir, look, kept.contains(look.path.as_str())) {
            Ok(Added::AsSeen) => {}
            Ok(Added::Changed) => return Err(Interrupted::Changed),
            Err(error) => {
                if let Some(shortage) = Shortage::behind(&error) {
                    return Err(Interrupted::Shortage(shortage));
                }
                findings.push(Finding::error(
                    FindingCode::Unreadable,
                    &look.path,
                    error.to_string(),
                    "make it readable",
                ));
            }
        }
    }
    Ok(files)
}

/// The files whose bytes are held while the package is read. Those that it is read by come first, then the shortest.
fn kept(survey: &Survey, most: u64) -> HashSet<&str> {
    let rank = |path: &str| match path.split_once('/') {
        None | Some(("assets", _)) => 0,
        Some(("scripts", _)) => 1,
        Some(_) => 2,
    };
    let mut looks: Vec<&Look> = survey.files.iter().filter(|look| look.size <= MAX_READ_BYTES).collect();
    looks.sort_by_key(|look| (rank(&look.path), look.size));
    let mut left = most;
    let fits = |look: &&Look| match left.checked_sub(look.size) {
        Some(rest) => {
            left = rest;
            true
        }
        None => false,
    };
    looks.into_iter().filter(fits).map(|look| look.path.as_str()).collect()
}

/// Whether the file that was read is the one that was looked at.
enum Added {
    AsSeen,
    Changed,
}

fn add(files: &mut PackageFiles, dir: &Path, look: &Look, keep: bool) -> io::Result<Added> {
    let file = match files::open_regular(&dir.join(&look.path)) {
        Ok(file) => file,
        // It was a regular file when it was looked at.
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::InvalidInput) => {
            return Ok(Added::Changed);
        }
        Err(error) => return Err(error.source),
    };
    if Look::new(look.path.clone(), &file.metadata()?) != *look {
        return Ok(Added::Changed);
    }
    if !keep {
        files.insert_large(look.path.as_str(), digest(file)?);
    } else {
        let mut bytes = Vec::new();
        // At most one byte more than was seen, so that a growing file stays bounded; its new date shows that it grew.
        file.take(look.size + 1).read_to_end(&mut bytes)?;
        files.insert(look.path.as_str(), bytes);
    }
    Ok(Added::AsSeen)
}

fn digest(file: File) -> io::Result<[u8; 32]> {
    let mut hasher = Sha256::new();
    let whole = file.take(MAX_TOTAL_BYTES);
    for_each_chunk(
        whole,
        |error| error,
        |chunk| {
            hasher.update(chunk);
            Ok(())
        },
    )?;
    Ok(hasher.finalize().into())
}

/// What is in a folder of packages; nothing if it is not there, or cannot be read for a reason that is told.
pub(crate) fn listed(folder: &Path) -> Result<Vec<DirEntry>, Shortage> {
    let error = match fs::read_dir(folder).and_then(Iterator::collect) {
        Ok(entries) => return Ok(entries),
        Err(error) => error,
    };
    if let Some(shortage) = Shortage::behind(&error) {
        return Err(shortage);
    }
    if error.kind() != io::ErrorKind::NotFound {
        warn!(folder = %folder.display(), %error, "a folder of skills cannot be read");
    }
    Ok(Vec::new())
}

/// Reads one package in any folder.
pub fn load_dir(path: &Path, intake: Intake) -> Result<Installed, NotUsable> {
    let (dir, folder, survey) = outside(path)?;
    load(&dir, &folder, survey, intake).ok_or_else(|| not_a_folder(path))?.outcome
}

/// A folder outside the skills folder: its real path, its name and its survey.
pub(crate) fn outside(path: &Path) -> Result<(PathBuf, String, Survey), NotUsable> {
    // The real path, because `.` does not tell the folder's name.
    let dir = path.canonicalize().map_err(|_| not_a_folder(path))?;
    let folder = dir.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let survey = Survey::of(&dir).ok_or_else(|| not_a_folder(path))?;
    Ok((dir, folder, survey))
}

fn not_a_folder(path: &Path) -> NotUsable {
    let message = format!("{} is not a folder that can be read", path.display());
    let finding = Finding::error(FindingCode::Unreadable, "", message, "give the path of an existing folder");
    NotUsable::Invalid { findings: vec![finding] }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_check_that_breaks_is_a_finding_about_its_package() {
        assert_eq!(guarded(|| Ok(7)), Ok(7));
        let broken = guarded(|| -> Result<(), _> { panic!("a fault that nobody knows of") }).unwrap_err();
        let codes: Vec<FindingCode> = broken.iter().map(|finding| finding.code).collect();
        assert_eq!(codes, [FindingCode::Unreadable]);
    }
}
