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
    let rules = contract.iter().map(Rule::new).collect::<Result<Vec<_>, _>>()?;
    let Walked { files, mut refused } = walk::walk(run_root, RunFolder::Artifacts.name(), None)?;
    let mut entries = Vec::with_capacity(files.len());
    let mut budget = Budget::new();
    for path_rel in files {
        let path = run_root.join(&path_rel);
        match content::open(run_root, &path_rel)? {
            None => refused.push(Refused { path_rel, reason: UNREADABLE }),
            Some(file) if !budget.allows(&file, &path)? => refused.push(Refused { path_rel, reason: TOO_LARGE }),
            Some(file) => {
                let broken_off = || files::Error::on("read", &path)(io::Error::from(io::ErrorKind::Interrupted));
                let each = |_: &[u8]| if stop.load(Ordering::Relaxed) { Err(broken_off()) } else { Ok(()) };
                match content::digest(file, &path, each) {
                    Ok(content) => entries.push(describe(path_rel, content, &rules)),
                    Err(_) if stop.load(Ordering::Relaxed) => return Ok(None),
                    Err(error) => return Err(error.into()),
                }
            }
        }
    }
    let missing = rules
        .iter()
        .filter(|rule| rule.entry.required && !entries.iter().any(|entry| rule.fits(&entry.path_rel)))
        .map(|rule| rule.entry.clone())
        .collect();
    Ok(Some(Indexed { entries, missing, refused }))
}

struct Rule<'a> {
    entry: &'a ArtifactRule,
    glob: GlobMatcher,
}

impl<'a> Rule<'a> {
    fn new(entry: &'a ArtifactRule) -> Result<Self, Error> {
        let pattern = entry.pattern.strip_prefix("./").unwrap_or(&entry.pattern);
        let pattern = RunFolder::Artifacts.strip(pattern).unwrap_or(pattern);
        let glob =
            bounded::glob::glob(pattern).map_err(|reason| Error::Pattern { pattern: entry.pattern.clone(), reason })?;
        Ok(Self { entry, glob: glob.compile_matcher() })
    }

    fn fits(&self, path_rel: &str) -> bool {
        RunFolder::Artifacts.strip(path_rel).is_some_and(|path| self.glob.is_match(path))
    }
}

fn describe(path_rel: String, (size, sha256): (u64, String), rules: &[Rule<'_>]) -> ArtifactEntry {
    let rule = rules.iter().find(|rule| rule.fits(&path_rel)).map(|rule| rule.entry);
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
