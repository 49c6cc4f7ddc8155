//! Which files a run produced, and what each is for.

use std::path::Path;

use globset::{GlobBuilder, GlobMatcher};

use super::content::{self, Budget, Chunk, TOO_LARGE, UNREADABLE};
use super::walk::{self, Refused, Walked};
use super::{ArtifactEntry, ContractEntry, Error};

const FOLDER: &str = "artifacts";

/// A run's artifacts, held against its skill's contract.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Indexed {
    /// Every regular file, sorted by path.
    pub entries: Vec<ArtifactEntry>,
    /// Required contract entries that no file fits.
    pub missing: Vec<ContractEntry>,
    /// What is there and is no artifact: links, pipes, devices, files that cannot be read or are too large.
    pub refused: Vec<Refused>,
}

/// Indexes the `artifacts` folder of a run. A file belongs to the first contract entry that fits it; one that fits none
/// is an artifact too, with role `output`.
pub fn index(run_root: &Path, contract: &[ContractEntry]) -> Result<Indexed, Error> {
    let promises = contract.iter().map(Promise::new).collect::<Result<Vec<_>, _>>()?;
    let Walked { files, mut refused } = walk::walk(run_root, FOLDER, None)?;
    let mut entries = Vec::with_capacity(files.len());
    let (mut chunk, mut budget) = (Chunk::new(), Budget::new());
    for path_rel in files {
        let path = run_root.join(&path_rel);
        match content::open(&path)? {
            None => refused.push(Refused { path_rel, reason: UNREADABLE }),
            Some(file) if !budget.allows(&file, &path)? => refused.push(Refused { path_rel, reason: TOO_LARGE }),
            Some(mut file) => {
                let content = content::digest(&mut file, &path, &mut chunk, |_| Ok(()))?;
                entries.push(describe(path_rel, content, &promises));
            }
        }
    }
    let missing = promises
        .iter()
        .filter(|promise| promise.entry.required && !entries.iter().any(|entry| promise.fits(&entry.path_rel)))
        .map(|promise| promise.entry.clone())
        .collect();
    Ok(Indexed { entries, missing, refused })
}

struct Promise<'a> {
    entry: &'a ContractEntry,
    glob: GlobMatcher,
}

impl<'a> Promise<'a> {
    fn new(entry: &'a ContractEntry) -> Result<Self, Error> {
        let pattern = entry.pattern.strip_prefix("./").unwrap_or(&entry.pattern);
        let pattern = below_folder(pattern).unwrap_or(pattern);
        let glob = GlobBuilder::new(pattern)
            .literal_separator(true)
            .build()
            .map_err(|source| Error::Pattern { pattern: entry.pattern.clone(), source })?;
        Ok(Self { entry, glob: glob.compile_matcher() })
    }

    fn fits(&self, path_rel: &str) -> bool {
        below_folder(path_rel).is_some_and(|path| self.glob.is_match(path))
    }
}

fn below_folder(path: &str) -> Option<&str> {
    path.strip_prefix(FOLDER)?.strip_prefix('/')
}

fn describe(path_rel: String, (size, sha256): (u64, String), promises: &[Promise<'_>]) -> ArtifactEntry {
    let promise = promises.iter().find(|promise| promise.fits(&path_rel)).map(|promise| promise.entry);
    let guessed = || mime_guess::from_path(&path_rel).first_or_octet_stream().to_string();
    ArtifactEntry {
        role: promise.map_or("output", |entry| &entry.role).to_owned(),
        filename: path_rel.rsplit('/').next().unwrap_or(&path_rel).to_owned(),
        mime: promise.and_then(|entry| entry.mime.clone()).unwrap_or_else(guessed),
        size,
        sha256,
        required: promise.is_some_and(|entry| entry.required),
        path_rel,
    }
}
