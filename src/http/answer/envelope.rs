//! Writes the error envelope, with the request id of the run in the path if there is one.

use std::sync::Arc;

use axum::body::Body;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::Response;
use serde_json::{Value, json};
use uuid::Uuid;

use crate::domain::causes::chain;
use crate::domain::codes::ErrorCode;
use crate::domain::ids::RequestId;
use crate::http::answer::error_status::{answer, message};
use crate::http::answer::problem::Problem;

/// Whether a response carries a problem.
pub(crate) fn is_refusal(response: &Response) -> bool {
    response.extensions().get::<Arc<Problem>>().is_some()
}

/// The status of the problem that a response carries.
pub(crate) fn refusal_status(response: &Response) -> Option<StatusCode> {
    response.extensions().get::<Arc<Problem>>().map(|problem| answer(problem).status())
}

/// Why a request failed with 500: for the log, where the client's `log_id` leads to it.
#[derive(Debug)]
pub(crate) struct Cause {
    pub(crate) log_id: Uuid,
    pub(crate) text: String,
}

/// Writes the error envelope of a response that carries a problem; other responses are not changed.
pub(crate) fn finish(mut response: Response, request_id: Option<RequestId>) -> Response {
    let Some(problem) = response.extensions_mut().remove::<Arc<Problem>>() else { return response };
    let mut answer = answer(&problem);
    let mut message = message(&problem);
    if answer.status() == StatusCode::INTERNAL_SERVER_ERROR {
        let log_id = Uuid::now_v7();
        // Logged by the span of the request, in one line with status and duration.
        response.extensions_mut().insert(Arc::new(Cause { log_id, text: chain(&*problem) }));
        match &mut answer.details {
            // Which file is damaged is told: an operator has to restore it.
            Value::Object(details) if answer.code == ErrorCode::DataCorrupt => {
                details.insert("log_id".into(), json!(log_id));
            }
            details => {
                *details = json!({"log_id": log_id});
                "the request failed because of an internal error; the service's log has the cause under the log_id in details"
                    .clone_into(&mut message);
            }
        }
    }
    *response.status_mut() = answer.status();
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    headers.remove(header::CONTENT_LENGTH);
    headers.extend(answer.header.map(|(name, value)| (Some(name), value)));
    *response.body_mut() = Body::from(envelope(answer.code, &message, &answer.details, request_id));
    response
}

fn envelope(code: ErrorCode, message: &str, details: &Value, request_id: Option<RequestId>) -> String {
    let error = json!({"code": code, "message": message, "details": details, "request_id": request_id});
    json!({"error": error}).to_string()
}

/// The whole answer to a request that no handler gets to see, after which the connection is closed.
pub(crate) fn written(problem: &Problem) -> Vec<u8> {
    let answer = answer(problem);
    let body = envelope(answer.code, &message(problem), &answer.details, None);
    let status = answer.status();
    let mut head = format!(
        "HTTP/1.1 {} {}\r\ncontent-type: application/json\r\ncontent-length: {}\r\nconnection: close\r\nx-content-type-options: nosniff\r\n",
        status.as_str(),
        status.canonical_reason().unwrap_or_default(),
        body.len()
    );
    if let Some((name, value)) = &answer.header {
        head.push_str(&format!("{name}: {}\r\n", value.to_str().unwrap_or_default()));
    }
    format!("{head}\r\n{body}").into_bytes()
}
