//! `GET /v1/jobs/{id}/explain/cache`: whether the result came from an equal run, and if not, what differed.

use axum::Json;
use axum::extract::State;

use crate::http::answer::problem::Problem;
use crate::http::request::query::Query;
use crate::http::request::run_in_path::RunInPath;
use crate::http::state::app::App;
use crate::orchestrator::CacheStory;

pub(crate) async fn explain(
    State(app): State<App>,
    asked: RunInPath,
    query: Query,
) -> Result<Json<CacheStory>, Problem> {
    query.finish()?;
    let log = app.orchestrator().log().clone();
    let run = asked.run();
    Ok(Json(log.explain_cache(run).await?))
}
