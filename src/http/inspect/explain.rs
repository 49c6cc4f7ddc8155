//! `GET /v1/jobs/{id}/explain`: why a run failed, or with `path=/data/…` where a field of its result came from.

use axum::Json;
use axum::extract::State;
use axum::response::{IntoResponse, Response};

use crate::http::answer::problem::Problem;
use crate::http::request::query::Query;
use crate::http::request::run_in_path::RunInPath;
use crate::http::state::app::App;

/// The field that is explained if the run succeeded and none is named.
const WHOLE_RESULT: &str = "/data";

pub(crate) async fn explain(State(app): State<App>, asked: RunInPath, mut query: Query) -> Result<Response, Problem> {
    let path = query.text("path");
    query.finish()?;
    let status = asked.state.status();
    if !status.is_final() {
        return Err(Problem::result_not_ready(&asked.state));
    }
    let (log, run) = (app.orchestrator().log().clone(), asked.run());
    if path.is_none()
        && let Some(failure) = log.explain_failure(run).await?
    {
        return Ok(Json(failure).into_response());
    }
    let path = path.as_deref().unwrap_or(WHOLE_RESULT);
    Ok(Json(log.explain(run, path).await?).into_response())
}
