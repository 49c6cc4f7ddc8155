//! `GET /v1/jobs/{id}/result`: the result of a finished run.

use axum::Json;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use serde_json::value::RawValue;

use crate::domain::ids::RequestId;
use crate::http::answer::problem::Problem;
use crate::http::request::at_seq::past;
use crate::http::request::query::Query;
use crate::http::request::run_in_path::RunInPath;
use crate::http::state::app::App;

/// The result is the text of its file, so that no number in it changes.
#[derive(Serialize)]
pub(crate) struct Answer {
    request_id: RequestId,
    result: Box<RawValue>,
}

pub(crate) async fn result(State(app): State<App>, asked: RunInPath, query: Query) -> Result<Response, Problem> {
    let past = past(&app, &asked, query).await?;
    let state = past.as_ref().map_or(&asked.state, |past| &past.state);
    if !state.status().is_final() {
        return Err(Problem::result_not_ready(state));
    }
    let request_id = asked.request();
    let made = async {
        let result = app.orchestrator().log().result(&asked.state).await?;
        Ok(Json(Answer { request_id, result }).into_response())
    };
    app.room().make(made).await
}
