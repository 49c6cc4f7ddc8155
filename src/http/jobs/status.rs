//! `GET /v1/jobs/{id}`: the run as it stands, or as it was after one of its events.

use axum::Json;
use axum::extract::State;

use crate::domain::ids::Seq;
use crate::http::answer::problem::Problem;
use crate::http::request::query::Query;
use crate::http::request::run_in_path::RunInPath;
use crate::http::server::app::App;
use crate::http::server::task::blocking;
use crate::projection::{Job, job};

pub(crate) async fn status(State(app): State<App>, asked: RunInPath, mut query: Query) -> Result<Json<Job>, Problem> {
    let at_seq = query.whole("at_seq")?;
    query.finish()?;
    let run = asked.run();
    let Some(seq) = at_seq else { return Ok(Json(app.orchestrator().job(run)?)) };
    let log = app.orchestrator().log().clone();
    let state = blocking(move || log.state_at(run, Seq(seq))).await?;
    // The queue is no part of the log, so a moment of the past has no place in it.
    Ok(Json(job(&state, None)))
}
