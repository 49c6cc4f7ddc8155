//! `POST /v1/jobs/{id}/cancel`: stop a run, wherever it is.

use axum::Json;
use axum::extract::State;

use super::app::{App, through};
use super::asked_run::AskedRun;
use super::error::Problem;
use crate::orchestrator::Canceled;

pub(super) async fn cancel(State(app): State<App>, asked: AskedRun) -> Result<Json<Canceled>, Problem> {
    let orchestrator = app.orchestrator().clone();
    let run = asked.run();
    through(async move { orchestrator.cancel(run, "client", "canceled over the API").await }).await.map(Json)
}
