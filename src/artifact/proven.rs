//! The files of a run that its proof is about, besides its artifacts.

use std::fs::File;
use std::path::Path;

use super::content::{self, Budget};
use super::error::Error;
use super::walk;
use crate::domain::proven_file::ProvenFile;
use crate::domain::run_file::{RunFile, RunFolder};

/// Files that are in the proof where they exist.
const PROVEN_FILES: [RunFile; 3] = [RunFile::Input, RunFile::Skill, RunFile::Prompt];
/// Folders whose files are in the proof, besides the artifacts.
const PROVEN_FOLDERS: [RunFolder; 3] = [RunFolder::Uploads, RunFolder::Raw, RunFolder::Result];

/// Whether the proof of a run covers the file at this path, besides artifacts, if it exists.
pub(crate) fn is_proven(path: &str) -> bool {
    PROVEN_FILES.iter().any(|file| file.name() == path)
        || PROVEN_FOLDERS.iter().any(|folder| folder.strip(path).is_some())
}

/// The files in a run's folder, sorted by path. Links, pipes and what the runner may not read are none of them, and neither are
/// more than 4 GiB. Those in `known` were written just now, so they are not read again.
pub(crate) fn proven_files(run_root: &Path, known: &[ProvenFile]) -> Result<Vec<ProvenFile>, Error> {
    let mut budget = Budget::new();
    let mut found = Vec::with_capacity(8);
    let mut take = |path: String| -> Result<(), Error> {
        if let Some(known) = known.iter().find(|known| known.path == path) {
            found.push(known.clone());
        } else if let Some(file) = content::open(run_root, &path)? {
            found.extend(digest(run_root, path, file, &mut budget)?);
        }
        Ok(())
    };
    for file in PROVEN_FILES {
        take(file.name().to_owned())?;
    }
    for folder in PROVEN_FOLDERS {
        walk::walk(run_root, folder.name(), None)?.files.into_iter().try_for_each(&mut take)?;
    }
    found.sort_unstable();
    Ok(found)
}

fn digest(run_root: &Path, path: String, file: File, budget: &mut Budget) -> Result<Option<ProvenFile>, Error> {
    let whole = run_root.join(&path);
    if !budget.allows(&file, &whole)? {
        return Ok(None);
    }
    let (size, sha256) = content::digest(file, &whole, |_| Ok(()))?;
    Ok(Some(ProvenFile { path, size, sha256 }))
}
