//! The files of a run, as the command line names them.

use std::path::{Path, PathBuf};

use crate::cli::failure::Failure;
use crate::files::open_followed;
use crate::workspace::SentPart;

/// The files, if each is there and can be read.
pub(crate) fn named(files: &[(String, PathBuf)]) -> Result<Vec<SentPart>, Failure> {
    files.iter().map(|(key, path)| part(key, path)).collect()
}

fn part(key: &str, path: &Path) -> Result<SentPart, Failure> {
    let unusable = |reason: String| Failure::Usage(format!("--file {key}={}: {reason}", path.display()));
    open_followed(path).map_err(|error| unusable(error.to_string()))?;
    let file_name = path.file_name().map(|name| name.to_string_lossy().into_owned());
    Ok(SentPart { field: key.to_owned(), file_name, path: path.to_owned() })
}
