//! A JSON document of a run, read from its folder.

use std::io::Read;
use std::path::Path;

use serde::de::DeserializeOwned;

use crate::http::answer::problem::Problem;
use crate::orchestrator::Error;
use crate::workspace::{RunPaths, open_beneath};

/// A JSON file that the runner wrote into a run's folder. Blocks.
pub(crate) fn read_json<T: DeserializeOwned>(paths: &RunPaths, path: &Path) -> Result<T, Problem> {
    let relative = path.strip_prefix(&paths.root).unwrap_or(path);
    let io = |source| Problem::from(Error::Io { doing: format!("read {}", path.display()), source });
    let mut file = open_beneath(&paths.root, relative).map_err(|error| io(std::io::Error::other(error)))?;
    let mut text = Vec::new();
    file.read_to_end(&mut text).map_err(io)?;
    serde_json::from_slice(&text).map_err(|error| io(error.into()))
}
