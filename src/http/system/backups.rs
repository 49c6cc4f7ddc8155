//! `/v1/backups`: copies of the data folder, made while the service runs.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use axum::http::request::Parts;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::http::answer::problem::Problem;
use crate::http::request::json_body::JsonBody;
use crate::http::request::path_params::path_params;
use crate::http::state::app::App;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Request {
    /// The name of the folder below `backup_dir`.
    name: String,
}

pub(crate) async fn begin(
    State(app): State<App>,
    JsonBody(request, _): JsonBody<Request>,
) -> Result<(StatusCode, Json<Value>), Problem> {
    let backup = app.orchestrator().begin_backup(&request.name)?;
    Ok((StatusCode::ACCEPTED, Json(json!(backup))))
}

pub(crate) async fn one(State(app): State<App>, mut parts: Parts) -> Result<Json<Value>, Problem> {
    let id = path_params(&mut parts).await?.remove("id").unwrap_or_default();
    Ok(Json(json!(app.orchestrator().backup(&id)?)))
}
