//! `GET /v1/jobs/{id}`: the run as it is now, or as it was after the event `at_seq`.

use axum::Json;
use axum::extract::State;

use crate::http::answer::problem::Problem;
use crate::http::request::at_seq::past;
use crate::http::request::query::Query;
use crate::http::request::run_in_path::RunInPath;
use crate::http::state::app::App;
use crate::orchestrator::Past;
use crate::projection::{Job, job};

pub(crate) async fn status(State(app): State<App>, asked: RunInPath, query: Query) -> Result<Json<Job>, Problem> {
    let Some(Past { state, .. }) = past(&app, &asked, query).await? else {
        return Ok(Json(app.orchestrator().job(asked.run()).await?));
    };
    // The queue is not part of the log, so there is no position for a past state.
    let mut job = job(&state, None);
    job.metadata = app.orchestrator().log().metadata(&state).await?;
    Ok(Json(job))
}
