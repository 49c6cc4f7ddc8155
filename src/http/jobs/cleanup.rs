//! `POST /v1/jobs/cleanup`: deletes runs that have ended.

use axum::Json;
use axum::extract::State;
use serde::Deserialize;

use crate::bounded::whole;
use crate::http::answer::problem::Problem;
use crate::http::request::json_body::{JsonBody, JsonBodyOrNone};
use crate::http::state::app::App;
use crate::http::state::task::through;
use crate::orchestrator::Cleaned;

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Request {
    #[serde(default, deserialize_with = "whole::optional")]
    older_than_sec: Option<u64>,
    #[serde(default, deserialize_with = "whole::optional")]
    keep_last: Option<usize>,
}

pub(crate) async fn cleanup(
    State(app): State<App>,
    JsonBodyOrNone(request): JsonBodyOrNone<Request>,
) -> Result<Json<Cleaned>, Problem> {
    let orchestrator = app.orchestrator().clone();
    let JsonBody(request, _) = request.unwrap_or_default();
    let keep_last = request.keep_last.unwrap_or(0);
    through(async move { orchestrator.cleanup(request.older_than_sec, keep_last).await }).await.map(Json)
}
