//! `GET /v1/jobs/{id}/result`: what came of a run.

use std::io::Read;
use std::path::Path;

use axum::Json;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;

use super::app::blocking;
use super::asked_run::AskedRun;
use super::error::Problem;
use crate::domain::ids::RequestId;
use crate::orchestrator::Error;
use crate::workspace::{RunPaths, open_beneath};

/// The answer; the result is the text of its file, so that no number in it changes.
#[derive(Serialize)]
pub(super) struct Answer {
    request_id: RequestId,
    result: Box<RawValue>,
}

pub(super) async fn result(asked: AskedRun) -> Result<Json<Answer>, Problem> {
    let status = asked.state.status;
    if !status.is_final() {
        return Err(Problem::ResultNotReady { status });
    }
    let request_id = asked.request();
    let result = result_of(asked.paths).await?;
    Ok(Json(Answer { request_id, result }))
}

/// The result file of a final run.
pub(super) async fn result_of(paths: RunPaths) -> Result<Box<RawValue>, Problem> {
    blocking(move || read_json(&paths, &paths.result_json())).await
}

/// A JSON file that the runner wrote into a run's folder. Blocks.
pub(super) fn read_json<T: DeserializeOwned>(paths: &RunPaths, path: &Path) -> Result<T, Problem> {
    let relative = path.strip_prefix(&paths.root).unwrap_or(path);
    let io = |source| Problem::from(Error::Io { doing: format!("read {}", path.display()), source });
    let mut file = open_beneath(&paths.root, relative).map_err(|error| io(std::io::Error::other(error)))?;
    let mut text = Vec::new();
    file.read_to_end(&mut text).map_err(io)?;
    serde_json::from_slice(&text).map_err(|error| io(error.into()))
}
