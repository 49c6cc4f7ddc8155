//! `GET /v1/jobs/{id}/explain?path=/data/…`: where a field of the result came from.

use axum::Json;
use axum::extract::State;

use super::app::{App, blocking};
use super::asked_run::AskedRun;
use super::error::Problem;
use super::query::Query;
use crate::projection::Explanation;

pub(super) async fn explain(
    State(app): State<App>,
    asked: AskedRun,
    mut query: Query,
) -> Result<Json<Explanation>, Problem> {
    let path = query.text("path").ok_or_else(|| Problem::invalid("path", "is required, such as /data/items/0"))?;
    query.finish()?;
    let status = asked.state.status;
    if !status.is_final() {
        return Err(Problem::ResultNotReady { status });
    }
    let (log, run) = (app.orchestrator().log().clone(), asked.run());
    Ok(Json(blocking(move || log.explain(run, &path)).await?))
}
