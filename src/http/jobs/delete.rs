//! `DELETE /v1/jobs/{id}`: deletes one run that has ended.

use axum::Json;
use axum::extract::State;
use serde_json::{Value, json};

use crate::http::answer::problem::Problem;
use crate::http::request::run_in_path::RunInPath;
use crate::http::state::app::App;
use crate::http::state::task::through;

pub(crate) async fn delete(State(app): State<App>, asked: RunInPath) -> Result<Json<Value>, Problem> {
    let orchestrator = app.orchestrator().clone();
    let (request, run) = (asked.request(), asked.run());
    let freed = through(async move { orchestrator.remove(run).await }).await?;
    Ok(Json(json!({"request_id": request, "run_id": run, "deleted": true, "bytes_freed": freed})))
}
