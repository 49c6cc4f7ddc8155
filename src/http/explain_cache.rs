//! `GET /v1/jobs/{id}/explain/cache`: whether a run's result came from an equal one, and if not, what differed.

use axum::Json;
use axum::extract::State;

use super::app::{App, blocking};
use super::asked_run::AskedRun;
use super::error::Problem;
use super::query::Query;
use crate::orchestrator::CacheStory;

pub(super) async fn explain(
    State(app): State<App>,
    asked: AskedRun,
    query: Query,
) -> Result<Json<CacheStory>, Problem> {
    query.finish()?;
    let log = app.orchestrator().log().clone();
    let run = asked.run();
    blocking(move || log.explain_cache(run)).await.map(Json)
}
