//! Which files a run produced, and what each is for.

use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use globset::GlobMatcher;

use super::content::{self, Budget, TOO_LARGE, UNREADABLE};
use super::error::Error;
use super::walk::{self, Refused, Walked};
use crate::bounded;
use crate::domain::artifact::ArtifactEntry;
use crate::domain::run_file::RunFolder;
use crate::files;
use crate::skill::ArtifactRule;

/// A run's artifacts, compared with its skill's contract.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Indexed {
    /// Every regular file, sorted by path.
    pub entries: Vec<ArtifactEntry>,
    /// Required contract entries that no file fits.
    pub missing: Vec<ArtifactRule>,
    /// What is not an artifact: links, pipes, devices, files that cannot be read or are too large.
    pub refused: Vec<Refused>,
}

/// Indexes the `artifacts` folder of a run. A file belongs to the first contract entry that fits it; one that fits none
/// is an artifact too, with role `output`.
pub fn index(run_root: &Path, contract: &[ArtifactRule]) -> Result<Indexed, Error> {
    Ok(index_unless(run_root, contract, &AtomicBool::new(false))?.unwrap_or_default())
}

/// The same, broken off as soon as `stop` is set: then there is no result. Files may be as long as a disk.
pub(crate) fn index_unless(
    run_root: &Path,
    contract: &[ArtifactRule],
    stop: &AtomicBool,
) -> Result<Option<Indexed>, Error> {
    let Walked { files, mut refused } = walk::walk(run_root, RunFolder::Artifacts.name(), None)?;
    let Some(rules) = first_rules(contract, &files, stop)? else { return Ok(None) };
    let mut entries = Vec::with_capacity(files.len());
    let mut budget = Budget::new();
    for (path_rel, rule) in files.into_iter().zip(rules) {
        let path = run_root.join(&path_rel);
        match content::open(run_root, &path_rel)? {
            None => refused.push(Refused { path_rel, reason: UNREADABLE }),
            Some(file) if !budget.allows(&file, &path)? => refused.push(Refused { path_rel, reason: TOO_LARGE }),
            Some(file) => {
                let broken_off = || files::Error::on("read", &path)(io::Error::from(io::ErrorKind::Interrupted));
                let each = |_: &[u8]| if stop.load(Ordering::Relaxed) { Err(broken_off()) } else { Ok(()) };
                match content::digest(file, &path, each) {
                    Ok(content) => entries.push(describe(path_rel, content, rule)),
                    Err(_) if stop.load(Ordering::Relaxed) => return Ok(None),
                    Err(error) => return Err(error.into()),
                }
            }
        }
    }
    let Some(missing) = missing(contract, &entries, stop)? else { return Ok(None) };
    Ok(Some(Indexed { entries, missing, refused }))
}

/// For each file the first rule that fits it.
fn first_rules<'c>(
    contract: &'c [ArtifactRule],
    files: &[String],
    stop: &AtomicBool,
) -> Result<Option<Vec<Option<&'c ArtifactRule>>>, Error> {
    let mut first = vec![None; files.len()];
    for entry in contract {
        if stop.load(Ordering::Relaxed) {
            return Ok(None);
        }
        let rule = Rule::new(entry)?;
        for (first, path_rel) in first.iter_mut().zip(files).filter(|(first, _)| first.is_none()) {
            *first = rule.fits(path_rel).then_some(entry);
        }
    }
    Ok(Some(first))
}

/// The required rules that no file fits.
fn missing(
    contract: &[ArtifactRule],
    entries: &[ArtifactEntry],
    stop: &AtomicBool,
) -> Result<Option<Vec<ArtifactRule>>, Error> {
    let mut missing = Vec::new();
    for entry in contract.iter().filter(|entry| entry.required) {
        if stop.load(Ordering::Relaxed) {
            return Ok(None);
        }
        let rule = Rule::new(entry)?;
        if !entries.iter().any(|entry| rule.fits(&entry.path_rel)) {
            missing.push(entry.clone());
        }
    }
    Ok(Some(missing))
}

/// A rule with its compiled pattern. Only one at a time is held: matching takes memory, and a skill may have thousands.
struct Rule {
    glob: GlobMatcher,
}

impl Rule {
    fn new(entry: &ArtifactRule) -> Result<Self, Error> {
        let pattern = entry.pattern.strip_prefix("./").unwrap_or(&entry.pattern);
        let pattern = RunFolder::Artifacts.strip(pattern).unwrap_or(pattern);
        let glob =
            bounded::glob::glob(pattern).map_err(|reason| Error::Pattern { pattern: entry.pattern.clone(), reason })?;
        Ok(Self { glob: glob.compile_matcher() })
    }

    fn fits(&self, path_rel: &str) -> bool {
        RunFolder::Artifacts.strip(path_rel).is_some_and(|path| self.glob.is_match(path))
    }
}

fn describe(path_rel: String, (size, sha256): (u64, String), rule: Option<&ArtifactRule>) -> ArtifactEntry {
    let guessed = || mime_guess::from_path(&path_rel).first_or_octet_stream().to_string();
    ArtifactEntry {
        role: rule.map_or("output", |entry| &entry.role).to_owned(),
        filename: path_rel.rsplit('/').next().unwrap_or(&path_rel).to_owned(),
        mime: rule.and_then(|entry| entry.mime.clone()).unwrap_or_else(guessed),
        size,
        sha256,
        required: rule.is_some_and(|entry| entry.required),
        path_rel,
    }
}
