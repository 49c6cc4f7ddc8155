//! Refusals of the example client itself, in the form in which the service writes its own.

use axum::Json;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use serde_json::{Value, json};

use crate::domain::codes::ErrorCode;

/// Why the example client does not answer.
pub(super) fn refusal(status: StatusCode, code: ErrorCode, message: &str) -> Response {
    let error = json!({"code": code, "message": message, "details": Value::Null, "request_id": Value::Null});
    (status, Json(json!({"error": error}))).into_response()
}

/// The example client has no such route, and passes none of that name on.
pub(super) fn no_route(path: &str) -> Response {
    let path: String = path.chars().take(100).collect();
    let message = format!("the example client has no route {path:?}, and does not pass it on");
    refusal(StatusCode::NOT_FOUND, ErrorCode::RouteNotFound, &message)
}
