//! Every "no" as an answer: the only place that knows status codes.

use std::sync::Arc;

use axum::body::Body;
use axum::http::{HeaderName, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde_json::{Value, json};
use tracing::error;
use uuid::Uuid;

use crate::domain::causes::chain;
use crate::domain::command::Refusal;
use crate::domain::event::ValidationError;
use crate::domain::ids::RequestId;
use crate::domain::statechart::Status;
use crate::orchestrator::Error;
use crate::skill::Finding;
use crate::store;
use crate::workspace::{LookupError, RangeError};

/// Seconds after which a client should try a full queue again.
const RETRY_AFTER: &str = "1";

/// Why a request is not answered with what it asked for.
#[derive(Debug, thiserror::Error)]
pub(super) enum Problem {
    #[error(transparent)]
    Orchestrator(#[from] Error),
    #[error(transparent)]
    Range(#[from] RangeError),
    #[error("the file {path:?} is not served: {source}")]
    File { path: String, source: LookupError },
    #[error("the file {path:?} is not shown: {source}")]
    RunFile { path: String, source: LookupError },
    #[error("no artifact has the path {path:?}; GET …/artifacts lists them")]
    ArtifactNotFound { path: String },
    #[error("the artifact path {path:?} is refused: {reason}")]
    UnsafePath { path: String, reason: &'static str },
    #[error("the body is not JSON: {reason}; correct it there and send it again")]
    InvalidJson { reason: String, line: usize, column: usize },
    #[error("{message}")]
    InvalidRequest { message: String, details: Vec<ValidationError> },
    #[error("the cursor {given:?} is not a whole number of 0 or more; send the id of the last event you have, or 0")]
    InvalidCursor { given: String },
    #[error("the content type {given:?} is not supported here; send {expected}")]
    UnsupportedMediaType { given: String, expected: &'static str },
    #[error("the body is larger than the limit of {limit} bytes")]
    BodyTooLarge { limit: u64 },
    #[error("the body could not be read to its end")]
    BodyBroken,
    #[error("no route leads to {path:?}; the API is under /v1, and the README lists its routes")]
    RouteNotFound { path: String },
    #[error("{method} is not allowed on {path:?}; the Allow header says what is")]
    MethodNotAllowed { method: String, path: String },
    #[error("a bearer token is needed: send the header Authorization: Bearer <token>")]
    Unauthorized,
    #[error("the host {host:?} is not served here; add it to allowed_hosts if it should be")]
    ForbiddenHost { host: String },
    #[error(
        "a page of the origin {origin:?} may not change anything here; send the request from a page of this service, or without Origin"
    )]
    ForbiddenOrigin { origin: String },
    #[error("the run is {}; its result comes with its end: follow …/events, or ask again", status.as_str())]
    ResultNotReady { status: Status },
    #[error("the run is {}; its bundle comes with its end: follow …/events, or ask again", status.as_str())]
    BundleNotReady { status: Status },
    #[error("the range lies outside the file of {size} bytes; ask for one inside it")]
    RangeNotSatisfiable { size: u64 },
    #[error("no skill {id:?} is installed: its folder is not a valid skill; correct what the findings name")]
    SkillInvalid { id: String, findings: Vec<Finding> },
    #[error("no engine is called {engine:?}; GET /v1/engines lists them")]
    EngineNotFound { engine: String },
    #[error("no installation has the id {id:?}")]
    InstallNotFound { id: String },
    #[error("no upgrade has the id {id:?}")]
    UpgradeNotFound { id: String },
    #[error("{limit} upgrades are under way; try again when one has ended")]
    UpgradesBusy { limit: usize },
    #[error("a file of the engines: {path}")]
    EngineFile {
        path: String,
        #[source]
        source: std::io::Error,
    },
    #[error("a name and a password are needed: send the header Authorization: Basic <name:password>")]
    LoginNeeded,
    #[error("the service is shutting down and takes no new requests")]
    Closing,
    #[error("the handler panicked")]
    Panicked,
}

impl Problem {
    /// One value of the request is wrong.
    pub fn invalid(path: &str, message: impl Into<String>) -> Self {
        let message = message.into();
        let details = vec![ValidationError { path: path.to_owned(), message: message.clone() }];
        let name = path.trim_start_matches('/');
        Problem::InvalidRequest { message: format!("{name}: {message}"), details }
    }
}

/// A problem as clients see it.
struct Answer {
    status: StatusCode,
    code: &'static str,
    details: Value,
    header: Option<(HeaderName, HeaderValue)>,
}

fn plain(status: StatusCode, code: &'static str) -> Answer {
    detailed(status, code, json!({}))
}

fn detailed(status: StatusCode, code: &'static str, details: Value) -> Answer {
    Answer { status, code, details, header: None }
}

fn internal() -> Answer {
    plain(StatusCode::INTERNAL_SERVER_ERROR, "INTERNAL")
}

fn validation(code: &'static str, details: &[ValidationError]) -> Answer {
    let details = if details.is_empty() { json!({}) } else { json!(details) };
    detailed(StatusCode::BAD_REQUEST, code, details)
}

fn answer(problem: &Problem) -> Answer {
    match problem {
        Problem::Orchestrator(error) => orchestrator(error),
        Problem::Range(RangeError::Reversed { .. }) => plain(StatusCode::BAD_REQUEST, "INVALID_REQUEST"),
        Problem::Range(RangeError::BeyondEnd { total_bytes, .. }) => unsatisfiable(*total_bytes),
        Problem::Range(RangeError::Io(_)) => internal(),
        Problem::File { source, .. } => match source {
            LookupError::Unsafe { .. } => plain(StatusCode::BAD_REQUEST, "UNSAFE_PATH"),
            LookupError::NotFound | LookupError::NotAFile => plain(StatusCode::NOT_FOUND, "ARTIFACT_NOT_FOUND"),
            LookupError::Io { .. } => internal(),
        },
        Problem::RunFile { source, .. } => match source {
            LookupError::Unsafe { .. } => plain(StatusCode::BAD_REQUEST, "UNSAFE_PATH"),
            LookupError::NotFound | LookupError::NotAFile => plain(StatusCode::NOT_FOUND, "FILE_NOT_FOUND"),
            LookupError::Io { .. } => internal(),
        },
        Problem::ArtifactNotFound { .. } => plain(StatusCode::NOT_FOUND, "ARTIFACT_NOT_FOUND"),
        Problem::UnsafePath { .. } => plain(StatusCode::BAD_REQUEST, "UNSAFE_PATH"),
        Problem::InvalidJson { line, column, .. } => {
            detailed(StatusCode::BAD_REQUEST, "INVALID_JSON", json!({"line": line, "column": column}))
        }
        Problem::InvalidRequest { details, .. } => validation("INVALID_REQUEST", details),
        Problem::InvalidCursor { .. } => plain(StatusCode::BAD_REQUEST, "INVALID_CURSOR"),
        Problem::UnsupportedMediaType { .. } => plain(StatusCode::UNSUPPORTED_MEDIA_TYPE, "UNSUPPORTED_MEDIA_TYPE"),
        Problem::BodyTooLarge { limit } => {
            detailed(StatusCode::PAYLOAD_TOO_LARGE, "PAYLOAD_TOO_LARGE", json!({"limit_bytes": limit}))
        }
        Problem::BodyBroken => plain(StatusCode::BAD_REQUEST, "INVALID_REQUEST"),
        Problem::RouteNotFound { .. } => plain(StatusCode::NOT_FOUND, "ROUTE_NOT_FOUND"),
        Problem::MethodNotAllowed { .. } => plain(StatusCode::METHOD_NOT_ALLOWED, "METHOD_NOT_ALLOWED"),
        Problem::Unauthorized => Answer {
            header: Some((header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"))),
            ..plain(StatusCode::UNAUTHORIZED, "UNAUTHORIZED")
        },
        Problem::ForbiddenHost { .. } => plain(StatusCode::FORBIDDEN, "FORBIDDEN_HOST"),
        Problem::ForbiddenOrigin { .. } => plain(StatusCode::FORBIDDEN, "FORBIDDEN_ORIGIN"),
        Problem::ResultNotReady { status } => {
            detailed(StatusCode::CONFLICT, "RESULT_NOT_READY", json!({"status": status}))
        }
        Problem::BundleNotReady { status } => {
            detailed(StatusCode::CONFLICT, "BUNDLE_NOT_READY", json!({"status": status}))
        }
        Problem::RangeNotSatisfiable { size } => unsatisfiable(*size),
        Problem::SkillInvalid { findings, .. } => {
            detailed(StatusCode::NOT_FOUND, "SKILL_NOT_FOUND", json!({"findings": findings}))
        }
        Problem::EngineNotFound { .. } => plain(StatusCode::NOT_FOUND, "ENGINE_NOT_FOUND"),
        Problem::InstallNotFound { .. } => plain(StatusCode::NOT_FOUND, "INSTALL_NOT_FOUND"),
        Problem::UpgradeNotFound { .. } => plain(StatusCode::NOT_FOUND, "UPGRADE_NOT_FOUND"),
        Problem::UpgradesBusy { limit } => Answer {
            header: Some((header::RETRY_AFTER, HeaderValue::from_static(RETRY_AFTER))),
            ..detailed(StatusCode::TOO_MANY_REQUESTS, "QUEUE_FULL", json!({"max_upgrades": limit}))
        },
        Problem::EngineFile { .. } => internal(),
        Problem::LoginNeeded => Answer {
            header: Some((header::WWW_AUTHENTICATE, HeaderValue::from_static("Basic"))),
            ..plain(StatusCode::UNAUTHORIZED, "UNAUTHORIZED")
        },
        Problem::Closing => plain(StatusCode::SERVICE_UNAVAILABLE, "SHUTTING_DOWN"),
        Problem::Panicked => internal(),
    }
}

fn unsatisfiable(size: u64) -> Answer {
    Answer {
        header: HeaderValue::from_str(&format!("bytes */{size}")).ok().map(|value| (header::CONTENT_RANGE, value)),
        ..detailed(StatusCode::RANGE_NOT_SATISFIABLE, "RANGE_NOT_SATISFIABLE", json!({"total_bytes": size}))
    }
}

fn orchestrator(error: &Error) -> Answer {
    match error {
        Error::Refused(refusal) => refused(refusal),
        Error::Rejected { code: "PAYLOAD_TOO_LARGE", .. } => plain(StatusCode::PAYLOAD_TOO_LARGE, "PAYLOAD_TOO_LARGE"),
        Error::Rejected { code, details, .. } => validation(code, details),
        Error::RunNotFound { .. } => plain(StatusCode::NOT_FOUND, "REQUEST_NOT_FOUND"),
        Error::SkillNotFound { .. } => plain(StatusCode::NOT_FOUND, "SKILL_NOT_FOUND"),
        Error::PackageInvalid { findings } => {
            detailed(StatusCode::BAD_REQUEST, "SKILL_PACKAGE_INVALID", json!({"findings": findings}))
        }
        Error::IdempotencyConflict => plain(StatusCode::CONFLICT, "IDEMPOTENCY_CONFLICT"),
        Error::QueueFull { limit } => Answer {
            header: Some((header::RETRY_AFTER, HeaderValue::from_static(RETRY_AFTER))),
            ..detailed(StatusCode::TOO_MANY_REQUESTS, "QUEUE_FULL", json!({"max_queued_jobs": limit}))
        },
        Error::InstallsBusy { limit } => Answer {
            header: Some((header::RETRY_AFTER, HeaderValue::from_static(RETRY_AFTER))),
            ..detailed(StatusCode::TOO_MANY_REQUESTS, "QUEUE_FULL", json!({"max_installs": limit}))
        },
        Error::ShuttingDown => plain(StatusCode::SERVICE_UNAVAILABLE, "SHUTTING_DOWN"),
        Error::InsufficientStorage { free, floor } => detailed(
            StatusCode::INSUFFICIENT_STORAGE,
            "INSUFFICIENT_STORAGE",
            json!({"free_bytes": free, "min_free_bytes": floor}),
        ),
        Error::SeqOutOfRange { head, .. } => {
            detailed(StatusCode::BAD_REQUEST, "SEQ_OUT_OF_RANGE", json!({"head_seq": head}))
        }
        Error::FieldNotFound { .. } => plain(StatusCode::NOT_FOUND, "FIELD_NOT_FOUND"),
        Error::NotReady => plain(StatusCode::CONFLICT, "RESULT_NOT_READY"),
        Error::Store(error) => stored(error),
        Error::Contract(_) | Error::Corrupt { .. } | Error::Io { .. } => internal(),
    }
}

fn refused(refusal: &Refusal) -> Answer {
    match refusal {
        Refusal::RunFinal { status } => detailed(StatusCode::CONFLICT, "RUN_FINAL", json!({"status": status})),
        Refusal::AlreadyUploaded => plain(StatusCode::CONFLICT, "ALREADY_UPLOADED"),
        Refusal::NotInteractive => plain(StatusCode::BAD_REQUEST, "NOT_INTERACTIVE"),
        Refusal::InteractionStale { open, .. } => {
            detailed(StatusCode::CONFLICT, "INTERACTION_STALE", json!({"pending_interaction_id": open}))
        }
        Refusal::InteractionNotPending { status } => {
            detailed(StatusCode::CONFLICT, "INTERACTION_NOT_PENDING", json!({"status": status}))
        }
        Refusal::ResponseInvalid { flaws, .. } => {
            detailed(StatusCode::BAD_REQUEST, "INPUT_VALIDATION_FAILED", json!(flaws))
        }
        Refusal::IdempotencyConflict => plain(StatusCode::CONFLICT, "IDEMPOTENCY_CONFLICT"),
        // No request of a client leads here: the handlers ask only for moves that exist.
        Refusal::Illegal { .. } => internal(),
    }
}

fn stored(error: &store::Error) -> Answer {
    match error {
        store::Error::TooLarge { limit, .. } => {
            detailed(StatusCode::PAYLOAD_TOO_LARGE, "PAYLOAD_TOO_LARGE", json!({"limit_bytes": limit}))
        }
        store::Error::Full { available, .. } => {
            detailed(StatusCode::INSUFFICIENT_STORAGE, "INSUFFICIENT_STORAGE", json!({"free_bytes": available}))
        }
        store::Error::Closed => plain(StatusCode::SERVICE_UNAVAILABLE, "SHUTTING_DOWN"),
        store::Error::Conflict { .. }
        | store::Error::Taken { .. }
        | store::Error::Malformed { .. }
        | store::Error::Unavailable { .. }
        | store::Error::Corrupt { .. }
        | store::Error::CorruptFile { .. }
        | store::Error::Locked { .. }
        | store::Error::Format { .. }
        | store::Error::Io { .. }
        | store::Error::Engine { .. } => internal(),
    }
}

impl IntoResponse for Problem {
    /// The problem travels with the response; [`finish`] writes it out, because only there the request id is known.
    fn into_response(self) -> Response {
        let mut response = StatusCode::INTERNAL_SERVER_ERROR.into_response();
        response.extensions_mut().insert(Arc::new(self));
        response
    }
}

/// Whether a response carries a problem.
pub(super) fn is_refusal(response: &Response) -> bool {
    response.extensions().get::<Arc<Problem>>().is_some()
}

/// Write the error envelope of a response that carries a problem; any other passes.
pub(super) fn finish(mut response: Response, request_id: Option<RequestId>) -> Response {
    let Some(problem) = response.extensions_mut().remove::<Arc<Problem>>() else { return response };
    let mut answer = answer(&problem);
    let mut message = problem.to_string();
    if answer.status == StatusCode::INTERNAL_SERVER_ERROR {
        let log_id = Uuid::now_v7();
        error!(log.id = %log_id, error = %chain(&*problem), "a request failed");
        answer.details = json!({"log_id": log_id});
        "the service failed; its log tells why under the log_id in details".clone_into(&mut message);
    }
    let envelope = json!({"error": {
        "code": answer.code,
        "message": message,
        "details": answer.details,
        "request_id": request_id,
    }});
    *response.status_mut() = answer.status;
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    headers.remove(header::CONTENT_LENGTH);
    headers.extend(answer.header.map(|(name, value)| (Some(name), value)));
    *response.body_mut() = Body::from(envelope.to_string());
    response
}
