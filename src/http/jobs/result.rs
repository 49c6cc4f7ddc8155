//! `GET /v1/jobs/{id}/result`: the result of a finished run.

use axum::Json;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use serde_json::value::RawValue;

use crate::domain::ids::RequestId;
use crate::http::answer::problem::Problem;
use crate::http::request::run_in_path::RunInPath;
use crate::http::state::app::App;

/// The result is the text of its file, so that no number in it changes.
#[derive(Serialize)]
pub(crate) struct Answer {
    request_id: RequestId,
    result: Box<RawValue>,
}

pub(crate) async fn result(State(app): State<App>, asked: RunInPath) -> Result<Response, Problem> {
    let status = asked.state.status();
    if !status.is_final() {
        return Err(Problem::result_not_ready(&asked.state));
    }
    let request_id = asked.request();
    let made = async {
        let result = app.orchestrator().log().result(&asked.state).await?;
        Ok(Json(Answer { request_id, result }).into_response())
    };
    app.room().make(made).await
}
