//! `POST /v1/jobs/{id}/cancel`: cancels a run in any state.

use axum::Json;
use axum::extract::State;

use crate::http::answer::problem::Problem;
use crate::http::request::run_in_path::RunInPath;
use crate::http::server::grant::Granted;
use crate::http::state::app::App;
use crate::http::state::task::through;
use crate::orchestrator::Canceled;

pub(crate) async fn cancel(
    State(app): State<App>,
    granted: Granted,
    asked: RunInPath,
) -> Result<Json<Canceled>, Problem> {
    let orchestrator = app.orchestrator().clone();
    let run = asked.run();
    let by = granted.by().unwrap_or_else(|| "client".to_owned());
    through(async move { orchestrator.cancel(run, &by, "canceled over the API").await }).await.map(Json)
}
