//! Writes the error envelope, with the request id of the run in the path if there is one.

use std::sync::Arc;

use axum::body::Body;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::Response;
use serde_json::json;
use uuid::Uuid;

use crate::domain::causes::chain;
use crate::domain::ids::RequestId;
use crate::http::answer::error_status::{answer, message};
use crate::http::answer::problem::Problem;

/// Whether a response carries a problem.
pub(crate) fn is_refusal(response: &Response) -> bool {
    response.extensions().get::<Arc<Problem>>().is_some()
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
        answer.details = json!({"log_id": log_id});
        "the request failed because of an internal error; the service's log has the cause under the log_id in details"
            .clone_into(&mut message);
    }
    let envelope = json!({"error": {
        "code": answer.code,
        "message": message,
        "details": answer.details,
        "request_id": request_id,
    }});
    *response.status_mut() = answer.status();
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    headers.remove(header::CONTENT_LENGTH);
    headers.extend(answer.header.map(|(name, value)| (Some(name), value)));
    *response.body_mut() = Body::from(envelope.to_string());
    response
}
