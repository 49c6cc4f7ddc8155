//! `GET /v1/jobs/{id}/result`: the result of a finished run.

use axum::Json;
use serde::Serialize;
use serde_json::value::RawValue;

use crate::domain::ids::RequestId;
use crate::domain::run_file::RunFile;
use crate::http::answer::problem::Problem;
use crate::http::answer::run_file::read_json;
use crate::http::request::run_in_path::RunInPath;
use crate::http::state::task::blocking;
use crate::workspace::RunPaths;

/// The result is the text of its file, so that no number in it changes.
#[derive(Serialize)]
pub(crate) struct Answer {
    request_id: RequestId,
    result: Box<RawValue>,
}

pub(crate) async fn result(asked: RunInPath) -> Result<Json<Answer>, Problem> {
    let status = asked.state.status();
    if !status.is_final() {
        return Err(Problem::ResultNotReady { status });
    }
    let request_id = asked.request();
    let result = result_of(asked.paths).await?;
    Ok(Json(Answer { request_id, result }))
}

/// The result file of a final run.
pub(crate) async fn result_of(paths: RunPaths) -> Result<Box<RawValue>, Problem> {
    blocking(move || read_json(&paths, RunFile::Result)).await
}
