//! `/v1/backups`: copies of the data folder, made while the service runs.

use std::time::{Duration, Instant};

use axum::Json;
use axum::extract::State;
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::http::answer::problem::Problem;
use crate::http::request::json_body::JsonBody;
use crate::http::request::path_params::path_params;
use crate::http::request::query::Query;
use crate::http::request::wait::{MAX_WAIT_SECONDS, Waited, preference_applied, preferred_wait};
use crate::http::state::app::App;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Request {
    /// The name of the folder below `backup_dir`.
    name: String,
}

pub(crate) async fn begin(
    State(app): State<App>,
    mut query: Query,
    headers: HeaderMap,
    JsonBody(request, _): JsonBody<Request>,
) -> Result<Response, Problem> {
    let asked = query.whole("wait")?;
    query.finish()?;
    let preferred = preferred_wait(&headers);
    let mut backup = app.orchestrator().begin_backup(&request.name)?;
    let id = backup.backup_id;
    let began = Instant::now();
    let seconds = asked.or(preferred).filter(|seconds| *seconds > 0);
    if let Some(seconds) = seconds {
        let at_most = Duration::from_secs(seconds.min(MAX_WAIT_SECONDS));
        tokio::select! {
            // It has ended, or the wait is over and it is told as it is.
            _ = tokio::time::timeout(at_most, app.orchestrator().backup_ended(id)) => {}
            () = app.closed() => {}
        }
        // Another may have been begun since.
        backup = app.orchestrator().backup(&id.to_string()).unwrap_or(backup);
    }
    let mut response = (StatusCode::ACCEPTED, Json(json!(backup))).into_response();
    if seconds.is_some() {
        response.extensions_mut().insert(Waited(began.elapsed()));
    }
    let location = HeaderValue::from_str(&format!("/v1/backups/{id}")).ok();
    response.headers_mut().extend(location.map(|location| (Some(header::LOCATION), location)));
    if let Some(seconds) = preferred.filter(|_| asked.is_none()) {
        preference_applied(&mut response, seconds);
    }
    Ok(response)
}

pub(crate) async fn one(State(app): State<App>, mut parts: Parts) -> Result<Json<Value>, Problem> {
    let id = path_params(&mut parts).await?.remove("id").unwrap_or_default();
    Ok(Json(json!(app.orchestrator().backup(&id)?)))
}
