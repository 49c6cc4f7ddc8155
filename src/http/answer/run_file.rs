//! A JSON document of a run, read from its folder.

use std::io::Read;
use std::path::Path;

use serde::de::DeserializeOwned;

use crate::domain::run_file::RunFile;
use crate::files::open_beneath;
use crate::http::answer::problem::Problem;
use crate::orchestrator::Error;
use crate::workspace::RunPaths;

/// A JSON file that the runner wrote into a run's folder. Blocks.
pub(crate) fn read_json<T: DeserializeOwned>(paths: &RunPaths, file: RunFile) -> Result<T, Problem> {
    let io = |source| Problem::from(Error::Io { doing: format!("read {}", paths.file(file).display()), source });
    let opened = open_beneath(&paths.root, Path::new(file.name()));
    let mut file = opened.map_err(|error| io(std::io::Error::other(error)))?;
    let mut text = Vec::new();
    file.read_to_end(&mut text).map_err(io)?;
    serde_json::from_slice(&text).map_err(|error| io(error.into()))
}
