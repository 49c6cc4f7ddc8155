//! `GET /v1/jobs/{id}/explain?path=/data/…`: where a field of the result came from.

use axum::Json;
use axum::extract::State;

use crate::http::answer::problem::Problem;
use crate::http::request::query::Query;
use crate::http::request::run_in_path::RunInPath;
use crate::http::state::app::App;
use crate::projection::Explanation;

pub(crate) async fn explain(
    State(app): State<App>,
    asked: RunInPath,
    mut query: Query,
) -> Result<Json<Explanation>, Problem> {
    let path = query.text("path").ok_or_else(|| Problem::invalid("path", "is required, such as /data/items/0"))?;
    query.finish()?;
    let status = asked.state.status();
    if !status.is_final() {
        return Err(Problem::ResultNotReady { status });
    }
    let (log, run) = (app.orchestrator().log().clone(), asked.run());
    Ok(Json(log.explain(run, &path).await?))
}
