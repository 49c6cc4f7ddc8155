//! Which files a run produced, and what each is for.

use std::path::Path;

use globset::{GlobBuilder, GlobMatcher};

use super::content::{self, Chunk, UNREADABLE};
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
    /// What is there and is no artifact: links, pipes, devices, files that cannot be read.
    pub refused: Vec<Refused>,
}

/// Indexes the `artifacts` folder of a run. A file belongs to the first contract entry that fits it; one that fits none
/// is an artifact too, with role `output`.
pub fn index(run_root: &Path, contract: &[ContractEntry]) -> Result<Indexed, Error> {
    let promises = contract.iter().map(Promise::new).collect::<Result<Vec<_>, _>>()?;
    let Walked { files, mut refused } = walk::walk(run_root, FOLDER, None)?;
    let mut entries = Vec::with_capacity(files.len());
    let mut chunk = Chunk::new();
    for path_rel in files {
        match describe(run_root, &path_rel, &promises, &mut chunk)? {
            Some(entry) => entries.push(entry),
            None => refused.push(Refused { path_rel, reason: UNREADABLE }),
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

fn describe(
    run_root: &Path,
    path_rel: &str,
    promises: &[Promise<'_>],
    chunk: &mut Chunk,
) -> Result<Option<ArtifactEntry>, Error> {
    let path = run_root.join(path_rel);
    let Some(mut file) = content::open(&path)? else { return Ok(None) };
    let (size, sha256) = content::digest(&mut file, &path, chunk, |_| Ok(()))?;
    let promise = promises.iter().find(|promise| promise.fits(path_rel)).map(|promise| promise.entry);
    let guessed = || mime_guess::from_path(path_rel).first_or_octet_stream().to_string();
    Ok(Some(ArtifactEntry {
        role: promise.map_or("output", |entry| &entry.role).to_owned(),
        path_rel: path_rel.to_owned(),
        filename: path_rel.rsplit('/').next().unwrap_or(path_rel).to_owned(),
        mime: promise.and_then(|entry| entry.mime.clone()).unwrap_or_else(guessed),
        size,
        sha256,
        required: promise.is_some_and(|entry| entry.required),
    }))
}
