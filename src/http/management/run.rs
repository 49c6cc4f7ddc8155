//! `GET /v1/management/runs/{id}`: the job, and whether a front end should poll its logs.

use axum::Json;
use axum::extract::State;
use serde::Serialize;

use crate::domain::statechart::Status;
use crate::http::answer::problem::Problem;
use crate::http::jobs::status;
use crate::http::request::query::Query;
use crate::http::request::run_in_path::RunInPath;
use crate::http::state::app::App;
use crate::projection::Job;

/// The job, and whether its logs may still grow.
#[derive(Serialize)]
pub(crate) struct Conversation {
    #[serde(flatten)]
    job: Job,
    poll_logs: bool,
}

pub(crate) async fn conversation(
    app: State<App>,
    asked: RunInPath,
    query: Query,
) -> Result<Json<Conversation>, Problem> {
    let Json(job) = status::status(app, asked, query).await?;
    let poll_logs = matches!(job.status, Status::Queued | Status::Running);
    Ok(Json(Conversation { job, poll_logs }))
}
