//! `POST /v1/jobs/cleanup`: deletes runs that have ended.

use std::time::{SystemTime, UNIX_EPOCH};

use axum::Json;
use axum::extract::State;
use serde::Deserialize;

use crate::domain::time::Timestamp;
use crate::http::answer::problem::Problem;
use crate::http::request::json_body::{JsonBody, JsonBodyOrNone};
use crate::http::state::app::App;
use crate::http::state::task::through;
use crate::orchestrator::Cleaned;

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Request {
    #[serde(default)]
    older_than_sec: Option<u64>,
    #[serde(default)]
    keep_last: Option<usize>,
}

pub(crate) async fn cleanup(
    State(app): State<App>,
    JsonBodyOrNone(request): JsonBodyOrNone<Request>,
) -> Result<Json<Cleaned>, Problem> {
    let orchestrator = app.orchestrator().clone();
    let JsonBody(request, _) = request.unwrap_or_default();
    let older_than = request.older_than_sec.map(seconds_ago);
    let keep_last = request.keep_last.unwrap_or(0);
    through(async move { orchestrator.cleanup(older_than, keep_last).await }).await.map(Json)
}

fn seconds_ago(seconds: u64) -> Timestamp {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_micros();
    let micros = i128::try_from(now).unwrap_or(i128::MAX) - i128::from(seconds) * 1_000_000;
    Timestamp::from_micros(i64::try_from(micros).unwrap_or(i64::MIN))
}
